//! For tests: devices that may not be there, and the count of what was skipped for it.
//!
//! A test that needs a GPU asks at run time and returns when there is none. Each skip is counted and printed; on a machine
//! that has what it takes, `GALATEA_REQUIRE_GPU=1` turns a skip into a failure.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::compiler::Nvrtc;
use crate::device::{Device, DeviceOptions};
use crate::environment;

static SKIPPED: AtomicUsize = AtomicUsize::new(0);

/// The first GPU; `None` means skip the test.
///
/// # Panics
/// Where there is none, with `GALATEA_REQUIRE_GPU=1`.
#[must_use]
pub fn gpu() -> Option<Device> {
    present(Device::gpu(0, DeviceOptions::default()))
}

/// NVIDIA's compiler; `None` means skip the test.
///
/// # Panics
/// Where there is none, with `GALATEA_REQUIRE_GPU=1`.
#[must_use]
pub fn nvrtc() -> Option<Nvrtc> {
    present(Nvrtc::find())
}

/// Tests skipped in this process so far.
#[must_use]
pub fn skipped() -> usize {
    SKIPPED.load(Ordering::Relaxed)
}

#[expect(
    clippy::print_stderr,
    clippy::manual_assert,
    reason = "the report of a test run goes to its output"
)]
fn present<T, E: std::fmt::Display>(found: Result<T, E>) -> Option<T> {
    match found {
        Ok(found) => Some(found),
        Err(error) => {
            if environment::require_gpu() {
                panic!("{} is set, but {error}", environment::REQUIRE_GPU);
            }
            let skipped = SKIPPED.fetch_add(1, Ordering::Relaxed) + 1;
            let thread = std::thread::current();
            let reason = error.to_string();
            let reason = reason.lines().next().unwrap_or_default();
            eprintln!(
                "skipped ({skipped} so far): {}: {reason}",
                thread.name().unwrap_or("a test")
            );
            None
        }
    }
}
