//! A cache of values of plan nodes.

use datafusion::physical_plan::ExecutionPlan;
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// A cache of one value per plan node, by the node's address. It holds the nodes, because a dropped node's
/// address may be reused: a plan that is rewritten for a candidate is dropped with the candidate.
pub(crate) struct ByNode<T>(RefCell<HashMap<*const (), Known<T>>>);

struct Known<T> {
    _node: Arc<dyn ExecutionPlan>,
    value: T,
}

impl<T: Clone> ByNode<T> {
    /// The value of a node, computed by `compute` at the first lookup.
    pub(crate) fn get_or(&self, node: &Arc<dyn ExecutionPlan>, compute: impl FnOnce() -> T) -> T {
        let address = Arc::as_ptr(node).cast::<()>();
        if let Some(known) = self.0.borrow().get(&address) {
            return known.value.clone();
        }
        let known = Known {
            _node: Arc::clone(node),
            value: compute(),
        };
        let value = known.value.clone();
        self.0.borrow_mut().insert(address, known);
        value
    }
}

impl<T> Default for ByNode<T> {
    fn default() -> Self {
        Self(RefCell::default())
    }
}

impl<T> fmt::Debug for ByNode<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ByNode({} nodes)", self.0.borrow().len())
    }
}
