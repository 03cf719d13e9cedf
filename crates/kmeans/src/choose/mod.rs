//! The choice of a pass's shape: the cheapest one by a model of a multiprocessor.
//!
//! For 32 points, a warp's worth of one point a lane, in cycles of a multiprocessor with four schedulers:
//!
//! ```text
//!   memory   128 d bytes / bytes per cycle, more if warps cannot request enough at once
//!   issue    (k4 (d + c + (d + 1) / 4P) + 2 d + 10 + 60 / P + update) / 4    k4: k rounded up to 4; 60: of a tile, 110 with the next
//!   compare  2 c k4 / 4                                           c: 3, compare and two selects, at half rate; 2 for pairs
//!   shared   k4 (d + 1) / P + update                              16-byte reads take 4 cycles
//! ```
//!
//! Instructions were counted in the compiled loops. Several blocks of a multiprocessor each read centroids,
//! merge and wait at barriers: measured on an H200, at d 4 and k 4 to 64, times grow with their number to the
//! power of 0.06.
//!
//! Updates are listed in the table in `kmeans/sums.cuh`. This model shares three parts with that of grouped
//! aggregation, which also sums by group: conflicts of lanes in replicated accumulators, the rate of device
//! memory, and the overlap of times are those of `galatea_layout::model`.

use galatea_kernels::kmeans::{MOST_FEATURES, PassShape, Scores, Sums};
use galatea_layout::Frequencies;
use galatea_layout::model::{Machine, overlapped, replicated_conflicts};

use crate::{KMeansError, Result};

mod matrix;

/// Warps of a multiprocessor that suffice to hide the latency of dependent instructions of a pass.
const WARPS_TO_HIDE: f64 = 12.0;
/// Minimum number of clusters for which comparing by pairs pays, although the nearer one of the pair must
/// then be found.
const PAIRED_CLUSTERS: u32 = 16;
/// Factor of instructions by lanes for warps that wait for each other, if these are the bottleneck: with up
/// to 4 features, and with more. It is the same for all such shapes.
const WAITING: [f64; 2] = [1.25, 1.6];
/// Minimum number of clusters for which they are the bottleneck.
const BOUND_CLUSTERS: u32 = 8;
/// Exponent with which times grow with the number of blocks of a multiprocessor.
const BLOCKS_POWER: f64 = 0.06;
/// Maximum number of registers of a thread.
const MOST_REGISTERS: u32 = 255;
/// Registers of a multiprocessor.
const REGISTERS: u32 = 1 << 16;

/// A shape, and its cost by the model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PassCost {
    /// The shape.
    pub shape: PassShape,
    /// Cycles of a multiprocessor for 32 points.
    pub cycles: f64,
}

impl PassCost {
    /// Seconds of passes over `points` points, for `starts` starts at once, on the multiprocessor with the
    /// most tiles. With few points, small tiles keep more multiprocessors busy.
    #[must_use]
    pub fn seconds(&self, machine: &Machine, points: u64, starts: u32) -> f64 {
        let tile = self.shape.tile_points();
        let tiles = points.div_ceil(tile) * u64::from(starts);
        let most = tiles.div_ceil(u64::from(machine.multiprocessors));
        let clock = machine.rounds_per_second / f64::from(machine.multiprocessors);
        self.cycles * (most * tile) as f64 / 32.0 / clock
    }
}

/// Constraints on a shape; unset fields are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Wanted {
    /// The method of finding the nearest centroids.
    pub scores: Option<Scores>,
    /// The replication of sums.
    pub sums: Option<Sums>,
    /// Bytes of shared memory that a block may use.
    pub shared_limit: Option<u64>,
}

/// Estimated registers of a thread: points, the current centroids of a group, scores and labels, and
/// addresses.
fn registers(features: u32, points: u32, sums: Sums, clusters: u32, ahead: bool) -> u32 {
    let held = match sums {
        Sums::Registers => clusters * (features + 1),
        _ => 0,
    };
    let tiles = 1 + u32::from(ahead);
    tiles * features * points + 2 * points + 4 * features.min(8) + 24 + held
}

