//! The prompt: history, completion, highlighting, DataFusion's backslash commands.
//!
//! Where standard input is no terminal, statements are read from it and run in order; all run, whichever fails, and the exit
//! code tells.

use std::io::{self, IsTerminal, Read, Write};
use std::path::PathBuf;

use datafusion::prelude::SessionContext;
use datafusion_cli::command::{Command, OutputFormat};
use datafusion_cli::print_format::PrintFormat;
use datafusion_cli::print_options::PrintOptions;
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{CompletionType, Config, Editor};

use crate::completion::PromptHelper;
use crate::errors::{self, CliError};
use crate::interrupt::interruptible;
use crate::statements::{Printer, split};

pub(crate) async fn run(ctx: &SessionContext, printer: &mut Printer) -> Result<(), CliError> {
    if io::stdin().is_terminal() {
        interactive(ctx, printer).await
    } else {
        piped(ctx, printer).await
    }
}

async fn piped(ctx: &SessionContext, printer: &Printer) -> Result<(), CliError> {
    let mut text = String::new();
    let read = io::stdin().read_to_string(&mut text);
    read.map_err(|cause| CliError::File {
        path: PathBuf::from("standard input"),
        cause,
    })?;
    let mut failed = 0;
    for statement in split(&text) {
        match printer.run(ctx, &statement).await {
            Ok(()) => {}
            Err(CliError::Cancelled) => return Err(CliError::Cancelled),
            Err(error) => {
                errors::report(&error);
                failed += 1;
            }
        }
    }
    if failed > 0 {
        return Err(CliError::Other(format!("{failed} statement(s) failed")));
    }
    Ok(())
}

/// The file of earlier lines; none where the system has no place for it.
fn history_file() -> Option<PathBuf> {
    let directory = dirs::data_dir()?.join("galatea");
    std::fs::create_dir_all(&directory).ok()?;
    Some(directory.join("history"))
}

fn editor_failed(cause: ReadlineError) -> CliError {
    CliError::Other(format!("cannot read from the terminal: {cause}"))
}

async fn interactive(ctx: &SessionContext, printer: &mut Printer) -> Result<(), CliError> {
    if !printer.options.quiet {
        greet();
    }
    let config = Config::builder()
        .completion_type(CompletionType::List)
        .history_ignore_dups(true)
        .map_err(editor_failed)?
        .max_history_size(10_000)
        .map_err(editor_failed)?
        .build();
    let mut editor = Editor::<PromptHelper, FileHistory>::with_config(config).map_err(editor_failed)?;
    let dialect = ctx.state().config_options().sql_parser.dialect;
    editor.set_helper(Some(PromptHelper::new(&dialect, printer.options.color)));
    let history = history_file();
    if let Some(path) = &history {
        // The first time there is no file.
        let _ = editor.load_history(path);
    }
    // A second Ctrl-C in a row leaves, whether the first cancelled a query or cleared a line.
    let mut interrupted = false;
    loop {
        if let Some(helper) = editor.helper_mut() {
            helper.set_dialect(&ctx.state().config_options().sql_parser.dialect);
            helper.refresh(ctx).await;
        }
        let line = match editor.readline("> ") {
            Ok(line) => line,
            Err(ReadlineError::Interrupted) if interrupted => break,
            Err(ReadlineError::Interrupted) => {
                interrupted = true;
                let _ = writeln!(io::stdout(), "press Ctrl-C again, Ctrl-D or \\q to leave");
                if let Some(helper) = editor.helper() {
                    helper.reset_hint();
                }
                continue;
            }
            Err(ReadlineError::Eof) => break,
            Err(cause) => return Err(editor_failed(cause)),
        };
        interrupted = false;
        // A history that cannot grow is no reason to refuse a query.
        let _ = editor.add_history_entry(line.trim_end());
        let go_on = match line.strip_prefix('\\') {
            Some(command) => backslash(ctx, printer, command).await,
            None => {
                for statement in split(&line) {
                    if let Err(error) = printer.run(ctx, &statement).await {
                        errors::report(&error);
                        interrupted = matches!(error, CliError::Cancelled);
                        break;
                    }
                }
                true
            }
        };
        if !go_on {
            break;
        }
    }
    if let Some(path) = &history {
        let _ = editor.save_history(path);
    }
    Ok(())
}

fn greet() {
    let version = env!("CARGO_PKG_VERSION");
    let _ = writeln!(
        io::stdout(),
        "galatea {version} on {}. \\? for help, \\q to leave.",
        super::doctor::device_line()
    );
}

/// Runs a backslash command; false to leave.
async fn backslash(ctx: &SessionContext, printer: &mut Printer, text: &str) -> bool {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let unknown = || {
        errors::report(&CliError::Other(format!(
            "unknown command: \\{text}\nhint: \\? lists the commands"
        )));
    };
    match text.parse::<Command>() {
        Ok(Command::Quit) => return false,
        Ok(Command::OutputFormat(None)) => {
            let _ = writeln!(io::stdout(), "format is {:?}", printer.options.format);
        }
        Ok(Command::OutputFormat(Some(format))) => match format.parse::<OutputFormat>() {
            Ok(format) => {
                if let Err(error) = format.execute(&mut printer.options) {
                    errors::report(&error.into());
                }
            }
            Err(()) => unknown(),
        },
        Ok(command) => {
            let (session, mut options) = (ctx.clone(), printer.options.clone());
            // DataFusion's commands print what they list in the chosen format; chosen by nobody, it is a table.
            let chosen = options.format;
            if chosen == PrintFormat::Automatic {
                options.format = PrintFormat::Table;
            }
            let execute = move || async move { (command.execute(&session, &mut options).await, options) };
            let done = interruptible(execute).await.and_then(|(done, options)| {
                printer.options = PrintOptions {
                    format: chosen,
                    ..options
                };
                Ok(done?)
            });
            if let Err(error) = done {
                errors::report(&error);
            }
        }
        Err(()) => unknown(),
    }
    true
}
