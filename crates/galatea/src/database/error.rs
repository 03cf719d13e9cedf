//! Errors of databases.

use std::io;
use std::path::{Path, PathBuf};

use datafusion::error::DataFusionError;
use datafusion::parquet::errors::ParquetError;

/// An error of a database: its folder, its catalog, or one of its files.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DatabaseError {
    /// Another process has the database open.
    #[error("the database '{}' is open in another process: {process}\nhint: one process at a time uses a database; end the other one, or copy the folder after it has ended", path.display())]
    Locked {
        /// The folder.
        path: PathBuf,
        /// The process as it has written itself into the lock file.
        process: String,
    },
    /// The path is not a database, and cannot become one.
    #[error("'{}' is not a database of Galatea: {problem}\nhint: a database is a folder with a file '{}'; name a new or an empty folder", path.display(), super::catalog_file::NAME)]
    Foreign {
        /// The path.
        path: PathBuf,
        /// The problem.
        problem: String,
    },
    /// The catalog is damaged.
    #[error("the catalog '{}' is damaged: {problem}\nhint: restore the folder from a copy; the files of the tables are Parquet files below 'data'", path.display())]
    Damaged {
        /// The file of the catalog.
        path: PathBuf,
        /// The problem.
        problem: String,
    },
    /// A later version of Galatea has written the catalog.
    #[error("the database '{}' has the format {found}, and this version of Galatea reads format {known}\nhint: use the version of Galatea that wrote it", path.display())]
    Version {
        /// The folder.
        path: PathBuf,
        /// The format of the catalog.
        found: u32,
        /// The format of this version.
        known: u32,
    },
    /// A file of a table is missing or has another size.
    #[error("the file '{}' of the table {table} is damaged: {problem}\nhint: restore the folder from a copy", path.display())]
    File {
        /// The table.
        table: String,
        /// The file.
        path: PathBuf,
        /// The problem.
        problem: String,
    },
    /// A table, view or function that cannot be kept.
    #[error("{name} cannot be kept in a database: {problem}\nhint: {hint}")]
    Kind {
        /// The name.
        name: String,
        /// The problem.
        problem: String,
        /// The statement to use.
        hint: &'static str,
    },
    /// A statement on a schema that it does not allow.
    #[error("{0}")]
    Schema(String),
    /// The system failed.
    #[error("cannot {action} '{}': {cause}", path.display())]
    Io {
        /// The action.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The error of the system.
        cause: io::Error,
    },
    /// The rows of a table cannot be written as Parquet.
    #[error("cannot write the rows of the table {table}: {cause}")]
    Encode {
        /// The table.
        table: String,
        /// The error of the writer.
        cause: ParquetError,
    },
}

impl DatabaseError {
    pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |cause| Self::Io { action, path, cause }
    }
}

impl From<DatabaseError> for DataFusionError {
    fn from(error: DatabaseError) -> Self {
        Self::External(Box::new(error))
    }
}

/// A result of a database.
pub(super) type Result<T> = std::result::Result<T, DatabaseError>;