/// All shapes of a pass that fit, cheapest first.
#[must_use]
pub fn costs(machine: &Machine, of: (u32, u32), wanted: Wanted) -> Vec<PassCost> {
    let limit = limit_of(machine, wanted.shared_limit);
    let may = |scores| wanted.scores.is_none_or(|only| only == scores);
    let mut found = Vec::new();
    if may(Scores::Matrix) {
        let shapes = matrix::costs(machine, of, wanted.sums, limit).into_iter();
        found.extend(shapes.map(|(shape, cycles)| PassCost { shape, cycles }));
    }
    if may(Scores::Lanes) {
        match of.0 > MOST_FEATURES {
            true => found.extend(wide(machine, of, wanted.sums, limit)),
            false => {
                let waiting = match of.1 < BOUND_CLUSTERS {
                    true => 1.0,
                    false => WAITING[usize::from(of.0 > 4)],
                };
                let shapes = lanes(machine, of, wanted.sums, limit).into_iter();
                found.extend(shapes.map(|cost| PassCost {
                    cycles: cost.cycles * waiting,
                    ..cost
                }));
            }
        }
    }
    found.sort_by(|a, b| a.cycles.total_cmp(&b.cycles));
    found
}

/// Shapes with whole points in each thread, in no order.
fn lanes(
    machine: &Machine,
    (features, clusters): (u32, u32),
    sums: Option<Sums>,
    limit: u64,
) -> Vec<PassCost> {
    let ways = Sums::ALL
        .into_iter()
        .filter(|way| sums.is_none_or(|only| only == *way));
    let mut found = Vec::new();
    for way in ways {
        // More accumulators in registers would leave too few registers for everything else.
        if way == Sums::Registers && clusters * (features + 1) > 40 {
            continue;
        }
        let points: &[u32] = match (way, features) {
            (Sums::Features, _) | (_, 9..) => &[4],
            (_, 3..) => &[4, 8],
            _ => &[8],
        };
        let copies: &[u32] = match way {
            Sums::Shared => &[1, 2, 4, 8, 16, 32],
            Sums::Features => &[4],
            _ => &[1],
        };
        // Conflicts do not depend on the rest of a shape, and their analysis takes some time.
        let copies: Vec<(u32, f64)> = copies
            .iter()
            .map(|copies| match way {
                Sums::Shared => (*copies, rounds(clusters, features | 1, *copies)),
                _ => (*copies, 1.0),
            })
            .collect();
        let forms = points
            .iter()
            .flat_map(|points| [(*points, false), (*points, true)]);
        for (points, ahead) in forms {
            let registers = registers(features, points, way, clusters, ahead);
            if registers > MOST_REGISTERS {
                continue;
            }
            let most = REGISTERS / registers / 32 * 32;
            for threads in [1024, 896, 768, 640, 512, 384, 256, 192, 128, 64, 32] {
                for &(copies, conflict) in &copies {
                    let shape = PassShape {
                        features,
                        clusters,
                        scores: Scores::Lanes,
                        sums: way,
                        points,
                        threads,
                        copies,
                        ahead,
                        paired: clusters >= PAIRED_CLUSTERS,
                        given: false,
                        labels: None,
                        inertia: false,
                    };
                    if threads <= most && shape.shared_bytes() <= limit {
                        let cycles = cycles(machine, &shape, most, conflict);
                        found.push(PassCost { shape, cycles });
                    }
                }
            }
        }
    }
    found
}

