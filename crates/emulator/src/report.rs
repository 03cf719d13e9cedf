//! Reports of failed kernels: the kind of failure, the thread, and the place.

use std::ffi::{CStr, c_char};
use std::fmt;

use cudarc::driver::sys::CUresult;

/// A position in device source. The file is a string literal of the module.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Site {
    pub(crate) file: *const c_char,
    pub(crate) line: u32,
}

impl Site {
    /// No position.
    pub(crate) const NONE: Site = Site {
        file: std::ptr::null(),
        line: 0,
    };

    /// Whether both are the same line of the same file.
    pub(crate) fn same(&self, other: &Site) -> bool {
        self.line == other.line && (self.file == other.file || self.name() == other.name())
    }

    fn name(&self) -> &CStr {
        if self.file.is_null() {
            return c"";
        }
        // SAFETY: a string literal of a module that is loaded while its kernel runs.
        unsafe { CStr::from_ptr(self.file) }
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.name().to_string_lossy(), self.line)
    }
}

/// Cause of a failed launch. Each kind maps to one CUDA error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureKind {
    /// `__trap()`.
    Trap,
    /// A device-side assertion.
    Assert,
    /// A collective was used against its rules.
    Collective,
    /// A barrier was used against its rules.
    Barrier,
    /// No thread of a block can continue.
    Deadlock,
    /// Threads spin without progress.
    Stall,
    /// Two accesses are not ordered.
    Race,
    /// The CPU refused a memory access.
    Fault,
    /// The host could not provide a resource that the launch needs.
    Host,
}

impl FailureKind {
    /// The error that the driver would report.
    pub(crate) fn result(self) -> CUresult {
        match self {
            FailureKind::Assert => CUresult::CUDA_ERROR_ASSERT,
            FailureKind::Fault => CUresult::CUDA_ERROR_ILLEGAL_ADDRESS,
            FailureKind::Deadlock | FailureKind::Stall => CUresult::CUDA_ERROR_LAUNCH_TIMEOUT,
            FailureKind::Trap
            | FailureKind::Collective
            | FailureKind::Barrier
            | FailureKind::Race
            | FailureKind::Host => CUresult::CUDA_ERROR_LAUNCH_FAILED,
        }
    }

    fn headline(self) -> &'static str {
        match self {
            FailureKind::Trap => "trap",
            FailureKind::Assert => "device-side assertion",
            FailureKind::Collective => "misused warp collective",
            FailureKind::Barrier => "misused barrier",
            FailureKind::Deadlock => "deadlock",
            FailureKind::Stall => "no progress",
            FailureKind::Race => "race",
            FailureKind::Fault => "illegal memory access",
            FailureKind::Host => "out of host resources",
        }
    }
}

/// The first failure of a launch.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) kind: FailureKind,
    pub(crate) what: String,
    pub(crate) place: String,
}

impl Failure {
    /// The report as shown to users.
    pub(crate) fn text(&self, kernel: &str, seed: u64) -> String {
        let place = if self.place.is_empty() {
            String::new()
        } else {
            format!(", {}", self.place)
        };
        format!(
            "{} in kernel `{kernel}`{place}: {} (seed {seed})",
            self.kind.headline(),
            self.what
        )
    }
}
