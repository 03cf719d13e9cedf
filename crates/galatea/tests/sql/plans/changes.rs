//! A plan is not reused after one of its inputs has changed.

use super::{QUERIES, T, ask, checked, run, session, statistics, value};
use crate::compare::same;
use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::cast::as_int64_array;
use datafusion::logical_expr::{ColumnarValue, Volatility, create_udf};
use datafusion::prelude::SessionContext;
use galatea::GalateaConfig;
use galatea_engine::session::Session;
use std::sync::Arc;

const COUNT: &str = "SELECT count(*), sum(v), min(v) FROM t";

/// The answer of plain DataFusion after the same statements.
async fn plainly(statements: &[&str], sql: &str) -> Vec<RecordBatch> {
    let ctx = SessionContext::new();
    for statement in statements {
        run(&ctx, statement).await;
    }
    run(&ctx, sql).await
}

#[tokio::test]
async fn table_changes_are_visible_to_cached_queries() {
    // Statements of plain DataFusion that produce the same rows in its tables.
    for (change, plain) in [
        (
            "INSERT INTO t VALUES (-5, 1, 0.0)",
            "CREATE OR REPLACE TABLE t AS SELECT * FROM t UNION ALL SELECT -5, 1, 0.0",
        ),
        (
            "DELETE FROM t WHERE k = 2",
            "CREATE OR REPLACE TABLE t AS SELECT * FROM t WHERE k <> 2",
        ),
        (
            "UPDATE t SET v = v + 1000 WHERE k = 3",
            "CREATE OR REPLACE TABLE t AS SELECT CASE WHEN k = 3 THEN v + 1000 ELSE v END AS v, k, f FROM t",
        ),
        (
            "INSERT OVERWRITE t SELECT v * 2, k, f FROM t WHERE v < 9",
            "CREATE OR REPLACE TABLE t AS SELECT v * 2 AS v, k, f FROM t WHERE v < 9",
        ),
        (
            "CREATE OR REPLACE TABLE t AS SELECT v + 7 AS v, k, f FROM t",
            "CREATE OR REPLACE TABLE t AS SELECT v + 7 AS v, k, f FROM t",
        ),
    ] {
        let ctx = session(&[]).await;
        for device in ["emulated", "cpu"] {
            run(&ctx, &format!("SET galatea.device = '{device}'")).await;
            ask(&ctx, COUNT).await;
            assert!(ask(&ctx, COUNT).await.1, "{change}");
        }
        run(&ctx, change).await;
        let expected = plainly(&[T, plain], COUNT).await;
        for device in ["emulated", "cpu"] {
            run(&ctx, &format!("SET galatea.device = '{device}'")).await;
            for reused in [false, true] {
                let (rows, was) = ask(&ctx, COUNT).await;
                assert_eq!(was, reused, "{device} after {change}");
                same(&expected, &rows).unwrap_or_else(|difference| panic!("{change}\n{difference}"));
            }
        }
    }
}

#[tokio::test]
async fn recreated_table_invalidates_cached_plans() {
    let ctx = session(&[]).await;
    assert_eq!(value(&ctx, COUNT).await, "3000|4501500|1");
    assert!(ask(&ctx, COUNT).await.1);
    run(&ctx, "DROP TABLE t").await;
    assert!(galatea::sql(&ctx, COUNT).await.is_err(), "there is no such table");
    // The same columns and the same number of rows.
    run(
        &ctx,
        "CREATE TABLE t AS SELECT value + 1 AS v, value % 7 AS k, value * 0.5 AS f FROM generate_series(1, 3000)",
    )
    .await;
    assert_eq!(value(&ctx, COUNT).await, "3000|4504500|2");
    // Other types.
    run(
        &ctx,
        "CREATE OR REPLACE TABLE t AS SELECT CAST(value AS INT) AS v FROM generate_series(1, 4)",
    )
    .await;
    assert_eq!(value(&ctx, COUNT).await, "4|10|1");
    // A view in place of the table, and a table in memory that is not in the store.
    run(&ctx, "DROP TABLE t").await;
    run(&ctx, "CREATE VIEW t AS SELECT k AS v FROM d").await;
    assert_eq!(value(&ctx, COUNT).await, "7|21|0");
    run(&ctx, "CREATE OR REPLACE VIEW t AS SELECT k + 1 AS v FROM d").await;
    assert_eq!(value(&ctx, COUNT).await, "7|28|1");
    assert_eq!(value(&ctx, COUNT).await, "7|28|1");
    run(&ctx, "INSERT INTO d VALUES (99, 'more')").await;
    assert_eq!(value(&ctx, COUNT).await, "8|128|1");
}

