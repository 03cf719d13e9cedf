//! k-means: an iteration over points in device memory, compared with one read of them.
//!
//! Points are those of the thesis (§5.5.1): ten centres, uniform in [-100, 100]^d, with equal numbers of
//! points around each, in a normal distribution of deviation 10, from a seed. An iteration is that of a fit:
//! nearest centroids, sums, new centroids. Times are device times, by events, over consecutive iterations.
//! Every timed shape is first checked against 64-bit floats on fewer points: its centroids, and that labels
//! differ only by rounding. Other experiments compare the published variants (`variants`), and points that
//! stay in host memory, with and without the CPU's help (`streaming`). `thesis` runs the sweeps of all its
//! figures, and writes its outcomes beside the measured ones.

mod findings;
mod generate;
mod masses;
mod parts;
mod report;
mod streamed;
mod summary;
mod thesis;
mod verify;

pub use report::{KmeansReport, Row};

use galatea_device::{Device, In, Out};
use galatea_engine::device::calibration;
use galatea_kernels::{KmeansPass, ReadBandwidth};
use galatea_kmeans::{DeviceKMeans, Execution, PassCost, PassShape, Points, Scores, Sums, Wanted, costs};
use galatea_memory::regions::MemoryManager;
use rayon::prelude::*;

use crate::Result;
use crate::harness::Clock;
use crate::machine::Machine;
use generate::Generator;

/// Default number of points on which shapes are verified.
pub const VERIFIED: u64 = (1 << 17) + 17;
/// The same for the many shapes in the sweeps of the thesis.
pub const VERIFIED_OF_MANY: u64 = (1 << 14) + 17;

/// An experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Experiment {
    /// Methods of summing, in a single pass over points on the device.
    Iteration,
    /// Executions and methods of summing of the thesis (figures 5.9, 5.11, 5.13, 5.14).
    Variants,
    /// Points in host memory (figure 5.16).
    Streaming,
    /// Histograms of labels (figure 5.10).
    Masses,
    /// The phases of an iteration (figure 5.12).
    Phases,
    /// Sizes of chunks in transfers to the device (figure 5.15).
    Chunks,
    /// Restarts that share passes, and the same number of consecutive fits.
    Restarts,
    /// Iterations in one launch, and one launch each.
    Launches,
    /// Figures 5.9 to 5.16, restarts and launches, with the sweeps of the thesis.
    Thesis,
}

impl Experiment {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Iteration,
        Self::Variants,
        Self::Streaming,
        Self::Masses,
        Self::Phases,
        Self::Chunks,
        Self::Restarts,
        Self::Launches,
        Self::Thesis,
    ];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Iteration => "iteration",
            Self::Variants => "variants",
            Self::Streaming => "streaming",
            Self::Masses => "masses",
            Self::Phases => "phases",
            Self::Chunks => "chunks",
            Self::Restarts => "restarts",
            Self::Launches => "launches",
            Self::Thesis => "thesis",
        }
    }
}

/// Experiments by name.
///
/// # Errors
/// An unknown name; the error contains the valid ones.
pub fn experiments(names: &[String]) -> Result<Vec<Experiment>, String> {
    let of = |name: &String| {
        let found = Experiment::ALL
            .into_iter()
            .find(|experiment| experiment.name() == name);
        let known = Experiment::ALL.map(Experiment::name).join(", ");
        found.ok_or_else(|| format!("unknown experiment: {name}\nhint: experiments are {known}"))
    };
    names.iter().map(of).collect()
}

/// The measurements to run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The experiments.
    pub experiments: Vec<Experiment>,
    /// Numbers of features.
    pub features: Vec<u32>,
    /// Numbers of clusters.
    pub clusters: Vec<u32>,
    /// Bytes of points.
    pub bytes: u64,
    /// Number of measured runs; 0: shapes are only checked against 64-bit floats.
    pub runs: usize,
    /// Only these methods of finding the nearest centroids; if empty, both.
    pub scores: Vec<Scores>,
    /// Only these methods of summing; if empty, all.
    pub sums: Vec<Sums>,
    /// Number of shapes of each method, in ascending order of the modelled cost; 0: the selected one.
    pub shapes: usize,
    /// Limit of the shared memory of a block, in bytes.
    pub shared_limit: Option<u64>,
    /// Number of points on which shapes are verified.
    pub verified: u64,
    /// Whether sweeps are small, for the emulated device.
    pub emulated: bool,
    /// The machine to record.
    pub machine: Machine,
}

impl Plan {
    /// Requirements on shapes.
    fn wanted(&self, scores: Option<Scores>, sums: Option<Sums>) -> Wanted {
        Wanted {
            scores,
            sums,
            shared_limit: self.shared_limit,
        }
    }

