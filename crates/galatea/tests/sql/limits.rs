//! Pipelines that stop early, early refusals, and facts remembered from earlier runs.

use crate::compare::{Pair, same};
use crate::data::{Shape, batch};
use datafusion::arrow::array::{ArrayRef, BinaryArray, Int64Array, RecordBatch, StringArray};
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::prelude::SessionContext;
use std::sync::Arc;

async fn rows(ctx: &SessionContext, sql: &str) -> Vec<RecordBatch> {
    let frame = ctx
        .sql(sql)
        .await
        .unwrap_or_else(|error| panic!("{sql}\n{error}"));
    frame
        .collect()
        .await
        .unwrap_or_else(|error| panic!("{sql}\n{error}"))
}

async fn text(ctx: &SessionContext, sql: &str) -> String {
    pretty_format_batches(&rows(ctx, sql).await)
        .expect("printable")
        .to_string()
}

fn count(batches: &[RecordBatch]) -> usize {
    batches.iter().map(RecordBatch::num_rows).sum()
}

/// A fact table, and a build side in which the keys 0 to 49 occur twice.
fn joined(pair: &Pair) {
    let facts: ArrayRef = Arc::new(Int64Array::from_iter_values((0..3000).map(|i| i % 100)));
    let keys: ArrayRef = Arc::new(Int64Array::from_iter_values((0..150).map(|i| i % 100)));
    let names: ArrayRef = Arc::new(Int64Array::from_iter_values(0..150));
    pair.table(
        "f",
        &[RecordBatch::try_from_iter([("k", facts)]).expect("one column")],
    );
    pair.table(
        "d",
        &[RecordBatch::try_from_iter([("k", keys), ("n", names)]).expect("two columns")],
    );
}

#[tokio::test]
async fn a_limit_stops_the_pipeline_early() {
    let pair = Pair::new(&[("galatea.tuning.chunk_rows", "4096")]);
    pair.table("t", &[batch(200_000, 5, Shape::Ordinary)]);
    let sql = "SELECT v, i32, low FROM t WHERE v <> 3";
    let all = rows(&pair.gpu, sql).await;
    let whole = galatea::last_query_report(&pair.gpu)
        .expect("a report")
        .link_bytes;
    for (limit, expected) in [
        ("LIMIT 10", 10),
        ("LIMIT 7 OFFSET 5", 7),
        ("LIMIT 0", 0),
        ("LIMIT 1000000", count(&all)),
    ] {
        let limited = format!("{sql} {limit}");
        assert_eq!(count(&rows(&pair.gpu, &limited).await), expected, "{limited}");
        let read = galatea::last_query_report(&pair.gpu)
            .expect("a report")
            .link_bytes;
        assert!(
            expected == count(&all) || read < whole / 4,
            "{limited} read {read} of {whole} bytes"
        );
        // Each row is one of the unlimited result: none remains after an anti join.
        let foreign = format!(
            "SELECT count(*) AS n FROM ({limited}) AS l WHERE NOT EXISTS (SELECT 1 FROM t WHERE t.v = l.v AND t.v <> 3)"
        );
        let foreign = text(&pair.gpu, &foreign).await;
        assert!(foreign.contains("| 0 |"), "{foreign}");
    }
    let plan = text(&pair.gpu, &format!("EXPLAIN {sql} LIMIT 10")).await;
    assert!(plan.contains("fetch=10"), "{plan}");
    // Groups need every row.
    pair.check("SELECT k, count(*) FROM t GROUP BY k LIMIT 1000", true, "groups")
        .await;
}

#[tokio::test]
async fn limit_is_kept_after_fallback() {
    let pair = Pair::new(&[("galatea.memory.gpu_limit", "4 KiB")]);
    joined(&pair);
    let sql = "SELECT f.k, d.n FROM f JOIN d ON f.k = d.k WHERE f.k <> 1 LIMIT 12";
    assert_eq!(count(&rows(&pair.gpu, sql).await), 12);
}

