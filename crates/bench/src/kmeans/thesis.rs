//! The thesis' figures 5.9 to 5.16 in one run: the sweeps of its chapter 5, each with the 48 KB of shared
//! memory of its devices, and with all shared memory.
//!
//! Kernels of all shapes are compiled first, on all cores, because sequential compilation would take longer
//! than the rest. Iterations of the CPU, alone or in cross-processing, use a fourth of the points, which
//! still exceed its caches. Rows contain the number of points, and are compared per point.

use galatea_device::Device;
use galatea_kmeans::{
    CpuSums, DeviceKMeans, Execution, LabelWidth, PassCost, PassShape, Scores, Sums, Wanted, costs, fastest,
};
use galatea_layout::model::Machine;
use galatea_memory::regions::MemoryManager;

use super::generate::Generator;
use super::{Case, Experiment, KmeansReport, Plan, masses, parts, read_floor, streamed, verify};
use crate::Result;
use crate::harness::Clock;

/// Shared memory of the devices in the thesis.
const THESIS_SHARED: u64 = 48 << 10;
/// Features and clusters of the experiments that vary the others.
const FEATURES: u32 = 4;
const CLUSTERS: [u32; 2] = [4, 64];
/// Numbers of points for which the cost of launches is visible.
const FEW_POINTS: [u64; 4] = [1_000, 10_000, 100_000, 1_000_000];
/// The CPU processes the points divided by this.
const HOST_SHARE: u64 = 4;
/// Numbers of label values, beyond those of clusters.
const MOST_LABELS: [u32; 3] = [512, 1024, 2048];

/// The features and clusters of the sweeps.
pub(super) struct Sweeps {
    pub(super) features: Vec<u32>,
    pub(super) clusters: Vec<u32>,
}

impl Sweeps {
    /// The sweeps of the thesis; small ones for the emulated device.
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

/// A kernel and an execution to time.
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
            // The thesis has no matrix units.
            scores: Some(Scores::Lanes),
            sums,
            shared_limit: limit,
        };
        let Some(cost) = costs(machine, of, wanted).into_iter().next() else {
            return;
        };
        // If both limits result in the same kernel, it is timed with both, because rows contain the requested
        // limit.
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

/// Compiles the kernels of the variants, and of their references over `verified` points, on all cores.
fn compile(device: &Device, machine: &Machine, variants: &[Variant], verified: u64) -> Result<()> {
    let mut shapes: Vec<PassShape> = Vec::new();
    let mut keep = |shape| {
        if !shapes.contains(&shape) {
            shapes.push(shape);
        }
    };
    let exact = Wanted {
        scores: Some(Scores::Lanes),
        ..Wanted::default()
    };
    for variant in variants
        .iter()
        .filter(|variant| variant.execution == Execution::Cross)
    {
        let shape = fastest(machine, variant.of, exact, (verified, 1))?.shape;
        keep(shape);
        keep(PassShape {
            inertia: true,
            labels: Some(LabelWidth::of(shape.clusters)),
            ..shape
        });
    }
    for variant in variants {
        let shape = variant.cost.shape;
        let width = Some(LabelWidth::of(shape.clusters));
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
    super::compile(device, &shapes)
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
    compile(device, machine, &all, plan.verified)?;

    report.rows.extend(parts::chunks(&manager, plan)?);
    let mut features: Vec<u32> = all.iter().map(|variant| variant.of.0).collect();
    features.sort_unstable();
    features.dedup();
    for &d in &features {
        let count = (plan.bytes / (4 * u64::from(d))).max(1);
        let generator = Generator::new(d as usize, 1);
        let points = generator.points(count)?;
        let of_host = generator.points((count / HOST_SHARE).max(count.min(plan.verified)))?;
        let fewer = generator.points(count.min(plan.verified))?;
        let mut clusters: Vec<u32> = all
            .iter()
            .filter(|variant| variant.of.0 == d)
            .map(|variant| variant.of.1)
            .collect();
        clusters.sort_unstable();
        clusters.dedup();
        for &k in &clusters {
            let reference = &verify::Reference::new(&on, &fewer, k)?;
            let case = Case {
                on: &on,
                clock: &clock,
                points: &points,
                reference,
                clusters: k,
                floor,
            };
            let cross = Case {
                points: &of_host,
                floor: floor.map(|floor| floor * of_host.bytes() as f64 / points.bytes() as f64),
                ..case
            };
            for variant in all.iter().filter(|variant| variant.of == (d, k)) {
                let case = match variant.execution {
                    Execution::Cross => &cross,
                    _ => &case,
                };
                let mut row = case.measure(&variant.cost, machine, plan, variant.execution)?;
                row.experiment = Experiment::Thesis.name().to_string();
                row.shared_limit = variant.limit.unwrap_or(0);
                report.rows.push(row);
            }
            let mut on_cpu = |execution, sums| -> Result<()> {
                report
                    .rows
                    .push(parts::on_cpu(&of_host, k, execution, sums, plan)?);
                Ok(())
            };
            on_cpu(Execution::Single, CpuSums::Auto)?;
            on_cpu(Execution::Multi, CpuSums::Auto)?;
            if CLUSTERS.contains(&k) {
                on_cpu(Execution::Multi, CpuSums::Merge)?;
                on_cpu(Execution::Multi, CpuSums::Features)?;
            }
            if d == FEATURES && CLUSTERS.contains(&k) {
                if k == CLUSTERS[0] {
                    report
                        .rows
                        .extend(parts::phases(&on, machine, (&of_host, k), plan)?);
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
                .extend(parts::restarts(&manager, machine, (&of_host, 16), plan)?);
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
