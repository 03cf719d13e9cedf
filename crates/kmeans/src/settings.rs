//! Settings of a clustering, with scikit-learn's terms.

use galatea_kernels::kmeans::{Scores, Sums};

use crate::cpu::CpuSums;
use crate::processor::OnStop;
use crate::{KMeansError, Points, Result, Share};

/// Maximum number of starts that share the passes over the points. With more, the computation of a pass would
/// cost more than reading the points again.
pub(crate) const STARTS_TOGETHER: usize = 16;
/// Maximum number of clusters. 32-bit labels could number more, but memory would be exhausted before.
const MOST_CLUSTERS: usize = 1 << 24;

/// The initial centroids.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Init {
    /// D² sampling (k-means++): from all points if they have at most 8 M values, otherwise from a sample of
    /// 65536 or more.
    #[default]
    PlusPlus,
    /// Distinct random points.
    Random,
    /// The first k points.
    First,
    /// The given centroids, row after row.
    Given(Vec<f64>),
}

/// The execution of an iteration (thesis §5.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Execution {
    /// In a single pass, which reads points once. In the thesis multi-pass is faster from k = 32 on, where a
    /// block's accumulators fill its shared memory; `galatea bench kmeans --experiment variants` compares
    /// them.
    #[default]
    Auto,
    /// Assignment and update fused, in one pass over the points.
    Single,
    /// A pass that writes labels to device memory, followed by a pass that sums by labels. Both process a few
    /// chunks at a time, so that streamed chunks cross the link once.
    Multi,
    /// Labels are transferred to the CPU, which moves the centroids.
    Cross,
}

impl Execution {
    /// All executions.
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

/// The launches of iterations on the device, if all points are in its memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Launches {
    /// Several in one launch if a pass is so short that the cost of launches would be noticeable.
    #[default]
    Auto,
    /// A pass and an update for each iteration.
    Each,
    /// Several iterations in one launch, in which blocks wait for each other (`kmeans_fit.cu`), if the device
    /// supports cooperative launches.
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

/// Settings of a clustering.
#[derive(Debug, Clone)]
pub struct KMeans {
    /// Number of clusters, k.
    pub clusters: usize,
    /// Maximum number of iterations of a start.
    pub max_iter: u32,
    /// Centroids have converged if the sum of their squared shifts is at most this fraction of the mean
    /// variance of the features, which is estimated from at most 65536 points. With 0, they have converged if
    /// none moves.
    pub tol: f64,
    /// The initial centroids.
    pub init: Init,
    /// Number of starts with different seeds; the one with the least inertia is returned. They share the
    /// passes over the points, 16 at a time: an iteration of all of them reads each point once from host
    /// memory.
    pub n_init: u32,
    /// Seed of all random choices.
    pub seed: u64,
    /// The execution of iterations. Without a device, cross-processing is multi-pass.
    pub execution: Execution,
    /// The launches of iterations on the device.
    pub launches: Launches,
    /// The device's method of finding the nearest centroids in iterations; by default the fastest by the
    /// model. Matrix units are not used if clusters have few points, or a few points are far from all others.
    /// Labels, sizes and the inertia are always computed by a pass in 32-bit floats.
    pub scores: Option<Scores>,
    /// The device's replication of sums; by default the cheapest by the model.
    pub sums: Option<Sums>,
    /// The method by which threads of the CPU add points to their clusters.
    pub cpu_sums: CpuSums,
    /// Shared memory that a block on the device may use, in bytes; by default all.
    pub shared_limit: Option<u64>,
    /// Whether the CPU takes chunks of points that are not on the device.
    pub share: Share,
    /// The result if the caller stops the fit.
    pub on_stop: OnStop,
}

impl KMeans {
    /// Settings for k clusters, with scikit-learn's defaults: k-means++, 300 iterations, `tol` 1e-4, one
    /// start.
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

    /// The number of starts.
    pub(crate) fn starts(&self) -> u32 {
        match self.init {
            // Nothing is random, so all starts would be the same.
            Init::First | Init::Given(_) => 1,
            Init::PlusPlus | Init::Random => self.n_init.max(1),
        }
    }

    /// The number of starts that share passes.
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
