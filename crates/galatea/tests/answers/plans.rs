//! Plans that DataFusion's physical rules change wrongly: over files, over volatile functions, and with keys
//! that are floats.

use crate::{DEVICES, check, check_all, prepare, rows, session};

/// Statements that write files are run in the folder.
async fn files(folder: &tempfile::TempDir, ctx: &datafusion::prelude::SessionContext) {
    let path = folder.path().join("a.parquet").display().to_string();
    let rows_of = "SELECT value AS id, 200000 - value AS b, CAST(-value AS DOUBLE) AS f FROM generate_series(1,100000) q(value)";
    let statements = [
        format!("COPY ({rows_of}) TO '{path}' OPTIONS (max_row_group_size 5000)"),
        format!("CREATE EXTERNAL TABLE a STORED AS PARQUET LOCATION '{path}'"),
    ];
    prepare(ctx, &statements.each_ref().map(String::as_str)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn minima_of_computed_values_over_files_read_all_rows() {
    for device in DEVICES {
        let folder = tempfile::tempdir().expect("a folder");
        let ctx = session(device, 4);
        files(&folder, &ctx).await;
        for (sql, expected) in [
            ("SELECT min(id), min(f) FROM a", "1, -100000.0"),
            ("SELECT min(id), min(abs(b)) FROM a", "1, 100000"),
            (
                "SELECT max(b) FILTER (WHERE id > 90000), min(id) FROM a",
                "109999, 1",
            ),
            ("SELECT max(id), max(-id) FROM a WHERE b > 100500", "99499, -1"),
            ("SELECT min(id), max(b) FROM a", "1, 199999"),
        ] {
            for _ in 0..3 {
                check(&ctx, sql, &[expected], device).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn filters_of_volatile_columns_test_the_returned_values() {
    for device in DEVICES {
        let folder = tempfile::tempdir().expect("a folder");
        let ctx = session(device, 4);
        files(&folder, &ctx).await;
        let drawn = "SELECT id, random() AS r FROM a";
        for sql in [
            format!("SELECT max(r) < 0.5 FROM (SELECT * FROM ({drawn}) z WHERE r < 0.5 AND id > 10) q"),
            format!("SELECT max(r) < 0.5 FROM (SELECT * FROM ({drawn} UNION ALL {drawn}) z WHERE r < 0.5) q"),
            format!(
                "SELECT max(r) < 0.5 AND count(*) < 90000 FROM (SELECT * FROM ({drawn}) z WHERE r < 0.5 LIMIT 90000) q"
            ),
        ] {
            check(&ctx, &sql, &["true"], device).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn partitioned_joins_by_floats_have_partitions_of_their_keys() {
    for device in DEVICES {
        for partitions in [2, 16] {
            let ctx = session(device, partitions);
            // No build side is small enough to be collected.
            for setting in [
                "hash_join_single_partition_threshold",
                "hash_join_single_partition_threshold_rows",
            ] {
                let set = format!("SET datafusion.optimizer.{setting} = 0");
                rows(&ctx, &set).await.expect("set");
            }
            prepare(
                &ctx,
                &["CREATE TABLE a AS SELECT CAST(value % 3000 AS DOUBLE) AS f, value AS i FROM generate_series(1,3000) q(value)"],
            )
            .await;
            for (sql, expected) in [
                (
                    "SELECT count(*), max(y.i), max(z.i) FROM a x JOIN a y ON x.f=y.f JOIN a z ON z.f=x.f",
                    "3000, 3000, 3000",
                ),
                (
                    "SELECT count(*), sum(g.n) FROM a x JOIN (SELECT f AS k, count(*) AS n FROM a GROUP BY f) g ON x.f=g.k",
                    "3000, 3000",
                ),
                (
                    "SELECT count(*), sum(y.i) FROM a x LEFT JOIN a y ON x.f=y.f AND y.i > 2990 JOIN a z ON z.f=y.f",
                    "10, 29955",
                ),
            ] {
                check(&ctx, sql, &[expected], device).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn uncorrelated_exists_reads_one_row() {
    check_all(
        &[
            "CREATE TABLE x AS SELECT value AS id, nullif(value % 7, 3) AS n FROM generate_series(1,60000) q(value)",
            "CREATE TABLE c AS SELECT value AS id, nullif(value % 5, 4) AS n FROM generate_series(1,60000) q(value)",
            "CREATE TABLE none AS SELECT 1 AS id WHERE false",
        ],
        &[
            ("SELECT count(*) FROM x WHERE EXISTS (SELECT 1 FROM c) OR x.id < 10", &["60000"]),
            ("SELECT count(*) FROM x WHERE EXISTS (SELECT 1 FROM none) OR x.id < 10", &["9"]),
            ("SELECT count(*) FROM x WHERE NOT EXISTS (SELECT 1 FROM c WHERE id > 70000)", &["60000"]),
            ("SELECT count(*) FROM x WHERE EXISTS (SELECT id FROM c ORDER BY n LIMIT 3)", &["60000"]),
            (
                "SELECT m, count(*) FROM (SELECT x.n NOT IN (SELECT c.n FROM c) AS m FROM x) q GROUP BY m",
                &["NULL, 34285", "false, 25715"],
            ),
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_keys_of_an_order_are_ignored() {
    check_all(
        &["CREATE TABLE t AS VALUES (1, 3, 'b'), (1, 2, 'a'), (2, 5, 'c'), (2, 6, 'c')"],
        &[
            (
                "SELECT DISTINCT ON (column1) column1, column2 FROM t ORDER BY column1, column2, column1",
                &["1, 2", "2, 5"],
            ),
            (
                "SELECT column1, first_value(column2 ORDER BY column3, column2, column3 DESC) FROM t GROUP BY column1",
                &["1, 2", "2, 5"],
            ),
            (
                "SELECT column1, array_agg(column2 ORDER BY column3, column3, column2 DESC) FROM t GROUP BY column1",
                &["1, [2, 3]", "2, [6, 5]"],
            ),
        ],
    )
    .await;
}
