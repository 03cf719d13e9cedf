//! The exceptions of the package, with the names and the hierarchy of DB-API 2.0 (PEP 249). Messages are
//! those of the terminal.

use arrow::error::ArrowError;
use datafusion::error::DataFusionError;
use datafusion::prelude::SessionContext;
use galatea::{FailedStatement, Origin, RowError, SqlError, error_message, raised_at};
use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyWarning};
use pyo3::prelude::*;

create_exception!(
    galatea,
    Error,
    PyException,
    "The base class of all errors of galatea."
);
create_exception!(galatea, Warning, PyWarning, "A warning of galatea.");
create_exception!(
    galatea,
    InterfaceError,
    Error,
    "A value that the package cannot convert."
);
create_exception!(galatea, DatabaseError, Error, "An error of the engine.");
create_exception!(
    galatea,
    DataError,
    DatabaseError,
    "A row raised an error, such as a division by zero."
);
create_exception!(
    galatea,
    OperationalError,
    DatabaseError,
    "A file, memory or the device failed."
);
create_exception!(
    galatea,
    IntegrityError,
    DatabaseError,
    "A constraint was violated."
);
create_exception!(galatea, InternalError, DatabaseError, "A defect of the engine.");
create_exception!(
    galatea,
    ProgrammingError,
    DatabaseError,
    "Wrong SQL, an unknown table or setting."
);
create_exception!(
    galatea,
    NotSupportedError,
    DatabaseError,
    "A statement that the engine does not support."
);

/// Adds the exceptions to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("Error", py.get_type::<Error>())?;
    module.add("Warning", py.get_type::<Warning>())?;
    module.add("InterfaceError", py.get_type::<InterfaceError>())?;
    module.add("DatabaseError", py.get_type::<DatabaseError>())?;
    module.add("DataError", py.get_type::<DataError>())?;
    module.add("OperationalError", py.get_type::<OperationalError>())?;
    module.add("IntegrityError", py.get_type::<IntegrityError>())?;
    module.add("InternalError", py.get_type::<InternalError>())?;
    module.add("ProgrammingError", py.get_type::<ProgrammingError>())?;
    module.add("NotSupportedError", py.get_type::<NotSupportedError>())
}

/// An error of the engine, with the statement that failed.
#[derive(Debug)]
pub(crate) struct Failure {
    error: DataFusionError,
    statement: Option<Box<FailedStatement>>,
}

impl Failure {
    /// The failure of `statement`: the message shows the position of the error in it.
    pub(crate) async fn of_statement(ctx: &SessionContext, statement: &str, error: DataFusionError) -> Self {
        let raised = raised_at(ctx, statement, &error).await;
        Self {
            error,
            statement: Some(Box::new(FailedStatement {
                text: statement.to_string(),
                origin: Origin::default(),
                raised,
                in_script: false,
            })),
        }
    }

    /// The message, as the terminal prints it.
    pub(crate) fn message(&self) -> String {
        error_message(&self.error, self.statement.as_deref())
    }
}

impl From<DataFusionError> for Failure {
    fn from(error: DataFusionError) -> Self {
        Self {
            error,
            statement: None,
        }
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> Self {
        // An exception of Python code that planning called.
        if let Some(raised) = raised_in_python(&failure.error) {
            return raised;
        }
        let message = failure.message();
        match kind(&failure.error) {
            Kind::Data => DataError::new_err(message),
            Kind::Operational => OperationalError::new_err(message),
            Kind::Internal => InternalError::new_err(message),
            Kind::Programming => ProgrammingError::new_err(message),
            Kind::NotSupported => NotSupportedError::new_err(message),
        }
    }
}

/// The exception for an error of the engine.
pub(crate) fn exception(error: DataFusionError) -> PyErr {
    Failure::from(error).into()
}

/// The classes of errors that the engine distinguishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Data,
    Operational,
    Internal,
    Programming,
    NotSupported,
}

/// The exception that Python code raised, if that is the cause of the error.
fn raised_in_python(error: &DataFusionError) -> Option<PyErr> {
    match error.find_root() {
        DataFusionError::External(inner) => inner
            .downcast_ref::<PyErr>()
            .map(|raised| Python::attach(|py| raised.clone_ref(py))),
        _ => None,
    }
}

fn kind(error: &DataFusionError) -> Kind {
    if RowError::of(error).is_some() {
        return Kind::Data;
    }
    match error {
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => kind(inner),
        DataFusionError::Shared(inner) => kind(inner),
        DataFusionError::Collection(errors) if !errors.is_empty() => kind(&errors[0]),
        DataFusionError::SQL(..)
        | DataFusionError::Plan(_)
        | DataFusionError::Configuration(_)
        | DataFusionError::SchemaError(..) => Kind::Programming,
        DataFusionError::NotImplemented(_) => Kind::NotSupported,
        DataFusionError::Internal(_) => Kind::Internal,
        DataFusionError::ArrowError(arrow, _) => kind_of_arrow(arrow),
        DataFusionError::External(inner) => match inner.downcast_ref::<DataFusionError>() {
            Some(inner) => kind(inner),
            None => match inner.downcast_ref::<SqlError>() {
                Some(SqlError::Unsupported { .. }) => Kind::NotSupported,
                Some(_) => Kind::Programming,
                None => Kind::Operational,
            },
        },
        _ => Kind::Operational,
    }
}

fn kind_of_arrow(error: &ArrowError) -> Kind {
    match error {
        ArrowError::CastError(_)
        | ArrowError::ComputeError(_)
        | ArrowError::DivideByZero
        | ArrowError::ArithmeticOverflow(_)
        | ArrowError::InvalidArgumentError(_)
        | ArrowError::ParseError(_) => Kind::Data,
        ArrowError::NotYetImplemented(_) => Kind::NotSupported,
        _ => Kind::Operational,
    }
}
