//! `galatea bench residency`: queries with a part of their data in device memory.

use galatea_bench::machine::Machine;
use galatea_bench::residency::Plan;
use galatea_bench::workload::tables::Tables;
use galatea_bench::workload::{Query, Workload};

use super::bench::{ceilings, machine, show};
use crate::arguments::{ResidencyArguments, SessionArguments, TablesArguments};
use crate::errors::CliError;
use crate::interrupt::interruptible;
use crate::progress::steps;

pub(crate) async fn run(session: &SessionArguments, arguments: &ResidencyArguments) -> Result<(), CliError> {
    let typed = Typed::read(session, &arguments.tables)?;
    // The emulated device has no rates.
    let ceilings = if typed.emulated { None } else { ceilings() };
    let plan = Plan {
        tables: typed.tables,
        queries: typed.queries,
        shares: arguments.shares.clone(),
        iterations: arguments.iterations,
        settings: typed.settings,
        machine: typed.machine,
        ceilings,
    };
    let length = plan.queries.len() * (plan.shares.len() + 1);
    let bar = steps(session.quiet, "residency", length as u64);
    let progress = bar.clone();
    let done = move |query: &Query| {
        progress.set_message(query.name.clone());
        progress.inc(1);
    };
    let report = interruptible(move || async move { plan.measure(done).await }).await??;
    bar.finish_and_clear();
    show(&report, arguments.tables.out.as_deref(), &arguments.name)
}

/// The parameters common to the experiments on device memory.
pub(super) struct Typed {
    pub(super) tables: Tables,
    pub(super) queries: Vec<Query>,
    pub(super) settings: Vec<(String, String)>,
    pub(super) machine: Machine,
    pub(super) emulated: bool,
}

impl Typed {
    pub(super) fn read(session: &SessionArguments, arguments: &TablesArguments) -> Result<Self, CliError> {
        let workload = Workload::from(arguments.workload);
        let tables = Tables::find(workload, &arguments.data)?;
        let queries = workload.select(tables.scale, &arguments.queries)?;
        let mut settings = session.settings.clone();
        if let Some(policy) = &arguments.replacement {
            settings.push(("galatea.memory.replacement".to_string(), policy.clone()));
        }
        let device = settings.iter().rev().find(|(name, _)| name == "galatea.device");
        let emulated = device.is_some_and(|(_, device)| device.eq_ignore_ascii_case("emulated"));
        Ok(Self {
            tables,
            queries,
            settings,
            machine: machine(emulated, arguments.commit.clone()),
            emulated,
        })
    }
}
