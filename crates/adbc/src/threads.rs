//! The threads of queries: one pool for all databases of the process. It begins with the first open database
//! and ends with the last.

use std::sync::{Arc, Weak};
use std::time::Duration;

use adbc_core::error::{Error, Status};
use galatea::ErrorKind;
use parking_lot::Mutex;
use tokio::runtime::{Builder, Handle, Runtime};

use crate::failure::{of_kind, wrong_state};

/// The stack size of a query's threads: planning and evaluation recurse with the depth of expressions. An
/// unused stack is address space only.
const STACK: usize = 64 << 20;

/// The time that the end of the last database waits for threads of queries.
const END: Duration = Duration::from_secs(1);

/// A pool of threads, and the process that started it.
#[derive(Debug)]
pub(crate) struct Threads {
    runtime: Option<Runtime>,
    process: u32,
}

/// The pool of open databases.
static CURRENT: Mutex<Weak<Threads>> = Mutex::new(Weak::new());

impl Threads {
    /// The pool of open databases, or a new one.
    ///
    /// # Errors
    /// No thread can be started; the process was forked from one with an open database.
    pub(crate) fn get() -> Result<Arc<Self>, Error> {
        let mut current = CURRENT.lock();
        if let Some(threads) = current.upgrade() {
            threads.check()?;
            return Ok(threads);
        }
        let runtime = Builder::new_multi_thread()
            .thread_name("galatea")
            .thread_stack_size(STACK)
            .enable_all()
            .build();
        let runtime =
            runtime.map_err(|cause| of_kind(ErrorKind::Io, format!("cannot start threads: {cause}")))?;
        let threads = Arc::new(Self {
            runtime: Some(runtime),
            process: std::process::id(),
        });
        *current = Arc::downgrade(&threads);
        Ok(threads)
    }

    /// Checks that this process has the threads.
    fn check(&self) -> Result<(), Error> {
        match self.process == std::process::id() {
            true => Ok(()),
            false => Err(wrong_state(
                "the database was opened before the process was forked, and its threads are not in the new \
                 process\nhint: open databases after the fork; in Python, multiprocessing.set_start_method('spawn')",
            )),
        }
    }

    /// The handle of the pool.
    ///
    /// # Errors
    /// The process was forked.
    pub(crate) fn handle(&self) -> Result<&Handle, Error> {
        self.check()?;
        match &self.runtime {
            Some(runtime) => Ok(runtime.handle()),
            None => Err(Error::with_message_and_status(
                "internal error: the threads have ended",
                Status::Internal,
            )),
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        let Some(runtime) = self.runtime.take() else {
            return;
        };
        if self.process != std::process::id() {
            // The threads belong to the parent process. Dropping the pool would wait for them.
            std::mem::forget(runtime);
        } else if Handle::try_current().is_ok() {
            // A thread of another runtime must not wait.
            runtime.shutdown_background();
        } else {
            runtime.shutdown_timeout(END);
        }
    }
}
