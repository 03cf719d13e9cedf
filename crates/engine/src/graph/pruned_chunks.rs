//! Chunks that zone maps leave of a table, which executions of one kept plan have in common.

use datafusion::common::tree_node::TreeNode;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::scalar_subquery::ScalarSubqueryExpr;
use datafusion::physical_expr_common::physical_expr::snapshot_generation;
use galatea_store::{TableId, TableView};
use parking_lot::Mutex;
use std::sync::Arc;

/// The chunks that may hold rows which pass a pipeline's predicates, of the version of its table that was
/// asked last. Versions have the same chunks with the same bounds for as long as they live, however their
/// columns are encoded.
#[derive(Debug, Clone, Default)]
pub struct PrunedChunks(Arc<Mutex<Option<Pruned>>>);

#[derive(Debug)]
struct Pruned {
    version: TableId,
    chunks: Vec<usize>,
}

impl PrunedChunks {
    /// The chunks of a view, as `prune` finds them; `predicates`: what it judges them by.
    pub(crate) fn of(
        &self,
        view: &TableView,
        predicates: &[Arc<dyn PhysicalExpr>],
        prune: impl FnOnce() -> Vec<usize>,
    ) -> Vec<usize> {
        if predicates.is_empty() {
            return prune();
        }
        if let Some(pruned) = &*self.0.lock()
            && pruned.version == view.id
        {
            return pruned.chunks.clone();
        }
        let chunks = prune();
        if predicates.iter().all(is_constant) {
            *self.0.lock() = Some(Pruned {
                version: view.id,
                chunks: chunks.clone(),
            });
        }
        chunks
    }
}

/// Whether an expression means the same for all executions.
fn is_constant(predicate: &Arc<dyn PhysicalExpr>) -> bool {
    let subquery = predicate.exists(|part| Ok(part.is::<ScalarSubqueryExpr>()));
    snapshot_generation(predicate) == 0 && !subquery.unwrap_or(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::Schema;
    use datafusion::physical_expr::expressions::{DynamicFilterPhysicalExpr, lit};

    fn view() -> TableView {
        TableView {
            id: TableId::next(),
            schema: Arc::new(Schema::empty()),
            rows: 3,
            chunk_rows: vec![1; 3],
            columns: Vec::new(),
        }
    }

    #[test]
    fn chunks_are_found_once_for_a_version() {
        let chunks = PrunedChunks::default();
        let (first, second) = (view(), view());
        assert_eq!(chunks.of(&first, &[lit(true)], || vec![1]), [1]);
        let copy = chunks.clone();
        assert_eq!(
            copy.of(&first, &[lit(true)], || unreachable!("they are known")),
            [1]
        );
        assert_eq!(copy.of(&second, &[lit(true)], || vec![0, 2]), [0, 2]);
        assert_eq!(
            chunks.of(&second, &[lit(true)], || unreachable!("they are known")),
            [0, 2]
        );
    }

    #[test]
    fn predicates_that_change_are_judged_each_time() {
        let filter: Arc<dyn PhysicalExpr> = Arc::new(DynamicFilterPhysicalExpr::new(Vec::new(), lit(true)));
        let (chunks, view) = (PrunedChunks::default(), view());
        assert_eq!(chunks.of(&view, &[Arc::clone(&filter)], || vec![1]), [1]);
        assert_eq!(chunks.of(&view, &[filter], || vec![2]), [2]);
    }
}
