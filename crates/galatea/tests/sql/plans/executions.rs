//! Executions of one cached plan share no state.

use super::{D, QUERIES, afresh, ask, planned, run, session, statistics, value};
use crate::compare::same;
use datafusion::physical_plan::{ExecutionPlan, collect};
use futures::StreamExt;
use std::sync::Arc;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_executions_of_a_cached_plan() {
    let ctx = session(&[]).await;
    for device in ["emulated", "cpu"] {
        run(&ctx, &format!("SET galatea.device = '{device}'")).await;
        for sql in QUERIES {
            let expected = afresh(&ctx, sql).await;
            ask(&ctx, sql).await;
            let before = statistics(&ctx).reused;
            let runs = (0..6).map(|_| {
                let ctx = ctx.clone();
                tokio::spawn(async move { run(&ctx, sql).await })
            });
            for rows in futures::future::join_all(runs).await {
                let rows = rows.expect("no panic");
                same(&expected, &rows).unwrap_or_else(|difference| panic!("{device}\n{sql}\n{difference}"));
            }
            assert_eq!(statistics(&ctx).reused, before + 6, "{sql}");
        }
    }
}

/// The rows of a small build side are collected once for a cached plan, and again after they change, whether
/// CPU operators or another GPU subtree compute them.
#[tokio::test]
async fn executions_share_small_build_sides() {
    let ctx = session(&[]).await;
    let report = || galatea::last_query_report(&ctx).expect("a query ran");
    let reused = || report().build_sides_reused;
    let join = "SELECT d.name, sum(t.v) FROM t JOIN d ON t.k = d.k GROUP BY d.name";
    let filtered = "SELECT count(*), sum(t.v) FROM t JOIN d ON t.k = d.k WHERE d.k % 4 < 3";
    for (join, placed) in [(join, 1), (filtered, 2)] {
        run(&ctx, &format!("CREATE OR REPLACE {}", &D["CREATE ".len()..])).await;
        for _ in 0..2 {
            for (run, expected) in [0, 0, 1, 1].into_iter().enumerate() {
                let (rows, _) = ask(&ctx, join).await;
                assert_eq!(
                    (reused(), report().placed),
                    (expected, placed),
                    "{join}, run {run}"
                );
                let expected = afresh(&ctx, join).await;
                same(&expected, &rows).unwrap_or_else(|difference| panic!("{join}\n{difference}"));
            }
            run(&ctx, "DELETE FROM d WHERE k = 2").await;
        }
    }
    // The result of an input with a subquery is not shared, because it may change.
    let hangs = "SELECT count(*) FROM t JOIN d ON t.k = d.k WHERE d.k > (SELECT avg(k) FROM d)";
    for _ in 0..4 {
        ask(&ctx, hangs).await;
        assert_eq!(reused(), 0);
    }
}

/// The total number of output rows in the metrics of a plan's nodes.
fn counted(plan: &Arc<dyn ExecutionPlan>) -> usize {
    let here = plan.metrics().and_then(|metrics| metrics.output_rows());
    let below = plan.children().into_iter().map(counted);
    here.unwrap_or(0) + below.sum::<usize>()
}

#[tokio::test]
async fn executions_have_separate_metrics() {
    let folder = tempfile::tempdir().expect("a folder");
    let ctx = session(&[]).await;
    let file = folder.path().join("t.parquet");
    run(&ctx, &format!("COPY t TO '{}'", file.display())).await;
    std::thread::sleep(super::files::SETTLED);
    let of_file = format!("SELECT k, v FROM '{}'", file.display());
    run(&ctx, "SET galatea.device = 'cpu'").await;
    for sql in ["SELECT v + 1 FROM t WHERE k = 1", &of_file] {
        let mut rows = Vec::new();
        for _ in 0..3 {
            let frame = planned(&ctx, sql).await;
            let plan = frame.create_physical_plan().await.expect("a plan");
            collect(Arc::clone(&plan), ctx.task_ctx()).await.expect("rows");
            rows.push(counted(&plan));
        }
        assert!(
            rows[0] > 0 && rows.iter().all(|n| *n == rows[0]),
            "{sql}: {rows:?}"
        );
        assert!(statistics(&ctx).reused > 0);
    }
}

