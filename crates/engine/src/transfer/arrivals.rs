//! Chunks that a running kernel waits for.
//!
//! Chunks that come over the link are read by launches that are queued behind their copies. Where chunks are
//! small, these launches, and the events that order them, take longer than the copies. So one launch may read
//! several chunks that are still on their way: a persistent operator for as long as they come (XeFlow, whose
//! frames they are). Behind the copies of each chunk the copying stream stores a word, for which the blocks
//! that take its morsels wait (`await_arrival` in `link.cuh`).
//!
//! Everything that such a launch waits for is queued before it, and waits for earlier launches alone, so it
//! ends. Chunks that pass through slots have twice as many slots as a launch has chunks: the next ones are
//! copied meanwhile.

use crate::config::PersistentScan;
use crate::device::{DeviceRuntime, QueryStreams, RunError};
use galatea_base::policy::policy;
use galatea_device::{ChunkTimes, DeviceBuffer, Stream};

policy! {
    /// How many chunks a launch waits for.
    pub(crate) struct ArrivalPolicy {
        /// Bytes of them: half a millisecond of the link, after which a query can be cancelled or give way.
        bytes: u64 = 32 << 20,
        /// Chunks at most.
        chunks: u64 = 64,
        /// What the time by a launch each must be of the time by waiting, at least, for auto to wait.
        worth: f64 = 1.1,
    }
}

const POLICY: ArrivalPolicy = ArrivalPolicy::DEFAULT;

/// Whether launches over chunks of `bytes` wait for them.
pub(crate) fn waits(runtime: &DeviceRuntime, scan: PersistentScan, bytes: u64) -> bool {
    match scan {
        PersistentScan::Off => false,
        PersistentScan::On => true,
        PersistentScan::Auto => {
            let measured = runtime.calibration();
            measured.is_some_and(|measured| waiting_pays(measured.chunks, measured.h2d, bytes))
        }
    }
}

/// Whether a kernel that waits reads chunks of `bytes` faster than a launch each, by what was measured of
/// chunks so small that their copies take no time, and of a link of so many bytes a second.
fn waiting_pays(times: Option<ChunkTimes>, link: f64, bytes: u64) -> bool {
    let copy = bytes as f64 / link * 1e9;
    times.is_some_and(|times| times.launched.max(copy) > POLICY.worth * times.awaited.max(copy))
}

/// Chunks of `bytes`, of so many, for which one launch waits.
pub(crate) fn chunks_of_launch(bytes: u64, chunks: u64) -> usize {
    let most = (POLICY.bytes / bytes.max(1)).clamp(2, POLICY.chunks);
    most.min(chunks.max(1)) as usize
}

/// The words of a run's chunks, by position in the order of its launches.
#[derive(Debug)]
pub(crate) struct Arrivals {
    words: DeviceBuffer<u32>,
}

impl Arrivals {
    /// Words of so many chunks, none of which is there.
    pub(crate) fn new(
        runtime: &DeviceRuntime,
        streams: &QueryStreams,
        chunks: usize,
    ) -> Result<Self, RunError> {
        let words = runtime.words(&streams.compute, chunks, "the arrivals of chunks")?;
        // The copying streams store into them.
        let cleared = streams.compute.record()?;
        for stream in &streams.transfer {
            stream.wait(&cleared)?;
        }
        Ok(Self { words })
    }

    /// Says that the chunk at `position` is there, once all that `stream` has queued is done.
    pub(crate) fn announce(&mut self, stream: &Stream, position: usize) -> Result<(), RunError> {
        Ok(stream.write_word(self.words.slice_mut(position..position + 1)?, 1)?)
    }

    /// Where the words are.
    pub(crate) fn address(&self) -> u64 {
        self.words.address()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_pays_where_launches_take_longer_than_copies() {
        let times = |launched, awaited| Some(ChunkTimes { launched, awaited });
        let pays = |times, bytes| waiting_pays(times, 50e9, bytes);
        // 12 microseconds of the link are 600 kB.
        for (bytes, expected) in [
            (1, true),
            (16 << 10, true),
            (500_000, true),
            (600_000, false),
            (8 << 20, false),
        ] {
            assert_eq!(pays(times(12_000.0, 4_000.0), bytes), expected, "{bytes}");
        }
        assert!(!pays(times(4_000.0, 4_000.0), 1), "no faster");
        assert!(!pays(None, 1), "not measured");
    }
}
