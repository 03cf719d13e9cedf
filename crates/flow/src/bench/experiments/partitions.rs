//! The tuner: what it costs (table 2), and how partitions of a block's warps differ (figure 13).

use std::time::Instant;

use galatea_device::Device;

use super::Scale;
use crate::bench::batches::Batches;
use crate::bench::copied::copy_kernel_copy;
use crate::bench::load::{Load, Touch};
use crate::bench::stream::{Shape, throughput};
use crate::bench::{Row, pairs};
use crate::error::Result;
use crate::outcome::Steps;
use crate::tuner::{Model, Sample, by_formula, exact};

const OPERATORS: [u32; 5] = [4, 8, 16, 32, 64];
const FRAME_BYTES: usize = 64 << 10;

fn row(
    experiment: &'static str,
    method: String,
    operator: String,
    metric: &'static str,
    values: Vec<f64>,
) -> Row {
    Row {
        experiment,
        method,
        operator,
        frame_bytes: FRAME_BYTES,
        metric,
        values,
    }
}

/// Time of a fixed amount of work per warp, of an operator that had so many warps.
fn work_time(steps: &Steps, operator: usize, warps: u32) -> f64 {
    let (clocks, bytes) = steps.operators.get(operator).copied().unwrap_or_default();
    clocks as f64 * f64::from(warps) / bytes.max(1) as f64
}

/// The time to gather samples of an operator, a frame each, and to fit a model to them (table 2).
pub(super) fn tuning(device: &Device, scale: &Scale, seed: u64, out: &mut dyn FnMut(Row)) -> Result<()> {
    for count in OPERATORS {
        let load = Load::fma(count, 4096, seed);
        for samples in [800, 1600, 3200, 6400, 12800_u64].map(|samples| samples.min(scale.frames)) {
            let mut shape = scale.shape(4096, Touch::Number);
            shape.threads = (1, 1);
            shape.frames = (0, samples);
            shape.options.count_steps = true;
            let mut times = [const { Vec::new() }; 3];
            for _ in 0..scale.runs {
                let (_, _, outcome) = throughput(device, &load, &shape)?;
                let time = work_time(&outcome.steps.unwrap_or_default(), 0, 32);
                let samples: Vec<Sample> = (0..samples as u32).map(|at| (1 + at % 31, time)).collect();
                times[0].push(outcome.elapsed.as_secs_f64() * 1e3);
                let begun = Instant::now();
                std::hint::black_box(Model::least_squares(&samples));
                times[1].push(begun.elapsed().as_secs_f64() * 1e3);
                let begun = Instant::now();
                std::hint::black_box(Model::gradient_descent(&samples, 100, 0.1));
                times[2].push(begun.elapsed().as_secs_f64() * 1e3);
            }
            let metrics = ["sampling ms", "least squares ms", "gradient descent ms"];
            for (metric, values) in metrics.into_iter().zip(times) {
                let method = format!("{samples} samples");
                out(row("tuning", method, format!("FMA{count}"), metric, values));
            }
        }
    }
    Ok(())
}

/// Pairs of operators in one kernel by partition, beside what the model estimates, the partitions that the
/// tuner finds, and two kernels at once (figure 13).
pub(super) fn partitions(device: &Device, scale: &Scale, seed: u64, out: &mut dyn FnMut(Row)) -> Result<()> {
    let warps = scale.block_threads / 32;
    let shares: Vec<u32> = (1..8)
        .map(|eighth| eighth * warps / 8)
        .filter(|share| *share > 0)
        .collect();
    let pairs = OPERATORS.iter().enumerate();
    let pairs = pairs.flat_map(|(at, first)| OPERATORS[at + 1..].iter().map(move |second| (*first, *second)));
    for (first, second) in pairs {
        let loads = [first, second].map(|count| Load::fma(count, FRAME_BYTES, seed));
        let operator = format!("FMA{first} and FMA{second}");
        let mut shape = scale.shape(FRAME_BYTES, Touch::Number);
        shape.options.count_steps = true;
        // Few blocks, so that they compute more than they wait for the link.
        shape.options.blocks = scale.blocks.or(Some(8));
        let run = |partition: &[u32], shape: &Shape| {
            let mut shape = shape.clone();
            shape.options.partition = Some(partition.to_vec());
            pairs::throughput(device, &loads, &shape)
        };
        let mut samples: [Vec<Sample>; 2] = [Vec::new(), Vec::new()];
        for share in &shares {
            let partition = [*share, warps - share];
            let mut rates = Vec::new();
            for _ in 0..scale.runs {
                let (rate, outcome) = run(&partition, &shape)?;
                rates.push(rate / 1e9);
                let steps = outcome.steps.unwrap_or_default();
                for (operator, samples) in samples.iter_mut().enumerate() {
                    samples.push((
                        partition[operator],
                        work_time(&steps, operator, partition[operator]),
                    ));
                }
            }
            let method = format!("stream {share}:{}", warps - share);
            out(row("partitions", method, operator.clone(), "input GB/s", rates));
        }
        let models = samples.each_ref().map(|samples| Model::least_squares(samples));
        let [Some(left), Some(right)] = models else {
            continue;
        };
        for share in &shares {
            let slowest = left.frame_time(*share).max(right.frame_time(warps - share));
            let method = format!("estimate {share}:{}", warps - share);
            out(row(
                "partitions",
                method,
                operator.clone(),
                "clocks a byte",
                vec![slowest],
            ));
        }
        let models = [left, right];
        let found = [
            ("formula", by_formula(&models, warps)),
            (
                "search",
                exact(2, warps, |operator, warps| models[operator].frame_time(warps)),
            ),
        ];
        for (name, partition) in found {
            let Some(partition) = partition else { continue };
            let rates: Result<Vec<f64>> = (0..scale.runs)
                .map(|_| run(&partition, &shape).map(|(rate, _)| rate / 1e9))
                .collect();
            let method = format!("stream by {name}, {}:{}", partition[0], partition[1]);
            out(row("partitions", method, operator.clone(), "input GB/s", rates?));
        }
        let mut rates = Vec::new();
        for _ in 0..scale.runs {
            rates.push(side_by_side(device, &loads, scale.batches(FRAME_BYTES, 1, Touch::Number))? / 1e9);
        }
        let method = "CKC pinned, two kernels at once".to_owned();
        out(row("partitions", method, operator, "input GB/s", rates));
    }
    Ok(())
}

/// Bytes a second of two baselines at the same time.
fn side_by_side(device: &Device, loads: &[Load; 2], batches: Batches) -> Result<f64> {
    std::thread::scope(|scope| {
        let other = scope.spawn(|| copy_kernel_copy(device, &loads[1], true, batches));
        let own = copy_kernel_copy(device, &loads[0], true, batches)?.rate;
        let other = other.join().map_or(Ok(0.0), |run| run.map(|run| run.rate))?;
        Ok(own + other)
    })
}
