//! The outcome of a run of a topology.

use std::time::Duration;

use galatea_kernels::flow::FLOW_STEPS;

/// The outcome of a run; every figure is counted, none is estimated.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// From the start of the first operator to the end of the last.
    pub elapsed: Duration,
    /// Frames published in each topic, in the order of their declaration.
    pub published: Vec<u64>,
    /// Kernels launched: 1 where an operator runs on the device, else 0.
    pub launches: u64,
    /// Bytes that copies of the driver moved while operators ran, all of the device: 0 where nothing else
    /// used it.
    pub copied: u64,
    /// Frames that are in use and that no topic accounts for, and those that were given back twice, which is
    /// noticed on the emulated device alone: 0 unless there is a mistake in the runtime.
    pub leaked: u64,
    /// Buffers granted to heaps after the start, and how many of these another heap gave.
    pub granted: (u64, u64),
    /// Blocks of the kernel.
    pub blocks: u32,
    /// Partitions of a block's warps that were chosen while it ran, one after another.
    pub partitions: Vec<Vec<u32>>,
    /// Clocks of the blocks by step, where they were counted, all blocks together.
    pub steps: Option<Steps>,
}

/// Clocks of the blocks by step (XeFlow, figure 11).
#[derive(Debug, Clone, Default)]
pub struct Steps {
    /// Looking for frames, taking empty ones, and writing the work vector, in rounds that found work.
    pub look: u64,
    /// Computing.
    pub compute: u64,
    /// Publishing, acknowledging and taking the next tickets.
    pub publish: u64,
    /// Rounds that found nothing.
    pub idle: u64,
    /// For each operator on the device: clocks in its body and bytes that it read, for the frames that it
    /// computed with its share of the warps, neither more nor fewer.
    pub operators: Vec<(u64, u64)>,
}

impl Steps {
    /// Sums the clocks of blocks.
    pub(crate) fn sum(words: &[u64], words_of_block: usize, operators: usize) -> Self {
        let mut steps = Self {
            operators: vec![(0, 0); operators],
            ..Self::default()
        };
        for block in words.chunks_exact(words_of_block) {
            steps.look += block[0];
            steps.compute += block[1];
            steps.publish += block[2];
            steps.idle += block[3];
            for (operator, sum) in steps.operators.iter_mut().enumerate() {
                sum.0 += block[FLOW_STEPS + 2 * operator];
                sum.1 += block[FLOW_STEPS + 2 * operator + 1];
            }
        }
        steps
    }
}
