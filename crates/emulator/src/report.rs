//! What is said when a kernel fails: who, where, and what the others were doing.

use std::ffi::{CStr, c_char};
use std::fmt;
use std::time::Duration;

use cudarc::driver::sys::CUresult;

use crate::abi::{barrier as barriers, collective as operations};
use crate::block::{LANES, Runner};
use crate::warp::lanes;

/// A position in device source; the file is a string literal of the module.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Site {
    pub(crate) file: *const c_char,
    pub(crate) line: u32,
}

impl Site {
    /// Nowhere.
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

/// Why a launch failed; each kind is one CUDA error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureKind {
    /// `__trap()`.
    Trap,
    /// A device-side assertion.
    Assert,
    /// A collective used against its rules.
    Collective,
    /// A barrier used against its rules.
    Barrier,
    /// No thread of a block can go on.
    Deadlock,
    /// Threads spin and nothing happens.
    Stall,
    /// A memory access the CPU refused.
    Fault,
    /// The host could not provide what the launch needs.
    Host,
}

impl FailureKind {
    /// The error that the driver would report.
    pub(crate) fn result(self) -> CUresult {
        match self {
            FailureKind::Assert => CUresult::CUDA_ERROR_ASSERT,
            FailureKind::Fault => CUresult::CUDA_ERROR_ILLEGAL_ADDRESS,
            FailureKind::Deadlock | FailureKind::Stall => CUresult::CUDA_ERROR_LAUNCH_TIMEOUT,
            FailureKind::Trap | FailureKind::Collective | FailureKind::Barrier | FailureKind::Host => {
                CUresult::CUDA_ERROR_LAUNCH_FAILED
            }
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
    /// The report as users see it.
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

/// Describes a deadlocked block.
pub(crate) fn deadlock(runner: &Runner) -> String {
    format!(
        "no thread can go on; {} of the block's threads have not exited; {}",
        runner.live,
        waiting(runner)
    )
}

/// Describes a block whose threads spin.
pub(crate) fn stall(runner: &Runner, limit: Duration) -> String {
    let running: u32 = runner.warps.iter().map(|warp| warp.runnable.count_ones()).sum();
    format!(
        "no thread of the launch has exited for {limit:?}; in this block {} have not exited and {} of them are running; {}",
        runner.live,
        running + 1,
        waiting(runner)
    )
}

/// Who waits where, at most a dozen groups.
fn waiting(runner: &Runner) -> String {
    const MOST: usize = 12;
    let mut groups = Vec::new();
    for (index, warp) in runner.warps.iter().enumerate() {
        let mut left = warp.waiting;
        while left != 0 {
            let (operation, mask, site) = warp.wait_of(left.trailing_zeros() as usize);
            let alike = lanes(left)
                .filter(|&lane| {
                    let (other, other_mask, other_site) = warp.wait_of(lane);
                    other == operation && other_mask == mask && other_site.same(&site)
                })
                .fold(0_u32, |set, lane| set | 1 << lane);
            left &= !alike;
            let missing = mask & !warp.waiting & !warp.exited;
            groups.push(format!(
                "warp {index} lanes {alike:#010x} wait in {} at {site} for mask {mask:#010x} (missing {missing:#010x})",
                operations::name(operation)
            ));
        }
    }
    for (id, barrier) in runner.barriers.iter().enumerate() {
        if barrier.arrived == 0 {
            continue;
        }
        let named = barrier.kind == barriers::NAMED || barrier.kind == barriers::ARRIVE;
        let expected = if named { barrier.expected } else { runner.live };
        let number = if named { format!(" {id}") } else { String::new() };
        let missing = (0..LANES)
            .find_map(|warp| {
                let absent = !barrier.waiting[warp] & !runner.warps[warp].exited;
                (absent != 0)
                    .then(|| format!(", first missing: warp {warp} lane {}", absent.trailing_zeros()))
            })
            .unwrap_or_default();
        groups.push(format!(
            "{} of {expected} threads wait in {}{number} at {}{missing}",
            barrier.arrived,
            barriers::name(barrier.kind),
            barrier.site
        ));
    }
    let more = groups.len().saturating_sub(MOST);
    groups.truncate(MOST);
    if more > 0 {
        groups.push(format!("and {more} more groups"));
    }
    groups.join("; ")
}
