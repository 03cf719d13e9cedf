//! Shapes of passes by matrix units, and their costs by the model (`kmeans/matrix.cuh`).
//!
//! For 32 points, with s = d / 4 steps and k8 = k rounded up to 8, in cycles of a multiprocessor with four
//! schedulers:
//!
//! ```text
//!   memory   128 d bytes / bytes per cycle
//!   issue    w (1.75 k8 + 6.3 k8 s / 4 + s (20 + update) + 26 + 180 / P) / 4
//!   shared   8 + update s; if threads hold no centroids k8 2 s / 2 P, of points of two tiles of 16
//! ```
//!
//! A matrix unit takes 6.3 cycles for 16 x 8 sums of 16 products; its scheduler issues nothing else in that
//! time. A key and its maximum take 1.75 instructions per score, those that wait for a product included. A
//! tile takes 180 instructions for any number of points. w, 1.26 to 1.5, is the factor for warps that wait
//! for each other. Instructions were counted in the compiled loops; times were measured on an H200.

use galatea_kernels::kmeans::{MOST_FEATURES, PassShape, Scores, Sums};
use galatea_layout::model::{Machine, overlapped};

/// Cycles of a scheduler for 16 x 8 sums of 16 products of halves.
const UNIT_CYCLES: f64 = 6.3;
/// Maximum number of clusters for passes of one step that were fitted to `kmeans-fit/k16.csv` in
/// `bench/results/2026-11-22-nvidia-h200`. Of two constants, the first is for these.
const FEW_CLUSTERS: u32 = 32;
/// Factor of instructions for matrix units that wait for each other: with few clusters, with one step, and
/// with more steps.
const WAITING: [f64; 3] = [1.26, 1.3, 1.5];
/// Cycles between two sums of a lane in shared memory, for the points of a quad, with few clusters and with
/// more.
const SUM_CYCLES: [f64; 2] = [700.0, 140.0];
/// The fraction of warps' requested bytes that are in flight at once, with few clusters and with more:
/// without and with prefetching of the next points.
const IN_FLIGHT: [[f64; 2]; 2] = [[2.0, 8.0], [0.75, 1.0]];
/// Rate of atomics to slots of blocks, relative to atomics of all threads to one table.
const SLOTS_FACTOR: f64 = 1.5;
/// Exponent with which times grow with the number of blocks of a multiprocessor, with few clusters and with
/// more.
const BLOCKS_POWER: [f64; 2] = [0.02, 0.05];
/// Cycles between two sums in shared memory of the same word.
const ADD_CYCLES: f64 = 50.0;
/// Warps of a multiprocessor that suffice to hide the latency of a wide pass.
const WIDE_WARPS_TO_HIDE: f64 = 13.0;
/// Share of the shorter of two works of a wide pass that does not overlap with the longer one.
const GAPS: f64 = 0.53;
/// Minimum number of features. Fewer leave most lanes of a quad without one.
const FEWEST_FEATURES: u32 = 2;
/// Minimum number of clusters. Fewer are compared faster in 32-bit floats.
const FEWEST_CLUSTERS: u32 = 8;
/// Warps of a multiprocessor that suffice to hide the latency of dependent instructions of a pass, and the
/// exponent with which times grow with the missing share, with few clusters and with more.
const WARPS_TO_HIDE: [(f64, f64); 2] = [(24.0, 0.35), (16.0, 0.5)];

/// Registers of a thread, estimated from those of the compiled kernels: current and next values, halves of
/// the 8 points that are compared at once, their keys, sums of 4 products, parts of the centroids, and
/// addresses.
fn registers(shape: &PassShape) -> u32 {
    let (steps, points) = (shape.features.div_ceil(4), shape.points);
    let at_once = points.min(8);
    let tiles = shape.clusters.div_ceil(8).min(8);
    let centroids = match shape.holds_centroids() {
        true => 2 * tiles * steps,
        false => 2 * tiles.min(16 / at_once) * steps,
    };
    steps * points * (1 + u32::from(shape.ahead)) + (2 * steps + 1) * at_once + 16 + centroids + 20
}