#[tokio::test]
async fn dropped_tables_free_their_plans_and_memory() {
    let ctx = session(&[]).await;
    let state = ctx.state();
    let session: Arc<Session> = state.config().get_extension().expect("a Galatea session");
    let held = || session.engine().store().memory_used();
    for sql in QUERIES {
        ask(&ctx, sql).await;
    }
    let kept = statistics(&ctx).kept;
    assert_eq!(kept, QUERIES.len());
    let before = held();
    run(&ctx, "CREATE OR REPLACE TABLE d AS SELECT * FROM d").await;
    let of_d = QUERIES.iter().filter(|sql| sql.contains(" d")).count();
    assert_eq!(statistics(&ctx).kept, kept - of_d, "those that read d are gone");
    assert_eq!(held(), before, "as many bytes as before");
    run(&ctx, "DROP TABLE t").await;
    run(&ctx, "DROP TABLE d").await;
    assert_eq!(statistics(&ctx).kept, 1, "a query without a table");
    assert_eq!(held(), 0);
}

/// A value of each setting that is not its default.
fn other_value(name: &str) -> Option<&'static str> {
    Some(match name {
        "device" => "cpu",
        "fallback" => "error",
        "cache.disk" | "memory.gpu_limit" | "memory.store_limit" | "memory.result_buffer" => "1 GiB",
        "cache.files"
        | "cache.device"
        | "cache.shared_results"
        | "tuning.shared_scans"
        | "warmup"
        | "stream.enabled"
        | "join.semijoin_reduction" => "false",
        "memory.replacement" => "lru",
        "tuning.persistent_scan" | "tuning.transfer_compression" => "on",
        "tuning.parquet_decoding" => "host",
        "memory.admission" => "peak",
        "priority" => "low",
        "debug.memory_ablations" => "copied",
        "tuning.chunk_rows" => "1000",
        "aggregate.strategy" => "hash",
        "aggregate.replicas" | "stream.blocks" => "2",
        "aggregate.preaggregation" => "off",
        "tuning.compile" => "optimised",
        "tuning.row_output" => "heap",
        "tuning.page_search" => "random-walk",
        "tuning.transfer" => "staged",
        "join.batches" => "3",
        "tuning.selection" => "branch",
        "join.lookup_memory" => "cache",
        "cache.plans" | "stream.groups" | "stream.lateness" => "100",
        "tuning.min_rows" | "tuning.build_rows" => "10",
        "tuning.block_threads" | "tuning.hash_slots" => "64",
        "tuning.rows_per_thread" => "4",
        "join.algorithm" => "radix",
        "join.partitions" => "8",
        "join.order" => "written",
        "overflow" => "wrap",
        "debug.collide_hashes" | "tuning.page_statistics" => "true",
        "stream.frame_size" => "8192",
        _ => return None,
    })
}

#[tokio::test]
async fn changed_settings_use_separate_plans() {
    let ctx = session(&[]).await;
    let sql = "SELECT k, count(*) FROM t GROUP BY k";
    ask(&ctx, sql).await;
    let mut settings: Vec<(String, &str)> = vec![
        ("datafusion.execution.target_partitions".into(), "3"),
        ("datafusion.execution.batch_size".into(), "100"),
        ("datafusion.optimizer.repartition_aggregations".into(), "false"),
        ("datafusion.format.null".into(), "none"),
        ("datafusion.sql_parser.parse_float_as_decimal".into(), "true"),
    ];
    for name in GalateaConfig::NAMES {
        let other = other_value(name);
        let other = other.unwrap_or_else(|| panic!("{name} is new: give it a value in `other_value`"));
        settings.push((format!("galatea.{name}"), other));
    }
    for (name, other) in settings {
        let before = run(&ctx, &format!("SHOW {name}")).await;
        let before = super::rows_text(&before)[0]
            .split_once('|')
            .expect("a value")
            .1
            .to_owned();
        run(&ctx, &format!("SET {name} = '{other}'")).await;
        assert!(!ask(&ctx, sql).await.1, "{name} = {other}");
        assert!(ask(&ctx, sql).await.1, "{name} = {other}, once more");
        run(&ctx, &format!("SET {name} = '{before}'")).await;
        assert!(ask(&ctx, sql).await.1, "{name} = {before} again");
    }
}

