//! The time of the steps of a load.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A step of a load from Parquet files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadStep {
    /// Footers, page indexes and the plan of the load, before the first column chunk is read.
    Open,
    /// Bytes of column chunks from local files.
    Read,
    /// Pages to values or dictionary indices, on the host.
    Decode,
    /// Values or dictionary indices to codes of a chunk, on the host.
    Encode,
    /// Waiting for a lane of the device.
    Lane,
    /// Column chunks on the device, from the upload of pages to the download of codes.
    Device,
    /// Codes of all chunks to columns, after the last column chunk was encoded.
    Write,
}

impl LoadStep {
    /// All steps, in the order of a load.
    pub const ALL: [Self; 7] = [
        Self::Open,
        Self::Read,
        Self::Decode,
        Self::Encode,
        Self::Lane,
        Self::Device,
        Self::Write,
    ];

    /// Whether the load waits for the step. The other steps run on many threads at once.
    #[must_use]
    pub fn is_sequential(self) -> bool {
        matches!(self, Self::Open | Self::Write)
    }
}

impl fmt::Display for LoadStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Open => "open",
            Self::Read => "read",
            Self::Decode => "decode",
            Self::Encode => "encode",
            Self::Lane => "wait for the device",
            Self::Device => "decode on the device",
            Self::Write => "write",
        })
    }
}

/// The time of each step: elapsed time of the sequential ones, the sum over all threads of the others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LoadSteps([Duration; LoadStep::ALL.len()]);

impl LoadSteps {
    /// The time of a step.
    #[must_use]
    pub fn time(&self, step: LoadStep) -> Duration {
        self.0[step as usize]
    }
}

/// Adds up the time of steps on all threads of a load.
#[derive(Debug, Default)]
pub(crate) struct StepClock([AtomicU64; LoadStep::ALL.len()]);

impl StepClock {
    /// Runs a part of a step and adds its time.
    pub(crate) fn time<R>(&self, step: LoadStep, run: impl FnOnce() -> R) -> R {
        let started = Instant::now();
        let result = run();
        self.add(step, started.elapsed());
        result
    }

    /// Adds time to a step.
    pub(crate) fn add(&self, step: LoadStep, time: Duration) {
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.0[step as usize].fetch_add(nanoseconds, Ordering::Relaxed);
    }

    /// The times so far.
    pub(crate) fn times(&self) -> LoadSteps {
        LoadSteps(
            LoadStep::ALL.map(|step| Duration::from_nanos(self.0[step as usize].load(Ordering::Relaxed))),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_of_all_threads_is_added() {
        let clock = StepClock::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| clock.add(LoadStep::Read, Duration::from_millis(5)));
            }
        });
        let pause = Duration::from_millis(2);
        clock.time(LoadStep::Write, || std::thread::sleep(pause));
        let times = clock.times();
        assert_eq!(times.time(LoadStep::Read), Duration::from_millis(20));
        assert!(times.time(LoadStep::Write) >= pause);
        assert_eq!(times.time(LoadStep::Encode), Duration::ZERO);
    }

    #[test]
    fn steps_are_numbered_in_order() {
        for (number, step) in LoadStep::ALL.into_iter().enumerate() {
            assert_eq!(step as usize, number);
        }
    }
}
