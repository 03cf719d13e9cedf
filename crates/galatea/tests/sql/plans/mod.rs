//! Cached plans: they are reused, and they are never stale.

mod changes;
mod executions;
pub(crate) mod files;
mod texts;

use crate::compare::same;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::util::display::array_value_to_string;
use datafusion::dataframe::DataFrame;
use datafusion::physical_plan::collect;
use datafusion::prelude::SessionContext;
use galatea::{EmulatorOptions, PlanStatistics};

/// A session with the emulated device, and tables `t` of 3000 rows and `d` of 7.
async fn session(settings: &[(&str, &str)]) -> SessionContext {
    let mut builder = galatea::session()
        .with_file_queries(true)
        .with_emulated_device(EmulatorOptions::default())
        .with_setting("galatea.device", "emulated")
        .with_setting("datafusion.catalog.information_schema", "true");
    for (name, value) in settings {
        builder = builder.with_setting(*name, *value);
    }
    let ctx = builder.build().expect("a session");
    run(&ctx, T).await;
    run(&ctx, D).await;
    ctx
}

const T: &str =
    "CREATE TABLE t AS SELECT value AS v, value % 7 AS k, value * 0.5 AS f FROM generate_series(1, 3000)";
const D: &str = "CREATE TABLE d AS SELECT value AS k, 'name ' || value AS name FROM generate_series(0, 6)";

/// The rows of a statement; one half of the statements is planned by [`galatea::sql`], the other one by
/// [`galatea::physical_plan`].
async fn run(ctx: &SessionContext, sql: &str) -> Vec<RecordBatch> {
    let rows = async {
        if sql.len().is_multiple_of(2) {
            return galatea::sql(ctx, sql).await?.collect().await;
        }
        let plan = galatea::physical_plan(ctx, sql).await?;
        collect(plan, ctx.task_ctx()).await
    };
    rows.await.unwrap_or_else(|error| panic!("{sql}\n{error}"))
}

/// The rows of a query, and whether its plan was reused.
async fn ask(ctx: &SessionContext, sql: &str) -> (Vec<RecordBatch>, bool) {
    let before = statistics(ctx).reused;
    let rows = run(ctx, sql).await;
    let reused = statistics(ctx).reused - before;
    let report = galatea::last_query_report(ctx).expect("a query ran");
    assert_eq!(report.plan_reused, reused == 1, "{sql}");
    (rows, reused == 1)
}

/// The rows of a newly planned query.
async fn afresh(ctx: &SessionContext, sql: &str) -> Vec<RecordBatch> {
    run(ctx, "SET galatea.cache.plans = 0").await;
    let (rows, reused) = ask(ctx, sql).await;
    assert!(!reused);
    run(ctx, "SET galatea.cache.plans = 'default'").await;
    rows
}

/// The frame of a statement that DataFusion plans.
async fn planned(ctx: &SessionContext, sql: &str) -> DataFrame {
    let state = ctx.state();
    let statement = galatea::statement(sql, &state).await.expect(sql);
    let plan = state.statement_to_plan(statement).await.expect(sql);
    ctx.execute_logical_plan(plan).await.expect(sql)
}

/// Runs a query as SQL and as a plan that DataFusion built from it, and compares the rows with those of a new
/// plan. Returns whether the plan was reused at first.
async fn checked(ctx: &SessionContext, sql: &str, context: &str) -> bool {
    let (rows, reused) = ask(ctx, sql).await;
    let expected = afresh(ctx, sql).await;
    let check = |rows: &[RecordBatch], reused: bool| {
        if let Err(difference) = same(&expected, rows) {
            panic!("{context}, reused: {reused}\n{sql}\n{difference}");
        }
    };
    check(&rows, reused);
    check(
        &planned(ctx, sql).await.collect().await.expect("it ran before"),
        true,
    );
    reused
}

/// Rows as strings, with columns separated by bars.
fn rows_text(batches: &[RecordBatch]) -> Vec<String> {
    let cell = |batch: &RecordBatch, column: usize, row: usize| {
        array_value_to_string(batch.column(column), row).expect("text")
    };
    let rows = batches.iter().flat_map(|batch| {
        (0..batch.num_rows()).map(move |row| {
            let cells: Vec<String> = (0..batch.num_columns()).map(|c| cell(batch, c, row)).collect();
            cells.join("|")
        })
    });
    rows.collect()
}

/// The single value of a query, as a string.
async fn value(ctx: &SessionContext, sql: &str) -> String {
    rows_text(&run(ctx, sql).await).join(";")
}

fn statistics(ctx: &SessionContext) -> PlanStatistics {
    galatea::plan_statistics(ctx).expect("a Galatea session")
}

