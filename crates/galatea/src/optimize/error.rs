//! Errors of rewriting a Parquet file.

use std::path::PathBuf;

use datafusion::error::DataFusionError;
use datafusion::parquet::errors::ParquetError;

use crate::message::closest_name;

/// The reason that a file was not rewritten. The source is unchanged, and no part of the target exists.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OptimizeError {
    /// The source cannot be opened.
    #[error("cannot read '{}': {cause}", path.display())]
    Read {
        /// The source.
        path: PathBuf,
        /// The system's error.
        cause: std::io::Error,
    },
    /// The source is no Parquet file, or is damaged.
    #[error("cannot read '{}' as a Parquet file: {cause}", path.display())]
    Damaged {
        /// The source.
        path: PathBuf,
        /// The reader's error.
        cause: ParquetError,
    },
    /// The target cannot be written.
    #[error("cannot write '{}': {cause}", path.display())]
    Write {
        /// The target.
        path: PathBuf,
        /// The system's error.
        cause: std::io::Error,
    },
    /// The rows cannot be encoded.
    #[error("cannot write '{}' as a Parquet file: {cause}", path.display())]
    Encode {
        /// The target.
        path: PathBuf,
        /// The writer's error.
        cause: ParquetError,
    },
    /// The target exists.
    #[error("'{}' exists\nhint: --force replaces it", path.display())]
    Exists {
        /// The target.
        path: PathBuf,
    },
    /// A column to sort by does not exist.
    #[error("'{}' has no column {column}{}", path.display(), similar(column, columns))]
    Column {
        /// The source.
        path: PathBuf,
        /// The column as given.
        column: String,
        /// The columns of the file.
        columns: Vec<String>,
    },
    /// The rows cannot be sorted.
    #[error("cannot sort the rows of '{}': {cause}", path.display())]
    Sort {
        /// The source.
        path: PathBuf,
        /// The sort's error.
        cause: DataFusionError,
    },
    /// The rows that were written are fewer or more than those of the source.
    #[error(
        "'{}' has {read} rows, {written} were written; the target was discarded\n\
         hint: the file may have changed while it was read",
        path.display()
    )]
    Rows {
        /// The source.
        path: PathBuf,
        /// Rows of the source.
        read: u64,
        /// Rows that were written.
        written: u64,
    },
}

fn similar(column: &str, columns: &[String]) -> String {
    match closest_name(column, columns) {
        Some(similar) => format!("\nhint: a similar name is {similar}"),
        None => format!("\nhint: columns are {}", columns.join(", ")),
    }
}
