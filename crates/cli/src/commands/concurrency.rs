//! `galatea bench concurrency`: many clients on one device.

use std::path::Path;
use std::time::Duration;

use galatea_bench::concurrency::{ConcurrencyReport, Experiments, Plan};
use galatea_bench::workload::tables::Tables;
use galatea_bench::workload::{Query, Workload};

use super::bench::{ceilings, show};
use super::residency::Typed;
use crate::arguments::{ConcurrencyArguments, SessionArguments};
use crate::errors::CliError;
use crate::interrupt::interruptible;
use crate::progress::steps;

/// Queries of TPC-H with large joins and groups.
const LARGE: [&str; 3] = ["9", "18", "21"];

pub(crate) async fn run(
    session: &SessionArguments,
    arguments: &ConcurrencyArguments,
) -> Result<(), CliError> {
    let report = measure(session, arguments).await?;
    show(&report, arguments.tables.out.as_deref(), &arguments.name)?;
    check(&report)
}

/// Runs the experiments of the arguments.
pub(super) async fn measure(
    session: &SessionArguments,
    arguments: &ConcurrencyArguments,
) -> Result<ConcurrencyReport, CliError> {
    let mut typed = Typed::read(session, &arguments.tables)?;
    if let Some(policy) = &arguments.admission {
        let setting = ("galatea.memory.admission".to_string(), policy.clone());
        typed.settings.push(setting);
    }
    if let Some(parts) = &arguments.ablation {
        let setting = ("galatea.debug.memory_ablations".to_string(), parts.clone());
        typed.settings.push(setting);
    }
    let others = [
        arguments.pairs,
        arguments.beside,
        arguments.cancel,
        arguments.poisson,
        arguments.mixed.is_some(),
    ];
    let clients = if arguments.clients.is_empty() {
        Plan::CLIENTS.to_vec()
    } else {
        arguments
            .clients
            .iter()
            .map(|clients| *clients as usize)
            .collect()
    };
    let plan = Plan {
        tables: typed.tables,
        queries: typed.queries,
        large: arguments.mixed.as_deref().map(large).transpose()?,
        experiments: Experiments {
            clients: arguments.mixed.is_none() && !arguments.clients.is_empty() || !others.contains(&true),
            pairs: arguments.pairs,
            naive: arguments.naive,
            beside: arguments.beside,
            mixed: arguments.mixed.is_some(),
            cancel: arguments.cancel,
            open: arguments.poisson,
        },
        clients,
        time: Duration::from_secs_f64(arguments.seconds),
        limit: arguments.limit.clone(),
        seed: arguments.seed,
        settings: typed.settings,
        // The emulated device has no rates.
        ceilings: if typed.emulated { None } else { ceilings() },
        machine: typed.machine,
    };
    let bar = steps(session.quiet, "concurrency", most_steps(&plan) as u64);
    let progress = bar.clone();
    let done = move |step: &str| {
        progress.set_message(step.to_string());
        progress.inc(1);
    };
    let report = interruptible(move || async move { plan.measure(done).await }).await??;
    bar.finish_and_clear();
    Ok(report)
}

/// The large queries of TPC-H, and their tables in a directory.
fn large(root: &Path) -> Result<(Tables, Vec<Query>), CliError> {
    let tables = Tables::find(Workload::Tpch, root)?;
    let queries = Workload::Tpch.select(tables.scale, &LARGE.map(String::from))?;
    Ok((tables, queries))
}

/// An error with the number of failed queries and wrong results.
pub(super) fn check(report: &ConcurrencyReport) -> Result<(), CliError> {
    match report.defects() {
        0 => Ok(()),
        defects => Err(CliError::Other(format!(
            "{defects} queries failed or gave a wrong result, as listed"
        ))),
    }
}

/// The number of configurations if all pairs of queries read more than the limit.
fn most_steps(plan: &Plan) -> usize {
    let queries = plan.queries.len();
    let of = |wanted: bool, steps: usize| if wanted { steps } else { 0 };
    of(plan.experiments.clients, plan.clients.len())
        + of(plan.experiments.pairs, queries + queries * (queries + 1) / 2)
        + of(plan.experiments.naive, queries + queries * (queries + 1) / 2)
        + of(plan.experiments.beside, 2)
        + of(plan.experiments.mixed, 1 + 2 * plan.clients.len())
        + of(plan.experiments.cancel, queries)
        + of(plan.experiments.open, 7)
}
