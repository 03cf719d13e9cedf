//! Radix partitioning of tuples and joins of partitions, after C. Lutz, *Scalable Data Management using GPUs
//! with Fast Interconnects* (2022), chapter 4.
//!
//! Input and output are addresses, since they may be in device memory or in mapped host memory: a caller calls
//! [`DeviceBuffer::used_by`](galatea_device::DeviceBuffer::used_by) for buffers of other streams. All
//! positions are 32 bits, so an array has fewer than 2^32 tuples.

use galatea_device::{Device, DeviceError, DevicePointer, Geometry, Result, Stream, kernel_arguments};

use crate::kernel::{BLOCK, KernelFunction, kernel};

/// The most bits by which a pass partitions.
pub const RADIX_MOST_BITS: u32 = 11;
/// Bytes of a tuple: a key and a value of 64 bits each.
pub const RADIX_TUPLE_BYTES: usize = 16;
/// Tuples of a second-level buffer of the hierarchical algorithm.
const SECOND_TUPLES: usize = 512;
/// Threads of a block of the histogram and of the join.
const THREADS: u32 = 1024;
/// Bytes of shared memory of a block that kernels do not use: their static arrays.
const STATIC_SHARED: u32 = 1 << 10;

kernel_arguments! {
    /// Arguments of `radix_histogram`; the header describes each field.
    pub struct RadixHistogramArguments in "galatea/args/radix_histogram.h" {
        /// Keys, or rows.
        pub keys: DevicePointer<u64>,
        /// Counts by block and partition.
        pub counts: DevicePointer<u32>,
        /// Tuples.
        pub count: u64,
        /// Tuples of a block.
        pub per_block: u64,
        /// 1: rows.
        pub rows: u32,
        /// 1: bits of keys.
        pub raw: u32,
        /// First bit.
        pub shift: u32,
        /// Bits.
        pub bits: u32,
    }
}

kernel_arguments! {
    /// Arguments of `radix_offsets`; the header describes each field.
    pub struct RadixOffsetsArguments in "galatea/args/radix_offsets.h" {
        /// Counts, replaced by positions.
        pub counts: DevicePointer<u32>,
        /// Positions of partitions.
        pub starts: DevicePointer<u32>,
        /// Blocks.
        pub blocks: u32,
        /// Partitions.
        pub parts: u32,
        /// 1: the tuples of a block are contiguous.
        pub chunked: u32,
        /// 0.
        pub unused: u32,
    }
}

kernel_arguments! {
    /// Arguments of `radix_scatter`; the header describes each field.
    pub struct RadixScatterArguments in "galatea/args/radix_scatter.h" {
        /// Keys, or rows.
        pub keys: DevicePointer<u64>,
        /// Values, or null.
        pub values: DevicePointer<u64>,
        /// Positions by block and partition.
        pub offsets: DevicePointer<u32>,
        /// Output in one array.
        pub rows: DevicePointer<u64>,
        /// Addresses of pages of output, or null.
        pub pages: DevicePointer<u64>,
        /// Second-level buffers.
        pub second: DevicePointer<u64>,
        /// Tuples.
        pub count: u64,
        /// Tuples of a block.
        pub per_block: u64,
        /// Bits of a position in a page.
        pub page_bits: u32,
        /// 1: bits of keys.
        pub raw: u32,
        /// First bit.
        pub shift: u32,
        /// Bits.
        pub bits: u32,
        /// Tuples of a buffer.
        pub buffer: u32,
        /// 0.
        pub unused: u32,
    }
}

kernel_arguments! {
    /// Arguments of `radix_gather`; the header describes each field.
    pub struct RadixGatherArguments in "galatea/args/radix_gather.h" {
        /// Slices.
        pub slices: DevicePointer<RadixSlice>,
        /// Output.
        pub rows: DevicePointer<u64>,
        /// The first slice.
        pub first: u32,
        /// Number of slices.
        pub count: u32,
        /// Position of the first row of the output.
        pub origin: u32,
        /// 0.
        pub unused: u32,
    }
}