/// All shapes that fit, in no order.
pub(super) fn costs(
    machine: &Machine,
    (features, clusters): (u32, u32),
    sums: Option<Sums>,
    limit: u64,
) -> Vec<(PassShape, f64)> {
    let mut found = Vec::new();
    if features > MOST_FEATURES {
        return wide(machine, (features, clusters), sums, limit);
    }
    if features < FEWEST_FEATURES || clusters < FEWEST_CLUSTERS {
        return found;
    }
    let ways = [Sums::Features, Sums::Shared, Sums::Global].into_iter();
    for way in ways.filter(|way| sums.is_none_or(|only| only == *way)) {
        let copies: &[u32] = match way {
            Sums::Shared => &[1, 2, 4, 8],
            Sums::Features if features > 4 => &[8, 32 / features.next_power_of_two()],
            // One sum of a cluster's feature per point of a quad, so that the points do not wait for each
            // other.
            Sums::Features => &[8, 16, 32],
            _ => &[1],
        };
        for (points, ahead) in [4, 8, 16]
            .into_iter()
            .flat_map(|points| [(points, false), (points, true)])
        {
            for threads in [1024, 896, 768, 640, 512, 384, 256, 192, 128] {
                for &copies in copies {
                    let shape = PassShape {
                        features,
                        clusters,
                        scores: Scores::Matrix,
                        sums: way,
                        points,
                        threads,
                        copies,
                        ahead,
                        paired: false,
                        given: false,
                        labels: None,
                        inertia: false,
                    };
                    // The compiler uses a few registers less if it must.
                    let most = (1 << 16) / (registers(&shape) - 8).min(255) / 32 * 32;
                    let too_many = (points > 4 && features > 8) || (points > 8 && features > 4);
                    if !too_many
                        && registers(&shape) <= 240
                        && threads <= most
                        && shape.shared_bytes() <= limit
                    {
                        found.push((shape, cycles(machine, &shape)));
                    }
                }
            }
        }
    }
    found
}

/// Shapes for more features than registers hold, in no order (`kmeans/shared_tile_matrix.cuh`).
fn wide(
    machine: &Machine,
    (features, clusters): (u32, u32),
    sums: Option<Sums>,
    limit: u64,
) -> Vec<(PassShape, f64)> {
    let mut found = Vec::new();
    let ways = [(Sums::Features, &[1, 2, 4, 8][..]), (Sums::Global, &[1])];
    for (way, groups) in ways
        .into_iter()
        .filter(|(way, _)| sums.is_none_or(|only| only == *way))
    {
        for (threads, points) in [512, 256, 128]
            .into_iter()
            .flat_map(|t| [4, 2, 1].map(|p| (t, p)))
        {
            for (copies, ahead) in groups.iter().flat_map(|g| [(*g, false), (*g, true)]) {
                let shape = PassShape {
                    features,
                    clusters,
                    scores: Scores::Matrix,
                    sums: way,
                    points,
                    threads,
                    copies,
                    ahead,
                    paired: false,
                    given: false,
                    labels: None,
                    inertia: false,
                };
                // Groups consist of whole vectors of labels.
                let is_whole =
                    shape.tile_points().is_multiple_of(4 * u64::from(copies)) && threads / copies >= 32;
                let fits = threads * wide_registers(&shape) <= 1 << 16 && shape.shared_bytes() <= limit;
                if is_whole && fits {
                    found.push((shape, wide_cycles(machine, &shape)));
                }
            }
        }
    }
    found
}

/// Registers of a thread of a wide pass, estimated from those of the compiled kernels: scores of its tiles,
/// values and their halves, and addresses.
fn wide_registers(shape: &PassShape) -> u32 {
    64 / shape.shares() + 70
}

