//! Errors of the engine as errors of ADBC: a status, a SQLSTATE, and the message of the terminal.

use std::any::Any;
use std::ffi::c_char;

use adbc_core::error::{Error, Status};
use datafusion::error::DataFusionError;
use datafusion::prelude::SessionContext;
use galatea::{ErrorKind, FailedStatement, Origin, error_message, raised_at};

/// An error with this kind's status and SQLSTATE.
pub(crate) fn of_kind(kind: ErrorKind, message: impl Into<String>) -> Error {
    let mut error = Error::with_message_and_status(message, status(kind));
    for (place, letter) in error.sqlstate.iter_mut().zip(kind.sqlstate().bytes()) {
        *place = c_char::from_ne_bytes([letter]);
    }
    error
}

/// A function of ADBC, or an option, that the driver does not support.
pub(crate) fn unsupported(message: impl Into<String>) -> Error {
    of_kind(ErrorKind::Unsupported, message)
}

/// A wrong argument of a function of ADBC.
pub(crate) fn invalid(message: impl Into<String>) -> Error {
    of_kind(ErrorKind::Invalid, message)
}

/// A call in the wrong order.
pub(crate) fn wrong_state(message: impl Into<String>) -> Error {
    Error::with_message_and_status(message, Status::InvalidState)
}

/// A catalog, a schema, a table or an option that does not exist.
pub(crate) fn not_found(message: impl Into<String>) -> Error {
    Error::with_message_and_status(message, Status::NotFound)
}

/// The error of a task that has panicked.
pub(crate) fn panicked(panic: &(dyn Any + Send)) -> Error {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    let text = text.unwrap_or_else(|| "no message".to_string());
    of_kind(
        ErrorKind::Internal,
        format!("internal error: {text}\nhint: this is a bug; please report it"),
    )
}

/// An error of the engine, without a statement.
pub(crate) fn of_engine(error: &DataFusionError) -> Error {
    with_message(error, error_message(error, None))
}

/// The error of a statement. The message shows the position of the error in it.
pub(crate) async fn of_statement(ctx: &SessionContext, statement: &str, error: DataFusionError) -> Error {
    let raised = raised_at(ctx, statement, &error).await;
    let failed = FailedStatement {
        text: statement.to_string(),
        origin: Origin::default(),
        raised,
        in_script: false,
    };
    with_message(&error, error_message(&error, Some(&failed)))
}

fn with_message(error: &DataFusionError, message: String) -> Error {
    // An error of this crate that passed through a plan.
    if let DataFusionError::External(inner) = error.find_root()
        && let Some(own) = inner.downcast_ref::<Error>()
    {
        return own.clone();
    }
    of_kind(ErrorKind::of(error), message)
}

/// The status code of ADBC.
fn status(kind: ErrorKind) -> Status {
    match kind {
        ErrorKind::Syntax | ErrorKind::Invalid | ErrorKind::UnknownColumn => Status::InvalidArguments,
        ErrorKind::UnknownTable => Status::NotFound,
        ErrorKind::DuplicateTable => Status::AlreadyExists,
        ErrorKind::Unsupported => Status::NotImplemented,
        ErrorKind::InUse | ErrorKind::Conflict => Status::InvalidState,
        ErrorKind::NotNull => Status::Integrity,
        ErrorKind::Time => Status::Timeout,
        ErrorKind::Cancelled => Status::Cancelled,
        ErrorKind::DivisionByZero | ErrorKind::OutOfRange | ErrorKind::Data => Status::InvalidData,
        // ADBC has no status for exhausted memory. Clients treat this one as an error of operation.
        ErrorKind::Limit | ErrorKind::Io => Status::IO,
        ErrorKind::Internal => Status::Internal,
        _ => Status::Unknown,
    }
}
