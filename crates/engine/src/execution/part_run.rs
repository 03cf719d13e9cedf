//! A run over one partition of a join. The runs over all partitions fill one sink.

use super::sinks::SinkState;
use crate::device::prepared::Prepared;
use crate::device::{QueryStreams, RunError};
use galatea_base::reason::Reason;
use galatea_codegen::bound::BoundPipeline;
use galatea_codegen::strategy::Strategy;
use parking_lot::Mutex;
use std::sync::Arc;

/// A run over one partition of a join.
#[derive(Debug, Clone, Copy)]
pub(super) struct PartRun<'a> {
    /// The sink, between the runs of two partitions.
    carried: &'a Mutex<Option<Carried>>,
    /// Whether this is the last partition.
    last: bool,
    /// Number of times that all partitions were restarted because memory for strings was insufficient.
    pub(super) begun_again: u32,
    /// Maximum number of rows that all runs which fill the sink scan; fewer if one run fills it.
    rows: u64,
}

/// The state that is carried from one partition to the next.
#[derive(Debug)]
pub(super) struct Carried {
    /// The kernel that fills the sink, which is the same for every partition.
    source: Arc<str>,
    sink: SinkState,
    /// The streams that order accesses to the sink's memory.
    streams: Option<QueryStreams>,
}

impl<'a> PartRun<'a> {
    /// The run over a partition, with the state carried between partitions. The partitions were restarted
    /// `begun_again` times because memory for strings was insufficient. All runs which fill the sink scan at
    /// most `rows` rows.
    pub(super) fn new(carried: &'a Mutex<Option<Carried>>, last: bool, begun_again: u32, rows: u64) -> Self {
        Self {
            carried,
            last,
            begun_again,
            rows,
        }
    }

    /// Whether the sink is carried to the next partition.
    pub(super) fn goes_on(self, bound: &BoundPipeline) -> bool {
        !self.last && !returns_rows(bound)
    }

    /// Rows that a new sink has memory for. This run scans `scanned` rows.
    pub(super) fn rows_of_sink(self, bound: &BoundPipeline, scanned: u64) -> u64 {
        match returns_rows(bound) {
            true => scanned,
            false => self.rows.max(scanned),
        }
    }

    /// Parks the sink and leaves it for the next partition.
    pub(super) fn leave(self, pipeline: &Prepared, sink: SinkState) {
        let source = Arc::clone(&pipeline.bound.source);
        *self.carried.lock() = Some(Carried {
            source,
            sink,
            streams: None,
        });
    }

    /// Leaves the streams with the sink; returns them if there is no sink.
    pub(super) fn leave_streams(self, streams: QueryStreams) -> Option<QueryStreams> {
        match &mut *self.carried.lock() {
            Some(carried) => {
                carried.streams = Some(streams);
                None
            }
            None => Some(streams),
        }
    }

    /// Takes the sink of the previous partition, and its streams.
    ///
    /// # Errors
    /// The sink was filled by another kernel.
    pub(super) fn take(
        self,
        pipeline: &Prepared,
    ) -> Result<Option<(SinkState, Option<QueryStreams>)>, RunError> {
        match self.carried.lock().take() {
            Some(carried) if carried.source != pipeline.bound.source => {
                Err(RunError::Unsupported(Reason::Expression {
                    expression: "a join in parts".into(),
                    detail: "its parts have kernels that differ".into(),
                }))
            }
            Some(carried) => Ok(Some((carried.sink, carried.streams))),
            None => Ok(None),
        }
    }
}

/// Whether the rows of each partition are returned, so that none are left in the sink.
fn returns_rows(bound: &BoundPipeline) -> bool {
    matches!(
        bound.strategy,
        Strategy::Append { .. } | Strategy::Chains | Strategy::Sort { .. }
    )
}