/// Shapes for more features than registers hold, in no order.
fn wide(
    machine: &Machine,
    (features, clusters): (u32, u32),
    sums: Option<Sums>,
    limit: u64,
) -> Vec<PassCost> {
    let ways = [Sums::Features, Sums::Global].into_iter();
    let mut found = Vec::new();
    for way in ways.filter(|way| sums.is_none_or(|only| only == *way)) {
        let groups: &[u32] = if way == Sums::Features {
            &[1, 2, 4, 8]
        } else {
            &[1]
        };
        for (threads, groups) in [512, 256, 128, 64]
            .into_iter()
            .flat_map(|t| groups.iter().map(move |g| (t, *g)))
        {
            let shape = PassShape {
                features,
                clusters,
                scores: Scores::Lanes,
                sums: way,
                points: 4,
                threads,
                copies: groups,
                ahead: false,
                paired: false,
                given: false,
                labels: None,
                inertia: false,
            };
            if threads / groups >= 32 && shape.shared_bytes() <= limit {
                let cycles = wide_cycles(machine, &shape);
                found.push(PassCost { shape, cycles });
            }
        }
    }
    found
}

/// Cycles of a wide pass. Points are read again for every 8 centroids, and the tiles of all blocks together
/// exceed the cache of the device. The latency of loads therefore outweighs instructions, which are left out.
/// Fitted to `kmeans-fit/many-features.txt` and `kmeans-fit/forms.csv` in
/// `bench/results/2026-11-22-nvidia-h200`.
fn wide_cycles(machine: &Machine, shape: &PassShape) -> f64 {
    let d = f64::from(shape.features);
    let blocks = machine
        .resident_blocks(shape.threads, shape.shared_bytes())
        .min(2048 / shape.threads)
        .max(1);
    let warps = f64::from((blocks * shape.threads / 32).min(REGISTERS / 128 / 32));
    let times = f64::from(shape.clusters.div_ceil(8));
    let update = match shape.sums {
        Sums::Features => {
            // Threads of a group beyond the number of features add nothing.
            let (groups, width) = (shape.copies, shape.threads / shape.copies);
            let active = groups * width.min(shape.features.next_multiple_of(32));
            15.0 * d * (512.0 / f64::from(active)).powf(0.7)
        }
        _ => 1.2 * atomic_cycles(machine, d),
    };
    let hidden = (WARPS_TO_HIDE / warps).max(1.0);
    (times * (1000.0 + 7.6 * d) + update) * hidden
}

/// Cycles of a multiprocessor for atomics of 32 points and their masses to device memory, at the measured
/// rate.
fn atomic_cycles(machine: &Machine, features: f64) -> f64 {
    let rate = machine.global_atomics_per_second / machine.rounds_per_second;
    32.0 * (features + 1.0) / rate.max(1e-9)
}

fn limit_of(machine: &Machine, asked: Option<u64>) -> u64 {
    let limit = machine.shared_bytes_per_block - machine.shared_bytes_reserved;
    asked.map_or(limit, |asked| asked.min(limit))
}

/// The cheapest shape for many points.
///
/// # Errors
/// [`KMeansError::NoShape`] if no shape fits.
pub fn choose(machine: &Machine, of: (u32, u32), wanted: Wanted) -> Result<PassShape> {
    let best = costs(machine, of, wanted).first().map(|cost| cost.shape);
    best.ok_or_else(|| no_shape(machine, of, wanted))
}

/// The fastest shape for a number of points, and of starts at once.
///
/// # Errors
/// [`KMeansError::NoShape`] if no shape fits.
pub fn fastest(
    machine: &Machine,
    of: (u32, u32),
    wanted: Wanted,
    (points, starts): (u64, u32),
) -> Result<PassCost> {
    let seconds = |cost: &PassCost| cost.seconds(machine, points, starts);
    let best = costs(machine, of, wanted)
        .into_iter()
        .min_by(|a, b| seconds(a).total_cmp(&seconds(b)));
    best.ok_or_else(|| no_shape(machine, of, wanted))
}