#[tokio::test]
async fn repeated_keys_are_recorded_per_plan_shape() {
    let pair = Pair::new(&[]);
    joined(&pair);
    let sql = |least: i64| {
        format!("SELECT f.k, sum(d.n) AS s FROM f JOIN d ON f.k = d.k WHERE f.k > {least} GROUP BY f.k")
    };
    let before = text(&pair.gpu, &format!("EXPLAIN {}", sql(10))).await;
    assert!(before.contains("joins=[d0: k on k"), "{before}");
    pair.check(&sql(10), true, "found while it runs").await;
    // From now on, the same pipeline with any constant is planned as a multimap join.
    let after = text(&pair.gpu, &format!("EXPLAIN {}", sql(20))).await;
    assert!(after.contains("source=pairs d0"), "{after}");
    pair.check(&sql(20), true, "known while it is planned").await;
    // With other data, a lookup is tried again.
    pair.gpu
        .sql("CREATE OR REPLACE TABLE d AS SELECT DISTINCT k, k AS n FROM f")
        .await
        .expect("a table")
        .collect()
        .await
        .expect("made");
    let changed = text(&pair.gpu, &format!("EXPLAIN {}", sql(10))).await;
    assert!(changed.contains("joins=[d0: k on k"), "{changed}");
}

#[tokio::test]
async fn recursive_terms_match_the_cpu() {
    let pair = Pair::new(&[]);
    joined(&pair);
    for sql in [
        "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 20) SELECT sum(n), count(*) FROM r",
        "WITH RECURSIVE r AS (SELECT 0 AS k, 1 AS step UNION ALL SELECT d.k + 1, r.step + 1 FROM r JOIN d ON r.k = d.k WHERE r.step < 6)
         SELECT step, count(*) FROM r GROUP BY step",
        "WITH RECURSIVE r AS (SELECT CAST(5 AS BIGINT) AS k UNION ALL SELECT max(f.k) - 30 FROM f JOIN r ON f.k = r.k + 25 WHERE r.k < 60 HAVING count(*) > 0)
         SELECT k FROM r",
    ] {
        pair.check(sql, false, "recursive").await;
        pair.check(sql, false, "again").await;
    }
}

#[tokio::test]
async fn rows_with_too_many_columns_are_refused_in_planning() {
    let wide = |columns: usize| {
        let columns = (0..columns).map(|c| {
            let values = Int64Array::from_iter((0..500).map(|row| (row % 7 != 0).then_some(row * c as i64)));
            (format!("c{c}"), Arc::new(values) as ArrayRef)
        });
        RecordBatch::try_from_iter(columns).expect("columns of one length")
    };
    let pair = Pair::new(&[]);
    pair.table("hits", &[wide(105)]);
    pair.check(
        "SELECT * FROM hits WHERE c1 > 100",
        true,
        "as many as ClickBench's",
    )
    .await;
    pair.table("wider", &[wide(129)]);
    let plan = text(&pair.gpu, "EXPLAIN SELECT * FROM wider WHERE c1 > 100").await;
    assert!(plan.contains("129 output columns, limit 128"), "{plan}");
    pair.check("SELECT * FROM wider WHERE c1 > 100", false, "refused")
        .await;
}

#[tokio::test]
async fn computed_string_and_binary_keys_run_on_the_device() {
    let pair = Pair::new(&[("galatea.fallback", "error")]);
    let words: Vec<String> = (0..3000).map(|i| format!("word {i} of many")).collect();
    let text: ArrayRef = Arc::new(StringArray::from(words.clone()));
    let keys: ArrayRef = Arc::new(BinaryArray::from_iter_values(
        words.iter().map(|w| &w.as_bytes()[..6]),
    ));
    pair.table(
        "t",
        &[RecordBatch::try_from_iter([("s", text), ("b", keys)]).expect("two columns")],
    );
    for sql in [
        "SELECT substr(s, 3, 6) AS u FROM t WHERE s LIKE '%7%'",
        "SELECT upper(s) AS u FROM t WHERE s LIKE '%77%'",
        "SELECT b, count(*) AS n FROM t GROUP BY b",
        "SELECT min(b) AS l, max(b) AS h FROM t",
    ] {
        let expected = rows(&pair.cpu, sql).await;
        let actual = rows(&pair.gpu, sql).await;
        if let Err(difference) = same(&expected, &actual) {
            panic!("{sql}\n{difference}");
        }
        let report = galatea::last_query_report(&pair.gpu).expect("a report");
        // Statistics contain the smallest and the largest key.
        let none: &[&str] = if sql.contains("min(b)") {
            &["no rows are read"]
        } else {
            &[]
        };
        assert_eq!(report.reasons, none, "{sql}");
    }
}

