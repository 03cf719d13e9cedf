//! Values of the nodes of plans, each computed once.

use datafusion::physical_plan::ExecutionPlan;
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// A value of each node that was looked up. It keeps the nodes, so that no other node takes the address of
/// one: plans that are rewritten for a candidate are dropped with it.
pub(crate) struct ByNode<T>(RefCell<HashMap<*const (), Known<T>>>);

struct Known<T> {
    _node: Arc<dyn ExecutionPlan>,
    value: T,
}

impl<T: Clone> ByNode<T> {
    /// The value of a node, computed by `compute` unless it is known.
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
