//! Measures iterations over points in device memory, shape by shape, after checking each against 64-bit
//! floats.
//!
//! ```sh
//! cargo run --release -p galatea-kmeans --example iteration -- 4,16 16,64 2048 3
//! ```
//!
//! The arguments are the numbers of features, the numbers of clusters, the mebibytes of points, and the
//! number of shapes for each way to sum by matrix units, cheapest by the model first, beside the cheapest by
//! lanes (0: only the chosen shape). `galatea bench kmeans` measures the same and more; this example does not
//! need to build DataFusion.

use std::error::Error;

use galatea_device::{Device, DeviceOptions, In, Out};
use galatea_kernels::ReadBandwidth;
use galatea_kernels::kmeans::matrix_error;
use galatea_kmeans::{DeviceKMeans, PassCost, Points, PointsBuilder, Scores, Sums, Wanted, costs};
use galatea_layout::model::Machine;
use galatea_memory::regions::MemoryManager;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rayon::prelude::*;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Number of points with which shapes are verified.
const VERIFIED: u64 = (1 << 16) + 17;
/// Iterations between two events.
const AT_ONCE: u32 = 10;
/// Measured runs.
const RUNS: usize = 7;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let list = |at: usize, default: &str| -> Vec<u32> {
        let text = arguments.get(at).map_or(default, String::as_str);
        text.split(',').filter_map(|number| number.parse().ok()).collect()
    };
    let (features, clusters) = (list(0, "4"), list(1, "16,64"));
    let bytes = u64::from(list(2, "2048")[0]) << 20;
    let shapes = list(3, "0")[0] as usize;
    let device = Device::gpu(0, DeviceOptions::default())?;
    let manager = MemoryManager::new(&device)?;
    let machine = Machine::H200;
    let on = DeviceKMeans::new(&manager, machine)?;
    let floor = read_floor(&device, &on, bytes)?;
    println!(
        "features,clusters,scores,sums,points,threads,copies,blocks,registers,local,shared,ms_median,ms_min,predicted,of_floor,right,off"
    );
    for d in features {
        let count = bytes / (4 * u64::from(d));
        let points = generate(d as usize, count)?;
        let fewer = generate(d as usize, count.min(VERIFIED))?;
        for &k in &clusters {
            let expected = Expected::new(&fewer, k as usize);
            for cost in chosen(&machine, (d, k), shapes) {
                let (right, off) = expected.hold(&on, &fewer, &cost)?;
                let mut run = on.start_with(&points, cost.shape)?;
                run.place_centroids(&points.rows(0..u64::from(k)))?;
                for _ in 0..3 {
                    run.queue_iteration()?;
                }
                let mut times = Vec::new();
                for _ in 0..RUNS {
                    let begin = on.stream().record()?;
                    for _ in 0..AT_ONCE {
                        run.queue_iteration()?;
                    }
                    let end = on.stream().record()?;
                    end.synchronize()?;
                    times.push(1e3 * end.elapsed_since(&begin)?.as_secs_f64() / f64::from(AT_ONCE));
                }
                times.sort_by(f64::total_cmp);
                let shape = cost.shape;
                let (registers, local) = run.registers();
                let warps = points.len() as f64 / 32.0 / f64::from(machine.multiprocessors);
                let clock = machine.rounds_per_second / f64::from(machine.multiprocessors);
                println!(
                    "{d},{k},{},{},{}{},{},{},{},{registers},{local},{},{:.4},{:.4},{:.4},{:.2},{right},{off:.1e}",
                    shape.scores.name(),
                    shape.sums.name(),
                    shape.points,
                    if shape.ahead { "+" } else { "" },
                    shape.threads,
                    shape.copies,
                    run.blocks(),
                    shape.shared_bytes(),
                    times[RUNS / 2],
                    times[0],
                    1e3 * cost.cycles * warps / clock,
                    times[RUNS / 2] / floor,
                );
            }
        }
        drop(points);
        manager.clear()?;
    }
    Ok(())
}

/// The shapes to measure.
fn chosen(machine: &Machine, of: (u32, u32), shapes: usize) -> Vec<PassCost> {
    if shapes == 0 {
        return costs(machine, of, Wanted::default())
            .into_iter()
            .take(1)
            .collect();
    }
    let some = |scores, sums, count| {
        let wanted = Wanted {
            scores: Some(scores),
            sums,
            shared_limit: None,
        };
        costs(machine, of, wanted).into_iter().take(count)
    };
    let of_matrix = Sums::ALL
        .into_iter()
        .flat_map(|sums| some(Scores::Matrix, Some(sums), shapes));
    some(Scores::Lanes, None, 1).chain(of_matrix).collect()
}

