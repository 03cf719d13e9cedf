//! Errors of a run on the device.

use datafusion::error::DataFusionError;
use galatea_base::reason::Reason;
use galatea_device::{DeviceError, MemoryBudget};
use galatea_expression::Raised;
use galatea_memory::regions::RegionError;
use galatea_memory::{HeapError, SortError};
use std::sync::atomic::{AtomicBool, Ordering};

/// The reason why a run has no result.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The pipeline turned out to be unsupported on the device; the CPU can run it.
    #[error("{0}")]
    Unsupported(#[from] Reason),
    /// Even the minimum that the pipeline needs does not fit.
    #[error(
        "out of device memory: {what} needs {needed} bytes, {available} of {limit} are available{}\nhint: raise galatea.memory.gpu_limit{}",
        of_query(query),
        or_lower(lower)
    )]
    Memory {
        /// The memory that was to be allocated.
        what: &'static str,
        /// Its size in bytes.
        needed: u64,
        /// Bytes left in the budget.
        available: u64,
        /// The budget.
        limit: u64,
        /// The pipeline, with the columns that it reads and their bytes; empty until it is determined.
        query: Box<str>,
        /// The setting that determined the size, if one did.
        lower: Option<&'static str>,
    },
    /// The memory for strings of group keys is full. The run may succeed with more of it.
    #[error("the memory for strings of group keys is full")]
    StringsFull,
    /// The table of the keys of a build side is full. The run may succeed in other partitions.
    #[error("the table of the keys of a build side is full")]
    KeysFull,
    /// A result that was expected to be small has many rows; another strategy may be better.
    #[error("the result has more rows than expected")]
    ManyRows,
    /// The device or its driver failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The device heap for output rows could not be created.
    #[error(transparent)]
    Heap(HeapError),
    /// A region that was spilled to the host cannot be restored.
    #[error(transparent)]
    Region(RegionError),
    /// A row raised an error.
    #[error("{0}")]
    Raised(Box<Raised>),
    /// Parts of a pipeline do not fit together: a defect, please report it.
    #[error("internal error of a pipeline (please report it): {0}")]
    Defect(String),
    /// A thread of the run ended early: a defect, please report it.
    #[error("a thread of the pipeline ended early (please report it): {0}")]
    Ended(String),
    /// Results could not be converted to Arrow arrays.
    #[error(transparent)]
    Arrow(#[from] arrow::error::ArrowError),
    /// The session's memory pool refuses a part of the result.
    #[error(transparent)]
    Pool(DataFusionError),
    /// A failure after some rows of the result had been read.
    #[error(
        "{0}\nthe query had returned rows by then, so that the CPU cannot answer it instead\nhint: raise galatea.memory.result_buffer, or set galatea.device = 'cpu'"
    )]
    Late(String),
    /// The query was cancelled.
    #[error("cancelled")]
    Cancelled,
}

fn of_query(query: &str) -> String {
    match query {
        "" => String::new(),
        query => format!(", for the pipeline: {query}"),
    }
}

fn or_lower(setting: &Option<&'static str>) -> String {
    setting.map_or_else(String::new, |setting| format!(" or lower {setting}"))
}

impl RunError {
    /// `what`, of `needed` bytes, does not fit.
    pub(crate) fn full(budget: &MemoryBudget, what: &'static str, needed: u64) -> Self {
        Self::Memory {
            what,
            needed,
            available: budget.available(),
            limit: budget.limit(),
            query: Box::default(),
            lower: None,
        }
    }

    /// Adds to an error of full memory that `setting` determined the size, which the hint then proposes to
    /// lower.
    pub(crate) fn sized_by(mut self, setting: &'static str) -> Self {
        if let Self::Memory { lower, .. } = &mut self {
            *lower = Some(setting);
        }
        self
    }

    /// Adds the description of the pipeline to an error of full memory.
    pub(crate) fn of_pipeline(mut self, description: impl FnOnce() -> String) -> Self {
        if let Self::Memory { query, .. } = &mut self {
            *query = description().into();
        }
        self
    }

    /// Whether device memory was insufficient.
    pub(crate) fn wants_memory(&self) -> bool {
        matches!(self, Self::Memory { .. } | Self::KeysFull) || self.is_full()
    }

    /// Whether the device had no memory for an operation that can be retried.
    pub(crate) fn is_full(&self) -> bool {
        matches!(self, Self::Device(error) if error.is_out_of_memory())
    }
}

impl From<RegionError> for RunError {
    fn from(error: RegionError) -> Self {
        match error {
            RegionError::Device(error) => Self::Device(error),
            error => Self::Region(error),
        }
    }
}

impl From<SortError> for RunError {
    fn from(error: SortError) -> Self {
        match error {
            SortError::Device(error) => Self::Device(error),
            SortError::Memory {
                what,
                needed,
                available,
                limit,
            } => Self::Memory {
                what,
                needed,
                available,
                limit,
                query: Box::default(),
                lower: None,
            },
            SortError::Rows { rows, limit } => Self::Unsupported(Reason::Limit {
                expression: "ORDER BY".into(),
                asked: rows,
                limit,
                unit: "rows",
            }),
            error => Self::Ended(error.to_string()),
        }
    }
}

impl From<HeapError> for RunError {
    fn from(error: HeapError) -> Self {
        match error {
            HeapError::Device(error) => Self::Device(error),
            error => Self::Heap(error),
        }
    }
}

/// Ends the run of a cancelled query.
///
/// # Errors
/// [`RunError::Cancelled`] if the query was cancelled.
pub(crate) fn check(cancelled: &AtomicBool) -> Result<(), RunError> {
    match cancelled.load(Ordering::Relaxed) {
        true => Err(RunError::Cancelled),
        false => Ok(()),
    }
}
