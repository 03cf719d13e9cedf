//! Errors of a clustering.

use galatea_device::DeviceError;

/// Result of this crate.
pub type Result<T, E = KMeansError> = std::result::Result<T, E>;

/// An error of a clustering. Variants and fields are contract, the text is not.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum KMeansError {
    /// The device's.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// No feature, or more than rows may have.
    #[error("points of {features} features: k-means takes 1 to {limit}")]
    Features {
        /// Features asked for.
        features: usize,
        /// The most.
        limit: usize,
    },
    /// No cluster, or more than labels can number.
    #[error("{clusters} clusters: k is from 1 to {limit}")]
    Clusters {
        /// Clusters asked for.
        clusters: usize,
        /// The most.
        limit: usize,
    },
    /// No point at all.
    #[error("there are no points to cluster")]
    NoPoints,
    /// Fewer points than clusters.
    #[error(
        "{clusters} clusters of {points} points: each cluster needs a point\nhint: lower k to {points} or less"
    )]
    TooFewPoints {
        /// Clusters asked for.
        clusters: usize,
        /// Points there are.
        points: u64,
    },
    /// Values that are NaN or infinite.
    #[error(
        "column {column} has {rows} values that are NaN or infinite\nhint: filter them out, or replace them"
    )]
    NotFinite {
        /// The feature's name.
        column: String,
        /// How many rows have one.
        rows: u64,
    },
    /// Values or centroids that are not whole points of as many features.
    #[error("{what} has {found} values: {expected} are needed")]
    Shape {
        /// What was given.
        what: String,
        /// Values it has.
        found: usize,
        /// Values it should have.
        expected: usize,
    },
    /// Points and centroids of different numbers of features.
    #[error("points have {points} features, the centroids {centroids}")]
    OtherFeatures {
        /// Features of the points.
        points: usize,
        /// Features of the centroids.
        centroids: usize,
    },
    /// A setting outside its range.
    #[error("{name} is {value}: it must be {expected}")]
    Setting {
        /// Its name.
        name: &'static str,
        /// What was given.
        value: String,
        /// The allowed values.
        expected: &'static str,
    },
    /// No shape of a pass has room on the device.
    #[error(
        "no pass over {features} features and {clusters} clusters fits a block's {limit} bytes of shared memory: the least needs {needed}\nhint: run it on the CPU"
    )]
    NoShape {
        /// Features.
        features: usize,
        /// Clusters.
        clusters: usize,
        /// Bytes that the smallest shape needs.
        needed: u64,
        /// Bytes there are.
        limit: u64,
    },
    /// The device is full with memory of others.
    #[error(
        "{what} of {bytes} bytes finds no device memory: the limit is {limit} bytes\nhint: raise galatea.gpu_memory_limit, or run it on the CPU"
    )]
    Memory {
        /// The purpose of the allocation.
        what: &'static str,
        /// Its size.
        bytes: u64,
        /// The budget's limit.
        limit: u64,
    },
    /// The caller stopped it, and did not ask to keep what was there.
    #[error("cancelled after {iterations} iterations")]
    Cancelled {
        /// Iterations that were complete.
        iterations: u32,
    },
}
