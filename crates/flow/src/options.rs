//! How a topology is run.

use std::time::Duration;

/// Which operators a round's warps are given to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Assignment {
    /// All that are not finished, each its share, whether it has a frame or not (XeFlow, algorithm 2).
    Unfinished,
    /// Those that have a frame, by their shares: warps do not wait beside an operator that has none. Not in
    /// the paper.
    #[default]
    Ready,
}

/// Where blocks read the catalogue from when they start (XeFlow, section 4.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CataloguePolicy {
    /// A replica in device memory.
    #[default]
    ReadMostly,
    /// Host memory, over the link: to measure the worth of the replica.
    Remote,
}

/// Where blocks look for frames that the host publishes (XeFlow, section 4.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IndexPolicy {
    /// In the host's offset index, a slot at a time.
    #[default]
    Direct,
    /// In a replica in device memory, to which a page of 64 slots is copied when one is missing.
    CopyOnRead,
}

/// When the partition of warps is chosen anew while a topology runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Retune {
    /// Time between two choices.
    pub period: Duration,
    /// Only where the operators' times differ by more than this part of their mean.
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
    /// Blocks of the persistent kernel, at most as many as the device runs at once; default 64, which wait
    /// for the link most of the time. Operators that compute much want more.
    pub blocks: Option<u32>,
    /// Threads of a block, a multiple of 32 of at most 1024; default 512.
    pub block_threads: u32,
    /// Warps of a block for each operator on the device, in the order of their links; default: equal shares.
    pub partition: Option<Vec<u32>>,
    /// Whether the partition follows what operators turn out to take; default: no.
    pub retune: Option<Retune>,
    /// Which operators a round's warps are given to.
    pub assignment: Assignment,
    /// Where blocks read the catalogue from.
    pub catalogue: CataloguePolicy,
    /// Where they look for frames that the host publishes.
    pub index: IndexPolicy,
    /// How long an operator of either side may take for a frame, and on the CPU to be made; the kernel to
    /// start; the host to say that it lives; and all to stop when one has failed. Default 10 s.
    pub timeout: Duration,
    /// Buffers that each heap's memory is divided into; default 1.
    pub heap_buffers: usize,
    /// Buffers of these that a heap has from the start, at least as many as hold a frame for each thread or
    /// block that publishes; default: all. A heap that is exhausted is given a spare one, or else a
    /// buffer that heaps of the other side do not use.
    pub initial_buffers: Option<usize>,
    /// Spare buffers for each frame size, pinned before the start: pinning memory may wait for the kernel.
    /// Default 0.
    pub spare_buffers: usize,
    /// Frames that a block publishes for the host, for each operator, before it waits until the host has been
    /// told of the first: at most 8; default 4.
    pub notes_in_flight: u32,
    /// Counts clocks of each step of the blocks' rounds.
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
