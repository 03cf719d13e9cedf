//! Hash joins in sessions with a memory pool smaller than their build sides: fixed answers by closed
//! formulas, in the order of the query's ORDER BY, without leftover memory or files.

use crate::{check, prepare, rows, session};
use datafusion::prelude::SessionContext;

const TABLES: [&str; 2] = [
    "CREATE TABLE l AS SELECT value AS k, value % 1000 AS g, repeat('l', 50) AS p FROM generate_series(1, 40000)",
    "CREATE TABLE r AS SELECT value AS k, value % 500 AS g, repeat('r', 50) AS p FROM generate_series(20001, 60000)",
];

/// A session on the CPU with the tables. The memory pool is limited after they are created.
async fn limited(partitions: usize, limit: &str) -> SessionContext {
    let ctx = session("cpu", partitions);
    prepare(&ctx, &TABLES).await;
    let limit = format!("SET datafusion.runtime.memory_limit = '{limit}'");
    prepare(&ctx, &[limit.as_str()]).await;
    ctx
}

/// The lines of EXPLAIN or EXPLAIN ANALYZE.
async fn explained(ctx: &SessionContext, sql: &str) -> String {
    rows(ctx, sql).await.expect("a plan").join("\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn all_join_types_return_expected_rows_when_spilled() {
    for partitions in [1, 4, 16] {
        let ctx = limited(partitions, "6M").await;
        let context = format!("{partitions} partitions");
        for (sql, expected) in [
            (
                "SELECT count(*), sum(l.k), sum(r.k), min(l.p), max(r.p) = min(r.p) FROM l JOIN r ON l.k = r.k",
                format!("20000, 600010000, 600010000, {}, true", "l".repeat(50)),
            ),
            (
                "SELECT count(*), count(r.k), sum(l.k) FROM l LEFT JOIN r ON l.k = r.k AND r.g < 250",
                "40000, 10000, 800020000".to_owned(),
            ),
            (
                "SELECT count(*), count(l.k), sum(r.k) FROM l RIGHT JOIN r ON l.k = r.k",
                "40000, 20000, 1600020000".to_owned(),
            ),
            (
                "SELECT count(*), count(l.k), count(r.k), max(l.p || r.p) IS NULL FROM l FULL JOIN r ON l.k = r.k",
                "60000, 40000, 40000, false".to_owned(),
            ),
            (
                "SELECT count(*), sum(k), count(p) FROM l WHERE k IN (SELECT k FROM r WHERE p > '')",
                "20000, 600010000, 20000".to_owned(),
            ),
            (
                "SELECT count(*), sum(k), count(p) FROM l WHERE NOT EXISTS (SELECT 1 FROM r WHERE r.k = l.k)",
                "20000, 200010000, 20000".to_owned(),
            ),
            (
                "SELECT count(*), sum(k) FROM l WHERE k <= 10 OR EXISTS (SELECT 1 FROM r WHERE r.k = l.k)",
                "20010, 600010055".to_owned(),
            ),
        ] {
            check(&ctx, sql, &[expected.as_str()], &context).await;
            // This run uses the cached plan.
            check(&ctx, sql, &[expected.as_str()], &context).await;
        }
        assert_eq!(ctx.runtime_env().memory_pool.reserved(), 0, "{context}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn spilled_join_preserves_the_required_order() {
    let sql = "SELECT b.value FROM generate_series(1, 100000) a JOIN generate_series(1, 100000) b ON a.value = b.value ORDER BY b.value";
    for partitions in [1, 4] {
        let ctx = limited(partitions, "8M").await;
        let frame = ctx.sql(sql).await.expect("a plan");
        let batches = frame.collect().await.expect("rows");
        let mut next = 1;
        for batch in &batches {
            for value in crate::texts(batch) {
                assert_eq!(value, next.to_string(), "{partitions} partitions");
                next += 1;
            }
        }
        assert_eq!(next, 100_001);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_shows_spilling_joins_and_spilled_bytes() {
    let join = "SELECT count(*), min(l.p) FROM l JOIN r ON l.k = r.k";
    let ctx = limited(2, "2M").await;
    let plan = explained(&ctx, &format!("EXPLAIN {join}")).await;
    assert!(plan.contains("SpillingJoinExec"), "{plan}");
    let plan = explained(&ctx, &format!("EXPLAIN ANALYZE {join}")).await;
    assert!(
        plan.contains("spilled_rows") && plan.contains("spilled_bytes"),
        "{plan}"
    );
    assert!(plan.contains("spill_count"), "{plan}");
    let unlimited = session("cpu", 2);
    prepare(&unlimited, &TABLES).await;
    let plan = explained(&unlimited, &format!("EXPLAIN {join}")).await;
    assert!(
        plan.contains("HashJoinExec") && !plan.contains("SpillingJoinExec"),
        "{plan}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn new_memory_limit_applies_to_cached_plans() {
    let ctx = session("cpu", 4);
    prepare(&ctx, &TABLES).await;
    let sql = "SELECT count(*), min(l.p) IS NULL FROM l JOIN r ON l.k = r.k";
    for limit in ["1G", "2M", "1G"] {
        check(&ctx, sql, &["20000, false"], limit).await;
        let set = format!("SET datafusion.runtime.memory_limit = '{limit}'");
        prepare(&ctx, &[set.as_str()]).await;
    }
    check(&ctx, sql, &["20000, false"], "at last").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn session_is_usable_after_row_and_disk_errors() {
    let ctx = limited(4, "600K").await;
    let error = rows(
        &ctx,
        "SELECT sum(10 / (r.k - 60000)) FROM l RIGHT JOIN r ON l.k = r.k",
    )
    .await;
    assert!(
        error
            .expect_err("a division by zero")
            .contains("division by zero in 10 / (k - 60000)")
    );
    prepare(&ctx, &["SET datafusion.runtime.max_temp_directory_size = '100K'"]).await;
    let error = rows(&ctx, "SELECT count(*), min(l.p) FROM l JOIN r ON l.k = r.k").await;
    let error = error.expect_err("the disk is full");
    assert!(error.contains("max_temp_directory_size"), "{error}");
    prepare(&ctx, &["SET datafusion.runtime.max_temp_directory_size = '1G'"]).await;
    let sql = "SELECT count(*), min(l.p) IS NULL FROM l JOIN r ON l.k = r.k";
    check(&ctx, sql, &["20000, false"], "afterwards").await;
    assert_eq!(ctx.runtime_env().memory_pool.reserved(), 0);
}

/// DataFusion's nested loop joins lose rows without a match when they spill.
#[tokio::test(flavor = "multi_thread")]
async fn nested_loop_joins_return_all_rows_or_fail() {
    for (partitions, limit) in [(1, "300K"), (1, "800K"), (4, "2M"), (4, "60M")] {
        let ctx = session("cpu", partitions);
        prepare(
            &ctx,
            &[
                "CREATE TABLE a AS SELECT value AS id FROM generate_series(1, 20000)",
                "CREATE TABLE c AS SELECT value AS id FROM generate_series(1, 15000)",
            ],
        )
        .await;
        let limited = format!("SET datafusion.runtime.memory_limit = '{limit}'");
        prepare(&ctx, &[limited.as_str()]).await;
        for (sql, expected) in [
            (
                "SELECT count(*) FROM a x WHERE x.id > ALL (SELECT y.id FROM c y WHERE y.id > 2000)",
                "5000",
            ),
            (
                "SELECT count(*), count(y.id) FROM a x LEFT JOIN c y ON x.id < y.id AND y.id < 3 AND x.id < 3",
                "20000, 1",
            ),
            (
                "SELECT count(*), count(x.id) FROM a x RIGHT JOIN c y ON x.id < y.id AND y.id < 3 AND x.id < 3",
                "15000, 1",
            ),
        ] {
            match rows(&ctx, sql).await {
                Err(error) if error.contains("Resources exhausted") || error.contains("memory") => {}
                actual => assert_eq!(
                    actual,
                    Ok(vec![expected.to_owned()]),
                    "{partitions}, {limit}: {sql}"
                ),
            }
        }
    }
}
