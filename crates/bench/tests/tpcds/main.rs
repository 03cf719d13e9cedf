//! TPC-DS' 99 queries over Parquet files, against fixed answers of DuckDB and PostgreSQL: once on the CPU,
//! and twice in one session on the emulated device. The second run uses the plan that the first one cached.
//!
//! This scale has one warehouse and two stores, and many of the specification's parameters select no row.
//! `small.json` replaces parts of those queries. All work is on the device; only the order of few groups, at
//! the end of a plan, is not.
//!
//! `GALATEA_TEST_DEVICE=gpu` uses a GPU. scripts/tpcds-answers writes the answers.

mod answers;
#[path = "../plans/mod.rs"]
mod plans;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use answers::Answer;
use arrow::array::RecordBatch;
use datafusion::prelude::SessionContext;
use galatea::{EmulatorOptions, SessionBuilder};
use galatea_bench::workload::generate::{GenerateOptions, NoProgress, generate};
use galatea_bench::workload::tables::Tables;
use galatea_bench::workload::{Query, Workload};
use galatea_device::environment;

const SCALE: f64 = 0.01;

/// The queries with a sort on the CPU: of few groups, after they have been returned.
const SORTED_BY_CPU: [&str; 5] = ["31", "34", "39a", "39b", "73"];

/// The reason for these.
const FEW_GROUPS: &str = "SortExec: few groups are sorted when they have been returned";

/// The queries, modified to return rows.
fn queries() -> Vec<Query> {
    let file = answers::directory().join("small.json");
    let text = std::fs::read_to_string(file).expect("the replacements");
    let mut small: BTreeMap<String, Vec<(String, String)>> =
        serde_json::from_str(&text).expect("replacements");
    let mut queries = Workload::Tpcds.select(SCALE, &[]).expect("all queries");
    for query in &mut queries {
        for (from, to) in small.remove(&query.name).unwrap_or_default() {
            assert!(query.sql.contains(&from), "query {} has no '{from}'", query.name);
            query.sql = query.sql.replace(&from, &to);
        }
    }
    assert!(small.is_empty(), "there are no queries {:?}", small.keys());
    queries
}

async fn session(builder: SessionBuilder, device: &str, tables: &Tables) -> SessionContext {
    let builder = builder
        .with_setting("galatea.device", device)
        .with_setting("galatea.tuning.min_rows", "0");
    let ctx = builder.with_file_queries(true).build().expect("a session");
    tables.register(&ctx).await.expect("tables");
    ctx
}

async fn answer(ctx: &SessionContext, sql: &str) -> Result<Vec<RecordBatch>, String> {
    let frame = ctx.sql(sql).await.map_err(|error| error.to_string())?;
    frame.collect().await.map_err(|error| error.to_string())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queries_match_answers_of_other_engines() {
    let root = tempfile::tempdir().expect("a directory");
    let options = GenerateOptions::new(Workload::Tpcds, SCALE, root.path());
    generate(&options, &NoProgress, &AtomicBool::new(false)).expect("tables");
    let tables = Tables::find(Workload::Tpcds, root.path()).expect("tables");
    let cpu = session(galatea::session(), "cpu", &tables).await;
    let (builder, device) = match environment::test_on_gpu() {
        true => (galatea::session(), "gpu"),
        false => {
            let builder = galatea::session().with_emulated_device(EmulatorOptions::default());
            (builder, "emulated")
        }
    };
    let device = session(builder, device, &tables).await;
    let mut problems = Vec::new();
    let (mut runs, mut placed, mut fell_back, mut reused) = (0, 0, 0, 0);
    let mut compile = Duration::ZERO;
    for query in queries() {
        let expected = Answer::read(&query);
        assert!(
            expected.rows() > 0,
            "the answer of query {} has no row",
            query.name
        );
        for (ctx, run) in [
            (&cpu, "the CPU"),
            (&device, "the device"),
            (&device, "the device, again"),
        ] {
            let start = Instant::now();
            let outcome = match answer(ctx, &query.sql).await {
                Ok(actual) => expected.difference(&actual),
                Err(error) => Some(error),
            };
            let mut used = String::new();
            if run == "the device" {
                let work = plans::work_on_cpu(&device, &query.sql).await;
                if !work.is_empty() {
                    problems.push(format!("query {}: {work:?} on the CPU", query.name));
                }
            }
            if run != "the CPU" {
                let report = galatea::last_query_report(&device).expect("a report");
                runs += 1;
                placed += usize::from(report.placed > 0);
                fell_back += usize::from(report.fell_back > 0);
                reused += usize::from(report.plan_reused);
                compile += report.phases.compile;
                let sorts = SORTED_BY_CPU.contains(&query.name.as_str());
                let expected: &[&str] = if sorts { &[FEW_GROUPS] } else { &[] };
                if report.fell_back > 0 || report.reasons != expected {
                    let reasons = &report.reasons;
                    problems.push(format!("query {} is partly on the CPU: {reasons:?}", query.name));
                }
                used = format!(
                    ", {} placed, {} fell back {:?}",
                    report.placed, report.fell_back, report.reasons
                );
            }
            let seconds = start.elapsed().as_secs_f64();
            let name = format!("query {} on {run}", query.name);
            let wrong = outcome.as_ref().map_or("", |_| ", WRONG");
            println!("{name}: {seconds:.2} s{used}{wrong}");
            problems.extend(outcome.map(|problem| format!("{name}: {problem}")));
        }
    }
    println!(
        "{runs} runs, {placed} used the device, {fell_back} fell back, {reused} had a kept plan, {:.0} s of compiling",
        compile.as_secs_f64()
    );
    assert!(
        problems.is_empty(),
        "{} differences\n{}",
        problems.len(),
        problems.join("\n")
    );
}
