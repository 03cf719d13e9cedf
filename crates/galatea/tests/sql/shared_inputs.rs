//! Plans with subtrees that share an input: the grouping sets of an aggregate, several DISTINCT, a file that
//! is scanned twice. Inputs are files, because their scans return the rows only once.

use crate::compare::answer;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::prelude::SessionContext;
use std::path::Path;

/// A session over `folder`, on this device.
fn session(device: &str, partitions: usize, settings: &[(&str, &str)]) -> SessionContext {
    let mut builder = galatea::session()
        .with_file_queries(true)
        .with_setting("galatea.device", device)
        .with_setting("galatea.tuning.min_rows", "0")
        .with_setting("datafusion.execution.target_partitions", partitions.to_string());
    if device == "emulated" {
        builder = builder.with_emulated_device(galatea::EmulatorOptions::default());
    }
    for (name, value) in settings {
        builder = builder.with_setting(*name, *value);
    }
    builder.build().expect("a session")
}

/// The rows as strings, with comma-separated values, in their order.
fn lines(batches: &[RecordBatch]) -> Vec<String> {
    let options = FormatOptions::default().with_null("NULL");
    let mut lines = Vec::new();
    for batch in batches {
        let columns: Vec<_> = (batch.columns().iter())
            .map(|column| ArrayFormatter::try_new(column.as_ref(), &options).expect("a printable type"))
            .collect();
        for row in 0..batch.num_rows() {
            let values: Vec<String> = columns.iter().map(|c| c.value(row).to_string()).collect();
            lines.push(values.join(","));
        }
    }
    lines
}

/// Writes `fact` (k 0..99, v 0..9, row numbers i) with `rows` rows and `side` (k 0..99, c = k % 3), in the
/// format of the extension; facts in two files of several row groups.
async fn write(folder: &Path, extension: &str, rows: usize) {
    let ctx = session("cpu", 1, &[]);
    let half = rows / 2;
    std::fs::create_dir_all(folder.join("fact")).expect("a folder");
    let side = "SELECT value AS k, value % 3 AS c FROM generate_series(0, 99)";
    let fact = "SELECT value AS i, value % 100 AS k, value % 7 AS v FROM generate_series";
    let options = match extension {
        "parquet" => "OPTIONS ('format.max_row_group_size' '300')",
        _ => "",
    };
    for (query, file) in [
        (side.to_owned(), "side".to_owned()),
        (format!("{fact}(0, {})", half - 1), "fact/a".into()),
        (format!("{fact}({half}, {})", rows - 1), "fact/b".into()),
    ] {
        let path = folder.join(file).with_extension(extension);
        let copy = format!("COPY ({query}) TO '{}' {options}", path.display());
        answer(&ctx, &copy).await;
    }
}

/// Queries with their answers for `rows` rows of facts.
fn cases(rows: usize) -> Vec<(&'static str, Vec<String>)> {
    let facts = 0..rows;
    let by = |c: usize| facts.clone().filter(|i| i % 100 % 3 == c).count();
    let sum = |c: usize| -> usize { facts.clone().filter(|i| i % 100 % 3 == c).map(|i| i % 7).sum() };
    let total: usize = facts.clone().map(|i| i % 7).sum();
    let mut rollup = vec![format!("NULL,{rows}")];
    rollup.extend((0..3).map(|c| format!("{c},{}", by(c))));
    let mut sets: Vec<String> = (0..3).map(|c| format!("{c},{},{}", by(c), sum(c))).collect();
    sets.push(format!("NULL,{rows},{total}"));
    let distinct = (0..3).map(|c| {
        let keys = (0..100).filter(|k| k % 3 == c).count();
        format!("{c},{keys},7,{}", sum(c))
    });
    vec![
        (
            "SELECT s.c, count(*) q FROM fact f JOIN side s ON f.k = s.k GROUP BY ROLLUP(s.c) ORDER BY q DESC, c",
            rollup,
        ),
        (
            "SELECT s.c, count(*), sum(f.v) FROM fact f JOIN side s ON f.k = s.k \
             GROUP BY GROUPING SETS ((s.c), ()) ORDER BY s.c NULLS LAST",
            sets,
        ),
        (
            "SELECT s.c, count(DISTINCT f.k), count(DISTINCT f.v), sum(f.v) FROM fact f JOIN side s \
             ON f.k = s.k GROUP BY s.c ORDER BY s.c",
            distinct.collect(),
        ),
        (
            "WITH j AS (SELECT f.v, s.c FROM fact f JOIN side s ON f.k = s.k) \
             SELECT (SELECT count(*) FROM j WHERE c = 0) a0, (SELECT count(*) FROM j WHERE c = 1) a1, count(*) \
             FROM j a WHERE a.c = 2",
            vec![format!("{},{},{}", by(0), by(1), by(2))],
        ),
        (
            "SELECT c, count(*) FROM (SELECT s.c FROM fact f JOIN side s ON f.k = s.k UNION ALL \
             SELECT s.c FROM fact f JOIN side s ON f.k = s.k) GROUP BY c ORDER BY c",
            (0..3).map(|c| format!("{c},{}", 2 * by(c))).collect(),
        ),
    ]
}

async fn check(ctx: &SessionContext, rows: usize, context: &str) {
    for (sql, expected) in cases(rows) {
        let mut found = lines(&answer(ctx, sql).await);
        let mut expected = expected;
        // The order of ROLLUP has ties.
        if sql.contains("ROLLUP") {
            found.sort();
            expected.sort();
        }
        assert_eq!(found, expected, "{context}\n{sql}");
    }
}

#[tokio::test]
async fn shared_inputs_are_read_completely() {
    for extension in ["parquet", "csv", "json"] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path();
        for partitions in [1, 2, 16] {
            write(path, extension, 2_000).await;
            let forced = [
                ("galatea.tuning.build_rows", "0"),
                ("galatea.tuning.build_rows", "1000000"),
            ];
            let sessions = [
                session("cpu", partitions, &[]),
                session("emulated", partitions, &[]),
                session("emulated", partitions, &forced[..1]),
                session("emulated", partitions, &forced[1..]),
            ];
            for (number, ctx) in sessions.iter().enumerate() {
                for (table, location) in [("fact", "fact/"), ("side", &format!("side.{extension}"))] {
                    let create = format!(
                        "CREATE EXTERNAL TABLE {table} STORED AS {extension} LOCATION '{}'",
                        path.join(location).display()
                    );
                    answer(ctx, &create).await;
                }
                let context = format!("{extension}, {partitions} partitions, session {number}");
                check(ctx, 2_000, &format!("{context}, first run")).await;
                check(ctx, 2_000, &format!("{context}, kept plan")).await;
            }
            write(path, extension, 3_000).await;
            for (number, ctx) in sessions.iter().enumerate() {
                let context = format!("{extension}, {partitions} partitions, session {number}");
                check(ctx, 3_000, &format!("{context}, changed files")).await;
            }
        }
    }
}