#[tokio::test]
async fn results_and_build_sides_use_the_session_memory_pool() {
    use datafusion::execution::memory_pool::GreedyMemoryPool;
    use datafusion::execution::runtime_env::RuntimeEnvBuilder;
    let session = |bytes: usize, fallback: &str| {
        let runtime = RuntimeEnvBuilder::new().with_memory_pool(Arc::new(GreedyMemoryPool::new(bytes)));
        let gpu = galatea::session()
            .with_emulated_device(galatea::EmulatorOptions::default())
            .with_setting("galatea.device", "emulated")
            .with_setting("galatea.fallback", fallback)
            .with_runtime(runtime.build_arc().expect("a runtime"))
            .build()
            .expect("a session");
        let cpu = galatea::session()
            .with_setting("galatea.device", "cpu")
            .build()
            .expect("a session");
        Pair::of(cpu, gpu)
    };
    let whole = "SELECT v FROM t WHERE v <> -1";
    let joined = "SELECT count(*) FROM t JOIN b ON t.v = b.v";
    for (bytes, fallback, fits) in [
        (64 << 20, "error", [Some(true); 2]),
        (64 << 10, "error", [Some(false); 2]),
        // The CPU's operators stream rows, and their joins spill. A join reserves at least 64 KiB, so the
        // operator above it may or may not find the pool exhausted.
        (64 << 10, "allow", [Some(true), None]),
    ] {
        let pair = session(bytes, fallback);
        let v: ArrayRef = Arc::new(Int64Array::from_iter_values(0..50_000));
        let batch = RecordBatch::try_from_iter([("v", v)]).expect("one column");
        pair.table("t", std::slice::from_ref(&batch));
        pair.table("b", &[batch]);
        for (sql, fits) in [whole, joined].into_iter().zip(fits) {
            let frame = pair.gpu.sql(sql).await.expect("a plan");
            match frame.collect().await {
                Ok(_) => assert!(fits != Some(false), "{sql} with {bytes} bytes"),
                Err(error) => assert!(
                    fits != Some(true) && (fallback == "allow" || error.to_string().contains("GpuExec")),
                    "{sql} with {bytes} bytes: {error}"
                ),
            }
            let pool = Arc::clone(&pair.gpu.runtime_env().memory_pool);
            // Tasks that a query has started end after it.
            for _ in 0..500 {
                if pool.reserved() == 0 {
                    break;
                }
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
            assert_eq!(pool.reserved(), 0, "{sql}: given back");
        }
    }
}

#[tokio::test]
async fn only_limited_groups_are_copied_to_the_host() {
    let pair = Pair::new(&[]);
    pair.table("t", &[batch(200_000, 5, Shape::Ordinary)]);
    for (by, many) in [("i32, v", true), ("low", false)] {
        let sql = format!("SELECT {by}, count(*) AS n FROM t GROUP BY {by}");
        let all = count(&rows(&pair.gpu, &sql).await);
        let whole = galatea::last_query_report(&pair.gpu)
            .expect("a report")
            .link_bytes;
        for (limit, expected) in [("LIMIT 3", 3), ("LIMIT 2 OFFSET 1", 2), ("LIMIT 100000000", all)] {
            let limited = format!("{sql} {limit}");
            assert_eq!(count(&rows(&pair.gpu, &limited).await), expected, "{limited}");
            let read = galatea::last_query_report(&pair.gpu)
                .expect("a report")
                .link_bytes;
            assert!(
                !many || expected == all || read < whole / 4,
                "{limited} read {read} of {whole} bytes"
            );
            if !many {
                let foreign = format!(
                    "SELECT count(*) AS n FROM ({limited}) AS l WHERE NOT EXISTS
                     (SELECT 1 FROM ({sql}) AS a WHERE a.n = l.n AND a.low IS NOT DISTINCT FROM l.low)"
                );
                let foreign = text(&pair.gpu, &foreign).await;
                assert!(foreign.contains("| 0 |"), "{foreign}");
            }
        }
    }
}
