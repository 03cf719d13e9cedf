//! Errors of topologies.

use std::time::Duration;

use galatea_device::DeviceError;

/// The reason why a topology was rejected, or ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FlowError {
    /// An error of the device.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The topology is invalid.
    #[error("topology refused: {what}")]
    Topology {
        /// The reason.
        what: String,
    },
    /// A limit is exceeded.
    #[error("topology refused: {asked} {what}, more than {limit}\nhint: {hint}")]
    TooMany {
        /// The limited quantity.
        what: &'static str,
        /// The requested number.
        asked: u64,
        /// The limit.
        limit: u64,
        /// The remedy.
        hint: &'static str,
    },
    /// An operator on the CPU returned an error.
    #[error("operator {operator} failed: {cause}")]
    Operator {
        /// Its name.
        operator: String,
        /// Its error.
        cause: Box<dyn std::error::Error + Send + Sync>,
    },
    /// An operator on the CPU panicked.
    #[error("operator {operator} panicked: {message}")]
    Panicked {
        /// Its name.
        operator: String,
        /// Its message.
        message: String,
    },
    /// An operator on the device called `fail`.
    #[error(
        "operator {operator} failed on the device with code {code}, for the frame at source offset {source_offset}"
    )]
    DeviceOperator {
        /// Its name.
        operator: String,
        /// Its code.
        code: u32,
        /// Source offset of the frame that it failed for.
        source_offset: u64,
    },
    /// The output of an operator is longer than a frame.
    #[error(
        "operator {operator} made more than the {limit} bytes of a frame, for the frame at source offset {source_offset}\n\
         hint: give the topic that it publishes larger frames (Topic::frame_bytes)"
    )]
    OutputLength {
        /// Its name.
        operator: String,
        /// Bytes of a frame.
        limit: u64,
        /// Source offset of the frame that it failed for.
        source_offset: u64,
    },
    /// A participant made no progress for too long.
    #[error(
        "{who} did not move for {} ms, the limit is {} ms\n\
         hint: raise FlowOptions::timeout for operators that take longer for a frame", waited.as_millis(), limit.as_millis()
    )]
    Hung {
        /// Operator or block.
        who: String,
        /// Time without progress.
        waited: Duration,
        /// The limit of that time.
        limit: Duration,
    },
    /// A heap is exhausted, and neither a spare buffer nor a buffer of another heap is available.
    #[error(
        "no frame for {who} for {} ms: all {limit} frames of {frame_bytes} bytes are in use\n\
         hint: raise FlowOptions::initial_buffers or spare_buffers", waited.as_millis()
    )]
    Exhausted {
        /// The operator that needs a frame.
        who: String,
        /// Bytes of the frame.
        frame_bytes: u64,
        /// Frames of the heap.
        limit: u64,
        /// Time that it waited.
        waited: Duration,
    },
    /// A frame word does not identify a frame.
    #[error("topic {topic} holds the frame word {word:#x}, which names no frame of it")]
    Corrupt {
        /// The topic.
        topic: String,
        /// The frame word.
        word: u64,
    },
    /// Blocks gave up, because the host's beat did not change.
    #[error(
        "the device gave up: it did not hear from the host for {} ms\nhint: raise FlowOptions::timeout", limit.as_millis()
    )]
    HostSilent {
        /// The limit of the time without a beat.
        limit: Duration,
    },
    /// A thread for an operator could not be started.
    #[error("no thread for operator {operator}: {cause}")]
    Thread {
        /// Its name.
        operator: String,
        /// The system's reason.
        cause: std::io::Error,
    },
}

impl FlowError {
    /// The error of an invalid topology.
    pub(crate) fn topology(what: impl Into<String>) -> Self {
        Self::Topology { what: what.into() }
    }
}

/// The result of an operation on a topology.
pub type Result<T, E = FlowError> = std::result::Result<T, E>;
