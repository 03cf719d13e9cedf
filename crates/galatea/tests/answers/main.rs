//! Queries with fixed expected answers, on the CPU and on the emulated device.
//!
//! Other suites compare two executions with each other. Only this one finds an error that both share. `cases`
//! holds single queries; the other modules use brute force over small random tables. `upstream` runs, on
//! plain DataFusion, queries that our rules correct. It fails when a rule is no longer needed.

mod cases;
mod correlated;
mod decimals;
mod floats;
mod late_columns;
mod memberships;
mod null_keys;
mod offsets;
mod plans;
mod same_names;
mod set_operations;
mod spilled_joins;
mod structs;
mod subqueries;
mod times;
mod upstream;
mod zones;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::prelude::SessionContext;

/// The devices that queries run on.
const DEVICES: [&str; 2] = ["cpu", "emulated"];

/// A session on a device.
fn session(device: &str, partitions: usize) -> SessionContext {
    galatea::session()
        .with_emulated_device(galatea::EmulatorOptions::default())
        .with_setting("galatea.device", device)
        .with_setting("galatea.tuning.min_rows", "0")
        .with_setting("datafusion.execution.target_partitions", partitions.to_string())
        .build()
        .expect("a session")
}

/// The rows of a query as sorted strings, with comma-separated values.
async fn rows(ctx: &SessionContext, sql: &str) -> Result<Vec<String>, String> {
    let frame = ctx.sql(sql).await.map_err(|error| error.to_string())?;
    let batches = frame.collect().await.map_err(|error| error.to_string())?;
    let mut rows: Vec<String> = batches.iter().flat_map(texts).collect();
    rows.sort();
    Ok(rows)
}

fn texts(batch: &RecordBatch) -> Vec<String> {
    let options = FormatOptions::default().with_null("NULL");
    let columns = batch.columns().iter();
    let columns =
        columns.map(|column| ArrayFormatter::try_new(column, &options).expect("a printable column"));
    let columns: Vec<_> = columns.collect();
    let row = |row| {
        columns
            .iter()
            .map(|column| column.value(row).to_string())
            .collect::<Vec<_>>()
    };
    (0..batch.num_rows()).map(|at| row(at).join(", ")).collect()
}

/// Checks the rows of a query on a session, in any order.
async fn check(ctx: &SessionContext, sql: &str, expected: &[&str], context: &str) {
    let mut expected: Vec<String> = expected.iter().map(ToString::to_string).collect();
    expected.sort();
    let actual = rows(ctx, sql).await;
    assert_eq!(actual, Ok(expected), "{context}\n{sql}");
}

/// Runs statements that create tables.
async fn prepare(ctx: &SessionContext, statements: &[&str]) {
    for statement in statements {
        if let Err(error) = rows(ctx, statement).await {
            panic!("{statement}\n{error}");
        }
    }
}

/// Checks queries over tables on both devices.
async fn check_all(tables: &[&str], queries: &[(&str, &[&str])]) {
    let mut failed = Vec::new();
    for device in DEVICES {
        let ctx = session(device, 4);
        prepare(&ctx, tables).await;
        for (sql, expected) in queries {
            let mut expected: Vec<String> = expected.iter().map(ToString::to_string).collect();
            expected.sort();
            let actual = rows(&ctx, sql).await;
            if actual.as_ref() != Ok(&expected) {
                failed.push(format!(
                    "{device}: {sql}\n  expected {expected:?}\n  got      {actual:?}"
                ));
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
