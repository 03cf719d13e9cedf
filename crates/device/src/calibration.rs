//! Measured figures of a device, stored on disk: one file per device, valid until the device, its driver or
//! the measurements change. Kernels measure the figures, so the measurements are in
//! `galatea_kernels::calibrate`.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::cache_folder::CacheFolder;
use crate::device::Device;
use crate::errors::{DeviceError, Result};
use crate::info::DeviceInfo;

/// Version of the file and of the measurements.
const VERSION: u32 = 2;

/// The folder of the files, within the cache folder.
const FOLDER: &str = "calibration";

/// Calibrated figures of a device and its link: bytes per second unless named otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// Time of the measurements, in seconds since 1970.
    pub measured_at: u64,
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
    /// Registering host memory that was touched before.
    pub pinning: f64,
    /// One launch of an empty kernel in a row of many, nanoseconds.
    pub launch_nanoseconds: f64,
    /// A launch of an empty kernel and waiting for it, nanoseconds.
    pub round_trip_nanoseconds: f64,
    /// Figures for the model of grouped aggregation.
    pub grouping: GroupingRates,
    /// Rates of the transfer methods.
    #[serde(default)]
    pub link: LinkRates,
    /// Times of small chunks that are transferred over the link; `None` if they were not measured.
    #[serde(default)]
    pub chunks: Option<ChunkTimes>,
}

/// Minimum time of a chunk of host memory, from the call that copies it to the end of the kernel that reads
/// it, if many chunks follow each other: nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ChunkTimes {
    /// With one launch per chunk, after its copy.
    pub launched: f64,
    /// With one launch for many chunks, which waits for them.
    pub awaited: f64,
}

/// Bytes per second that a kernel reads from host memory, chunk by chunk, with each transfer method
/// (`galatea_memory::transfer::Method`). `None` for methods that the device does not support, or that were
/// not measured.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LinkRates {
    /// Pageable copy.
    pub pageable: Option<f64>,
    /// Staged copy.
    pub staged: Option<f64>,
    /// Dynamic pinning.
    pub dynamic_pinning: Option<f64>,
    /// Pinned copy.
    pub pinned: Option<f64>,
    /// Pinned copy in pieces.
    pub pinned_pieces: Option<f64>,
    /// Unified prefetch.
    pub unified_prefetch: Option<f64>,
    /// Unified migration.
    pub unified_migration: Option<f64>,
    /// Zero-copy.
    pub zero_copy: Option<f64>,
    /// Coherence.
    pub coherence: Option<f64>,
}

impl LinkRates {
    /// The measured figures by name.
    pub fn figures(&self) -> impl Iterator<Item = (&'static str, f64)> + use<> {
        let all = [
            ("pageable", self.pageable),
            ("staged", self.staged),
            ("dynamic_pinning", self.dynamic_pinning),
            ("pinned", self.pinned),
            ("pinned_pieces", self.pinned_pieces),
            ("unified_prefetch", self.unified_prefetch),
            ("unified_migration", self.unified_migration),
            ("zero_copy", self.zero_copy),
            ("coherence", self.coherence),
        ];
        all.into_iter().filter_map(|(name, rate)| Some((name, rate?)))
    }
}

/// Rates of a device that the model of grouped aggregation uses besides its sizes.
/// `galatea_layout::model::Machine` describes the use of each. A *round* is one request of each bank of
/// shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct GroupingRates {
    /// Rounds of shared memory per second, all multiprocessors together.
    pub rounds_per_second: f64,
    /// Latency of an update in shared memory until its warp can continue, in rounds of one multiprocessor.
    pub update_latency: f64,
    /// Rounds to find the lanes of a warp with the same value.
    pub match_rounds: f64,
    /// Bytes read from device memory per second.
    pub memory_bytes_per_second: f64,
    /// Bytes in flight of a multiprocessor that reach 63 % of that rate.
    pub memory_bytes_in_flight: f64,
    /// Atomics on different addresses of device memory per second.
    pub global_atomics_per_second: f64,
    /// Atomics on one address of device memory per second.
    pub global_atomics_on_one_address: f64,
}

