//! OFFSET without LIMIT below operators with an order of their own.

use crate::{check, prepare, rows, session};

const TABLES: &[&str] = &[
    "CREATE TABLE t AS SELECT value AS x, value % 3 AS k FROM generate_series(1, 10)",
    "CREATE TABLE e(x BIGINT)",
];

const QUERIES: &[(&str, &[&str])] = &[
    (
        "SELECT x, row_number() OVER (ORDER BY x DESC) FROM (SELECT x FROM t ORDER BY x OFFSET 7) q",
        &["10, 1", "8, 3", "9, 2"],
    ),
    (
        "SELECT x FROM (SELECT x FROM t ORDER BY x OFFSET 7) q ORDER BY x DESC",
        &["10", "8", "9"],
    ),
    (
        "SELECT x FROM (SELECT x FROM (SELECT x FROM t ORDER BY x OFFSET 2) a ORDER BY x DESC OFFSET 6) b ORDER BY x",
        &["3", "4"],
    ),
    (
        "SELECT x FROM ((SELECT x FROM t ORDER BY x OFFSET 8) UNION ALL SELECT 0) q ORDER BY x DESC",
        &["0", "10", "9"],
    ),
    (
        "SELECT x FROM (SELECT x FROM t ORDER BY x OFFSET 7) q ORDER BY x DESC LIMIT 2",
        &["10", "9"],
    ),
    (
        "SELECT x FROM (SELECT x FROM t ORDER BY x OFFSET 7) q ORDER BY x DESC LIMIT 1 OFFSET 1",
        &["9"],
    ),
    (
        "SELECT k, max(x) FROM (SELECT k, x FROM t ORDER BY x DESC OFFSET 7) q GROUP BY k ORDER BY k",
        &["0, 3", "1, 1", "2, 2"],
    ),
    (
        "SELECT a.x, t.k FROM (SELECT x FROM t ORDER BY x OFFSET 8) a JOIN t ON a.x = t.x ORDER BY a.x DESC",
        &["10, 1", "9, 0"],
    ),
    (
        "SELECT a.x FROM (SELECT x FROM t ORDER BY x OFFSET 8) a LEFT JOIN t ON a.x = t.x AND t.k = 1 WHERE t.x IS NULL",
        &["9"],
    ),
    (
        "WITH q AS (SELECT x FROM t ORDER BY x OFFSET 8) SELECT a.x FROM q a JOIN q b ON a.x = b.x ORDER BY 1 DESC",
        &["10", "9"],
    ),
    (
        "SELECT x FROM (SELECT x FROM t ORDER BY k, x OFFSET 8) q ORDER BY x DESC",
        &["5", "8"],
    ),
    (
        "SELECT x FROM (SELECT x FROM t ORDER BY x OFFSET 10) q ORDER BY x DESC",
        &[],
    ),
    (
        "SELECT x FROM (SELECT x FROM e ORDER BY x OFFSET 1) q ORDER BY x DESC",
        &[],
    ),
    ("SELECT x FROM (SELECT x FROM t ORDER BY x OFFSET 9) q", &["10"]),
    ("SELECT count(*) FROM (SELECT x FROM t OFFSET 7) q", &["3"]),
];

#[tokio::test(flavor = "multi_thread")]
async fn offset_skips_rows_of_its_own_order() {
    for (device, partitions) in [("cpu", 1), ("cpu", 2), ("cpu", 16), ("emulated", 2)] {
        for hash_joins in ["true", "false"] {
            let ctx = session(device, partitions);
            prepare(&ctx, TABLES).await;
            prepare(
                &ctx,
                &[&format!(
                    "SET datafusion.optimizer.prefer_hash_join = {hash_joins}"
                )],
            )
            .await;
            for (sql, expected) in QUERIES {
                for _ in 0..2 {
                    check(&ctx, sql, expected, &format!("{device}, {partitions}")).await;
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn offset_over_files_skips_rows_of_its_own_order() {
    let folder = tempfile::tempdir().expect("a folder");
    for (device, partitions) in [("cpu", 4), ("emulated", 2)] {
        let ctx = session(device, partitions);
        prepare(&ctx, TABLES).await;
        let path = folder.path().join(format!("{device}/"));
        let (copy, table) = (
            format!(
                "COPY (SELECT x, k FROM t) TO '{}/' STORED AS PARQUET",
                path.display()
            ),
            format!(
                "CREATE EXTERNAL TABLE f STORED AS PARQUET LOCATION '{}/'",
                path.display()
            ),
        );
        prepare(
            &ctx,
            &[&copy, "DROP TABLE t", &table, "CREATE VIEW t AS SELECT * FROM f"],
        )
        .await;
        for (sql, expected) in QUERIES {
            check(&ctx, sql, expected, device).await;
        }
        assert!(rows(&ctx, "SELECT x FROM t OFFSET -1").await.is_err());
    }
}
