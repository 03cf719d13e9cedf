//! What stands in for the emulated device in builds without it: it says so.

use std::ffi::c_void;

use crate::device::{Device, DeviceOptions};
use crate::errors::{DeviceError, Missing, Result};

/// Options of the emulated device, of which this build has none.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct EmulatorOptions {}

pub(crate) fn resolver() -> Result<fn(&str) -> Option<*const c_void>, Missing> {
    Err(missing())
}

fn missing() -> Missing {
    Missing {
        what: "emulated device",
        reason: "this build does not have it".to_owned(),
        remedy: "build with the feature `emulator`, on Linux on x86-64",
    }
}

pub(crate) fn last_report(_ordinal: usize) -> Option<String> {
    None
}

impl Device {
    /// Refuses: this build has no emulated device.
    ///
    /// # Errors
    /// [`DeviceError::NoDriver`], always.
    pub fn emulated(_emulator: EmulatorOptions, _options: DeviceOptions) -> Result<Self> {
        Err(DeviceError::NoDriver(missing()))
    }
}