/// Cycles of a pass over tiles of points in shared memory. A block copies a tile, finds the nearest centroids
/// and sums, in this order. Other blocks, or copies of the next tile, fill the gaps.
fn wide_cycles(machine: &Machine, shape: &PassShape) -> f64 {
    let (d, shares) = (f64::from(shape.features), f64::from(shape.shares()));
    // Each warp has the same number of tiles.
    let tiles = f64::from(shape.clusters.div_ceil(8).next_multiple_of(shape.shares()));
    let steps = f64::from(shape.features.div_ceil(16));
    let blocks = machine
        .resident_blocks(shape.threads, shape.shared_bytes())
        .min((1 << 16) / wide_registers(shape) / shape.threads)
        .max(1);
    let warps = f64::from(blocks * shape.threads / 32);
    let points = shape.tile_points() as f64;
    let multiprocessors = f64::from(machine.multiprocessors);
    let clock = machine.rounds_per_second / multiprocessors;
    let memory = 128.0 * d * multiprocessors * clock / machine.memory_bytes_per_second;
    // For 32 points, fitted to `kmeans-fit/tiles.csv` in `bench/results/2026-11-22-nvidia-h200`: their halves
    // in each warp that has them, products, keys; centroids' values as halves if they are streamed.
    let groups = (tiles / 8.0).ceil();
    let streamed = match shape.streams_centroids() {
        true => steps * tiles * 8.0 * 775.0 / points,
        false => 0.0,
    };
    let scores = steps * (shares * groups * 135.0 + tiles * 6.0 * UNIT_CYCLES) + 430.0;
    let hidden = (WIDE_WARPS_TO_HIDE / warps).max(1.0).sqrt();
    let scores = 1.5 * (scores * hidden + streamed) / 4.0;
    let gaps = if blocks > 1 || shape.ahead { GAPS } else { 1.0 };
    let compute = match shape.sums {
        // A thread adds one value after another; four at once if they belong to four clusters.
        Sums::Features => {
            let k = f64::from(shape.clusters);
            let apart = (1..4)
                .map(|other| (1.0 - f64::from(other) / k).max(0.0))
                .product::<f64>();
            let (groups, width) = (f64::from(shape.copies), f64::from(shape.threads / shape.copies));
            let each = ADD_CYCLES * (1.0 - 0.7 * apart) * (d / width).ceil();
            scores + (d * 11.6 / 4.0).max(32.0 * each / (groups * f64::from(blocks)))
        }
        _ => one_after_another(scores, 0.26 * super::atomic_cycles(machine, d), gaps),
    };
    one_after_another(memory, compute, gaps)
}

/// The time of two works. The shorter one overlaps with the longer one, except for the share `gaps`.
fn one_after_another(one: f64, other: f64, gaps: f64) -> f64 {
    one.max(other) + gaps * one.min(other)
}

fn cycles(machine: &Machine, shape: &PassShape) -> f64 {
    let (k, d, p) = (
        f64::from(shape.clusters.next_multiple_of(8)),
        f64::from(shape.features),
        f64::from(shape.points),
    );
    let steps = f64::from(shape.features.div_ceil(4));
    let more = usize::from(steps > 1.0 || shape.clusters > FEW_CLUSTERS);
    let shared_bytes = shape.shared_bytes();
    let most = (1 << 16) / (registers(shape) - 8) / shape.threads;
    let blocks = machine
        .resident_blocks(shape.threads, shared_bytes)
        .min(most)
        .max(1);
    let warps = f64::from(blocks * shape.threads / 32);
    let multiprocessors = f64::from(machine.multiprocessors);
    let clock = machine.rounds_per_second / multiprocessors;
    // (issue slots, cycles of shared memory, cycles of waiting) of an update of a step.
    let (issue, shared, waits) = match shape.sums {
        Sums::Features if shape.copies < 8 => (32.0, 16.0, SUM_CYCLES[more]),
        Sums::Features => (12.0, 8.0, SUM_CYCLES[more] * 8.0 / f64::from(shape.copies)),
        Sums::Shared => {
            // Quads that share a copy conflict occasionally; lanes of a quad access different banks.
            let conflict = 1.0 + 0.35 * (8.0 / f64::from(shape.copies) - 1.0);
            (75.0 * conflict, 10.0 * conflict, 240.0 * conflict)
        }
        _ => {
            let rate = machine.global_atomics_per_second / multiprocessors / clock;
            // Atomics to many slots are faster than the measured ones.
            (12.0, 128.0 / (SLOTS_FACTOR * rate).max(1e-9), 0.0)
        }
    };
    let centroids = if shape.holds_centroids() {
        0.0
    } else {
        k * steps / p.min(8.0)
    };
    let tiles = IN_FLIGHT[more][usize::from(shape.ahead)];
    let rate = machine.read_rate(tiles * warps * 32.0 * p * 4.0 * steps, blocks, shared_bytes);
    let bytes_per_cycle = rate / multiprocessors / clock;
    let memory = 128.0 * d / bytes_per_cycle;
    let units = k * steps / 4.0 * UNIT_CYCLES;
    let issue = WAITING[more + usize::from(steps > 1.0)]
        * (1.75 * k + units + steps * (20.0 + issue) + 26.0 + 180.0 / p)
        / 4.0;
    let shared = 8.0 + shared * steps + centroids;
    let (hides, power) = WARPS_TO_HIDE[more];
    let hidden = (hides / warps).max(1.0).powf(power);
    let blocks = f64::from(blocks).powf(BLOCKS_POWER[more]);
    overlapped([memory, shared.max(waits * steps / warps), issue * hidden]) * blocks
}
