//! Distributes Ctrl-C to its subscribers. Without a subscriber, Ctrl-C ends the process.
//!
//! A separate thread waits for the signal. Inside the query runtime the signal might be missed: only an idle
//! worker handles signals, and a query can keep all workers busy.

use std::sync::{OnceLock, mpsc};
use std::thread;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// The time that the first subscriber waits for the handler.
const PATIENCE: Duration = Duration::from_secs(1);

/// The number of presses of Ctrl-C, for subscribers.
static PRESSED: OnceLock<watch::Sender<u64>> = OnceLock::new();

/// Resolves at the next Ctrl-C; never if the system has no such signal.
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

/// Keeps Ctrl-C from ending the process while the value lives, because another program has the terminal.
pub(crate) fn hold() -> impl Sized {
    PRESSED.get_or_init(listen).subscribe()
}

fn listen() -> watch::Sender<u64> {
    let (sender, _) = watch::channel(0);
    let presses = sender.clone();
    let (ready, is_ready) = mpsc::channel();
    // Without a thread or a runtime, Ctrl-C ends the process as usual.
    let _ = thread::Builder::new().name("signals".to_string()).spawn(move || {
        let Ok(runtime) = Builder::new_current_thread().enable_io().build() else {
            return;
        };
        runtime.block_on(async {
            let Ok(mut interrupts) = signal(SignalKind::interrupt()) else {
                return;
            };
            let _ = ready.send(());
            while interrupts.recv().await.is_some() {
                if presses.receiver_count() == 0 {
                    // The second press: work that still runs cannot be stopped in another way.
                    galatea_device::exit_at_once(130);
                }
                presses.send_modify(|count| *count += 1);
            }
        });
    });
    // The line editor restores the handler that it finds, so this one is installed first.
    let _ = is_ready.recv_timeout(PATIENCE);
    sender
}
