//! Replaces the emulated device in builds without it. All functions fail.

use crate::device::{Device, DeviceOptions};
use crate::errors::{DeviceError, Result};
use crate::sys::{Backend, Driver};

/// Options of the emulated device, which this build does not have.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct EmulatorOptions {}

impl Device {
    /// Fails: this build has no emulated device.
    ///
    /// # Errors
    /// [`DeviceError::NoDriver`], always.
    pub fn emulated(_emulator: EmulatorOptions, options: DeviceOptions) -> Result<Self> {
        let driver = Driver::get(Backend::Emulated).map_err(DeviceError::NoDriver)?;
        Self::open(Backend::Emulated, driver, 0, options, Vec::new())
    }
}
