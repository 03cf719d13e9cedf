//! A session that runs statements and commands from arguments, files, standard input and the prompt.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use datafusion::prelude::SessionContext;
use datafusion_cli::object_storage::instrumented::InstrumentedObjectStoreRegistry;

use crate::backslash::{self, Next};
use crate::errors::{self, CliError};
use crate::output::{Output, RowLimit};
use crate::script::{Input, inputs};
use crate::statements;

/// A session with its way of printing.
pub(crate) struct Shell {
    pub(crate) ctx: SessionContext,
    pub(crate) stores: Arc<InstrumentedObjectStoreRegistry>,
    pub(crate) output: Output,
}

/// Handling of errors in a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnError {
    /// The statements after it do not run.
    Stop,
    /// The statements after it run; the error is shown at once.
    Continue,
}

/// How a script ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// At its end.
    Through {
        /// Statements and commands that failed.
        failed: usize,
    },
    /// At a `\q`.
    Quit,
}

impl Shell {
    /// The dialect of the session's SQL.
    pub(crate) fn dialect(&self) -> String {
        self.ctx.copied_config().options().sql_parser.dialect.to_string()
    }

    /// Runs the statements and commands of `text` in order.
    pub(crate) async fn run(&mut self, text: &str, on_error: OnError) -> Result<Ended, CliError> {
        let mut failed = 0;
        for input in inputs(text, &self.dialect()) {
            let done = match input {
                Input::Statement(sql) => statements::run(&self.ctx, &self.stores, &self.output, &sql)
                    .await
                    .map(|()| true),
                Input::Command(command) => self.command(&command).await,
            };
            match done {
                Ok(true) => {}
                Ok(false) => return Ok(Ended::Quit),
                Err(CliError::Cancelled) => return Err(CliError::Cancelled),
                Err(error) if on_error == OnError::Stop => return Err(error),
                Err(error) => {
                    errors::report(&error);
                    failed += 1;
                }
            }
        }
        Ok(Ended::Through { failed })
    }

    /// Runs a command; false to quit.
    async fn command(&mut self, text: &str) -> Result<bool, CliError> {
        match backslash::run(&mut self.output, &self.stores, text)? {
            Next::Continue => Ok(true),
            Next::Quit => Ok(false),
            Next::File(path) => Ok(Box::pin(self.run_file(&path)).await? != Ended::Quit),
            Next::Statement(sql) => {
                let whole = Output {
                    limit: RowLimit(None),
                    ..self.output.clone()
                };
                statements::run(&self.ctx, &self.stores, &whole, &sql).await?;
                Ok(true)
            }
        }
    }

    /// Runs the statements and commands of a file, up to the first that fails.
    pub(crate) async fn run_file(&mut self, path: &Path) -> Result<Ended, CliError> {
        let text = fs::read_to_string(path).map_err(|cause| CliError::File {
            path: path.to_path_buf(),
            cause,
        })?;
        self.run(&text, OnError::Stop).await
    }
}
