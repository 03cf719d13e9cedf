//! Shapes of passes by matrix units, and their costs by the model (`kmeans/matrix.cuh`).
//!
//! For 32 points, with s = d / 4 steps and k8 = k rounded up to 8, in cycles of a multiprocessor with four
//! schedulers:
//!
//! ```text
//!   memory   128 d bytes / bytes per cycle
//!   issue    w (1.75 k8 + 6.3 k8 s / 4 + s (20 + update) + 26 + 180 / P) / 4
//!   shared   8 + update s; where threads hold no centroids k8 2 s / 2 P, of points of two tiles of 16
//! ```
//!
//! A matrix unit takes 6.3 cycles for 16 x 8 sums of 16 products, in which its scheduler issues nothing else;
//! a key and its maximum are 1.75 instructions a score, with those that wait for a product; 180 are of a
//! tile, whatever its points. w, 1.3 for one step and 1.5 for more, is the factor of warps that wait for each
//! other. Instructions are those of the compiled loops, times were measured on an H200.

use galatea_kernels::kmeans::{MOST_FEATURES, PassShape, Scores, Sums};
use galatea_layout::model::{Machine, overlapped};

/// Cycles of a scheduler for 16 x 8 sums of 16 products of halves.
const UNIT_CYCLES: f64 = 6.3;
/// Factor of instructions, with one step and with more, where matrix units wait for each other.
const WAITING: [f64; 2] = [1.3, 1.5];
/// Atomics to slots of blocks, by atomics of all threads to one table.
const SLOTS_FACTOR: f64 = 1.5;
/// The power of the number of blocks of a multiprocessor that times grow with.
const BLOCKS_POWER: f64 = 0.05;
/// Fewer features leave most lanes of a quad without one.
const FEWEST_FEATURES: u32 = 2;
/// Fewer clusters are compared faster in 32-bit floats.
const FEWEST_CLUSTERS: u32 = 8;
/// Registers of a thread of a wide pass, estimated, and the fewest warps that were measured.
const WIDE_REGISTERS: u32 = 128;
const WIDE_WARPS_TO_HIDE: f64 = 12.0;
/// Warps of a multiprocessor that hide the latency of dependent instructions of a pass; with fewer, times
/// grow with the root of the missing share.
const WARPS_TO_HIDE: f64 = 16.0;

/// Registers of a thread, estimated from those of the compiled kernels: values now and next, halves of the 8
/// points that are compared at once, their keys, sums of 4 products, parts of the centroids, and addresses.
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

