//! Errors of the store: refusals, after which the caller reads the data another way, and failures.
//!
//! [`StoreError::UnsupportedType`], [`StoreError::UnsupportedSource`], [`StoreError::SchemaMismatch`],
//! [`StoreError::StoreLimit`] and [`StoreError::HostMemory`] are refusals: the data may be fine, but the
//! store does not hold it, and the caller reads it another way. The others are failures of files, of memory
//! or of a plan that was read.

use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use datafusion::error::DataFusionError;

use crate::layout::NoLayout;

/// The setting that bounds the host memory of a [`crate::Store`].
pub const MEMORY_LIMIT_KNOB: &str = "galatea.memory.store_limit";

/// An error of the store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// A column's type has no encoding.
    #[error("column {column}: type {data_type} is not supported by the store: {reason}")]
    UnsupportedType {
        /// Name of the column.
        column: String,
        /// Its Arrow type.
        data_type: DataType,
        /// The reason why it has no encoding.
        reason: &'static str,
    },
    /// A file scan that the store cannot reproduce.
    #[error("{table} is not supported by the store: {reason}")]
    UnsupportedSource {
        /// The requested table or files.
        table: String,
        /// The unsupported property.
        reason: String,
    },
    /// The encoded columns do not fit the store's memory limit, even after every evictable column was
    /// evicted.
    #[error(
        "encoded columns of {table} need {needed} bytes, the store holds {used} in use of at most {limit} bytes\nhint: raise {knob}"
    )]
    StoreLimit {
        /// The table being loaded.
        table: String,
        /// Bytes that the requested columns need; an estimate if the load was cancelled early.
        needed: u64,
        /// Bytes that were in use and could not be evicted.
        used: u64,
        /// The limit, in bytes.
        limit: u64,
        /// The setting that raises it.
        knob: &'static str,
    },
    /// A file's contents are not of its format.
    #[error(
        "cannot read {file}{}{}: {source}\nhint: the file is cut off, damaged, or not Parquet",
        display_column(.column), display_row_group(.row_group)
    )]
    CorruptFile {
        /// Location of the file.
        file: String,
        /// The column being read, if the failure is in one.
        column: Option<String>,
        /// The Parquet row group being read, if the failure is in one.
        row_group: Option<usize>,
        /// The reader's error.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A file is encrypted, and no key was given.
    #[error(
        "cannot read {file}: the file is encrypted\nhint: encrypted files are not supported without keys; CREATE EXTERNAL TABLE takes them as options 'format.crypto.file_decryption...'"
    )]
    Encrypted {
        /// Location of the file.
        file: String,
    },
    /// A row of a file is not valid for its table.
    #[error("cannot read {file}{}{}: {reason}{}", display_place(.place), display_column(.column), display_hint(.hint))]
    BadRow {
        /// Location of the file.
        file: String,
        /// The place in the file, as `line 3`; empty if it is unknown.
        place: String,
        /// The column, if the failure is in one.
        column: Option<String>,
        /// The reason why it is not valid.
        reason: String,
        /// The remedy.
        hint: Option<String>,
    },
    /// A file of a table cannot be reached.
    #[error("cannot open {file}: {source}")]
    Io {
        /// Location of the file.
        file: String,
        /// The error of the file system or object store.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A file column cannot be read as the table's column.
    #[error("cannot read column {column} of {file} as {table_type}: {reason}")]
    SchemaMismatch {
        /// Location of the file.
        file: String,
        /// Name of the column.
        column: String,
        /// The type of the column in the table's schema.
        table_type: DataType,
        /// The reason why it cannot be read.
        reason: String,
    },
    /// A column cannot be laid out for the banks of shared memory.
    #[error("column {column} cannot have a conflict layout: {reason}")]
    NoLayout {
        /// Name of the column.
        column: String,
        /// The reason why it cannot be laid out.
        reason: NoLayout,
    },
    /// A column index beyond the table's schema.
    #[error("no column {index}: the table has {columns} columns")]
    UnknownColumn {
        /// The requested index.
        index: usize,
        /// The number of columns.
        columns: usize,
    },
    /// Host memory could not be allocated.
    #[error(
        "cannot allocate {bytes} bytes of host memory beside {used} bytes of encoded columns: {reason}\nhint: lower {knob}"
    )]
    HostMemory {
        /// The requested bytes.
        bytes: u64,
        /// Bytes of encoded columns that were in use and could not be evicted.
        used: u64,
        /// The allocator's error.
        reason: String,
        /// The setting that bounds the store's memory.
        knob: &'static str,
    },
    /// The load was cancelled: its future was dropped.
    #[error("loading was cancelled")]
    Cancelled,
    /// An Arrow kernel failed.
    #[error(transparent)]
    Arrow(#[from] ArrowError),
    /// A plan that the data is read from failed.
    #[error(transparent)]
    DataFusion(Box<DataFusionError>),
    /// An invariant of the store is broken: a bug in Galatea.
    #[error("internal error in the store, please report it: {0}")]
    Internal(String),
}

fn display_column(column: &Option<String>) -> String {
    column
        .as_ref()
        .map(|column| format!(", column {column}"))
        .unwrap_or_default()
}

fn display_place(place: &str) -> String {
    match place {
        "" => String::new(),
        place => format!(", {place}"),
    }
}

fn display_hint(hint: &Option<String>) -> String {
    hint.as_ref()
        .map(|hint| format!("\nhint: {hint}"))
        .unwrap_or_default()
}

fn display_row_group(row_group: &Option<usize>) -> String {
    row_group
        .map(|row_group| format!(", row group {row_group}"))
        .unwrap_or_default()
}

impl StoreError {
    /// Whether the store declines to hold this data, so that the caller should read it another way.
    pub fn is_refusal(&self) -> bool {
        matches!(
            self,
            Self::UnsupportedType { .. }
                | Self::UnsupportedSource { .. }
                | Self::SchemaMismatch { .. }
                | Self::StoreLimit { .. }
                | Self::HostMemory { .. }
        )
    }

    /// Whether memory was insufficient.
    pub fn is_shortage(&self) -> bool {
        matches!(self, Self::StoreLimit { .. } | Self::HostMemory { .. })
    }
}

impl From<DataFusionError> for StoreError {
    fn from(error: DataFusionError) -> Self {
        match error {
            DataFusionError::External(source) => match source.downcast::<Self>() {
                Ok(own) => *own,
                Err(source) => Self::DataFusion(Box::new(DataFusionError::External(source))),
            },
            error => Self::DataFusion(Box::new(error)),
        }
    }
}

impl From<StoreError> for DataFusionError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::DataFusion(inner) => *inner,
            StoreError::Arrow(inner) => Self::ArrowError(Box::new(inner), None),
            error => Self::External(Box::new(error)),
        }
    }
}

/// The result of a store operation.
pub type Result<T, E = StoreError> = std::result::Result<T, E>;
