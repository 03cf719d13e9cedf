//! DELETE, UPDATE and TRUNCATE in databases and in memory.

use std::path::Path;

use datafusion::prelude::SessionContext;

use crate::database::{open, rows, run};

const TABLES: [&str; 6] = [
    "CREATE TABLE start(a INT, b BIGINT, s VARCHAR) AS VALUES (1, 10, 'x'), (2, 20, 'y'), (NULL, 30, 'z'), (4, NULL, NULL)",
    "CREATE TABLE u AS SELECT * FROM (VALUES (2), (4)) AS v(x)",
    "CREATE TABLE n AS SELECT * FROM (VALUES (2), (NULL)) AS v(x)",
    "CREATE VIEW seen AS SELECT * FROM start",
    "CREATE SCHEMA other",
    "CREATE TABLE other.t(c BIGINT, a INT) AS VALUES (NULL, 1), (5, 7)",
];

/// Sessions with tables of DataFusion, with tables of the store on the CPU and on the device, and with
/// databases on both.
pub(crate) async fn sessions(folder: &Path) -> Vec<SessionContext> {
    let plain = galatea::session()
        .with_setting("galatea.device", "cpu")
        .with_file_queries(true)
        .build()
        .expect("a session");
    let stored = || {
        galatea::session()
            .with_emulated_device(galatea::EmulatorOptions::default())
            .with_setting("galatea.device", "emulated")
            .with_setting("galatea.tuning.min_rows", "0")
            .with_file_queries(true)
            .build()
            .expect("a session")
    };
    let (cpu, device) = (stored(), stored());
    run(&cpu, &["SET galatea.device = 'cpu'"]).await;
    let databases = ["cpu", "emulated"].map(|device| open(&folder.join(device), device));
    [plain, cpu, device].into_iter().chain(databases).collect()
}

/// Changes options of a session.
fn options(ctx: &SessionContext, change: impl FnOnce(&mut datafusion::config::ConfigOptions)) {
    change(ctx.state_ref().write().config_mut().options_mut());
}

/// Checks the rows of the table `t` with 1 and 16 partitions, in order and grouped by the first column, which
/// has no value twice.
async fn check(ctx: &SessionContext, sql: &str, expected: &str) {
    for partitions in [1, 16] {
        options(ctx, |options| options.execution.target_partitions = partitions);
        for query in [AFTER, GROUPED] {
            let found = rows(ctx, query).await;
            assert_eq!(
                found.as_deref(),
                Ok(expected),
                "{sql}\n{query} with {partitions} partitions"
            );
        }
    }
}

