//! Pipelines that several others read: coarser grouping sets over finer ones, and common table expressions
//! with several references. Also sums and averages of decimals that two steps compute.

use crate::compare::{Pair, answer, same};
use crate::data::{Shape, batch};
use crate::joins::{STRICT, text};
use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::datatypes::Int64Type;
use datafusion::datasource::MemTable;
use datafusion::prelude::SessionContext;
use std::path::Path;
use std::sync::Arc;

/// Grouping sets whose coarser sets are computed from finer ones.
const SETS: &[&str] = &[
    "SELECT k, low, count(*), count(i16), sum(d9), avg(d9), avg(i32), min(high), max(ts) FROM t GROUP BY ROLLUP (k, low)",
    "SELECT k, flag, i8, sum(d18), avg(d18), sum(i64), grouping(k), grouping(i8, flag) FROM t GROUP BY CUBE (k, flag, i8)",
    "SELECT k, low, flag, count(*) FILTER (WHERE i8 > 0), avg(d9) FILTER (WHERE flag), bool_and(flag), bit_xor(i32) FROM t \
     GROUP BY GROUPING SETS ((k, low), (k), (low), (k, low), (), (flag))",
    "SELECT i64, u64, avg(f64), sum(f32), max(f64) FROM t GROUP BY ROLLUP (i64, u64)",
    "SELECT k, low FROM t GROUP BY CUBE (k, low)",
    "SELECT k, sum(d38), avg(d18) FROM t GROUP BY ROLLUP (k)",
    // No set has the keys of another one, and calls that cannot be merged.
    "SELECT k, low, count(*) FROM t GROUP BY GROUPING SETS ((k), (low))",
    "SELECT k, low, stddev(i16), sum(d9) FROM t GROUP BY ROLLUP (k, low)",
    "SELECT k, low, count(DISTINCT i8), sum(d9) FROM t GROUP BY ROLLUP (k, low)",
    // Below other operators.
    "SELECT k, low, s, r FROM (SELECT k, low, sum(d9) AS s, rank() OVER (PARTITION BY grouping(k) + grouping(low) ORDER BY sum(d9), k, low) AS r \
     FROM t GROUP BY ROLLUP (k, low)) WHERE r <= 3",
    "SELECT g, count(*), sum(n), max(a) FROM (SELECT grouping(k) AS g, count(*) AS n, avg(d9) AS a FROM t GROUP BY CUBE (k, low)) GROUP BY g",
    "SELECT a.k, a.n, b.n FROM (SELECT k, count(*) AS n FROM t GROUP BY ROLLUP (k)) a JOIN (SELECT k, count(*) AS n FROM t GROUP BY ROLLUP (k)) b ON a.k = b.k",
    "SELECT k, low, sum(d9) AS s FROM t GROUP BY ROLLUP (k, low) HAVING count(*) > 2",
];

/// Common table expressions with several references.
const REPEATED: &[&str] = &[
    "WITH g AS (SELECT k, count(*) AS n, sum(i32) AS s FROM t GROUP BY k) SELECT a.k, a.n, b.s FROM g a JOIN g b ON a.k = b.k WHERE b.n > 1",
    "WITH g AS (SELECT i8, count(*) AS n FROM t GROUP BY i8) SELECT count(*), sum(a.n), sum(b.n), sum(c.n) FROM t \
     JOIN g a ON t.i8 = a.i8 JOIN g b ON t.i16 = b.i8 JOIN g c ON t.i8 = c.i8",
    "WITH g AS (SELECT low, sum(d9) AS s FROM t GROUP BY low) SELECT low, s FROM g UNION ALL SELECT low, s FROM g UNION ALL SELECT low, -s FROM g WHERE s > 0",
    "WITH j AS (SELECT a.i8, b.low, a.d9 FROM t a JOIN t b ON a.i8 = b.i8 WHERE a.flag), \
     g AS (SELECT i8, low, count(*) AS n, avg(d9) AS m FROM j GROUP BY i8, low) \
     SELECT x.i8, x.low, x.n, y.m FROM g x JOIN g y ON x.i8 = y.i8 AND x.low = y.low WHERE x.n > 1",
    "WITH w AS (SELECT v, k, row_number() OVER (PARTITION BY k ORDER BY v) AS r FROM t) SELECT a.v, b.v FROM w a JOIN w b ON a.k = b.k AND a.r = b.r + 1",
    "WITH u AS (SELECT low AS k, v FROM t WHERE flag UNION ALL SELECT high, v FROM t WHERE NOT flag), g AS (SELECT k, count(*) AS n FROM u GROUP BY k) \
     SELECT n, count(*) FROM g GROUP BY n UNION ALL SELECT sum(n), max(n) FROM g",
    "WITH g AS (SELECT k, low, count(*) AS n FROM t GROUP BY k, low) \
     SELECT k, max(n) FROM g WHERE n < (SELECT max(n) FROM g) AND k IN (SELECT k FROM g WHERE n > 1) GROUP BY k",
    "WITH d AS (SELECT DISTINCT i8 FROM t WHERE i8 > 0) SELECT count(*) FROM t WHERE i8 IN (SELECT i8 FROM d) OR i16 IN (SELECT i8 FROM d)",
];

