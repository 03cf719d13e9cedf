//! Timed runs on a device.

use galatea_device::{ArgumentBytes, Stream};

use crate::Result;
use crate::result::Summary;

/// Number of warm-up runs before the measured ones.
pub(crate) const WARMUPS: usize = 2;
/// Maximum number of repetitions of work in a row.
const MOST_REPEATS: u32 = 32;

/// Times work on a stream by events: only device time.
#[derive(Clone)]
pub(crate) struct Clock {
    stream: Stream,
    runs: usize,
}

impl Clock {
    /// Measures work on `stream` with `runs` runs. With 0, no work is run.
    pub(crate) fn new(stream: &Stream, runs: usize) -> Self {
        Self {
            stream: stream.clone(),
            runs,
        }
    }

    /// Seconds of device time.
    pub(crate) fn time(&self, work: impl FnOnce() -> Result<()>) -> Result<f64> {
        let start = self.stream.record()?;
        work()?;
        Ok(self.stream.record()?.elapsed_since(&start)?.as_secs_f64())
    }

    /// Median of the runs of some work, after warm-up runs.
    pub(crate) fn summary(&self, mut work: impl FnMut() -> Result<()>) -> Result<Option<Summary>> {
        if self.runs == 0 {
            return Ok(None);
        }
        let mut seconds = Vec::new();
        for run in 0..WARMUPS + self.runs {
            let time = self.time(&mut work)?;
            if run >= WARMUPS {
                seconds.push(time);
            }
        }
        Ok(Summary::of(seconds))
    }

    /// Median time of work that is repeated for half a millisecond, which hides the host's time of submitting
    /// it. With a single run, for profilers, the work runs once.
    pub(crate) fn sustained(&self, mut work: impl FnMut() -> Result<()>) -> Result<Option<Summary>> {
        const ENOUGH: f64 = 0.5e-3;
        if self.runs == 0 {
            return Ok(None);
        }
        let once = self.time(&mut work)?;
        let repeats = (1..MOST_REPEATS).find(|repeats| f64::from(*repeats) * once >= ENOUGH);
        let repeats = match self.runs {
            1 => 1,
            _ => repeats.unwrap_or(MOST_REPEATS),
        };
        let summary = self.summary(|| (0..repeats).try_for_each(|_| work()))?;
        Ok(summary.map(|all| {
            let each = |seconds: f64| seconds / f64::from(repeats);
            Summary {
                runs: all.runs,
                median: each(all.median),
                min: each(all.min),
                max: each(all.max),
            }
        }))
    }
}

/// The arguments of a kernel that takes 64-bit words.
pub(crate) fn arguments(words: &[u64]) -> ArgumentBytes {
    let mut arguments = ArgumentBytes::new();
    for word in words {
        arguments.push(*word);
    }
    arguments
}
