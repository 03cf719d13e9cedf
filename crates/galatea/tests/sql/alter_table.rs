//! ALTER TABLE in memory and in databases, and the names of temporary tables.

use crate::database::{open, rows, run};
use datafusion::prelude::SessionContext;
use std::path::Path;

const TABLES: [&str; 3] = [
    "CREATE TABLE t(a INT NOT NULL, b BIGINT DEFAULT 7, s VARCHAR)",
    "INSERT INTO t VALUES (1, 10, 'x'), (2, NULL, 'y')",
    "CREATE VIEW seen AS SELECT a FROM t",
];

/// Sessions with tables in memory on the CPU and on the device, and with databases on both.
async fn sessions(folder: &Path) -> Vec<SessionContext> {
    let memory = ["cpu", "emulated"].map(|device| {
        galatea::session()
            .with_emulated_device(galatea::EmulatorOptions::default())
            .with_setting("galatea.device", device)
            .with_setting("galatea.tuning.min_rows", "0")
            .with_file_queries(true)
            .build()
            .expect("a session")
    });
    let databases = ["cpu", "emulated"].map(|device| open(&folder.join(device), device));
    let all: Vec<SessionContext> = memory.into_iter().chain(databases).collect();
    for ctx in &all {
        run(ctx, &TABLES).await;
    }
    all
}

async fn check(ctx: &SessionContext, sql: &str, expected: &str) {
    assert_eq!(rows(ctx, sql).await.as_deref(), Ok(expected), "{sql}");
}

#[tokio::test]
async fn columns_are_added_dropped_renamed_and_changed() {
    let folder = tempfile::tempdir().expect("a folder");
    for ctx in sessions(folder.path()).await {
        for (alter, insert, expected) in [
            (
                "ALTER TABLE t ADD COLUMN c DECIMAL(10, 2) DEFAULT 1.5",
                "INSERT INTO t (a) VALUES (3)",
                "1 10 x 1.50; 2 NULL y 1.50; 3 7 NULL 1.50",
            ),
            (
                "ALTER TABLE t ADD d VARCHAR, DROP COLUMN c",
                "INSERT INTO t VALUES (4, 40, 'z', 'w')",
                "1 10 x NULL; 2 NULL y NULL; 3 7 NULL NULL; 4 40 z w",
            ),
            (
                "ALTER TABLE t RENAME COLUMN s TO \"My text\"",
                "INSERT INTO t (a, \"My text\") VALUES (5, 'v')",
                "1 10 x NULL; 2 NULL y NULL; 3 7 NULL NULL; 4 40 z w; 5 7 v NULL",
            ),
            (
                "ALTER TABLE t ALTER COLUMN b TYPE DOUBLE, ALTER COLUMN b SET DEFAULT 0.5, DROP COLUMN d",
                "INSERT INTO t (a) VALUES (6)",
                "1 10.0 x; 2 NULL y; 3 7.0 NULL; 4 40.0 z; 5 7.0 v; 6 0.5 NULL",
            ),
            (
                "ALTER TABLE t ALTER COLUMN a DROP NOT NULL, ALTER b DROP DEFAULT, DROP COLUMN IF EXISTS missing",
                "INSERT INTO t (\"My text\") VALUES ('u')",
                "1 10.0 x; 2 NULL y; 3 7.0 NULL; 4 40.0 z; 5 7.0 v; 6 0.5 NULL; NULL NULL u",
            ),
            (
                "ALTER TABLE t ALTER COLUMN b SET DATA TYPE VARCHAR USING concat('b', a)",
                "DELETE FROM t WHERE a > 2",
                "1 b1 x; 2 b2 y; NULL b u",
            ),
        ] {
            run(&ctx, &[alter, insert]).await;
            check(&ctx, "SELECT * FROM t ORDER BY a NULLS LAST", expected).await;
        }
        check(&ctx, "SELECT count(a) FROM seen", "2").await;
    }
}

