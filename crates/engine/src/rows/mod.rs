//! Rows that a pipeline writes to device memory, for another pipeline or for the result.
//!
//! | module | rows are stored | written by |
//! | --- | --- | --- |
//! | [`columns`] | in columns of a fixed length | every sink below |
//! | [`stored`] | by their position in the input | `sink/store.rs` |
//! | [`partitions`] | by partition, after a pass that counts them | `sink/partition.rs` |
//! | [`heap`] | in pages of a device heap, because their number is unknown | `sink/chains.rs`, group tables |
//!
//! The memory belongs to a query and consists of regions: other queries may evict a region between two
//! launches.

pub(crate) mod columns;
pub(crate) mod heap;
pub(crate) mod partitions;
pub(crate) mod stored;

use crate::device::{DeviceRuntime, RunError};
use galatea_base::reason::Reason;
use galatea_device::{DeviceBuffer, Stream};

/// Zeroed words in device memory, at least one. `what` names them in errors.
pub(crate) fn zeroed(
    runtime: &DeviceRuntime,
    stream: &Stream,
    words: u64,
    what: &'static str,
) -> Result<DeviceBuffer<u64>, RunError> {
    runtime.zeroed(stream, words.max(1) as usize, what)
}

/// The error of a run that has no memory for `needed` bytes of `what`.
pub(crate) fn memory(runtime: &DeviceRuntime, what: &'static str, needed: u64) -> RunError {
    RunError::full(runtime.device().budget(), what, needed)
}

/// Fails if there are more rows than 32-bit row numbers.
///
/// # Errors
/// [`Reason::Limit`] with the number of rows.
pub(crate) fn check_rows(rows: u64) -> Result<(), RunError> {
    let limit = u64::from(u32::MAX) - 1;
    if rows <= limit {
        return Ok(());
    }
    Err(RunError::Unsupported(Reason::Limit {
        expression: "a join or a window".into(),
        asked: rows,
        limit,
        unit: "rows",
    }))
}
