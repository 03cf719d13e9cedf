//! `galatea bench allocator`: the experiments on the device heap, the outcome of the paper beside ours, and
//! the rows to keep.

use galatea_bench::allocator::{self, AllocatorReport, Experiment, Extent};
use galatea_bench::machine::Machine;

use super::bench::{open_device, show};
use crate::arguments::{AllocatorArguments, SessionArguments};
use crate::errors::CliError;
use crate::progress::steps;

pub(crate) fn run(session: &SessionArguments, arguments: &AllocatorArguments) -> Result<(), CliError> {
    let report = measure(session, arguments)?;
    show(&report, arguments.out.as_deref(), &arguments.name)
}

/// Runs the experiments of the arguments.
pub(super) fn measure(
    session: &SessionArguments,
    arguments: &AllocatorArguments,
) -> Result<AllocatorReport, CliError> {
    let device = open_device(arguments.emulated)?;
    let mut extent = if arguments.emulated {
        Extent::emulated()
    } else {
        Extent::paper()
    };
    extent.runs = arguments.runs.map_or(extent.runs, |runs| runs as usize);
    extent.pool_bytes = arguments.pool.unwrap_or(extent.pool_bytes);
    let experiments = if arguments.experiments.is_empty() {
        Experiment::NAMES.map(|(_, experiment)| experiment).to_vec()
    } else {
        arguments.experiments.clone()
    };
    let machine = Machine::look(Some(&device.info().name), arguments.commit.clone());
    let bar = steps(session.quiet, "allocator", experiments.len() as u64);
    let report = allocator::run(&device, &extent, &experiments, &machine, |experiment| {
        bar.set_message(experiment.name().to_string());
        bar.inc(1);
    })?;
    bar.finish_and_clear();
    Ok(report)
}
