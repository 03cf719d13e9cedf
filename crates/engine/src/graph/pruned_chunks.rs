//! Chunks of a table left by zone maps, which executions of one cached plan share.

use datafusion::common::tree_node::TreeNode;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::scalar_subquery::ScalarSubqueryExpr;
use datafusion::physical_expr_common::physical_expr::snapshot_generation;
use galatea_store::{TableId, TableView};
use parking_lot::Mutex;
use std::sync::Arc;

/// The chunks that may contain rows which satisfy a pipeline's predicates, in the last version of its table
/// that was pruned. A version has the same chunks with the same bounds throughout its lifetime, for all
/// encodings of its columns.
#[derive(Debug, Clone, Default)]
pub struct PrunedChunks(Arc<Mutex<Option<Pruned>>>);

#[derive(Debug)]
struct Pruned {
    version: TableId,
    chunks: Vec<usize>,
}

impl PrunedChunks {
    /// The chunks of a view, which `prune` finds; `predicates`: the conditions that it uses.
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

/// Whether an expression has the same meaning in all executions.
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
            loaded: None,
        }
    }

    #[test]
    fn chunks_are_pruned_once_per_table_version() {
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
    fn dynamic_predicates_are_evaluated_in_each_execution() {
        let filter: Arc<dyn PhysicalExpr> = Arc::new(DynamicFilterPhysicalExpr::new(Vec::new(), lit(true)));
        let (chunks, view) = (PrunedChunks::default(), view());
        assert_eq!(chunks.of(&view, &[Arc::clone(&filter)], || vec![1]), [1]);
        assert_eq!(chunks.of(&view, &[filter], || vec![2]), [2]);
    }
}
