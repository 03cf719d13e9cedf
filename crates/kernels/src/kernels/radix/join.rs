//! Joins of partitions.

use galatea_device::{Device, DeviceError, DevicePointer, Geometry, Result, Stream};

use super::arguments::{RadixGatherArguments, RadixJoinArguments, RadixSlicesArguments};
use super::types::{RADIX_TUPLE_BYTES, RadixBits, STATIC_SHARED, THREADS};
use crate::kernel::{KernelFunction, kernel};

kernel!(RadixSlices, "radix_slices", RadixSlicesArguments);
kernel!(RadixGather, "radix_gather", RadixGatherArguments);
kernel!(RadixJoin, "radix_join", RadixJoinArguments);

/// Copies slices into one array.
#[derive(Debug, Clone)]
pub struct RadixGather {
    function: KernelFunction<Self>,
}

impl RadixGather {
    /// Loads the kernel.
    ///
    /// # Errors
    /// Those of [`Device::compile`].
    pub fn new(device: &Device) -> Result<Self> {
        let function = KernelFunction::load(device)?;
        Ok(Self { function })
    }

    /// Queues the copy of `count` slices from number `first` on, of those at device address `slices`, to
    /// `rows`, which begins with the row at position `origin`.
    ///
    /// # Errors
    /// The device's.
    pub fn launch(
        &self,
        stream: &Stream,
        slices: u64,
        (first, count): (u32, u32),
        (rows, origin): (u64, u32),
        blocks: u32,
    ) -> Result<()> {
        if count == 0 {
            return Ok(());
        }
        let arguments = RadixGatherArguments {
            slices: DevicePointer::new(slices),
            rows: DevicePointer::new(rows),
            first,
            count,
            origin,
            unused: 0,
        };
        self.function
            .launch(stream, Geometry::new(blocks.max(1), 512u32), &arguments, &[])
    }
}

/// Hash tables of a join of partitions, in shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RadixTable {
    /// Chains from this number of heads, a power of two.
    Chains(u32),
    /// A slot for each key below a limit. Partitions must be by bits of keys.
    Perfect(u64),
}

/// A pair of partitioned arrays.
#[derive(Debug, Clone, Copy)]
pub struct RadixPair {
    /// Device address of the build side's rows.
    pub build: u64,
    /// Device address of the positions of its partitions.
    pub build_starts: u64,
    /// Device address of the probe side's rows.
    pub probe: u64,
    /// Device address of the positions of its partitions.
    pub probe_starts: u64,
}

/// Joins pairs of partitions.
#[derive(Debug, Clone)]
pub struct RadixJoin {
    function: KernelFunction<Self>,
    shared: u32,
}

impl RadixJoin {
    /// Loads the kernel.
    ///
    /// # Errors
    /// Those of [`Device::compile`].
    pub fn new(device: &Device) -> Result<Self> {
        let shared = device.info().shared_memory_per_block - STATIC_SHARED;
        let function = KernelFunction::load(device)?;
        Ok(Self { function, shared })
    }

    /// Entries of a table.
    #[must_use]
    pub fn capacity(&self, table: RadixTable) -> u32 {
        match table {
            // Links have 16 bits, and one value marks the end of a chain.
            RadixTable::Chains(heads) => (self.shared.saturating_sub(4 * heads) / 18).min(0xfffe) / 8 * 8,
            RadixTable::Perfect(_) => self.shared / RADIX_TUPLE_BYTES as u32,
        }
    }

    /// Queues the join of all pairs of partitions. `shift` bits of the hashes of a partition are equal.
    /// `next` is the device address of a word, 0; the sum of the payloads of both sides of all matches, and
    /// the number of matches, are added to the two values at `sums`. A table has at most `most` entries.
    ///
    /// # Errors
    /// The device's.
    pub fn launch(
        &self,
        stream: &Stream,
        pair: RadixPair,
        (bits, table, most): (RadixBits, RadixTable, u32),
        (next, sums): (u64, u64),
        blocks: u32,
    ) -> Result<()> {
        let (heads, domain) = match table {
            RadixTable::Chains(heads) => (heads, 0),
            RadixTable::Perfect(domain) => (0, domain),
        };
        let capacity = self.capacity(table).min(most).max(8);
        let arguments = RadixJoinArguments {
            build: DevicePointer::new(pair.build),
            probe: DevicePointer::new(pair.probe),
            build_starts: DevicePointer::new(pair.build_starts),
            probe_starts: DevicePointer::new(pair.probe_starts),
            next: DevicePointer::new(next),
            sums: DevicePointer::new(sums),
            domain,
            parts: bits.parts() as u32,
            shift: bits.shift + bits.bits,
            capacity,
            heads,
            raw: bits.raw.into(),
            unused: 0,
        };
        let shared = match table {
            RadixTable::Chains(heads) => 18 * capacity + 4 * heads,
            RadixTable::Perfect(_) => 16 * capacity,
        };
        let geometry = Geometry::new(blocks.max(1), THREADS).with_shared(shared.into());
        self.function.launch(stream, geometry, &arguments, &[])
    }
}