/// DISTINCT beside aggregates of decimals.
const DISTINCT: &[&str] = &[
    "SELECT avg(d9), count(d9), count(DISTINCT d9), sum(d18) FROM t",
    "SELECT k, avg(d18), sum(d9), count(DISTINCT low), count(*) FROM t GROUP BY k",
    "SELECT low, avg(d9) FILTER (WHERE flag), sum(d18) FILTER (WHERE i8 > 0), count(DISTINCT i16) FROM t WHERE v > 3 GROUP BY low",
    "SELECT k, sum(DISTINCT d9), avg(DISTINCT d9), avg(d9), min(d38) FROM t GROUP BY k HAVING avg(d9) > 0",
    "SELECT * FROM (SELECT avg(d9) AS a, count(DISTINCT i8) AS b FROM t WHERE v < 100 LIMIT 1), \
     (SELECT avg(d9) AS c, count(DISTINCT i8) AS d FROM t WHERE v >= 100 LIMIT 10) LIMIT 100",
];

const ALL: [&[&str]; 3] = [SETS, REPEATED, DISTINCT];

fn session(device: &str, partitions: usize, settings: &[(&str, &str)]) -> SessionContext {
    let mut builder = galatea::session()
        .with_setting("galatea.device", device)
        .with_setting("galatea.overflow", "wrap")
        .with_setting("galatea.tuning.min_rows", "0")
        .with_setting("datafusion.execution.parquet.schema_force_view_types", "false")
        .with_setting("datafusion.execution.target_partitions", partitions.to_string());
    if device == "emulated" {
        builder = builder.with_emulated_device(galatea::EmulatorOptions::default());
    }
    for (name, value) in settings {
        builder = builder.with_setting(*name, *value);
    }
    builder.build().expect("a session")
}

/// Registers the rows as `t`, in that many partitions.
fn in_memory(ctx: &SessionContext, rows: &RecordBatch, partitions: usize) {
    let each = rows.num_rows().div_ceil(partitions).max(1);
    let part = |number: usize| {
        let first = (number * each).min(rows.num_rows());
        vec![rows.slice(first, each.min(rows.num_rows() - first))]
    };
    let table = MemTable::try_new(rows.schema(), (0..partitions).map(part).collect()).expect("a table");
    ctx.register_table("t", Arc::new(table)).expect("a new table");
}

/// Registers a Parquet file as `t`.
async fn of_file(ctx: &SessionContext, file: &Path) {
    let create = format!(
        "CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '{}'",
        file.display()
    );
    answer(ctx, &create).await;
}

/// Rows of every kind, with NULLs, without rows, and with NULLs only.
fn tables() -> [(&'static str, RecordBatch); 3] {
    [
        ("ordinary rows", batch(700, 3, Shape::Ordinary)),
        ("no rows", batch(0, 1, Shape::Ordinary)),
        ("NULLs only", batch(33, 2, Shape::AllNull)),
    ]
}

#[tokio::test]
async fn shared_pipelines_return_rows_of_the_cpu() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, rows) in tables() {
        let cpu = session("cpu", 1, &[]);
        in_memory(&cpu, &rows, 1);
        let file = folder.path().join(format!("{name}.parquet"));
        let copy = format!(
            "COPY t TO '{}' OPTIONS ('format.max_row_group_size' '200')",
            file.display()
        );
        answer(&cpu, &copy).await;
        for partitions in [1, 2, 16] {
            let [memory, files] = [(); 2].map(|()| session("emulated", partitions, &[]));
            in_memory(&memory, &rows, partitions);
            of_file(&files, &file).await;
            for sql in ALL.into_iter().flatten() {
                let expected = answer(&cpu, sql).await;
                for (ctx, tables) in [
                    (&memory, "memory"),
                    (&files, "a file"),
                    (&files, "a file, kept plan"),
                ] {
                    let actual = answer(ctx, sql).await;
                    if let Err(difference) = same(&expected, &actual) {
                        panic!("{name} in {tables}, {partitions} partitions\n{sql}\n{difference}");
                    }
                }
            }
        }
    }
}

