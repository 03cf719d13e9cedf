//! `galatea bench random`: random queries on the device, compared with DataFusion's CPU operators.

use std::io::{self, Write};
use std::time::Duration;

use galatea_bench::random::{Failure, Family, Plan};

use crate::arguments::{RandomArguments, SessionArguments};
use crate::errors::CliError;
use crate::interrupt::interruptible;
use crate::progress::steps;

pub(crate) async fn run(session: &SessionArguments, arguments: &RandomArguments) -> Result<(), CliError> {
    let mut settings = session.settings.clone();
    if arguments.emulated {
        settings.insert(0, ("galatea.device".to_string(), "emulated".to_string()));
    }
    let families = match arguments.families.as_slice() {
        [] => Family::all(),
        given => given.to_vec(),
    };
    let plan = Plan {
        seed: arguments.seed,
        queries: arguments.queries,
        time: arguments.seconds.map(Duration::from_secs),
        sessions: arguments.sessions.into(),
        families,
        tables: arguments.tables,
        files: arguments.files.clone(),
        settings,
    };
    let bar = steps(session.quiet, "random", plan.queries);
    let progress = bar.clone();
    // A difference is shown immediately, because a later query may not end.
    let done = move |failures: &[Failure], queries: u64| {
        progress.set_position(queries);
        for failure in failures {
            progress.suspend(|| {
                let _ = writeln!(io::stdout(), "{failure}\n");
            });
        }
    };
    let outcome = interruptible(move || async move { plan.run(done).await }).await??;
    bar.finish_and_clear();
    let _ = writeln!(
        io::stdout(),
        "{} queries from number {}: {} differ, {} used the device, {} failed on both",
        outcome.queries,
        arguments.seed,
        outcome.failures.len(),
        outcome.on_device,
        outcome.errors
    );
    match outcome.failures.len() {
        0 => Ok(()),
        differ => Err(CliError::Other(format!(
            "{differ} of {} queries differ from DataFusion's answers",
            outcome.queries
        ))),
    }
}
