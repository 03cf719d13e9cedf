//! Looking for a GPU without making queries wait for it.
//!
//! A driver takes a few tenths of a second to initialise, longer than most small queries take on the CPU, and
//! a process that ends meanwhile waits for it. So a thread looks, once for the process: when a query waits
//! for the outcome, or when a query has ended and the process goes on.

use galatea_base::reason::Reason;
use galatea_device::{RETRY, driver_is_installed, probe};
use parking_lot::{Condvar, Mutex};
use std::time::{Duration, Instant};

/// The outcome, shared by all sessions of the process.
pub(super) static GPU: Lookup = Lookup::new(driver_is_installed, || match probe().usable() {
    Ok(_) => Ok(()),
    Err(missing) => Err(super::no_device(&missing.to_string())),
});

/// How long the process has to go on after a query before a thread looks: a command that ends with its query
/// starts no driver.
const PAUSE: Duration = Duration::from_millis(100);

pub(super) struct Lookup {
    state: Mutex<State>,
    ended: Condvar,
    /// Whether there is a driver that could be initialised.
    is_installed: fn() -> bool,
    /// Initialises it.
    probe: fn() -> Result<(), Reason>,
}

enum State {
    Idle,
    /// A thread will look after a pause.
    Planned,
    Running,
    Found,
    Missing(Reason, Instant),
}

impl Lookup {
    const fn new(is_installed: fn() -> bool, probe: fn() -> Result<(), Reason>) -> Self {
        Self {
            state: Mutex::new(State::Idle),
            ended: Condvar::new(),
            is_installed,
            probe,
        }
    }

    /// Whether a GPU can be used, for all that is known after `patience`. Without patience no driver is
    /// initialised.
    ///
    /// # Errors
    /// The missing part, or [`Reason::Starting`] while the driver is not initialised.
    pub(super) fn within(&'static self, patience: Duration) -> Result<(), Reason> {
        let mut state = self.state.lock();
        match &*state {
            State::Found => return Ok(()),
            State::Missing(reason, since) if since.elapsed() < RETRY => return Err(reason.clone()),
            State::Running => {}
            // Without a driver the outcome is known at once.
            State::Idle | State::Planned | State::Missing(..) if (self.is_installed)() => {
                if patience.is_zero() {
                    return Err(Reason::Starting);
                }
                *state = State::Running;
                let thread = std::thread::Builder::new().name("galatea-gpu-lookup".into());
                if thread.spawn(|| self.look()).is_err() {
                    drop(state);
                    self.look();
                    state = self.state.lock();
                }
            }
            State::Idle | State::Planned | State::Missing(..) => {
                drop(state);
                self.look();
                state = self.state.lock();
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
            State::Idle | State::Planned | State::Running => Err(Reason::Starting),
        }
    }

    /// Has a thread look after a pause, unless one has.
    pub(super) fn look_soon(&'static self) {
        let mut state = self.state.lock();
        if !matches!(*state, State::Idle) {
            return;
        }
        let thread = std::thread::Builder::new().name("galatea-gpu-lookup".into());
        let look = move || {
            std::thread::sleep(PAUSE);
            let mut state = self.state.lock();
            // A query may have begun to wait for it.
            if matches!(*state, State::Planned) {
                *state = State::Running;
                drop(state);
                self.look();
            }
        };
        if thread.spawn(look).is_ok() {
            *state = State::Planned;
        }
    }

    fn look(&self) {
        let outcome = match (self.probe)() {
            Ok(()) => State::Found,
            Err(missing) => State::Missing(missing, Instant::now()),
        };
        *self.state.lock() = outcome;
        self.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn no_driver_starts_before_a_query_waits_or_has_ended() {
        static PROBES: AtomicUsize = AtomicUsize::new(0);
        static SLOW: Lookup = Lookup::new(
            || true,
            || {
                PROBES.fetch_add(1, Ordering::SeqCst);
                Ok(())
            },
        );
        for _ in 0..3 {
            assert_eq!(SLOW.within(Duration::ZERO), Err(Reason::Starting));
        }
        std::thread::sleep(2 * PAUSE);
        assert_eq!(PROBES.load(Ordering::SeqCst), 0);
        (0..3).for_each(|_| SLOW.look_soon());
        assert_eq!(SLOW.within(Duration::ZERO), Err(Reason::Starting));
        let begun = Instant::now();
        while SLOW.within(Duration::ZERO).is_err() && begun.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(SLOW.within(Duration::ZERO), Ok(()));
        assert_eq!(PROBES.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_query_that_waits_starts_the_driver_at_once() {
        static PROBES: AtomicUsize = AtomicUsize::new(0);
        static GPU: Lookup = Lookup::new(
            || true,
            || {
                PROBES.fetch_add(1, Ordering::SeqCst);
                Ok(())
            },
        );
        GPU.look_soon();
        assert_eq!(GPU.within(Duration::MAX), Ok(()));
        std::thread::sleep(2 * PAUSE);
        assert_eq!(
            PROBES.load(Ordering::SeqCst),
            1,
            "the planned lookup is not needed"
        );
    }

    #[test]
    fn a_missing_driver_is_known_at_once() {
        static NONE: Lookup = Lookup::new(|| false, || Err(Reason::EmulatedDevice));
        assert_eq!(NONE.within(Duration::ZERO), Err(Reason::EmulatedDevice));
    }
}
