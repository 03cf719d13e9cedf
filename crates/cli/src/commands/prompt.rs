//! The prompt: history, completion, highlighting, a start-up file. If standard input is not a terminal, it is
//! a script, which ends at the first statement that fails, like those of -c and -f.

use std::io::{self, IsTerminal, Read, Write};
use std::path::PathBuf;

use datafusion::prelude::SessionContext;
use galatea::GalateaConfig;
use galatea_engine::config::DeviceChoice;
use rustyline::error::{ReadlineError, Signal};
use rustyline::history::FileHistory;
use rustyline::{CompletionType, Config, Editor};

use crate::arguments::QueryArguments;
use crate::completion::PromptHelper;
use crate::errors::{self, CliError};
use crate::script::{command_of_word, is_complete};
use crate::shell::{Ended, Script, Shell};
use crate::signals;

pub(crate) async fn run(shell: &mut Shell, query: &QueryArguments) -> Result<(), CliError> {
    if io::stdin().is_terminal() {
        interactive(shell, query).await
    } else {
        piped(shell).await
    }
}

async fn piped(shell: &mut Shell) -> Result<(), CliError> {
    let mut text = String::new();
    let read = io::stdin().read_to_string(&mut text);
    read.map_err(|cause| CliError::File {
        path: PathBuf::from("standard input"),
        cause,
    })?;
    shell.run(&text, Script::Input).await?;
    Ok(())
}

/// The prompt before a statement, and the one before further lines of a statement without a semicolon.
const PROMPT: &str = "> ";
const CONTINUED: &str = ". ";

/// The file of earlier lines; `None` if the system has no directory for it.
fn history_file() -> Option<PathBuf> {
    let directory = dirs::data_dir()?.join("galatea");
    std::fs::create_dir_all(&directory).ok()?;
    Some(directory.join("history"))
}

/// The user's start-up file, if it exists.
fn startup_file() -> Option<PathBuf> {
    let path = dirs::config_dir()?.join("galatea").join("startup.sql");
    path.is_file().then_some(path)
}

fn editor_failed(cause: ReadlineError) -> CliError {
    CliError::Other(format!("cannot read from the terminal: {cause}"))
}

/// Whether Ctrl-C ended the line, as a key or, outside of the line editor, as a signal.
fn is_interrupt(cause: &ReadlineError) -> bool {
    match cause {
        ReadlineError::Interrupted | ReadlineError::Signal(Signal::Interrupt) => true,
        ReadlineError::Io(cause) => cause.kind() == io::ErrorKind::Interrupted,
        _ => false,
    }
}

async fn interactive(shell: &mut Shell, query: &QueryArguments) -> Result<(), CliError> {
    // Outside of the line editor, the terminal sends a signal, which must not end the process.
    let mut held = Some(signals::hold());
    if !shell.output.quiet {
        greet(&shell.ctx);
    }
    if !query.no_startup
        && let Some(path) = query.startup.clone().or_else(startup_file)
    {
        shell.output.starting = true;
        if let Err(error) = shell.run_file(&path).await {
            // The prompt starts even if the file fails.
            errors::report(&error);
        }
        shell.output.starting = false;
    }
    let config = Config::builder()
        .completion_type(CompletionType::List)
        .history_ignore_dups(true)
        .map_err(editor_failed)?
        .max_history_size(10_000)
        .map_err(editor_failed)?
        .build();
    let mut editor = Editor::<PromptHelper, FileHistory>::with_config(config).map_err(editor_failed)?;
    editor.set_helper(Some(PromptHelper::new(
        &shell.ctx,
        shell.output.color,
        shell.remote.is_none(),
    )));
    let history = history_file();
    if let Some(path) = &history {
        // The file does not exist at the first start.
        let _ = editor.load_history(path);
    }
    // The lines of an unfinished statement.
    let mut begun = String::new();
    loop {
        if let Some(helper) = editor.helper_mut() {
            helper.refresh(&shell.ctx, &begun).await;
        }
        match editor.readline(if begun.is_empty() { PROMPT } else { CONTINUED }) {
            Ok(line) => begun += &line,
            // Ctrl-C cancels a query or discards an unfinished statement. It never quits: if a query
            // ends before the signal arrives, the session must continue.
            Err(cause) if is_interrupt(&cause) => {
                if begun.is_empty() {
                    let _ = writeln!(io::stdout(), "Ctrl-D or \\q quits");
                }
                begun.clear();
                continue;
            }
            Err(ReadlineError::Eof) => break,
            Err(cause) => return Err(editor_failed(cause)),
        }
        if !is_complete(&begun, &shell.dialect()) {
            begun.push('\n');
            continue;
        }
        let statement = std::mem::take(&mut begun);
        // A query runs even if the history cannot be extended.
        let _ = editor.add_history_entry(statement.trim_end());
        // A second press during a query ends the process.
        drop(held.take());
        let text = command_of_word(&statement).unwrap_or(&statement);
        let done = shell.run(text, Script::Typed).await;
        held = Some(signals::hold());
        match done {
            Ok(Ended::Quit) => break,
            Ok(Ended::Through) => {}
            Err(error) => errors::report(&error),
        }
    }
    if let Some(path) = &history {
        let _ = editor.save_history(path);
    }
    Ok(())
}

fn greet(ctx: &SessionContext) {
    let version = env!("CARGO_PKG_VERSION");
    let is_emulated = GalateaConfig::of(ctx.copied_config().options()).device == DeviceChoice::Emulated;
    let device = match is_emulated {
        true => "the emulated device".to_string(),
        false => super::doctor::device_line(),
    };
    let mut text = format!("galatea {version} on {device}. \\? for help, \\q to quit.\n");
    if is_emulated {
        text +=
            "Queries run on the emulated device, which is for tests: the code of a GPU, run by the CPU.\n";
    } else if let Err(missing) = galatea_device::probe().usable() {
        text += &format!(
            "No GPU is used: {}. galatea doctor says what to do.\n",
            missing.reason
        );
    }
    let _ = io::stdout().write_all(text.as_bytes());
}
