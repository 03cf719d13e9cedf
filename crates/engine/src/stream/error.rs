//! Why a stream ended before its input did.

use datafusion::error::DataFusionError;
use galatea_device::DeviceError;
use galatea_flow::FlowError;

/// Why a stream ended before its input did.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError {
    /// The device's.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The topology's.
    #[error("the stream's persistent operator failed: {0}")]
    Flow(FlowError),
    /// A window with more groups than its table on the device holds.
    #[error(
        "a window of the stream has more than {limit} groups\nhint: raise galatea.stream_groups, or set galatea.device = 'cpu'"
    )]
    Groups {
        /// The limit.
        limit: u64,
    },
    /// More distinct texts in a group key than the dictionary holds.
    #[error(
        "a group key of the stream has more than {limit} distinct texts\nhint: group by a number, or set galatea.device = 'cpu'"
    )]
    Texts {
        /// The limit.
        limit: u64,
    },
    /// A result frame that is not what was asked for: a defect, please report it.
    #[error("frame {frame} of a stream's results has {asked} bytes, of {there} (please report it)")]
    Frame {
        /// Number of the frame.
        frame: u64,
        /// Bytes that are read.
        asked: u64,
        /// Bytes that it has.
        there: u64,
    },
    /// No thread for the stream.
    #[error("no thread for the stream: {0}")]
    Thread(std::io::Error),
    /// Its thread ended early: a defect, please report it.
    #[error("the thread of the stream ended early (please report it)")]
    Ended,
}

impl From<StreamError> for DataFusionError {
    fn from(error: StreamError) -> Self {
        Self::External(Box::new(error))
    }
}
