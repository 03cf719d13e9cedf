//! Options of a run of a topology.

use std::time::Duration;

/// The operators that a round's warps are assigned to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Assignment {
    /// All unfinished operators: each gets its share, whether it has a frame or not (XeFlow, algorithm 2).
    Unfinished,
    /// Operators that have a frame, by their shares, so that no warps idle for an operator without one. Not
    /// in the paper.
    #[default]
    Ready,
}

/// The memory from which blocks read the catalogue when they start (XeFlow, section 4.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CataloguePolicy {
    /// A replica in device memory.
    #[default]
    ReadMostly,
    /// Host memory, over the link: to measure the benefit of the replica.
    Remote,
}

/// The place at which blocks look for frames that the host publishes (XeFlow, section 4.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IndexPolicy {
    /// In the host's offset index, a slot at a time.
    #[default]
    Direct,
    /// In a replica in device memory. If a slot is missing there, its page of 64 slots is copied to it.
    CopyOnRead,
}

/// The conditions for choosing a new partition of warps while a topology runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Retune {
    /// Minimum time between two choices.
    pub period: Duration,
    /// Minimum standard deviation of the operators' times, as a fraction of their mean.
    pub threshold: f64,
}

impl Default for Retune {
    fn default() -> Self {
        Self {
            period: Duration::from_millis(20),
            threshold: 0.1,
        }
    }
}

/// Settings of a run; the defaults are for throughput.
#[derive(Debug, Clone)]
pub struct FlowOptions {
    /// Blocks of the persistent kernel, at most as many as the device runs at once; default 64. Blocks mostly
    /// wait for the link; operators that compute much need more blocks.
    pub blocks: Option<u32>,
    /// Threads of a block, a multiple of 32 of at most 1024; default 512.
    pub block_threads: u32,
    /// Warps of a block for each operator on the device, in the order of their links; default: equal shares.
    pub partition: Option<Vec<u32>>,
    /// Whether and when the partition is adapted to the measured times of operators; default: never.
    pub retune: Option<Retune>,
    /// The operators that a round's warps are assigned to.
    pub assignment: Assignment,
    /// The memory from which blocks read the catalogue.
    pub catalogue: CataloguePolicy,
    /// The place at which blocks look for frames that the host publishes.
    pub index: IndexPolicy,
    /// Limit of the time of an operator of either side for a frame, of the construction of a CPU operator, of
    /// the start of the kernel, of the host without a sign of life, and of stopping all operators after one
    /// has failed. Default 10 s.
    pub timeout: Duration,
    /// Buffers into which each heap's memory is divided; default 1.
    pub heap_buffers: usize,
    /// Initial buffers of a heap; default: all. They hold at least a frame for each thread or block that
    /// publishes. A heap that is exhausted gets a spare buffer, or else a buffer that heaps of the other side
    /// do not use.
    pub initial_buffers: Option<usize>,
    /// Spare buffers for each frame size, pinned before the start, because pinning memory may wait for the
    /// kernel. Default 0.
    pub spare_buffers: usize,
    /// Number of frames that a block publishes for the host, for each operator, before it waits until the
    /// host is notified of the first: at most 8; default 4.
    pub notes_in_flight: u32,
    /// Whether to count the clocks of each step of the blocks' rounds.
    pub count_steps: bool,
}

impl Default for FlowOptions {
    fn default() -> Self {
        Self {
            blocks: None,
            block_threads: 512,
            partition: None,
            retune: None,
            assignment: Assignment::default(),
            catalogue: CataloguePolicy::default(),
            index: IndexPolicy::default(),
            timeout: Duration::from_secs(10),
            heap_buffers: 1,
            initial_buffers: None,
            spare_buffers: 0,
            notes_in_flight: 4,
            count_steps: false,
        }
    }
}
