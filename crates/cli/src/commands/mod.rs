//! The subcommands, one file each.

mod allocator;
mod analyze;
mod bench;
mod calibrate;
mod concurrency;
mod conflicts;
mod connect;
mod demo;
mod doctor;
mod first;
mod generate;
mod joins;
mod kmeans;
mod link;
mod manual;
mod optimize;
mod papers;
mod prompt;
mod random;
mod residency;
mod serve;
mod sort;
mod top;

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::time::Duration;

use crate::arguments::{
    Analysis, Arguments, Color, Command, PartBench, QueryArguments, SessionArguments, Work,
};
use crate::dot;
use crate::errors::CliError;
use crate::output::{Output, RowLimit, Target, Width};
use crate::session;
use crate::shell::{Ended, Script, Shell};

/// The time that the process waits for its background work to stop.
const STOPPING: Duration = Duration::from_millis(200);

/// The most time that the process waits for columns to be written to the column cache on disk.
const WRITING: Duration = Duration::from_secs(2);

/// Runs the command.
pub(crate) async fn run(arguments: Arguments) -> Result<(), CliError> {
    let Arguments {
        session,
        query,
        command,
        version: _,
    } = arguments;
    match command {
        None => queries(&session, &query).await,
        Some(Command::Demo(demo)) => demo::run(&session, &demo).await,
        Some(Command::Calibrate(calibrate)) => calibrate::run(&session, &calibrate).await,
        Some(Command::Doctor(doctor)) => doctor::run(&session, &doctor),
        Some(Command::Policies) => {
            let _ = io::stdout().write_all(policies().as_bytes());
            Ok(())
        }
        Some(Command::Analyze {
            what: Analysis::Conflicts(conflicts),
        }) => analyze::run(&session, &query, &conflicts).await,
        Some(Command::Generate(generate)) => generate::run(&session, &generate).await,
        Some(Command::Optimize(files)) => optimize::run(&session, &files).await,
        Some(Command::Serve(serve)) => serve::run(&session, &serve).await,
        Some(Command::Connect(connect)) => connect::run(&session, &connect).await,
        Some(Command::Top(arguments)) => top::run(&session, &arguments).await,
        Some(Command::Bench(arguments)) => match &arguments.part {
            None => bench::run(&session, &arguments).await,
            Some(PartBench::First(part)) => first::run(&session, part).await,
            Some(PartBench::Allocator(part)) => allocator::run(&session, part),
            Some(PartBench::Conflicts(part)) => conflicts::run(&session, part),
            Some(PartBench::Kmeans(part)) => kmeans::run(&session, part),
            Some(PartBench::Flow(part)) => link::flow(part).await,
            Some(PartBench::Transfer(part)) => link::transfer(part),
            Some(PartBench::Papers(part)) => papers::run(&session, part).await,
            Some(PartBench::Joins(part)) => joins::run(&session, part).await,
            Some(PartBench::Random(part)) => random::run(&session, part).await,
            Some(PartBench::Sort(part)) => sort::run(&session, part).await,
            Some(PartBench::Residency(part)) => residency::run(&session, part).await,
            Some(PartBench::Concurrency(part)) => concurrency::run(&session, part).await,
        },
        Some(Command::Completions { shell }) => {
            manual::completions(shell);
            Ok(())
        }
        Some(Command::Man { out }) => manual::man(out.as_deref()),
    }
}

/// A session with the output options of the arguments.
async fn shell(arguments: &SessionArguments, query: &QueryArguments) -> Result<Shell, CliError> {
    let session = session::build(arguments, without_input(query), query.database.as_deref()).await?;
    for (name, value) in &query.variables {
        galatea::sql(&session.ctx, &format!("SET VARIABLE {name} = {value}")).await?;
    }
    let color = match query.color {
        Color::Auto => io::stdout().is_terminal(),
        Color::Always => true,
        Color::Never => false,
    };
    let output = Output {
        format: query.format,
        expanded: false,
        limit: query.maxrows,
        width: Width::Auto,
        pager: false,
        timing: false,
        quiet: arguments.quiet,
        starting: false,
        color,
        target: Target::default(),
    };
    Ok(Shell {
        ctx: session.ctx,
        stores: session.stores,
        output,
        remote: None,
    })
}

