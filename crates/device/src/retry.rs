//! A value that is created once, on first use. If that fails, later uses try again, but not all of them.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Time after a failed search for a driver, a compiler or a device during which the search is not repeated.
pub const RETRY: Duration = Duration::from_secs(30);

/// A value for the life of the process, or the failure to create it, which is remembered for a while.
#[derive(Debug)]
pub struct Retried<T, E> {
    made: OnceLock<T>,
    failed: Mutex<Option<(Instant, E)>>,
    retry: Duration,
}

impl<T, E: Clone> Retried<T, E> {
    /// Creates an empty cell. A failure will be remembered for `retry`.
    #[must_use]
    pub const fn new(retry: Duration) -> Self {
        Self {
            made: OnceLock::new(),
            failed: Mutex::new(None),
            retry,
        }
    }

    /// Returns the value, and creates it unless it exists or its creation failed a short while ago. One
    /// caller at a time creates it.
    ///
    /// # Errors
    /// The error of `make`, or of its last call.
    pub fn get(&self, make: impl FnOnce() -> Result<T, E>) -> Result<&T, E> {
        if let Some(made) = self.made.get() {
            return Ok(made);
        }
        let mut failed = self.failed.lock();
        if let Some(made) = self.made.get() {
            return Ok(made);
        }
        if let Some((at, error)) = &*failed
            && at.elapsed() < self.retry
        {
            return Err(error.clone());
        }
        match make() {
            Ok(made) => {
                *failed = None;
                Ok(self.made.get_or_init(|| made))
            }
            Err(error) => {
                *failed = Some((Instant::now(), error.clone()));
                Err(error)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_expire_and_values_do_not() {
        let value: Retried<u32, &str> = Retried::new(Duration::MAX);
        assert_eq!(value.get(|| Err("no driver")), Err("no driver"));
        let asked_again = || panic!("a failure is not tried again within its time");
        assert_eq!(value.get(asked_again), Err("no driver"));

        let value: Retried<u32, &str> = Retried::new(Duration::ZERO);
        assert_eq!(value.get(|| Err("no driver")), Err("no driver"));
        assert_eq!(value.get(|| Err("still none")), Err("still none"));
        assert_eq!(value.get(|| Ok(7)), Ok(&7));
        assert_eq!(value.get(|| Err("lost")), Ok(&7));
    }
}
