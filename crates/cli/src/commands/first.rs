//! `galatea bench first`: first and later runs of a workload.

use std::io::{self, Write};
use std::process::{Command, Stdio};

use galatea_bench::first_runs::{FirstRuns, Runs};
use galatea_bench::measure::Plan;
use galatea_bench::workload::{Query, Workload};
use galatea_bench::{duckdb, result};

use super::bench::{command_line, plan};
use crate::arguments::{DuckDb, FirstArguments, SessionArguments};
use crate::errors::CliError;
use crate::interrupt::interruptible;
use crate::progress::steps;

pub(crate) async fn run(session: &SessionArguments, arguments: &FirstArguments) -> Result<(), CliError> {
    let workload = Workload::from(arguments.workload);
    let common = &arguments.common;
    let plan = plan(session, workload, common).await?;
    let found = match arguments.processes {
        true => in_processes(session, &plan, arguments)?,
        false => in_session(session, &plan, arguments).await?,
    };
    let mut output = io::stdout();
    if arguments.json {
        let json = serde_json::to_string(&found).map_err(|error| CliError::Other(error.to_string()))?;
        let _ = writeln!(output, "{json}");
        return Ok(());
    }
    let _ = write!(output, "{}", found.csv());
    if let Some(out) = &common.out {
        let kind = if arguments.processes {
            "processes"
        } else {
            "session"
        };
        let name = common.name.clone();
        let name = name.unwrap_or_else(|| format!("{workload}-first-{kind}"));
        let written = result::write(out, &name, &command_line(), &found.rows)?;
        let _ = writeln!(io::stderr(), "written to {}", written.display());
    }
    if found.different.is_empty() {
        return Ok(());
    }
    let different: Vec<String> = (found.different.iter())
        .map(|(query, engine)| format!("query {query}: {engine}"))
        .collect();
    Err(CliError::Other(format!(
        "answers differ from the first one:\n{}",
        different.join("\n")
    )))
}

/// Runs all queries in one session of each engine.
async fn in_session(
    session: &SessionArguments,
    plan: &Plan,
    arguments: &FirstArguments,
) -> Result<FirstRuns, CliError> {
    let runs = Runs {
        count: arguments.runs,
        cpu: !arguments.without_cpu,
    };
    let bar = steps(
        session.quiet,
        "first runs",
        (1 + u64::from(runs.cpu)) * plan.queries.len() as u64,
    );
    let (work, progress) = (plan.clone(), bar.clone());
    let done = move |query: &Query| {
        progress.set_message(query.name.clone());
        progress.inc(1);
    };
    let mut found = interruptible(move || async move { work.first_runs(runs, done).await }).await??;
    bar.finish_and_clear();
    if arguments.common.duckdb != DuckDb::Never && duckdb::version().is_some() {
        let plan = plan.clone();
        found = interruptible(move || async move {
            plan.add_duckdb(runs, &mut found)?;
            Ok::<_, galatea_bench::BenchError>(found)
        })
        .await??;
    }
    Ok(found)
}

/// Runs each query by this command in a process of its own.
fn in_processes(
    session: &SessionArguments,
    plan: &Plan,
    arguments: &FirstArguments,
) -> Result<FirstRuns, CliError> {
    let failed = |reason: String| CliError::Other(format!("a benchmark process failed: {reason}"));
    let program = std::env::current_exe().map_err(|error| failed(error.to_string()))?;
    let bar = steps(session.quiet, "first runs", plan.queries.len() as u64);
    let mut found = FirstRuns::default();
    for query in &plan.queries {
        bar.set_message(query.name.clone());
        let mut command = Command::new(&program);
        command.args([
            "bench",
            "first",
            &plan.tables.workload.to_string(),
            "--json",
            "--quiet",
        ]);
        command.args(["--queries", &query.name]).arg("--data");
        command.arg(&plan.tables.directory);
        command.args(["--runs", &arguments.runs.to_string()]);
        if arguments.without_cpu {
            command.arg("--without-cpu");
        }
        if arguments.common.duckdb == DuckDb::Never {
            command.args(["--duckdb", "never"]);
        }
        for (name, value) in &session.settings {
            command.args(["--set", &format!("{name}={value}")]);
        }
        let output = command.stderr(Stdio::inherit()).output();
        let output = output.map_err(|error| failed(error.to_string()))?;
        if !output.status.success() {
            return Err(failed(format!("query {}: {}", query.name, output.status)));
        }
        let runs = serde_json::from_slice(&output.stdout).map_err(|error| failed(error.to_string()))?;
        found.extend(runs);
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(found)
}