#[tokio::test]
async fn cached_plans_are_usable_after_cancellation_and_errors() {
    let ctx = session(&[("datafusion.execution.batch_size", "16")]).await;
    for device in ["emulated", "cpu"] {
        run(&ctx, &format!("SET galatea.device = '{device}'")).await;
        for sql in QUERIES {
            let expected = afresh(&ctx, sql).await;
            for _ in 0..2 {
                let frame = planned(&ctx, sql).await;
                let mut stream = frame.execute_stream().await.expect("a stream");
                stream.next().await;
                drop(stream);
                let (rows, reused) = ask(&ctx, sql).await;
                assert!(reused);
                same(&expected, &rows).unwrap_or_else(|difference| panic!("{device}\n{sql}\n{difference}"));
            }
        }
        // An execution with a row that cannot be divided fails each time; executions over other rows do not.
        run(&ctx, "CREATE OR REPLACE TABLE z AS SELECT 1 AS a, 0 AS b").await;
        for _ in 0..3 {
            let frame = ctx
                .sql("SELECT sum(a / b) FROM z WHERE a > 0")
                .await
                .expect("a plan");
            let error = frame.collect().await.expect_err("divides by zero").to_string();
            assert!(error.contains("division by zero"), "{device}: {error}");
        }
        run(&ctx, "UPDATE z SET b = 1 WHERE b = 0").await;
        assert_eq!(value(&ctx, "SELECT sum(a / b) FROM z WHERE a > 0").await, "1");
    }
}

#[tokio::test]
async fn dynamic_filters_are_not_shared_between_executions() {
    let folder = tempfile::tempdir().expect("a folder");
    let ctx = session(&[]).await;
    let file = folder.path().join("t.parquet");
    run(&ctx, &format!("COPY t TO '{}'", file.display())).await;
    std::thread::sleep(super::files::SETTLED);
    run(&ctx, "SET galatea.device = 'cpu'").await;
    // Sums prevent an answer from statistics alone.
    for sql in [
        "SELECT min(v), max(v), sum(f) FROM {}",
        "SELECT min(v + 0) FROM {} WHERE k < 6",
        "SELECT v FROM {} ORDER BY f DESC LIMIT 4",
        "SELECT count(*) FROM {} AS x JOIN d ON x.k = d.k WHERE d.name = 'name 3'",
        "SELECT k, min(v) FROM {} GROUP BY k ORDER BY 2 LIMIT 3",
    ] {
        for table in [format!("'{}'", file.display()), "t".to_owned()] {
            let sql = sql.replace("{}", &table);
            let expected = afresh(&ctx, &sql).await;
            for run in 0..3 {
                let (rows, reused) = ask(&ctx, &sql).await;
                same(&expected, &rows)
                    .unwrap_or_else(|difference| panic!("{run}, reused: {reused}\n{sql}\n{difference}"));
                // Each copy of a join has its own dynamic filter, and its scan uses that one.
                if sql.contains("JOIN") {
                    assert_eq!(reused, run > 0, "{sql}");
                }
            }
        }
    }
}

#[tokio::test]
async fn cached_plan_can_fall_back_repeatedly() {
    let folder = tempfile::tempdir().expect("a folder");
    // Nothing fits in device memory.
    let ctx = session(&[("galatea.memory.gpu_limit", "1 KiB")]).await;
    let file = folder.path().join("t.parquet");
    run(&ctx, &format!("COPY t TO '{}'", file.display())).await;
    std::thread::sleep(super::files::SETTLED);
    let of_file = format!("SELECT min(v + 0), max(v + 0) FROM '{}'", file.display());
    for (sql, answer) in [
        (of_file.as_str(), "1|3000"),
        ("SELECT min(v + 0), max(v + 0) FROM t", "1|3000"),
        ("SELECT v FROM t WHERE v > 10 ORDER BY v LIMIT 1", "11"),
    ] {
        for _ in 0..3 {
            assert_eq!(value(&ctx, sql).await, answer, "{sql}");
            let report = galatea::last_query_report(&ctx).expect("a report");
            assert_eq!(report.fell_back, report.placed, "{sql}: {report:?}");
        }
        // One plan may also be executed twice. DataFusion's top-k operator does not support that.
        if sql.contains("LIMIT") {
            continue;
        }
        let frame = planned(&ctx, sql).await;
        let plan = frame.create_physical_plan().await.expect("a plan");
        for _ in 0..2 {
            let rows = collect(Arc::clone(&plan), ctx.task_ctx()).await.expect("rows");
            assert_eq!(super::rows_text(&rows).join(";"), answer, "{sql}");
        }
    }
    assert!(statistics(&ctx).reused > 0);
}
