//! Ctrl-C: the first cancels what runs, a second one leaves.
//!
//! The signal is waited for on a thread of its own. Inside the query runtime nobody might hear it: there the thread that sees
//! signals is whichever worker happens to be idle, and a query can keep all of them computing. A signal that nobody waits
//! for ends the process, so a second Ctrl-C leaves whatever is still being cancelled.

use std::any::Any;
use std::process;
use std::sync::OnceLock;
use std::thread;

use tokio::runtime::{Builder, Handle};
use tokio::signal;
use tokio::sync::{oneshot, watch};

use crate::errors::CliError;

/// The stack of a query's thread: planning recurses with the depth of the query.
const STACK: usize = 16 << 20;

/// Runs `work` on a thread of its own until it ends or Ctrl-C is pressed.
///
/// A cancelled query is dropped at the next point where it yields. Operators that compute for long between such points would
/// keep whoever polls them from anything else, so they are polled elsewhere: control comes back at once, and what is left
/// of the query ends by itself or with the process.
pub(crate) async fn interruptible<T, F>(work: impl FnOnce() -> F + Send + 'static) -> Result<T, CliError>
where
    T: Send + 'static,
    F: Future<Output = T>,
{
    let runtime = Handle::current();
    let (stop, stopped) = oneshot::channel::<()>();
    let (send, mut receive) = oneshot::channel();
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
    let query = spawned.map_err(|cause| CliError::Other(format!("cannot start a thread: {cause}")))?;
    tokio::select! {
        done = &mut receive => match done {
            Ok(done) => Ok(done),
            Err(_) => Err(CliError::Panicked(query.join().err().map_or_else(String::new, |panic| message(&*panic)))),
        },
        () = pressed() => {
            let _ = stop.send(());
            Err(CliError::Cancelled)
        }
    }
}

/// What a panic said.
fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_string())
}

/// Counts Ctrl-C; who waits for it subscribes.
static PRESSED: OnceLock<watch::Sender<u64>> = OnceLock::new();

/// Resolves at the next Ctrl-C; never where the system has no such signal.
pub(crate) async fn pressed() {
    let mut presses = PRESSED.get_or_init(listen).subscribe();
    if presses.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

fn listen() -> watch::Sender<u64> {
    let (sender, _) = watch::channel(0);
    let presses = sender.clone();
    // Without a thread or a runtime Ctrl-C keeps its meaning: it ends the process.
    let _ = thread::Builder::new().name("signals".to_string()).spawn(move || {
        let Ok(runtime) = Builder::new_current_thread().enable_io().build() else {
            return;
        };
        runtime.block_on(async {
            while signal::ctrl_c().await.is_ok() {
                if presses.receiver_count() == 0 {
                    #[expect(
                        clippy::disallowed_methods,
                        reason = "asked for twice; what still runs cannot be stopped otherwise"
                    )]
                    process::exit(130);
                }
                presses.send_modify(|count| *count += 1);
            }
        });
    });
    sender
}
