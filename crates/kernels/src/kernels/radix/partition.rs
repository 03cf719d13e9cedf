//! Partitioning: counts, positions, and passes over tuples.

use galatea_device::{Device, DevicePointer, Geometry, Result, Stream};

use super::arguments::{
    RadixHistogramArguments, RadixOffsetsArguments, RadixRefineArguments, RadixScatterArguments,
};
use super::types::{
    RADIX_MOST_BITS, RADIX_TUPLE_BYTES, RadixBits, RadixGrid, RadixRows, RadixTuples, RadixValues,
    STATIC_SHARED, THREADS, checked,
};
use crate::kernel::{KernelFunction, kernel};

/// Tuples of a second-level buffer of the hierarchical algorithm.
const SECOND_TUPLES: usize = 512;

kernel!(RadixRefine, "radix_refine", RadixRefineArguments);
kernel!(RadixHistogram, "radix_histogram", RadixHistogramArguments);
kernel!(RadixOffsets, "radix_offsets", RadixOffsetsArguments);
kernel!(RadixScatter, "radix_scatter", RadixScatterArguments);

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
    /// `DeviceError::Range` for 2^32 tuples or more, or too many bits; the device's.
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
            rows: (tuples.values == RadixValues::Rows).into(),
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
    /// A buffer per partition in shared memory, written by all threads of the block between barriers. In the
    /// thesis, one warp writes a buffer under a lock.
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
            Self::Linear | Self::LinearTwice | Self::Shared => 4,
            Self::Hierarchical => 7,
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

/// The most tuples of a buffer in shared memory: those of a thread block's step, or of a second-level buffer.
const MOST_BUFFER: u32 = 4096;

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
            RadixAlgorithm::Standard => 2,
            _ => 4,
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
        let most = match self.algorithm {
            RadixAlgorithm::Hierarchical => most.clamp(1, SECOND_TUPLES as u32),
            _ => most.clamp(1, MOST_BUFFER),
        };
        match self.algorithm {
            RadixAlgorithm::Shared if most >= 16 => most / 8 * 8,
            _ => 1 << most.ilog2(),
        }
    }

    /// 64-bit words of device memory for second-level buffers; 0 if the algorithm has none.
    #[must_use]
    pub fn second_words(&self, bits: RadixBits, blocks: u32) -> usize {
        match self.algorithm {
            RadixAlgorithm::Hierarchical => blocks as usize * bits.parts() * SECOND_TUPLES * 2,
            _ => 0,
        }
    }

    /// Queues the partitioning. `offsets` is the device address of the positions of [`RadixOffsets`] for the
    /// same grid and bits, and `second` that of [`Self::second_words`] words.
    ///
    /// # Errors
    /// `DeviceError::Range` for 2^32 tuples or more, or too many bits; the device's.
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
        let (values, number, numbered) = match tuples.values {
            RadixValues::Rows => (DevicePointer::NULL, 0, 0),
            RadixValues::Column(values) => (DevicePointer::new(values), 0, 0),
            RadixValues::Numbers(first) => (DevicePointer::NULL, first, 1),
        };
        let arguments = RadixScatterArguments {
            keys: DevicePointer::new(tuples.keys),
            values,
            offsets: DevicePointer::new(offsets),
            rows,
            pages,
            second: DevicePointer::new(second),
            count: tuples.count,
            per_block: grid.per_block,
            number,
            page_bits,
            raw: bits.raw.into(),
            shift: bits.shift,
            bits: bits.bits,
            buffer: self.buffer(bits),
            numbered,
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
