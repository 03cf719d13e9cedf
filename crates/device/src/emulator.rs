//! The emulated device, if this build has it (feature `emulator`, Linux on x86-64); `no_emulator.rs` replaces
//! it in other builds.

use galatea_emulator::Counters;
pub use galatea_emulator::EmulatorOptions;

use crate::cache_folder::CacheFolder;
use crate::device::{Device, DeviceOptions};
use crate::environment;
use crate::errors::{DeviceError, Result};
use crate::sys::{Backend, Driver};

impl Device {
    /// Opens an emulated device: for tests, never for a user's query. It compiles kernels with this machine's
    /// C++ compiler and loads the result.
    ///
    /// # Errors
    /// [`DeviceError::NoDriver`] if this build has no emulated device.
    pub fn emulated(mut emulator: EmulatorOptions, options: DeviceOptions) -> Result<Self> {
        let driver = Driver::get(Backend::Emulated).map_err(DeviceError::NoDriver)?;
        emulator.cxx = emulator.cxx.or_else(environment::cxx);
        if emulator.cache_directory.is_none() {
            let folder = CacheFolder::open(None).and_then(|cache| cache.subfolder("emulator"));
            emulator.cache_directory = folder.map_err(|refused| refused.warn_once()).ok();
        }
        let ordinal = galatea_emulator::add_device(emulator);
        let compile_options = galatea_emulator::compile_options(ordinal);
        let ordinal = usize::try_from(ordinal).unwrap_or(usize::MAX);
        Self::open(Backend::Emulated, driver, ordinal, options, compile_options)
    }

    /// Counters of the operations of an emulated device's kernels since [`Device::reset_counters`]; `None`
    /// for a GPU, zeros unless [`EmulatorOptions::count`] is set.
    #[must_use]
    pub fn counters(&self) -> Option<Counters> {
        self.emulator_ordinal().map(galatea_emulator::counters)
    }

    /// Sets the counters of an emulated device to 0.
    pub fn reset_counters(&self) {
        if let Some(ordinal) = self.emulator_ordinal() {
            galatea_emulator::reset_counters(ordinal);
        }
    }

    /// Sets another seed of an emulated device: from now on, lanes and blocks run in another order.
    pub fn set_seed(&self, seed: u64) {
        if let Some(ordinal) = self.emulator_ordinal() {
            galatea_emulator::set_seed(ordinal, seed);
        }
    }

    fn emulator_ordinal(&self) -> Option<i32> {
        if !self.info().emulated {
            return None;
        }
        i32::try_from(self.info().ordinal).ok()
    }
}
