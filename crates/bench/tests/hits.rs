//! The 43 queries of ClickBench on the emulated device, over a small generated table: each answer is that of
//! DataFusion's CPU operators, and all of the work is done on the device, but for what is listed.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use arrow::array::RecordBatch;
use datafusion::prelude::SessionContext;
use galatea::{EmulatorOptions, SessionBuilder};
use galatea_bench::workload::generate::{GenerateOptions, NoProgress, generate};
use galatea_bench::workload::tables::Tables;
use galatea_bench::workload::{Query, Workload};

/// 20,000 rows.
const SCALE: f64 = 0.000_2;

/// Queries that do not run wholly on the device, and why.
const PARTLY: &[(&str, &str)] = &[];

async fn session(builder: SessionBuilder, tables: &Tables) -> SessionContext {
    let ctx = builder.with_file_queries(true).build().expect("a session");
    tables.register(&ctx).await.expect("tables");
    ctx
}

fn emulated(fallback: &str) -> SessionBuilder {
    galatea::session()
        .with_emulated_device(EmulatorOptions::default())
        .with_setting("galatea.device", "emulated")
        .with_setting("galatea.fallback", fallback)
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

fn generated(directory: &Path) -> Tables {
    let options = GenerateOptions::new(Workload::Hits, SCALE, directory);
    generate(&options, &NoProgress, &AtomicBool::new(false)).expect("a table");
    Tables::find(Workload::Hits, directory).expect("a table")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_query_is_answered_as_on_the_cpu() {
    let root = tempfile::tempdir().expect("a directory");
    let tables = generated(root.path());
    let cpu = session(galatea::session().with_setting("galatea.device", "cpu"), &tables).await;
    let strict = session(emulated("error"), &tables).await;
    let lenient = session(emulated("allow"), &tables).await;
    let mut problems = Vec::new();
    for query in queries() {
        let name = &query.name;
        let start = std::time::Instant::now();
        let expected = answer(&cpu, &query.sql).await.expect("the CPU's answer");
        let refusal = answer(&strict, &query.sql).await;
        println!("{name}: {:?} {:?}", start.elapsed(), refusal.as_ref().err());
        let listed = PARTLY
            .iter()
            .find(|(listed, _)| listed == name)
            .map(|(_, reason)| *reason);
        let actual = match (refusal, listed) {
            (Ok(actual), None) => actual,
            (Ok(actual), Some(reason)) => {
                problems.push(format!(
                    "query {name} runs wholly on the device, is listed with: {reason}"
                ));
                actual
            }
            (Err(error), listed) => {
                if !listed.is_some_and(|reason| error.contains(reason)) {
                    problems.push(format!("query {name}: {error}"));
                }
                answer(&lenient, &query.sql).await.expect("an answer")
            }
        };
        let rows = |batches: &[RecordBatch]| batches.iter().map(RecordBatch::num_rows).sum::<usize>();
        if rows(&expected) == 0 {
            problems.push(format!("query {name} finds nothing"));
        }
        if let Err(difference) = query.compare(&expected, &actual) {
            problems.push(format!("query {name}: {difference}"));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
