//! `galatea bench`: the queries of a workload in several modes, medians and ratios, and the rows to keep.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use galatea_bench::machine::Machine;
use galatea_bench::markdown::Table;
use galatea_bench::measure::{Ceilings, Measured, Mode, Plan};
use galatea_bench::result::{self, ResultRow, Summary, summaries};
use galatea_bench::workload::generate::GenerateOptions;
use galatea_bench::workload::tables::Tables;
use galatea_bench::workload::{Query, Workload};
use galatea_bench::{Report, duckdb};
use galatea_device::{Device, DeviceOptions, EmulatorOptions};

use super::generate::{data_directory, with_progress};
use crate::arguments::{BenchArguments, DuckDb, SessionArguments, WorkloadArguments};
use crate::errors::CliError;
use crate::interrupt::interruptible;
use crate::progress::steps;

pub(crate) async fn run(session: &SessionArguments, arguments: &BenchArguments) -> Result<(), CliError> {
    let Some(workload) = arguments.workload.map(Workload::from) else {
        return Err(CliError::Other(
            "nothing to measure\nhint: galatea bench --help".to_string(),
        ));
    };
    let common = &arguments.common;
    let plan = Plan {
        iterations: arguments.iterations,
        warmups: arguments.warmups,
        ceilings: ceilings(),
        ..plan(session, workload, common).await?
    };

    let mut rows = Vec::new();
    let mut differences = Vec::new();
    let mut first: Option<(Mode, Measured)> = None;
    for mode in &arguments.mode {
        let bar = steps(session.quiet, &mode.to_string(), plan.queries.len() as u64);
        let (work, mode, steps) = (plan.clone(), *mode, bar.clone());
        let done = move |query: &Query| {
            steps.set_message(query.name.clone());
            steps.inc(1);
        };
        let measured = interruptible(move || async move { work.measure(mode, done).await }).await??;
        bar.finish_and_clear();
        rows.extend(measured.rows.iter().cloned());
        match &first {
            Some(first) => differences.extend(differing(&plan, first, (mode, &measured))),
            None => first = Some((mode, measured)),
        }
    }
    if common.duckdb != DuckDb::Never {
        rows.extend(duckdb_rows(&plan, common.duckdb, session.quiet).await?);
    }
    let text = result::table(&rows) + "\n" + &ratios(&rows);
    let _ = writeln!(io::stdout(), "{text}");
    if let Some(out) = &common.out {
        let name = common
            .name
            .clone()
            .unwrap_or_else(|| default_name(workload, &arguments.mode));
        let written: PathBuf = result::write(out, &name, &command_line(), &rows)?;
        let _ = writeln!(io::stdout(), "written to {}", written.display());
    }
    if differences.is_empty() {
        return Ok(());
    }
    Err(CliError::Other(format!(
        "results differ between modes:\n{}",
        differences.join("\n")
    )))
}

/// The tables and queries of a workload. Without a directory, its data are generated.
pub(super) async fn plan(
    session: &SessionArguments,
    workload: Workload,
    arguments: &WorkloadArguments,
) -> Result<Plan, CliError> {
    let directory = match &arguments.data {
        Some(directory) => directory.clone(),
        None => {
            let directory = data_directory(&format!("{workload}-{}", arguments.scale))?;
            let options = GenerateOptions::new(workload, arguments.scale, &directory);
            with_progress(options, session.quiet).await?;
            directory
        }
    };
    let tables = Tables::find(workload, &directory)?;
    let queries = workload.select(tables.scale, &arguments.queries)?;
    Ok(Plan {
        tables,
        queries,
        iterations: 1,
        warmups: 0,
        settings: session.settings.clone(),
        machine: machine(false, arguments.commit.clone()),
        ceilings: None,
    })
}

/// The rates of the first GPU, measured earlier or now; `None` if no GPU exists or it cannot be measured.
pub(super) fn ceilings() -> Option<Ceilings> {
    let device = Device::gpu(0, DeviceOptions::default()).ok()?;
    match galatea_kernels::calibration(&device) {
        Ok(measured) => Some(Ceilings {
            device: measured.hbm_read,
            link: measured.h2d,
        }),
        Err(error) => {
            tracing::warn!("no ceilings: {error}");
            None
        }
    }
}

fn default_name(workload: Workload, modes: &[Mode]) -> String {
    let modes: Vec<String> = modes.iter().map(ToString::to_string).collect();
    format!("{workload}-{}", modes.join("-"))
}

