//! Errors of the device layer, grouped by audience.
//!
//! * the machine's administrator: [`DeviceError::NoDriver`], [`DeviceError::NoCompiler`] (with installation
//!   hints);
//! * the user of a query: [`DeviceError::OutOfMemory`], [`DeviceError::HostMemory`] (with the setting to
//!   change);
//! * the scheduler of queries: [`DeviceError::LaunchFailed`], [`DeviceError::DeviceLost`] (run elsewhere);
//! * the author of kernels: [`DeviceError::Compile`], [`DeviceError::Geometry`], [`DeviceError::Range`],
//!   [`DeviceError::UnknownEntry`];
//! * us: [`DeviceError::Driver`], a driver call that failed in a way that no other variant covers.
//!
//! Variants and fields are part of the contract; the message text is not.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::cache_folder::CacheRefusal;

/// Result of the device layer.
pub type Result<T, E = DeviceError> = std::result::Result<T, E>;

/// A missing library or device, and how to get it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// The missing part: `CUDA driver`, `NVRTC`, ...
    pub what: &'static str,
    /// The attempts, and the reasons why they failed.
    pub reason: String,
    /// How to get it, as a sentence for the user.
    pub remedy: &'static str,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} not available: {}\nhint: {}",
            self.what, self.reason, self.remedy
        )
    }
}

/// An error of the device layer.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// No usable CUDA driver, or no such GPU.
    #[error("{0}")]
    NoDriver(Missing),
    /// No usable NVRTC.
    #[error("{0}")]
    NoCompiler(Missing),
    /// A driver call failed in a way that no other variant covers: our bug, or a driver problem.
    #[error("CUDA call {call} failed: {name} ({code}): {text}")]
    Driver {
        /// The driver function.
        call: &'static str,
        /// Its `CUresult`.
        code: u32,
        /// The code's name, `CUDA_ERROR_...`.
        name: String,
        /// The driver's description of the code.
        text: String,
    },
    /// Device code did not compile.
    #[error("device program {program} does not compile\noptions: {options}\n{log}\n{listing}")]
    Compile {
        /// Name of the program.
        program: String,
        /// The compiler's log.
        log: String,
        /// The source, with lines numbered as in the log.
        listing: String,
        /// The options of the compilation, in order.
        options: String,
    },
    /// The compiled image does not contain the kernel.
    #[error("device program {program} has no kernel {entry}: it has {known}")]
    UnknownEntry {
        /// Name of the program.
        program: String,
        /// The requested kernel.
        entry: String,
        /// The kernels of the image.
        known: String,
    },
    /// Device memory is exhausted, by the configured limit or by the card. The error is the same for both.
    #[error(
        "out of device memory: {requested} bytes requested, {used} of {limit} bytes in use\nhint: {hint}"
    )]
    OutOfMemory {
        /// Bytes requested, as they would be charged.
        requested: u64,
        /// Bytes in use by this process at the time of the request.
        used: u64,
        /// The limit that was exceeded, in bytes.
        limit: u64,
        /// A remedy for the user.
        hint: &'static str,
    },
    /// Host memory for device use is exhausted.
    #[error(
        "out of host memory: {requested} bytes requested, {available} bytes available: {reason}\nhint: {hint}"
    )]
    HostMemory {
        /// Bytes requested.
        requested: u64,
        /// Bytes that the system had available.
        available: u64,
        /// The system's message.
        reason: String,
        /// A remedy for the user.
        hint: &'static str,
    },
    /// Host memory that a copy should write is still shared.
    #[error("host memory of {bytes} bytes is shared and cannot be a copy's target")]
    HostMemoryShared {
        /// Size of the memory.
        bytes: u64,
    },
    /// A launch exceeds a limit of the device or of the kernel.
    #[error("kernel {kernel} asks for {asked} {what}: the limit is {limit}")]
    Geometry {
        /// The kernel.
        kernel: String,
        /// The dimension that is too large (or zero): `threads per block`, `grid blocks in x`, ...
        what: &'static str,
        /// The requested number.
        asked: u64,
        /// The largest number allowed.
        limit: u64,
    },
    /// A copy, fill or kernel argument exceeds its buffer, or lengths that must be equal differ.
    #[error("{what}: elements {start}..{end} of {len}")]
    Range {
        /// The operation.
        what: &'static str,
        /// First element accessed.
        start: u64,
        /// One past the last element accessed.
        end: u64,
        /// Number of elements of the buffer.
        len: u64,
    },
    /// A kernel failed. The device is lost from then on: see [`DeviceError::DeviceLost`].
    #[error("kernel failed on {device}: {name}; last kernel launched on the stream: {kernel}\n{report}")]
    LaunchFailed {
        /// The device's name.
        device: String,
        /// The last kernel launched on the stream that reported the failure: the kernel that failed, or one
        /// shortly after it.
        kernel: String,
        /// Name of the driver's code, `CUDA_ERROR_...`.
        name: String,
        /// Details: on the emulated device the block, thread and line.
        report: String,
    },
    /// The device failed earlier and its context is destroyed; other devices are not affected. It can be
    /// opened again, if the driver allows it.
    #[error(
        "device {device} is lost: {cause}\nhint: open it again, or restart the process where the driver refuses that"
    )]
    DeviceLost {
        /// The device's name.
        device: String,
        /// The first error, as it was reported.
        cause: String,
    },
    /// Times of the emulated device were requested, but its times are meaningless.
    #[error(
        "cannot calibrate {device}: its times are those of this machine's CPU and mean nothing\nhint: galatea calibrate needs a GPU; SET galatea.device = 'auto'"
    )]
    NotTimed {
        /// The device's name.
        device: String,
    },
    /// A kernel under measurement returned a wrong result: a device problem, or our bug.
    #[error("measuring {what}: the device returned {found}, which should be {expected}")]
    WrongResult {
        /// The measured kernel.
        what: &'static str,
        /// The CPU's result.
        expected: u64,
        /// The device's result.
        found: u64,
    },
    /// Two objects of different devices were used together.
    #[error("{what} belongs to another device")]
    WrongDevice {
        /// The object.
        what: &'static str,
    },
    /// No folder for cached files is available.
    #[error("{0}")]
    NoCache(CacheRefusal),
    /// The operating system refused a file operation.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: Arc<std::io::Error>,
    },
}

impl DeviceError {
    /// Whether this process cannot use the device any more: the query can only continue elsewhere.
    #[must_use]
    pub fn is_device_lost(&self) -> bool {
        matches!(self, Self::DeviceLost { .. } | Self::LaunchFailed { .. })
    }

    /// Whether less demand or a higher limit would have helped.
    #[must_use]
    pub fn is_out_of_memory(&self) -> bool {
        matches!(self, Self::OutOfMemory { .. } | Self::HostMemory { .. })
    }
}