/// Every shape that fits, in no order.
pub(super) fn costs(
    machine: &Machine,
    (features, clusters): (u32, u32),
    sums: Option<Sums>,
    limit: u64,
) -> Vec<(PassShape, f64)> {
    let mut found = Vec::new();
    if features < FEWEST_FEATURES || clusters < FEWEST_CLUSTERS {
        return found;
    }
    if features > MOST_FEATURES {
        return wide(machine, (features, clusters), sums, limit);
    }
    let ways = [Sums::Features, Sums::Shared, Sums::Global].into_iter();
    for way in ways.filter(|way| sums.is_none_or(|only| only == *way)) {
        let copies: &[u32] = match way {
            Sums::Shared => &[1, 2, 4, 8],
            Sums::Features if features > 4 => &[8, 32 / features.next_power_of_two()],
            Sums::Features => &[8],
            _ => &[1],
        };
        for (points, ahead) in [4, 8, 16]
            .into_iter()
            .flat_map(|points| [(points, false), (points, true)])
        {
            for threads in [768, 640, 512, 384, 256, 192, 128] {
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
                    let most = (1 << 16) / registers(&shape).min(255) / 32 * 32;
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

/// Shapes for more features than registers hold, in no order. Centroids are in shared memory, all of them.
fn wide(
    machine: &Machine,
    (features, clusters): (u32, u32),
    sums: Option<Sums>,
    limit: u64,
) -> Vec<(PassShape, f64)> {
    let mut found = Vec::new();
    for (way, groups) in [(Sums::Features, &[1, 2, 4, 8][..]), (Sums::Global, &[1])] {
        if sums.is_some_and(|only| only != way) {
            continue;
        }
        for (threads, copies) in [384, 256, 128]
            .into_iter()
            .flat_map(|threads| groups.iter().map(move |groups| (threads, *groups)))
        {
            let shape = PassShape {
                features,
                clusters,
                scores: Scores::Matrix,
                sums: way,
                points: 4,
                threads,
                copies,
                ahead: false,
                paired: false,
                given: false,
                labels: None,
                inertia: false,
            };
            // Groups are of whole vectors of labels.
            if threads % (4 * copies) == 0 && threads / copies >= 32 && shape.shared_bytes() <= limit {
                found.push((shape, wide_cycles(machine, &shape)));
            }
        }
    }
    found
}

/// Points come again for every 64 centroids and for the sums. As by lanes, what counts is how long loads
/// take, and not the units' time, which is a fifth of it. Fitted to
/// `bench/results/2026-11-22-nvidia-h200/kmeans-launches/wide.txt`.
fn wide_cycles(machine: &Machine, shape: &PassShape) -> f64 {
    let d = f64::from(shape.features);
    let blocks = machine
        .resident_blocks(shape.threads, shape.shared_bytes())
        .min((1 << 16) / WIDE_REGISTERS / shape.threads)
        .max(1);
    let warps = f64::from(blocks * shape.threads / 32);
    let groups = f64::from(shape.clusters.div_ceil(64));
    let update = match shape.sums {
        Sums::Features => 35.0 * d,
        _ => 1.3 * super::atomic_cycles(machine, d) / SLOTS_FACTOR,
    };
    let hidden = (WIDE_WARPS_TO_HIDE / warps).max(1.0).sqrt();
    overlapped([update, groups * 34.0 * d, 0.0]) * hidden
}

fn cycles(machine: &Machine, shape: &PassShape) -> f64 {
    let (k, d, p) = (
        f64::from(shape.clusters.next_multiple_of(8)),
        f64::from(shape.features),
        f64::from(shape.points),
    );
    let steps = f64::from(shape.features.div_ceil(4));
    let shared_bytes = shape.shared_bytes();
    let most = (1 << 16) / registers(shape) / shape.threads;
    let blocks = machine
        .resident_blocks(shape.threads, shared_bytes)
        .min(most)
        .max(1);
    let warps = f64::from(blocks * shape.threads / 32);
    let multiprocessors = f64::from(machine.multiprocessors);
    let clock = machine.rounds_per_second / multiprocessors;
    // (issue slots, cycles of shared memory, cycles of waiting) of an update of a step.
    let (issue, shared, waits) = match shape.sums {
        Sums::Features if shape.copies < 8 => (32.0, 16.0, 140.0),
        Sums::Features => (12.0, 8.0, 140.0),
        Sums::Shared => {
            // Quads that share a copy conflict now and then; lanes of a quad are in banks of their own.
            let conflict = 1.0 + 0.35 * (8.0 / f64::from(shape.copies) - 1.0);
            (75.0 * conflict, 10.0 * conflict, 240.0 * conflict)
        }
        _ => {
            let rate = machine.global_atomics_per_second / multiprocessors / clock;
            // Those of many slots go faster than the measured ones.
            (12.0, 128.0 / (SLOTS_FACTOR * rate).max(1e-9), 0.0)
        }
    };
    let centroids = if shape.holds_centroids() {
        0.0
    } else {
        k * steps / p.min(8.0)
    };
    let cache = machine.cache_bytes(u64::from(blocks) * (shared_bytes + machine.shared_bytes_reserved));
    let tiles = if shape.ahead { 1.0 } else { 0.75 };
    let asked = (tiles * warps * 32.0 * p * 4.0 * steps).min(cache as f64 * 4.0 / 3.0);
    let share = 1.0 - (-asked / machine.memory_bytes_in_flight).exp();
    let bytes_per_cycle = machine.memory_bytes_per_second * share / multiprocessors / clock;
    let memory = 128.0 * d / bytes_per_cycle;
    let units = k * steps / 4.0 * UNIT_CYCLES;
    let waiting = WAITING[usize::from(shape.features > 4)];
    let issue = waiting * (1.75 * k + units + steps * (20.0 + issue) + 26.0 + 180.0 / p) / 4.0;
    let shared = 8.0 + shared * steps + centroids;
    let hidden = (WARPS_TO_HIDE / warps).max(1.0).sqrt();
    let blocks = f64::from(blocks).powf(BLOCKS_POWER);
    overlapped([memory, shared.max(waits * steps / warps), issue * hidden]) * blocks
}