kernel_arguments! {
    /// Arguments of `radix_join`; the header describes each field.
    pub struct RadixJoinArguments in "galatea/args/radix_join.h" {
        /// Rows of the build side.
        pub build: DevicePointer<u64>,
        /// Rows of the probe side.
        pub probe: DevicePointer<u64>,
        /// Positions of partitions of the build side.
        pub build_starts: DevicePointer<u32>,
        /// Positions of partitions of the probe side.
        pub probe_starts: DevicePointer<u32>,
        /// Number of the next partition.
        pub next: DevicePointer<u32>,
        /// Sum of payloads, and matches.
        pub sums: DevicePointer<u64>,
        /// Keys are less.
        pub domain: u64,
        /// Partitions.
        pub parts: u32,
        /// Bits that all tuples of a partition share.
        pub shift: u32,
        /// Entries of a table.
        pub capacity: u32,
        /// Chains of a table; 0: perfect hashing.
        pub heads: u32,
        /// 1: hashes are keys.
        pub raw: u32,
        /// 0.
        pub unused: u32,
    }
}

kernel_arguments! {
    /// Arguments of `radix_check`; the header describes each field.
    pub struct RadixCheckArguments in "galatea/args/radix_check.h" {
        /// Rows in one array.
        pub rows: DevicePointer<u64>,
        /// Addresses of pages of rows, or null.
        pub pages: DevicePointer<u64>,
        /// Unpartitioned keys, or null.
        pub keys: DevicePointer<u64>,
        /// Their values.
        pub values: DevicePointer<u64>,
        /// Positions of partitions.
        pub starts: DevicePointer<u32>,
        /// Sum of hashes, and number of tuples in wrong partitions.
        pub sums: DevicePointer<u64>,
        /// Tuples.
        pub count: u64,
        /// Positions in `starts`, without the end.
        pub lists: u32,
        /// Bits of a position in a page.
        pub page_bits: u32,
        /// 1: bits of keys.
        pub raw: u32,
        /// First bit.
        pub shift: u32,
        /// Bits.
        pub bits: u32,
        /// 0.
        pub unused: u32,
    }
}

kernel_arguments! {
    /// Arguments of `radix_refine`; the header describes each field.
    pub struct RadixRefineArguments in "galatea/args/radix_refine.h" {
        /// Partitioned rows.
        pub rows: DevicePointer<u64>,
        /// Positions of their partitions.
        pub starts: DevicePointer<u32>,
        /// Output.
        pub output: DevicePointer<u64>,
        /// Positions of refined partitions.
        pub refined: DevicePointer<u32>,
        /// 1: bits of keys.
        pub raw: u32,
        /// First bit.
        pub shift: u32,
        /// Bits.
        pub bits: u32,
        /// Partitions of the first pass.
        pub parts: u32,
    }
}

kernel_arguments! {
    /// Arguments of `radix_slices`; the header describes each field.
    pub struct RadixSlicesArguments in "galatea/args/radix_slices.h" {
        /// Addresses of pages of the build side.
        pub build_pages: DevicePointer<u64>,
        /// Addresses of pages of the probe side.
        pub probe_pages: DevicePointer<u64>,
        /// Positions of partitions in pages of the build side.
        pub build_starts: DevicePointer<u32>,
        /// Positions of partitions in pages of the probe side.
        pub probe_starts: DevicePointer<u32>,
        /// Number of the next partition.
        pub next: DevicePointer<u32>,
        /// Sum of payloads, and matches.
        pub sums: DevicePointer<u64>,
        /// Keys are less.
        pub domain: u64,
        /// Pages of the build side.
        pub builds: u32,
        /// Pages of the probe side.
        pub probes: u32,
        /// Partitions.
        pub parts: u32,
        /// Bits that all tuples of a partition share.
        pub shift: u32,
        /// Entries of a table.
        pub capacity: u32,
        /// Chains of a table; 0: perfect hashing.
        pub heads: u32,
        /// 1: hashes are keys.
        pub raw: u32,
        /// 0.
        pub unused: u32,
    }
}

