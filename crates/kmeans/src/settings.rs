//! Settings of a clustering, in scikit-learn's words.

use galatea_kernels::kmeans::{Scores, Sums};

use crate::cpu::CpuSums;
use crate::processor::OnStop;
use crate::{KMeansError, Points, Result, Share};

/// Starts that share the passes over the points: with more, the computation of a pass would cost more than
/// reading the points again.
pub(crate) const STARTS_TOGETHER: usize = 16;
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

/// How an iteration is executed (thesis §5.3, KM-11).
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
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Auto, Self::Single, Self::Multi, Self::Cross];

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

/// How iterations are launched on the device while all points are in its memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Launches {
    /// Several in one launch where a pass takes so little time that its launches would show.
    #[default]
    Auto,
    /// A pass and an update for each iteration.
    Each,
    /// Several iterations in one launch, whose blocks wait for each other (`kmeans_fit.cu`), where the device
    /// has cooperative launches.
    Persistent,
}

impl Launches {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Each => "each",
            Self::Persistent => "persistent",
        }
    }
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
    /// Seed of all random choices.
    pub seed: u64,
    /// How iterations are executed. On the CPU alone cross-processing is multi-pass.
    pub execution: Execution,
    /// How iterations are launched on the device.
    pub launches: Launches,
    /// How the device finds the nearest centroids in iterations; by default the fastest by the model. Matrix
    /// units are left out where clusters have few points, or a few points are far from all others. Labels,
    /// sizes and the inertia always come from a pass in 32-bit floats.
    pub scores: Option<Scores>,
    /// How the device replicates sums; by default the cheapest by the model.
    pub sums: Option<Sums>,
    /// How threads of the CPU add points to their clusters.
    pub cpu_sums: CpuSums,
    /// Shared memory that a block on the device may take, bytes; by default all.
    pub shared_limit: Option<u64>,
    /// Whether the CPU takes chunks of points that are not on the device.
    pub share: Share,
    /// What is returned when the caller stops it.
    pub on_stop: OnStop,
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
            launches: Launches::Auto,
            scores: None,
            sums: None,
            cpu_sums: CpuSums::Auto,
            shared_limit: None,
            share: Share::Auto,
            on_stop: OnStop::Discard,
        }
    }

    /// How many starts there are.
    pub(crate) fn starts(&self) -> u32 {
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

    pub(crate) fn check(&self, points: &Points) -> Result<()> {
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
}
