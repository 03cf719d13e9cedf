//! Rates for the cost model of grouped aggregation, each measured by a small kernel with a result that is
//! checked before it is timed.
//!
//! | figure | from |
//! | --- | --- |
//! | rounds per second | native atomics with differing increments, 8 lanes conflicting in each bank, in different words |
//! | update latency | one warp per multiprocessor, each atomic depends on the result of the one before |
//! | match rounds | matching of lanes, mean of 1, 8 and 32 distinct values, in rounds by that rate |
//! | bytes per second | a read-only kernel with the maximum number of resident blocks |
//! | bytes in flight | the same with one block on each multiprocessor, by the model's law: 16 KiB requested reach 1 - exp(-16 KiB / bytes in flight) of that rate; times 2.55 |
//! | global atomics | 64-bit additions to random words of 4 MiB, and to one word; each lane's counts |
//!
//! Warps of a pipeline update between their loads, and request nothing meanwhile: to keep a number of bytes
//! in flight they must be able to request more. On an H200 grouped sums follow the law with 30 KB (40, 49 and
//! 82 KB reach 72, 84 and 93 %), a read-only kernel with 11.8 KB (16 KiB reach 75 %). Both scale alike with a
//! device's memory, so the second is measured and the first is 2.55 times it.

use std::time::Duration;

use galatea_device::{Device, DeviceBuffer, DeviceError, GroupingRates, In, InOut, Out, Result, Stream};

use crate::kernels::{
    ConflictingLanes, FillPattern, GlobalAtomics, MatchLanes, ReadBandwidth, Repetition, SharedUpdates,
    Update, pattern,
};

/// Words of 4 MiB, which fit in the L2 cache.
const RANDOM_WORDS: usize = 1 << 19;
const ONE_LANE: ConflictingLanes = ConflictingLanes {
    lanes: 1,
    same_word: false,
};
const EIGHT_LANES: ConflictingLanes = ConflictingLanes {
    lanes: 8,
    same_word: false,
};
/// Numbers of distinct values among the matched lanes.
const MATCHED: [u32; 3] = [1, 8, 32];
/// Ratio of the bytes that a pipeline must be able to request to those of a read-only kernel.
const PIPELINES_ASK: f64 = 2.55;

/// Read rate of device memory with a number of bytes in flight.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReadRate {
    /// Bytes in flight per multiprocessor at any time.
    pub asked: u64,
    /// Bytes per second, all multiprocessors together.
    pub bytes_per_second: f64,
}

/// The measuring kernels, loaded, and their sizes.
#[derive(Debug)]
pub struct GroupingProbes {
    device: Device,
    stream: Stream,
    shared: SharedUpdates,
    matching: MatchLanes,
    global: GlobalAtomics,
    fill: FillPattern,
    read: ReadBandwidth,
    runs: usize,
    seed: u64,
    full: Repetition,
    read_bytes: u64,
}

impl GroupingProbes {
    /// Measures medians of `runs` runs of each kernel; the values read and the words updated are random with
    /// `seed`.
    ///
    /// # Errors
    /// Those of [`Device::compile`].
    pub fn new(device: &Device, runs: usize, seed: u64) -> Result<Self> {
        let info = device.info();
        let multiprocessors = u64::from(info.multiprocessors);
        let full = if info.emulated {
            Repetition {
                blocks: multiprocessors,
                threads: 64,
                updates: 4,
            }
        } else {
            Repetition {
                blocks: u64::from(info.max_threads_per_multiprocessor) / 1024 * multiprocessors,
                threads: 1024,
                updates: 4096,
            }
        };
        Ok(Self {
            stream: device.stream()?,
            shared: SharedUpdates::new(device)?,
            matching: MatchLanes::new(device)?,
            global: GlobalAtomics::new(device)?,
            fill: FillPattern::new(device)?,
            read: ReadBandwidth::new(device)?,
            device: device.clone(),
            runs,
            seed,
            full,
            read_bytes: super::measured_bytes(device),
        })
    }

    /// Atomics of warps in shared memory per second, all multiprocessors together.
    ///
    /// # Errors
    /// [`DeviceError::WrongResult`]; the device's. The same holds for all measuring functions.
    pub fn shared(&self, update: Update, conflicting: ConflictingLanes) -> Result<f64> {
        self.shared_by(self.full, update, conflicting)
    }

    fn shared_by(
        &self,
        repetition: Repetition,
        update: Update,
        conflicting: ConflictingLanes,
    ) -> Result<f64> {
        let expected = SharedUpdates::added(repetition, update);
        let time = self.time("atomics in shared memory", 1, expected, |total| {
            (self.shared).launch(&self.stream, repetition, update, conflicting, InOut(total))
        })?;
        Ok(per_second(repetition.accesses(), time))
    }

    /// Matches per second of warps with `values` distinct values, all multiprocessors together.
    ///
    /// # Errors
    /// See [`Self::shared`].
    pub fn matching(&self, values: u32) -> Result<f64> {
        let expected = MatchLanes::added(self.full, values);
        let time = self.time("matching of lanes", 1, expected, |total| {
            (self.matching).launch(&self.stream, self.full, values, InOut(total))
        })?;
        Ok(per_second(self.full.accesses(), time))
    }