kernel!(RadixRefine, "radix_refine", RadixRefineArguments);
kernel!(RadixSlices, "radix_slices", RadixSlicesArguments);
kernel!(RadixHistogram, "radix_histogram", RadixHistogramArguments);
kernel!(RadixOffsets, "radix_offsets", RadixOffsetsArguments);
kernel!(RadixScatter, "radix_scatter", RadixScatterArguments);
kernel!(RadixGather, "radix_gather", RadixGatherArguments);
kernel!(RadixJoin, "radix_join", RadixJoinArguments);
kernel!(RadixCheck, "radix_check", RadixCheckArguments);

/// The bits of a tuple that determine its partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RadixBits {
    /// First bit.
    pub shift: u32,
    /// Number of bits, at most [`RADIX_MOST_BITS`].
    pub bits: u32,
    /// Whether they are bits of the key, as in the thesis' code, instead of bits of its hash.
    pub raw: bool,
}

impl RadixBits {
    /// Number of partitions.
    #[must_use]
    pub fn parts(&self) -> usize {
        1 << self.bits
    }

    /// The partition of a key.
    #[must_use]
    pub fn part(&self, key: u64) -> usize {
        let hash = if self.raw { key } else { crate::flow::mix64(key) };
        (hash >> self.shift) as usize & (self.parts() - 1)
    }
}

/// Tuples in any memory that kernels can access.
#[derive(Debug, Clone, Copy)]
pub struct RadixTuples {
    /// Address of a column of keys, or of rows; 16-byte aligned.
    pub keys: u64,
    /// Address of a column of values, 16-byte aligned; `None` for rows.
    pub values: Option<u64>,
    /// Number of tuples.
    pub count: u64,
}

/// Room for rows in any memory that kernels can access.
#[derive(Debug, Clone, Copy)]
pub enum RadixRows {
    /// Address of an array, 128-byte aligned.
    Array(u64),
    /// Pages of 2^`bits` rows each, at the addresses in device memory at `addresses`.
    Pages {
        /// Device address of the addresses.
        addresses: u64,
        /// Bits of a row's position in its page.
        bits: u32,
    },
}

impl RadixRows {
    /// The array, the addresses of pages, and the bits of a position in a page.
    fn fields(self) -> (DevicePointer<u64>, DevicePointer<u64>, u32) {
        match self {
            Self::Array(rows) => (DevicePointer::new(rows), DevicePointer::NULL, 0),
            Self::Pages { addresses, bits } => (DevicePointer::NULL, DevicePointer::new(addresses), bits),
        }
    }
}

/// The blocks of a pass, and their tuples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RadixGrid {
    /// Number of blocks.
    pub blocks: u32,
    /// Consecutive tuples of a block, an even number.
    pub per_block: u64,
}

impl RadixGrid {
    /// Divides tuples evenly among at most `most` blocks, each with a few tuples for each thread.
    #[must_use]
    pub fn new(count: u64, most: u32) -> Self {
        let blocks = count.div_ceil(2048).clamp(1, u64::from(most.max(1)));
        let per_block = count.div_ceil(blocks).next_multiple_of(128).max(128);
        Self {
            blocks: count.div_ceil(per_block).max(1) as u32,
            per_block,
        }
    }
}

fn checked(tuples: &RadixTuples, bits: RadixBits) -> Result<()> {
    for (what, asked, limit) in [
        ("tuples of a partitioning", tuples.count, u64::from(u32::MAX)),
        ("bits of a partitioning", bits.bits.into(), RADIX_MOST_BITS.into()),
        ("bits of a hash", u64::from(bits.shift + bits.bits), 63),
    ] {
        if asked > limit {
            return Err(DeviceError::Range {
                what,
                start: 0,
                end: asked,
                len: limit,
            });
        }
    }
    Ok(())
}

