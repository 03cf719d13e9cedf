//! Passes a run's batches to its result queue.

use super::pieces::{Part, Piece, read_in_pieces};
use crate::device::{DeviceRuntime, RunError};
use crate::results::queue::ResultQueue;
use arrow::array::RecordBatch;
use galatea_device::Stream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Passes the batches of one run to its queue, and counts their rows.
#[derive(Debug)]
pub(crate) struct Outlet<'a> {
    runtime: &'a DeviceRuntime,
    queue: &'a ResultQueue,
    cancelled: &'a AtomicBool,
    rows: AtomicU64,
}

impl<'a> Outlet<'a> {
    /// An outlet into `queue`, until `cancelled` is set.
    pub(crate) fn new(runtime: &'a DeviceRuntime, queue: &'a ResultQueue, cancelled: &'a AtomicBool) -> Self {
        Self {
            runtime,
            queue,
            cancelled,
            rows: AtomicU64::new(0),
        }
    }

    /// The device that has the rows.
    pub(super) fn runtime(&self) -> &'a DeviceRuntime {
        self.runtime
    }

    /// Number of rows in the batches passed on so far.
    pub(crate) fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    /// Passes a batch to the queue.
    pub(super) fn give(&self, batch: RecordBatch) -> Result<(), RunError> {
        self.rows.fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
        self.queue
            .push(batch, self.runtime.memory().admission(), self.cancelled)
    }

    /// Reads `rows` rows of the parts, after the work queued on `stream`, and passes on each piece as decoded
    /// by `decode`, in order. Returns the number of bytes read.
    pub(super) fn pieces(
        &self,
        stream: &Stream,
        rows: usize,
        parts: &[Part<'_>],
        decode: impl Fn(&Piece<'_>) -> Result<RecordBatch, RunError> + Sync,
    ) -> Result<u64, RunError> {
        let give = |batch| self.give(batch);
        read_in_pieces(self.runtime, stream, rows, parts, self.cancelled, decode, give)
    }
}