#[tokio::test]
async fn tables_and_views_are_renamed() {
    let folder = tempfile::tempdir().expect("a folder");
    for ctx in sessions(folder.path()).await {
        run(
            &ctx,
            &[
                "ALTER TABLE t RENAME TO \"New\"",
                "INSERT INTO \"New\" (a) VALUES (3)",
                "ALTER TABLE seen RENAME TO looked",
                "ALTER TABLE IF EXISTS missing RENAME TO other",
            ],
        )
        .await;
        check(&ctx, "SELECT a, b FROM \"New\" ORDER BY a", "1 10; 2 NULL; 3 7").await;
        for (sql, problem) in [
            ("SELECT * FROM t", "t"),
            ("SELECT * FROM seen", "seen"),
            ("ALTER TABLE missing RENAME TO other", "missing"),
            ("ALTER TABLE \"New\" RENAME TO looked", "already exists"),
        ] {
            let error = rows(&ctx, sql).await.expect_err(sql);
            assert!(error.contains(problem), "{sql}\n{error}");
        }
        // The view reads the table by its former name.
        run(&ctx, &["ALTER TABLE \"New\" RENAME TO t"]).await;
        check(&ctx, "SELECT sum(a) FROM looked", "6").await;
    }
}

#[tokio::test]
async fn failed_changes_of_columns_leave_the_table() {
    let folder = tempfile::tempdir().expect("a folder");
    for ctx in sessions(folder.path()).await {
        for (sql, problem) in [
            ("ALTER TABLE t ADD COLUMN b INT", "has a column b already"),
            ("ALTER TABLE t DROP COLUMN missing", "has no column missing"),
            ("ALTER TABLE t RENAME COLUMN a TO B", "has a column b already"),
            ("ALTER TABLE t ALTER COLUMN b SET NOT NULL", "NULL"),
            ("ALTER TABLE t ALTER COLUMN s TYPE INT", "x"),
            (
                "ALTER TABLE t DROP COLUMN a, DROP COLUMN b, DROP COLUMN s",
                "no columns",
            ),
            ("ALTER TABLE t ADD COLUMN c INT NOT NULL", "NULL"),
            ("ALTER TABLE t ADD CONSTRAINT k UNIQUE (a)", "is not supported"),
            (
                "ALTER TABLE seen ADD COLUMN c INT",
                "ALTER TABLE is not supported for the view seen",
            ),
            ("ALTER TABLE missing ADD COLUMN c INT", "missing"),
        ] {
            let error = rows(&ctx, sql).await.expect_err(sql);
            assert!(error.contains(problem), "{sql}\n{error}");
            check(&ctx, "SELECT * FROM t ORDER BY a", "1 10 x; 2 NULL y").await;
            check(&ctx, "SELECT count(*) FROM seen", "2").await;
        }
    }
}

#[tokio::test]
async fn changed_tables_of_a_database_last() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("database");
    let ctx = open(&path, "cpu");
    run(&ctx, &TABLES).await;
    run(
        &ctx,
        &[
            "ALTER TABLE t ADD COLUMN c INT DEFAULT 9",
            "ALTER TABLE t RENAME TO u",
            "ALTER TABLE seen RENAME TO looked",
        ],
    )
    .await;
    drop(ctx);
    let ctx = open(&path, "cpu");
    run(&ctx, &["INSERT INTO u (a) VALUES (3)"]).await;
    check(
        &ctx,
        "SELECT * FROM u ORDER BY a",
        "1 10 x 9; 2 NULL y 9; 3 7 NULL 9",
    )
    .await;
    run(&ctx, &["ALTER TABLE u RENAME TO t"]).await;
    check(&ctx, "SELECT count(*) FROM looked", "3").await;
}

/// Without a database, every table ends with the session.
#[tokio::test]
async fn temporary_tables_and_views_end_with_the_session() {
    let ctx = galatea::session().build().expect("a session");
    run(
        &ctx,
        &[
            "CREATE TEMP TABLE t AS SELECT 1 AS a",
            "CREATE OR REPLACE TEMPORARY TABLE u (a INT)",
            "INSERT INTO u SELECT a + 1 FROM t",
            "CREATE TEMPORARY VIEW v AS SELECT sum(a) AS a FROM (SELECT a FROM t UNION ALL SELECT a FROM u)",
        ],
    )
    .await;
    check(&ctx, "SELECT a FROM v", "3").await;
    run(&ctx, &["DROP VIEW v CASCADE", "DROP TABLE IF EXISTS t CASCADE"]).await;
    assert!(rows(&ctx, "SELECT * FROM t").await.is_err());
}
