//! Where the column chunks of a load were decoded, and the bytes that it read.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use galatea_device::DeviceError;
use galatea_parquet::{ParquetError, Unsupported};
use parking_lot::Mutex;

use crate::load_steps::{LoadSteps, StepClock};

/// The reason why the host decoded a column chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum HostReason {
    /// No device decodes.
    NoDevice,
    /// The type of the column has no device form, or the values need a cast.
    Type,
    /// The device does not decode an encoding.
    Encoding,
    /// The device does not decompress the codec, and the decoder's host neither.
    Codec,
    /// Another property: encryption, or too many rows.
    Other,
    /// The host is expected to be faster.
    Price,
    /// The kernels are being compiled.
    Compiling,
    /// Other column chunks use all lanes of the device.
    DeviceBusy,
    /// The load reads rows that are not whole pages of the column.
    PartOfPage,
    /// The device has too little memory.
    DeviceMemory,
    /// The device failed or was lost.
    DeviceFailed,
    /// The pages violate the format.
    Damaged,
}

impl HostReason {
    /// The reason in an error of the device's decoder.
    pub(crate) fn of(error: &ParquetError) -> Self {
        match error {
            ParquetError::Unsupported { reason, .. } => (*reason).into(),
            ParquetError::Device(DeviceError::OutOfMemory { .. } | DeviceError::HostMemory { .. }) => {
                Self::DeviceMemory
            }
            ParquetError::Damaged { .. } => Self::Damaged,
            _ => Self::DeviceFailed,
        }
    }
}

impl From<Unsupported> for HostReason {
    fn from(reason: Unsupported) -> Self {
        match reason {
            Unsupported::Nested | Unsupported::Type => Self::Type,
            Unsupported::Encoding(_) => Self::Encoding,
            Unsupported::Codec => Self::Codec,
            _ => Self::Other,
        }
    }
}

impl fmt::Display for HostReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoDevice => "no device",
            Self::Type => "type",
            Self::Encoding => "encoding",
            Self::Codec => "codec",
            Self::Other => "encryption or size",
            Self::Price => "faster",
            Self::Compiling => "kernels not compiled yet",
            Self::DeviceBusy => "device busy",
            Self::PartOfPage => "rows within pages",
            Self::DeviceMemory => "device memory",
            Self::DeviceFailed => "device failed",
            Self::Damaged => "damaged pages",
        })
    }
}

/// Row groups and pages of Parquet files that a query does not need. The load skipped them, unless `bytes` is
/// 0: then it read whole columns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pruning {
    /// Row groups of the files that have rows.
    pub row_groups: u64,
    /// Row groups that their statistics exclude.
    pub by_statistics: u64,
    /// Row groups that Bloom filters exclude, of those that statistics keep.
    pub by_bloom_filters: u64,
    /// Row groups that the page index excludes, page by page, of those that statistics and Bloom filters
    /// keep.
    pub by_pages: u64,
    /// Pages of the loaded columns in the other row groups, if these have a page index.
    pub pages: u64,
    /// The number of `pages` that have rows for the predicates.
    pub pages_read: u64,
    /// Compressed bytes of the loaded columns that were not read, estimated from the skipped rows.
    pub bytes: u64,
}

/// The outcome of a load of columns from files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoadReport {
    /// Column chunks decoded on the device. A column chunk is a column of a chunk of the table.
    pub on_device: u64,
    /// Column chunks decoded on the host, by reason.
    pub host_reasons: BTreeMap<HostReason, u64>,
    /// Bytes read from files.
    pub bytes_read: u64,
    /// Time of reading, decoding and encoding.
    pub time: Duration,
    /// The time of each step of reading, decoding and encoding.
    pub steps: LoadSteps,
    /// Columns read from the column cache on disk, beside those of the files.
    pub disk_columns: u64,
    /// Bytes read from the column cache.
    pub disk_bytes: u64,
    /// Time of reading from the column cache.
    pub disk_time: Duration,
    /// The row groups that the query did not need; `None` if no predicates were applied to Parquet files.
    pub pruning: Option<Pruning>,
}

impl LoadReport {
    /// Number of column chunks decoded on the host.
    pub fn on_host(&self) -> u64 {
        self.host_reasons.values().sum()
    }
}

/// Counts for a [`LoadReport`], shared by the threads of a load.
#[derive(Debug, Default)]
pub(crate) struct LoadCounts {
    on_device: AtomicU64,
    on_host: Mutex<BTreeMap<HostReason, u64>>,
    bytes_read: AtomicU64,
    from_disk: Mutex<(u64, u64, Duration)>,
    pub(crate) clock: StepClock,
}

impl LoadCounts {
    /// Counts a column chunk: decoded on the device, or on the host for a reason.
    pub(crate) fn count(&self, on_host: Option<HostReason>) {
        match on_host {
            None => {
                self.on_device.fetch_add(1, Ordering::Relaxed);
            }
            Some(reason) => *self.on_host.lock().entry(reason).or_default() += 1,
        }
    }

    /// Counts bytes from files. Returns all bytes so far.
    pub(crate) fn add_read(&self, bytes: u64) -> u64 {
        self.bytes_read.fetch_add(bytes, Ordering::Relaxed) + bytes
    }

    /// Counts columns from the column cache on disk, their bytes and the time of reading them.
    pub(crate) fn add_from_disk(&self, columns: u64, bytes: u64, time: Duration) {
        let mut all = self.from_disk.lock();
        *all = (all.0 + columns, all.1 + bytes, all.2 + time);
    }

    /// The counts of a load that took `time`.
    pub(crate) fn report(&self, time: Duration) -> LoadReport {
        let (disk_columns, disk_bytes, disk_time) = *self.from_disk.lock();
        LoadReport {
            on_device: self.on_device.load(Ordering::Relaxed),
            host_reasons: self.on_host.lock().clone(),
            bytes_read: self.bytes_read.load(Ordering::Relaxed),
            time: time.saturating_sub(disk_time),
            steps: self.clock.times(),
            disk_columns,
            disk_bytes,
            disk_time,
            pruning: None,
        }
    }
}
