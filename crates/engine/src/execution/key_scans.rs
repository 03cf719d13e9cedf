//! Scans of the keys of build sides on the device, before they are built ([`KeyScan`]).
//!
//! A range of keys holds for the rows of a build side while its files are unchanged. A run takes their stamps
//! before any of its pipelines runs, and compares them when the build side is complete.

use super::executor::Executor;
use super::source::file_table;
use crate::graph::{KeyBounds, KeyScan, PipelineGraph, PipelineRef, PipelineSource};
use crate::joins::build_table::SideRows;
use galatea_codegen::PipelinePlan;
use galatea_store::{FileStamp, LoadHints};
use std::ops::RangeInclusive;

impl Executor<'_> {
    /// Takes the stamps of the files of those key scans that are `wanted`.
    pub(super) fn stamp_key_scans(&self, graph: &PipelineGraph, wanted: fn(&KeyScan) -> bool) {
        let mut ready = self.ready.lock();
        for pipeline in graph.pipelines() {
            for (number, side) in pipeline.build_sides.iter().enumerate() {
                let scan = side.key_scan.as_ref().filter(|scan| wanted(scan));
                if let Some(stamps) = scan.and_then(KeyScan::stamps) {
                    ready.key_stamps.insert((pipeline.id(), number), stamps);
                }
            }
        }
    }

    /// The key scan of a build side, with the stamps of its files when the run began.
    fn key_scan<'p>(
        &self,
        pipeline: PipelineRef<'p>,
        number: usize,
    ) -> Option<(&'p KeyScan, Vec<FileStamp>)> {
        let scan = pipeline.get().build_sides[number].key_scan.as_ref()?;
        let ready = self.ready.lock();
        let stamps = ready.key_stamps.get(&(pipeline.id(), number))?;
        Some((scan, stamps.clone()))
    }

    /// The bounds of the columns of a pipeline's table that the keys of its complete build sides imply.
    pub(super) fn bounds_of_matches(
        &self,
        pipeline: PipelineRef<'_>,
        plan: &PipelinePlan,
        sides: &[SideRows],
    ) -> Vec<KeyBounds> {
        pipeline.match_bounds(plan, |number| {
            let rows = sides.get(number)?;
            rows.key_range().or_else(|| self.scanned_keys(pipeline, number))
        })
    }

    /// The range of the keys of a build side that a scan has found, if its files have not changed since the
    /// run began.
    fn scanned_keys(&self, pipeline: PipelineRef<'_>, number: usize) -> Option<RangeInclusive<i128>> {
        let (scan, stamps) = self.key_scan(pipeline, number)?;
        let found = scan.found(&stamps)?;
        (scan.stamps().as_ref() == Some(&stamps)).then_some(found)
    }

    /// Like [`Self::scanned_keys`]. If no scan has run, it runs here, unless the pipeline loads nothing or
    /// the looked-up column is not clustered. `number` is that of the build side, `column` the looked-up
    /// column.
    pub(super) async fn scan_keys(
        &self,
        pipeline: PipelineRef<'_>,
        plan: &PipelinePlan,
        (number, column): (usize, usize),
    ) -> Option<RangeInclusive<i128>> {
        let (scan, stamps) = self.key_scan(pipeline, number)?;
        if !scan.has_run(&stamps) {
            if !self.loads_clustered(pipeline, plan, column).await {
                return None;
            }
            let side = &pipeline.get().build_sides[number];
            let run = async {
                let rows = self.session.finished(side.plan.instance()?, self.context)?;
                scan.run(rows, &side.key, stamps.clone(), self.context).await
            };
            if let Err(error) = run.await {
                tracing::debug!(%error, "the keys of a build side were not scanned");
                return None;
            }
            if let (Some(rows), Some(keys)) = (side.rows_key, scan.found(&stamps)) {
                self.session.engine().history().found_keys(rows, keys);
            }
        }
        self.scanned_keys(pipeline, number)
    }

    /// Whether the pipeline has to load columns of its files, and `column` is clustered in them.
    async fn loads_clustered(&self, pipeline: PipelineRef<'_>, plan: &PipelinePlan, column: usize) -> bool {
        let PipelineSource::Files { scan, table } = &pipeline.source else {
            return false;
        };
        let Ok(table) = file_table(self.session, (scan, table), self.context) else {
            return false;
        };
        let columns: Vec<usize> = plan.columns().into_iter().collect();
        let hints = LoadHints::with_dictionaries(plan.dictionary_columns().into_iter().collect());
        table.kept(&columns, &hints).is_none() && table.is_clustered(column).await
    }
}
