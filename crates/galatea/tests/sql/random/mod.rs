//! Random queries, on random tables under random settings, against DataFusion's CPU operators.
//!
//! Every seed draws tables, settings and a query from [`grammar`]. The seed and what it drew are in the
//! message of a failure. `GALATEA_SEED=17` starts there, `GALATEA_CAMPAIGN=1000` runs as many seeds more than
//! the usual few.

mod grammar;
mod shapes;

use crate::compare::{Pair, same, same_in_order};
use crate::data::{Shape, batch};
use datafusion::dataframe::DataFrameWriteOptions;
use datafusion::prelude::SessionContext;
use futures::future::join_all;
use galatea_device::environment;
use grammar::Grammar;
use rand::Rng;
use rand::seq::IndexedRandom;
use shapes::Query;
use std::path::Path;

/// Settings that force rare paths: tables that grow or collide, chunks and memory too small for comfort.
const SETTINGS: &[&[(&str, &str)]] = &[
    &[],
    &[],
    &[],
    &[("galatea.group_by", "hash"), ("galatea.hash_slots", "2")],
    &[("galatea.group_by", "hash"), ("galatea.collide_hashes", "true")],
    &[("galatea.group_by", "dense"), ("galatea.group_copies", "4")],
    &[("galatea.group_by", "copies"), ("galatea.group_combine", "runs")],
    &[
        ("galatea.gpu_memory_limit", "1 MiB"),
        ("galatea.block_threads", "32"),
    ],
    &[("galatea.gpu_memory_limit", "4 KiB")],
    &[("galatea.chunk_rows", "7"), ("galatea.cache_device", "false")],
    &[("galatea.rows_per_thread", "1"), ("galatea.block_threads", "32")],
    &[("galatea.row_output", "counted")],
    &[
        ("galatea.row_output", "heap"),
        ("galatea.gpu_memory_limit", "3 MiB"),
    ],
    &[("galatea.dimensions", "shared")],
    &[
        ("galatea.dimensions", "cache"),
        ("datafusion.execution.target_partitions", "1"),
    ],
    &[("datafusion.execution.batch_size", "3")],
];

const SHAPES: &[Shape] = &[
    Shape::Ordinary,
    Shape::Ordinary,
    Shape::Ordinary,
    Shape::Skewed,
    Shape::AllEqual,
    Shape::AllNull,
];

/// Runs `usual` seeds, and as many more as the environment says, each with queries of one shape.
async fn seeds(usual: u64, query: fn(&mut Grammar) -> Query) {
    let first = environment::seed();
    let (mut failures, mut on_device) = (Vec::new(), 0);
    for seed in first..first + usual + environment::campaign() {
        let mut grammar = Grammar::new(seed);
        let settings = *SETTINGS.choose(&mut grammar.rng).expect("not empty");
        let chunk_rows = grammar.rng.random_range(30..900).to_string();
        let mut all = vec![("galatea.chunk_rows", chunk_rows.as_str())];
        all.extend(settings);
        let pair = Pair::new(&all);
        let mut drawn = Vec::new();
        for (name, sizes) in [("t", [40, 257, 700]), ("u", [1, 33, 120]), ("w", [0, 8, 60])] {
            let rows = *sizes.choose(&mut grammar.rng).expect("not empty");
            let shape = *SHAPES.choose(&mut grammar.rng).expect("not empty");
            pair.table(name, &[batch(rows, grammar.rng.random(), shape)]);
            drawn.push(format!("{name}: {rows} rows, {shape:?}"));
        }
        let query = query(&mut grammar);
        let same = if query.ordered { same_in_order } else { same };
        let compared = pair.compare(&query.sql, same).await;
        let report = galatea::last_query_report(&pair.gpu);
        on_device += u64::from(report.is_some_and(|report| report.placed > report.fell_back));
        if let Err(difference) = compared {
            failures.push(format!(
                "seed {seed}, {}, {all:?}\n{}\n{difference}",
                drawn.join(", "),
                query.sql
            ));
        }
    }
    let count = usual + environment::campaign();
    println!("{count} queries from seed {first}, {on_device} used the device");
    assert!(
        failures.is_empty(),
        "{} seeds fail\n\n{}",
        failures.len(),
        failures.join("\n\n")
    );
}

#[tokio::test]
async fn one_table() {
    seeds(60, Grammar::one_table).await;
}

#[tokio::test]
async fn joins() {
    seeds(40, Grammar::join).await;
}

#[tokio::test]
async fn subqueries() {
    seeds(30, Grammar::subquery).await;
}

#[tokio::test]
async fn sets_and_derived_tables() {
    seeds(25, Grammar::combination).await;
}

#[tokio::test]
async fn order_and_limit() {
    seeds(20, Grammar::limited).await;
}

/// Writes the tables as Parquet files, for sessions to share.
async fn write_files(folder: &Path, seed: u64) {
    let maker = SessionContext::new();
    for (name, rows) in [("t", 900), ("u", 90), ("w", 20)] {
        let frame = maker
            .read_batch(batch(rows, seed, Shape::Ordinary))
            .expect("a batch");
        let path = folder.join(format!("{name}.parquet"));
        let options = DataFrameWriteOptions::new().with_single_file_output(true);
        frame
            .write_parquet(path.to_str().expect("a path"), options, None)
            .await
            .expect("writes");
    }
}

async fn over_files(folder: &Path, settings: &[(&str, &str)]) -> Pair {
    let pair = Pair::new(settings);
    for ctx in [&pair.cpu, &pair.gpu] {
        for name in ["t", "u", "w"] {
            let path = folder.join(format!("{name}.parquet"));
            let sql = format!(
                "CREATE EXTERNAL TABLE {name} STORED AS PARQUET LOCATION '{}'",
                path.display()
            );
            ctx.sql(&sql).await.expect("a file");
        }
    }
    pair
}

#[test]
fn sessions_of_several_threads_share_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let runtime = || tokio::runtime::Runtime::new().expect("a runtime");
    let first = environment::seed();
    runtime().block_on(write_files(folder.path(), first));
    let count = 6 + environment::campaign() / 10;
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let folder = folder.path();
            scope.spawn(move || {
                runtime().block_on(async {
                    let settings = SETTINGS[thread * 2 % SETTINGS.len()];
                    let pair = over_files(folder, settings).await;
                    for seed in first..first + count {
                        let mut grammar = Grammar::new(seed);
                        let query = grammar.any();
                        pair.check(
                            &query.sql,
                            false,
                            &format!("thread {thread}, seed {seed}, {settings:?}"),
                        )
                        .await;
                    }
                });
            });
        }
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn many_queries_of_one_session_are_in_flight() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = environment::seed();
    write_files(folder.path(), first).await;
    for settings in [
        &[][..],
        &[("galatea.store_memory_limit", "64 KiB")],
        &[
            ("galatea.gpu_memory_limit", "8 MiB"),
            ("galatea.cache_device", "false"),
        ],
    ] {
        let pair = over_files(folder.path(), settings).await;
        let queries: Vec<_> = (0..12 + environment::campaign() / 10)
            .map(|number| (first + number, Grammar::new(first + number).any()))
            .collect();
        // Each twice: the second finds the first's columns, kernels and buffers in use.
        let running = queries.iter().chain(&queries).map(|(seed, query)| {
            let context = format!("in flight, seed {seed}, {settings:?}");
            let pair = &pair;
            async move { pair.check(&query.sql, false, &context).await }
        });
        join_all(running).await;
    }
}
