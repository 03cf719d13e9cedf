//! Presses of Ctrl-C, for those who wait for one. Where nobody does, it ends the process.
//!
//! The signal is waited for on a thread of its own. Inside the query runtime it might be missed: signals are
//! seen by a worker that is idle, and a query can keep all of them computing.

use std::sync::OnceLock;
use std::thread;

use tokio::runtime::Builder;
use tokio::signal;
use tokio::sync::watch;

/// Counts Ctrl-C, for subscribers.
static PRESSED: OnceLock<watch::Sender<u64>> = OnceLock::new();

/// Resolves at the next Ctrl-C; never where the system has no such signal.
pub(crate) async fn pressed() {
    pressed_unless(|| false).await;
}

/// Resolves at the first Ctrl-C after which `ends` returns false.
pub(crate) async fn pressed_unless(ends: impl Fn() -> bool) {
    let mut presses = PRESSED.get_or_init(listen).subscribe();
    while presses.changed().await.is_ok() {
        if !ends() {
            return;
        }
    }
    std::future::pending::<()>().await;
}

/// Keeps Ctrl-C from ending the process as long as the value lives: another program has the terminal.
pub(crate) fn hold() -> impl Sized {
    PRESSED.get_or_init(listen).subscribe()
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
                    // Pressed twice; work that still runs cannot be stopped otherwise.
                    galatea_device::exit_at_once(130);
                }
                presses.send_modify(|count| *count += 1);
            }
        });
    });
    sender
}
