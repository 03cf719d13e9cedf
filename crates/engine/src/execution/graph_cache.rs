//! Tables and collected rows that a graph keeps: those needed to compile its kernels, before its pipelines
//! run, and those that may be needed again when a pipeline runs in partitions.

use super::error::Failure;
use crate::graph::{KeyBounds, PipelineId};
use crate::joins::build_table::BuiltTable;
use galatea_expression::LookupSide;
use galatea_store::{FileStamp, TableView};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Tables and rows kept for the pipelines of a graph.
#[derive(Debug, Default)]
pub(crate) struct Ready {
    /// Tables, each with the bounds of its load: rows outside of them may be missing.
    pub views: HashMap<PipelineId, (TableView, Vec<KeyBounds>)>,
    /// Tables with these columns, for pipelines that run once per partition and need the same rows each time:
    /// CPU operators run once, and numbers of rows are compared between partitions.
    kept_views: HashMap<(PipelineId, Vec<usize>), TableView>,
    /// The pipelines with kept tables.
    kept: HashSet<PipelineId>,
    /// Rows by the pipeline that looks them up and the number of its build side.
    rows: HashMap<(PipelineId, usize), KeptRows>,
    /// The stamps of the files of [`KeyScan`](crate::graph::KeyScan)s when the run began, by the pipeline
    /// that looks the keys up and the number of its build side.
    pub(super) key_stamps: HashMap<(PipelineId, usize), Vec<FileStamp>>,
    /// The matches of a partition, by the pipeline that would compute all matches.
    matches: Option<(PipelineId, BuiltTable)>,
}

/// Rows with these columns, or the failure to collect them.
type KeptRows = (Vec<usize>, Result<Arc<LookupSide>, Failure>);

impl Ready {
    /// Takes the table of a pipeline, unless it was loaded with other bounds than `matches`.
    pub(super) fn view(&mut self, pipeline: PipelineId, matches: Option<&[KeyBounds]>) -> Option<TableView> {
        let (view, bounds) = self.views.remove(&pipeline)?;
        let is_usable = bounds.is_empty() || matches.is_none_or(|matches| bounds == matches);
        is_usable.then_some(view)
    }

    /// The rows of a build side, if they were collected with these columns; `None` inside if that failed.
    pub(super) fn collected(
        &self,
        at: (PipelineId, usize),
        wanted: &[usize],
    ) -> Option<Option<Arc<LookupSide>>> {
        let (columns, rows) = self.rows.get(&at)?;
        let whole = wanted.iter().all(|column| columns.contains(column));
        match rows {
            Ok(rows) => whole.then(|| Some(Arc::clone(rows))),
            Err(_) => Some(None),
        }
    }

    /// Keeps the table that this pipeline scans, from the next load on.
    pub(super) fn keep(&mut self, pipeline: PipelineId) {
        self.kept.insert(pipeline);
    }

    /// The kept table of a pipeline with these columns.
    pub(super) fn kept_view(&self, pipeline: PipelineId, columns: &[usize]) -> Option<TableView> {
        self.kept_views.get(&(pipeline, columns.to_vec())).cloned()
    }

    /// Keeps a table with these columns, if the pipeline needs the same rows again.
    pub(super) fn keep_view(&mut self, pipeline: PipelineId, columns: Vec<usize>, view: &TableView) {
        if self.kept.contains(&pipeline) {
            self.kept_views.insert((pipeline, columns), view.clone());
        }
    }

    /// Leaves the matches of a partition in the place of all matches that this pipeline would compute.
    pub(super) fn leave_matches(&mut self, pipeline: PipelineId, matches: BuiltTable) {
        self.matches = Some((pipeline, matches));
    }

    /// Takes the matches of a partition, if they are in the place of this pipeline.
    pub(super) fn take_matches(&mut self, pipeline: PipelineId) -> Option<BuiltTable> {
        let of_pipeline = |matches: &mut (PipelineId, BuiltTable)| matches.0 == pipeline;
        let matches = self.matches.take_if(of_pipeline);
        matches.map(|(_, matches)| matches)
    }

    /// Keeps the rows of a build side with these columns, or the failure to collect them.
    pub(super) fn keep_rows(
        &mut self,
        at: (PipelineId, usize),
        columns: Vec<usize>,
        rows: Result<Arc<LookupSide>, Failure>,
    ) {
        self.rows.insert(at, (columns, rows));
    }

    /// The rows of a build side with these columns, or the failure to collect them, which is returned once.
    pub(super) fn rows(
        &mut self,
        at: (PipelineId, usize),
        wanted: &[usize],
    ) -> Option<Result<Arc<LookupSide>, Failure>> {
        match self.rows.get(&at)? {
            (columns, Ok(rows)) => {
                let whole = wanted.iter().all(|column| columns.contains(column));
                whole.then(|| Ok(Arc::clone(rows)))
            }
            (_, Err(_)) => self.rows.remove(&at).map(|(_, rows)| rows),
        }
    }
}
