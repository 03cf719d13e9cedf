//! The output of EXPLAIN.

use crate::compare::Pair;
use crate::data::{Shape, batch};
use crate::joins::text;
use galatea_device::Device;
use rand::Rng;

#[tokio::test]
async fn explain_shows_pipelines_strategies_and_reasons() {
    let pair = Pair::new(&[]);
    pair.table("t", &[batch(1000, 1, Shape::Ordinary)]);
    let plan = text(
        &pair,
        "EXPLAIN SELECT low, sum(v) FROM t WHERE i32 > 0 GROUP BY low",
    )
    .await;
    for part in [
        "GpuExec",
        "source=store t",
        "keys=[low]",
        "PlacementExec: device=emulated GPU",
    ] {
        assert!(plan.contains(part), "{part} is missing:\n{plan}");
    }
    let analysed = text(
        &pair,
        "EXPLAIN ANALYZE SELECT low, sum(v) FROM t WHERE i32 > 0 GROUP BY low",
    )
    .await;
    for part in [
        "strategy=shared(",
        "rows_scanned=1",
        "kernel_time=",
        "compile_time=",
        "device_bytes=",
    ] {
        assert!(analysed.contains(part), "{part} is missing:\n{analysed}");
    }
    let joined = text(
        &pair,
        "EXPLAIN SELECT a.low, sum(b.v) FROM t a FULL JOIN t b ON make_array(a.f64) = make_array(b.f64) GROUP BY a.low",
    )
    .await;
    assert!(
        joined.contains("HashJoinExec: type List(Float64) has no device representation"),
        "{joined}"
    );
}

/// A query starts with a quickly compiled kernel; later runs use the optimised one.
#[tokio::test]
async fn kernels_are_optimised_in_background_after_the_first_run() {
    let pair = Pair::new(&[
        ("galatea.tuning.compile", "quick"),
        ("galatea.aggregate.strategy", "copies"),
    ]);
    pair.table("t", &[batch(2000, 3, Shape::Ordinary)]);
    // A kernel that no other test and no earlier run has compiled.
    let mut filter = String::from("i32 % 83 > 5");
    for divisor in 0..40 {
        let joint = if rand::rng().random() { "AND" } else { "OR" };
        filter = format!("({filter} {joint} i32 % {} > 1)", divisor + 3);
    }
    let sql = format!("SELECT low, sum(v), count(*) FROM t WHERE {filter} GROUP BY low");
    let compiled = async || {
        let analysed = text(&pair, &format!("EXPLAIN ANALYZE {sql}")).await;
        let after = analysed
            .split("compiled=")
            .nth(1)
            .expect("of a kernel")
            .to_owned();
        let line = after.split(['\n', ']']).next().unwrap_or_default();
        line.contains("quick")
    };
    assert!(compiled().await, "the first run does not wait for the optimiser");
    Device::finish_compiling();
    assert!(compiled().await, "the second run queues the optimised kernel");
    Device::finish_compiling();
    assert!(!compiled().await, "the third run has the optimised kernel");
    pair.check(&sql, false, "optimised").await;
}

/// The pipeline that builds a build side has its own strategy, rows, times and bytes.
#[tokio::test]
async fn explain_analyze_shows_each_pipeline() {
    let pair = Pair::new(&[("galatea.tuning.build_rows", "0")]);
    let numbers = "CREATE TABLE d AS SELECT value AS k, value % 7 AS c FROM generate_series(0, 99)";
    for sql in [
        numbers,
        "CREATE TABLE f AS SELECT value % 100 AS k, value AS v FROM generate_series(1, 5000)",
    ] {
        let frame = pair.gpu.sql(sql).await.expect("plans");
        frame.collect().await.expect("runs");
    }
    let analysed = text(
        &pair,
        "EXPLAIN ANALYZE SELECT c, sum(v) FROM f JOIN d ON f.k = d.k WHERE c < 5 GROUP BY c",
    )
    .await;
    assert!(
        analysed.contains("k on k, device lookup, built by p0"),
        "{analysed}"
    );
    let pipelines: Vec<&str> = analysed.split("pipeline=").skip(1).collect();
    assert_eq!(pipelines.len(), 2, "{analysed}");
    for (number, (pipeline, strategy)) in pipelines.into_iter().zip(["arrays by key", ""]).enumerate() {
        assert!(pipeline.starts_with(&format!("p{number}, ")), "{pipeline}");
        for part in [&format!("strategy={strategy}"), "columns=", "grid="] {
            assert_eq!(pipeline.matches(part).count(), 1, "{part}:\n{analysed}");
        }
    }
}

