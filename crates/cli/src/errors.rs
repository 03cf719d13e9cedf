//! Errors that end a command. `galatea::error_message` writes the messages of failed statements.

use std::io::Write;
use std::path::PathBuf;

use datafusion::common::Span;
use datafusion::error::DataFusionError;
use galatea::{FailedStatement, Origin, error_message};
use galatea_bench::BenchError;
use galatea_device::CacheRefusal;

use crate::output::is_closed;

/// An error that ends a command.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    /// A statement failed.
    #[error("{}", error_message(error, statement.as_deref()))]
    Query {
        /// The error.
        error: DataFusionError,
        /// The statement that failed; `None` if the error has another origin.
        statement: Option<Box<FailedStatement>>,
    },
    /// A generator or a measurement failed.
    #[error(transparent)]
    Bench(BenchError),
    /// The device cannot be calibrated.
    #[error(transparent)]
    Calibrate(#[from] galatea::CalibrateError),
    /// A Parquet file was not rewritten.
    #[error(transparent)]
    Optimize(#[from] galatea::OptimizeError),
    /// A server cannot start.
    #[error(transparent)]
    Server(#[from] galatea_server::ServerError),
    /// A server refused a connection or a statement.
    #[error(transparent)]
    Remote(#[from] galatea_server::ClientError),
    /// No folder is available for generated data.
    #[error("no cache folder for generated data: {0}")]
    NoCache(CacheRefusal),
    /// `--data-path` is not a directory that can be entered.
    #[error("cannot use the data path '{}': {cause}", path.display())]
    DataPath {
        /// The path as given.
        path: PathBuf,
        /// The system's error.
        cause: std::io::Error,
    },
    /// A file of `-f` cannot be read.
    #[error("cannot read '{}': {cause}", path.display())]
    File {
        /// The path as given.
        path: PathBuf,
        /// The system's error.
        cause: std::io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write '{}': {cause}", path.display())]
    Written {
        /// The path as given.
        path: PathBuf,
        /// The system's error.
        cause: std::io::Error,
    },
    /// The reader of the results has closed its end.
    #[error("standard output is closed")]
    Closed,
    /// Any other error as a string: a wrong command, or results that differ.
    #[error("{0}")]
    Other(String),
    /// Ctrl-C.
    #[error("cancelled")]
    Cancelled,
    /// A panic, caught so that the session survives.
    #[error("internal error: {0}\nhint: this is a bug; please report it with what is printed above")]
    Panicked(String),
}

impl From<BenchError> for CliError {
    fn from(error: BenchError) -> Self {
        match error {
            BenchError::DataFusion(error) => error.into(),
            BenchError::Cancelled => Self::Cancelled,
            other => Self::Bench(other),
        }
    }
}

impl From<DataFusionError> for CliError {
    fn from(error: DataFusionError) -> Self {
        if is_closed() {
            return Self::Closed;
        }
        Self::Query {
            error,
            statement: None,
        }
    }
}

impl From<std::io::Error> for CliError {
    fn from(cause: std::io::Error) -> Self {
        DataFusionError::IoError(cause).into()
    }
}

impl CliError {
    /// The failure of a statement. The message shows the position in the statement.
    pub(crate) fn of_statement(error: DataFusionError, statement: &str, raised: Option<Span>) -> Self {
        match error.into() {
            Self::Query { error, .. } => Self::Query {
                error,
                statement: Some(Box::new(FailedStatement {
                    text: statement.to_string(),
                    origin: Origin::default(),
                    raised,
                    in_script: false,
                })),
            },
            other => other,
        }
    }

    /// Sets the `origin` at which the failed statement begins.
    pub(crate) fn begun_at(mut self, origin: Origin, in_script: bool) -> Self {
        if let Self::Query {
            statement: Some(statement),
            ..
        } = &mut self
        {
            statement.origin = origin;
            statement.in_script = in_script;
        }
        self
    }

    /// The exit code of the process.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Cancelled => 130,
            Self::Closed => 0,
            _ => 1,
        }
    }
}

/// Prints `error: ...` and, below it, `hint: ...` to standard error.
pub(crate) fn report(error: &CliError) {
    if matches!(error, CliError::Closed) {
        return;
    }
    // If the terminal is closed, the message is dropped.
    let _ = writeln!(std::io::stderr(), "error: {error}");
}
