//! How a join runs: its first pass, its fanouts and its memory.

use galatea_kernels::{RADIX_MOST_BITS, RadixAlgorithm, RadixTable};

use super::rig::Rig;

/// The first pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum First {
    /// Chunks copied, and partitioned in device memory by an algorithm.
    Staged(RadixAlgorithm),
    /// The same, by the bits of both passes.
    Refined(RadixAlgorithm),
    /// Partitioned across the link by an algorithm.
    Direct(RadixAlgorithm),
    /// Partitioned by the CPU.
    Cpu,
}

impl First {
    /// Whether copy engines bring chunks.
    pub(super) fn has_chunks(self) -> bool {
        matches!(self, Self::Staged(_) | Self::Refined(_))
    }
}

impl std::fmt::Display for First {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Staged(algorithm) => write!(f, "Staged {algorithm}"),
            Self::Refined(algorithm) => write!(f, "Refined {algorithm}"),
            Self::Direct(algorithm) => algorithm.fmt(f),
            Self::Cpu => f.write_str("CPU"),
        }
    }
}

/// How a join runs.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// The first pass.
    pub first: First,
    /// The algorithm of the second pass.
    pub second: RadixAlgorithm,
    /// Perfect hashing and partitions by bits of keys, instead of chains and bits of hashes.
    pub perfect: bool,
    /// Bits of both passes; `None`: as many as equation 4.1 of the thesis asks for.
    pub bits: Option<(u32, u32)>,
    /// Bytes of state that may be in device memory.
    pub limit: u64,
    /// Bits of the tuples of a chunk of the staged and the refined first pass. The refined one has larger
    /// chunks if slices would have less than 128 rows, but at most four times as large ones.
    pub chunk_bits: u32,
    /// Whether chunks have exactly that size.
    pub exact_chunks: bool,
    /// Chunks in flight.
    pub slots: usize,
    /// Bits of the rows of a page of the direct first pass: 17 for pages of 2 MiB.
    pub page_bits: u32,
    /// Bits of the tuples that a thread of the CPU partitions at a time.
    pub task_bits: u32,
    /// Whether the CPU counts the tuples of the partitions of a direct first pass, instead of a kernel that
    /// reads the keys over the link.
    pub cpu_prefix_sum: bool,
    /// Whether only keys are read, the values of tuples are their record numbers, and the join writes a join
    /// index; for the refined first pass.
    pub index: bool,
    /// The most multiprocessors that kernels use.
    pub multiprocessors: u32,
    /// The most rows of a partition's side that are joined at once.
    pub batch: u32,
    /// The most entries of a hash table.
    pub entries: u32,
    /// Chains of a hash table: 2048 in the thesis.
    pub heads: u32,
}

impl Options {
    /// The defaults for a device, without a limit of the state.
    #[must_use]
    pub fn new(rig: &Rig) -> Self {
        Self {
            first: First::Refined(RadixAlgorithm::Linear),
            second: RadixAlgorithm::Linear,
            perfect: false,
            bits: None,
            limit: u64::MAX,
            chunk_bits: 22,
            exact_chunks: false,
            slots: 3,
            page_bits: 17,
            task_bits: 20,
            cpu_prefix_sum: false,
            index: false,
            multiprocessors: rig.multiprocessors(),
            batch: 32 << 20,
            entries: u32::MAX,
            heads: 2048,
        }
    }

    pub(super) fn table(&self, domain: u64) -> RadixTable {
        match self.perfect {
            true => RadixTable::Perfect(domain),
            false => RadixTable::Chains(self.heads),
        }
    }

    /// Bits of both passes, for a build side of `count` tuples: tables are at most about 0.9 full.
    pub(super) fn bits_for(&self, rig: &Rig, count: u64) -> (u32, u32) {
        if let Some(bits) = self.bits {
            return bits;
        }
        let entries = rig.join.capacity(self.table(count)).min(self.entries);
        let tables = (count as f64 / (0.9 * f64::from(entries))).log2().ceil();
        let all = (tables.max(2.0) as u32).min(9 + RADIX_MOST_BITS);
        let second = match self.first {
            _ if all < 12 => all / 2,
            // A block refines a partition of the first pass at a time, so all multiprocessors need some.
            First::Refined(_) => (all - 8).min(RADIX_MOST_BITS),
            _ => 9,
        };
        (all - second, second)
    }
}