fn no_shape(machine: &Machine, (features, clusters): (u32, u32), wanted: Wanted) -> KMeansError {
    let least = PassShape {
        features,
        clusters,
        scores: Scores::Lanes,
        sums: wanted.sums.unwrap_or(Sums::Global),
        points: 4,
        threads: 32,
        copies: 1,
        ahead: false,
        paired: false,
        given: false,
        labels: None,
        inertia: false,
    };
    KMeansError::NoShape {
        features: features as usize,
        clusters: clusters as usize,
        needed: least.shared_bytes(),
        limit: limit_of(machine, wanted.shared_limit),
    }
}

/// Rounds of an atomic of a warp. Its lanes share replicated accumulators.
fn rounds(clusters: u32, rows: u32, copies: u32) -> f64 {
    let Ok(uniform) = Frequencies::uniform(clusters as usize) else {
        return 32.0;
    };
    replicated_conflicts(&uniform.column(256 * 32, 0), copies, rows * copies).mean_write_rounds()
}

/// Cycles of a pass by lanes. `conflict`: rounds of an atomic to copies in shared memory.
fn cycles(machine: &Machine, shape: &PassShape, most_threads: u32, conflict: f64) -> f64 {
    let (k, d, p) = (
        f64::from(shape.clusters),
        f64::from(shape.features),
        f64::from(shape.points),
    );
    let k4 = f64::from(shape.clusters.next_multiple_of(4));
    let shared_bytes = shape.shared_bytes();
    let blocks = machine
        .resident_blocks(shape.threads, shared_bytes)
        .min(most_threads / shape.threads)
        .max(1);
    let warps = f64::from(blocks * shape.threads / 32);
    let multiprocessors = f64::from(machine.multiprocessors);
    let clock = machine.rounds_per_second / multiprocessors;
    // (issue slots, cycles of shared memory, cycles of waiting) of an update of one point a lane.
    let (issue, shared, waits) = match shape.sums {
        Sums::None => (0.0, 0.0, 0.0),
        Sums::Registers => (k * (d + 2.0), 0.0, 0.0),
        Sums::Private => {
            let vector = if shape.features.is_multiple_of(4) {
                4.0
            } else if shape.features.is_multiple_of(2) {
                2.0
            } else {
                1.0
            };
            (2.0 * d / vector + d + 6.0, 2.0 * d + 2.0, 60.0)
        }
        Sums::Features => {
            let lanes = f64::from(shape.features.next_power_of_two().min(16));
            let rounds = (d / lanes).ceil();
            let steps = rounds * lanes;
            (d / 4.0 + 4.75 * steps + 2.0, d + 3.5 * steps + 2.0, 45.0 * steps)
        }
        Sums::Shared => {
            let each = d + 1.0;
            // A load, an addition and a compare-and-swap, repeated for each conflicting lane.
            (
                8.3 * each * conflict,
                2.0 * each * conflict,
                60.0 * each * conflict,
            )
        }
        Sums::Global => (2.0 * (d + 1.0), atomic_cycles(machine, d), 0.0),
    };
    let tiles = 1.0 + f64::from(u8::from(shape.ahead));
    let rate = machine.read_rate(tiles * warps * 32.0 * p * 4.0 * d, blocks, shared_bytes);
    let bytes_per_cycle = rate / multiprocessors / clock;
    let memory = 128.0 * d / bytes_per_cycle;
    let compared = if shape.paired { 2.0 } else { 3.0 };
    let tile = if shape.ahead { 110.0 } else { 60.0 };
    let issue = (k4 * (d + compared + (d + 1.0) / (4.0 * p)) + 2.0 * d + 10.0 + tile / p + issue) / 4.0;
    let compare = 2.0 * compared * k4 / 4.0;
    let shared = k4 * (d + 1.0) / p + shared;
    let hidden = (WARPS_TO_HIDE / warps).max(1.0);
    let blocks = f64::from(blocks).powf(BLOCKS_POWER);
    overlapped([memory, shared.max(waits / warps), issue.max(compare) * hidden]) * blocks
}
