//! The subcommands, one file each.

mod allocator;
mod analyze;
mod bench;
mod calibrate;
mod concurrency;
mod conflicts;
mod demo;
mod doctor;
mod generate;
mod kmeans;
mod prompt;
mod residency;

use std::fs;
use std::io::IsTerminal;

use datafusion::prelude::SessionContext;

use crate::arguments::{Analysis, Arguments, Color, Command, QueryArguments, SessionArguments};
use crate::errors::CliError;
use crate::session;
use crate::statements::Printer;

/// Runs what was asked for.
pub(crate) async fn run(arguments: Arguments) -> Result<(), CliError> {
    let Arguments {
        session,
        query,
        command,
    } = arguments;
    match command {
        None => queries(&session, &query).await,
        Some(Command::Demo(demo)) => demo::run(&session, &demo).await,
        Some(Command::Calibrate(calibrate)) => calibrate::run(&session, &calibrate).await,
        Some(Command::Doctor(doctor)) => doctor::run(&session, &doctor),
        Some(Command::Analyze {
            what: Analysis::Conflicts(conflicts),
        }) => analyze::run(&session, &query, &conflicts).await,
        Some(Command::Generate(generate)) => generate::run(&session, &generate).await,
        Some(Command::Bench(bench)) => bench::run(&session, &bench).await,
    }
}

/// Files first, then commands; without either, the prompt.
async fn queries(arguments: &SessionArguments, query: &QueryArguments) -> Result<(), CliError> {
    let session = session::build(arguments).await?;
    let color = match query.color {
        Color::Auto => std::io::stdout().is_terminal(),
        Color::Always => true,
        Color::Never => false,
    };
    let mut printer = Printer::new(query, arguments.quiet, color, session.stores.clone());
    if query.files.is_empty() && query.commands.is_empty() {
        return prompt::run(&session.ctx, &mut printer).await;
    }
    run_all(&session.ctx, query, &printer).await
}

/// Runs the files, then the commands.
async fn run_all(ctx: &SessionContext, query: &QueryArguments, printer: &Printer) -> Result<(), CliError> {
    for path in &query.files {
        let text = fs::read_to_string(path).map_err(|cause| CliError::File {
            path: path.clone(),
            cause,
        })?;
        printer.run_all(ctx, &text).await?;
    }
    for command in &query.commands {
        printer.run_all(ctx, command).await?;
    }
    Ok(())
}
