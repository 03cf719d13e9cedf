//! `galatea demo`: generates TPC-H once, runs a few queries, and shows the device of each and whether the
//! results of the GPU equal those of the CPU.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use datafusion::error::DataFusionError;
use datafusion::prelude::SessionContext;
use galatea::QueryDevice;
use galatea_bench::BenchError;
use galatea_bench::compare::{RowOrder, compare};
use galatea_bench::measure::{self, Run};
use galatea_bench::workload::generate::GenerateOptions;
use galatea_bench::workload::tables::Tables;
use galatea_bench::workload::{Query, Workload};

use super::doctor::device_line;
use super::generate::{data_directory, with_progress};
use crate::arguments::{DemoArguments, SessionArguments};
use crate::errors::CliError;
use crate::interrupt::interruptible;
use crate::output;
use crate::session;
use crate::statements::footer;

/// The queries that are run, of the 22 of TPC-H: scans with aggregation, joins, a CASE over LIKE, two levels
/// of aggregation.
const TPCH: [&str; 6] = ["1", "3", "6", "12", "14", "18"];

/// Number of rows of a result to show.
const SHOWN: usize = 5;

/// Ad-hoc queries over the tables.
fn ad_hoc() -> Vec<Query> {
    let query = |name: &str, title: &str, sql: &str| Query {
        name: name.to_string(),
        title: title.to_string(),
        sql: sql.to_string(),
        decided: None,
    };
    vec![
        query(
            "a",
            "How many rows",
            "SELECT count(*) AS lines, count(DISTINCT l_suppkey) AS suppliers FROM lineitem",
        ),
        query(
            "b",
            "Sales by month of 1996",
            "SELECT date_trunc('month', l_shipdate) AS month, count(*) AS lines, sum(l_extendedprice * (1 - l_discount)) AS sales \
             FROM lineitem WHERE l_shipdate >= date '1996-01-01' AND l_shipdate < date '1997-01-01' GROUP BY month ORDER BY month",
        ),
        query(
            "c",
            "Who ships late",
            "SELECT l_shipmode, avg(l_receiptdate - l_commitdate) AS days, count(*) FILTER (WHERE l_receiptdate > l_commitdate) AS late \
             FROM lineitem GROUP BY l_shipmode ORDER BY l_shipmode",
        ),
        query(
            "d",
            "Orders that mention special requests",
            "SELECT o_orderpriority, count(*) AS orders, max(o_totalprice) AS dearest \
             FROM orders WHERE o_comment LIKE '%special%requests%' GROUP BY o_orderpriority ORDER BY o_orderpriority",
        ),
    ]
}

pub(crate) async fn run(arguments: &SessionArguments, demo: &DemoArguments) -> Result<(), CliError> {
    let directory = data_directory(&format!("tpch-{}", demo.scale))?;
    say(&format!(
        "galatea {} on {}",
        env!("CARGO_PKG_VERSION"),
        device_line()
    ));
    say(&format!(
        "TPC-H at scale {} in {}",
        demo.scale,
        directory.display()
    ));
    let start = Instant::now();
    with_progress(
        GenerateOptions::new(Workload::Tpch, demo.scale, &directory),
        arguments.quiet,
    )
    .await?;
    say(&format!(
        "data ready after {:.1} s\n",
        start.elapsed().as_secs_f64()
    ));

    let tables = Tables::find(Workload::Tpch, &directory)?;
    let reference = registered(arguments, &tables, Some("cpu")).await?;
    let session = registered(arguments, &tables, None).await?;
    let names: Vec<String> = TPCH.iter().map(ToString::to_string).collect();
    let mut queries = Workload::Tpch.select(demo.scale, &names)?;
    for query in &mut queries {
        query.name = format!("TPC-H {}", query.name);
    }
    queries.extend(ad_hoc());

    let mut summary = Summary::default();
    for query in &queries {
        let (sql, ctx, reference) = (query.sql.clone(), session.clone(), reference.clone());
        let outcome = interruptible(move || async move { outcome(&sql, &ctx, &reference).await }).await??;
        show(&session, query, &outcome, arguments.quiet, &mut summary)?;
    }
    say(&summary.text());
    if summary.different > 0 {
        return Err(CliError::Other(format!(
            "{} result(s) of the GPU differ from the CPU's\nhint: this is a bug; please report it with the output above",
            summary.different
        )));
    }
    Ok(())
}

/// A session with the tables.
async fn registered(
    arguments: &SessionArguments,
    tables: &Tables,
    device: Option<&str>,
) -> Result<SessionContext, CliError> {
    let mut builder = session::builder(arguments);
    if let Some(device) = device {
        builder = builder.with_setting("galatea.device", device);
    }
    let ctx = builder.build()?;
    tables.register(&ctx).await?;
    Ok(ctx)
}