/// Counts tuples by block and partition.
#[derive(Debug, Clone)]
pub struct RadixHistogram {
    function: KernelFunction<Self>,
}

impl RadixHistogram {
    /// Loads the kernel.
    ///
    /// # Errors
    /// Those of [`Device::compile`].
    pub fn new(device: &Device) -> Result<Self> {
        let function = KernelFunction::load(device)?;
        Ok(Self { function })
    }

    /// Queues the count. `counts` is the device address of a word for each block and partition.
    ///
    /// # Errors
    /// [`DeviceError::Range`] for 2^32 tuples or more, or too many bits; the device's.
    pub fn launch(
        &self,
        stream: &Stream,
        tuples: RadixTuples,
        bits: RadixBits,
        grid: RadixGrid,
        counts: u64,
    ) -> Result<()> {
        checked(&tuples, bits)?;
        let arguments = RadixHistogramArguments {
            keys: DevicePointer::new(tuples.keys),
            counts: DevicePointer::new(counts),
            count: tuples.count,
            per_block: grid.per_block,
            rows: tuples.values.is_none().into(),
            raw: bits.raw.into(),
            shift: bits.shift,
            bits: bits.bits,
        };
        let geometry = Geometry::new(grid.blocks, THREADS);
        self.function.launch(stream, geometry, &arguments, &[])
    }
}

/// The contiguous tuples of a partitioning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RadixOrder {
    /// Tuples of a partition are contiguous, and have those of each block one after another.
    Partitions,
    /// Tuples of a block are contiguous, and have its partitions one after another, as in the thesis.
    Blocks,
}

impl RadixOrder {
    /// Number of contiguous lists of tuples.
    #[must_use]
    pub fn lists(self, grid: RadixGrid, bits: RadixBits) -> usize {
        match self {
            Self::Partitions => bits.parts(),
            Self::Blocks => grid.blocks as usize * bits.parts(),
        }
    }
}

/// Replaces counts by positions.
#[derive(Debug, Clone)]
pub struct RadixOffsets {
    function: KernelFunction<Self>,
}

impl RadixOffsets {
    /// Loads the kernel.
    ///
    /// # Errors
    /// Those of [`Device::compile`].
    pub fn new(device: &Device) -> Result<Self> {
        let function = KernelFunction::load(device)?;
        Ok(Self { function })
    }

    /// Replaces counts by the position of each block's first tuple of each partition. `starts` is the device
    /// address of a word for each list of [`RadixOrder::lists`] and one more, for their first positions.
    ///
    /// # Errors
    /// The device's.
    pub fn launch(
        &self,
        stream: &Stream,
        (grid, bits, order): (RadixGrid, RadixBits, RadixOrder),
        counts: u64,
        starts: u64,
    ) -> Result<()> {
        let arguments = RadixOffsetsArguments {
            counts: DevicePointer::new(counts),
            starts: DevicePointer::new(starts),
            blocks: grid.blocks,
            parts: bits.parts() as u32,
            chunked: (order == RadixOrder::Blocks).into(),
            unused: 0,
        };
        self.function
            .launch(stream, Geometry::new(1u32, THREADS), &arguments, &[])
    }
}

/// Algorithms that write tuples to their partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RadixAlgorithm {
    /// Each thread stores its tuples.
    Standard,
    /// Blocks sort tiles in shared memory, and write runs.
    Linear,
    /// The same with two smaller blocks per multiprocessor, so that one loads while the other writes.
    LinearTwice,
    /// A buffer per partition in shared memory.
    Shared,
    /// A second buffer per partition in device memory.
    Hierarchical,
}