/// Pages of partitioned rows of one side of a join.
#[derive(Debug, Clone, Copy)]
pub struct RadixPages {
    /// Device address of the addresses of pages.
    pub addresses: u64,
    /// Device address of the positions of partitions: a list for each page, with the end.
    pub starts: u64,
    /// Number of pages, at most [`RadixSlices::MOST_PAGES`].
    pub count: u32,
}

/// A join index: the values of the probe side of all matches. Keys of the build side must be distinct.
#[derive(Debug, Clone, Copy)]
pub struct RadixIndex {
    /// Device address of an element for each tuple of the probe side. Those without a match are not written.
    pub values: u64,
    /// Device address of a word, 0.
    pub used: u64,
}

/// Joins partitions whose tuples are slices of many pages.
#[derive(Debug, Clone)]
pub struct RadixSlices {
    function: KernelFunction<Self>,
    shared: u32,
}

impl RadixSlices {
    /// The most pages of a side.
    pub const MOST_PAGES: u32 = THREADS;

    /// Loads the kernel.
    ///
    /// # Errors
    /// Those of [`Device::compile`].
    pub fn new(device: &Device) -> Result<Self> {
        let shared = device.info().shared_memory_per_block - STATIC_SHARED;
        let function = KernelFunction::load(device)?;
        Ok(Self { function, shared })
    }

    /// Queues the join of all partitions by `bits` bits of the hash from bit 0 on; the other arguments are
    /// those of [`RadixJoin::launch`]. The join writes an index if there is one.
    ///
    /// # Errors
    /// `DeviceError::Range` for more than [`Self::MOST_PAGES`] pages of a side; the device's.
    pub fn launch(
        &self,
        stream: &Stream,
        (build, probe): (RadixPages, RadixPages),
        (bits, raw, table, most): (u32, bool, RadixTable, u32),
        (next, sums, index): (u64, u64, Option<RadixIndex>),
        blocks: u32,
    ) -> Result<()> {
        for pages in [build.count, probe.count] {
            if pages > Self::MOST_PAGES {
                return Err(DeviceError::Range {
                    what: "pages of a join",
                    start: 0,
                    end: pages.into(),
                    len: Self::MOST_PAGES.into(),
                });
            }
        }
        let of_probe = if index.is_some() { 3 } else { 2 };
        let of_pages = 4 * (3 * build.count + of_probe * probe.count);
        let (heads, domain, entry) = match table {
            RadixTable::Chains(heads) => (heads, 0, 18),
            RadixTable::Perfect(domain) => (0, domain, 16),
        };
        let room = self.shared.saturating_sub(of_pages + 4 * heads) / entry;
        let capacity = room.min(0xfffe).min(most).max(8) / 8 * 8;
        let arguments = RadixSlicesArguments {
            build_pages: DevicePointer::new(build.addresses),
            probe_pages: DevicePointer::new(probe.addresses),
            build_starts: DevicePointer::new(build.starts),
            probe_starts: DevicePointer::new(probe.starts),
            next: DevicePointer::new(next),
            sums: DevicePointer::new(sums),
            index: DevicePointer::new(index.map_or(0, |index| index.values)),
            indexed: DevicePointer::new(index.map_or(0, |index| index.used)),
            domain,
            builds: build.count,
            probes: probe.count,
            parts: 1 << bits,
            shift: bits,
            capacity,
            heads,
            raw: raw.into(),
            unused: 0,
        };
        let shared = entry * capacity + 4 * heads + of_pages;
        let geometry = Geometry::new(blocks.max(1), THREADS).with_shared(shared.into());
        self.function.launch(stream, geometry, &arguments, &[])
    }
}