    /// The only method of finding the nearest centroids, if a single one is given.
    fn only_scores(&self) -> Option<Scores> {
        match self.scores.as_slice() {
            [only] => Some(*only),
            _ => None,
        }
    }
}

/// Methods of finding the nearest centroids by name.
///
/// # Errors
/// An unknown name; the error contains the valid ones.
pub fn scores(names: &[String]) -> Result<Vec<Scores>, String> {
    let all = Scores::ALL;
    let of = |name: &String| {
        let found = all.into_iter().find(|scores| scores.name() == name);
        let known = all.map(Scores::name).join(", ");
        found.ok_or_else(|| {
            format!("unknown way of finding centroids: {name}\nhint: ways of finding centroids are {known}")
        })
    };
    names.iter().map(of).collect()
}

/// Methods of summing by name.
///
/// # Errors
/// An unknown name; the error contains the valid ones.
pub fn ways(names: &[String]) -> Result<Vec<Sums>, String> {
    let of = |name: &String| {
        let found = Sums::ALL.into_iter().find(|sums| sums.name() == name);
        let known = Sums::ALL.map(Sums::name).join(", ");
        found.ok_or_else(|| format!("unknown way of summing: {name}\nhint: ways of summing are {known}"))
    };
    names.iter().map(of).collect()
}

/// Runs a plan. `done` is called after each combination.
///
/// # Errors
/// The device's; host memory for the points.
pub fn run(device: &Device, plan: &Plan, mut done: impl FnMut(u32, u32)) -> Result<KmeansReport> {
    let machine = calibration::machine(device.info(), None);
    if plan.experiments.contains(&Experiment::Thesis) {
        return thesis::run(device, &machine, plan, &mut done);
    }
    let manager = MemoryManager::new(device)?;
    let on = DeviceKMeans::new(&manager, machine)?;
    let clock = Clock::new(on.stream(), plan.runs);
    let mut report = KmeansReport::new(plan.machine.clone());
    let floor = read_floor(device, &clock, on.stream(), plan.bytes)?;
    for &features in &plan.features {
        let count = (plan.bytes / (4 * u64::from(features))).max(1);
        let generator = Generator::new(features as usize, 1);
        let points = generator.points(count)?;
        let fewer = generator.points(count.min(plan.verified))?;
        for &clusters in &plan.clusters {
            if u64::from(clusters) > fewer.len() {
                return Err(galatea_kmeans::KMeansError::TooFewPoints {
                    clusters: clusters as usize,
                    points: fewer.len(),
                }
                .into());
            }
            let case = Case {
                on: &on,
                clock: &clock,
                points: &points,
                reference: &verify::Reference::new(&on, &fewer, clusters)?,
                clusters,
                floor,
            };
            for experiment in &plan.experiments {
                match experiment {
                    Experiment::Iteration => {
                        let costs = shapes(plan, &machine, (features, clusters));
                        compile(device, &costs.iter().map(|cost| cost.shape).collect::<Vec<_>>())?;
                        for cost in costs {
                            report
                                .rows
                                .push(case.measure(&cost, &machine, plan, Execution::Single)?);
                        }
                    }
                    Experiment::Variants => {
                        for (execution, cost) in variants(plan, &machine, (features, clusters)) {
                            let mut row = case.measure(&cost, &machine, plan, execution)?;
                            row.experiment = experiment.name().to_string();
                            report.rows.push(row);
                        }
                    }
                    // Labels have no features, so this runs once for all numbers of features.
                    Experiment::Masses if features == plan.features[0] => {
                        report.rows.extend(masses::measure(
                            device,
                            &clock,
                            on.stream(),
                            plan,
                            (count, clusters),
                        )?);
                    }
                    Experiment::Chunks if (features, clusters) == (plan.features[0], plan.clusters[0]) => {
                        report.rows.extend(parts::chunks(&manager, plan)?);
                    }
                    Experiment::Phases => {
                        let of = (&points, clusters);
                        report.rows.extend(parts::phases(&on, &machine, of, plan)?);
                    }
                    Experiment::Restarts => {
                        let of = (&points, clusters);
                        report.rows.extend(parts::restarts(&manager, &machine, of, plan)?);
                    }
                    Experiment::Launches => {
                        let of = (&points, clusters);
                        report
                            .rows
                            .extend(parts::launches(&on, &clock, &machine, of, plan)?);
                    }
                    // `thesis` is a separate run.
                    Experiment::Masses | Experiment::Chunks | Experiment::Thesis => {}
                    Experiment::Streaming => {
                        manager.clear()?;
                        report
                            .rows
                            .extend(streamed::measure(&manager, &case, &machine, plan)?);
                    }
                }
            }
            done(features, clusters);
        }
        // The next points need the memory.
        manager.clear()?;
    }
    Ok(report)
}