/// Takes a database from the first argument without a flag: the folder of one, or the name of a new one.
fn take_database(query: &mut QueryArguments) {
    if query.database.is_some() {
        return;
    }
    let Some(Work::Input(input)) = query.work.0.first() else {
        return;
    };
    let path = Path::new(input);
    let is_named = path.extension().is_some_and(|extension| extension == "db");
    let is_one = path.join("catalog").is_file() && path.join("data").is_dir();
    if is_one || (is_named && !input.contains(char::is_whitespace)) {
        query.database = Some(path.to_path_buf());
        query.work.0.remove(0);
    }
}

/// The reason that queries cannot read standard input, if they cannot.
fn without_input(query: &QueryArguments) -> Option<&'static str> {
    match (io::stdin().is_terminal(), query.work.0.is_empty()) {
        (true, _) => Some("it is a terminal\nhint: redirect a file or pipe data to galatea"),
        (false, true) => {
            Some("it is the script of statements\nhint: run the script by -f, and its data is standard input")
        }
        (false, false) => None,
    }
}

/// Runs statements and files in the order of the arguments. Without any, opens the prompt.
async fn queries(arguments: &SessionArguments, query: &QueryArguments) -> Result<(), CliError> {
    if let Some(path) = &query.startup {
        // A wrong file name is reported even if the file would not be read.
        fs::File::open(path).map_err(|cause| CliError::File {
            path: path.clone(),
            cause,
        })?;
    }
    let mut query = query.clone();
    take_database(&mut query);
    let query = &query;
    let mut shell = shell(arguments, query).await?;
    let ended = prompt_or_all(&mut shell, query).await;
    if galatea::cancel_background(&shell.ctx) {
        tokio::time::sleep(STOPPING).await;
    }
    galatea::finish_column_writes(&shell.ctx, WRITING).await;
    ended
}

async fn prompt_or_all(shell: &mut Shell, query: &QueryArguments) -> Result<(), CliError> {
    if query.work.0.is_empty() {
        shell.output.pager = true;
        return prompt::run(shell, query).await;
    }
    run_all(shell, query).await
}

/// Runs statements and files up to the first that fails.
async fn run_all(shell: &mut Shell, query: &QueryArguments) -> Result<(), CliError> {
    for work in &query.work.0 {
        let ended = match work {
            Work::File(path) => shell.run_file(path).await?,
            Work::Statements(statements) => shell.run(statements, Script::Typed).await?,
            Work::Input(input) => match Path::new(input) {
                path if path.extension().is_some_and(|extension| extension == "sql") => {
                    shell.run_file(path).await?
                }
                _ => shell.run(&sql_of(shell, input)?, Script::Typed).await?,
            },
        };
        if ended == Ended::Quit {
            return Ok(());
        }
    }
    Ok(())
}

/// The statement that an argument without a flag means.
fn sql_of(shell: &Shell, input: &str) -> Result<String, CliError> {
    if dot::command_of(input).is_some() && !Path::new(input).exists() {
        return Ok(input.to_string());
    }
    let is_word = !input.contains(char::is_whitespace);
    let is_file = input == "-" || Path::new(input).exists() || (is_word && input.contains(['/', '.', '*']));
    if is_file {
        let from = format!("SELECT * FROM '{}'", input.replace('\'', "''"));
        return Ok(match shell.output.limit {
            RowLimit(Some(rows)) if shell.output.form().is_for_readers() => format!("{from} LIMIT {rows}"),
            _ => from,
        });
    }
    if !is_word || input.ends_with(';') || input.starts_with('\\') {
        return Ok(input.to_string());
    }
    let command = <Arguments as clap::CommandFactory>::command();
    let names: Vec<String> = command
        .get_subcommands()
        .map(|command| command.get_name().to_string())
        .collect();
    let meant = galatea::closest_name(input, &names)
        .map(|name| format!("did you mean galatea {name}? "))
        .unwrap_or_default();
    Err(CliError::Other(format!(
        "no such command or file: {input}\nhint: {meant}SQL goes in quotes: galatea \"SELECT 1\""
    )))
}

/// The tuning policies of the engine, one per line.
fn policies() -> String {
    let all: Vec<String> = galatea::policies::all().iter().map(ToString::to_string).collect();
    all.join("\n")
}
