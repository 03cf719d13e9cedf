//! Times until the last pipelines had their kernels, which predict the time of the next one.

use galatea_device::{Compiled, Origin, has_low_priority};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::time::Duration;

/// Number of pipelines in the mean.
const COUNT: usize = 8;

/// The times of the last pipelines, and whether each was compiled.
#[derive(Debug, Default)]
pub struct KernelTimes(Mutex<VecDeque<(Duration, bool)>>);

impl KernelTimes {
    /// Records a kernel. Compilations in the background are left out: on busy cores they take much longer
    /// than those that a query waits for.
    pub(super) fn record(&self, compiled: &Compiled) {
        match compiled.origin {
            Origin::Memory => {}
            Origin::Disk => self.push(compiled.time, false),
            Origin::Compiler if has_low_priority() => {}
            Origin::Compiler => self.push(compiled.time, true),
        }
    }

    fn push(&self, time: Duration, is_compiled: bool) {
        let mut times = self.0.lock();
        if times.len() == COUNT {
            times.pop_front();
        }
        times.push_back((time, is_compiled));
    }

    /// Mean time until one of the last pipelines had its kernel, compiled or loaded from disk. Compilations
    /// take at least `expected`, since more of them delay each other. A missing pipeline counts with
    /// `expected`.
    pub fn mean(&self, expected: Duration) -> Duration {
        let times = self.0.lock();
        let missing = COUNT - times.len();
        let known = times.iter().map(|(time, is_compiled)| match is_compiled {
            true => expected.max(*time),
            false => *time,
        });
        (known.sum::<Duration>() + expected * missing as u32) / COUNT as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_on_disk_lower_the_mean() {
        let ms = Duration::from_millis;
        let times = KernelTimes::default();
        assert_eq!(times.mean(ms(400)), ms(400));
        (0..4).for_each(|_| times.push(ms(2), false));
        assert_eq!(times.mean(ms(400)), ms(201));
        (0..20).for_each(|_| times.push(ms(2), false));
        assert_eq!(times.mean(ms(400)), ms(2));
    }

    #[test]
    fn compilations_count_with_the_expected_time_or_more() {
        let ms = Duration::from_millis;
        let times = KernelTimes::default();
        (0..COUNT).for_each(|_| times.push(ms(50), true));
        assert_eq!(times.mean(ms(400)), ms(400));
        (0..COUNT).for_each(|_| times.push(ms(1600), true));
        assert_eq!(times.mean(ms(400)), ms(1600));
    }
}