impl GroupingRates {
    /// The figures by name.
    #[must_use]
    pub fn figures(&self) -> [(&'static str, f64); 7] {
        [
            ("rounds_per_second", self.rounds_per_second),
            ("update_latency", self.update_latency),
            ("match_rounds", self.match_rounds),
            ("memory_bytes_per_second", self.memory_bytes_per_second),
            ("memory_bytes_in_flight", self.memory_bytes_in_flight),
            ("global_atomics_per_second", self.global_atomics_per_second),
            (
                "global_atomics_on_one_address",
                self.global_atomics_on_one_address,
            ),
        ]
    }
}

/// The reason why a stored calibration is not used. No query fails because of it: the constants of another
/// device are scaled instead.
#[derive(Debug, thiserror::Error)]
#[error("the calibration {} is not used: {refusal}\nhint: galatea calibrate renews it", path.display())]
pub struct StaleCalibration {
    /// The file.
    pub path: PathBuf,
    /// The defect.
    pub refusal: CalibrationRefusal,
}

/// A defect of a stored calibration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CalibrationRefusal {
    /// The file cannot be read.
    #[error("it cannot be read: {0}")]
    Unreadable(io::Error),
    /// The file is not a calibration.
    #[error("it is damaged: {0}")]
    Damaged(serde_json::Error),
    /// Another version of Galatea wrote the file.
    #[error("it has format {found}, this version has {VERSION}")]
    Version {
        /// The format of the file.
        found: u32,
    },
    /// The figures were measured on another device or with another driver.
    #[error("it was measured on {found}, this is {here}")]
    OtherDevice {
        /// The device that was measured.
        found: Box<CalibratedDevice>,
        /// The present device.
        here: Box<CalibratedDevice>,
    },
    /// A figure is outside of its plausible range.
    #[error("{name} is {value}, which is no positive number")]
    Figure {
        /// The name of the figure.
        name: &'static str,
        /// The stored value.
        value: f64,
    },
}

/// The device that a calibration belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CalibratedDevice {
    /// The device's name.
    pub device: String,
    /// Its unique identifier.
    pub uuid: String,
    /// CUDA version of the driver, (major, minor).
    pub driver: (u32, u32),
    /// Number of multiprocessors.
    pub multiprocessors: u32,
}

impl std::fmt::Display for CalibratedDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            device,
            uuid,
            driver,
            multiprocessors,
        } = self;
        let (major, minor) = driver;
        write!(
            f,
            "{device} ({uuid}, {multiprocessors} multiprocessors, CUDA {major}.{minor})"
        )
    }
}

impl From<&DeviceInfo> for CalibratedDevice {
    fn from(info: &DeviceInfo) -> Self {
        Self {
            device: info.name.clone(),
            uuid: info.uuid.clone(),
            driver: info.driver_version,
            multiprocessors: info.multiprocessors,
        }
    }
}

/// The part that all formats of the file share.
#[derive(Deserialize)]
struct Head {
    version: u32,
}

#[derive(Serialize, Deserialize)]
struct Stored {
    version: u32,
    of: CalibratedDevice,
    calibration: Calibration,
}

impl Calibration {
    /// The path of a device's calibration.
    ///
    /// # Errors
    /// [`DeviceError::NoCache`]: calibrations are not stored.
    pub fn path(device: &Device) -> Result<PathBuf> {
        let name = format!("{}.json", device.info().uuid);
        let cache = device.cache().map_err(Clone::clone);
        let folder = cache.and_then(|cache| cache.subfolder(FOLDER));
        Ok(folder.map_err(DeviceError::NoCache)?.join(name))
    }

