//! Looking for a GPU without making queries wait for it.
//!
//! A driver takes a few tenths of a second to initialise, longer than most small queries take on the CPU. So
//! a thread looks, once for the process, and each query says how long it can wait for the outcome: not at all
//! where the CPU answers sooner.

use crate::reason::Reason;
use galatea_device::{RETRY, driver_is_installed, probe};
use parking_lot::{Condvar, Mutex};
use std::time::{Duration, Instant};

/// The outcome, shared by all sessions of the process.
pub(super) static GPU: Lookup = Lookup {
    state: Mutex::new(State::Idle),
    ended: Condvar::new(),
};

pub(super) struct Lookup {
    state: Mutex<State>,
    ended: Condvar,
}

enum State {
    Idle,
    Running,
    Found,
    Missing(Reason, Instant),
}

impl Lookup {
    /// Whether a GPU can be used, for all that is known after `patience`.
    ///
    /// # Errors
    /// The missing part, or [`Reason::Starting`] while the driver initialises.
    pub(super) fn within(&'static self, patience: Duration) -> Result<(), Reason> {
        let mut state = self.state.lock();
        match &*state {
            State::Found => return Ok(()),
            State::Missing(reason, since) if since.elapsed() < RETRY => return Err(reason.clone()),
            State::Running => {}
            State::Idle | State::Missing(..) => {
                *state = State::Running;
                // Without a driver the outcome is known at once.
                let is_spawned = driver_is_installed() && {
                    let thread = std::thread::Builder::new().name("galatea-gpu-lookup".into());
                    thread.spawn(|| self.look()).is_ok()
                };
                if !is_spawned {
                    drop(state);
                    self.look();
                    state = self.state.lock();
                }
            }
        }
        // `None`: longer than the clock counts.
        let deadline = Instant::now().checked_add(patience);
        while matches!(*state, State::Running) {
            let Some(deadline) = deadline else {
                self.ended.wait(&mut state);
                continue;
            };
            if self.ended.wait_until(&mut state, deadline).timed_out() {
                break;
            }
        }
        match &*state {
            State::Found => Ok(()),
            State::Missing(reason, _) => Err(reason.clone()),
            State::Idle | State::Running => Err(Reason::Starting),
        }
    }

    fn look(&self) {
        let found = probe();
        let outcome = match found.usable() {
            Ok(_) => State::Found,
            Err(missing) => State::Missing(super::no_device(&missing.to_string()), Instant::now()),
        };
        *self.state.lock() = outcome;
        self.ended.notify_all();
    }
}