    /// Atomics of lanes per second on `words` words of device memory; the number is a power of two.
    ///
    /// # Errors
    /// See [`Self::shared`].
    pub fn global(&self, words: usize) -> Result<f64> {
        let fewer = if words == 1 { 64 } else { 16 };
        let repetition = Repetition {
            updates: self.full.updates.div_ceil(fewer),
            ..self.full
        };
        let expected = GlobalAtomics::added(repetition);
        let time = self.time("atomics in device memory", words, expected, |words| {
            (self.global).launch(&self.stream, repetition, self.seed, InOut(words))
        })?;
        Ok(per_second(repetition.lanes(), time))
    }

    /// Read rates of device memory with one block on each multiprocessor, and with the maximum number of
    /// resident blocks.
    ///
    /// # Errors
    /// See [`Self::shared`].
    pub fn reads(&self) -> Result<[ReadRate; 2]> {
        let count = usize::try_from(self.read_bytes / 8).unwrap_or(usize::MAX);
        let mut values = self.device.alloc::<u64>(&self.stream, count)?.assume_written();
        self.fill.launch(&self.stream, Out(&mut values), self.seed)?;
        let expected = (0..count as u64)
            .map(|index| pattern(self.seed, index))
            .fold(0, u64::wrapping_add);
        let multiprocessors = u64::from(self.device.info().multiprocessors);
        let read = |blocks: u64| {
            let sums = usize::try_from(blocks).unwrap_or(usize::MAX);
            let time = self.time("reading of device memory", sums, expected, |sums| {
                self.read.launch(&self.stream, In(&values), Out(sums))
            })?;
            let threads = blocks / multiprocessors * u64::from(ReadBandwidth::BLOCK);
            Ok(ReadRate {
                asked: threads * ReadBandwidth::BYTES_AT_ONCE,
                bytes_per_second: per_second(values.bytes(), time),
            })
        };
        Ok([read(multiprocessors)?, read(self.read.blocks() as u64)?])
    }

    /// All figures of the model.
    ///
    /// # Errors
    /// See [`Self::shared`]; [`DeviceError::OutOfMemory`] when the budget leaves too little to read.
    pub fn rates(&self) -> Result<GroupingRates> {
        let rounds_per_second = 8.0 * self.shared(Update::Sum, EIGHT_LANES)?;
        let one_warp = Repetition {
            blocks: self.device.info().multiprocessors.into(),
            threads: 32,
            ..self.full
        };
        // In both measurements all multiprocessors run at once.
        let update_latency = rounds_per_second / self.shared_by(one_warp, Update::ReturningSum, ONE_LANE)?;
        let mut match_rounds = 0.0;
        for values in MATCHED {
            match_rounds += rounds_per_second / self.matching(values)? / MATCHED.len() as f64;
        }
        let [one_block, full] = self.reads()?;
        Ok(GroupingRates {
            rounds_per_second: rounds_per_second.round(),
            update_latency: thousandths(update_latency),
            match_rounds: thousandths(match_rounds),
            memory_bytes_per_second: full.bytes_per_second.round(),
            memory_bytes_in_flight: (PIPELINES_ASK * in_flight(one_block, full)).round(),
            global_atomics_per_second: self.global(RANDOM_WORDS)?.round(),
            global_atomics_on_one_address: self.global(1)?.round(),
        })
    }

    /// Median time of a launch; its `words` words, initially zero, must sum to `expected`.
    fn time(
        &self,
        what: &'static str,
        words: usize,
        expected: u64,
        mut work: impl FnMut(&mut DeviceBuffer<u64>) -> Result<()>,
    ) -> Result<Duration> {
        let mut result = self.device.zeroed::<u64>(&self.stream, words)?;
        work(&mut result)?;
        let found = self.stream.read(&result, ..)?;
        let found = found.into_iter().fold(0, u64::wrapping_add);
        if found != expected {
            return Err(DeviceError::WrongResult {
                what,
                expected,
                found,
            });
        }
        let mut times = Vec::new();
        for _ in 0..self.runs.max(1) {
            times.push(super::time(&self.stream, || work(&mut result))?);
        }
        times.sort_unstable();
        Ok(times[times.len() / 2])
    }
}

/// The bytes in flight for which the law yields the rate `few`.
fn in_flight(few: ReadRate, full: ReadRate) -> f64 {
    let share = (few.bytes_per_second / full.bytes_per_second).clamp(0.01, 0.99);
    -(few.asked as f64) / (-share).ln_1p()
}

fn per_second(operations: u64, time: Duration) -> f64 {
    // A timer too coarse to measure the work yields one microsecond.
    operations as f64 / time.as_secs_f64().max(1e-6)
}

/// Rounds to thousandths, at least one, so that a result without a measured difference remains usable.
fn thousandths(number: f64) -> f64 {
    (number * 1e3).round().max(1.0) / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_flight_inverts_the_read_rate_law() {
        let read = |asked: u64, bytes_per_second: f64| ReadRate {
            asked,
            bytes_per_second,
        };
        let full = read(128 << 10, 4e12);
        for asked in [8 << 10, 16 << 10, 32 << 10] {
            let share = 1.0 - (-(asked as f64) / 11.8e3).exp();
            let found = in_flight(read(asked, 4e12 * share), full);
            assert!((found - 11.8e3).abs() < 1.0, "{asked}: {found}");
        }
        // The timer measured no difference, or an absurd one.
        for rate in [0.0, 4e12, 9e12] {
            let found = in_flight(read(16 << 10, rate), full);
            assert!(found.is_finite() && found > 0.0, "{rate}: {found}");
        }
    }
}
