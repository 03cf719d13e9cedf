//! Errors that end a stream before its input ends.

use datafusion::error::DataFusionError;
use galatea_device::DeviceError;
use galatea_flow::FlowError;

/// The reason why a stream ended before its input did.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError {
    /// An error of the device.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// An error of the topology.
    #[error("the stream's persistent operator failed: {0}")]
    Flow(FlowError),
    /// A window with more groups than its table on the device holds.
    #[error(
        "a window of the stream has more than {limit} groups\nhint: raise galatea.stream.groups, or set galatea.device = 'cpu'"
    )]
    Groups {
        /// The limit.
        limit: u64,
    },
    /// More distinct strings in a group key than the dictionary holds.
    #[error(
        "a group key of the stream has more than {limit} distinct strings\nhint: group by a number, or set galatea.device = 'cpu'"
    )]
    StreamStrings {
        /// The limit.
        limit: u64,
    },
    /// A result frame has an unexpected size: a defect, please report it.
    #[error("frame {frame} of a stream's results has {asked} bytes, of {there} (please report it)")]
    Frame {
        /// Number of the frame.
        frame: u64,
        /// Number of bytes to read.
        asked: u64,
        /// Number of bytes in the frame.
        there: u64,
    },
    /// No thread could be started for the stream.
    #[error("no thread for the stream: {0}")]
    Thread(std::io::Error),
    /// The thread of the stream ended early: a defect, please report it.
    #[error("the thread of the stream ended early (please report it)")]
    Ended,
}

impl From<StreamError> for DataFusionError {
    fn from(error: StreamError) -> Self {
        Self::External(Box::new(error))
    }
}
