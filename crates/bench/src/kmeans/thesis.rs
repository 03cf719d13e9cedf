//! The thesis' figures 5.9 to 5.16 in one run: the sweeps of its chapter 5, each with the shared memory that
//! it had, 48 KB, and with all that there is.
//!
//! Kernels of all shapes are compiled first, on all cores: one after the other they would take longer than
//! everything else.

use galatea_device::Device;
use galatea_kernels::KmeansPass;
use galatea_kmeans::{CpuSums, DeviceKMeans, Execution, PassCost, PassShape, Scores, Sums, Wanted, costs};
use galatea_layout::model::Machine;
use galatea_memory::regions::MemoryManager;
use rayon::prelude::*;

use super::generate::Generator;
use super::{Case, Experiment, KmeansReport, Plan, masses, parts, read_floor, streamed};
use crate::Result;
use crate::harness::Clock;

/// Shared memory of the thesis' devices.
const THESIS_SHARED: u64 = 48 << 10;
/// Features and clusters of the experiments that vary the others.
const FEATURES: u32 = 4;
const CLUSTERS: [u32; 2] = [4, 64];
/// Numbers of points of the fits whose launches show.
const FEW_POINTS: [u64; 4] = [1_000, 10_000, 100_000, 1_000_000];
/// Numbers of labels' values, beyond those of clusters.
const MOST_LABELS: [u32; 3] = [512, 1024, 2048];

/// The features and clusters of the sweeps.
pub(super) struct Sweeps {
    pub(super) features: Vec<u32>,
    pub(super) clusters: Vec<u32>,
}

impl Sweeps {
    /// Those of the thesis; small ones for the emulated device.
    pub(super) fn new(emulated: bool) -> Self {
        let powers = |from: u32, to: u32| (from..=to).map(|power| 1 << power).collect();
        if emulated {
            return Self {
                features: vec![2, 40],
                clusters: vec![2, 16],
            };
        }
        Self {
            features: powers(1, 8),
            clusters: powers(1, 8),
        }
    }
}

/// A kernel and an execution to be timed.
struct Variant {
    of: (u32, u32),
    limit: Option<u64>,
    execution: Execution,
    cost: PassCost,
}

fn variants(machine: &Machine, sweeps: &Sweeps) -> Vec<Variant> {
    let mut found: Vec<Variant> = Vec::new();
    let mut add = |of, limit, execution, sums| {
        let wanted = Wanted {
            // The thesis knows no matrix units.
            scores: Some(Scores::Lanes),
            sums,
            shared_limit: limit,
        };
        let Some(cost) = costs(machine, of, wanted).into_iter().next() else {
            return;
        };
        // The same kernel with either limit is timed with both: rows say which was asked for.
        let variant = Variant {
            of,
            limit,
            execution,
            cost,
        };
        found.push(variant);
    };
    let mut pairs: Vec<(u32, u32)> = Vec::new();
    pairs.extend(sweeps.features.iter().flat_map(|d| CLUSTERS.map(|k| (*d, k))));
    pairs.extend(sweeps.clusters.iter().map(|k| (FEATURES, *k)));
    pairs.extend(CLUSTERS.map(|k| (FEATURES, k)));
    pairs.sort_unstable();
    pairs.dedup();
    for of in pairs {
        let is_sweep = CLUSTERS.contains(&of.1);
        for limit in [Some(THESIS_SHARED), None] {
            if is_sweep {
                for sums in [Sums::Private, Sums::Features, Sums::Global] {
                    add(of, limit, Execution::Multi, Some(sums));
                }
            }
            add(of, limit, Execution::Multi, None);
            add(of, limit, Execution::Single, None);
        }
        add(of, None, Execution::Cross, None);
    }
    found
}

