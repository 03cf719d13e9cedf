//! What a graph has before its pipelines run: tables and rows that were needed to compile its kernels.

use super::error::Failure;
use crate::expression::Dimension;
use galatea_store::TableView;
use std::collections::HashMap;
use std::sync::Arc;

/// What was made ready for the pipelines of a graph, by their place in it, see
/// [`RunReport::side`](super::RunReport::side).
#[derive(Debug, Default)]
pub(super) struct Ready {
    pub views: HashMap<Vec<usize>, TableView>,
    pub rows: HashMap<Vec<usize>, Result<Arc<Dimension>, Failure>>,
}

impl Ready {
    /// The table of the pipeline there, once.
    pub(super) fn view(&mut self, at: &[usize]) -> Option<TableView> {
        self.views.remove(at)
    }

    /// The rows of the build side there, once, or why it has none: its plan may run once alone.
    pub(super) fn rows(&mut self, at: &[usize]) -> Option<Result<Arc<Dimension>, Failure>> {
        self.rows.remove(at)
    }
}
