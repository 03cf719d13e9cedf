//! The thread that detects OS threads that are stuck in one fiber.
//!
//! Threads that execute blocks register with a counter that every scheduling decision increments. If it does
//! not change for [`PATIENCE`] checks, the thread is interrupted (see [`crate::fault`]), and from then on at
//! every check until its block ends: a thread that spins on a volatile once does so again.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::fault;
use crate::heartbeat::Heartbeat;

/// Time between two checks.
const PERIOD: Duration = Duration::from_millis(2);
/// Number of checks without a scheduling decision before the first interruption: 40 ms.
const PATIENCE: u32 = 20;

struct Watched {
    thread: libc::pthread_t,
    heartbeat: Arc<Heartbeat>,
    seen: u64,
    still: u32,
}

#[derive(Default)]
struct Watchdog {
    watched: Mutex<Vec<Watched>>,
    wake: Condvar,
}

fn watchdog() -> &'static Watchdog {
    static WATCHDOG: OnceLock<Watchdog> = OnceLock::new();
    WATCHDOG.get_or_init(|| {
        let spawned = std::thread::Builder::new()
            .name("galatea-watchdog".to_owned())
            .spawn(watch);
        if let Err(error) = spawned {
            tracing::warn!("no watchdog: kernels that spin on plain memory may hang: {error}");
        }
        Watchdog::default()
    })
}

/// Registers the calling thread as executing blocks until this value is dropped.
#[derive(Debug)]
pub(crate) struct Registration {
    heartbeat: Arc<Heartbeat>,
}

impl Registration {
    pub(crate) fn new(heartbeat: &Arc<Heartbeat>) -> Registration {
        let watchdog = watchdog();
        // SAFETY: always succeeds.
        let thread = unsafe { libc::pthread_self() };
        let seen = heartbeat.beats();
        watchdog.watched.lock().push(Watched {
            thread,
            heartbeat: Arc::clone(heartbeat),
            seen,
            still: 0,
        });
        watchdog.wake.notify_one();
        Registration {
            heartbeat: Arc::clone(heartbeat),
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // While the lock is held, no signal is being sent, so none is sent after the thread has ended.
        watchdog()
            .watched
            .lock()
            .retain(|watched| !Arc::ptr_eq(&watched.heartbeat, &self.heartbeat));
    }
}

fn watch() {
    let watchdog = watchdog();
    loop {
        {
            let mut watched = watchdog.watched.lock();
            while watched.is_empty() {
                watchdog.wake.wait(&mut watched);
            }
            for entry in watched.iter_mut() {
                let beats = entry.heartbeat.beats();
                if beats != entry.seen {
                    entry.seen = beats;
                    entry.still = 0;
                    continue;
                }
                entry.still += 1;
                if entry.still >= PATIENCE || entry.heartbeat.is_impatient() {
                    // SAFETY: the thread is registered, so it has not ended.
                    unsafe { libc::pthread_kill(entry.thread, fault::INTERRUPT) };
                }
            }
        }
        std::thread::sleep(PERIOD);
    }
}
