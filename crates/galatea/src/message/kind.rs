//! The kinds of errors that clients distinguish, with their SQLSTATE: for the Postgres protocol, Flight SQL
//! and ADBC.

use arrow::error::ArrowError;
use datafusion::common::SchemaError;
use datafusion::error::DataFusionError;
use galatea_engine::checks::RowError;
use object_store::Error as StoreError;

use crate::changes::ChangeError;
use crate::database::DatabaseError;
use crate::sql::SqlError;

/// The kind of an error of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The statement cannot be parsed.
    Syntax,
    /// The statement refers to something wrong, or a request has wrong parameters.
    Invalid,
    /// An unknown table, or one that was replaced after its statement had been prepared.
    UnknownTable,
    /// An unknown column.
    UnknownColumn,
    /// A new table has the name of another one.
    DuplicateTable,
    /// A statement, clause or request that is not supported.
    Unsupported,
    /// Another process has opened the database.
    InUse,
    /// A limit of memory, rows, queries, sessions, macros or variables.
    Limit,
    /// The limit of time.
    Time,
    /// The client cancelled the query.
    Cancelled,
    /// A row divides by zero.
    DivisionByZero,
    /// The result of an expression exceeds the range of its type.
    OutOfRange,
    /// NULL in a column that is not nullable.
    NotNull,
    /// Another statement changed the table at the same time. The client may repeat the statement.
    Conflict,
    /// Another error of the data.
    Data,
    /// A file, a folder or an object store cannot be read or written.
    Io,
    /// A bug.
    Internal,
}

impl ErrorKind {
    /// The kind of an error.
    pub fn of(error: &DataFusionError) -> Self {
        if let Some(row) = RowError::of(error) {
            return match row.to_string().to_ascii_lowercase() {
                message if message.contains("divi") => Self::DivisionByZero,
                message if message.contains("overflow") => Self::OutOfRange,
                _ => Self::Data,
            };
        }
        Self::of_root(error.find_root())
    }

    /// The kind of the innermost cause.
    fn of_root(root: &DataFusionError) -> Self {
        match root {
            DataFusionError::SQL(..) => Self::Syntax,
            DataFusionError::SchemaError(inner, _) => match inner.as_ref() {
                SchemaError::FieldNotFound { .. } => Self::UnknownColumn,
                _ => Self::Invalid,
            },
            DataFusionError::Plan(message) if is_unknown_table(message) => Self::UnknownTable,
            DataFusionError::Plan(message) | DataFusionError::Execution(message)
                if is_duplicate_table(message) =>
            {
                Self::DuplicateTable
            }
            DataFusionError::Execution(message) if is_unknown_dropped(message) => Self::UnknownTable,
            DataFusionError::NotImplemented(_) => Self::Unsupported,
            DataFusionError::ResourcesExhausted(_) => Self::Limit,
            DataFusionError::ArrowError(inner, _) => match inner.as_ref() {
                ArrowError::DivideByZero => Self::DivisionByZero,
                ArrowError::ArithmeticOverflow(_) => Self::OutOfRange,
                ArrowError::IoError(..) => Self::Io,
                _ => Self::Data,
            },
            DataFusionError::IoError(_) => Self::Io,
            DataFusionError::ObjectStore(store) => match store.as_ref() {
                StoreError::NotSupported { .. } | StoreError::NotImplemented { .. } => Self::Unsupported,
                _ => Self::Io,
            },
            DataFusionError::External(inner) => Self::of_galatea(inner.as_ref()),
            DataFusionError::Execution(_) | DataFusionError::ParquetError(_) => Self::Data,
            DataFusionError::Internal(_) => Self::Internal,
            _ => Self::Invalid,
        }
    }

    /// The kind of an error of Galatea or of another library.
    fn of_galatea(error: &(dyn std::error::Error + Send + Sync + 'static)) -> Self {
        if let Some(error) = error.downcast_ref() {
            return match error {
                SqlError::TooMany { .. } => Self::Limit,
                _ => Self::Unsupported,
            };
        }
        if let Some(error) = error.downcast_ref() {
            return match error {
                ChangeError::NotNull { .. } => Self::NotNull,
                ChangeError::Conflict { .. } => Self::Conflict,
                ChangeError::Replaced { .. } => Self::UnknownTable,
                ChangeError::Kind { .. } | ChangeError::Clause { .. } => Self::Unsupported,
            };
        }
        error.downcast_ref().map_or(Self::Data, Self::of_database)
    }

    fn of_database(error: &DatabaseError) -> Self {
        match error {
            DatabaseError::Locked { .. } => Self::InUse,
            DatabaseError::Io { .. } => Self::Io,
            DatabaseError::Kind { .. } => Self::Unsupported,
            DatabaseError::Schema(message) if is_duplicate_table(message) => Self::DuplicateTable,
            DatabaseError::Schema(_) | DatabaseError::Foreign { .. } => Self::Invalid,
            _ => Self::Data,
        }
    }

    /// The SQLSTATE of PostgreSQL.
    pub fn sqlstate(self) -> &'static str {
        match self {
            Self::Syntax => "42601",
            Self::Invalid => "22023",
            Self::UnknownTable => "42P01",
            Self::UnknownColumn => "42703",
            Self::DuplicateTable => "42P07",
            Self::Unsupported => "0A000",
            Self::InUse => "55006",
            Self::Limit => "53400",
            Self::Time | Self::Cancelled => "57014",
            Self::DivisionByZero => "22012",
            Self::OutOfRange => "22003",
            Self::NotNull => "23502",
            Self::Conflict => "40001",
            Self::Data => "22000",
            Self::Io => "58030",
            Self::Internal => "XX000",
        }
    }
}

/// DataFusion has no type for this error of its planner.
fn is_unknown_table(message: &str) -> bool {
    message.starts_with("table '") && message.contains("not found")
}

/// DataFusion's error of DROP TABLE and DROP VIEW.
fn is_unknown_dropped(message: &str) -> bool {
    (message.starts_with("Table '") || message.starts_with("View '")) && message.contains("doesn't exist")
}

/// DataFusion's errors of CREATE TABLE and CREATE VIEW, and those of schemas.
fn is_duplicate_table(message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    ["table ", "view ", "the table "]
        .iter()
        .any(|start| message.starts_with(start))
        && message.contains("already exists")
}
