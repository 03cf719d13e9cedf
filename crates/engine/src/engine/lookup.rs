//! Looks up the GPU without delaying queries.
//!
//! A driver takes a few tenths of a second to initialise, longer than most small queries take on the CPU, and
//! a process that ends meanwhile waits for it. Therefore a thread looks up the GPU once for the process: when
//! a query waits for the outcome, or when a query has ended and the process continues.

use galatea_base::reason::Reason;
use galatea_device::{RETRY, driver_is_installed, probe};
use parking_lot::{Condvar, Mutex};
use std::time::{Duration, Instant};

/// The outcome, shared by all sessions of the process.
pub(super) static GPU: Lookup = Lookup::new(driver_is_installed, || match probe().usable() {
    Ok(_) => Ok(()),
    Err(missing) => Err(super::no_device(&missing.to_string())),
});

/// Time that the process must continue after a query before a thread looks up the GPU: a command that ends
/// with its query starts no driver.
const PAUSE: Duration = Duration::from_millis(100);

pub(super) struct Lookup {
    state: Mutex<State>,
    ended: Condvar,
    /// Whether a driver is installed and could be initialised.
    is_installed: fn() -> bool,
    /// Initialises the driver.
    probe: fn() -> Result<(), Reason>,
}

enum State {
    Idle,
    /// A thread will look up the GPU after a pause.
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

    /// Whether a GPU can be used, according to the state after at most `patience`. With a patience of zero no
    /// driver is initialised.
    ///
    /// # Errors
    /// The missing component, or [`Reason::Starting`] while the driver is not initialised.
    pub(super) fn within(&'static self, patience: Duration) -> Result<(), Reason> {
        let mut state = self.state.lock();
        match &*state {
            State::Found => return Ok(()),
            State::Missing(reason, since) if since.elapsed() < RETRY => return Err(reason.clone()),
            State::Running => {}
            // Without a driver the outcome is available at once.
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
        // `None`: the deadline exceeds the range of the clock.
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

    /// Starts a thread that looks up the GPU after a pause, unless one was started before.
    pub(super) fn look_soon(&'static self) {
        let mut state = self.state.lock();
        if !matches!(*state, State::Idle) {
            return;
        }
        let thread = std::thread::Builder::new().name("galatea-gpu-lookup".into());
        let look = move || {
            std::thread::sleep(PAUSE);
            let mut state = self.state.lock();
            // A query may have begun to wait for the lookup.
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
    fn driver_starts_only_after_first_query_waits_or_ends() {
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
    fn waiting_query_starts_the_driver_immediately() {
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
    fn missing_driver_is_reported_without_waiting() {
        static NONE: Lookup = Lookup::new(|| false, || Err(Reason::EmulatedDevice));
        assert_eq!(NONE.within(Duration::ZERO), Err(Reason::EmulatedDevice));
    }
}
