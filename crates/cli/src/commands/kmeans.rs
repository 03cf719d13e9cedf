//! `galatea bench kmeans`: iterations of k-means beside the time of one read, and the rows to keep.

use galatea_bench::kmeans::{self, Experiment, KmeansReport, Plan};
use galatea_bench::machine::Machine;

use super::bench::{open_device, show};
use crate::arguments::{KmeansArguments, SessionArguments};
use crate::errors::CliError;
use crate::progress::steps;

pub(crate) fn run(session: &SessionArguments, arguments: &KmeansArguments) -> Result<(), CliError> {
    let report = measure(session, arguments)?;
    show(&report, arguments.out.as_deref(), &arguments.name)
}

/// Runs the experiments of the arguments.
pub(super) fn measure(
    session: &SessionArguments,
    arguments: &KmeansArguments,
) -> Result<KmeansReport, CliError> {
    let device = open_device(arguments.emulated)?;
    let experiments = kmeans::experiments(&arguments.experiment).map_err(CliError::Other)?;
    let sweeps = experiments.contains(&Experiment::Thesis);
    let bytes = match (arguments.emulated, sweeps) {
        (true, true) => 1 << 16,
        (true, false) => 1 << 20,
        (false, true) => 512 << 20,
        (false, false) => 2 << 30,
    };
    let plan = Plan {
        experiments,
        features: arguments.features.clone(),
        clusters: arguments.clusters.clone(),
        bytes: arguments.bytes.unwrap_or(bytes),
        runs: arguments.runs as usize,
        scores: kmeans::scores(&arguments.scores).map_err(CliError::Other)?,
        sums: kmeans::ways(&arguments.sums).map_err(CliError::Other)?,
        shapes: arguments.shapes as usize,
        shared_limit: arguments.shared,
        verified: arguments.verify.unwrap_or(if sweeps {
            kmeans::VERIFIED_OF_MANY
        } else {
            kmeans::VERIFIED
        }),
        emulated: arguments.emulated,
        machine: Machine::look(Some(&device.info().name), arguments.commit.clone()),
    };
    let bar = steps(
        session.quiet,
        "kmeans",
        (plan.features.len() * plan.clusters.len()) as u64,
    );
    let report = kmeans::run(&device, &plan, |features, clusters| {
        bar.set_message(format!("d {features} k {clusters}"));
        bar.inc(1);
    })?;
    bar.finish_and_clear();
    Ok(report)
}
