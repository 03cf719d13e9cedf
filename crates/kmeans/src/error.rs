//! Errors of a clustering.

use galatea_device::DeviceError;

/// Result of this crate.
pub type Result<T, E = KMeansError> = std::result::Result<T, E>;

/// An error of a clustering. Variants and fields are stable, messages are not.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum KMeansError {
    /// An error of the device.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// No features, or more than the maximum.
    #[error("points of {features} features: k-means takes 1 to {limit}")]
    Features {
        /// The requested number of features.
        features: usize,
        /// The maximum.
        limit: usize,
    },
    /// No clusters, or more than labels can number.
    #[error("{clusters} clusters: k is from 1 to {limit}")]
    Clusters {
        /// The requested number of clusters.
        clusters: usize,
        /// The maximum.
        limit: usize,
    },
    /// No points.
    #[error("there are no points to cluster")]
    NoPoints,
    /// Fewer points than clusters.
    #[error(
        "{clusters} clusters of {points} points: each cluster needs a point\nhint: lower k to {points} or less"
    )]
    TooFewPoints {
        /// The requested number of clusters.
        clusters: usize,
        /// The number of points.
        points: u64,
    },
    /// Values that are NaN or infinite.
    #[error(
        "column {column} has {rows} values that are NaN or infinite\nhint: filter them out, or replace them"
    )]
    NotFinite {
        /// The feature's name.
        column: String,
        /// The number of rows with such values.
        rows: u64,
    },
    /// The values or centroids are not whole points with this number of features.
    #[error("{what} has {found} values: {expected} are needed")]
    Shape {
        /// The invalid argument.
        what: String,
        /// Its number of values.
        found: usize,
        /// The expected number of values.
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
    /// A setting is outside its range.
    #[error("{name} is {value}: it must be {expected}")]
    Setting {
        /// Its name.
        name: &'static str,
        /// The invalid value.
        value: String,
        /// The allowed values.
        expected: &'static str,
    },
    /// No shape of a pass fits the device.
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
        /// Available bytes.
        limit: u64,
    },
    /// The device memory is used by others.
    #[error(
        "{what} of {bytes} bytes finds no device memory: the limit is {limit} bytes\nhint: raise galatea.memory.gpu_limit, or run it on the CPU"
    )]
    Memory {
        /// The purpose of the allocation.
        what: &'static str,
        /// Its size.
        bytes: u64,
        /// The budget's limit.
        limit: u64,
    },
    /// The caller stopped it, and did not ask to keep the result so far.
    #[error("cancelled after {iterations} iterations")]
    Cancelled {
        /// The number of complete iterations.
        iterations: u32,
    },
}
