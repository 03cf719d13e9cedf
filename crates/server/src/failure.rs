//! Errors that a client receives, with their gRPC status and their SQLSTATE.

use std::fmt;

use arrow::error::ArrowError;
use datafusion::common::SchemaError;
use datafusion::error::DataFusionError;
use galatea::{ChangeError, RowError, SqlError};
use tonic::{Code, Status};

/// The kind of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailureKind {
    /// No credentials, or wrong ones.
    Unauthenticated,
    /// The role of the client lacks a grant.
    Denied,
    /// The statement cannot be parsed.
    Syntax,
    /// The statement refers to something wrong, or a request has wrong parameters.
    Invalid,
    /// An unknown table, or one that was replaced after its statement had been prepared.
    UnknownTable,
    /// An unknown column.
    UnknownColumn,
    /// A statement, clause or request that the server does not support.
    Unsupported,
    /// A limit of memory, rows, queries, sessions, macros or variables.
    Limit,
    /// The limit of time.
    Time,
    /// The client cancelled the query.
    Cancelled,
    /// The server shuts down.
    Stopping,
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
    /// A bug.
    Internal,
}

impl FailureKind {
    /// The value of the label `outcome` in metrics, and of the field `outcome` in logs.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Unauthenticated => "unauthenticated",
            Self::Denied => "denied",
            Self::Limit => "limit",
            Self::Time => "time",
            Self::Cancelled => "cancelled",
            Self::Stopping => "stopping",
            _ => "failed",
        }
    }

    /// The SQLSTATE of PostgreSQL.
    pub(crate) fn sqlstate(self) -> &'static str {
        match self {
            Self::Unauthenticated => "28P01",
            Self::Denied => "42501",
            Self::Syntax => "42601",
            Self::Invalid => "22023",
            Self::UnknownTable => "42P01",
            Self::UnknownColumn => "42703",
            Self::Unsupported => "0A000",
            Self::Limit => "53400",
            Self::Time | Self::Cancelled => "57014",
            Self::Stopping => "57P01",
            Self::DivisionByZero => "22012",
            Self::OutOfRange => "22003",
            Self::NotNull => "23502",
            Self::Conflict => "40001",
            Self::Data => "22000",
            Self::Internal => "XX000",
        }
    }

    fn grpc(self) -> Code {
        match self {
            Self::Unauthenticated => Code::Unauthenticated,
            Self::Denied => Code::PermissionDenied,
            Self::UnknownTable => Code::NotFound,
            Self::Unsupported => Code::Unimplemented,
            Self::Limit => Code::ResourceExhausted,
            Self::Time => Code::DeadlineExceeded,
            Self::Cancelled => Code::Cancelled,
            Self::Stopping => Code::Unavailable,
            Self::OutOfRange => Code::OutOfRange,
            Self::Conflict => Code::Aborted,
            Self::Syntax
            | Self::Invalid
            | Self::UnknownColumn
            | Self::DivisionByZero
            | Self::NotNull
            | Self::Data => Code::InvalidArgument,
            Self::Internal => Code::Internal,
        }
    }
}

/// An error that a client receives.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    pub(crate) kind: FailureKind,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
        }
    }

    /// The role lacks a grant.
    pub(crate) fn denied(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Denied, message)
    }

    /// The server does not support the request.
    pub(crate) fn unsupported(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Unsupported, message)
    }

    /// A request with wrong parameters.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Invalid, message)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

impl From<Failure> for DataFusionError {
    fn from(failure: Failure) -> Self {
        Self::External(Box::new(failure))
    }
}

impl From<Failure> for Status {
    fn from(failure: Failure) -> Self {
        Status::new(failure.kind.grpc(), failure.message)
    }
}

impl From<ArrowError> for Failure {
    fn from(error: ArrowError) -> Self {
        DataFusionError::from(error).into()
    }
}

