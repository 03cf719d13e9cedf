//! Rows that a filter drops raise no errors in later operators.

use crate::compare::{Pair, answer};
use datafusion::arrow::array::{ArrayRef, Float32Array, Int64Array, RecordBatch};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::sync::Arc;

/// Divisors; every seventh is zero, and only `b <> 0` excludes these rows.
fn divisions() -> RecordBatch {
    let a: ArrayRef = Arc::new(Int64Array::from_iter_values(0..5000));
    let b: ArrayRef = Arc::new(Int64Array::from_iter(
        (0..5000).map(|i| (i % 11 != 3).then_some(i % 7)),
    ));
    let k: ArrayRef = Arc::new(Int64Array::from_iter_values((0..5000).map(|i| i % 3)));
    RecordBatch::try_from_iter([("a", a), ("b", b), ("k", k)]).expect("columns of one length")
}

/// Runs the query on the device, and checks its message if the CPU raises the same error.
async fn on_device(pair: &Pair, sql: &str) -> Vec<RecordBatch> {
    let frame = pair.gpu.sql(sql).await.expect("a plan");
    let batches = frame
        .collect()
        .await
        .unwrap_or_else(|error| panic!("{sql}\n{error}"));
    let report = galatea::last_query_report(&pair.gpu).expect("a report");
    assert_eq!(
        report.device,
        galatea::QueryDevice::Emulated,
        "{sql}: {:?}",
        report.reasons
    );
    batches
}

#[tokio::test]
async fn filters_guard_later_expressions() {
    let pair = Pair::new(&[("galatea.fallback", "error")]);
    pair.table("t", &[divisions()]);
    let nonzero = "CASE WHEN b <> 0 THEN a / b END";
    for (sql, same) in [
        (
            "SELECT sum(a / b) FILTER (WHERE b <> 0) AS s FROM t".to_string(),
            format!("SELECT sum({nonzero}) AS s FROM t"),
        ),
        (
            "SELECT k, sum(a / b) FILTER (WHERE b <> 0) AS s, count(*) AS n FROM t GROUP BY k".to_string(),
            format!("SELECT k, sum({nonzero}) AS s, count(*) AS n FROM t GROUP BY k"),
        ),
        (
            "SELECT sum(a) AS s FROM t WHERE b <> 0 AND a / b > 2".to_string(),
            format!("SELECT sum(a) AS s FROM t WHERE {nonzero} > 2"),
        ),
        (
            "SELECT a, b FROM t WHERE b <> 0 AND a / b > 2 AND a % b = 1".to_string(),
            format!("SELECT a, b FROM t WHERE {nonzero} > 2 AND CASE WHEN b <> 0 THEN a % b END = 1"),
        ),
        (
            "SELECT sum(a / b) AS s FROM t WHERE b <> 0".to_string(),
            format!("SELECT sum({nonzero}) AS s FROM t"),
        ),
    ] {
        let actual = on_device(&pair, &sql).await;
        let expected = answer(&pair.cpu, &same).await;
        if let Err(difference) = crate::compare::same(&expected, &actual) {
            panic!("{sql}\n{difference}");
        }
    }
}

#[tokio::test]
async fn unfiltered_rows_still_raise_errors() {
    let pair = Pair::new(&[]);
    pair.table("t", &[divisions()]);
    for sql in [
        "SELECT sum(a / b) FROM t",
        "SELECT sum(a / b) FILTER (WHERE b < 3) FROM t",
        "SELECT sum(a) FROM t WHERE b < 6 AND a / b > 2",
        "SELECT k, sum(a / b) FROM t WHERE b IS NOT NULL GROUP BY k",
    ] {
        let frame = pair.gpu.sql(sql).await.expect("a plan");
        let error = frame.collect().await.expect_err(sql).to_string();
        assert!(error.contains("division by zero in"), "{sql}: {error}");
    }
}

#[tokio::test]
async fn float32_rounding_matches_the_cpu() {
    let seed = 20_261_121;
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut values: Vec<f32> = (0..4000)
        .map(|_| rng.random_range(-1.0f32..1.0) * 10f32.powi(rng.random_range(-6..12)))
        .collect();
    values.extend([
        0.5,
        1.5,
        2.5,
        -0.5,
        0.125,
        0.375,
        1.005,
        2.675,
        1e38,
        -1e38,
        f32::MAX,
        0.0,
        -0.0,
    ]);
    let x: ArrayRef = Arc::new(Float32Array::from(values));
    let pair = Pair::new(&[]);
    pair.table(
        "t",
        &[RecordBatch::try_from_iter([("x", x)]).expect("one column")],
    );
    for places in [
        "", ", 0", ", 1", ", 2", ", 3", ", 7", ", -1", ", -3", ", 30", ", 39", ", -39",
    ] {
        let sql = format!("SELECT x, round(x{places}) AS r FROM t WHERE x < 1e30 OR x > 2");
        let expected = answer(&pair.cpu, &sql).await;
        let actual = on_device(&pair, &sql).await;
        let bits = |batches: &[RecordBatch]| {
            let mut all = Vec::new();
            for batch in batches {
                let column = |at: usize| {
                    datafusion::common::cast::as_float32_array(batch.column(at))
                        .expect("floats")
                        .clone()
                };
                let (x, r) = (column(0), column(1));
                // All NaNs are equal here.
                let bits = |v: f32| if v.is_nan() { u32::MAX } else { v.to_bits() };
                all.extend((0..batch.num_rows()).map(|row| (x.value(row).to_bits(), bits(r.value(row)))));
            }
            all.sort_unstable();
            all
        };
        assert_eq!(bits(&expected), bits(&actual), "seed {seed}, round(x{places})");
    }
}
