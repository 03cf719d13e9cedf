//! What a graph keeps of its tables and collected rows: those that were needed to compile its kernels, before
//! its pipelines run, and those that may be needed again when a pipeline runs in parts.

use super::error::Failure;
use crate::graph::PipelineId;
use galatea_expression::Dimension;
use galatea_store::TableView;
use std::collections::HashMap;
use std::sync::Arc;

/// What is kept for the pipelines of a graph.
#[derive(Debug, Default)]
pub(crate) struct Ready {
    pub views: HashMap<PipelineId, TableView>,
    /// By the pipeline that looks them up, and the number of its build side.
    rows: HashMap<(PipelineId, usize), KeptRows>,
}

/// Rows with these columns, or why there are none.
type KeptRows = (Vec<usize>, Result<Arc<Dimension>, Failure>);

impl Ready {
    /// The table of a pipeline, once.
    pub(super) fn view(&mut self, pipeline: PipelineId) -> Option<TableView> {
        self.views.remove(&pipeline)
    }

    /// Keeps the rows of the build side there, with these columns, or why it has none.
    pub(super) fn keep_rows(
        &mut self,
        at: (PipelineId, usize),
        columns: Vec<usize>,
        rows: Result<Arc<Dimension>, Failure>,
    ) {
        self.rows.insert(at, (columns, rows));
    }

    /// The rows of the build side there with these columns, or why it has none, which is said once.
    pub(super) fn rows(
        &mut self,
        at: (PipelineId, usize),
        wanted: &[usize],
    ) -> Option<Result<Arc<Dimension>, Failure>> {
        match self.rows.get(&at)? {
            (columns, Ok(rows)) => {
                let whole = wanted.iter().all(|column| columns.contains(column));
                whole.then(|| Ok(Arc::clone(rows)))
            }
            (_, Err(_)) => self.rows.remove(&at).map(|(_, rows)| rows),
        }
    }
}
