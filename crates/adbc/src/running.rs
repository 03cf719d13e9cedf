//! The running operations of a connection and of its statements, for their cancellation.

use std::sync::{Arc, Weak};
use std::time::Duration;

use adbc_core::CancelHandle;
use adbc_core::error::Result;
use parking_lot::Mutex;

use crate::failure::wrong_state;
use crate::operation::Operation;
use crate::threads::Threads;

/// The running operations of a connection or of a statement.
#[derive(Debug, Default, Clone)]
pub(crate) struct Running {
    own: Arc<Mutex<Vec<Weak<Operation>>>>,
    /// Those of the connection, if these are of a statement.
    above: Option<Arc<Mutex<Vec<Weak<Operation>>>>>,
}

impl Running {
    /// The operations of a statement of this connection.
    pub(crate) fn of_statement(&self) -> Self {
        Self {
            own: Arc::default(),
            above: Some(Arc::clone(&self.own)),
        }
    }

    /// Begins an operation. It ends when it is dropped.
    pub(crate) fn begin(&self, threads: &Arc<Threads>, limit: Option<Duration>) -> Arc<Operation> {
        let operation = Operation::new(threads, limit);
        for list in [Some(&self.own), self.above.as_ref()].into_iter().flatten() {
            let mut list = list.lock();
            list.retain(|known| known.strong_count() > 0);
            list.push(Arc::downgrade(&operation));
        }
        operation
    }
}

impl CancelHandle for Running {
    /// Cancels all running operations.
    fn try_cancel(&self) -> Result<()> {
        let running: Vec<_> = self.own.lock().iter().filter_map(Weak::upgrade).collect();
        if running.is_empty() {
            return Err(wrong_state("nothing is running that can be cancelled"));
        }
        for operation in running {
            operation.cancel();
        }
        Ok(())
    }
}