    /// Loads the calibration of this device and driver; `None` if the device was never calibrated.
    ///
    /// # Errors
    /// [`StaleCalibration`]: the stored file is damaged, or of another device, driver or version.
    pub fn load(device: &Device) -> Result<Option<Self>, StaleCalibration> {
        let Ok(path) = Self::path(device) else {
            return Ok(None);
        };
        let read = match std::fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read.map_err(CalibrationRefusal::Unreadable),
        };
        let stored = read.and_then(|text| Self::parse(&text, &device.info().into()));
        stored
            .map(Some)
            .map_err(|refusal| StaleCalibration { path, refusal })
    }

    fn parse(text: &[u8], here: &CalibratedDevice) -> Result<Self, CalibrationRefusal> {
        let head: Head = serde_json::from_slice(text).map_err(CalibrationRefusal::Damaged)?;
        if head.version != VERSION {
            return Err(CalibrationRefusal::Version { found: head.version });
        }
        let stored: Stored = serde_json::from_slice(text).map_err(CalibrationRefusal::Damaged)?;
        if stored.of != *here {
            return Err(CalibrationRefusal::OtherDevice {
                found: Box::new(stored.of),
                here: Box::new(here.clone()),
            });
        }
        let usable = |value: f64| value.is_finite() && value > 0.0;
        match stored.calibration.figures().find(|(_, value)| !usable(*value)) {
            Some((name, value)) => Err(CalibrationRefusal::Figure { name, value }),
            None => Ok(stored.calibration),
        }
    }

    /// Every figure by name.
    fn figures(&self) -> impl Iterator<Item = (&'static str, f64)> {
        let rates = [
            ("hbm_read", self.hbm_read),
            ("hbm_copy", self.hbm_copy),
            ("h2d", self.h2d),
            ("d2h", self.d2h),
            ("both_ways", self.both_ways),
            ("h2d_pageable", self.h2d_pageable),
            ("pinning", self.pinning),
            ("launch_nanoseconds", self.launch_nanoseconds),
            ("round_trip_nanoseconds", self.round_trip_nanoseconds),
        ];
        let chunks = (self.chunks).map(|times| {
            [
                ("chunk_launched", times.launched),
                ("chunk_awaited", times.awaited),
            ]
        });
        rates
            .into_iter()
            .chain(self.grouping.figures())
            .chain(self.link.figures())
            .chain(chunks.into_iter().flatten())
    }

    /// Stores the calibration and replaces the previous one.
    ///
    /// # Errors
    /// [`DeviceError::NoCache`], [`DeviceError::Io`]: the cache folder cannot be used or written.
    pub fn store(&self, device: &Device) -> Result<()> {
        let stored = Stored {
            version: VERSION,
            of: device.info().into(),
            calibration: *self,
        };
        let path = Self::path(device)?;
        let write = || -> io::Result<()> {
            let folder = path.parent().unwrap_or(&path);
            let file = tempfile::Builder::new().prefix(".writing-").tempfile_in(folder)?;
            serde_json::to_writer_pretty(&file, &stored)?;
            file.persist(&path).map_err(|error| error.error)?;
            Ok(())
        };
        write().map_err(|error| failed(&path, error))
    }

    /// Removes the stored files of all devices, which need not exist any more. Returns the number of files.
    ///
    /// # Errors
    /// [`DeviceError::NoCache`], [`DeviceError::Io`]: the cache folder cannot be used, or a file cannot be
    /// removed.
    pub fn forget_all(cache: &CacheFolder) -> Result<usize> {
        let folder = cache.subfolder(FOLDER).map_err(DeviceError::NoCache)?;
        let files = std::fs::read_dir(&folder).map_err(|error| failed(&folder, error))?;
        let mut removed = 0;
        for file in files {
            let path = file.map_err(|error| failed(&folder, error))?.path();
            if path.extension().is_some_and(|extension| extension == "json") {
                std::fs::remove_file(&path).map_err(|error| failed(&path, error))?;
                removed += 1;
            }
        }
        Ok(removed)
    }

    /// Removes the stored file of a device, valid or not. Returns whether the file existed.
    ///
    /// # Errors
    /// [`DeviceError::NoCache`], [`DeviceError::Io`]: the cache folder cannot be used, or the file cannot be
    /// removed.
    pub fn forget(device: &Device) -> Result<bool> {
        let path = Self::path(device)?;
        match std::fs::remove_file(&path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(failed(&path, error)),
        }
    }
}

fn failed(path: &Path, source: io::Error) -> DeviceError {
    DeviceError::Io {
        path: path.to_path_buf(),
        source: source.into(),
    }
}
