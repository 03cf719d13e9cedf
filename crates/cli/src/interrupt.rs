//! Ctrl-C: the first cancels what runs, a second one leaves.

use std::process;
use std::thread;

use tokio::runtime::Handle;
use tokio::signal;
use tokio::sync::oneshot;

use crate::errors::CliError;

/// The stack of a query's thread: planning recurses with the depth of the query.
const STACK: usize = 16 << 20;

/// Runs `work` on a thread of its own until it ends or Ctrl-C is pressed.
///
/// A cancelled query is dropped at the next point where it yields. Operators that compute for long between such points would
/// keep whoever polls them from hearing Ctrl-C at all, so they are polled elsewhere: control comes back at once, and what is
/// left of the query ends by itself or with the process.
pub(crate) async fn interruptible<T, F>(work: impl FnOnce() -> F + Send + 'static) -> Result<T, CliError>
where
    T: Send + 'static,
    F: Future<Output = T>,
{
    let runtime = Handle::current();
    let (stop, stopped) = oneshot::channel::<()>();
    let (send, receive) = oneshot::channel();
    let poll = move || {
        let done = runtime.block_on(async {
            tokio::select! {
                done = work() => Some(done),
                // Told to stop, or whoever waits is gone.
                _ = stopped => None,
            }
        });
        if let Some(done) = done {
            // Nobody waits after Ctrl-C.
            let _ = send.send(done);
        }
    };
    let spawned = thread::Builder::new()
        .name("query".to_string())
        .stack_size(STACK)
        .spawn(poll);
    spawned.map_err(|cause| CliError::Other(format!("cannot start a thread: {cause}")))?;
    tokio::select! {
        done = receive => done.map_err(|_| CliError::Other("internal error: the query's thread ended without a result".to_string())),
        () = pressed() => {
            let _ = stop.send(());
            Err(CliError::Cancelled)
        }
    }
}

/// Resolves at the next Ctrl-C; never where the system has no such signal.
pub(crate) async fn pressed() {
    if signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// From now on Ctrl-C ends the process, whatever it does.
pub(crate) fn leave_on_next() {
    tokio::spawn(async {
        pressed().await;
        #[expect(
            clippy::disallowed_methods,
            reason = "asked for twice; what still runs cannot be stopped otherwise"
        )]
        process::exit(130);
    });
}
