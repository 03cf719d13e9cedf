//! The estimator, in scikit-learn's words.

use galatea_kernels::kmeans::{Centroids, Scores, Sums};

use crate::cpu::Cpu;
use crate::device::DeviceKMeans;
use crate::labels::Labels;
use crate::spread::variance;
use crate::{KMeansError, Points, Result, Share, init};

/// Starts that share the passes over the points: beyond, what a pass computes for each costs more than points
/// that come again.
const STARTS_TOGETHER: usize = 16;
/// Most clusters: labels number them with 32 bits, and memory ends before.
const MOST_CLUSTERS: usize = 1 << 24;

/// Where centroids begin.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Init {
    /// D² sampling (k-means++), of all points where they are at most 8 M values, of 65536 or more where there
    /// are more.
    #[default]
    PlusPlus,
    /// Different points, drawn at random.
    Random,
    /// The first k points.
    First,
    /// Those given, row after row.
    Given(Vec<f64>),
}

/// How an iteration is executed on the device (thesis §5.3, KM-11).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Execution {
    /// In a single pass, which reads points once. In the thesis multi-pass is ahead from k = 32 on, where a
    /// block's accumulators fill its shared memory; `galatea bench kmeans --experiment variants` compares
    /// them.
    #[default]
    Auto,
    /// Assignment and update fused, in one pass over the points.
    Single,
    /// A pass that writes labels to device memory, and a pass that sums by them, over some chunks after the
    /// other, so that those that are streamed cross the link once.
    Multi,
    /// Labels go to the CPU, which moves the centroids.
    Cross,
}

impl Execution {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Single => "single-pass",
            Self::Multi => "multi-pass",
            Self::Cross => "cross-processing",
        }
    }
}

/// What is known after an iteration.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// Which of the restarts, from 0.
    pub start: u32,
    /// Iterations done.
    pub iteration: u32,
    /// Sum of the squares of how far centroids moved.
    pub shift: f64,
}

/// A clustering to be done.
#[derive(Debug, Clone)]
pub struct KMeans {
    /// k.
    pub clusters: usize,
    /// Most iterations of a start.
    pub max_iter: u32,
    /// Centroids have converged when the squares of how far they moved sum up to no more than this share of
    /// the mean variance of the features, which is estimated from at most 65536 points. 0: when none moves.
    pub tol: f64,
    /// Where centroids begin.
    pub init: Init,
    /// Starts with other seeds, of which the least inertia wins. They share the passes over the points, 16 at
    /// a time: an iteration of all of them reads each point once from host memory.
    pub n_init: u32,
    /// What is drawn is drawn from this.
    pub seed: u64,
    /// How iterations are executed on the device.
    pub execution: Execution,
    /// How the device finds the nearest centroids in iterations; the fastest by the model where nothing is
    /// said. Matrix units are left out where clusters have few points, or a few points are far from all
    /// others. Labels, sizes and the inertia always come from a pass in 32-bit floats.
    pub scores: Option<Scores>,
    /// How the device replicates sums; the cheapest by the model where nothing is said.
    pub sums: Option<Sums>,
    /// Shared memory that a block on the device may take, bytes; all there is where nothing is said.
    pub shared_limit: Option<u64>,
    /// Whether the CPU takes chunks of points that are not on the device.
    pub share: Share,
}

/// A clustering.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// Centroids, row after row.
    pub centroids: Vec<f64>,
    /// Features of a centroid.
    pub features: usize,
    /// Points of each cluster.
    pub sizes: Vec<u64>,
    /// Sum of the squared distances of points to their centroids.
    pub inertia: f64,
    /// Iterations of the start that won.
    pub n_iter: u32,
    /// Whether it ended before its last iteration.
    pub converged: bool,
    /// Where they were asked for.
    pub labels: Option<Labels>,
    /// Chunks that the CPU took from the device, in all iterations of the start that won and of those beside
    /// it.
    pub cpu_chunks: u64,
}

/// When iterations end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rule {
    pub(crate) max_iter: u32,
    pub(crate) tolerance: f64,
}

/// What iterations came to.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Iterations {
    pub(crate) iterations: u32,
    pub(crate) shift: f64,
    pub(crate) converged: bool,
}

/// What the last pass came to, which leaves centroids as they are.
#[derive(Debug)]
pub(crate) struct Finish {
    pub(crate) masses: Vec<u64>,
    pub(crate) inertia: f64,
    pub(crate) labels: Option<Labels>,
    pub(crate) cpu_chunks: u64,
}

