//! The tuner: its cost (table 2), and the differences between partitions of a block's warps (figure 13).
//!
//! Models are fitted to pairs of the same operator with different shares of the block's warps. For pairs of
//! different operators, they predict. The rows contain the predictions beside the measured rates.

use std::time::{Duration, Instant};

use galatea_device::Device;
use galatea_flow::tuner::{Model, Sample, exact};
use galatea_flow::{Assignment, Result};

use super::Scale;
use crate::flow::batches::{Batches, wrong};
use crate::flow::copied::copy_kernel_copy;
use crate::flow::formula::{by_formula, gradient_descent};
use crate::flow::load::{Load, Touch};
use crate::flow::stream::Shape;
use crate::flow::{Row, pairs};

const OPERATORS: [u32; 5] = [4, 8, 16, 32, 64];

/// Numbers of warps of the first of two operators: eighths of the block's warps, as 4:28 to 28:4 of 32.
fn shares(warps: u32) -> Vec<u32> {
    let mut shares: Vec<u32> = (1..8).map(|eighth| eighth * warps / 8).collect();
    shares.retain(|share| *share > 0);
    shares.dedup();
    shares
}

/// Streams through two operators of one kernel.
struct Pair<'a> {
    device: &'a Device,
    loads: [Load; 2],
    shape: Shape,
}

/// A run of a pair: input bytes per second, elapsed time, and a sample of each operator that worked with its
/// share of the warps.
struct PairRun {
    rate: f64,
    elapsed: Duration,
    samples: [Option<Sample>; 2],
}

impl<'a> Pair<'a> {
    fn new(device: &'a Device, scale: &Scale, counts: [u32; 2], frame_bytes: usize, seed: u64) -> Self {
        let mut shape = scale.shape(frame_bytes, Touch::Number);
        shape.options.block_threads = scale.pair_threads;
        shape.options.count_steps = true;
        // An operator keeps its share even if the other one has no frame, as in the paper.
        shape.options.assignment = Assignment::Unfinished;
        Self {
            device,
            loads: counts.map(|count| Load::fma(count, frame_bytes, seed)),
            shape,
        }
    }

    fn warps(&self) -> u32 {
        self.shape.options.block_threads / 32
    }

    /// The names of the operators.
    fn name(&self) -> String {
        let [first, second] = self.loads.each_ref().map(|load| load.operator.name());
        format!("{first} and {second}")
    }

    /// Runs the pair, the first operator with `share` warps.
    fn run(&self, share: u32) -> Result<PairRun> {
        let partition = [share, self.warps() - share];
        let mut shape = self.shape.clone();
        shape.options.partition = Some(partition.to_vec());
        let (rate, outcome) = pairs::throughput(self.device, &self.loads, &shape)?;
        let steps = outcome.steps.unwrap_or_default();
        let sample = |operator: usize| {
            let (clocks, bytes) = steps.operators.get(operator).copied()?;
            let warps = partition[operator];
            (bytes > 0).then(|| (warps, clocks as f64 * f64::from(warps) / bytes as f64))
        };
        Ok(PairRun {
            rate,
            elapsed: outcome.elapsed,
            samples: [sample(0), sample(1)],
        })
    }

    /// Rates of a partition in GB/s, and the samples of its runs.
    fn runs(&self, share: u32, runs: usize) -> Result<(Vec<f64>, [Vec<Sample>; 2])> {
        let (mut rates, mut samples) = (Vec::new(), [Vec::new(), Vec::new()]);
        for _ in 0..runs {
            let run = self.run(share)?;
            rates.push(run.rate / 1e9);
            for (all, own) in samples.iter_mut().zip(run.samples) {
                all.extend(own);
            }
        }
        Ok((rates, samples))
    }

    fn row(&self, method: String, metric: &'static str, values: Vec<f64>) -> Row {
        Row {
            experiment: "partitions",
            method,
            operator: self.name(),
            frame_bytes: self.loads[0].frame_bytes,
            metric,
            values,
        }
    }
}

/// The time to collect samples of an operator, and to fit a model to them (table 2). Each frame is a sample;
/// its time is the mean of the frames in its run. Each run has one number of warps.
pub(super) fn tuning(device: &Device, scale: &Scale, seed: u64, out: &mut dyn FnMut(Row)) -> Result<()> {
    const FRAME_BYTES: usize = 4096;
    for count in OPERATORS {
        let mut pair = Pair::new(device, scale, [count, count], FRAME_BYTES, seed);
        let shares = shares(pair.warps());
        for asked in [800, 1600, 3200, 6400, 12800_u64].map(|samples| samples.min(scale.frames)) {
            // Each frame of the two streams is a sample.
            let frames = asked.div_ceil(2 * shares.len() as u64);
            pair.shape.frames = (0, frames);
            let mut times = [const { Vec::new() }; 3];
            for _ in 0..scale.runs {
                let (mut sampling, mut samples) = (Duration::ZERO, Vec::new());
                for share in &shares {
                    let run = pair.run(*share)?;
                    sampling += run.elapsed;
                    for sample in run.samples.into_iter().flatten() {
                        samples.extend(std::iter::repeat_n(sample, frames as usize));
                    }
                }
                times[0].push(sampling.as_secs_f64() * 1e3);
                let begun = Instant::now();
                std::hint::black_box(Model::least_squares(&samples));
                times[1].push(begun.elapsed().as_secs_f64() * 1e3);
                let begun = Instant::now();
                std::hint::black_box(gradient_descent(&samples, 100, 0.1));
                times[2].push(begun.elapsed().as_secs_f64() * 1e3);
            }
            let metrics = ["sampling ms", "least squares ms", "gradient descent ms"];
            for (metric, values) in metrics.into_iter().zip(times) {
                out(Row {
                    experiment: "tuning",
                    method: format!("{asked} samples"),
                    operator: format!("FMA{count}"),
                    frame_bytes: FRAME_BYTES,
                    metric,
                    values,
                });
            }
        }
    }
    Ok(())
}