/// A statement, its count, and the rows of the table after it.
type Case = (&'static str, &'static str, &'static str);

const ALL: &str = "1 10 x; 2 20 y; 4 NULL NULL; NULL 30 z";

const CASES: &[Case] = &[
    ("DELETE FROM t", "4", ""),
    ("DELETE FROM t WHERE a = 1", "1", "2 20 y; 4 NULL NULL; NULL 30 z"),
    ("DELETE FROM t WHERE a > 1", "2", "1 10 x; NULL 30 z"),
    (
        "DELETE FROM t WHERE (a + b) * (a + b) > 200",
        "1",
        "1 10 x; 4 NULL NULL; NULL 30 z",
    ),
    (
        "UPDATE t SET b = (a + b) * (a + b) WHERE a + b > 1 AND a + b < 20",
        "1",
        "1 121 x; 2 20 y; 4 NULL NULL; NULL 30 z",
    ),
    (
        "UPDATE t SET b = coalesce(b, 0) WHERE coalesce(b, 0) = 0 OR coalesce(b, 0) = 30",
        "2",
        "1 10 x; 2 20 y; 4 0 NULL; NULL 30 z",
    ),
    (
        "DELETE FROM t WHERE NOT (a > 1)",
        "1",
        "2 20 y; 4 NULL NULL; NULL 30 z",
    ),
    ("DELETE FROM t WHERE NULL", "0", ALL),
    ("DELETE FROM t WHERE a = NULL", "0", ALL),
    ("DELETE FROM t WHERE false", "0", ALL),
    (
        "DELETE FROM t WHERE a IS NULL OR s IS NULL",
        "2",
        "1 10 x; 2 20 y",
    ),
    (
        "DELETE FROM t WHERE a IN (SELECT x FROM u)",
        "2",
        "1 10 x; NULL 30 z",
    ),
    (
        "DELETE FROM t WHERE a NOT IN (SELECT x FROM u)",
        "1",
        "2 20 y; 4 NULL NULL; NULL 30 z",
    ),
    ("DELETE FROM t WHERE a NOT IN (SELECT x FROM n)", "0", ALL),
    (
        "DELETE FROM t WHERE EXISTS (SELECT 1 FROM u WHERE x = t.a)",
        "2",
        "1 10 x; NULL 30 z",
    ),
    (
        "DELETE FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE x = t.a)",
        "2",
        "2 20 y; 4 NULL NULL",
    ),
    (
        "DELETE FROM t WHERE a < (SELECT max(x) FROM u)",
        "2",
        "4 NULL NULL; NULL 30 z",
    ),
    (
        "DELETE FROM t WHERE b > (SELECT avg(b) FROM t)",
        "1",
        "1 10 x; 2 20 y; 4 NULL NULL",
    ),
    ("DELETE FROM t WHERE a = 1 AND a IN (SELECT x FROM u)", "0", ALL),
    (
        "UPDATE t SET b = x * 100 FROM u WHERE t.a = u.x",
        "2",
        "1 10 x; 2 200 y; 4 400 NULL; NULL 30 z",
    ),
    (
        "UPDATE t AS o SET b = o.b + u.x, s = 'm' FROM u WHERE a = x AND s IS NOT NULL",
        "1",
        "1 10 x; 2 22 m; 4 NULL NULL; NULL 30 z",
    ),
    (
        "UPDATE t SET s = 'in' FROM u, n WHERE t.a = u.x AND u.x = n.x",
        "1",
        "1 10 x; 2 20 in; 4 NULL NULL; NULL 30 z",
    ),
    (
        "UPDATE t SET b = v.total FROM (SELECT x, sum(x) + 1 AS total FROM u GROUP BY x) AS v WHERE v.x = t.a",
        "2",
        "1 10 x; 2 3 y; 4 5 NULL; NULL 30 z",
    ),
    (
        "UPDATE t SET b = o.c FROM other.t AS o WHERE t.a = o.c - 1",
        "1",
        "1 10 x; 2 20 y; 4 5 NULL; NULL 30 z",
    ),
    ("DELETE FROM t USING u WHERE a = x", "2", "1 10 x; NULL 30 z"),
    (
        "DELETE FROM t AS o USING u JOIN n ON u.x = n.x WHERE o.a = u.x",
        "1",
        "1 10 x; 4 NULL NULL; NULL 30 z",
    ),
    (
        "DELETE FROM t USING t AS o WHERE t.a > o.a",
        "2",
        "1 10 x; NULL 30 z",
    ),
    ("DELETE FROM t USING u", "4", ""),
    ("UPDATE t SET b = 0", "4", "1 0 x; 2 0 y; 4 0 NULL; NULL 0 z"),
    (
        "UPDATE t SET b = b + 1, s = s || '!' WHERE a >= 2",
        "2",
        "1 10 x; 2 21 y!; 4 NULL NULL; NULL 30 z",
    ),
    (
        "UPDATE t SET b = a, a = b WHERE a = 1",
        "1",
        "2 20 y; 4 NULL NULL; 10 1 x; NULL 30 z",
    ),
    (
        "UPDATE t SET s = NULL WHERE a = 2",
        "1",
        "1 10 x; 2 20 NULL; 4 NULL NULL; NULL 30 z",
    ),
    ("UPDATE t SET b = 7 WHERE NULL", "0", ALL),
    ("UPDATE t SET b = 7 WHERE a NOT IN (SELECT x FROM n)", "0", ALL),
    (
        "UPDATE t SET b = 7 WHERE a IN (SELECT x FROM u)",
        "2",
        "1 10 x; 2 7 y; 4 7 NULL; NULL 30 z",
    ),
    (
        "UPDATE t SET b = (SELECT max(x) FROM u) WHERE s = 'x'",
        "1",
        "1 4 x; 2 20 y; 4 NULL NULL; NULL 30 z",
    ),
    (
        "UPDATE t SET b = (SELECT sum(x) FROM u WHERE x = t.a)",
        "4",
        "1 NULL x; 2 2 y; 4 4 NULL; NULL NULL z",
    ),
    (
        "UPDATE t AS z SET b = z.a * 2 WHERE z.a = 2",
        "1",
        "1 10 x; 2 4 y; 4 NULL NULL; NULL 30 z",
    ),
    (
        "UPDATE t SET b = '12' WHERE a = 1",
        "1",
        "1 12 x; 2 20 y; 4 NULL NULL; NULL 30 z",
    ),
    // The value is computed for changed rows only.
    (
        "UPDATE t SET b = 100 / (a - 2) WHERE a > 2",
        "1",
        "1 10 x; 2 20 y; 4 50 NULL; NULL 30 z",
    ),
    // Values are cast as by INSERT.
    (
        "UPDATE t SET s = 5, b = 2.0, a = '3' WHERE a = 4",
        "1",
        "1 10 x; 2 20 y; 3 2 5; NULL 30 z",
    ),
    (
        "UPDATE t SET a = 9 WHERE s = 'x' AND b = (SELECT min(b) FROM t)",
        "1",
        "2 20 y; 4 NULL NULL; 9 10 x; NULL 30 z",
    ),
    (
        "UPDATE t SET b = CASE WHEN a IN (SELECT x FROM u) THEN a END WHERE b IS NOT NULL",
        "3",
        "1 NULL x; 2 2 y; 4 NULL NULL; NULL NULL z",
    ),
    ("UPDATE t SET b = b WHERE b >= 20", "2", ALL),
    (
        "DELETE FROM t WHERE a = (SELECT x FROM u WHERE x > 100)",
        "0",
        ALL,
    ),
    // Another table with the same name.
    (
        "DELETE FROM t WHERE a IN (SELECT a FROM other.t)",
        "1",
        "2 20 y; 4 NULL NULL; NULL 30 z",
    ),
    (
        "UPDATE t AS z SET b = (SELECT max(c) FROM other.t WHERE other.t.a = z.a + 6) WHERE a = 1",
        "1",
        "1 5 x; 2 20 y; 4 NULL NULL; NULL 30 z",
    ),
    (
        "DELETE FROM public.t WHERE t.a = 1",
        "1",
        "2 20 y; 4 NULL NULL; NULL 30 z",
    ),
    (
        "UPDATE T SET A = 8 WHERE T.a = 1",
        "1",
        "2 20 y; 4 NULL NULL; 8 10 x; NULL 30 z",
    ),
    ("TRUNCATE t", "4", ""),
    ("TRUNCATE TABLE t", "4", ""),
];

const AFTER: &str = "SELECT * FROM t ORDER BY a NULLS LAST";
const GROUPED: &str = "SELECT a, max(b), min(s) FROM t GROUP BY a ORDER BY a NULLS LAST";

#[tokio::test]
async fn changes_have_counts_and_null_semantics() {
    let folder = tempfile::tempdir().expect("a folder");
    for ctx in sessions(folder.path()).await {
        run(&ctx, &TABLES).await;
        for (sql, count, after) in CASES {
            run(&ctx, &["CREATE OR REPLACE TABLE t AS FROM start"]).await;
            assert_eq!(rows(&ctx, sql).await.as_deref(), Ok(*count), "{sql}");
            check(&ctx, sql, after).await;
        }
        // Inserts and further changes of changed, empty and large tables.
        run(
            &ctx,
            &[
                "CREATE OR REPLACE TABLE t AS FROM start",
                "DELETE FROM t",
                "DELETE FROM t",
                "UPDATE t SET a = 1",
                "TRUNCATE t",
                "INSERT INTO t VALUES (5, 6, 'seven')",
                "UPDATE t SET a = a + 1",
                "INSERT INTO t VALUES (7, 8, 'nine')",
                "DELETE FROM t WHERE a = 6",
                "CREATE TABLE large AS SELECT value AS v, value % 10 AS k FROM generate_series(1, 100000)",
                "DELETE FROM large WHERE k < 3",
                "UPDATE large SET v = -v WHERE k = 5",
                "CREATE TABLE \"Two Words\"(\"A b\" INT) AS VALUES (1), (2)",
                "DELETE FROM \"Two Words\" WHERE \"A b\" = 1",
                "UPDATE \"Two Words\" SET \"A b\" = \"A b\" * 10",
            ],
        )
        .await;
        for (sql, expected) in [
            ("SELECT * FROM t", "7 8 nine"),
            (
                "SELECT count(*), count(*) FILTER (WHERE v < 0), min(k) FROM large",
                "70000 10000 3",
            ),
            ("SELECT * FROM \"Two Words\"", "20"),
        ] {
            assert_eq!(rows(&ctx, sql).await.as_deref(), Ok(expected), "{sql}");
        }
    }
}

#[tokio::test]
async fn failed_changes_leave_the_table() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("f.parquet");
    for ctx in sessions(folder.path()).await {
        run(&ctx, &TABLES).await;
        let copy = format!("COPY start TO '{}'", file.display());
        let table = format!(
            "CREATE EXTERNAL TABLE f STORED AS PARQUET LOCATION '{}'",
            file.display()
        );
        run(
            &ctx,
            &[
                "CREATE TABLE t AS FROM start",
                "CREATE TABLE required(a INT NOT NULL, b INT) AS VALUES (1, 7)",
                &copy,
                &table,
            ],
        )
        .await;
        for (sql, problem) in [
            ("UPDATE t SET b = 100 / (a - 2)", "by zero"),
            ("DELETE FROM t WHERE 100 / (a - 2) > 0", "by zero"),
            ("UPDATE t SET b = 'word' WHERE a = 1", "word"),
            ("UPDATE t SET b = 9223372036854775807 + a", "verflow"),
            (
                "UPDATE required SET a = NULL",
                "UPDATE: a row has NULL in the column 'a', which is NOT NULL in the table required",
            ),
            (
                "UPDATE required SET b = 2, a = nullif(b, 7)",
                "UPDATE: a row has NULL in the column 'a', which is NOT NULL in the table required",
            ),
            ("UPDATE t SET a = 99999999999 WHERE a = 1", "99999999999"),
            ("UPDATE t SET b = 1, \"b\" = 2", "two values of the column \"b\""),
            ("UPDATE t SET b = 1, t.b = 2", "two values of the column b"),
            ("UPDATE t SET (a, b) = (1, 2)", "UPDATE of a list of columns"),
            ("UPDATE t SET b = (SELECT x FROM u)", "more than one row"),
            (
                "UPDATE t SET b = sum(b)",
                "UPDATE with an aggregate or window function",
            ),
            (
                "UPDATE t SET b = row_number() OVER (ORDER BY a)",
                "UPDATE with an aggregate or window function",
            ),
            ("DELETE FROM t WHERE b = max(b)", "aggregate"),
            (
                "UPDATE t SET b = 1 RETURNING b",
                "RETURNING of UPDATE is not supported\nhint: ",
            ),
            (
                "DELETE FROM t RETURNING b",
                "RETURNING of DELETE is not supported\nhint: ",
            ),
            ("UPDATE t SET b = 1 LIMIT 1", "UPDATE with LIMIT is not supported"),
            (
                "UPDATE t JOIN u ON a = x SET b = 1",
                "UPDATE of joined tables is not supported",
            ),
            (
                "UPDATE t SET b = c FROM other.t AS o WHERE a = c",
                "UPDATE ... FROM reads the column a, which is in t and in another table",
            ),
            (
                "UPDATE t SET b = v.x FROM (VALUES (2, 1), (2, 5)) AS v(k, x) WHERE v.k = t.a",
                "has 2 rows for a row of the query around it",
            ),
            (
                "DELETE FROM t USING t WHERE a = 1",
                "DELETE ... USING reads the changed table under its own name",
            ),
            ("DELETE FROM t USING missing WHERE a = 1", "missing"),
            ("DELETE FROM t WHERE a + 1", "boolean"),
            ("TRUNCATE t, u", "multiple tables"),
            (
                "WITH c AS (SELECT 1 AS x) DELETE FROM t WHERE a IN (SELECT x FROM c)",
                "not implemented",
            ),
            ("UPDATE t SET missing = 1", "missing"),
            ("UPDATE t SET b = 1, B = 2", "two values of the column b"),
            ("DELETE FROM t WHERE missing = 1", "missing"),
            ("DELETE FROM missing", "missing"),
            ("DELETE FROM t LIMIT 1", "DELETE with LIMIT is not supported"),
            ("DELETE FROM seen", "DELETE is not supported for the view seen"),
            (
                "UPDATE seen SET a = 1",
                "UPDATE is not supported for the view seen",
            ),
            ("TRUNCATE seen", "TRUNCATE is not supported for the view seen"),
            (
                "DELETE FROM f",
                "DELETE is not supported for the table of files f",
            ),
            (
                "UPDATE f SET a = 1 WHERE a = 2",
                "UPDATE is not supported for the table of files f",
            ),
        ] {
            let error = rows(&ctx, sql).await.expect_err(sql);
            assert!(error.contains(problem), "{sql}\n{error}");
            check(&ctx, sql, ALL).await;
        }
        assert_eq!(rows(&ctx, "SELECT * FROM required").await.as_deref(), Ok("1 7"));
        assert_eq!(rows(&ctx, "SELECT count(*) FROM f").await.as_deref(), Ok("4"));
    }
}

