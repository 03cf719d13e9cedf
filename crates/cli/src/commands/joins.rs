//! `galatea bench joins`: joins in device memory beside the rates that bound them.

use galatea_bench::joins::{Experiment, Plan};

use super::bench::{machine, show};
use crate::arguments::{JoinsArguments, SessionArguments};
use crate::errors::CliError;
use crate::interrupt::interruptible;
use crate::progress::steps;

pub(crate) async fn run(session: &SessionArguments, arguments: &JoinsArguments) -> Result<(), CliError> {
    let mut settings = session.settings.clone();
    if arguments.emulated {
        // Otherwise the CPU would collect small tables.
        for (name, value) in [("galatea.device", "emulated"), ("galatea.tuning.build_rows", "0")] {
            settings.insert(0, (name.to_string(), value.to_string()));
        }
    }
    let experiments = match arguments.experiments.as_slice() {
        [] => Experiment::WORKLOADS.to_vec(),
        given => given.to_vec(),
    };
    let plan = Plan {
        experiments,
        scale: arguments
            .scale
            .unwrap_or(if arguments.emulated { 2e-6 } else { 1.0 }),
        runs: arguments.runs as usize,
        rivals: arguments.rivals,
        settings,
        machine: machine(arguments.emulated, arguments.commit.clone()),
    };
    let bar = steps(session.quiet, "joins", plan.steps() as u64);
    let progress = bar.clone();
    let done = move |what: &str| {
        progress.set_message(what.to_string());
        progress.inc(1);
    };
    let report = interruptible(move || async move { plan.measure(done).await }).await??;
    bar.finish_and_clear();
    show(&report, arguments.out.as_deref(), &arguments.name)
}