/// Two runs of a query, and a run on the CPU if they used the device.
struct Outcome {
    first: Run,
    again: Run,
    reference: Option<Run>,
}

/// Runs a query twice, since the first run reads files and compiles kernels.
async fn outcome(
    sql: &str,
    session: &SessionContext,
    reference: &SessionContext,
) -> Result<Outcome, BenchError> {
    let first = measure::run(session, sql).await?;
    let again = measure::run(session, sql).await?;
    let reference = if device(&again) == QueryDevice::Cpu {
        None
    } else {
        Some(measure::run(reference, sql).await?)
    };
    Ok(Outcome {
        first,
        again,
        reference,
    })
}

fn device(run: &Run) -> QueryDevice {
    run.report
        .as_ref()
        .map_or(QueryDevice::Cpu, |report| report.device)
}

fn show(
    session: &SessionContext,
    query: &Query,
    outcome: &Outcome,
    quiet: bool,
    summary: &mut Summary,
) -> Result<(), CliError> {
    let Outcome {
        first,
        again,
        reference,
    } = outcome;
    say(&format!("{}: {}", query.name, query.title));
    if !quiet {
        say(shown(&again.batches)?.trim_end());
    }
    let (cold, warm) = (milliseconds(first.total), milliseconds(again.total));
    let place = again
        .report
        .as_ref()
        .map(|report| footer(session, report))
        .unwrap_or_default();
    let verdict = reference
        .as_ref()
        .map(|expected| summary.check(expected, again))
        .unwrap_or_default();
    summary.count(device(again), again.total);
    say(&format!(
        "{} {}, first {cold}, then {warm}. {place}{verdict}\n",
        again.rows(),
        if again.rows() == 1 { "row" } else { "rows" }
    ));
    Ok(())
}

/// The first rows as a table.
fn shown(batches: &[RecordBatch]) -> Result<String, CliError> {
    let mut left = SHOWN;
    let mut head = Vec::new();
    for batch in batches {
        let rows = batch.num_rows().min(left);
        left -= rows;
        if rows > 0 || head.is_empty() {
            head.push(batch.slice(0, rows));
        }
    }
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    let Some(first) = head.first() else {
        return Ok(String::new());
    };
    let mut text = output::fitted(&first.schema(), &head).map_err(DataFusionError::from)?;
    if rows > SHOWN {
        text += &format!("... {} more\n", rows - SHOWN);
    }
    Ok(text)
}

fn milliseconds(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}

/// Prints to standard output. A closed output ends the demo.
fn say(text: &str) {
    let _ = writeln!(io::stdout(), "{text}");
}

#[derive(Default)]
struct Summary {
    queries: usize,
    on_gpu: usize,
    on_both: usize,
    emulated: usize,
    equal: usize,
    different: usize,
    time: Duration,
    cpu_time: Duration,
}

impl Summary {
    fn count(&mut self, device: QueryDevice, time: Duration) {
        self.queries += 1;
        self.time += time;
        match device {
            QueryDevice::Cpu => {}
            QueryDevice::Both => self.on_both += 1,
            QueryDevice::Gpu => self.on_gpu += 1,
            QueryDevice::Emulated => self.emulated += 1,
        }
    }

    /// Compares with the CPU's result and returns the outcome.
    fn check(&mut self, expected: &Run, actual: &Run) -> String {
        self.cpu_time += expected.total;
        let cpu = milliseconds(expected.total);
        // Every query here has an ORDER BY that determines the order, except for ties at a LIMIT. So the
        // order is not compared.
        match compare(&expected.batches, &actual.batches, RowOrder::Any) {
            Ok(()) => {
                self.equal += 1;
                format!(" Equal to the CPU's result ({cpu}).")
            }
            Err(difference) => {
                self.different += 1;
                format!(" DIFFERENT from the CPU's result ({cpu}): {difference}")
            }
        }
    }

    fn text(&self) -> String {
        let on_cpu = self.queries - self.on_gpu - self.on_both - self.emulated;
        let mut text = format!("{} queries in {}: ", self.queries, milliseconds(self.time));
        let places = [
            (self.on_gpu, "on the GPU"),
            (self.on_both, "on both"),
            (self.emulated, "on the emulated GPU"),
            (on_cpu, "on the CPU"),
        ];
        let places: Vec<_> = places
            .iter()
            .filter(|(n, _)| *n > 0)
            .map(|(n, place)| format!("{n} {place}"))
            .collect();
        text += &places.join(", ");
        if self.equal + self.different > 0 {
            text += &format!(
                "; {} of {} equal to the CPU's results",
                self.equal,
                self.equal + self.different
            );
        }
        text
    }
}