/// Changes last, files without names are removed, and prepared statements see the current rows.
#[tokio::test]
async fn changes_of_databases_last() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("my.db");
    let ctx = open(&path, "cpu");
    run(
        &ctx,
        &[
            "CREATE TABLE t AS SELECT value AS v FROM generate_series(1, 10)",
            "PREPARE remove AS DELETE FROM t WHERE v <= $1 AND v < (SELECT max(v) FROM t)",
            "EXECUTE remove(2)",
            "INSERT INTO t VALUES (-1), (20)",
        ],
    )
    .await;
    assert_eq!(rows(&ctx, "EXECUTE remove(10)").await.as_deref(), Ok("9"));
    assert_eq!(rows(&ctx, "SELECT v FROM t").await.as_deref(), Ok("20"));
    run(
        &ctx,
        &[
            "INSERT INTO t VALUES (1), (2)",
            "UPDATE t SET v = v * 10 WHERE v < 10",
        ],
    )
    .await;
    let plan = rows(&ctx, "EXPLAIN DELETE FROM t").await.expect("a plan");
    assert!(plan.contains("DELETE of public.t"), "{plan}");
    drop(ctx);
    let ctx = open(&path, "emulated");
    assert_eq!(
        rows(&ctx, "SELECT v FROM t ORDER BY v").await.as_deref(),
        Ok("10; 20; 20")
    );
    let files = std::fs::read_dir(path.join("data")).expect("a folder").count();
    assert_eq!(files, 1, "files without names were removed");
}