impl RadixAlgorithm {
    /// Those of the thesis.
    pub const PUBLISHED: [Self; 4] = [Self::Standard, Self::Linear, Self::Shared, Self::Hierarchical];

    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Standard,
        Self::Linear,
        Self::LinearTwice,
        Self::Shared,
        Self::Hierarchical,
    ];

    /// Threads of a block, as in the thesis.
    fn threads(self) -> u32 {
        match self {
            Self::Hierarchical | Self::LinearTwice => 512,
            _ => 1024,
        }
    }

    /// Blocks per multiprocessor.
    #[must_use]
    pub fn resident(self) -> u32 {
        if self == Self::LinearTwice { 2 } else { 1 }
    }

    fn is_linear(self) -> bool {
        matches!(self, Self::Linear | Self::LinearTwice)
    }

    fn number(self) -> u32 {
        match self {
            Self::Standard => 0,
            Self::Linear | Self::LinearTwice => 1,
            Self::Shared => 2,
            Self::Hierarchical => 3,
        }
    }

    /// Words of shared memory per partition, without its buffer.
    fn words(self) -> u32 {
        match self {
            Self::Standard => 1,
            Self::Linear | Self::LinearTwice => 4,
            Self::Shared => 3,
            Self::Hierarchical => 5,
        }
    }
}

impl std::fmt::Display for RadixAlgorithm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Standard => "Standard",
            Self::Linear => "Linear",
            Self::LinearTwice => "Linear twice",
            Self::Shared => "Shared",
            Self::Hierarchical => "Hierarchical",
        })
    }
}

/// Writes tuples to their partitions.
#[derive(Debug, Clone)]
pub struct RadixScatter {
    function: KernelFunction<Self>,
    algorithm: RadixAlgorithm,
    /// Pairs of tuples of a thread.
    pairs: u32,
    /// Bytes of dynamic shared memory of a block.
    shared: u32,
}

/// The most tuples of a buffer in shared memory.
const MOST_BUFFER: u32 = 512;

impl RadixScatter {
    /// Loads the kernel of an algorithm.
    ///
    /// # Errors
    /// Those of [`Device::compile`].
    pub fn new(device: &Device, algorithm: RadixAlgorithm) -> Result<Self> {
        // Each block reserves 1 KiB.
        let shared = device.info().shared_memory_per_block / algorithm.resident()
            - STATIC_SHARED * algorithm.resident();
        let fits = |pairs: u32| {
            let tile = pairs * 2 * algorithm.threads() * RADIX_TUPLE_BYTES as u32;
            tile + ((4 * algorithm.words()) << RADIX_MOST_BITS) <= shared
        };
        let pairs = match algorithm {
            _ if algorithm.is_linear() => [4, 2, 1].into_iter().find(|pairs| fits(*pairs)).unwrap_or(1),
            _ => 2,
        };
        Ok(Self {
            function: KernelFunction::load_with(device, Self::options(algorithm, pairs))?,
            algorithm,
            pairs,
            shared,
        })
    }

    /// Definitions that compile an algorithm, with a number of pairs of tuples for a thread's tile.
    #[must_use]
    pub fn options(algorithm: RadixAlgorithm, pairs: u32) -> Vec<String> {
        vec![
            format!("-DGALATEA_RADIX={}", algorithm.number()),
            format!("-DGALATEA_RADIX_PAIRS={pairs}"),
            format!("-DGALATEA_RADIX_THREADS={}", algorithm.threads()),
            format!("-DGALATEA_RADIX_RESIDENT={}", algorithm.resident()),
        ]
    }

    /// The algorithm.
    #[must_use]
    pub fn algorithm(&self) -> RadixAlgorithm {
        self.algorithm
    }

    /// Tuples of a partition's buffer in shared memory: a multiple of a line of 128 bytes if possible, else a
    /// power of two; a power of two if there are second-level buffers.
    #[must_use]
    pub fn buffer(&self, bits: RadixBits) -> u32 {
        let of_partition = self.shared >> bits.bits;
        let most = of_partition.saturating_sub(4 * self.algorithm.words()) / RADIX_TUPLE_BYTES as u32;
        let most = most.clamp(1, MOST_BUFFER);
        match self.algorithm {
            RadixAlgorithm::Shared if most >= 16 => most / 8 * 8,
            _ => 1 << most.ilog2(),
        }
    }

