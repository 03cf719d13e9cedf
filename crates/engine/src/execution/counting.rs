//! Counts the rows of partitions before a pipeline runs out of core. Executions of one cached plan over the
//! same tables count once.

use super::cut::Cut;
use super::error::Failure;
use super::executor::Executor;
use super::shared_builds::SharedBuilds;
use crate::graph::{CountInputs, KeptCounts, OutOfCoreMemory, PipelineRef, PipelineSource, counting};
use crate::joins::build_table::SideRows;
use crate::results::queue::ResultQueue;
use arrow::array::{AsArray, RecordBatch};
use arrow::compute::sum;
use arrow::datatypes::{Int32Type, Int64Type};
use galatea_codegen::PipelinePlan;
use galatea_expression::{BUCKETS, Expr};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

impl Executor<'_> {
    /// Counts the rows of a pipeline that pass these filters by the hash bucket of their keys. `kept`
    /// contains the counts of earlier executions.
    pub(super) async fn rows_by_hash(
        &self,
        pipeline: PipelineRef<'_>,
        filters: &[Expr],
        (key, spreads): (&Expr, bool),
        kept: &KeptCounts,
    ) -> Result<Vec<u64>, Failure> {
        let counting = counting(pipeline, filters, key, spreads);
        let batches = self.counted(counting.pipeline(pipeline.id()), kept).await?;
        let mut rows = vec![0; BUCKETS as usize];
        for batch in batches {
            let parts = batch.column(0).as_primitive::<Int32Type>().values();
            let counts = batch.column(1).as_primitive::<Int64Type>().values();
            for (part, count) in parts.iter().zip(counts) {
                rows[*part as usize] += *count as u64;
            }
        }
        Ok(rows)
    }

    /// The maximum number of rows of a pipeline that reach its sink in all partitions of its rows. If the
    /// sink has a slot for each match of the join, they are counted.
    pub(super) async fn rows_of_sink(&self, pipeline: PipelineRef<'_>, cut: &Cut) -> Result<u64, Failure> {
        if !cut.state.has_slots(pipeline) {
            return Ok(cut.scanned_by_all());
        }
        let mut graph = pipeline.graph().clone();
        let counting = graph.pipeline_mut(pipeline.id());
        counting.plan = PipelinePlan::counts(pipeline.plan.filters.clone(), None);
        counting.fetch = None;
        counting.out_of_core = OutOfCoreMemory::default();
        let batches = self
            .counted(graph.pipeline(pipeline.id()), &pipeline.counts)
            .await?;
        let rows = |batch: &RecordBatch| sum(batch.column(0).as_primitive::<Int64Type>()).unwrap_or(0);
        Ok(batches.iter().map(|batch| rows(batch) as u64).sum())
    }

    /// The rows that a counting pipeline returns, or that it returned in an earlier execution over the same
    /// inputs.
    pub(super) async fn counted(
        &self,
        counting: PipelineRef<'_>,
        kept: &KeptCounts,
    ) -> Result<Vec<RecordBatch>, Failure> {
        let inputs = self.count_inputs(counting).await?;
        if let Some(counts) = inputs.as_ref().and_then(|inputs| kept.get(inputs)) {
            return Ok(counts);
        }
        let queue = Arc::new(ResultQueue::whole());
        let executor = Executor {
            result: &queue,
            returns: counting.id(),
            builds: Mutex::default(),
            shared: SharedBuilds::default(),
            ready: Arc::clone(&self.ready),
            cancelled: Arc::clone(&self.cancelled),
            ..*self
        };
        executor.run(counting, false).await?;
        let counts: Vec<RecordBatch> = std::iter::from_fn(|| queue.next()).collect();
        if let Some(inputs) = inputs {
            kept.keep(inputs, &counts);
        }
        Ok(counts)
    }

    /// The inputs of a counting pipeline. `None` if CPU operators compute rows that it or a pipeline below it
    /// scans: each execution computes them anew.
    async fn count_inputs(&self, counting: PipelineRef<'_>) -> Result<Option<CountInputs>, Failure> {
        let mut pipelines = Vec::new();
        counting.each_below(&mut |pipeline| pipelines.push(pipeline));
        let mut inputs = CountInputs::default();
        for pipeline in pipelines {
            let plan = pipeline.plan.resolved().map_err(Failure::Input)?;
            if matches!(pipeline.source, PipelineSource::Plan(_)) {
                return Ok(None);
            }
            let mut sides = BTreeMap::new();
            for (number, side) in pipeline.build_sides.iter().enumerate() {
                if side.build.is_some() {
                    continue;
                }
                let rows = self.side(pipeline, number, plan.lookups_of(number)).await?;
                if let SideRows::Collected(rows) = rows {
                    inputs.rows.push(Arc::clone(&rows));
                    sides.insert(number, rows);
                }
            }
            if let PipelineSource::Stored(_) | PipelineSource::Files { .. } = pipeline.source {
                let matches = pipeline.match_bounds(&plan, |number| sides.get(&number)?.key_range());
                let view = self
                    .load(&pipeline, &plan, &matches)
                    .await
                    .map_err(Failure::Store)?;
                inputs.tables.push(view.id);
            }
            inputs.plans.push(plan);
        }
        Ok(Some(inputs))
    }
}
