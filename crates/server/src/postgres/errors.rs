//! Failures as messages of the Postgres protocol.

use pgwire::error::{ErrorInfo, PgWireError};

use crate::failure::{ErrorKind, Failure, FailureKind};

fn info(severity: &str, failure: Failure) -> ErrorInfo {
    let (message, hint) = match failure.message.split_once("\nhint: ") {
        Some((message, hint)) => (message.to_string(), Some(hint.to_string())),
        None => (failure.message, None),
    };
    let mut info = ErrorInfo::new(severity.to_string(), failure.kind.sqlstate().to_string(), message);
    info.hint = hint;
    info
}

/// An error of a statement.
pub(super) fn error(failure: Failure) -> PgWireError {
    PgWireError::UserError(Box::new(info("ERROR", failure)))
}

/// An error that ends the connection.
pub(super) fn fatal(failure: Failure) -> PgWireError {
    PgWireError::UserError(Box::new(info("FATAL", failure)))
}

/// An error of a statement, with its SQLSTATE. A line that begins with `hint: ` is the hint.
pub(super) fn error_state(state: &str, message: impl Into<String>) -> PgWireError {
    let mut info = info(
        "ERROR",
        Failure::new(FailureKind::Query(ErrorKind::Invalid), message),
    );
    info.code = state.to_string();
    PgWireError::UserError(Box::new(info))
}

/// An error that ends the connection, with its SQLSTATE.
pub(super) fn fatal_state(state: &str, message: &str) -> PgWireError {
    PgWireError::UserError(Box::new(ErrorInfo::new(
        "FATAL".to_string(),
        state.to_string(),
        message.to_string(),
    )))
}

/// A notice that a statement had no effect.
pub(super) fn warning(message: &str) -> ErrorInfo {
    ErrorInfo::new("WARNING".to_string(), "01000".to_string(), message.to_string())
}

/// An error of the arguments of a statement.
pub(super) fn invalid(message: impl Into<String>) -> PgWireError {
    error(Failure::new(FailureKind::Query(ErrorKind::Invalid), message))
}
