//! Arrival flags of chunks that a running kernel waits for.
//!
//! Chunks that are transferred over the link are read by launches queued after their copies. If chunks are
//! small, these launches, and the events that order them, take longer than the copies. Therefore one launch
//! may read several chunks that are still in transfer: a persistent operator until they have arrived (XeFlow;
//! chunks are its frames). After the copies of each chunk the copy stream stores a word. The blocks that
//! process the chunk's morsels wait for it (`await_arrival` in `link.cuh`).
//!
//! All work that such a launch waits for is queued before it, and itself waits only for earlier launches, so
//! the launch ends. Chunks that pass through slots have twice the number of slots as a launch has chunks, so
//! that the next ones are copied meanwhile.

use crate::config::PersistentScan;
use crate::device::{DeviceRuntime, QueryStreams, RunError};
use galatea_base::policy::policy;
use galatea_device::{ChunkTimes, DeviceBuffer, Stream};

policy! {
    /// Number of chunks that one launch waits for.
    pub(crate) struct ArrivalPolicy {
        /// Bytes of these chunks: half a millisecond of the link, after which a query can be cancelled or
        /// give way.
        bytes: u64 = 32 << 20,
        /// Maximum number of chunks.
        chunks: u64 = 64,
        /// Minimum speedup over one launch per chunk for auto to wait.
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

/// Whether a kernel that waits reads chunks of `bytes` faster than one launch per chunk, according to
/// measured times of chunks with negligible copies and a link of `link` bytes per second.
fn waiting_pays(times: Option<ChunkTimes>, link: f64, bytes: u64) -> bool {
    let copy = bytes as f64 / link * 1e9;
    times.is_some_and(|times| times.launched.max(copy) > POLICY.worth * times.awaited.max(copy))
}

/// Number of chunks of `bytes`, out of `chunks`, that one launch waits for.
pub(crate) fn chunks_of_launch(bytes: u64, chunks: u64) -> usize {
    let most = (POLICY.bytes / bytes.max(1)).clamp(2, POLICY.chunks);
    most.min(chunks.max(1)) as usize
}

/// The arrival words of a run's chunks, by position in the order of its launches.
#[derive(Debug)]
pub(crate) struct Arrivals {
    words: DeviceBuffer<u32>,
}

impl Arrivals {
    /// Words of `chunks` chunks, none of which has arrived.
    pub(crate) fn new(
        runtime: &DeviceRuntime,
        streams: &QueryStreams,
        chunks: usize,
    ) -> Result<Self, RunError> {
        let words = runtime.words(&streams.compute, chunks, "the arrivals of chunks")?;
        // The copy streams store to them.
        let cleared = streams.compute.record()?;
        for stream in &streams.transfer {
            stream.wait(&cleared)?;
        }
        Ok(Self { words })
    }

    /// Marks the chunk at `position` as arrived, once all work queued on `stream` is done.
    pub(crate) fn announce(&mut self, stream: &Stream, position: usize) -> Result<(), RunError> {
        Ok(stream.write_word(self.words.slice_mut(position..position + 1)?, 1)?)
    }

    /// Address of the words.
    pub(crate) fn address(&self) -> u64 {
        self.words.address()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn persistent_scan_is_chosen_if_launches_exceed_copies() {
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
