//! `galatea bench kmeans`: iterations of k-means beside the read floor, and the rows for keeping.

use std::io::{self, Write};

use galatea_bench::BenchError;
use galatea_bench::kmeans::{self, Plan};
use galatea_bench::machine::Machine;
use galatea_device::{Device, DeviceOptions, EmulatorOptions};

use super::bench::command_line;
use crate::arguments::{KmeansArguments, SessionArguments};
use crate::errors::CliError;
use crate::progress::steps;

pub(crate) fn run(session: &SessionArguments, arguments: &KmeansArguments) -> Result<(), CliError> {
    let device = if arguments.emulated {
        Device::emulated(EmulatorOptions::default(), DeviceOptions::default())
    } else {
        Device::gpu(0, DeviceOptions::default())
    }
    .map_err(BenchError::from)?;
    let bytes = if arguments.emulated { 1 << 20 } else { 2 << 30 };
    let plan = Plan {
        experiments: kmeans::experiments(&arguments.experiment).map_err(CliError::Other)?,
        features: arguments.features.clone(),
        clusters: arguments.clusters.clone(),
        bytes: arguments.bytes.unwrap_or(bytes),
        runs: arguments.runs as usize,
        scores: kmeans::scores(&arguments.scores).map_err(CliError::Other)?,
        sums: kmeans::ways(&arguments.sums).map_err(CliError::Other)?,
        shapes: arguments.shapes as usize,
        shared_limit: arguments.shared,
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
    let _ = writeln!(io::stdout(), "{}", report.summary());
    if let Some(out) = &arguments.out {
        let written = report.write(out, &arguments.name, &command_line())?;
        let _ = writeln!(io::stdout(), "written to {}", written.display());
    }
    Ok(())
}
