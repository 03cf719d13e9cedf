//! A session that runs statements and commands from arguments, files, standard input and the prompt.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use datafusion::prelude::SessionContext;
use datafusion_cli::object_storage::instrumented::InstrumentedObjectStoreRegistry;

use crate::backslash::{self, Next};
use crate::dot;
use crate::errors::CliError;
use crate::output::{Output, RowLimit};
use crate::remote::Remote;
use crate::script::{Input, Piece, pieces};
use crate::statements;
use galatea::Origin;

/// A session with its output options.
pub(crate) struct Shell {
    pub(crate) ctx: SessionContext,
    pub(crate) stores: Arc<InstrumentedObjectStoreRegistry>,
    pub(crate) output: Output,
    /// The server that runs the statements; `None` runs them in this process.
    pub(crate) remote: Option<Remote>,
}

/// The origin of a script.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Script<'a> {
    /// An argument or a line of the prompt, which its author sees.
    Typed,
    /// Standard input.
    Input,
    /// A file.
    File(&'a Path),
}

/// How a script ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// All of it has run.
    Through,
    /// A `\q` ended it.
    Quit,
}

impl Shell {
    /// The dialect of the session's SQL.
    pub(crate) fn dialect(&self) -> String {
        self.ctx.copied_config().options().sql_parser.dialect.to_string()
    }

    /// Runs the statements and commands of `text` in order, up to the first that fails.
    pub(crate) async fn run(&mut self, text: &str, script: Script<'_>) -> Result<Ended, CliError> {
        for Piece { line, input } in pieces(text, &self.dialect()) {
            let goes_on = match input {
                Input::Statement(sql) => {
                    let done = self.statement(&self.output, &sql).await;
                    let (file, in_script) = match script {
                        Script::Typed => (None, false),
                        Script::Input => (None, true),
                        Script::File(path) => (Some(path.to_path_buf()), true),
                    };
                    done.map_err(|error| error.begun_at(Origin { file, line }, in_script))?;
                    true
                }
                Input::Command(command) => self.command(&command).await?,
                Input::Dot(command) => match dot::command_of(&command) {
                    Some(command) => self.command(&command).await?,
                    None => {
                        return Err(CliError::Other(format!(
                            "unknown command: {command}\nhint: \\? lists the commands; .tables, .schema, .read, .output, .mode, \
                             .maxrows, .timer, .help and .quit have the meaning of DuckDB's"
                        )));
                    }
                },
            };
            if !goes_on {
                return Ok(Ended::Quit);
            }
        }
        Ok(Ended::Through)
    }

    /// Runs one statement, here or on the server.
    async fn statement(&self, output: &Output, sql: &str) -> Result<(), CliError> {
        match &self.remote {
            Some(remote) => remote.run(&self.ctx, output, sql).await,
            None => statements::run(&self.ctx, &self.stores, output, sql).await,
        }
    }

    /// Runs a command. Returns false to quit.
    async fn command(&mut self, text: &str) -> Result<bool, CliError> {
        match backslash::run(&mut self.output, text)? {
            Next::Continue => Ok(true),
            Next::Quit => Ok(false),
            Next::File(path) => Ok(Box::pin(self.run_file(&path)).await? != Ended::Quit),
            Next::Statement(sql) => {
                let whole = Output {
                    limit: RowLimit(None),
                    ..self.output.clone()
                };
                self.statement(&whole, &sql).await?;
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
        self.run(&text, Script::File(path)).await
    }
}
