//! One run of those over the parts of a join, which fill one sink.

use super::sinks::SinkState;
use crate::device::prepared::Prepared;
use crate::device::{QueryStreams, RunError};
use galatea_base::reason::Reason;
use galatea_codegen::bound::BoundPipeline;
use galatea_codegen::strategy::Strategy;
use parking_lot::Mutex;
use std::sync::Arc;

/// A run over a part of a join.
#[derive(Debug, Clone, Copy)]
pub(super) struct PartRun<'a> {
    /// The sink between two parts.
    carried: &'a Mutex<Option<Carried>>,
    /// Whether it is the last part.
    last: bool,
    /// How often all parts have begun again for want of room for texts.
    pub(super) begun_again: u32,
}

/// What stays from part to part.
#[derive(Debug)]
pub(super) struct Carried {
    /// The kernel that fills the sink: that of every part.
    source: Arc<str>,
    sink: SinkState,
    /// The sink's memory belongs to their order.
    streams: Option<QueryStreams>,
}

impl<'a> PartRun<'a> {
    /// The run over a part, with what stays from part to part; the parts have begun again so often for want
    /// of room for texts.
    pub(super) fn new(carried: &'a Mutex<Option<Carried>>, last: bool, begun_again: u32) -> Self {
        Self {
            carried,
            last,
            begun_again,
        }
    }

    /// Whether the sink stays for the next part.
    pub(super) fn goes_on(self, bound: &BoundPipeline) -> bool {
        let returns = matches!(
            bound.strategy,
            Strategy::Append { .. } | Strategy::Chains | Strategy::Sort { .. }
        );
        !self.last && !returns
    }

    /// Leaves the sink for the next part, parked.
    pub(super) fn leave(self, pipeline: &Prepared, sink: SinkState) {
        let source = Arc::clone(&pipeline.bound.source);
        *self.carried.lock() = Some(Carried {
            source,
            sink,
            streams: None,
        });
    }

    /// Leaves the streams with the sink; gives them back if there is none.
    pub(super) fn leave_streams(self, streams: QueryStreams) -> Option<QueryStreams> {
        match &mut *self.carried.lock() {
            Some(carried) => {
                carried.streams = Some(streams);
                None
            }
            None => Some(streams),
        }
    }

    /// The sink that the part before has left, and its streams.
    ///
    /// # Errors
    /// Where it was filled by another kernel.
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
