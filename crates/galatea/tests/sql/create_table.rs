//! CREATE TABLE AS: nullable columns, NOT NULL and keys, in memory and in databases.

use datafusion::prelude::SessionContext;

use crate::database::{open, rows, run};

/// Sessions with tables in memory and in a database, on both devices.
pub(crate) fn sessions(folder: &std::path::Path) -> Vec<SessionContext> {
    let memory = ["cpu", "emulated"].map(|device| {
        galatea::session()
            .with_emulated_device(galatea::EmulatorOptions::default())
            .with_setting("galatea.device", device)
            .with_setting("galatea.tuning.min_rows", "0")
            .with_setting("datafusion.catalog.information_schema", "true")
            .build()
            .expect("a session")
    });
    let stored = ["cpu", "emulated"].map(|device| open(&folder.join(device), device));
    memory.into_iter().chain(stored).collect()
}

#[tokio::test]
async fn columns_of_queries_are_nullable() {
    let folder = tempfile::tempdir().expect("a folder");
    for ctx in sessions(folder.path()) {
        run(
            &ctx,
            &[
                "CREATE TABLE t AS SELECT 1 AS a, 'x' AS b, [1] AS l",
                "INSERT INTO t VALUES (NULL, NULL, NULL)",
                "INSERT INTO t (b) VALUES ('y')",
                "CREATE TABLE named(a INT, b VARCHAR) AS VALUES (1, 'x')",
                "INSERT INTO named VALUES (NULL, 'y')",
                "CREATE TABLE counts AS SELECT count(*) AS n FROM t WHERE a > 7",
                "INSERT INTO counts SELECT NULL",
                "CREATE TABLE none AS SELECT 1 AS a WHERE false",
                "INSERT INTO none VALUES (NULL)",
                "CREATE OR REPLACE TABLE counts AS SELECT n + 1 AS n, 2 AS \"Two Words\" FROM counts",
                "INSERT INTO counts (n) VALUES (5)",
                "CREATE TABLE IF NOT EXISTS t AS SELECT 8 AS z",
                "CREATE TABLE copied AS FROM t",
                "INSERT INTO copied (b) SELECT CAST(NULL AS VARCHAR)",
            ],
        )
        .await;
        for (sql, expected) in [
            (
                "SELECT a, b FROM t ORDER BY b NULLS LAST",
                "1 x; NULL y; NULL NULL",
            ),
            ("SELECT a, b FROM named ORDER BY b", "1 x; NULL y"),
            (
                "SELECT n, \"Two Words\" FROM counts ORDER BY n NULLS LAST",
                "1 2; 5 NULL; NULL 2",
            ),
            ("SELECT count(*), count(a) FROM none", "1 0"),
            ("SELECT count(*), count(a), count(b) FROM copied", "4 1 2"),
            (
                "SELECT a, count(*) FROM t GROUP BY a ORDER BY a NULLS LAST",
                "1 1; NULL 2",
            ),
            (
                "SELECT column_name, is_nullable FROM information_schema.columns WHERE table_name = 't' ORDER BY ordinal_position",
                "a YES; b YES; l YES",
            ),
        ] {
            assert_eq!(rows(&ctx, sql).await.as_deref(), Ok(expected), "{sql}");
        }
    }
}

#[tokio::test]
async fn columns_with_not_null_and_keys_stay_required() {
    let folder = tempfile::tempdir().expect("a folder");
    for ctx in sessions(folder.path()) {
        run(
            &ctx,
            &[
                "CREATE TABLE r(a INT NOT NULL, b INT) AS SELECT * FROM (VALUES (1, NULL), (2, 20)) v(x, y)",
                "CREATE TABLE k(a INT PRIMARY KEY, b INT, c BIGINT NOT NULL DEFAULT 7) AS VALUES (1, 10, 100)",
                "INSERT INTO r VALUES (3, NULL)",
                "INSERT INTO k(a) VALUES (2)",
            ],
        )
        .await;
        for (sql, expected) in [
            ("SELECT * FROM r ORDER BY a", "1 NULL; 2 20; 3 NULL"),
            ("SELECT * FROM k ORDER BY a", "1 10 100; 2 NULL 7"),
            (
                "SELECT table_name, column_name, is_nullable FROM information_schema.columns WHERE table_name IN ('r', 'k') ORDER BY 1, ordinal_position",
                "k a NO; k b YES; k c NO; r a NO; r b YES",
            ),
        ] {
            assert_eq!(rows(&ctx, sql).await.as_deref(), Ok(expected), "{sql}");
        }
        for (sql, problem) in [
            ("INSERT INTO r VALUES (NULL, 1)", "non-nullable"),
            ("INSERT INTO k VALUES (NULL, 1, 1)", "non-nullable"),
            (
                "CREATE TABLE bad(a INT NOT NULL) AS SELECT nullif(value, 2) FROM generate_series(1, 3)",
                "CREATE TABLE: a row has NULL in the column 'a', which is NOT NULL in the table bad",
            ),
            (
                "CREATE TABLE bad(a INT PRIMARY KEY) AS SELECT NULL",
                "which is NOT NULL in the table bad",
            ),
            ("CREATE TABLE r AS SELECT 1 AS a", "already exists"),
            ("CREATE TABLE bad(a INT NOT NULL, b INT) AS SELECT 1", "2 columns"),
        ] {
            let error = rows(&ctx, sql).await.expect_err(sql);
            assert!(error.contains(problem), "{sql}\n{error}");
        }
        // A plan of DataFusion, whose columns have not been numbered.
        let sql = "CREATE TABLE bad AS SELECT r.a, k.a FROM r JOIN k ON r.a = k.a";
        let plan = ctx.state().create_logical_plan(sql).await.expect("a plan");
        let error = galatea::execute(&ctx, plan).await.expect_err(sql).to_string();
        assert!(error.contains("two columns 'a'"), "{error}");
        let error = rows(&ctx, "SELECT * FROM bad").await.expect_err("no table");
        assert!(error.contains("bad"), "{error}");
    }
}
