//! The geometry of a launch, computed in 64 bits and checked against the limits of device and kernel before
//! the driver is called.

use crate::errors::{DeviceError, Result};
use crate::info::DeviceInfo;

/// An extent in x, y and z. 64-bit, so that an excessive number is reported rather than truncated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Dim {
    /// Extent in x.
    pub x: u64,
    /// Extent in y.
    pub y: u64,
    /// Extent in z.
    pub z: u64,
}

impl From<u64> for Dim {
    fn from(x: u64) -> Self {
        Self { x, y: 1, z: 1 }
    }
}

impl From<u32> for Dim {
    fn from(x: u32) -> Self {
        u64::from(x).into()
    }
}

impl From<(u64, u64)> for Dim {
    fn from((x, y): (u64, u64)) -> Self {
        Self { x, y, z: 1 }
    }
}

impl From<(u64, u64, u64)> for Dim {
    fn from((x, y, z): (u64, u64, u64)) -> Self {
        Self { x, y, z }
    }
}

/// Grid, block and dynamic shared memory of a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Geometry {
    /// Number of blocks.
    pub grid: Dim,
    /// Number of threads of a block.
    pub block: Dim,
    /// Dynamic shared memory of a block, bytes.
    pub dynamic_shared: u64,
}

impl Geometry {
    /// A geometry without dynamic shared memory.
    #[must_use]
    pub fn new(grid: impl Into<Dim>, block: impl Into<Dim>) -> Self {
        Self {
            grid: grid.into(),
            block: block.into(),
            dynamic_shared: 0,
        }
    }

    /// The number of blocks that covers `items` with `items_per_block` each; at least one.
    #[must_use]
    pub fn covering(items: u64, items_per_block: u64, block: impl Into<Dim>) -> Self {
        Self::new(items.div_ceil(items_per_block.max(1)).max(1), block)
    }

    /// For grid-stride loops: as [`Geometry::covering`], but with at most `resident` blocks, the number that
    /// the device runs at the same time ([`crate::Function::resident_blocks`]).
    #[must_use]
    pub fn grid_stride(items: u64, items_per_block: u64, block: impl Into<Dim>, resident: u64) -> Self {
        let mut geometry = Self::covering(items, items_per_block, block);
        geometry.grid.x = geometry.grid.x.min(resident.max(1));
        geometry
    }

    /// Sets the dynamic shared memory, in bytes.
    #[must_use]
    pub fn with_shared(mut self, bytes: u64) -> Self {
        self.dynamic_shared = bytes;
        self
    }

    /// Number of threads of a block.
    #[must_use]
    pub fn threads_per_block(&self) -> u64 {
        self.block
            .x
            .saturating_mul(self.block.y)
            .saturating_mul(self.block.z)
    }

    /// Returns the numbers for the driver, or an error for the first that is zero or over its limit.
    pub(crate) fn check(&self, kernel: &str, info: &DeviceInfo, resources: &Resources) -> Result<Checked> {
        let within = |what, asked: u64, limit: u64| match u32::try_from(asked) {
            Ok(number) if (1..=limit).contains(&asked) => Ok(number),
            _ => Err(DeviceError::Geometry {
                kernel: kernel.to_owned(),
                what,
                asked,
                limit,
            }),
        };
        let checked = Checked {
            grid: [
                within("grid blocks in x", self.grid.x, info.max_grid[0].into())?,
                within("grid blocks in y", self.grid.y, info.max_grid[1].into())?,
                within("grid blocks in z", self.grid.z, info.max_grid[2].into())?,
            ],
            block: [
                within("block threads in x", self.block.x, info.max_block[0].into())?,
                within("block threads in y", self.block.y, info.max_block[1].into())?,
                within("block threads in z", self.block.z, info.max_block[2].into())?,
            ],
            dynamic_shared: 0,
        };
        let threads = info.max_threads_per_block.min(resources.max_threads_per_block);
        within("threads per block", self.threads_per_block(), threads.into())?;
        let shared = u64::from(
            info.shared_memory_per_block
                .saturating_sub(resources.static_shared),
        );
        if self.dynamic_shared == 0 {
            return Ok(checked);
        }
        Ok(Checked {
            dynamic_shared: within("bytes of dynamic shared memory", self.dynamic_shared, shared)?,
            ..checked
        })
    }
}

/// The resources of a multiprocessor that a kernel uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resources {
    /// 32-bit registers of a thread.
    pub registers: u32,
    /// Static shared memory of a block, bytes.
    pub static_shared: u32,
    /// Local memory of a thread, bytes: spilled registers and arrays. 0 in a good kernel.
    pub local: u32,
    /// The most threads of a block, given the registers.
    pub max_threads_per_block: u32,
}

/// A geometry within the limits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Checked {
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) dynamic_shared: u32,
}
