//! Errors that a client receives, with their gRPC status and their SQLSTATE.

use std::fmt;

use arrow::error::ArrowError;
use datafusion::error::DataFusionError;
pub(crate) use galatea::ErrorKind;
use tonic::{Code, Status};

/// The kind of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailureKind {
    /// No credentials, or wrong ones.
    Unauthenticated,
    /// The role of the client lacks a grant.
    Denied,
    /// The server shuts down.
    Stopping,
    /// An error of a statement or of its execution.
    Query(ErrorKind),
}

impl FailureKind {
    /// The value of the label `outcome` in metrics, and of the field `outcome` in logs.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Unauthenticated => "unauthenticated",
            Self::Denied => "denied",
            Self::Stopping => "stopping",
            Self::Query(ErrorKind::Limit) => "limit",
            Self::Query(ErrorKind::Time) => "time",
            Self::Query(ErrorKind::Cancelled) => "cancelled",
            Self::Query(_) => "failed",
        }
    }

    /// The SQLSTATE of PostgreSQL.
    pub(crate) fn sqlstate(self) -> &'static str {
        match self {
            Self::Unauthenticated => "28P01",
            Self::Denied => "42501",
            Self::Stopping => "57P01",
            Self::Query(kind) => kind.sqlstate(),
        }
    }

    fn grpc(self) -> Code {
        match self {
            Self::Unauthenticated => Code::Unauthenticated,
            Self::Denied => Code::PermissionDenied,
            Self::Stopping => Code::Unavailable,
            Self::Query(kind) => match kind {
                ErrorKind::UnknownTable => Code::NotFound,
                ErrorKind::DuplicateTable => Code::AlreadyExists,
                ErrorKind::Unsupported => Code::Unimplemented,
                ErrorKind::InUse => Code::FailedPrecondition,
                ErrorKind::Limit => Code::ResourceExhausted,
                ErrorKind::Time => Code::DeadlineExceeded,
                ErrorKind::Cancelled => Code::Cancelled,
                ErrorKind::OutOfRange => Code::OutOfRange,
                ErrorKind::Conflict => Code::Aborted,
                ErrorKind::Internal => Code::Internal,
                _ => Code::InvalidArgument,
            },
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
        Self::new(FailureKind::Query(ErrorKind::Unsupported), message)
    }

    /// A request with wrong parameters.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Query(ErrorKind::Invalid), message)
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
        let kind = FailureKind::Query(ErrorKind::of(&error));
        let message = match root {
            // A syntax error is one line, the position included.
            DataFusionError::SQL(..) => root.strip_backtrace(),
            DataFusionError::External(inner) => inner.to_string(),
            _ => error.strip_backtrace(),
        };
        Self::new(kind, message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_a_status_and_a_sqlstate() {
        let failure: Failure = DataFusionError::Plan("table 'a.b.c' not found".to_string()).into();
        assert_eq!(failure.kind, FailureKind::Query(ErrorKind::UnknownTable));
        assert_eq!(failure.kind.sqlstate(), "42P01");
        assert_eq!(Status::from(failure).code(), Code::NotFound);

        let inner = DataFusionError::from(Failure::denied("no"));
        let failure: Failure = inner.context("planning").into();
        assert_eq!(
            (failure.kind, failure.message.as_str()),
            (FailureKind::Denied, "no")
        );

        let failure: Failure = ArrowError::DivideByZero.into();
        assert_eq!(failure.kind, FailureKind::Query(ErrorKind::DivisionByZero));
        assert_eq!(failure.kind.sqlstate(), "22012");
    }
}
