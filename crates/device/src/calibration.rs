//! Measured rates of a device, kept on disk. The measuring is done by kernels, so it lives in `galatea_kernels::calibrate`.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::device::Device;

/// Version of the file and of how the rates are measured.
const VERSION: u32 = 1;

/// Measured rates of a device and its link: bytes per second unless named otherwise, in whole numbers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// Device memory read by a kernel.
    pub hbm_read: f64,
    /// Device memory copied by a kernel: bytes read plus bytes written.
    pub hbm_copy: f64,
    /// Pinned host memory to the device.
    pub h2d: f64,
    /// The device to pinned host memory.
    pub d2h: f64,
    /// Both at once, sum of both directions.
    pub both_ways: f64,
    /// Pageable host memory to the device.
    pub h2d_pageable: f64,
    /// Registering touched host memory.
    pub pinning: f64,
    /// One launch of an empty kernel in a row of many, nanoseconds.
    pub launch_nanoseconds: f64,
    /// A launch of an empty kernel and waiting for it, nanoseconds.
    pub round_trip_nanoseconds: f64,
}

#[derive(Serialize, Deserialize)]
struct Stored {
    version: u32,
    device: String,
    uuid: String,
    driver: (u32, u32),
    calibration: Calibration,
}

impl Calibration {
    /// The calibration stored for this device and driver, if it is there and fits.
    #[must_use]
    pub fn load(device: &Device) -> Option<Self> {
        let stored: Stored = serde_json::from_slice(&std::fs::read(path(device)).ok()?).ok()?;
        let info = device.info();
        (stored.version == VERSION && stored.uuid == info.uuid && stored.driver == info.driver_version)
            .then_some(stored.calibration)
    }

    /// Stores it; where that is not possible it is measured again in the next process.
    pub fn store(&self, device: &Device) {
        let info = device.info();
        let stored = Stored {
            version: VERSION,
            device: info.name.clone(),
            uuid: info.uuid.clone(),
            driver: info.driver_version,
            calibration: *self,
        };
        let path = path(device);
        let write = || -> std::io::Result<()> {
            let folder = path.parent().unwrap_or(&path);
            std::fs::create_dir_all(folder)?;
            let file = tempfile::Builder::new().prefix(".writing-").tempfile_in(folder)?;
            serde_json::to_writer_pretty(&file, &stored)?;
            file.persist(&path).map_err(|error| error.error)?;
            Ok(())
        };
        if let Err(error) = write() {
            tracing::warn!(path = %path.display(), "the calibration cannot be stored: {error}");
        }
    }
}

fn path(device: &Device) -> PathBuf {
    let info = device.info();
    let (major, minor) = info.driver_version;
    let folder = device
        .cache_directory()
        .join("calibration")
        .join(format!("v{VERSION}"));
    folder.join(format!("{}-{major}.{minor}.json", info.uuid))
}
