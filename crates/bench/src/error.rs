//! Errors of generators and measurements.

use std::path::{Path, PathBuf};

use datafusion::error::DataFusionError;

use crate::compare::Difference;

/// An error of a generator or a measurement.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// A file could not be read or written.
    #[error("cannot {action} '{}': {source}", path.display())]
    Io {
        /// The operation, as a verb.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A Parquet file could not be written.
    #[error("cannot write '{}': {source}", path.display())]
    Parquet {
        /// The file.
        path: PathBuf,
        /// The writer's error.
        source: parquet::errors::ParquetError,
    },
    /// A name that is not in a workload.
    #[error("unknown {kind}: {name}\nhint: {kind}s of {workload} are {known}")]
    Unknown {
        /// Table or query.
        kind: &'static str,
        /// The requested one.
        name: String,
        /// The workload.
        workload: String,
        /// The valid names.
        known: String,
    },
    /// A scale that a workload does not support.
    #[error("invalid scale: {scale}\nhint: scales are from {min} to {max}")]
    Scale {
        /// The requested scale.
        scale: f64,
        /// The smallest scale.
        min: f64,
        /// The largest scale.
        max: f64,
    },
    /// The output directory contains other data.
    #[error(
        "'{}' holds other data: {found}, not {asked}\nhint: choose another --out, or --force to replace it",
        path.display()
    )]
    OtherData {
        /// The directory.
        path: PathBuf,
        /// The existing data.
        found: String,
        /// The requested data.
        asked: String,
    },
    /// A directory does not contain the tables of a workload.
    #[error("no {workload} tables in '{}': looked for {missing}\nhint: galatea generate {workload} --out '{}'", path.display(), path.display())]
    NoData {
        /// The workload.
        workload: String,
        /// The directory.
        path: PathBuf,
        /// The missing files.
        missing: String,
    },
    /// Cancelled, by Ctrl-C or the caller.
    #[error("cancelled")]
    Cancelled,
    /// DuckDB failed.
    #[error("duckdb: {0}")]
    DuckDb(String),
    /// A figure could not be drawn.
    #[error("cannot draw '{}': {reason}", path.display())]
    Plot {
        /// The file.
        path: PathBuf,
        /// The library's error.
        reason: String,
    },
    /// A malformed line of the table of other allocators, which is a bug.
    #[error("table of other allocators: not a row: {line}")]
    Facts {
        /// The line.
        line: String,
    },
    /// Events of a stream were lost or duplicated: a defect.
    #[error("{query}: {expected} events belong in results, {found} are there")]
    Lost {
        /// The query.
        query: &'static str,
        /// Number of events that were sent and pass its filter.
        expected: u64,
        /// Number of events in its results.
        found: u64,
    },
    /// The results of a kernel and of the CPU differ: a defect of one of them.
    #[error("{what}: value {value} has {found} on the device, {expected} on the CPU")]
    WrongResult {
        /// Query or kernel.
        what: String,
        /// Number of the group; 0 for a sum without groups.
        value: usize,
        /// The CPU's result.
        expected: u64,
        /// The device's.
        found: u64,
    },
    /// A result differs from an earlier one of the same query: a defect.
    #[error("query {query}, {what}: the result differs from the first run's: {difference}")]
    Differs {
        /// The query.
        query: String,
        /// The condition of the differing run.
        what: String,
        /// The first difference.
        difference: Box<Difference>,
    },
    /// A transfer method failed.
    #[error(transparent)]
    Transfer(#[from] galatea_memory::transfer::TransferError),
    /// A clustering failed.
    #[error(transparent)]
    KMeans(#[from] galatea_kmeans::KMeansError),
    /// An experiment on device memory has no device.
    #[error(
        "no device to measure: {reason}\nhint: without a GPU, --set galatea.device=emulated shows that everything works"
    )]
    NoDevice {
        /// The reason.
        reason: String,
    },
    /// An experiment on residency has a query that keeps nothing in device memory.
    #[error("query {query} keeps nothing in device memory: {reasons}")]
    NothingResident {
        /// The query.
        query: String,
        /// The reasons that parts of it ran on the CPU.
        reasons: String,
    },
    /// Clients did not finish in time: a defect, or a much too slow machine.
    #[error("{clients} clients had no answer {seconds} s after they should have ended")]
    NoAnswer {
        /// Number of started clients.
        clients: usize,
        /// The time limit.
        seconds: u64,
    },
    /// A client's thread could not be started.
    #[error("cannot start a client: {0}")]
    Thread(std::io::Error),
    /// A conflict layout is impossible.
    #[error(transparent)]
    Layout(#[from] galatea_layout::LayoutError),
    /// An error of the device heap or the device.
    #[error(transparent)]
    Heap(#[from] galatea_memory::HeapError),
    /// A sort failed.
    #[error(transparent)]
    Sort(#[from] galatea_memory::SortError),
    /// A query failed.
    #[error(transparent)]
    DataFusion(#[from] DataFusionError),
}

impl From<galatea_device::DeviceError> for BenchError {
    fn from(error: galatea_device::DeviceError) -> Self {
        Self::Heap(error.into())
    }
}

impl BenchError {
    /// For `map_err` on an operation with a file.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::Io {
            action,
            path: path.to_path_buf(),
            source,
        }
    }

    /// For `map_err` on writing a Parquet file.
    pub(crate) fn parquet(path: &Path) -> impl Fn(parquet::errors::ParquetError) -> Self {
        move |source| Self::Parquet {
            path: path.to_path_buf(),
            source,
        }
    }
}