impl Iterations {
    /// Counts one more, in which centroids moved so far.
    pub(crate) fn after(&mut self, shift: f64, rule: Rule) {
        self.shift = shift;
        self.iterations += 1;
        self.converged = shift <= rule.tolerance;
    }
}

/// Who is told of iterations, and may stop them.
pub(crate) struct Monitor<'a> {
    /// The number of the first of the starts that go together.
    first: u32,
    tell: &'a mut dyn FnMut(Progress) -> bool,
}

impl Monitor<'_> {
    /// Whether to go on, after an iteration of a start of those that go together.
    pub(crate) fn tell(&mut self, start: usize, iteration: u32, shift: f64) -> bool {
        (self.tell)(Progress {
            start: self.first + start as u32,
            iteration,
            shift,
        })
    }
}

/// What passes run on.
pub(crate) trait Processor {
    /// Moves the centroids of each start until the rule ends it, in passes that all of them share.
    fn iterate(
        &mut self,
        starts: &mut [Centroids],
        rule: Rule,
        monitor: &mut Monitor<'_>,
    ) -> Result<Vec<Iterations>>;
    /// Masses and inertia of each start's centroids, in one pass, and labels, of a single start.
    fn finish(&mut self, starts: &[Centroids], labels: bool) -> Result<Vec<Finish>>;
}

/// Iterations one by one; `iterate` says how far centroids moved, `tell` whether to go on after so many.
pub(crate) fn iterations(
    rule: Rule,
    mut tell: impl FnMut(u32, f64) -> bool,
    mut iterate: impl FnMut() -> Result<f64>,
) -> Result<Iterations> {
    let mut done = Iterations::default();
    while done.iterations < rule.max_iter && !done.converged {
        done.after(iterate()?, rule);
        if !tell(done.iterations, done.shift) {
            return Err(KMeansError::Cancelled {
                iterations: done.iterations,
            });
        }
    }
    Ok(done)
}

impl KMeans {
    /// Of k clusters, with scikit-learn's defaults: k-means++, 300 iterations, `tol` 1e-4, one start.
    #[must_use]
    pub fn new(clusters: usize) -> Self {
        Self {
            clusters,
            max_iter: 300,
            tol: 1e-4,
            init: Init::PlusPlus,
            n_init: 1,
            seed: 0,
            execution: Execution::Auto,
            scores: None,
            sums: None,
            shared_limit: None,
            share: Share::Auto,
        }
    }

    /// Centroids, on the CPU.
    ///
    /// # Errors
    /// See [`Self::fit_with`].
    pub fn fit(&self, points: &Points) -> Result<Model> {
        self.run(points, &mut Cpu { points }, false, &mut |_| true)
    }

    /// Centroids and labels, on the CPU.
    ///
    /// # Errors
    /// See [`Self::fit_with`].
    pub fn fit_predict(&self, points: &Points) -> Result<Model> {
        self.run(points, &mut Cpu { points }, true, &mut |_| true)
    }