/// All pairs of operators in one kernel by partition, beside the models' predictions, the partitions that the
/// tuner chooses from them, and two kernels at once (figure 13).
pub(super) fn partitions(device: &Device, scale: &Scale, seed: u64, out: &mut dyn FnMut(Row)) -> Result<()> {
    const FRAME_BYTES: usize = 64 << 10;
    let largest = scale.frame_sizes.iter().copied().max().unwrap_or(FRAME_BYTES);
    let frame_bytes = FRAME_BYTES.min(largest);
    let pair = |counts| {
        let mut pair = Pair::new(device, scale, counts, frame_bytes, seed);
        // Few blocks, so that they mostly compute and seldom wait for the link.
        pair.shape.options.blocks = scale.blocks.or(Some(8));
        pair
    };
    let mut models = Vec::new();
    for count in OPERATORS {
        let pair = pair([count, count]);
        let mut learnt: Vec<Sample> = Vec::new();
        for share in shares(pair.warps()) {
            let samples = measured(&pair, share, scale.runs, out)?;
            learnt.extend(samples.into_iter().flatten());
        }
        models.push(Model::least_squares(&learnt));
        judged(&pair, [models.last().copied().flatten(); 2], scale, out)?;
    }
    for (at, first) in OPERATORS.into_iter().enumerate() {
        for (second, of_second) in OPERATORS.into_iter().zip(&models).skip(at + 1) {
            let pair = pair([first, second]);
            for share in shares(pair.warps()) {
                measured(&pair, share, scale.runs, out)?;
            }
            judged(&pair, [models[at], *of_second], scale, out)?;
        }
    }
    Ok(())
}

/// A measured partition's row, and its samples.
fn measured(pair: &Pair<'_>, share: u32, runs: usize, out: &mut dyn FnMut(Row)) -> Result<[Vec<Sample>; 2]> {
    let (rates, samples) = pair.runs(share, runs)?;
    let method = format!("stream {share}:{}", pair.warps() - share);
    out(pair.row(method, "input GB/s", rates));
    Ok(samples)
}

/// The predictions of the models for a pair, the rates of partitions chosen from them, and the baseline.
fn judged(
    pair: &Pair<'_>,
    models: [Option<Model>; 2],
    scale: &Scale,
    out: &mut dyn FnMut(Row),
) -> Result<()> {
    let warps = pair.warps();
    if let [Some(first), Some(second)] = models {
        let models = [first, second];
        let slowest = |share: u32| first.frame_time(share).max(second.frame_time(warps - share));
        for share in shares(warps) {
            let time = slowest(share);
            // Far from its samples, a model may be negative.
            if time > 0.0 {
                let method = format!("estimate {share}:{}", warps - share);
                // Two bytes, one of each stream, per time of the slower operator.
                out(pair.row(method, "bytes a clock", vec![2.0 / time]));
            }
        }
        let found = [
            ("formula", by_formula(&models, warps)),
            (
                "search",
                exact(2, warps, |operator, warps| models[operator].frame_time(warps)),
            ),
        ];
        for (name, partition) in found {
            let Some(partition) = partition else { continue };
            let (rates, _) = pair.runs(partition[0], scale.runs)?;
            let method = format!("{name} {}:{}", partition[0], partition[1]);
            out(pair.row(method, "input GB/s", rates));
        }
    }
    let batches = scale.batches(pair.loads[0].frame_bytes, 1, Touch::Number);
    let rates: Result<Vec<f64>> = (0..scale.runs)
        .map(|_| at_once(pair.device, &pair.loads, batches).map(|rate| rate / 1e9))
        .collect();
    let method = "CKC pinned, two kernels at once".to_owned();
    out(pair.row(method, "input GB/s", rates?));
    Ok(())
}

/// Bytes per second of two baselines at the same time.
fn at_once(device: &Device, loads: &[Load; 2], batches: Batches) -> Result<f64> {
    std::thread::scope(|scope| {
        let other = scope.spawn(|| copy_kernel_copy(device, &loads[1], true, batches));
        let own = copy_kernel_copy(device, &loads[0], true, batches)?.rate;
        let other = other.join().unwrap_or_else(|_| Err(wrong("a worker panicked")))?;
        Ok(own + other.rate)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_distinct_eighths() {
        assert_eq!(shares(32), [4, 8, 12, 16, 20, 24, 28]);
        assert_eq!(shares(8), [1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(shares(4), [1, 2, 3]);
        assert_eq!(shares(2), [1]);
    }
}
