//! What grouped aggregation depends on, each figure by a small kernel whose result is checked before it is timed.
//!
//! | figure | from |
//! | --- | --- |
//! | rounds per second | native atomics with differing increments, 8 lanes meeting in each bank in different words |
//! | update latency | one warp per multiprocessor, each atomic waiting for the result of the one before |
//! | match rounds | matching of lanes, mean of 1, 8 and 32 different values, in rounds by that rate |
//! | bytes per second | a kernel that reads, of as many blocks as run at once |
//! | bytes in flight | the same with few blocks, by the model's law: they reach 1 - exp(-asked / bytes in flight) of that rate |
//! | global atomics | 64-bit additions to random words of 4 MiB, and to one word; each lane's counts |
//!
//! The law is a curve's fit: few bytes asked for reach more of the rate than it says, and many less. So bytes in flight are
//! measured where grouped aggregation is, at 32 to 64 KiB asked for by a multiprocessor.

use std::time::Duration;

use galatea_device::{Device, DeviceBuffer, DeviceError, GroupingRates, In, InOut, Out, Result, Stream};

use crate::kernels::{
    FillPattern, GlobalAtomics, MatchLanes, Meeting, ReadBandwidth, Repetition, SharedUpdates, Update,
    pattern,
};

/// Words of 4 MiB, which the level-2 cache holds.
const RANDOM_WORDS: usize = 1 << 19;
const ONE_LANE: Meeting = Meeting {
    lanes: 1,
    same_word: false,
};
const EIGHT_LANES: Meeting = Meeting {
    lanes: 8,
    same_word: false,
};
/// Different values among the lanes that are matched.
const MATCHED: [u32; 3] = [1, 8, 32];
/// Blocks of a multiprocessor that read, where they are to ask for less than they could.
const FEW_BLOCKS: [u64; 3] = [2, 3, 4];

/// Device memory read with so much asked for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReadRate {
    /// Bytes that a multiprocessor has asked for at any time.
    pub asked: u64,
    /// Bytes per second, all multiprocessors together.
    pub bytes_per_second: f64,
}