/// The command line, quoted for a shell.
pub(super) fn command_line() -> String {
    let arguments: Vec<String> = std::iter::once("galatea".to_string())
        .chain(std::env::args().skip(1))
        .collect();
    // The only byte that cannot be quoted is 0, and arguments of a process do not contain it.
    shlex::try_join(arguments.iter().map(String::as_str)).unwrap_or_else(|_| arguments.join(" "))
}

/// Prints the summary of a report, and writes its files below `out`.
pub(super) fn show(report: &impl Report, out: Option<&Path>, name: &str) -> Result<(), CliError> {
    let _ = writeln!(io::stdout(), "{}", report.summary());
    if let Some(out) = out {
        let written = report.write(out, name, &command_line())?;
        let _ = writeln!(io::stdout(), "written to {}", written.display());
    }
    Ok(())
}

/// The device that experiments run on.
pub(super) fn open_device(emulated: bool) -> galatea_bench::Result<Device> {
    let options = DeviceOptions::default();
    Ok(match emulated {
        true => Device::emulated(EmulatorOptions::default(), options)?,
        false => Device::gpu(0, options)?,
    })
}

/// A second device, if the machine has one.
pub(super) fn second_device(emulated: bool) -> galatea_bench::Result<Option<Device>> {
    if emulated {
        return open_device(true).map(Some);
    }
    match galatea_device::probe().devices.get(1) {
        Some(second) => Ok(Some(Device::gpu(second.ordinal, DeviceOptions::default())?)),
        None => Ok(None),
    }
}

/// The machine that is recorded in rows.
pub(super) fn machine(emulated: bool, commit: Option<String>) -> Machine {
    let gpus = || galatea_device::probe().devices.into_iter();
    let device = match emulated {
        true => Some("emulated device".to_string()),
        false => gpus().next().map(|gpu| gpu.name),
    };
    Machine::look(device.as_deref(), commit)
}

/// Queries with different results in two modes.
fn differing(plan: &Plan, first: &(Mode, Measured), other: (Mode, &Measured)) -> Vec<String> {
    let pairs = plan
        .queries
        .iter()
        .zip(first.1.results.iter().zip(&other.1.results));
    pairs
        .filter_map(|(query, (expected, actual))| {
            let difference = query.compare(expected, actual).err()?;
            Some(format!(
                "query {}: {} against {}: {difference}",
                query.name, first.0, other.0
            ))
        })
        .collect()
}

async fn duckdb_rows(plan: &Plan, choice: DuckDb, quiet: bool) -> Result<Vec<ResultRow>, CliError> {
    let Some(version) = duckdb::version() else {
        if !quiet {
            let _ = writeln!(
                io::stderr(),
                "no DuckDB: python3 has no module duckdb (pip install duckdb)"
            );
        }
        return Ok(Vec::new());
    };
    if !quiet {
        let _ = writeln!(io::stderr(), "DuckDB {version}");
    }
    let mut rows = Vec::new();
    let in_memory = if choice == DuckDb::Both {
        vec![false, true]
    } else {
        vec![false]
    };
    for in_memory in in_memory {
        let plan = plan.clone();
        rows.extend(interruptible(move || async move { duckdb::measure(&plan, in_memory) }).await??);
    }
    Ok(rows)
}

/// Each query's medians by engine and mode, relative to the first mode.
fn ratios(rows: &[ResultRow]) -> String {
    let summaries = summaries(rows);
    let column = |row: &ResultRow| {
        let engine = row.engine.to_string();
        match row.mode == engine {
            true => engine,
            false => format!("{engine} {}", row.mode),
        }
    };
    let mut columns: Vec<String> = Vec::new();
    let mut queries: Vec<&str> = Vec::new();
    for (row, _) in &summaries {
        if !columns.contains(&column(row)) {
            columns.push(column(row));
        }
        if !queries.contains(&row.query.as_str()) {
            queries.push(&row.query);
        }
    }
    let [base, others @ ..] = columns.as_slice() else {
        return String::new();
    };
    if others.is_empty() {
        return String::new();
    }
    let find = |query: &str, name: &str| -> Option<Summary> {
        summaries
            .iter()
            .find(|(row, _)| row.query == query && column(row) == name)
            .map(|(_, summary)| *summary)
    };
    queries.retain(|query| find(query, base).is_some());
    let table = Table::of(queries).words("query", |query| *query);
    let table = others.iter().fold(table, |table, name| {
        table.reals(name, 2, |query| {
            Some(find(query, name)?.median / find(query, base)?.median)
        })
    });
    format!("How many times faster {base} is than\n\n{table}")
}