/// Everything runs on the device, with every algorithm that changes the pipelines of a graph.
#[tokio::test]
async fn shared_pipelines_run_on_the_device_under_all_settings() {
    for settings in [
        &[STRICT][..],
        &[
            STRICT,
            ("galatea.tuning.build_rows", "0"),
            ("galatea.tuning.chunk_rows", "64"),
        ],
        &[
            STRICT,
            ("galatea.aggregate.strategy", "hash"),
            ("galatea.tuning.hash_slots", "2"),
        ],
        &[
            STRICT,
            ("galatea.tuning.build_rows", "0"),
            ("galatea.join.algorithm", "multipass"),
        ],
        &[
            STRICT,
            ("galatea.join.algorithm", "triton"),
            ("galatea.tuning.build_rows", "0"),
        ],
    ] {
        let pair = Pair::new(settings);
        pair.table("t", &[batch(500, 5, Shape::Ordinary)]);
        for sql in ALL.into_iter().flatten() {
            pair.check(sql, true, &format!("{settings:?}")).await;
        }
    }
}

/// With too little memory, each reader has pipelines of its own, which run in partitions.
#[tokio::test]
async fn readers_have_their_own_pipelines_if_memory_is_short() {
    let settings = [
        STRICT,
        ("galatea.memory.gpu_limit", "1 MiB"),
        ("galatea.cache.device", "false"),
        ("galatea.tuning.chunk_rows", "2048"),
        ("galatea.aggregate.strategy", "hash"),
        ("galatea.tuning.hash_slots", "1024"),
        ("galatea.tuning.build_rows", "0"),
    ];
    let pair = Pair::emulated(galatea::EmulatorOptions::default(), &settings);
    for ctx in [&pair.cpu, &pair.gpu] {
        let rows = "SELECT value * 31 % 25013 AS k, value % 97 AS g, value % 1013 AS v FROM generate_series(1, 12000)";
        answer(ctx, &format!("CREATE TABLE r AS {rows}")).await;
    }
    for sql in [
        "WITH c AS (SELECT k, count(*) AS n, sum(v) AS s FROM r GROUP BY k) SELECT count(*), sum(a.n), sum(b.s) FROM c a JOIN c b ON a.k = b.k",
        "WITH c AS (SELECT k, g, count(*) AS n, sum(v) AS s FROM r GROUP BY k, g) SELECT count(*), sum(a.n), sum(b.s) FROM c a \
         JOIN c b ON a.k = b.k AND a.g = b.g",
        "WITH c AS (SELECT k, g, count(*) AS n, sum(v) AS s FROM r GROUP BY k, g) SELECT count(*), max(n) FROM (SELECT g, sum(n) AS n FROM c GROUP BY g \
         UNION ALL SELECT g, max(s) FROM c GROUP BY g)",
    ] {
        for run in ["first run", "kept plan"] {
            pair.check(sql, true, run).await;
        }
    }
}

/// The number of pipelines that scan the table.
async fn scans(pair: &Pair, sql: &str) -> usize {
    let plan = text(pair, &format!("EXPLAIN {sql}")).await;
    plan.matches("source=store t").count()
}

#[tokio::test]
async fn shared_pipelines_scan_a_table_once() {
    let pair = Pair::emulated(galatea::EmulatorOptions::default(), &[STRICT]);
    let rows = batch(500, 7, Shape::Ordinary);
    pair.table("t", &[rows]);
    for (sql, expected) in [
        (SETS[0], 1),
        (SETS[1], 1),
        // One set has a key that no other one has.
        (SETS[2], 2),
        (SETS[6], 2),
        // A lookup of groups by their only key has another group table than a scan of the groups.
        (REPEATED[0], 2),
        (
            "WITH g AS (SELECT low, sum(d9) AS s FROM t GROUP BY low) SELECT low, count(*), sum(s) \
             FROM (SELECT low, s FROM g UNION ALL SELECT low, -s FROM g WHERE s > 0) GROUP BY low",
            1,
        ),
        (DISTINCT[1], 1),
        // The filters differ.
        (
            "SELECT count(*) FROM (SELECT k, count(*) AS n FROM t WHERE i8 > 0 GROUP BY k) a \
             JOIN (SELECT k, count(*) AS n FROM t WHERE i8 > 1 GROUP BY k) b ON a.k = b.k",
            2,
        ),
    ] {
        assert_eq!(scans(&pair, sql).await, expected, "{sql}");
    }
}

/// Equal queries over samples draw rows of their own.
#[tokio::test]
async fn samples_are_drawn_for_each_reader() {
    let pair = Pair::emulated(galatea::EmulatorOptions::default(), &[STRICT]);
    answer(
        &pair.gpu,
        "CREATE TABLE r AS SELECT value AS v FROM generate_series(1, 2000) AS g(value)",
    )
    .await;
    let groups = "(SELECT v, count(*) AS n FROM r TABLESAMPLE BERNOULLI (50) GROUP BY v)";
    let sql = format!("SELECT count(*) FROM {groups} a JOIN {groups} b ON a.v = b.v");
    let rows = answer(&pair.gpu, &sql).await;
    let both = rows[0].column(0).as_primitive::<Int64Type>().value(0);
    assert!(
        (350..650).contains(&both),
        "{both} of 2000 rows are in both samples"
    );
}