/// Compiles what the variants need, on all cores.
fn compile(device: &Device, variants: &[Variant]) -> Result<()> {
    let mut shapes: Vec<PassShape> = Vec::new();
    let mut keep = |shape| {
        if !shapes.contains(&shape) {
            shapes.push(shape);
        }
    };
    for variant in variants {
        let shape = variant.cost.shape;
        let width = Some(galatea_kmeans::LabelWidth::of(shape.clusters));
        if variant.execution != Execution::Cross {
            let given = variant.execution == Execution::Multi;
            keep(PassShape {
                given,
                labels: width.filter(|_| given),
                ..shape
            });
        }
        if variant.execution != Execution::Single {
            keep(PassShape {
                sums: Sums::None,
                labels: width,
                ..shape
            });
        }
    }
    shapes
        .par_iter()
        .try_for_each(|shape| KmeansPass::new(device, *shape).map(drop))?;
    Ok(())
}

pub(super) fn run(
    device: &Device,
    machine: &Machine,
    plan: &Plan,
    done: &mut dyn FnMut(u32, u32),
) -> Result<KmeansReport> {
    let manager = MemoryManager::new(device)?;
    let on = DeviceKMeans::new(&manager, *machine)?;
    let clock = Clock::new(on.stream(), plan.runs);
    let sweeps = Sweeps::new(plan.emulated);
    let mut report = KmeansReport::new(plan.machine.clone());
    let floor = read_floor(device, &clock, on.stream(), plan.bytes)?;
    let all = variants(machine, &sweeps);
    compile(device, &all)?;

    report.rows.extend(parts::chunks(&manager, plan)?);
    let mut features: Vec<u32> = all.iter().map(|variant| variant.of.0).collect();
    features.sort_unstable();
    features.dedup();
    for &d in &features {
        let count = (plan.bytes / (4 * u64::from(d))).max(1);
        let generator = Generator::new(d as usize, 1);
        let points = generator.points(count)?;
        let fewer = generator.points(count.min(plan.verified))?;
        let mut clusters: Vec<u32> = all
            .iter()
            .filter(|variant| variant.of.0 == d)
            .map(|variant| variant.of.1)
            .collect();
        clusters.sort_unstable();
        clusters.dedup();
        for &k in &clusters {
            let case = Case {
                on: &on,
                clock: &clock,
                points: &points,
                fewer: &fewer,
                clusters: k,
                floor,
            };
            for variant in all.iter().filter(|variant| variant.of == (d, k)) {
                let mut row = case.measure(&variant.cost, machine, plan, variant.execution)?;
                row.experiment = Experiment::Thesis.name().to_string();
                row.shared_limit = variant.limit.unwrap_or(0);
                report.rows.push(row);
            }
            report
                .rows
                .push(parts::on_cpu(&points, k, Execution::Single, CpuSums::Auto, plan)?);
            report
                .rows
                .push(parts::on_cpu(&points, k, Execution::Multi, CpuSums::Auto, plan)?);
            if CLUSTERS.contains(&k) {
                for sums in [CpuSums::Merge, CpuSums::Features] {
                    report
                        .rows
                        .push(parts::on_cpu(&points, k, Execution::Multi, sums, plan)?);
                }
            }
            if d == FEATURES && CLUSTERS.contains(&k) {
                if k == CLUSTERS[0] {
                    report
                        .rows
                        .extend(parts::phases(&on, machine, (&points, k), plan)?);
                }
                manager.clear()?;
                report
                    .rows
                    .extend(streamed::measure(&manager, &case, machine, plan)?);
            }
            done(d, k);
        }
        if d == FEATURES {
            report
                .rows
                .extend(parts::restarts(&manager, machine, (&points, 16), plan)?);
            for &labels in sweeps.clusters.iter().chain(&MOST_LABELS) {
                let of = (count, labels);
                report
                    .rows
                    .extend(masses::measure(device, &clock, on.stream(), plan, of)?);
            }
            for few in FEW_POINTS.into_iter().filter(|few| *few <= count) {
                let points = generator.points(few)?;
                report
                    .rows
                    .extend(parts::launches(&on, &clock, machine, (&points, 16), plan)?);
            }
        }
        manager.clear()?;
    }
    Ok(report)
}