/// A statement that lost against another one changes nothing.
#[tokio::test]
async fn concurrent_changes_are_conflicts() {
    let folder = tempfile::tempdir().expect("a folder");
    for ctx in sessions(folder.path()).await {
        run(
            &ctx,
            &["CREATE TABLE t AS SELECT value AS v FROM generate_series(1, 10)"],
        )
        .await;
        let frame = galatea::sql(&ctx, "DELETE FROM t WHERE v IN (SELECT v FROM t WHERE v > 5)")
            .await
            .expect("a frame");
        let plan = frame.create_physical_plan().await.expect("a plan");
        run(&ctx, &["INSERT INTO t VALUES (11)"]).await;
        let error = datafusion::physical_plan::collect(plan, ctx.task_ctx()).await;
        let error = error.expect_err("a conflict").to_string();
        assert!(error.contains("changed by another statement"), "{error}");
        assert_eq!(rows(&ctx, "SELECT count(*) FROM t").await.as_deref(), Ok("11"));
    }
}

/// Concurrent statements either change all of their rows or fail.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_changes_lose_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    for ctx in sessions(folder.path()).await {
        run(
            &ctx,
            &["CREATE TABLE t AS SELECT 0 AS v, value AS k FROM generate_series(1, 1000)"],
        )
        .await;
        let update = |sql: &'static str| {
            let ctx = ctx.clone();
            tokio::spawn(async move {
                loop {
                    match rows(&ctx, sql).await {
                        Ok(count) => return count,
                        Err(error) => assert!(error.contains("changed by another statement"), "{error}"),
                    }
                }
            })
        };
        let sql = [
            "UPDATE t SET v = v + 1",
            "UPDATE t SET v = v + 1 WHERE k IN (SELECT k FROM t)",
        ];
        let tasks: Vec<_> = (0..8).map(|number| update(sql[number % 2])).collect();
        for task in tasks {
            assert_eq!(task.await.expect("no panic"), "1000");
        }
        assert_eq!(
            rows(&ctx, "SELECT count(*), min(v), max(v), sum(k) FROM t")
                .await
                .as_deref(),
            Ok("1000 8 8 500500")
        );
    }
}

