//! Statements that change stored tables: when they take effect, the state after a failure, and the supported
//! kinds of tables.

use crate::compare::same;
use datafusion::arrow::array::RecordBatch;
use datafusion::physical_plan::collect;
use datafusion::prelude::SessionContext;

/// A session that stores tables and runs queries on the CPU.
async fn session() -> SessionContext {
    let ctx = galatea::session()
        .with_emulated_device(galatea::EmulatorOptions::default())
        .with_setting("galatea.device", "emulated")
        .build()
        .expect("a session");
    ran(&ctx, "SET galatea.device = 'cpu'").await;
    ctx
}

async fn run(ctx: &SessionContext, sql: &str) -> Result<Vec<RecordBatch>, String> {
    let frame = ctx.sql(sql).await.map_err(|error| error.to_string())?;
    frame.collect().await.map_err(|error| error.to_string())
}

async fn ran(ctx: &SessionContext, sql: &str) -> Vec<RecordBatch> {
    run(ctx, sql)
        .await
        .unwrap_or_else(|error| panic!("{sql}\n{error}"))
}

/// Checks that both queries return the same rows.
async fn agree(ctx: &SessionContext, actual: &str, expected: &str) {
    let (found, wanted) = (ran(ctx, actual).await, ran(ctx, expected).await);
    if let Err(difference) = same(&wanted, &found) {
        panic!("{actual}\n{difference}");
    }
}

const CHANGES: &[&str] = &[
    "DELETE FROM t WHERE x > 5",
    "DELETE FROM t",
    "UPDATE t SET x = x + 1 WHERE x < 50",
    "UPDATE t SET y = 'changed'",
    "TRUNCATE TABLE t",
];

async fn with_table(settings: &[(&str, &str)]) -> SessionContext {
    let ctx = session().await;
    ran(
        &ctx,
        "CREATE TABLE t AS SELECT value AS x, 'w' || (value % 7) AS y FROM generate_series(1, 100) AS g(value)",
    )
    .await;
    ran(&ctx, "CREATE TABLE before AS SELECT * FROM t").await;
    for (name, value) in settings {
        ran(&ctx, &format!("SET {name} = '{value}'")).await;
    }
    ctx
}

#[tokio::test]
async fn planning_changes_nothing() {
    let ctx = with_table(&[]).await;
    for sql in CHANGES {
        let explained = run(&ctx, &format!("EXPLAIN {sql}")).await;
        // DataFusion's grammar has no EXPLAIN TRUNCATE.
        assert!(
            explained.is_ok() || sql.starts_with("TRUNCATE"),
            "{sql}: {explained:?}"
        );
        let frame = ctx.sql(sql).await.expect("plans");
        let plan = frame.create_physical_plan().await.expect("plans");
        let never_polled = plan.execute(0, ctx.task_ctx()).expect("starts");
        drop(never_polled);
        agree(&ctx, "SELECT * FROM t", "SELECT * FROM before").await;
    }
}

#[tokio::test]
async fn a_refused_statement_changes_nothing() {
    let ctx = with_table(&[("galatea.device", "emulated"), ("galatea.fallback", "error")]).await;
    for sql in CHANGES {
        let refused = run(&ctx, sql).await.expect_err("no device version");
        assert!(refused.contains("galatea.fallback"), "{sql}: {refused}");
    }
    ran(&ctx, "SET galatea.device = 'cpu'").await;
    agree(&ctx, "SELECT * FROM t", "SELECT * FROM before").await;
}

#[tokio::test]
async fn partially_failed_statement_changes_nothing() {
    let ctx = with_table(&[]).await;
    for sql in [
        "DELETE FROM t WHERE 10 / (x - 50) > 0",
        "UPDATE t SET x = 10 / (x - 99)",
        "UPDATE t SET y = 'changed' WHERE 10 / (x - 100) > 0",
    ] {
        let error = run(&ctx, sql).await.expect_err("a division by zero");
        assert!(error.to_lowercase().contains("divide by zero"), "{sql}: {error}");
        agree(&ctx, "SELECT * FROM t", "SELECT * FROM before").await;
    }
    // Rows that are not updated raise no error.
    ran(&ctx, "UPDATE t SET x = 1000 / (x - 50) WHERE x > 50").await;
}

