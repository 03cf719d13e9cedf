//! Errors of rows with fixed answers, on the CPU and on the emulated device, from memory and from Parquet, in
//! 1, 2 and 16 partitions: overflow is an error, guards prevent errors, decimals are rounded exactly, casts
//! read common notations.

mod casts;
mod guarded;
mod overflow;
mod raised;
mod rounding;
mod upstream;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::prelude::SessionContext;
use std::path::Path;

/// An expected answer of a query.
#[derive(Debug, Clone, Copy)]
enum Answer {
    /// Rows, in any order, columns separated by `|`.
    Rows(&'static [&'static str]),
    /// A part of an error message.
    Error(&'static str),
}

use Answer::{Error, Rows};

/// The name of a table, and the query that creates it.
type Table = (&'static str, &'static str);

/// The storage of a table's rows.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Source {
    Memory,
    Parquet,
}

fn session(device: &str, partitions: usize, settings: &[(&str, &str)]) -> SessionContext {
    let mut builder = galatea::session()
        .with_file_queries(true)
        .with_emulated_device(galatea::EmulatorOptions::default())
        .with_setting("galatea.device", device)
        .with_setting("galatea.tuning.min_rows", "0")
        .with_setting("datafusion.execution.target_partitions", partitions.to_string());
    for (name, value) in settings {
        builder = builder.with_setting(*name, *value);
    }
    builder.build().expect("a session")
}

async fn run(ctx: &SessionContext, sql: &str) -> Result<Vec<String>, String> {
    let frame = galatea::sql(ctx, sql).await.map_err(|error| error.to_string())?;
    let batches = frame.collect().await.map_err(|error| error.to_string())?;
    let mut rows = rendered(&batches);
    rows.sort();
    Ok(rows)
}

/// Rows as strings, with columns separated by `|`.
fn rendered(batches: &[RecordBatch]) -> Vec<String> {
    let options = FormatOptions::default();
    let mut rows = Vec::new();
    for batch in batches {
        let columns = batch.columns().iter();
        let columns: Vec<_> = columns
            .map(|column| ArrayFormatter::try_new(column, &options).expect("printable"))
            .collect();
        for row in 0..batch.num_rows() {
            let cells: Vec<_> = columns
                .iter()
                .map(|column| column.value(row).to_string())
                .collect();
            rows.push(cells.join("|"));
        }
    }
    rows
}

async fn make(ctx: &SessionContext, (name, query): Table, source: Source, directory: &Path) {
    let path = directory.join(format!("{name}.parquet"));
    let statements = match source {
        Source::Memory => vec![format!("CREATE TABLE {name} AS {query}")],
        Source::Parquet => vec![
            format!("COPY ({query}) TO '{}'", path.display()),
            format!(
                "CREATE EXTERNAL TABLE {name} STORED AS PARQUET LOCATION '{}'",
                path.display()
            ),
        ],
    };
    for statement in statements {
        run(ctx, &statement)
            .await
            .unwrap_or_else(|error| panic!("{statement}\n{error}"));
    }
}

/// Checks that every query has its answer, on each device and for each storage of its rows.
async fn check(tables: &[Table], queries: &[(&str, Answer)]) {
    check_with(&[], tables, queries).await;
}

async fn check_with(settings: &[(&str, &str)], tables: &[Table], queries: &[(&str, Answer)]) {
    let sources = match tables {
        [] => &[Source::Memory][..],
        _ => &[Source::Memory, Source::Parquet],
    };
    for device in ["cpu", "emulated"] {
        for partitions in [1, 2, 16] {
            for source in sources {
                // Results of the device do not depend on the number of partitions.
                if device == "emulated" && partitions == 2 {
                    continue;
                }
                let directory = tempfile::tempdir().expect("a directory");
                let ctx = session(device, partitions, settings);
                for table in tables {
                    make(&ctx, *table, *source, directory.path()).await;
                }
                for (sql, answer) in queries {
                    let place = format!("{device}, {partitions} partitions, {source:?}\n{sql}");
                    let actual = run(&ctx, sql).await;
                    match (answer, actual) {
                        (Rows(expected), Ok(actual)) => assert_eq!(*expected, actual, "{place}"),
                        (Error(expected), Err(actual)) => {
                            assert!(actual.contains(expected), "{place}\n{actual}");
                        }
                        (expected, actual) => panic!("{place}\n{actual:?} instead of {expected:?}"),
                    }
                }
            }
        }
    }
}
