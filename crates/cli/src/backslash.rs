//! The prompt's own commands, which begin with a backslash.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::errors::CliError;
use crate::output::{Format, Output, Target};
use crate::statement_help;

/// Each command with its arguments and its description.
const COMMANDS: [(&str, &str); 14] = [
    ("\\?", "this list"),
    ("\\q", "quit"),
    ("\\d", "list the tables and views, also those of the system"),
    ("\\dt", "list the tables and views"),
    ("\\d TABLE", "list the columns of a table"),
    ("\\h", "list the statements that have help"),
    ("\\h STATEMENT", "the syntax of a statement"),
    ("\\i FILE", "run the statements and commands of a file"),
    ("\\o [FILE]", "write results to a file, or to the terminal again"),
    ("\\x [on|off]", "show rows as a line for each value"),
    (
        "\\timing [on|off]",
        "show the time of a statement, and of its phases on a device",
    ),
    ("\\quiet [on|off]", "print results only: no progress, no footer"),
    ("\\pset", "show the options of printing"),
    (
        "\\pset NAME VALUE",
        "set one: format, maxrows, width, pager, expanded, timing, quiet",
    ),
];

/// Statements that exist only in Galatea, and commands outside of the prompt. The help fits a screen of 24
/// lines.
const STATEMENTS: [(&str, &str); 4] = [
    (
        "SET galatea.device = 'cpu';",
        "where queries run: auto, cpu or gpu",
    ),
    (
        "EXPLAIN ANALYZE SELECT ...;",
        "what ran where, why, and for how long",
    ),
    ("SELECT * FROM galatea_memory();", "the contents of device memory"),
    (
        "galatea doctor, in the shell",
        "the GPU, and what is missing to use it",
    ),
];

/// The query of `\dt`.
const TABLES: &str = "SELECT table_catalog, table_schema, table_name, table_type FROM information_schema.tables \
                      WHERE table_schema NOT IN ('information_schema', 'pg_catalog') ORDER BY 1, 2, 3";

/// The next action of the shell after a command.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Continue with the next input.
    Continue,
    /// Quit.
    Quit,
    /// Run a statement, and show all of its rows.
    Statement(String),
    /// Run a file.
    File(PathBuf),
}

/// Runs the command `text`, given without its backslash.
pub(crate) fn run(output: &mut Output, text: &str) -> Result<Next, CliError> {
    let (name, argument) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let argument = Some(argument.trim()).filter(|argument| !argument.is_empty());
    match (name, argument) {
        ("q", None) => return Ok(Next::Quit),
        ("?", None) => output.text(&help())?,
        ("d", None) => return Ok(Next::Statement("SHOW TABLES".to_string())),
        ("dt", None) => return Ok(Next::Statement(TABLES.to_string())),
        ("d", Some(table)) => return Ok(Next::Statement(format!("SHOW COLUMNS FROM {table}"))),
        ("h", None) => output.text(&statement_help::list())?,
        ("h", Some(statement)) => {
            let help = statement_help::of(statement).ok_or_else(|| {
                usage(format!(
                    "no help on {statement}\nhint: \\h lists the statements with help"
                ))
            })?;
            output.text(&help)?;
        }
        ("i", Some(file)) => return Ok(Next::File(PathBuf::from(unquoted(file)))),
        ("o", None) => output.target = Target::default(),
        ("o", Some(file)) => {
            let path = Path::new(unquoted(file));
            output.target = Target::file(path).map_err(|cause| CliError::Written {
                path: path.to_path_buf(),
                cause,
            })?;
        }
        ("x", value) => {
            output.expanded = switch("\\x", value, output.expanded)?;
            say(output, &format!("expanded is {}", on_off(output.expanded)));
        }
        ("timing", value) => {
            output.timing = switch("\\timing", value, output.timing)?;
            say(output, &format!("timing is {}", on_off(output.timing)));
        }
        ("quiet", value) => {
            output.quiet = switch("\\quiet", value, output.quiet)?;
            say(output, &format!("quiet is {}", on_off(output.quiet)));
        }
        ("pset", None) => output.text(&options(output))?,
        ("pset", Some(option)) => set(output, option)?,
        ("i", None) => return Err(usage("\\i needs the name of a file".to_string())),
        _ => {
            return Err(usage(format!(
                "unknown command: \\{text}\nhint: \\? lists the commands"
            )));
        }
    }
    Ok(Next::Continue)
}