/// A prepared statement refuses a table that was replaced, and changes the current rows otherwise.
#[tokio::test]
async fn prepared_changes_of_replaced_tables() {
    let folder = tempfile::tempdir().expect("a folder");
    for ctx in sessions(folder.path()).await {
        run(
            &ctx,
            &[
                "CREATE TABLE t(a INT, b BIGINT, s VARCHAR) AS VALUES (1, 10, 'x'), (2, 20, 'y')",
                "PREPARE change AS UPDATE t SET b = $1 WHERE a IN (SELECT max(a) FROM t)",
                "PREPARE remove AS DELETE FROM t WHERE a = 1",
                "EXECUTE change(7)",
                "INSERT INTO t VALUES (3, 30, NULL)",
            ],
        )
        .await;
        assert_eq!(rows(&ctx, "EXECUTE change(8)").await.as_deref(), Ok("1"));
        run(
            &ctx,
            &["PREPARE all_of AS SELECT count(*), sum(b) FROM t WHERE a IN (SELECT a FROM t)"],
        )
        .await;
        assert_eq!(rows(&ctx, "EXECUTE all_of").await.as_deref(), Ok("3 25"));
        run(
            &ctx,
            &[
                "INSERT INTO t VALUES (4, 100, 'w')",
                "UPDATE t SET b = 200 WHERE a = 4",
            ],
        )
        .await;
        assert_eq!(rows(&ctx, "EXECUTE all_of").await.as_deref(), Ok("4 225"));
        run(&ctx, &["DELETE FROM t WHERE a = 4"]).await;
        assert_eq!(rows(&ctx, "EXECUTE all_of").await.as_deref(), Ok("3 25"));
        check(&ctx, "EXECUTE change(8)", "1 10 x; 2 7 y; 3 8 NULL").await;
        run(
            &ctx,
            &["CREATE OR REPLACE TABLE t AS SELECT 1 AS s, 'x' AS b, 3 AS a"],
        )
        .await;
        for sql in ["EXECUTE change(9)", "EXECUTE remove"] {
            let error = rows(&ctx, sql).await.expect_err(sql);
            assert!(
                error.contains("the table t was dropped or replaced"),
                "{sql}\n{error}"
            );
        }
        assert_eq!(rows(&ctx, "SELECT * FROM t").await.as_deref(), Ok("1 x 3"));
        run(&ctx, &["DROP TABLE t"]).await;
        let error = rows(&ctx, "EXECUTE remove").await.expect_err("no table");
        assert!(error.contains("the table t was dropped or replaced"), "{error}");
    }
}

