//! `galatea bench allocator`: the device heap's experiments, the paper's outcome beside ours, and the rows
//! for keeping.

use std::io::{self, Write};

use galatea_bench::BenchError;
use galatea_bench::allocator::{self, Experiment, Extent};
use galatea_bench::machine::Machine;
use galatea_device::{Device, DeviceOptions, EmulatorOptions};

use super::bench::command_line;
use crate::arguments::{AllocatorArguments, SessionArguments};
use crate::errors::CliError;
use crate::progress::steps;

pub(crate) fn run(session: &SessionArguments, arguments: &AllocatorArguments) -> Result<(), CliError> {
    let device = if arguments.emulated {
        Device::emulated(EmulatorOptions::default(), DeviceOptions::default())
    } else {
        Device::gpu(0, DeviceOptions::default())
    }
    .map_err(BenchError::from)?;
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
    let _ = writeln!(io::stdout(), "{}", report.summary());
    if let Some(out) = &arguments.out {
        let written = report.write(out, &arguments.name, &command_line())?;
        let _ = writeln!(io::stdout(), "written to {}", written.display());
    }
    Ok(())
}