    /// 64-bit words of device memory for second-level buffers; 0 if the algorithm has none.
    #[must_use]
    pub fn second_words(&self, bits: RadixBits, blocks: u32) -> usize {
        match self.algorithm {
            RadixAlgorithm::Hierarchical => {
                let of_block = bits.parts() + self.algorithm.threads() as usize / 32;
                blocks as usize * of_block * SECOND_TUPLES * 2
            }
            _ => 0,
        }
    }

    /// Queues the partitioning. `offsets` is the device address of the positions of [`RadixOffsets`] for the
    /// same grid and bits, and `second` that of [`Self::second_words`] words.
    ///
    /// # Errors
    /// [`DeviceError::Range`] for 2^32 tuples or more, or too many bits; the device's.
    pub fn launch(
        &self,
        stream: &Stream,
        tuples: RadixTuples,
        (grid, bits): (RadixGrid, RadixBits),
        offsets: u64,
        output: RadixRows,
        second: u64,
    ) -> Result<()> {
        checked(&tuples, bits)?;
        let (rows, pages, page_bits) = output.fields();
        let arguments = RadixScatterArguments {
            keys: DevicePointer::new(tuples.keys),
            values: DevicePointer::new(tuples.values.unwrap_or(0)),
            offsets: DevicePointer::new(offsets),
            rows,
            pages,
            second: DevicePointer::new(second),
            count: tuples.count,
            per_block: grid.per_block,
            page_bits,
            raw: bits.raw.into(),
            shift: bits.shift,
            bits: bits.bits,
            buffer: self.buffer(bits),
            unused: 0,
        };
        let threads = self.algorithm.threads();
        let of_parts = (4 * self.algorithm.words()) << bits.bits;
        let tuples = match self.algorithm {
            RadixAlgorithm::Standard => 0,
            _ if self.algorithm.is_linear() => self.pairs * 2 * threads,
            _ => self.buffer(bits) << bits.bits,
        };
        let shared = tuples * RADIX_TUPLE_BYTES as u32 + of_parts;
        let geometry = Geometry::new(grid.blocks, threads).with_shared(shared.into());
        self.function.launch(stream, geometry, &arguments, &[])
    }
}

/// Consecutive rows of a partition, in any memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct RadixSlice {
    /// Address of the first.
    pub rows: u64,
    /// Position among the rows of the partition.
    pub first: u32,
    /// Number of rows.
    pub count: u32,
}

// SAFETY: repr(C), integers only.
unsafe impl bytemuck::Zeroable for RadixSlice {}
// SAFETY: repr(C), integers of any value, and no padding: 8 + 4 + 4 bytes with alignment 8.
unsafe impl bytemuck::Pod for RadixSlice {}

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

    /// Queues the join of all pairs of partitions. `shift` bits of the hashes of a partition are equal. `next`
    /// is the device address of a word, 0; the sum of the payloads of both sides of all matches, and the
    /// number of matches, are added to the two values at `sums`. A table has at most `most` entries.
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

/// Partitions the partitions of a chunk further.
#[derive(Debug, Clone)]
pub struct RadixRefine {
    function: KernelFunction<Self>,
    /// Pairs of tuples of a thread.
    pairs: u32,
}

impl RadixRefine {
    /// Threads of a block.
    const BLOCK_THREADS: u32 = 512;

    /// Loads the kernel.
    ///
    /// # Errors
    /// Those of [`Device::compile`].
    pub fn new(device: &Device) -> Result<Self> {
        // Two blocks per multiprocessor.
        let shared = device.info().shared_memory_per_block / 2 - 2 * STATIC_SHARED;
        let fits = |pairs: u32| Self::shared(pairs, RADIX_MOST_BITS) <= shared;
        let pairs = [4, 2, 1].into_iter().find(|pairs| fits(*pairs)).unwrap_or(1);
        let options = [format!("-DGALATEA_RADIX_PAIRS={pairs}")];
        let function = KernelFunction::load_with(device, options)?;
        Ok(Self { function, pairs })
    }