#[tokio::test]
async fn cached_plans_depend_on_the_default_schema() {
    let ctx = session(&[]).await;
    run(&ctx, "CREATE SCHEMA other").await;
    run(&ctx, "CREATE TABLE other.t AS SELECT 42 AS v").await;
    for _ in 0..2 {
        for (schema, answer) in [("public", "3000|4501500|1"), ("other", "1|42|42")] {
            run(
                &ctx,
                &format!("SET datafusion.catalog.default_schema = '{schema}'"),
            )
            .await;
            assert_eq!(value(&ctx, COUNT).await, answer);
            assert_eq!(value(&ctx, COUNT).await, answer);
        }
    }
}

/// A function that adds a number.
fn adds(number: i64) -> datafusion::logical_expr::ScalarUDF {
    let add = move |arguments: &[ColumnarValue]| {
        let values = ColumnarValue::values_to_arrays(arguments)?;
        let values = as_int64_array(&values[0])?;
        let sums: Int64Array = values.iter().map(|value| value.map(|v| v + number)).collect();
        Ok(ColumnarValue::Array(Arc::new(sums) as ArrayRef))
    };
    create_udf(
        "shifted",
        vec![DataType::Int64],
        DataType::Int64,
        Volatility::Immutable,
        Arc::new(add),
    )
}

#[tokio::test]
async fn replaced_function_invalidates_cached_plans() {
    let ctx = session(&[]).await;
    let sql = "SELECT sum(shifted(v)) FROM t WHERE v < 3";
    for (number, answer) in [(1, "5"), (100, "203"), (1, "5")] {
        ctx.register_udf(adds(number));
        for reused in [false, true] {
            assert_eq!(ask(&ctx, sql).await.1, reused, "{number}");
            assert_eq!(value(&ctx, sql).await, answer);
        }
    }
    ctx.deregister_udf("shifted");
    assert!(
        galatea::sql(&ctx, sql).await.is_err(),
        "there is no such function"
    );
}

#[tokio::test]
async fn changed_optimizer_rules_invalidate_cached_plans() {
    let ctx = session(&[]).await;
    let sql = "SELECT count(*) FROM t WHERE v > 3";
    ask(&ctx, sql).await;
    assert!(ask(&ctx, sql).await.1);
    assert!(ctx.remove_optimizer_rule("push_down_filter"));
    assert!(!checked(&ctx, sql, "without a rule").await);
    assert!(ask(&ctx, sql).await.1);
}

#[tokio::test]
async fn new_column_layout_invalidates_cached_plans() {
    let ctx = session(&[]).await;
    let sql = "SELECT k, sum(v) FROM t GROUP BY k";
    ask(&ctx, sql).await;
    let frame = galatea::sql(&ctx, "ALTER TABLE t SET (conflict_layout = 'auto')").await;
    frame.expect("places").collect().await.expect("places");
    assert!(!checked(&ctx, sql, "placed").await);
    assert!(checked(&ctx, sql, "placed").await);
}

#[tokio::test]
async fn refused_pipeline_is_replanned() {
    let ctx = session(&[("galatea.tuning.build_rows", "1000000")]).await;
    run(
        &ctx,
        "CREATE TABLE twice AS SELECT k FROM d UNION ALL SELECT k FROM d",
    )
    .await;
    let sql = "SELECT count(*) FROM t JOIN twice ON t.k = twice.k";
    let other = "SELECT count(*) FROM t";
    ask(&ctx, other).await;
    let mut devices = Vec::new();
    for _ in 0..4 {
        assert_eq!(value(&ctx, sql).await, "6000");
        let report = galatea::last_query_report(&ctx).expect("a report");
        devices.push((report.placed - report.fell_back, report.plan_reused));
    }
    let last = devices[3];
    assert!(last.1, "settled: {devices:?}");
    // Nothing falls back after the first run, because the plan from before the refusal is not used.
    let report = galatea::last_query_report(&ctx).expect("a report");
    assert_eq!(report.fell_back, 0, "{devices:?}");
}