#[tokio::test]
async fn explain_analyze_shows_overflow_rows() {
    // The launch repeats once because the table was full, or several times because the heap was full, too.
    for (limit, launches) in [("auto", 1), ("1 MiB", 2)] {
        let pair = Pair::new(&[
            ("galatea.tuning.hash_slots", "2"),
            ("galatea.aggregate.strategy", "hash"),
            ("galatea.memory.gpu_limit", limit),
            ("galatea.tuning.block_threads", "32"),
        ]);
        pair.table("t", &[batch(60_000, 1, Shape::Ordinary)]);
        let analysed = text(
            &pair,
            "EXPLAIN ANALYZE SELECT v % 8000, count(*) FROM t GROUP BY v % 8000",
        )
        .await;
        let metric = |name: &str| -> u64 {
            let at = analysed
                .find(name)
                .unwrap_or_else(|| panic!("{name} is missing:\n{analysed}"));
            let digits = analysed[at + name.len()..]
                .chars()
                .take_while(char::is_ascii_digit);
            digits.collect::<String>().parse().expect("a number")
        };
        assert!(metric("pages=") > 0, "{analysed}");
        assert!(metric("launches=") >= launches, "within {limit}:\n{analysed}");
    }
}

#[tokio::test]
async fn forbidden_fallback_error_has_a_reason() {
    let pair = Pair::new(&[("galatea.fallback", "error")]);
    pair.table("t", &[batch(10, 1, Shape::Ordinary)]);
    let error = pair
        .gpu
        .sql("SELECT a.v FROM t a FULL JOIN t b ON make_array(a.f64) = make_array(b.f64)")
        .await
        .expect("plans lazily")
        .collect()
        .await;
    let error = error.expect_err("joins are refused").to_string();
    assert!(
        error.contains("HashJoinExec") && error.contains("galatea.fallback"),
        "{error}"
    );
}

#[tokio::test]
async fn explain_analyze_shows_fallbacks() {
    let pair = Pair::new(&[("galatea.memory.gpu_limit", "4 KiB")]);
    pair.table("t", &[batch(1000, 1, Shape::Ordinary)]);
    let analysed = text(
        &pair,
        "EXPLAIN ANALYZE SELECT low, sum(v) FROM t WHERE i32 > 0 GROUP BY low",
    )
    .await;
    for part in [
        "PlacementExec: device=CPU",
        "1 of 1 GPU subtrees fell back to the CPU",
        "out of device memory",
    ] {
        assert!(analysed.contains(part), "{part} is missing:\n{analysed}");
    }
}