    /// Bytes of shared memory of a block.
    fn shared(pairs: u32, bits: u32) -> u32 {
        pairs * 2 * Self::BLOCK_THREADS * RADIX_TUPLE_BYTES as u32 + (16 << bits)
    }

    /// Partitions rows at device address `rows`, whose `parts` partitions begin at the positions at `starts`,
    /// by more bits. The rows of each partition keep their range in `output`. `refined` is the device address
    /// of a word for each partition of both passes and one more, for their positions.
    ///
    /// # Errors
    /// The device's.
    pub fn launch(
        &self,
        stream: &Stream,
        (rows, starts, parts): (u64, u64, usize),
        bits: RadixBits,
        (output, refined): (u64, u64),
        multiprocessors: u32,
    ) -> Result<()> {
        let arguments = RadixRefineArguments {
            rows: DevicePointer::new(rows),
            starts: DevicePointer::new(starts),
            output: DevicePointer::new(output),
            refined: DevicePointer::new(refined),
            raw: bits.raw.into(),
            shift: bits.shift,
            bits: bits.bits,
            parts: parts as u32,
        };
        let shared = Self::shared(self.pairs, bits.bits);
        let blocks = (parts as u64).min(2 * u64::from(multiprocessors.max(1)));
        let geometry = Geometry::new(blocks, Self::BLOCK_THREADS).with_shared(shared.into());
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
    /// those of [`RadixJoin::launch`].
    ///
    /// # Errors
    /// [`DeviceError::Range`] for more than [`Self::MOST_PAGES`] pages of a side; the device's.
    pub fn launch(
        &self,
        stream: &Stream,
        (build, probe): (RadixPages, RadixPages),
        (bits, raw, table, most): (u32, bool, RadixTable, u32),
        (next, sums): (u64, u64),
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
        let of_pages = 4 * (3 * build.count + 2 * probe.count);
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

/// Checks partitionings.
#[derive(Debug, Clone)]
pub struct RadixCheck {
    function: KernelFunction<Self>,
}

impl RadixCheck {
    /// Loads the kernel.
    ///
    /// # Errors
    /// Those of [`Device::compile`].
    pub fn new(device: &Device) -> Result<Self> {
        let function = KernelFunction::load(device)?;
        Ok(Self { function })
    }

    /// The hash of a tuple, of which the sum is taken.
    #[must_use]
    pub fn hash(key: u64, value: u64) -> u64 {
        use crate::flow::mix64;
        mix64(key ^ mix64(value))
    }

    /// Adds the sum of the hashes of partitioned tuples, and the number of tuples in a wrong partition, to the
    /// two values at device address `sums`. `starts` has `lists` positions and the end.
    ///
    /// # Errors
    /// The device's.
    pub fn launch(
        &self,
        stream: &Stream,
        (rows, count): (RadixRows, u64),
        (starts, lists): (u64, usize),
        bits: RadixBits,
        sums: u64,
    ) -> Result<()> {
        let (rows, pages, page_bits) = rows.fields();
        let arguments = RadixCheckArguments {
            rows,
            pages,
            keys: DevicePointer::NULL,
            values: DevicePointer::NULL,
            starts: DevicePointer::new(starts),
            sums: DevicePointer::new(sums),
            count,
            lists: lists as u32,
            page_bits,
            raw: bits.raw.into(),
            shift: bits.shift,
            bits: bits.bits,
            unused: 0,
        };
        let geometry = Geometry::grid_stride(count, BLOCK.into(), BLOCK, 1024);
        self.function.launch(stream, geometry, &arguments, &[])
    }
}
