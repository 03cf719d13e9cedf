//! The estimator, in scikit-learn's words.

use galatea_kernels::kmeans::{Centroids, Sums};

use crate::cpu::Cpu;
use crate::device::DeviceKMeans;
use crate::labels::Labels;
use crate::{KMeansError, Points, Result, Share, init};

/// Most clusters: labels number them with 32 bits, and memory ends before.
const MOST_CLUSTERS: usize = 1 << 24;
/// Points that the variance of features is estimated from at most.
const VARIANCE_SAMPLE: u64 = 1 << 16;

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
    /// Restarts with other seeds, of which the least inertia wins.
    pub n_init: u32,
    /// What is drawn is drawn from this.
    pub seed: u64,
    /// How iterations are executed on the device.
    pub execution: Execution,
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
    /// Chunks that the CPU took from the device, in all iterations of the start that won.
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

/// Who is told of iterations, and may stop them.
pub(crate) struct Monitor<'a> {
    start: u32,
    tell: &'a mut dyn FnMut(Progress) -> bool,
}

impl Monitor<'_> {
    /// Whether to go on.
    pub(crate) fn tell(&mut self, iteration: u32, shift: f64) -> bool {
        (self.tell)(Progress {
            start: self.start,
            iteration,
            shift,
        })
    }
}

/// What passes run on.
pub(crate) trait Processor {
    /// Moves centroids until the rule ends it.
    fn iterate(
        &mut self,
        centroids: &mut Centroids,
        rule: Rule,
        monitor: &mut Monitor<'_>,
    ) -> Result<Iterations>;
    /// Masses, inertia and labels of centroids.
    fn finish(&mut self, centroids: &Centroids, labels: bool) -> Result<Finish>;
}

/// Iterations one by one; `iterate` says how far centroids moved.
pub(crate) fn iterations(
    rule: Rule,
    monitor: &mut Monitor<'_>,
    mut iterate: impl FnMut() -> Result<f64>,
) -> Result<Iterations> {
    let mut done = Iterations::default();
    while done.iterations < rule.max_iter && !done.converged {
        done.shift = iterate()?;
        done.iterations += 1;
        done.converged = done.shift <= rule.tolerance;
        if !monitor.tell(done.iterations, done.shift) {
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
        let mut best: Option<Model> = None;
        let starts = match self.init {
            // Nothing is drawn, so all starts would be the same.
            Init::First | Init::Given(_) => 1,
            Init::PlusPlus | Init::Random => self.n_init.max(1),
        };
        for start in 0..starts {
            let rows = self.first_rows(points, start)?;
            let mut centroids = Centroids::new(&rows, points.features());
            let mut monitor = Monitor {
                start,
                tell: &mut *progress,
            };
            let done = processor.iterate(&mut centroids, rule, &mut monitor)?;
            let finish = processor.finish(&centroids, labels)?;
            if best.as_ref().is_none_or(|best| finish.inertia < best.inertia) {
                let mut rows = centroids.rows();
                points.add_offsets(&mut rows);
                best = Some(Model {
                    centroids: rows,
                    features: points.features(),
                    sizes: finish.masses,
                    inertia: finish.inertia,
                    n_iter: done.iterations,
                    converged: done.converged,
                    labels: finish.labels,
                    cpu_chunks: finish.cpu_chunks,
                });
            }
        }
        Ok(best.expect("at least one start"))
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

/// The mean of the features' variances, of a sample.
fn variance(points: &Points) -> f64 {
    let d = points.features();
    let step = points.len().div_ceil(VARIANCE_SAMPLE).max(1);
    let mut rows = Vec::new();
    for point in (0..points.len()).step_by(step as usize) {
        points.gather(point, &mut rows);
    }
    let count = (rows.len() / d).max(1) as f64;
    let of_feature = |f: usize| {
        let values = || rows.iter().skip(f).step_by(d);
        let mean = values().sum::<f64>() / count;
        values().map(|value| (value - mean).powi(2)).sum::<f64>() / count
    };
    (0..d).map(of_feature).sum::<f64>() / d as f64
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
                device.start(points, &settings)?.finish(&centroids, true)?
            }
            None => Cpu { points }.finish(&centroids, true)?,
        };
        Ok(finish.labels.expect("labels were asked for"))
    }
}