impl From<DataFusionError> for Failure {
    fn from(error: DataFusionError) -> Self {
        let root = error.find_root();
        if let DataFusionError::External(inner) = root
            && let Some(failure) = inner.downcast_ref::<Self>()
        {
            return failure.clone();
        }
        let kind = kind_of(&error, root);
        let message = match root {
            // A syntax error is one line, the position included.
            DataFusionError::SQL(..) => root.strip_backtrace(),
            DataFusionError::External(inner) => inner.to_string(),
            _ => error.strip_backtrace(),
        };
        Self::new(kind, message)
    }
}

fn kind_of(error: &DataFusionError, root: &DataFusionError) -> FailureKind {
    if let Some(row) = RowError::of(error) {
        let message = row.to_string();
        return match message.to_ascii_lowercase() {
            message if message.contains("divi") => FailureKind::DivisionByZero,
            message if message.contains("overflow") => FailureKind::OutOfRange,
            _ => FailureKind::Data,
        };
    }
    match root {
        DataFusionError::SQL(..) => FailureKind::Syntax,
        DataFusionError::SchemaError(inner, _) => match inner.as_ref() {
            SchemaError::FieldNotFound { .. } => FailureKind::UnknownColumn,
            _ => FailureKind::Invalid,
        },
        DataFusionError::Plan(message) if is_unknown_table(message) => FailureKind::UnknownTable,
        DataFusionError::NotImplemented(_) => FailureKind::Unsupported,
        DataFusionError::ResourcesExhausted(_) => FailureKind::Limit,
        DataFusionError::ArrowError(inner, _) => match inner.as_ref() {
            ArrowError::DivideByZero => FailureKind::DivisionByZero,
            ArrowError::ArithmeticOverflow(_) => FailureKind::OutOfRange,
            _ => FailureKind::Data,
        },
        DataFusionError::External(inner) => kind_of_galatea(inner.as_ref()),
        DataFusionError::Execution(_)
        | DataFusionError::ObjectStore(_)
        | DataFusionError::ParquetError(_)
        | DataFusionError::IoError(_) => FailureKind::Data,
        DataFusionError::Internal(_) => FailureKind::Internal,
        _ => FailureKind::Invalid,
    }
}

/// The kind of an error of Galatea or of another library.
fn kind_of_galatea(error: &(dyn std::error::Error + Send + Sync + 'static)) -> FailureKind {
    match error.downcast_ref() {
        Some(SqlError::TooMany { .. }) => return FailureKind::Limit,
        Some(_) => return FailureKind::Unsupported,
        None => {}
    }
    match error.downcast_ref() {
        Some(ChangeError::NotNull { .. }) => FailureKind::NotNull,
        Some(ChangeError::Conflict { .. }) => FailureKind::Conflict,
        Some(ChangeError::Replaced { .. }) => FailureKind::UnknownTable,
        Some(ChangeError::Kind { .. } | ChangeError::Clause { .. }) => FailureKind::Unsupported,
        _ => FailureKind::Data,
    }
}

fn is_unknown_table(message: &str) -> bool {
    message.starts_with("table '") && message.contains("not found")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_a_status_and_a_sqlstate() {
        let failure: Failure = DataFusionError::Plan("table 'a.b.c' not found".to_string()).into();
        assert_eq!(failure.kind, FailureKind::UnknownTable);
        assert_eq!(failure.kind.sqlstate(), "42P01");
        assert_eq!(Status::from(failure).code(), Code::NotFound);

        let inner = DataFusionError::from(Failure::denied("no"));
        let failure: Failure = inner.context("planning").into();
        assert_eq!(
            (failure.kind, failure.message.as_str()),
            (FailureKind::Denied, "no")
        );

        let failure: Failure = ArrowError::DivideByZero.into();
        assert_eq!(failure.kind, FailureKind::DivisionByZero);
        assert_eq!(failure.kind.sqlstate(), "22012");
    }
}
