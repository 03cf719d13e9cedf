//! Permissions and reports of sessions.

use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::SessionContext;
use galatea::{EmulatorOptions, QueryDevice};
use std::sync::Arc;

/// A client that may send SQL cannot make the process compile and load code.
#[tokio::test]
async fn sql_cannot_enable_the_emulated_device() {
    let ctx = galatea::session().build().expect("a session");
    let sql = "SELECT value % 3 AS k, count(*) FROM generate_series(1, 100) GROUP BY 1";
    let run = |ctx: SessionContext| async move { ctx.sql(sql).await?.collect().await };
    ctx.sql("SET galatea.device = 'emulated'").await.expect("a value");
    let refused = run(ctx.clone()).await.expect_err("not allowed").to_string();
    assert!(
        refused.contains("SessionBuilder::with_emulated_device"),
        "{refused}"
    );
    assert!(refused.contains("--set galatea.device=emulated"), "{refused}");
    let calibrated = galatea::calibrate(&ctx).expect_err("not allowed").to_string();
    assert!(calibrated.contains("with_emulated_device"), "{calibrated}");
    ctx.sql("SET galatea.device = 'auto'").await.expect("a value");
    run(ctx).await.expect("on the CPU");

    let allowed = galatea::session()
        .with_emulated_device(EmulatorOptions::default())
        .build()
        .expect("a session");
    allowed
        .sql("SET galatea.device = 'emulated'")
        .await
        .expect("a value");
    run(allowed.clone()).await.expect("on the emulated device");
    let report = galatea::last_query_report(&allowed).expect("a report");
    assert_eq!(report.device, QueryDevice::Emulated, "{:?}", report.reasons);
}

/// A session with the emulated device.
fn emulated(options: EmulatorOptions) -> SessionContext {
    let session = galatea::session().with_emulated_device(options);
    session
        .with_setting("galatea.device", "emulated")
        .build()
        .expect("a session")
}

async fn run(ctx: &SessionContext, sql: &str) {
    let frame = ctx.sql(sql).await.expect("a plan");
    frame.collect().await.expect("a result");
}

pub(crate) async fn planned(ctx: &SessionContext, sql: &str) -> Arc<dyn ExecutionPlan> {
    let frame = ctx.sql(sql).await.expect("a plan");
    frame.create_physical_plan().await.expect("a physical plan")
}

/// Reports of concurrent queries belong to their plans.
#[tokio::test]
async fn concurrent_plans_have_separate_reports() {
    let ctx = emulated(EmulatorOptions::default());
    run(
        &ctx,
        "CREATE TABLE t AS SELECT value AS v, value % 7 AS k FROM generate_series(1, 5000)",
    )
    .await;
    let sums = planned(&ctx, "SELECT k, sum(v) FROM t GROUP BY k").await;
    let list = planned(&ctx, "SELECT array_agg(v) FROM t").await;
    let report = |plan| galatea::query_report(plan).expect("a report");
    // Both are running: the second was planned last, and the first runs.
    collect(Arc::clone(&sums), ctx.task_ctx()).await.expect("sums");
    let (of_sums, of_list) = (report(&sums), report(&list));
    assert_eq!((of_sums.device, of_sums.placed), (QueryDevice::Emulated, 1));
    assert!(of_sums.device_bytes > 0, "{of_sums:?}");
    assert_eq!((of_list.device, of_list.device_bytes), (QueryDevice::Cpu, 0));
    assert!(!of_list.reasons.is_empty());
    assert_eq!(galatea::last_query_report(&ctx), Some(of_list));
    let (first, second) = tokio::join!(
        collect(Arc::clone(&sums), ctx.task_ctx()),
        collect(Arc::clone(&list), ctx.task_ctx())
    );
    assert!(first.is_ok() && second.is_ok());
    assert_eq!(report(&sums).device_bytes, 2 * of_sums.device_bytes);
    assert_eq!(report(&list).device_bytes, 0);
}

/// If one subtree falls back, the query still counts as one of the device.
#[tokio::test]
async fn subtrees_that_fall_back_are_counted() {
    let ctx = emulated(EmulatorOptions::default());
    run(
        &ctx,
        "CREATE TABLE f AS SELECT value AS v, value % 5 AS k FROM generate_series(1, 1000)",
    )
    .await;
    run(
        &ctx,
        "CREATE TABLE d AS SELECT CASE value WHEN 1 THEN 'ΟΔΟΣ' ELSE 'A' END AS a, CAST(value AS TEXT) AS b, value AS w \
         FROM generate_series(1, 2)",
    )
    .await;
    // The data may contain a letter with a lower case that depends on its neighbours: a run detects it.
    let sql = "SELECT sum(v) FROM f WHERE v > 1 UNION ALL SELECT sum(w) FROM d WHERE lower(a || b) <> 'x'";
    run(&ctx, sql).await;
    let report = galatea::last_query_report(&ctx).expect("a report");
    assert_eq!((report.placed, report.fell_back), (2, 1), "{report:?}");
    assert_eq!(report.device, QueryDevice::Emulated, "{report:?}");
}

/// Without pinned memory, transfers are slower, but the device is still used.
#[tokio::test]
async fn memory_that_cannot_be_pinned_is_read_unpinned() {
    let ctx = emulated(EmulatorOptions {
        pinned_memory: 0,
        ..EmulatorOptions::default()
    });
    run(
        &ctx,
        "CREATE TABLE t AS SELECT value AS v, value % 7 AS k FROM generate_series(1, 5000)",
    )
    .await;
    for resident in ["true", "false"] {
        run(&ctx, &format!("SET galatea.cache.device = {resident}")).await;
        run(&ctx, "SELECT k, sum(v) FROM t GROUP BY k").await;
        let report = galatea::last_query_report(&ctx).expect("a report");
        assert_eq!(report.device, QueryDevice::Emulated, "{report:?}");
    }
}