/// Queries with reusable plans on any device.
const QUERIES: &[&str] = &[
    "SELECT v, f FROM t WHERE v % 5 = 1",
    "SELECT * FROM d",
    "SELECT count(*), sum(v), min(f), max(v) FROM t",
    "SELECT k, count(*) AS n, avg(f) FROM t WHERE v > 10 GROUP BY k HAVING count(*) > 1 ORDER BY k",
    "SELECT d.name, sum(t.v) FROM t JOIN d ON t.k = d.k GROUP BY d.name",
    "SELECT t.v, d.name FROM t LEFT JOIN d ON t.k = d.k WHERE t.v < 40",
    "SELECT count(*) FROM t, d WHERE t.k < d.k",
    "SELECT v FROM t WHERE k = 3 ORDER BY v DESC LIMIT 5",
    "SELECT v FROM t WHERE k IN (SELECT k FROM d WHERE name = 'name 2')",
    "SELECT v FROM t WHERE NOT EXISTS (SELECT 1 FROM d WHERE d.k = t.v)",
    "SELECT k FROM t UNION SELECT k FROM d",
    "SELECT DISTINCT k, v % 2 FROM t",
    "SELECT v, row_number() OVER (PARTITION BY k ORDER BY v) AS n FROM t",
    "WITH big AS (SELECT * FROM t WHERE v > 2990) SELECT a.v, b.k FROM big a JOIN big b ON a.v = b.v",
    "SELECT t.v, x.y FROM t JOIN (VALUES (1, 'a'), (2, 'b')) AS x(k, y) ON t.v = x.k",
    "SELECT 1 + 1 AS two",
    // Values of subqueries: in pipelines, around them, nested, several.
    "SELECT count(*), sum(f) FROM t WHERE v > (SELECT avg(v) FROM t)",
    "SELECT k, sum(v) AS s FROM t GROUP BY k HAVING sum(v) > (SELECT sum(v) * 0.14 FROM t) ORDER BY k",
    "SELECT v, (SELECT max(k) FROM d) - k AS below FROM t WHERE v < (SELECT min(v) + 9 FROM t WHERE v > (SELECT avg(v) FROM t))",
    "SELECT name, (SELECT count(*) FROM t) AS n FROM d WHERE k < (SELECT 3 + min(k) FROM d)",
    "SELECT v FROM t WHERE k IN (SELECT k FROM d WHERE k > (SELECT avg(k) FROM d)) AND v < (SELECT max(k) * 9 FROM d)",
];

#[tokio::test]
async fn plans_of_repeated_queries_are_reused() {
    let ctx = session(&[]).await;
    for device in ["emulated", "cpu"] {
        run(&ctx, &format!("SET galatea.device = '{device}'")).await;
        for sql in QUERIES {
            assert!(
                !checked(&ctx, sql, device).await,
                "{device}: made at first\n{sql}"
            );
            for _ in 0..2 {
                assert!(checked(&ctx, sql, device).await, "{device}: then reused\n{sql}");
            }
        }
    }
}

#[tokio::test]
async fn plans_with_different_literals_are_distinct() {
    let ctx = session(&[]).await;
    for round in 0..2 {
        for least in [10, 20, 2999] {
            let sql = format!("SELECT count(*) FROM t WHERE v > {least}");
            assert_eq!(ask(&ctx, &sql).await.1, round == 1);
            assert_eq!(value(&ctx, &sql).await, (3000 - least).to_string());
        }
    }
    // Names and types of a result are compared, too.
    for sql in [
        "SELECT v AS a FROM t LIMIT 1",
        "SELECT v AS b FROM t LIMIT 1",
        "SELECT CAST(v AS INT) AS a FROM t LIMIT 1",
    ] {
        let (rows, reused) = ask(&ctx, sql).await;
        assert!(!reused);
        let expected = afresh(&ctx, sql).await;
        assert_eq!(expected[0].schema(), rows[0].schema(), "{sql}");
    }
}

#[tokio::test]
async fn prepared_statements_are_planned_once_per_value() {
    let ctx = session(&[]).await;
    run(&ctx, "PREPARE p(BIGINT) AS SELECT count(*) FROM t WHERE v > $1").await;
    for round in 0..2 {
        for least in [10, 20] {
            let sql = format!("EXECUTE p({least})");
            assert_eq!(ask(&ctx, &sql).await.1, round == 1, "{sql}");
            assert_eq!(value(&ctx, &sql).await, (3000 - least).to_string());
        }
    }
    run(&ctx, "DEALLOCATE p").await;
    run(&ctx, "PREPARE p(BIGINT) AS SELECT count(*) FROM t WHERE v < $1").await;
    assert_eq!(value(&ctx, "EXECUTE p(10)").await, "9");
    // A prepared statement reads the table that it was prepared for.
    let plain = SessionContext::new();
    for ctx in [&ctx, &plain] {
        run(ctx, "CREATE OR REPLACE TABLE n AS SELECT 1 AS x").await;
        run(ctx, "PREPARE q AS SELECT x FROM n").await;
    }
    let before = [value(&ctx, "EXECUTE q").await, value(&plain, "EXECUTE q").await];
    assert_eq!(before[0], before[1]);
    for ctx in [&ctx, &plain] {
        run(ctx, "CREATE OR REPLACE TABLE n AS SELECT 2 AS x").await;
    }
    assert_eq!(value(&ctx, "EXECUTE q").await, value(&plain, "EXECUTE q").await);
}