#[tokio::test]
async fn explain_shows_three_unsupported_functions_of_an_operator() {
    let pair = Pair::new(&[]);
    let table = "CREATE TABLE n AS SELECT value % 7 AS k, value AS v, to_timestamp(value * 86400) AS d, \
                 CAST(value AS VARCHAR) AS s FROM generate_series(1, 300)";
    let made = pair.gpu.sql(table).await.expect("parses").collect().await;
    made.expect("a table");
    let (char, md5) = (
        "function to_char: no device version",
        "function md5: no device version for this type",
    );
    let (median, percentile) = (
        "function approx_median: no aggregate of a pipeline",
        "function approx_percentile_cont: no aggregate of a pipeline",
    );
    let sha = "function sha256: no device version for this type";
    for (sql, expected) in [
        (
            "SELECT to_char(d, '%Y'), md5(s || k), count(*) FROM n GROUP BY 1, 2",
            &[char, md5][..],
        ),
        (
            "SELECT to_char(d, '%Y') || md5(s || k), count(*) FROM n GROUP BY 1",
            &[char, md5],
        ),
        (
            "SELECT to_char(d, '%Y'), md5(s || k), sha256(s || v), approx_median(v) FROM n GROUP BY 1, 2, 3",
            &[char, md5, sha],
        ),
        (
            "SELECT count(*) FROM n WHERE to_char(d, '%Y') < '2000' AND md5(s || k) > 'a'",
            &[char, md5],
        ),
        // The device supports the median, in several steps.
        (
            "SELECT k, approx_median(v), median(v), approx_percentile_cont(v, 0.5) FROM n GROUP BY k",
            &[median, percentile],
        ),
        (
            "SELECT k, approx_median(v), median(v), sum(v) FROM n GROUP BY k",
            &[median],
        ),
    ] {
        let frame = pair.gpu.sql(sql).await.expect("parses");
        frame.create_physical_plan().await.expect("plans");
        let reasons = galatea::last_query_report(&pair.gpu).expect("a report").reasons;
        let functions: Vec<&str> = reasons
            .iter()
            .filter_map(|reason| Some(reason.split_once(": ")?.1))
            .collect();
        assert_eq!(functions, expected, "{sql}\n{reasons:?}");
    }
}

/// The header of an outline names the device that ran, and the reason of a fallback.
#[tokio::test]
async fn outline_of_an_executed_plan_shows_the_device_that_ran() {
    let pair = Pair::new(&[("galatea.memory.gpu_limit", "4 KiB")]);
    pair.table("t", &[batch(1000, 1, Shape::Ordinary)]);
    let sql = "SELECT low, sum(v) FROM t WHERE i32 > 0 GROUP BY low";
    let frame = pair.gpu.sql(sql).await.expect("parses");
    let context = std::sync::Arc::new(frame.task_ctx());
    let plan = frame.create_physical_plan().await.expect("plans");
    let before = galatea::outline(&plan, false);
    assert!(before.starts_with("runs on       emulated GPU\n\n"), "{before}");
    let rows = datafusion::physical_plan::collect(std::sync::Arc::clone(&plan), context).await;
    rows.expect("runs on the CPU");
    let after = galatea::outline(&plan, true);
    let header = "runs on       CPU\non the CPU    out of device memory";
    assert!(after.starts_with(header), "{after}");
}

/// Columns are shown by name. A string literal that looks like a column's number is shown unchanged.
#[tokio::test]
async fn explain_shows_literals_and_names_unchanged() {
    let pair = Pair::new(&[]);
    let table = "CREATE TABLE n AS SELECT value AS \"a#1\", value % 3 AS b, CAST(value % 5 AS VARCHAR) AS s \
                 FROM generate_series(1, 1000)";
    pair.gpu
        .sql(table)
        .await
        .expect("plans")
        .collect()
        .await
        .expect("runs");
    let plan = text(
        &pair,
        "EXPLAIN SELECT b, CASE WHEN b = 1 THEN '#0' ELSE s END, sum(\"a#1\") FROM n WHERE s <> '#1 or #2' GROUP BY 1, 2",
    )
    .await;
    let node = plan
        .lines()
        .find(|line| line.contains("GpuExec"))
        .expect("a node");
    for part in [
        "filters=[s != '#1 or #2']",
        "keys=[b, CASE WHEN (b = 1) THEN '#0' ELSE s END]",
        "aggregates=[sum(a#1)]",
    ] {
        assert!(node.contains(part), "{part} is missing:\n{node}");
    }
}