    /// Centroids, and labels if wanted, on a device, or on the CPU where there is none. `progress` is told
    /// after every iteration, on a device after every few, and says whether to go on.
    ///
    /// # Errors
    /// [`KMeansError::Clusters`], [`KMeansError::NoPoints`], [`KMeansError::TooFewPoints`],
    /// [`KMeansError::Setting`], [`KMeansError::Shape`] for given centroids; [`KMeansError::NoShape`],
    /// [`KMeansError::Memory`] on a device; [`KMeansError::Cancelled`]; the device's.
    pub fn fit_with(
        &self,
        points: &Points,
        device: Option<&DeviceKMeans<'_>>,
        labels: bool,
        progress: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<Model> {
        match device {
            Some(device) => {
                let mut run = device.start(points, self)?;
                self.run(points, &mut run, labels, progress)
            }
            None => self.run(points, &mut Cpu { points }, labels, progress),
        }
    }

    fn run(
        &self,
        points: &Points,
        processor: &mut dyn Processor,
        labels: bool,
        progress: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<Model> {
        self.check(points)?;
        let tolerance = if self.tol > 0.0 {
            self.tol * variance(points)
        } else {
            0.0
        };
        let rule = Rule {
            max_iter: self.max_iter,
            tolerance,
        };
        let starts: Vec<u32> = (0..self.starts()).collect();
        let mut best: Option<(Centroids, Iterations, Finish)> = None;
        for together in starts.chunks(STARTS_TOGETHER) {
            let mut centroids = Vec::new();
            for start in together {
                let rows = self.first_rows(points, *start)?;
                centroids.push(Centroids::new(&rows, points.features()));
            }
            let mut monitor = Monitor {
                first: together[0],
                tell: &mut *progress,
            };
            let done = processor.iterate(&mut centroids, rule, &mut monitor)?;
            let finish = processor.finish(&centroids, labels && starts.len() == 1)?;
            for each in centroids.into_iter().zip(done).zip(finish) {
                let ((centroids, done), finish) = each;
                if best
                    .as_ref()
                    .is_none_or(|(_, _, best)| finish.inertia < best.inertia)
                {
                    best = Some((centroids, done, finish));
                }
            }
        }
        let (centroids, done, mut finish) = best.expect("at least one start");
        if labels && finish.labels.is_none() {
            let of_best = processor.finish(std::slice::from_ref(&centroids), true)?;
            finish.labels = of_best.into_iter().next().and_then(|finish| finish.labels);
        }
        let mut rows = centroids.rows();
        points.add_offsets(&mut rows);
        Ok(Model {
            centroids: rows,
            features: points.features(),
            sizes: finish.masses,
            inertia: finish.inertia,
            n_iter: done.iterations,
            converged: done.converged,
            labels: finish.labels,
            cpu_chunks: finish.cpu_chunks,
        })
    }

    /// How many starts there are.
    fn starts(&self) -> u32 {
        match self.init {
            // Nothing is drawn, so all starts would be the same.
            Init::First | Init::Given(_) => 1,
            Init::PlusPlus | Init::Random => self.n_init.max(1),
        }
    }

    /// How many of them go through the points together.
    pub(crate) fn starts_together(&self) -> usize {
        (self.starts() as usize).min(STARTS_TOGETHER)
    }

    fn check(&self, points: &Points) -> Result<()> {
        if !(1..=MOST_CLUSTERS).contains(&self.clusters) {
            return Err(KMeansError::Clusters {
                clusters: self.clusters,
                limit: MOST_CLUSTERS,
            });
        }
        if points.is_empty() {
            return Err(KMeansError::NoPoints);
        }
        if self.clusters as u64 > points.len() {
            return Err(KMeansError::TooFewPoints {
                clusters: self.clusters,
                points: points.len(),
            });
        }
        if !(self.tol >= 0.0 && self.tol.is_finite()) {
            return Err(KMeansError::Setting {
                name: "tol",
                value: self.tol.to_string(),
                expected: "0 or more",
            });
        }
        Ok(())
    }

    fn first_rows(&self, points: &Points, start: u32) -> Result<Vec<f64>> {
        let seed = self
            .seed
            .wrapping_add(u64::from(start).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        Ok(match &self.init {
            Init::PlusPlus => init::plus_plus(points, self.clusters, seed),
            Init::Random => init::random(points, self.clusters, seed),
            Init::First => init::first(points, self.clusters),
            Init::Given(rows) => {
                let expected = self.clusters * points.features();
                if rows.len() != expected {
                    return Err(KMeansError::Shape {
                        what: "init".to_owned(),
                        found: rows.len(),
                        expected,
                    });
                }
                points.without_offsets(rows)
            }
        })
    }
}

impl Model {
    /// Labels of other points by these centroids, on a device or on the CPU.
    ///
    /// # Errors
    /// [`KMeansError::OtherFeatures`]; the device's.
    pub fn predict(&self, points: &Points, device: Option<&DeviceKMeans<'_>>) -> Result<Labels> {
        if points.features() != self.features {
            return Err(KMeansError::OtherFeatures {
                points: points.features(),
                centroids: self.features,
            });
        }
        let centroids = Centroids::new(&points.without_offsets(&self.centroids), self.features);
        let finish = match device {
            Some(device) => {
                let settings = KMeans::new(centroids.clusters());
                device.start(points, &settings)?.finish(&[centroids], true)?
            }
            None => Cpu { points }.finish(&[centroids], true)?,
        };
        let labels = finish.into_iter().next().and_then(|finish| finish.labels);
        Ok(labels.expect("labels were asked for"))
    }
}
