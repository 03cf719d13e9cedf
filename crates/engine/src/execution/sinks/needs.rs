//! The device memory that a run works in.

use super::interned::InternedWords;
use crate::device::{DeviceRuntime, RunError};
use galatea_device::{DeviceBuffer, Stream};

/// How many rows and pairs a join has.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PairSizes {
    pub(super) pairs: u64,
    pub(super) probe: u64,
    pub(super) build: u64,
}

/// What a sink is allocated by.
#[derive(Debug, Clone)]
pub(super) struct SinkNeeds {
    /// Number of the query, which owns the memory.
    pub owner: u64,
    /// Rows it scans.
    pub rows: u64,
    /// Slots that a hash table starts with at least, unless fewer groups are possible.
    pub hash_slots: u64,
    /// Groups that an earlier run of its shape has found, for so many rows.
    pub groups: Option<u64>,
    /// Rows there will be, if they were counted.
    pub counted: Option<u64>,
    /// Rows of each partition, if they were counted.
    pub partitions: Option<Vec<u64>>,
    /// How many rows and pairs the join has that is marked.
    pub pairs: Option<PairSizes>,
    /// Rows after which the run stops.
    pub fetch: Option<u64>,
    /// Memory for texts of group keys that have no dictionary, where there are such.
    pub texts: Option<InternedWords>,
    /// Whether groups stay on the device, for another pipeline.
    pub keep: bool,
}

/// Words of zeros in device memory, one at least.
pub(super) fn zeroed(
    runtime: &DeviceRuntime,
    stream: &Stream,
    words: u64,
    what: &'static str,
) -> Result<DeviceBuffer<u64>, RunError> {
    runtime.zeroed(stream, words.max(1) as usize, what)
}

/// The error of a run for which `needed` bytes are too much.
pub(super) fn memory(runtime: &DeviceRuntime, what: &'static str, needed: u64) -> RunError {
    RunError::full(runtime.device().budget(), what, needed)
}
