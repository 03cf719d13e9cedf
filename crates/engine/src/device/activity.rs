//! The activity of a device at one moment, for monitors.

use super::DeviceRuntime;
use galatea_memory::regions::{QueryInfo, RegionInfo, RegionKind, SpillCounts};

/// The activity of a device at one moment.
#[derive(Debug, Clone)]
pub struct DeviceActivity {
    /// The name of the device.
    pub name: String,
    /// Whether it is the emulated device.
    pub emulated: bool,
    /// Bytes of its memory.
    pub total_memory: u64,
    /// Bytes that the engine may use (`galatea.memory.gpu_limit`).
    pub limit: u64,
    /// Bytes in use.
    pub used: u64,
    /// Bytes of copies of columns among these.
    pub columns: u64,
    /// Pages and working regions evicted since the device was opened.
    pub evicted: u64,
    /// Bytes of working regions that were moved to the host.
    pub spilled: SpillCounts,
    /// Bytes copied to the device since it was opened.
    pub to_device: u64,
    /// Bytes copied to the host since it was opened.
    pub to_host: u64,
    /// Bytes that pipelines read from device memory since it was opened. A pipeline counts when it ends.
    pub read: u64,
    /// The measured rates; `None` without a calibration.
    pub ceilings: Option<DeviceCeilings>,
    /// All regions, largest first.
    pub regions: Vec<RegionInfo>,
    /// The pipelines that run or wait, by arrival.
    pub pipelines: Vec<QueryInfo>,
}

/// Measured bandwidths of a device, in bytes per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DeviceCeilings {
    /// Copies from pinned memory of the host to the device.
    pub to_device: f64,
    /// Copies from the device to pinned memory of the host.
    pub to_host: f64,
    /// Reads of device memory.
    pub memory: f64,
}

/// The content of a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RegionContent {
    /// A copy of a column.
    Column,
    /// A table that other rows look up: groups, build sides, their strings.
    Table,
    /// Rows of a result.
    Result,
    /// Other working memory.
    Working,
}

impl RegionContent {
    /// The content of a region, by its kind and its name.
    pub fn of(region: &RegionInfo) -> Self {
        if region.kind == RegionKind::Cached {
            return Self::Column;
        }
        match region.name.as_str() {
            "the group hash table"
            | "group accumulators"
            | "strings of groups and keys"
            | "a build side"
            | "groups of a build side"
            | "a build side in lists"
            | "a probe side"
            | "marks of a join" => Self::Table,
            "output columns"
            | "pages for rows"
            | "rows to be sorted"
            | "rows in order"
            | "the order of strings"
            | "strings in the order of the result" => Self::Result,
            _ => Self::Working,
        }
    }
}

impl DeviceRuntime {
    /// The activity of the device now. It takes the locks of the memory manager and of admission for a short
    /// time.
    pub fn activity(&self) -> DeviceActivity {
        let (info, counts) = (self.device().info(), self.device_use());
        let ceilings = self.calibration().map(|measured| DeviceCeilings {
            to_device: measured.h2d,
            to_host: measured.d2h,
            memory: measured.hbm_read,
        });
        DeviceActivity {
            name: info.name.clone(),
            emulated: info.emulated,
            total_memory: info.total_memory,
            limit: counts.limit,
            used: counts.used,
            columns: counts.columns,
            evicted: counts.evicted,
            spilled: self.memory().spilled(),
            to_device: counts.link.0,
            to_host: counts.link.1,
            read: self.bytes_read(),
            ceilings,
            regions: self.memory().regions(),
            pipelines: self.memory().admission().queries(),
        }
    }
}