fn usage(message: String) -> CliError {
    CliError::Other(message)
}

/// The file name without the quotes that SQL requires around it.
fn unquoted(name: &str) -> &str {
    name.strip_prefix('\'')
        .and_then(|rest| rest.strip_suffix('\''))
        .unwrap_or(name)
}

/// The new value of a switch. Without an argument, the switch is inverted.
fn switch(command: &str, value: Option<&str>, is: bool) -> Result<bool, CliError> {
    match value.map(str::to_ascii_lowercase).as_deref() {
        None => Ok(!is),
        Some("on" | "true" | "yes" | "1") => Ok(true),
        Some("off" | "false" | "no" | "0") => Ok(false),
        Some(other) => Err(usage(format!("{command} is on or off, not {other}"))),
    }
}

fn on_off(value: bool) -> &'static str {
    if value { "on" } else { "off" }
}

fn set(output: &mut Output, option: &str) -> Result<(), CliError> {
    let (name, value) = option.split_once(char::is_whitespace).unwrap_or((option, ""));
    let value = value.trim();
    let some = Some(value).filter(|value| !value.is_empty());
    match (name, some) {
        ("expanded", value) => output.expanded = switch("expanded", value, output.expanded)?,
        ("timing", value) => output.timing = switch("timing", value, output.timing)?,
        ("quiet", value) => output.quiet = switch("quiet", value, output.quiet)?,
        ("pager", value) => output.pager = switch("pager", value, output.pager)?,
        ("format", Some(value)) => {
            output.format = <Format as clap::ValueEnum>::from_str(value, true).map_err(|_| {
                let names: Vec<String> = <Format as clap::ValueEnum>::value_variants()
                    .iter()
                    .map(ToString::to_string)
                    .collect();
                usage(format!(
                    "unknown format: {value}\nhint: formats are {}",
                    names.join(", ")
                ))
            })?;
        }
        ("maxrows", Some(value)) => output.limit = value.parse().map_err(usage)?,
        ("width", Some(value)) => output.width = value.parse().map_err(usage)?,
        ("format" | "maxrows" | "width", None) => {}
        _ => {
            return Err(usage(format!(
                "unknown option: {name}\nhint: \\pset lists the options"
            )));
        }
    }
    let all = options(output);
    let line = all
        .lines()
        .find(|line| line.split_whitespace().next() == Some(name));
    let words: Vec<&str> = line.unwrap_or_default().split_whitespace().collect();
    say(output, &words.join(" is "));
    Ok(())
}

/// The options of printing and their values.
fn options(output: &Output) -> String {
    let lines = [
        ("format", output.format.to_string()),
        ("maxrows", output.limit.to_string()),
        ("width", output.width.to_string()),
        ("pager", on_off(output.pager).to_string()),
        ("expanded", on_off(output.expanded).to_string()),
        ("timing", on_off(output.timing).to_string()),
        ("quiet", on_off(output.quiet).to_string()),
    ];
    lines
        .iter()
        .map(|(name, value)| format!("{name:<9} {value}\n"))
        .collect()
}

fn help() -> String {
    let lines = COMMANDS.iter().map(|(command, meaning)| match command.len() {
        0..=18 => format!("  {command:<18} {meaning}\n"),
        _ => format!("  {command}\n  {:<18} {meaning}\n", ""),
    });
    let mut text = String::from("Statements end with a semicolon. Commands end with their line:\n");
    text.extend(lines);
    text += "Of Galatea:\n";
    let statements = STATEMENTS
        .iter()
        .map(|(statement, meaning)| format!("  {statement:<32} {meaning}\n"));
    text.extend(statements);
    text + "Tab completes names, settings and files. Ctrl-C cancels a query, Ctrl-D quits.\n"
}

/// Reports the effect of a command on standard error, except while the start-up file runs.
fn say(output: &Output, text: &str) {
    if !output.starting {
        let _ = writeln!(io::stderr(), "{text}");
    }
}
