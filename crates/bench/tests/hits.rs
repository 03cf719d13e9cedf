//! The 43 queries of ClickBench on the emulated device, over a small generated table: all of their work is
//! done there, and each answer is that of DataFusion's CPU operators.

use std::sync::atomic::AtomicBool;

use arrow::array::RecordBatch;
use datafusion::prelude::SessionContext;
use galatea::{EmulatorOptions, SessionBuilder};
use galatea_bench::workload::generate::{GenerateOptions, NoProgress, generate};
use galatea_bench::workload::tables::Tables;
use galatea_bench::workload::{Query, Workload};

/// 20,000 rows.
const SCALE: f64 = 0.000_2;

/// Queries that the statistics of the file answer, before anything is placed.
const BY_STATISTICS: [&str; 2] = ["0", "6"];

async fn session(builder: SessionBuilder, tables: &Tables) -> SessionContext {
    let ctx = builder.with_file_queries(true).build().expect("a session");
    tables.register(&ctx).await.expect("tables");
    ctx
}

async fn answer(ctx: &SessionContext, sql: &str) -> Result<Vec<RecordBatch>, String> {
    let frame = ctx.sql(sql).await.map_err(|error| error.to_string())?;
    frame.collect().await.map_err(|error| error.to_string())
}

/// The queries, with constants that leave rows of a small table.
fn queries() -> Vec<Query> {
    let mut queries = Workload::Hits.select(SCALE, &[]).expect("all queries");
    for query in &mut queries {
        for (large, small) in [
            ("> 100000", "> 20"),
            (" OFFSET 10000", ""),
            (" OFFSET 1000", ""),
            (" OFFSET 100", ""),
        ] {
            query.sql = query.sql.replace(large, small);
        }
    }
    queries
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_query_runs_on_the_device_and_answers_as_the_cpu() {
    let root = tempfile::tempdir().expect("a directory");
    let options = GenerateOptions::new(Workload::Hits, SCALE, root.path());
    generate(&options, &NoProgress, &AtomicBool::new(false)).expect("a table");
    let tables = Tables::find(Workload::Hits, root.path()).expect("a table");
    let cpu = session(galatea::session().with_setting("galatea.device", "cpu"), &tables).await;
    // Whatever would stay on the CPU is an error, but the final order of few rows.
    let device = galatea::session()
        .with_emulated_device(EmulatorOptions::default())
        .with_setting("galatea.device", "emulated")
        .with_setting("galatea.fallback", "error");
    let device = session(device, &tables).await;
    let mut problems = Vec::new();
    for query in queries() {
        let name = &query.name;
        let expected = answer(&cpu, &query.sql).await.expect("the CPU's answer");
        if expected.iter().all(|batch| batch.num_rows() == 0) {
            problems.push(format!("query {name} finds nothing"));
        }
        match answer(&device, &query.sql).await {
            Ok(actual) => {
                let difference = query.compare(&expected, &actual).err();
                problems.extend(difference.map(|difference| format!("query {name}: {difference}")));
                let report = galatea::last_query_report(&device).expect("a report");
                if report.fell_back > 0 || (report.placed == 0) != BY_STATISTICS.contains(&name.as_str()) {
                    problems.push(format!("query {name} did not run where it should: {report:?}"));
                }
            }
            Err(error) => problems.push(format!("query {name}: {error}")),
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
