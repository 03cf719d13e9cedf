//! Driver, compiler and GPUs of this machine, for `galatea doctor` and for choosing a device. All of them are
//! optional.

use std::path::PathBuf;

use crate::errors::Missing;
use crate::info::{self, DeviceInfo};
use crate::sys::{Backend, Driver, NvrtcTable};

/// The outcome of [`probe`].
#[derive(Debug, Clone)]
pub struct Probe {
    /// The CUDA driver.
    pub driver: Result<DriverInfo, Missing>,
    /// The run-time compiler.
    pub nvrtc: Result<NvrtcInfo, Missing>,
    /// The GPUs, by ordinal; empty without a driver.
    pub devices: Vec<DeviceInfo>,
}

impl Probe {
    /// Returns a GPU if queries can run on one; otherwise the first missing part.
    ///
    /// # Errors
    /// The missing part.
    pub fn usable(&self) -> Result<&DeviceInfo, Missing> {
        self.driver.as_ref().map_err(Clone::clone)?;
        self.nvrtc.as_ref().map_err(Clone::clone)?;
        self.devices.first().ok_or_else(no_device)
    }
}

/// The CUDA driver found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriverInfo {
    /// Its CUDA version, (major, minor).
    pub version: (u32, u32),
}

/// The compiler found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NvrtcInfo {
    /// Version, (major, minor).
    pub version: (u32, u32),
    /// The opened file; a bare name if the dynamic linker found it.
    pub path: PathBuf,
    /// The place where it was found, in words.
    pub found_by: String,
}

/// Whether a driver is installed, even if it does not work or has no GPU. Takes no longer than opening a
/// library, since nothing is initialised.
#[must_use]
pub fn driver_is_installed() -> bool {
    Driver::is_installed()
}

/// Searches driver, compiler and GPUs. Never panics and never fails: missing parts are reported in the
/// result.
#[must_use]
pub fn probe() -> Probe {
    let nvrtc = NvrtcTable::get(Backend::Gpu).map(|bound| NvrtcInfo {
        version: bound.version,
        path: bound.found.path.clone(),
        found_by: bound.found.how.clone(),
    });
    let version = nvrtc.as_ref().ok().map(|nvrtc| nvrtc.version);
    let driver = Driver::get(Backend::Gpu);
    let devices = driver.as_ref().map_or_else(
        |_| Vec::new(),
        |driver| {
            let count = info::count(driver).unwrap_or(0);
            (0..count)
                .filter_map(|ordinal| info::read(driver, Backend::Gpu, ordinal, version).ok())
                .collect()
        },
    );
    let driver = driver.map(|driver| DriverInfo {
        version: info::driver_version(driver).unwrap_or_default(),
    });
    Probe {
        driver,
        nvrtc,
        devices,
    }
}

pub(crate) fn no_device() -> Missing {
    Missing {
        what: "GPU",
        reason: "the driver finds none".to_owned(),
        remedy: "check nvidia-smi; inside a container, run it with GPU access; CUDA_VISIBLE_DEVICES may hide it",
    }
}