#[tokio::test]
async fn dml_counts_rows_and_matches_queries() {
    let ctx = with_table(&[]).await;
    agree(
        &ctx,
        "DELETE FROM t WHERE x > 90 OR y = 'w3'",
        "SELECT CAST(count(*) AS BIGINT UNSIGNED) AS count FROM before WHERE x > 90 OR y = 'w3'",
    )
    .await;
    agree(
        &ctx,
        "SELECT * FROM t",
        "SELECT * FROM before WHERE NOT (x > 90 OR y = 'w3')",
    )
    .await;
    ran(&ctx, "UPDATE t SET x = -x, y = y || '!' WHERE x % 2 = 0").await;
    agree(
        &ctx,
        "SELECT * FROM t",
        "SELECT CASE WHEN x % 2 = 0 THEN -x ELSE x END AS x, CASE WHEN x % 2 = 0 THEN y || '!' ELSE y END AS y \
         FROM before WHERE NOT (x > 90 OR y = 'w3')",
    )
    .await;
    let missing = run(&ctx, "UPDATE t SET nothing = 1")
        .await
        .expect_err("no such column");
    assert!(missing.contains("nothing"), "{missing}");
}

#[tokio::test]
async fn dml_with_constant_or_subquery_conditions() {
    let ctx = with_table(&[]).await;
    for sql in [
        "DELETE FROM t WHERE false",
        "DELETE FROM t WHERE x > 5 AND 1 = 0",
        "DELETE FROM t WHERE NULL",
        "UPDATE t SET x = 0 WHERE 1 > 2",
    ] {
        agree(&ctx, sql, "SELECT CAST(0 AS BIGINT UNSIGNED) AS count").await;
        agree(&ctx, "SELECT * FROM t", "SELECT * FROM before").await;
    }
    for sql in [
        "DELETE FROM t WHERE x IN (SELECT x FROM before WHERE x < 10)",
        "DELETE FROM t WHERE NOT EXISTS (SELECT 1 FROM before WHERE before.x = t.x + 50)",
        "UPDATE t SET y = before.y FROM before WHERE t.x = before.x + 1",
    ] {
        let refused = run(&ctx, sql).await.expect_err("a condition on other tables");
        assert!(!refused.contains("internal error"), "{sql}: {refused}");
        agree(&ctx, "SELECT * FROM t", "SELECT * FROM before").await;
    }
    agree(
        &ctx,
        "DELETE FROM t WHERE true AND x <= 10",
        "SELECT CAST(10 AS BIGINT UNSIGNED) AS count",
    )
    .await;
}

#[tokio::test]
async fn reexecuted_dml_plan_sees_current_rows() {
    let ctx = with_table(&[]).await;
    let frame = ctx.sql("DELETE FROM t WHERE x <= 10").await.expect("plans");
    let plan = frame.create_physical_plan().await.expect("plans");
    collect(plan.clone(), ctx.task_ctx()).await.expect("deletes");
    ran(&ctx, "INSERT INTO t VALUES (5, 'again'), (500, 'stays')").await;
    let counted = collect(plan, ctx.task_ctx()).await.expect("deletes again");
    assert_eq!(counted.iter().map(RecordBatch::num_rows).sum::<usize>(), 1);
    agree(
        &ctx,
        "SELECT * FROM t",
        "SELECT * FROM before WHERE x > 10 UNION ALL SELECT 500, 'stays'",
    )
    .await;
}

/// Types that DataFusion creates tables of, whether or not the store supports them.
const TYPES: &[(&str, &str)] = &[
    ("'foo'", "Dictionary(Int32, Utf8)"),
    ("'foo'", "Dictionary(UInt8, Utf8View)"),
    ("'foo'", "Dictionary(Int8, LargeUtf8)"),
    ("'foo'", "Dictionary(Int16, Binary)"),
    ("1", "Dictionary(Int32, Int64)"),
    ("1", "Dictionary(Int32, Float64)"),
    ("1.5", "Dictionary(Int32, Decimal128(10, 2))"),
    ("arrow_cast(7, 'Date32')", "Dictionary(Int32, Date32)"),
    (
        "arrow_cast(7, 'Timestamp(Nanosecond, None)')",
        "Dictionary(Int32, Timestamp(Nanosecond, None))",
    ),
    (
        "arrow_cast('foo', 'Dictionary(UInt32, Utf8)')",
        "Dictionary(Int32, Dictionary(UInt32, Utf8))",
    ),
    ("'foo'", "FixedSizeBinary(3)"),
    ("1", "Decimal256(50, 2)"),
    ("interval '1 day'", "Interval(MonthDayNano)"),
    ("1", "Duration(Second)"),
    ("'foo'", "LargeBinary"),
    ("'foo'", "BinaryView"),
    ("1", "Float16"),
    ("NULL", "Null"),
    ("true", "Boolean"),
    ("[1, 2]", "List(Int64)"),
];

