//! Joins of many tables: planning time is polynomial in their number.

use crate::compare::answer;
use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::Int64Type;
use datafusion::prelude::SessionContext;
use std::time::{Duration, Instant};

/// An exhaustive search over 64 tables would take years; even a slow machine needs less than this.
const LONG: Duration = Duration::from_secs(120);

async fn session(tables: usize) -> SessionContext {
    let ctx = galatea::session()
        .with_emulated_device(galatea::EmulatorOptions::default())
        .with_file_queries(true)
        .with_setting("galatea.device", "emulated")
        .with_setting("galatea.tuning.min_rows", "0")
        .build()
        .expect("a session");
    for table in 0..tables {
        let sql =
            format!("CREATE TABLE t{table} AS SELECT value AS i, value AS j FROM generate_series(1, 100)");
        answer(&ctx, &sql).await;
    }
    ctx
}

/// The join graph: the conditions between the tables.
type Shape = fn(usize) -> String;

const SHAPES: [(&str, Shape); 4] = [
    ("chain by one column", |at| format!("a{}.i = a{at}.i", at - 1)),
    ("chain by two columns", |at| {
        format!("a{0}.j = a{at}.i AND a{0}.i = a{at}.j", at - 1)
    }),
    ("star", |at| format!("a0.i = a{at}.i")),
    ("clique", |at| {
        let all = (0..at).map(|other| format!("a{other}.{} = a{at}.i", ["i", "j"][(other + at) % 2]));
        all.collect::<Vec<_>>().join(" AND ")
    }),
];

/// A query that joins tables, with these names.
fn joined(tables: usize, name: impl Fn(usize) -> String, on: Shape) -> String {
    let joins = (1..tables).map(|at| format!(" JOIN {} a{at} ON {}", name(at), on(at)));
    format!("SELECT count(*) FROM {} a0{}", name(0), joins.collect::<String>())
}

#[tokio::test]
async fn joins_of_many_tables_are_planned_in_polynomial_time() {
    let ctx = session(64).await;
    let begun = Instant::now();
    for (shape, on) in SHAPES {
        for tables in [16, 20, 64] {
            // DataFusion itself takes long to plan the other cliques.
            if shape == "clique" && tables > 20 {
                continue;
            }
            answer(
                &ctx,
                &format!("EXPLAIN {}", joined(tables, |at| format!("t{at}"), on)),
            )
            .await;
            answer(
                &ctx,
                &format!("EXPLAIN {}", joined(tables, |_| "t0".to_owned(), on)),
            )
            .await;
            assert!(
                begun.elapsed() < LONG,
                "{shape} of {tables}: {:?}",
                begun.elapsed()
            );
        }
    }
}

#[tokio::test]
async fn joins_of_many_files_are_planned_in_polynomial_time() {
    let ctx = session(1).await;
    let folder = tempfile::tempdir().expect("a folder");
    let file = |at: usize| format!("'{}/{at}.parquet'", folder.path().display());
    for at in 0..20 {
        answer(&ctx, &format!("COPY t0 TO {}", file(at))).await;
    }
    let begun = Instant::now();
    for (shape, on) in SHAPES {
        answer(&ctx, &format!("EXPLAIN {}", joined(20, file, on))).await;
        answer(&ctx, &format!("EXPLAIN {}", joined(20, |_| file(0), on))).await;
        assert!(begun.elapsed() < LONG, "{shape}: {:?}", begun.elapsed());
    }
}

#[tokio::test]
async fn joins_of_many_tables_return_expected_rows() {
    let ctx = session(1).await;
    for (shape, on) in SHAPES {
        let rows = answer(&ctx, &joined(14, |_| "t0".to_owned(), on)).await;
        let count = rows[0].column(0).as_primitive::<Int64Type>().value(0);
        assert_eq!(count, 100, "{shape}");
    }
}
