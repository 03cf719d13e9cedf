//! The outcome of a run of a topology.

use std::time::Duration;

use galatea_kernels::flow::FLOW_STEPS;

/// The outcome of a run. All figures are counted, none is estimated.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// Time from the start of the first operator to the end of the last.
    pub elapsed: Duration,
    /// Frames published in each topic, in the order of their declaration.
    pub published: Vec<u64>,
    /// Kernels launched: 1 if an operator runs on the device, else 0.
    pub launches: u64,
    /// Bytes that copies of the driver moved while operators ran, on the whole device: 0 if nothing else used
    /// it.
    pub copied: u64,
    /// Frames in use that no topic accounts for, and frames that were released twice, which only the emulated
    /// device detects: 0 unless the runtime has a bug.
    pub leaked: u64,
    /// Buffers granted to heaps after the start, and the number of these that another heap lent.
    pub granted: (u64, u64),
    /// Blocks of the kernel.
    pub blocks: u32,
    /// Partitions of a block's warps that were chosen during the run, in order.
    pub partitions: Vec<Vec<u32>>,
    /// Clocks of all blocks by step, if they were counted.
    pub steps: Option<Steps>,
}

/// Clocks of the blocks by step (XeFlow, figure 11).
#[derive(Debug, Clone, Default)]
pub struct Steps {
    /// Looking for frames, allocating empty ones, and writing the work vector, in rounds that found work.
    pub look: u64,
    /// Computing.
    pub compute: u64,
    /// Publishing, acknowledging, and taking the next tickets.
    pub publish: u64,
    /// Rounds that found nothing.
    pub idle: u64,
    /// For each operator on the device: clocks in its body and bytes that it read, for the frames that it
    /// computed with exactly its share of the warps.
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