/// Views in the condition show the rows before the statement.
#[tokio::test]
async fn conditions_read_views_of_the_changed_table() {
    let folder = tempfile::tempdir().expect("a folder");
    for ctx in sessions(folder.path()).await {
        run(
            &ctx,
            &[
                "CREATE TABLE t(a INT, b BIGINT, s VARCHAR) AS VALUES (1, 10, 'x'), (2, 20, 'y'), (3, 30, 'z')",
                "CREATE VIEW v AS SELECT a, b FROM t WHERE a < 3",
                "UPDATE t SET b = (SELECT sum(b) FROM v) + a WHERE a IN (SELECT a FROM v)",
            ],
        )
        .await;
        check(&ctx, "a view", "1 31 x; 2 32 y; 3 30 z").await;
        assert_eq!(rows(&ctx, "SELECT sum(b) FROM v").await.as_deref(), Ok("63"));
        assert_eq!(
            rows(&ctx, "DELETE FROM t WHERE b > (SELECT min(b) FROM v)")
                .await
                .as_deref(),
            Ok("1")
        );
        check(&ctx, "a view", "1 31 x; 3 30 z").await;
    }
}

/// A volatile condition is evaluated once for each row.
#[tokio::test]
async fn volatile_conditions_count_the_changed_rows() {
    let folder = tempfile::tempdir().expect("a folder");
    for ctx in sessions(folder.path()).await {
        run(
            &ctx,
            &["CREATE TABLE t AS SELECT value AS v, 0 AS w FROM generate_series(1, 10000)"],
        )
        .await;
        let updated = rows(&ctx, "UPDATE t SET w = 1 WHERE random() < 0.5")
            .await
            .expect("a count");
        let marked = rows(&ctx, "SELECT sum(w) FROM t").await.expect("a sum");
        assert_eq!(updated, marked);
        let deleted = rows(&ctx, "DELETE FROM t WHERE random() < 0.5")
            .await
            .expect("a count");
        let left = rows(&ctx, "SELECT count(*) FROM t").await.expect("a count");
        let number = |text: &str| text.parse::<i64>().expect("a number");
        assert_eq!(number(&deleted) + number(&left), 10_000);
        assert!((4000..6000).contains(&number(&left)), "{left}");
    }
}

