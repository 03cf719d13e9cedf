//! k-means on the device and on the CPU, by default with one pass over the points per iteration.
//!
//! An iteration assigns each point to its nearest centroid and moves each centroid to the mean of its points.
//! Following C. Lutz, *Scalable Data Management using GPUs with Fast Interconnects*, chapter 5 (the
//! *thesis*), both happen in one pass: a thread holds points in registers, finds their nearest centroids, and
//! adds them to replicated accumulators before it continues with the next points. An iteration thus reads
//! each point once. If the points do not fit the device, host memory is streamed once per iteration. Other
//! executions ([`Execution`]) use two passes, or move the centroids on the CPU.
//!
//! ```text
//!   Points ── columns in chunks of host memory, a memory manager's region: chunks that fit stay on the device
//!     │ KMeans::fit
//!     ├ init    first, random, k-means++ (D² sampling), or given centroids
//!     ├ choose  shape of a pass: replication of sums, threads, copies ── by the cost model of galatea_layout
//!     ├ device  passes over chunks, sums and centroids stay on the device ── kernels kmeans_pass, kmeans_update;
//!     │         iterations over few points in one launch ── kernel kmeans_fit
//!     └ cpu     the same passes in place, by all threads
//!   Model ── centroids, sizes, inertia, labels
//! ```
//!
//! | feature | item |
//! | --- | --- |
//! | executions: single-pass, multi-pass, cross-processing | [`Execution`] |
//! | replicas of feature sums (cluster merge, partitioned features) and of masses (private, local, global) | [`Sums`] |
//! | the same on the CPU | [`CpuSums`] |
//! | masses only | [`galatea_kernels::MassSum`], on the CPU [`count_labels`] |
//! | iterations one by one or several in a launch | [`Launches`] |
//! | nearest centroids by lanes or by matrix units | [`Scores`] |
//! | shared memory of a block, checked before a launch | [`PassShape::shared_bytes`], [`choose`] |
//! | chunks that the CPU takes | [`Share`] |
//! | restarts that share the passes over the points | [`KMeans::n_init`] |
//!
//! The *mass* of a cluster is its number of points.
//!
//! Points are 32-bit floats, as in the thesis; 64-bit floats are converted ([`PointsBuilder::append_wide`]).
//! A float accumulator of a thread sums at most 4096 points, or 16384 with more than 32 features, relative to
//! an origin amid the centroids. Its sum is then added to an accumulator of doubles. On the CPU a seed
//! returns the same result for any number of threads. On the device, sums differ in their last bits from run
//! to run, because blocks add their sums in any order.
//!
//! If several centroids are equally near, the lowest label wins. Clusters without points keep their
//! centroids. Values that are not finite are errors, and so are more clusters than points.
#![forbid(unsafe_code)]

mod choose;
mod cpu;
mod device;
mod error;
mod estimator;
mod init;
mod labels;
mod points;
mod processor;
mod settings;
mod share;
mod spread;

pub use choose::{PassCost, Wanted, choose, costs, fastest};
pub use cpu::{CpuSums, count_labels};
pub use device::{DeviceKMeans, DeviceRun, Phase, cpu_phases};
pub use error::{KMeansError, Result};
pub use estimator::Model;
pub use galatea_kernels::kmeans::{LabelWidth, PassShape, Scores, Sums};
pub use labels::Labels;
pub use points::{CHUNK_BYTES, Points, PointsBuilder};
pub use processor::{OnStop, Progress};
pub use settings::{Execution, Init, KMeans, Launches};
pub use share::Share;
