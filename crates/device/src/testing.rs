//! For tests: devices that may be missing, and the number of tests skipped because of that.
//!
//! A test that needs a GPU checks at run time and returns if none is present. Each skip is counted and
//! printed. On a machine with GPU and NVRTC, `GALATEA_REQUIRE_GPU=1` turns a skip into a failure.

use std::io::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard};

use crate::compiler::Nvrtc;
use crate::device::{Device, DeviceOptions};
use crate::environment;

static SKIPPED: AtomicUsize = AtomicUsize::new(0);

/// The first GPU; `None` means skip the test.
///
/// # Panics
/// If no GPU is present, with `GALATEA_REQUIRE_GPU=1`.
#[must_use]
pub fn gpu() -> Option<Device> {
    present(Device::gpu(0, DeviceOptions::default()))
}

/// The first GPU for one test at a time: for tests that check the budget, measure, or lose the device.
#[derive(Debug)]
pub struct ExclusiveGpu {
    device: Device,
    _turn: MutexGuard<'static, ()>,
}

impl std::ops::Deref for ExclusiveGpu {
    type Target = Device;

    fn deref(&self) -> &Device {
        &self.device
    }
}

/// Like [`gpu`], after all other tests of this process that use it exclusively.
///
/// # Panics
/// Like [`gpu`].
#[must_use]
pub fn exclusive_gpu() -> Option<ExclusiveGpu> {
    static TURN: Mutex<()> = Mutex::new(());
    let device = gpu()?;
    Some(ExclusiveGpu {
        device,
        _turn: TURN.lock(),
    })
}

/// NVIDIA's compiler; `None` means skip the test.
///
/// # Panics
/// If it is not installed, with `GALATEA_REQUIRE_GPU=1`.
#[must_use]
pub fn nvrtc() -> Option<Nvrtc> {
    present(Nvrtc::find())
}

/// Number of tests skipped in this process so far.
#[must_use]
pub fn skipped() -> usize {
    SKIPPED.load(Ordering::Relaxed)
}

fn present<T, E: std::fmt::Display>(found: Result<T, E>) -> Option<T> {
    match found {
        Ok(found) => Some(found),
        Err(error) => {
            assert!(
                !environment::require_gpu(),
                "{} is set, but {error}",
                environment::REQUIRE_GPU
            );
            let skipped = SKIPPED.fetch_add(1, Ordering::Relaxed) + 1;
            let thread = std::thread::current();
            let reason = error.to_string();
            let reason = reason.lines().next().unwrap_or_default();
            let name = thread.name().unwrap_or("a test");
            // Written to the handle: output of the print macros is shown for failed tests only.
            let _ = writeln!(std::io::stderr(), "skipped ({skipped} so far): {name}: {reason}");
            None
        }
    }
}