#[tokio::test]
async fn volatile_functions_are_evaluated_in_each_execution() {
    let ctx = session(&[]).await;
    for sql in [
        "SELECT count(*) FROM t WHERE random() < 2",
        "SELECT now() > timestamp '2020-01-01'",
        "SELECT v FROM t WHERE current_date > date '2020-01-01' AND v < 3",
        "WITH r AS (SELECT random() AS x) SELECT count(*) FROM r",
        "SELECT count(*) FROM t WHERE v IN (SELECT v FROM t WHERE random() < 2)",
        "SELECT count(*) FROM t WHERE EXISTS (SELECT 1 FROM d WHERE d.k = t.k AND now() > timestamp '2020-01-01')",
        "SELECT uuid() <> ''",
        // Plans over tables without versions, and of recursive queries, are not cached either.
        "SELECT count(*) FROM generate_series(1, 10)",
        "SELECT count(*) > 0 FROM galatea_memory()",
        "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT sum(n) FROM r",
        "SHOW galatea.device",
    ] {
        for _ in 0..3 {
            assert!(!checked(&ctx, sql, "volatile").await, "{sql}");
        }
    }
    assert_eq!(
        value(
            &ctx,
            "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT sum(n) FROM r"
        )
        .await,
        "15"
    );
    let first = value(&ctx, "SELECT now()").await;
    assert_ne!(first, value(&ctx, "SELECT now()").await);
    assert_eq!(statistics(&ctx).kept, 0);
}

#[tokio::test]
async fn least_recently_used_plans_are_evicted() {
    let ctx = session(&[("galatea.cache.plans", "2")]).await;
    let queries = [
        "SELECT sum(v) FROM t",
        "SELECT min(v) FROM t",
        "SELECT max(v) FROM t",
    ];
    for sql in queries {
        assert!(!ask(&ctx, sql).await.1);
    }
    assert_eq!(statistics(&ctx).kept, 2);
    assert!(ask(&ctx, queries[1]).await.1);
    assert!(!ask(&ctx, queries[0]).await.1);
    assert!(ask(&ctx, queries[1]).await.1);
    assert!(!ask(&ctx, queries[2]).await.1);
    run(&ctx, "SET galatea.cache.plans = 0").await;
    for _ in 0..2 {
        assert!(!ask(&ctx, queries[2]).await.1);
    }
}

#[tokio::test]
async fn explain_is_the_same_with_and_without_plan_cache() {
    let ctx = session(&[]).await;
    let query = "SELECT d.name, sum(t.v) FROM t JOIN d ON t.k = d.k GROUP BY d.name ORDER BY 2 LIMIT 3";
    for explain in ["EXPLAIN", "EXPLAIN VERBOSE", "EXPLAIN FORMAT TREE"] {
        let sql = format!("{explain} {query}");
        let with = rows_text(&run(&ctx, &sql).await);
        run(&ctx, query).await;
        let after = rows_text(&run(&ctx, &sql).await);
        let without = rows_text(&afresh(&ctx, &sql).await);
        assert_eq!(with, without, "{explain}");
        assert_eq!(after, without, "{explain}, with a kept plan");
    }
    let analyzed = rows_text(&run(&ctx, &format!("EXPLAIN ANALYZE {query}")).await).join("\n");
    assert!(
        analyzed.contains("GpuExec") && analyzed.contains("strategy="),
        "{analyzed}"
    );
}

#[tokio::test]
async fn data_frames_over_optimised_plans_return_all_rows() {
    let ctx = session(&[]).await;
    let text = "SELECT v, k FROM t WHERE v < 30";
    let planned = ctx.sql(text).await.expect("a plan");
    let optimised = planned.into_optimized_plan().expect("a plan");
    let known = galatea::sql(&ctx, text).await.expect("a plan");
    for plan in [&optimised, known.logical_plan(), &optimised, known.logical_plan()] {
        let again = ctx.execute_logical_plan(plan.clone()).await.expect("a frame");
        let filtered = again
            .filter(datafusion::prelude::col("k").eq(datafusion::prelude::lit(3)))
            .expect("a filter");
        let rows = filtered.collect().await.expect("rows");
        assert_eq!(rows.iter().map(RecordBatch::num_rows).sum::<usize>(), 4);
    }
    run(&ctx, "CREATE TABLE copy AS SELECT v FROM t WHERE k = 1").await;
    assert_eq!(value(&ctx, "SELECT count(*) FROM copy").await, "429");
    run(&ctx, "INSERT INTO copy SELECT v FROM t WHERE k = 2").await;
    assert_eq!(value(&ctx, "SELECT count(*) FROM copy").await, "858");
}
