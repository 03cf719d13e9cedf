//! `galatea bench sort`: sorts of keys beside the read ceiling, and `ORDER BY` beside the CPU.

use galatea_bench::machine::Machine;
use galatea_bench::sort::{self, Plan};

use super::bench::{open_device, show};
use crate::arguments::{SessionArguments, SortArguments};
use crate::errors::CliError;
use crate::interrupt::interruptible;
use crate::progress::steps;

pub(crate) async fn run(session: &SessionArguments, arguments: &SortArguments) -> Result<(), CliError> {
    let device = open_device(arguments.emulated)?;
    let default = |given: &[u64], gpu: &[u64], emulated: u64| match given {
        [] if arguments.emulated => vec![emulated],
        [] => gpu.to_vec(),
        given => given.to_vec(),
    };
    let mut settings = session.settings.clone();
    if arguments.emulated {
        settings.push(("galatea.device".to_string(), "emulated".to_string()));
    }
    let plan = Plan {
        rows: default(&arguments.rows, &[1 << 24, 1 << 28, 1 << 30], 20_000),
        table_rows: default(&arguments.table_rows, &[10_000_000, 100_000_000], 20_000),
        runs: arguments.runs as usize,
        settings,
        machine: Machine::look(Some(&device.info().name), arguments.commit.clone()),
    };
    let length = 4 * plan.rows.len() + 16 * plan.table_rows.len();
    let bar = steps(session.quiet, "sort", length as u64);
    let progress = bar.clone();
    let done = move |what: &str| {
        progress.set_message(what.to_string());
        progress.inc(1);
    };
    let report = interruptible(move || async move { sort::run(&device, &plan, done).await }).await??;
    bar.finish_and_clear();
    show(&report, arguments.out.as_deref(), &arguments.name)
}