/// Milliseconds of reading `bytes` bytes.
fn read_floor(device: &Device, on: &DeviceKMeans<'_>, bytes: u64) -> Result<f64> {
    let read = ReadBandwidth::new(device)?;
    let stream = on.stream();
    let values = device.zeroed::<u64>(stream, (bytes / 16 * 2) as usize)?;
    let mut sums = device.zeroed::<u64>(stream, read.blocks())?;
    let mut times = Vec::new();
    for _ in 0..RUNS {
        let begin = stream.record()?;
        for _ in 0..AT_ONCE {
            read.launch(stream, In(&values), Out(&mut sums))?;
        }
        let end = stream.record()?;
        end.synchronize()?;
        times.push(1e3 * end.elapsed_since(&begin)?.as_secs_f64() / f64::from(AT_ONCE));
    }
    times.sort_by(f64::total_cmp);
    println!("# reading {bytes} bytes: {:.4} ms", times[RUNS / 2]);
    Ok(times[RUNS / 2])
}

/// The thesis' points (§5.5.1): ten centres in [-100, 100]^d, a normal distribution of deviation 10 around
/// each.
fn generate(features: usize, count: u64) -> Result<Points> {
    let mut random = SmallRng::seed_from_u64(1);
    let centres: Vec<f32> = (0..10 * features)
        .map(|_| random.random_range(-100f32..100.0))
        .collect();
    let mut builder = PointsBuilder::new((0..features).map(|f| format!("f{f}")).collect())?;
    for first in (0..count).step_by(1 << 22) {
        let len = (count - first).min(1 << 22) as usize;
        let column = |feature: usize| -> Vec<f32> {
            let mut column = vec![0f32; len];
            column
                .par_chunks_mut(1 << 14)
                .enumerate()
                .for_each(|(task, values)| {
                    let start = first + ((task << 14) as u64);
                    let mut random = SmallRng::seed_from_u64(start << 16 ^ feature as u64);
                    for (at, value) in values.iter_mut().enumerate() {
                        let mixed = (start + at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
                        let centre = ((mixed * 10) >> 32) as usize;
                        let radius = (-2.0 * (1.0 - random.random::<f32>()).ln()).sqrt() * 10.0;
                        let angle = std::f32::consts::TAU * random.random::<f32>();
                        *value = centres[centre * features + feature] + radius * angle.cos();
                    }
                });
            column
        };
        builder.append(&(0..features).map(column).collect::<Vec<_>>())?;
    }
    Ok(builder.finish()?)
}

/// Means after an iteration in 64-bit floats, and the changes that ties may cause.
struct Expected {
    first: Vec<f64>,
    means: Vec<f64>,
    tolerance: Vec<f64>,
}

impl Expected {
    fn new(points: &Points, k: usize) -> Self {
        let d = points.features();
        let first = points.rows(0..k as u64);
        let all = points.rows(0..points.len());
        let square = |value: f64| value * value;
        let radius: f64 = (0..d)
            .map(|f| {
                let of = all.iter().skip(f).step_by(d);
                square(of.fold(0.0, |most, value| value.abs().max(most)) + 50.0)
            })
            .sum();
        let close = matrix_error(d as u32, radius);
        let labels: Vec<(usize, bool, usize)> = all
            .par_chunks(d)
            .map(|row| {
                let (mut best, mut second) = ((f64::INFINITY, 0), (f64::INFINITY, 0));
                for (cluster, centroid) in first.chunks_exact(d).enumerate() {
                    let of: f64 = row.iter().zip(centroid).map(|(x, c)| square(x - c)).sum();
                    if of < best.0 {
                        (second, best) = (best, (of, cluster));
                    } else if of < second.0 {
                        second = (of, cluster);
                    }
                }
                (best.1, second.0 - best.0 < close, second.1)
            })
            .collect();
        let (mut means, mut masses, mut ties) = (vec![0.0; k * d], vec![0.0; k], vec![0.0; k]);
        for (row, (label, tie, second)) in all.chunks_exact(d).zip(&labels) {
            masses[*label] += 1.0;
            if *tie {
                ties[*label] += 1.0;
                ties[*second] += 1.0;
            }
            for (sum, x) in means[label * d..][..d].iter_mut().zip(row) {
                *sum += x;
            }
        }
        for (at, value) in means.iter_mut().enumerate() {
            let mass = masses[at / d];
            *value = if mass > 0.0 { *value / mass } else { first[at] };
        }
        let tolerance = (0..k)
            .map(|c| 1e-3 + 300.0 * ties[c] / f64::max(masses[c], 1.0))
            .collect();
        Self {
            first,
            means,
            tolerance,
        }
    }

    /// Whether an iteration of a shape is correct, and the error of its centroids.
    fn hold(&self, on: &DeviceKMeans<'_>, points: &Points, cost: &PassCost) -> Result<(bool, f64)> {
        let mut run = on.start_with(points, cost.shape)?;
        run.place_centroids(&self.first)?;
        run.queue_iteration()?;
        let found = run.read_centroids()?;
        let (mut right, mut off) = (run.shape().scores == cost.shape.scores, 0.0f64);
        for (at, (found, truth)) in found.iter().zip(&self.means).enumerate() {
            let difference = (found - truth).abs();
            right &= difference <= self.tolerance[at / points.features()];
            off = off.max(difference);
        }
        Ok((right, off))
    }
}