/// The kernels that measure, loaded, and how much they do.
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
    /// For medians of so many runs of each kernel; what is read and which words are added to is drawn from `seed`.
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
    /// [`DeviceError::WrongResult`]; the device's. So for all that measure.
    pub fn shared(&self, update: Update, meeting: Meeting) -> Result<f64> {
        self.shared_by(self.full, update, meeting)
    }

    fn shared_by(&self, repetition: Repetition, update: Update, meeting: Meeting) -> Result<f64> {
        let expected = SharedUpdates::added(repetition, update);
        let time = self.time("atomics in shared memory", 1, expected, |total| {
            (self.shared).launch(&self.stream, repetition, update, meeting, InOut(total))
        })?;
        Ok(per_second(repetition.accesses(), time))
    }

    /// Matches of warps by so many different values per second, all multiprocessors together.
    ///
    /// # Errors
    /// As [`Self::shared`].
    pub fn matching(&self, values: u32) -> Result<f64> {
        let expected = MatchLanes::added(self.full, values);
        let time = self.time("matching of lanes", 1, expected, |total| {
            (self.matching).launch(&self.stream, self.full, values, InOut(total))
        })?;
        Ok(per_second(self.full.accesses(), time))
    }

    /// Atomics of lanes on so many words of device memory per second; words are a power of two.
    ///
    /// # Errors
    /// As [`Self::shared`].
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

    /// Device memory read by few blocks, and last by as many as run at once.
    ///
    /// # Errors
    /// As [`Self::shared`].
    pub fn reads(&self) -> Result<Vec<ReadRate>> {
        let count = usize::try_from(self.read_bytes / 8).unwrap_or(usize::MAX);
        let mut values = self.device.alloc::<u64>(&self.stream, count)?.assume_written();
        self.fill.launch(&self.stream, Out(&mut values), self.seed)?;
        let expected = (0..count as u64)
            .map(|index| pattern(self.seed, index))
            .fold(0, u64::wrapping_add);
        let multiprocessors = u64::from(self.device.info().multiprocessors);
        let most = self.read.blocks() as u64;
        let few = FEW_BLOCKS.map(|blocks| blocks * multiprocessors);
        let mut rates = Vec::new();
        for blocks in few.into_iter().filter(|blocks| *blocks < most).chain([most]) {
            let sums = usize::try_from(blocks).unwrap_or(usize::MAX);
            let time = self.time("reading of device memory", sums, expected, |sums| {
                self.read.launch(&self.stream, In(&values), Out(sums))
            })?;
            let threads = blocks / multiprocessors * u64::from(ReadBandwidth::BLOCK);
            rates.push(ReadRate {
                asked: threads * ReadBandwidth::BYTES_AT_ONCE,
                bytes_per_second: per_second(values.bytes(), time),
            });
        }
        Ok(rates)
    }

    /// All figures of the model.
    ///
    /// # Errors
    /// As [`Self::shared`]; [`DeviceError::OutOfMemory`] when the budget leaves too little to read.
    pub fn rates(&self) -> Result<GroupingRates> {
        let rounds_per_second = 8.0 * self.shared(Update::Sum, EIGHT_LANES)?;
        let one_warp = Repetition {
            blocks: self.device.info().multiprocessors.into(),
            threads: 32,
            ..self.full
        };
        // All multiprocessors do it at once, in both.
        let update_latency = rounds_per_second / self.shared_by(one_warp, Update::ReturningSum, ONE_LANE)?;
        let mut match_rounds = 0.0;
        for values in MATCHED {
            match_rounds += rounds_per_second / self.matching(values)? / MATCHED.len() as f64;
        }
        let (memory_bytes_per_second, memory_bytes_in_flight) = in_flight(&self.reads()?);
        Ok(GroupingRates {
            rounds_per_second: rounds_per_second.round(),
            update_latency: thousandths(update_latency),
            match_rounds: thousandths(match_rounds),
            memory_bytes_per_second: memory_bytes_per_second.round(),
            memory_bytes_in_flight: memory_bytes_in_flight.round(),
            global_atomics_per_second: self.global(RANDOM_WORDS)?.round(),
            global_atomics_on_one_address: self.global(1)?.round(),
        })
    }

    /// Median time of some work, whose `words` words must add up to `expected` when they were zero before.
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

/// The rate of the last, and the bytes in flight that explain the others best: the median of what each says.
fn in_flight(reads: &[ReadRate]) -> (f64, f64) {
    let Some((full, few)) = reads.split_last() else {
        return (0.0, 0.0);
    };
    let explained = |read: &ReadRate| {
        let share = (read.bytes_per_second / full.bytes_per_second).clamp(0.01, 0.99);
        -(read.asked as f64) / (-share).ln_1p()
    };
    let mut found: Vec<f64> = few.iter().map(explained).collect();
    found.sort_by(f64::total_cmp);
    // A device that runs too few blocks to tell is taken to need all that it can ask for, three times over.
    let least = full.asked as f64 / 3.0;
    (
        full.bytes_per_second,
        found.get(found.len() / 2).copied().unwrap_or(least),
    )
}

fn per_second(operations: u64, time: Duration) -> f64 {
    // A timer too coarse to see the work measures one microsecond.
    operations as f64 / time.as_secs_f64().max(1e-6)
}

fn thousandths(number: f64) -> f64 {
    (number * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By the model's law with 30,000 bytes in flight, whatever was asked for.
    #[test]
    fn bytes_in_flight_are_the_laws() {
        let read = |asked: u64, rate: f64| ReadRate {
            asked,
            bytes_per_second: rate,
        };
        let law = |asked: u64| read(asked, 4e12 * (1.0 - (-(asked as f64) / 30e3).exp()));
        let reads = [law(32 << 10), law(48 << 10), law(64 << 10), read(128 << 10, 4e12)];
        let (rate, bytes) = in_flight(&reads);
        assert!(rate == 4e12 && (bytes - 30e3).abs() < 1.0, "{rate} {bytes}");
        // Nothing divides by zero where the timer sees no difference, or nothing was measured.
        let (_, bytes) = in_flight(&[read(32 << 10, 4e12), read(128 << 10, 4e12)]);
        assert!(bytes.is_finite() && bytes > 0.0);
        assert_eq!(in_flight(&[read(96, 1.0)]), (1.0, 32.0));
    }
}