#[tokio::test]
async fn tables_can_be_created_for_every_type() {
    let ctx = session().await;
    for (value, data_type) in TYPES {
        let made = format!("arrow_cast({value}, '{data_type}')");
        if run(&ctx, &format!("SELECT {made}")).await.is_err() {
            continue;
        }
        ran(&ctx, &format!("CREATE TABLE t AS SELECT {made} AS c")).await;
        agree(
            &ctx,
            "SELECT c, arrow_typeof(c) AS t FROM t",
            &format!("SELECT {made} AS c, arrow_typeof({made}) AS t"),
        )
        .await;
        // DataFusion cannot insert into every table that it creates.
        match run(
            &ctx,
            &format!("INSERT INTO t SELECT {made} AS c UNION ALL SELECT NULL"),
        )
        .await
        {
            Ok(_) => agree(&ctx, "SELECT count(*) AS n FROM t", "SELECT 3 AS n").await,
            Err(error) => assert!(
                !error.contains("internal error in the store"),
                "{data_type}: {error}"
            ),
        }
        ran(&ctx, "DROP TABLE t").await;
    }
}

#[tokio::test]
async fn narrow_key_dictionaries_can_outgrow_their_key_type() {
    let ctx = session().await;
    ran(
        &ctx,
        "CREATE TABLE t AS SELECT arrow_cast(CAST(value AS VARCHAR), 'Dictionary(Int8, Utf8)') AS c \
         FROM generate_series(1, 100) AS g(value)",
    )
    .await;
    ran(
        &ctx,
        "INSERT INTO t SELECT arrow_cast(CAST(value AS VARCHAR), 'Dictionary(Int8, Utf8)') \
         FROM generate_series(101, 200) AS g(value)",
    )
    .await;
    agree(
        &ctx,
        "SELECT CAST(c AS BIGINT) AS c FROM t",
        "SELECT value AS c FROM generate_series(1, 200) AS g(value)",
    )
    .await;
}

/// Queries with columns that change their type, or become nullable, only during planning.
const CREATED: &[&str] = &[
    "SELECT x, CASE WHEN x > 50 THEN '' ELSE 'p' || CAST(x AS VARCHAR) END AS s FROM t WHERE x > 3",
    "SELECT CASE WHEN x > 50 THEN '' ELSE 'p' || CAST(x AS VARCHAR) END AS s, count(*) AS n FROM t GROUP BY s",
    "SELECT CASE WHEN x > 50 THEN 1 ELSE 0.5 END AS s FROM t",
    "SELECT x, (SELECT count(*) FROM t AS u WHERE u.x = t.x + 50) AS n FROM t",
    "SELECT x, (SELECT max(u.x) FROM t AS u WHERE u.x = t.x + 50) AS n FROM t",
    "SELECT DISTINCT ON (y) y, x FROM t ORDER BY y, x DESC",
    "SELECT x FROM t WHERE x < 5 UNION ALL SELECT 0.5 UNION ALL SELECT NULL",
    "SELECT y, sum(x) AS n, grouping(y) AS g FROM t GROUP BY ROLLUP (y)",
    "SELECT t.x, u.y FROM t LEFT JOIN t AS u ON t.x = u.x + 90",
];

#[tokio::test]
async fn created_tables_match_types_and_rows_of_their_query() {
    let ctx = with_table(&[]).await;
    for device in ["cpu", "emulated"] {
        for (number, query) in CREATED.iter().enumerate() {
            ran(&ctx, &format!("SET galatea.device = '{device}'")).await;
            let (deferred, whole) = (format!("{device}_{number}"), format!("{device}_{number}_whole"));
            ran(&ctx, &format!("CREATE TABLE {deferred} AS {query}")).await;
            ran(&ctx, "SET galatea.cache.plans = 0").await;
            ran(&ctx, &format!("CREATE TABLE {whole} AS {query}")).await;
            ran(&ctx, "SET galatea.cache.plans = 'default'").await;
            ran(&ctx, "SET galatea.device = 'cpu'").await;
            let types = async |table: &str| {
                let frame = ctx.table(table).await.expect("a table");
                let fields = frame.schema().fields().iter();
                let types = fields.map(|field| field.data_type().clone());
                types.collect::<Vec<_>>()
            };
            assert_eq!(types(&deferred).await, types(&whole).await, "{query}");
            agree(
                &ctx,
                &format!("SELECT * FROM {deferred} ORDER BY 1"),
                &format!("SELECT * FROM {whole} ORDER BY 1"),
            )
            .await;
        }
    }
}