/// The shapes to measure.
fn shapes(plan: &Plan, machine: &galatea_layout::model::Machine, of: (u32, u32)) -> Vec<PassCost> {
    if plan.shapes == 0 && plan.sums.is_empty() {
        let wanted = plan.wanted(plan.only_scores(), None);
        return costs(machine, of, wanted).into_iter().take(1).collect();
    }
    let ways = if plan.sums.is_empty() {
        &Sums::ALL[..]
    } else {
        &plan.sums
    };
    let scores = if plan.scores.is_empty() {
        &Scores::ALL[..]
    } else {
        &plan.scores
    };
    let pairs = scores
        .iter()
        .flat_map(|scores| ways.iter().map(|way| (*scores, *way)));
    pairs
        .flat_map(|(scores, way)| {
            let wanted = plan.wanted(Some(scores), Some(way));
            costs(machine, of, wanted).into_iter().take(plan.shapes.max(1))
        })
        .collect()
}

/// Compiles passes on all cores. Sequential compilation would take longer than the measured work.
fn compile(device: &Device, shapes: &[PassShape]) -> Result<()> {
    let compile = |shape: &PassShape| KmeansPass::new(device, *shape).map(drop);
    Ok(shapes.par_iter().try_for_each(compile)?)
}

/// Executions, each with the cheapest shape of each method of summing. If the CPU sums, there is one shape.
/// Scores are by lanes, the only method of the thesis.
fn variants(
    plan: &Plan,
    machine: &galatea_layout::model::Machine,
    of: (u32, u32),
) -> Vec<(Execution, PassCost)> {
    let cheapest = |sums| {
        costs(machine, of, plan.wanted(Some(Scores::Lanes), sums))
            .into_iter()
            .next()
    };
    let ways: Vec<PassCost> = Sums::ALL
        .into_iter()
        .filter_map(|way| cheapest(Some(way)))
        .collect();
    let each = |execution| ways.iter().map(move |cost| (execution, *cost));
    let cross = cheapest(None).map(|cost| (Execution::Cross, cost));
    each(Execution::Single)
        .chain(each(Execution::Multi))
        .chain(cross)
        .collect()
}

/// Milliseconds of reading this number of bytes of device memory.
fn read_floor(
    device: &Device,
    clock: &Clock,
    stream: &galatea_device::Stream,
    bytes: u64,
) -> Result<Option<f64>> {
    let read = ReadBandwidth::new(device)?;
    let values = device.zeroed::<u64>(stream, (bytes / 16 * 2) as usize)?;
    let mut sums = device.zeroed::<u64>(stream, read.blocks())?;
    let time = clock.sustained(|| Ok(read.launch(stream, In(&values), Out(&mut sums))?))?;
    Ok(time.map(|time| 1e3 * time.median))
}

/// A combination of features and clusters.
#[derive(Clone, Copy)]
struct Case<'a> {
    on: &'a DeviceKMeans<'a>,
    clock: &'a Clock,
    points: &'a Points,
    /// The reference, over fewer points.
    reference: &'a verify::Reference<'a>,
    clusters: u32,
    /// Milliseconds of one read of the points.
    floor: Option<f64>,
}

impl Case<'_> {
    fn measure(
        &self,
        cost: &PassCost,
        machine: &galatea_layout::model::Machine,
        plan: &Plan,
        execution: Execution,
    ) -> Result<Row> {
        let shape = cost.shape;
        tracing::debug!(?shape, execution = execution.name(), "next");
        let verified = self.reference.hold(self.on, shape, execution)?;
        let mut run = self.on.start_with(self.points, shape)?;
        run.execute_as(execution)?;
        run.place_centroids(&self.points.rows(0..u64::from(self.clusters)))?;
        // The first iteration transfers the points to the device.
        run.queue_iteration()?;
        let time = self.clock.sustained(|| Ok(run.queue_iteration()?))?;
        let mut row = Row::new(
            Experiment::Iteration.name(),
            execution.name(),
            "resident",
            &plan.machine,
        );
        row.set_shape(shape);
        row.set_time(self.points.len(), self.points.bytes(), time, self.floor);
        row.set_verified(&verified);
        row.blocks = run.blocks();
        (row.registers, row.spilled_bytes) = run.registers();
        row.predicted_ms = 1e3 * cost.seconds(machine, self.points.len(), 1);
        Ok(row)
    }
}

#[cfg(test)]
mod tests;
