//! Errors of the device layer, one variant per audience.
//!
//! * the machine's administrator: [`DeviceError::NoDriver`], [`DeviceError::NoCompiler`] (with how to get
//!   it);
//! * the user of a query: [`DeviceError::OutOfMemory`], [`DeviceError::HostMemory`] (with the knob);
//! * the scheduler of queries: [`DeviceError::LaunchFailed`], [`DeviceError::DeviceLost`] (go elsewhere);
//! * the author of kernels: [`DeviceError::Compile`], [`DeviceError::Geometry`], [`DeviceError::Range`],
//!   [`DeviceError::UnknownEntry`];
//! * us: [`DeviceError::Driver`], a driver call that failed in a way no other variant covers.
//!
//! Variants and fields are contract, the text is not.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::cache_folder::CacheRefusal;

/// Result of the device layer.
pub type Result<T, E = DeviceError> = std::result::Result<T, E>;

/// A library or device that is not there, and how to get it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// The missing part: `CUDA driver`, `NVRTC`, ...
    pub what: &'static str,
    /// The attempts and how they failed.
    pub reason: String,
    /// How to get it, a sentence for the user.
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
    /// No usable CUDA driver or no such GPU.
    #[error("{0}")]
    NoDriver(Missing),
    /// No usable NVRTC.
    #[error("{0}")]
    NoCompiler(Missing),
    /// A driver call failed in a way no other variant covers: our bug, or a driver in trouble.
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
        /// The source, lines numbered as in the log.
        listing: String,
        /// The options it was compiled with, in order.
        options: String,
    },
    /// The compiled image holds no such kernel.
    #[error("device program {program} has no kernel {entry}: it has {known}")]
    UnknownEntry {
        /// Name of the program.
        program: String,
        /// The kernel asked for.
        entry: String,
        /// The kernels it has.
        known: String,
    },
    /// Device memory is exhausted, by the configured limit or by the card: the same error for both.
    #[error(
        "out of device memory: {requested} bytes requested, {used} of {limit} bytes in use\nhint: {hint}"
    )]
    OutOfMemory {
        /// Bytes asked for, as they would be charged.
        requested: u64,
        /// Bytes in use by this process when they were asked for.
        used: u64,
        /// The limit that was hit, in bytes.
        limit: u64,
        /// What the user can do.
        hint: &'static str,
    },
    /// Host memory for device use is exhausted.
    #[error(
        "out of host memory: {requested} bytes requested, {available} bytes available: {reason}\nhint: {hint}"
    )]
    HostMemory {
        /// Bytes asked for.
        requested: u64,
        /// Bytes the system had available.
        available: u64,
        /// What the system said.
        reason: String,
        /// What the user can do.
        hint: &'static str,
    },
    /// Host memory that should be written by a copy is still shared with somebody.
    #[error("host memory of {bytes} bytes is shared and cannot be a copy's target")]
    HostMemoryShared {
        /// Size of the memory.
        bytes: u64,
    },
    /// A launch asks for more than the device or the kernel allows.
    #[error("kernel {kernel} asks for {asked} {what}: the limit is {limit}")]
    Geometry {
        /// The kernel.
        kernel: String,
        /// What is too large (or zero): `threads per block`, `grid blocks in x`, ...
        what: &'static str,
        /// The number asked for.
        asked: u64,
        /// The largest number allowed.
        limit: u64,
    },
    /// A copy, fill or kernel argument reaches outside its buffer, or lengths that must agree do not.
    #[error("{what}: elements {start}..{end} of {len}")]
    Range {
        /// The operation.
        what: &'static str,
        /// First element touched.
        start: u64,
        /// One past the last element touched.
        end: u64,
        /// Elements there are.
        len: u64,
    },
    /// A kernel failed. The device is lost from then on: see [`DeviceError::DeviceLost`].
    #[error("kernel failed on {device}: {name}; last kernel launched on the stream: {kernel}\n{report}")]
    LaunchFailed {
        /// The device's name.
        device: String,
        /// The last kernel launched on the stream that reported the failure: the culprit, or one just after
        /// it.
        kernel: String,
        /// Name of the driver's code, `CUDA_ERROR_...`.
        name: String,
        /// Details: on the emulated device the block, thread and line.
        report: String,
    },
    /// The device failed earlier and its context is gone; everything else goes on. It can be opened again,
    /// where the driver allows it.
    #[error(
        "device {device} is lost: {cause}\nhint: open it again, or restart the process where the driver refuses that"
    )]
    DeviceLost {
        /// The device's name.
        device: String,
        /// The first error, as it was reported.
        cause: String,
    },
    /// Times of the emulated device were asked for, which has none of its own.
    #[error(
        "cannot calibrate {device}: its times are those of this machine's CPU and mean nothing\nhint: galatea calibrate needs a GPU; SET galatea.device = 'auto'"
    )]
    NotTimed {
        /// The device's name.
        device: String,
    },
    /// A kernel that is being measured returns a wrong result: a device in trouble, or our bug.
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
    /// There is no folder to keep files in.
    #[error("{0}")]
    NoCache(CacheRefusal),
    /// The operating system refused a file operation.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: Arc<std::io::Error>,
    },
}

impl DeviceError {
    /// Whether the device is gone for this process: the query can only go on elsewhere.
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
