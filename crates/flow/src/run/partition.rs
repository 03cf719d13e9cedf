//! Partitions of a block's warps: the initial one, and those chosen from the operators' measured times during
//! the run (XeFlow, sections 5.2 and 5.3).
//!
//! The first block regularly writes the clocks and the bytes of its operators, for frames that they computed
//! with their share of the warps. The increase since the last choice is a sample: the time of a fixed amount
//! of work per warp, for the current number of warps. Models are fitted to all samples. The partition with
//! the least time of its slowest operator is written to one word, which blocks read beside the host's beat.

use std::sync::atomic::Ordering;
use std::time::Instant;

use galatea_kernels::flow::{CONTROL_PARTITION, Words};

use crate::error::{FlowError, Result};
use crate::options::{FlowOptions, Retune};
use crate::topology::Topology;
use crate::tuner::{Model, Sample, exact, is_uneven};

/// Maximum number of samples of an operator. Old ones are dropped, so that the models follow a changing load.
const MOST_SAMPLES: usize = 64;

/// Warps of each operator on the device: the requested partition, or equal shares.
pub(super) fn first_partition(topology: &Topology, options: &FlowOptions) -> Result<Vec<u32>> {
    let operators = topology.device_links().count();
    let warps = options.block_threads / 32;
    if operators as u32 > warps {
        return Err(FlowError::TooMany {
            what: "operators on the device for the warps of a block",
            asked: operators as u64,
            limit: warps.into(),
            hint: "raise FlowOptions::block_threads",
        });
    }
    match &options.partition {
        None => {
            let share = |operator: u32| {
                let upto = |operator: u32| operator * warps / operators as u32;
                upto(operator + 1) - upto(operator)
            };
            Ok((0..operators as u32).map(share).collect())
        }
        Some(asked)
            if asked.len() == operators && asked.iter().sum::<u32>() == warps && !asked.contains(&0) =>
        {
            Ok(asked.clone())
        }
        Some(asked) => Err(FlowError::topology(format!(
            "the partition {asked:?} does not give each of {operators} operators a part of {warps} warps"
        ))),
    }
}

/// Chooses partitions.
#[derive(Debug)]
pub(super) struct Retuner {
    options: Retune,
    /// Index of the operators' clocks and bytes among the control words.
    times_at: usize,
    shares: Vec<u32>,
    samples: Vec<Vec<Sample>>,
    /// The clocks and bytes at the last choice.
    last: Vec<(u64, u64)>,
    when: Instant,
    /// The partitions chosen.
    pub(super) chosen: Vec<Vec<u32>>,
}

impl Retuner {
    pub(super) fn new(options: Retune, times_at: usize, partition: &[u32], now: Instant) -> Self {
        Self {
            options,
            times_at,
            shares: partition.to_vec(),
            samples: vec![Vec::new(); partition.len()],
            last: vec![(0, 0); partition.len()],
            when: now,
            chosen: Vec::new(),
        }
    }

    /// Chooses a partition if the period has passed and every operator has worked since the last choice.
    pub(super) fn look(&mut self, control: &Words, now: Instant) {
        if now - self.when < self.options.period {
            return;
        }
        let word = |at: usize| control.get(self.times_at + at).load(Ordering::Relaxed);
        let told: Vec<(u64, u64)> = (0..self.shares.len())
            .map(|at| (word(2 * at), word(2 * at + 1)))
            .collect();
        let since = told.iter().zip(&self.last);
        let since = since.map(|(told, last)| (told.0.saturating_sub(last.0), told.1.saturating_sub(last.1)));
        let since: Vec<(f64, f64)> = since
            .map(|(clocks, bytes)| (clocks as f64, bytes as f64))
            .collect();
        if since
            .iter()
            .any(|(clocks, bytes)| *clocks <= 0.0 || *bytes <= 0.0)
        {
            return;
        }
        (self.when, self.last) = (now, told);
        let warps = self.shares.iter().sum();
        if let Some(shares) = self.choose(&since, warps)
            && shares != self.shares
        {
            let word = shares
                .iter()
                .rev()
                .fold(0_u64, |word, share| word << 8 | u64::from(*share));
            control.get(CONTROL_PARTITION).store(word, Ordering::Relaxed);
            self.chosen.push(shares.clone());
            self.shares = shares;
        }
    }

    /// The partition for the clocks of each operator and the bytes that it read in them.
    fn choose(&mut self, since: &[(f64, f64)], warps: u32) -> Option<Vec<u32>> {
        for ((samples, (clocks, bytes)), share) in self.samples.iter_mut().zip(since).zip(&self.shares) {
            if samples.len() == MOST_SAMPLES {
                samples.remove(0);
            }
            samples.push((*share, clocks * f64::from(*share) / bytes));
        }
        let clocks: Vec<f64> = since.iter().map(|(clocks, _)| *clocks).collect();
        if !is_uneven(&clocks, self.options.threshold) {
            return None;
        }
        let models: Option<Vec<Model>> = self
            .samples
            .iter()
            .map(|samples| Model::least_squares(samples))
            .collect();
        let models = models?;
        // Far from its samples, a model may be negative, so times are at least 0.
        let time =
            |operator: usize, warps: u32| models[operator].frame_time(warps).max(0.0) * since[operator].1;
        exact(since.len(), warps, time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn retuner(partition: &[u32]) -> Retuner {
        Retuner::new(Retune::default(), 0, partition, Instant::now())
    }

    #[test]
    fn the_slower_operator_gets_more_warps() {
        // Four times the clocks for the same number of bytes, for any number of warps.
        let mut tuner = retuner(&[16, 16]);
        let shares = tuner.choose(&[(4000.0, 100.0), (1000.0, 100.0)], 32).unwrap();
        assert_eq!(shares.iter().sum::<u32>(), 32);
        assert!(shares[0] > 20, "{shares:?}");
    }

    #[test]
    fn balanced_operators_keep_their_warps() {
        let mut tuner = retuner(&[16, 16]);
        assert_eq!(tuner.choose(&[(1000.0, 100.0), (1040.0, 100.0)], 32), None);
        assert_eq!(tuner.samples[0], [(16, 160.0)]);
    }

    #[test]
    fn old_samples_are_discarded() {
        let mut tuner = retuner(&[8, 8]);
        for _ in 0..100 {
            tuner.choose(&[(1000.0, 100.0), (3000.0, 100.0)], 16);
        }
        assert_eq!(tuner.samples[1].len(), MOST_SAMPLES);
    }
}