/// The declared order of a table in memory does not outlive its rows.
#[tokio::test]
async fn declared_order_ends_with_an_update() {
    use arrow::array::{Int64Array, RecordBatch};
    let values = Int64Array::from_iter_values(0..1000);
    let batch = RecordBatch::try_from_iter([("v", std::sync::Arc::new(values) as _)]).expect("a batch");
    let table =
        datafusion::datasource::MemTable::try_new(batch.schema(), vec![vec![batch]]).expect("a table");
    let table = table.with_sort_order(vec![vec![datafusion::prelude::col("v").sort(true, false)]]);
    let ctx = galatea::session()
        .with_setting("galatea.device", "cpu")
        .build()
        .expect("a session");
    ctx.register_table("t", std::sync::Arc::new(table))
        .expect("registered");
    assert_eq!(
        rows(&ctx, "UPDATE t SET v = 999 - v").await.as_deref(),
        Ok("1000")
    );
    let sql = "SELECT v FROM t ORDER BY v LIMIT 3";
    assert_eq!(rows(&ctx, sql).await.as_deref(), Ok("0; 1; 2"));
}

/// A catalog that cannot be written leaves the table and its files.
#[tokio::test]
async fn failed_publication_changes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("my.db");
    let ctx = open(&path, "cpu");
    run(
        &ctx,
        &["CREATE TABLE t(a INT, b BIGINT, s VARCHAR) AS VALUES (1, 10, 'x'), (2, 20, 'y')"],
    )
    .await;
    let next = path.join("catalog.next");
    std::fs::create_dir(&next).expect("a folder in the way");
    for sql in [
        "UPDATE t SET b = 0",
        "DELETE FROM t",
        "TRUNCATE t",
        "DELETE FROM t WHERE a IN (SELECT a FROM t)",
    ] {
        let error = rows(&ctx, sql).await.expect_err(sql);
        assert!(error.contains("catalog.next"), "{sql}\n{error}");
        check(&ctx, sql, "1 10 x; 2 20 y").await;
    }
    std::fs::remove_dir(&next).expect("removed");
    assert_eq!(rows(&ctx, "UPDATE t SET b = a").await.as_deref(), Ok("2"));
    check(&ctx, "UPDATE t SET b = a", "1 1 x; 2 2 y").await;
    drop(ctx);
    let ctx = open(&path, "emulated");
    check(&ctx, "opened again", "1 1 x; 2 2 y").await;
    let files = std::fs::read_dir(path.join("data")).expect("a folder").count();
    assert_eq!(files, 1, "files without names were removed");
}
