//! `galatea bench conflicts`: experiments on conflicts in shared memory, the outcome of the paper beside
//! ours, and the rows to keep.

use std::time::{SystemTime, UNIX_EPOCH};

use galatea_bench::conflicts::{self, ConflictsReport, Experiment, Extent};

use super::bench::{machine, open_device, show};
use crate::arguments::{ConflictsArguments, SessionArguments};
use crate::errors::CliError;
use crate::progress::steps;

pub(crate) fn run(session: &SessionArguments, arguments: &ConflictsArguments) -> Result<(), CliError> {
    let report = measure(session, arguments)?;
    show(&report, arguments.out.as_deref(), &arguments.name)?;
    check(&report)
}

/// Runs the experiments of the arguments.
pub(super) fn measure(
    session: &SessionArguments,
    arguments: &ConflictsArguments,
) -> Result<ConflictsReport, CliError> {
    let open = || open_device(arguments.emulated);
    let mut extent = if arguments.emulated {
        Extent::emulated()
    } else {
        Extent::paper()
    };
    if let Some(rows) = arguments.rows {
        extent = extent.at_most(rows as usize);
    }
    if !arguments.groups.is_empty() {
        extent.groups = arguments.groups.iter().map(|groups| *groups as usize).collect();
    }
    if !arguments.thetas.is_empty() {
        extent.thetas.clone_from(&arguments.thetas);
        extent.group_thetas.clone_from(&arguments.thetas);
    }
    extent.runs = arguments.runs.map_or(extent.runs, |runs| runs as usize);
    extent.seed = arguments.seed.unwrap_or_else(fresh_seed);
    let experiments = if arguments.experiments.is_empty() {
        Experiment::NAMES.map(|(_, experiment)| experiment).to_vec()
    } else {
        arguments.experiments.clone()
    };
    let machine = machine(arguments.emulated, arguments.commit.clone());
    let bar = steps(session.quiet, "conflicts", experiments.len() as u64);
    let report = conflicts::run(open, &extent, &experiments, &machine, |experiment| {
        bar.set_message(experiment.name().to_string());
        bar.inc(1);
    })?;
    bar.finish_and_clear();
    Ok(report)
}

/// An error with all experiments that failed.
pub(super) fn check(report: &ConflictsReport) -> Result<(), CliError> {
    if report.failures.is_empty() {
        return Ok(());
    }
    let failures = report.failures.iter();
    let failures = failures.map(|(experiment, error)| format!("{} failed: {error}", experiment.name()));
    Err(CliError::Other(failures.collect::<Vec<_>>().join("\n")))
}

/// The time in microseconds, so that each run has another seed.
fn fresh_seed() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(1, |since| since.as_micros() as u64)
}
