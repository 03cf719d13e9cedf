//! NaN, zeros of both signs, and moments of large close values.

use crate::{DEVICES, check, session};
use datafusion::arrow::array::{ArrayRef, Float32Array, Float64Array, Int64Array, RecordBatch};
use datafusion::datasource::MemTable;
use std::sync::Arc;

/// NaNs of several bit patterns, zeros of both signs, and other floats, in groups with NaN first and last.
fn floats() -> RecordBatch {
    let negative = f64::from_bits(0xfff8_0000_0000_0000);
    let payload = f64::from_bits(0x7ff8_0000_0000_0123);
    let g: ArrayRef = Arc::new(Int64Array::from(vec![1, 1, 1, 2, 2, 3, 3, 4, 4, 4]));
    let i: ArrayRef = Arc::new(Int64Array::from_iter_values(0..10));
    let v = [
        negative,
        1.0,
        payload,
        2.0,
        f64::NAN,
        -0.0,
        0.0,
        payload,
        negative,
        f64::NAN,
    ];
    let w: ArrayRef = Arc::new(Float32Array::from_iter_values(v.iter().map(|v| *v as f32)));
    let v: ArrayRef = Arc::new(Float64Array::from_iter_values(v));
    RecordBatch::try_from_iter([("g", g), ("v", v), ("w", w), ("i", i)]).expect("columns of one length")
}

async fn check_floats(queries: &[(&str, &[&str])]) {
    check_floats_with(&[], queries).await;
}

/// Checks queries over the rows in memory and in a Parquet file, after some statements.
async fn check_floats_with(statements: &[&str], queries: &[(&str, &[&str])]) {
    for device in DEVICES {
        for (partitions, order) in [(1, [0, 1]), (4, [1, 0])] {
            let ctx = session(device, partitions);
            crate::prepare(&ctx, statements).await;
            let batch = floats();
            let halves = [batch.slice(0, 5), batch.slice(5, 5)];
            let parts = order.map(|at| vec![halves[at].clone()]).to_vec();
            let table = MemTable::try_new(batch.schema(), parts).expect("batches of one schema");
            ctx.register_table("t", Arc::new(table)).expect("a new table");
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join("t.parquet").display().to_string();
            let copy = format!(
                "COPY (SELECT * FROM t ORDER BY i) TO '{path}' OPTIONS ('format.max_row_group_size' '3')"
            );
            let file = format!("CREATE EXTERNAL TABLE f STORED AS PARQUET LOCATION '{path}'");
            crate::prepare(&ctx, &[copy.as_str(), file.as_str()]).await;
            for (sql, expected) in queries {
                check(&ctx, sql, expected, &format!("{device}, {partitions} partitions")).await;
                let sql = sql.replace("FROM t", "FROM f").replace("JOIN t", "JOIN f");
                check(
                    &ctx,
                    &sql,
                    expected,
                    &format!("{device}, {partitions} partitions, a file"),
                )
                .await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn distinct_treats_nans_and_zeros_as_equal() {
    check_floats(&[
        ("SELECT count(DISTINCT v), count(DISTINCT w) FROM t", &["4, 4"]),
        (
            "SELECT count(DISTINCT v), count(DISTINCT g), sum(DISTINCT g) FROM t",
            &["4, 4, 10"],
        ),
        ("SELECT count(*) FROM (SELECT DISTINCT v FROM t) q", &["4"]),
        ("SELECT count(*) FROM (SELECT DISTINCT g, w FROM t) q", &["6"]),
        (
            "SELECT isnan(v) AS n, count(*) AS c FROM t GROUP BY v",
            &["false, 1", "false, 1", "false, 2", "true, 6"],
        ),
        (
            "SELECT g, count(DISTINCT v) AS c FROM t GROUP BY g",
            &["1, 2", "2, 2", "3, 1", "4, 1"],
        ),
        (
            "SELECT count(*) FROM (SELECT v FROM t UNION SELECT v FROM t) q",
            &["4"],
        ),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn approximate_counts_treat_nans_and_zeros_as_equal() {
    check_floats(&[
        ("SELECT approx_distinct(v), approx_distinct(w) FROM t", &["4, 4"]),
        (
            "SELECT g, approx_distinct(v) AS c, approx_distinct(w) AS d, approx_distinct(i) AS e FROM t GROUP BY g",
            &["1, 2, 2, 3", "2, 2, 2, 2", "3, 1, 1, 2", "4, 1, 1, 3"],
        ),
        ("SELECT approx_distinct(v) FROM t WHERE g < 0", &["0"]),
        ("SELECT g, approx_distinct(v) AS c FROM t WHERE g < 0 GROUP BY g", &[]),
        (
            "SELECT approx_distinct(v) FILTER (WHERE g = 3), approx_distinct(CASE WHEN g = 1 THEN w END) FROM t",
            &["1, 2"],
        ),
        (
            "SELECT g, approx_distinct(CASE WHEN g > 2 THEN v END) AS c FROM t GROUP BY g",
            &["1, 0", "2, 0", "3, 1", "4, 1"],
        ),
        (
            "SELECT DISTINCT g, approx_distinct(v) OVER (PARTITION BY g) AS c FROM t",
            &["1, 2", "2, 2", "3, 1", "4, 1"],
        ),
        ("SELECT approx_distinct(arrow_cast(v, 'Float16')) FROM t", &["4"]),
        (
            "SELECT abs(approx_distinct(value / 7.0) - 20000.0) < 1000 AS near FROM generate_series(1, 20000)",
            &["true"],
        ),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nan_is_above_all_values() {
    check_floats(&[
        (
            "SELECT g, min(v) + 0 AS lo, max(v) + 0 AS hi FROM t GROUP BY g",
            &["1, 1.0, NaN", "2, 2.0, NaN", "3, 0.0, 0.0", "4, NaN, NaN"],
        ),
        (
            "SELECT g, min(w) + 0 AS lo, max(w) + 0 AS hi FROM t GROUP BY g",
            &["1, 1.0, NaN", "2, 2.0, NaN", "3, 0.0, 0.0", "4, NaN, NaN"],
        ),
        (
            "SELECT min(v) + 0, max(v), min(w) + 0, max(w) FROM t",
            &["0.0, NaN, 0.0, NaN"],
        ),
        ("SELECT min(v), max(v) FROM t WHERE g < 0", &["NULL, NULL"]),
        (
            "SELECT min(v) FILTER (WHERE g < 3), max(v) FILTER (WHERE g = 2) FROM t",
            &["1.0, NaN"],
        ),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn comparisons_order_nan_last_and_equate_zeros() {
    let counts = [
        ("v = v", "10"),
        ("v = CAST('NaN' AS DOUBLE)", "6"),
        ("w = CAST('NaN' AS REAL)", "6"),
        ("v <> CAST('NaN' AS DOUBLE)", "4"),
        ("v > 1", "7"),
        ("w > CAST(1 AS REAL)", "7"),
        ("v >= 2", "7"),
        ("v < 1", "2"),
        ("w < CAST(1 AS REAL)", "2"),
        ("v < CAST('NaN' AS DOUBLE)", "4"),
        ("v <= CAST('NaN' AS DOUBLE)", "10"),
        ("v > CAST('Infinity' AS DOUBLE)", "6"),
        ("NOT v > 1", "3"),
        ("v BETWEEN 1 AND CAST('Infinity' AS DOUBLE)", "2"),
        ("v BETWEEN 1 AND CAST('NaN' AS DOUBLE)", "8"),
        ("v IN (CAST('NaN' AS DOUBLE), 2)", "7"),
        ("v IN (CAST('NaN' AS DOUBLE), 2, 7, 8, 9, 10)", "7"),
        ("v IN (0.0, 5.0)", "2"),
        ("v IN (-0.0, 5.0, 6.0, 7.0, 8.0, 9.0)", "2"),
        ("w IN (CAST(0 AS REAL), CAST('NaN' AS REAL))", "8"),
        ("v NOT IN (CAST('NaN' AS DOUBLE), 1)", "3"),
        ("v IS DISTINCT FROM CAST('NaN' AS DOUBLE)", "4"),
        ("v IS NOT DISTINCT FROM 0.0", "2"),
        ("v = 0.0", "2"),
        ("v = -0.0", "2"),
        ("v < 0.0", "0"),
        ("v >= -0.0", "10"),
        ("v * 0.0 / 0.0 = CAST('NaN' AS DOUBLE)", "10"),
        ("v * 0.0 / 0.0 > 1", "10"),
        ("v + w > 100", "6"),
        ("CASE WHEN v > 1 THEN true ELSE false END", "7"),
    ];
    let queries = counts.map(|(condition, _)| format!("SELECT count(*) FROM t WHERE {condition}"));
    let sums =
        counts.map(|(condition, _)| format!("SELECT sum(CASE WHEN {condition} THEN 1 ELSE 0 END) FROM t"));
    let expected = counts.map(|(_, expected)| [expected]);
    let queries = queries.iter().chain(&sums).zip(expected.iter().chain(&expected));
    let queries: Vec<(&str, &[&str])> = queries.map(|(sql, rows)| (sql.as_str(), &rows[..])).collect();
    check_floats(&queries).await;
}

const JOINS: [(&str, &[&str]); 12] = [
    ("SELECT count(*) FROM t a JOIN t b ON a.v = b.v", &["42"]),
    ("SELECT count(*) FROM t a JOIN t b ON a.w = b.w", &["42"]),
    (
        "SELECT count(*), count(b.i) FROM t a LEFT JOIN t b ON a.v = b.v AND b.g = 4",
        &["22, 18"],
    ),
    (
        "SELECT count(*), count(a.i) FROM t a RIGHT JOIN t b ON a.v = b.v AND a.g = 4",
        &["22, 18"],
    ),
    ("SELECT count(*) FROM t a FULL JOIN t b ON a.v = b.v", &["42"]),
    (
        "SELECT count(*) FROM t a JOIN t b ON a.v = b.v AND a.g = b.g",
        &["20"],
    ),
    ("SELECT count(*) FROM t a JOIN t b ON a.v < b.v", &["29"]),
    (
        "SELECT count(*) FROM t WHERE v IN (SELECT v FROM t WHERE i = 9)",
        &["6"],
    ),
    (
        "SELECT count(*) FROM t WHERE v IN (SELECT v FROM t WHERE i = 5)",
        &["2"],
    ),
    (
        "SELECT count(*) FROM t WHERE v NOT IN (SELECT v FROM t WHERE i IN (8, 6))",
        &["2"],
    ),
    (
        "SELECT count(*) FROM t a WHERE NOT EXISTS (SELECT 1 FROM t b WHERE a.v = b.v AND b.i IN (8, 6))",
        &["2"],
    ),
    (
        "SELECT count(*) FROM (SELECT v FROM t WHERE g = 1 INTERSECT SELECT v FROM t WHERE g = 4) q",
        &["1"],
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn hash_joins_equate_nans_and_zeros() {
    check_floats(&JOINS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn merge_joins_equate_nans_and_zeros() {
    check_floats_with(&["SET datafusion.optimizer.prefer_hash_join = false"], &JOINS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn order_by_sorts_nan_last_and_equates_zeros() {
    check_floats(&[
        ("SELECT i FROM t ORDER BY v, i DESC LIMIT 1", &["6"]),
        ("SELECT i FROM t ORDER BY v, i DESC LIMIT 1 OFFSET 1", &["5"]),
        ("SELECT i FROM t ORDER BY v, i LIMIT 3 OFFSET 2", &["0", "1", "3"]),
        ("SELECT i FROM t ORDER BY v, i LIMIT 1 OFFSET 9", &["9"]),
        ("SELECT i FROM t ORDER BY v, i DESC LIMIT 1 OFFSET 9", &["0"]),
        ("SELECT i FROM t ORDER BY v DESC, i LIMIT 3", &["0", "2", "4"]),
        ("SELECT i FROM t ORDER BY w DESC, i LIMIT 3", &["0", "2", "4"]),
        ("SELECT i FROM t ORDER BY v DESC, i LIMIT 1 OFFSET 6", &["3"]),
        ("SELECT i FROM t ORDER BY w, i DESC LIMIT 2 OFFSET 1", &["1", "5"]),
        ("SELECT i FROM t ORDER BY -v, i LIMIT 1 OFFSET 9", &["9"]),
        (
            "SELECT i FROM t ORDER BY CASE WHEN i = 3 THEN NULL ELSE v END DESC NULLS LAST, i LIMIT 1",
            &["0"],
        ),
        (
            "SELECT i FROM t ORDER BY CASE WHEN i = 3 THEN NULL ELSE v END DESC NULLS LAST, i LIMIT 1 OFFSET 9",
            &["3"],
        ),
        (
            "SELECT i FROM t ORDER BY CASE WHEN i = 3 THEN NULL ELSE v END NULLS FIRST, i LIMIT 2",
            &["3", "5"],
        ),
        (
            "SELECT v = 0.0 AS z, c FROM (SELECT v, count(*) AS c FROM t GROUP BY v ORDER BY v LIMIT 2) q",
            &["false, 1", "true, 2"],
        ),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sorted_rows_follow_float_order() {
    for device in DEVICES {
        for partitions in [1, 4] {
            let ctx = session(device, partitions);
            let batch = floats();
            let parts = vec![vec![batch.slice(5, 5)], vec![batch.slice(0, 5)]];
            let table = MemTable::try_new(batch.schema(), parts).expect("batches of one schema");
            ctx.register_table("t", Arc::new(table)).expect("a new table");
            for (sql, expected) in [
                ("SELECT i FROM t ORDER BY v, i", "5 6 1 3 0 2 4 7 8 9"),
                ("SELECT i FROM t ORDER BY w DESC, i", "0 2 4 7 8 9 3 1 5 6"),
                (
                    "SELECT i FROM t WHERE g < 4 ORDER BY v DESC, i DESC",
                    "4 2 0 3 1 6 5",
                ),
            ] {
                let frame = ctx.sql(sql).await.expect("a plan");
                let batches = frame.collect().await.expect("rows");
                let rows: Vec<String> = batches.iter().flat_map(crate::texts).collect();
                assert_eq!(
                    rows.join(" "),
                    expected,
                    "{device}, {partitions} partitions\n{sql}"
                );
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn windows_sort_nan_last_and_equate_zeros() {
    check_floats(&[
        (
            "SELECT r, count(*) AS c FROM (SELECT rank() OVER (ORDER BY v) AS r FROM t) q GROUP BY r",
            &["1, 2", "3, 1", "4, 1", "5, 6"],
        ),
        (
            "SELECT r, count(*) AS c FROM (SELECT dense_rank() OVER (ORDER BY w DESC) AS r FROM t) q GROUP BY r",
            &["1, 6", "2, 1", "3, 1", "4, 2"],
        ),
        (
            "SELECT r, count(*) AS c FROM (SELECT count(*) OVER (PARTITION BY v) AS r FROM t) q GROUP BY r",
            &["1, 2", "2, 2", "6, 6"],
        ),
        (
            "SELECT i, row_number() OVER (PARTITION BY v ORDER BY i) AS r FROM t WHERE g > 2",
            &["5, 1", "6, 2", "7, 1", "8, 2", "9, 3"],
        ),
        (
            "SELECT s, count(*) AS c FROM (SELECT sum(i) OVER (ORDER BY v) AS s FROM t) q GROUP BY s",
            &["11, 2", "12, 1", "15, 1", "45, 6"],
        ),
        (
            "SELECT i, first_value(i) OVER (ORDER BY v DESC, i) AS r FROM t WHERE g = 3 OR i = 8",
            &["5, 8", "6, 8", "8, 8"],
        ),
        (
            "SELECT isnan(m) AS n, count(*) AS c FROM (SELECT max(v) OVER (ORDER BY i) AS m FROM t) q GROUP BY isnan(m)",
            &["true, 10"],
        ),
        (
            "SELECT isnan(m) AS n, count(*) AS c FROM (SELECT min(v) OVER (ORDER BY i) AS m FROM t) q GROUP BY isnan(m)",
            &["false, 9", "true, 1"],
        ),
        (
            "SELECT isnan(m) AS n, count(*) AS c FROM (SELECT min(w) OVER (ORDER BY i ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS m FROM t) q GROUP BY isnan(m)",
            &["false, 7", "true, 3"],
        ),
        (
            "SELECT isnan(m) AS n, count(*) AS c FROM (SELECT max(v) OVER (ORDER BY i ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS m FROM t) q GROUP BY isnan(m)",
            &["false, 1", "true, 9"],
        ),
        ("SELECT count(*) FROM (SELECT max(v) OVER () AS m FROM t WHERE g = 1) q WHERE isnan(m)", &["3"]),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn variance_and_covariance_of_large_close_values() {
    let statements = [
        "CREATE TABLE t AS SELECT value % 2 AS g, CAST(1e16 AS DOUBLE) + 2 * CAST(value / 2 AS DOUBLE) AS v, CAST(value / 2 AS DOUBLE) AS x FROM generate_series(0, 3)",
        "CREATE TABLE n AS SELECT 10000000000000000 + 2 * value AS v FROM generate_series(0, 1)",
    ];
    for device in DEVICES {
        for partitions in [1, 4] {
            let ctx = session(device, partitions);
            crate::prepare(&ctx, &statements).await;
            let context = format!("{device}, {partitions} partitions");
            for (sql, expected) in [
                (
                    "SELECT var_pop(v), var_samp(v), stddev_pop(v), covar_pop(v, v), covar_samp(v, x) FROM t WHERE g = 0",
                    &["1.0, 2.0, 1.0, 1.0, 1.0"][..],
                ),
                (
                    "SELECT corr(v, x), regr_slope(v, x), regr_r2(v, x), regr_sxx(x, v) FROM t",
                    &["1.0, 2.0, 1.0, 4.0"],
                ),
                (
                    "SELECT regr_r2(v * 0 + 5, v), regr_r2(v, v * 0 + 5) FROM t WHERE g = 0",
                    &["1.0, NULL"],
                ),
                (
                    "SELECT g, var_pop(v) AS p, var_samp(v) AS s FROM t GROUP BY g",
                    &["0, 1.0, 2.0", "1, 1.0, 2.0"],
                ),
                ("SELECT var_pop(v), var_samp(v) FROM n", &["1.0, 2.0"]),
                (
                    "SELECT var_samp(v) OVER (PARTITION BY g) AS s FROM t",
                    &["2.0", "2.0", "2.0", "2.0"],
                ),
                ("SELECT var_samp(v) FROM t WHERE v <= 1e16 AND g = 0", &["NULL"]),
                (
                    "SELECT var_pop(v), corr(v, x), regr_slope(v, x) FROM t WHERE v <= 1e16 AND g = 0",
                    &["0.0, NULL, NULL"],
                ),
                (
                    "SELECT var_pop(v), covar_pop(v, x) FROM t WHERE v < 0",
                    &["NULL, NULL"],
                ),
            ] {
                check(&ctx, sql, expected, &context).await;
            }
        }
    }
}

/// Floats beside decimals: small, large and special ones keep their values.
#[tokio::test(flavor = "multi_thread")]
async fn decimals_beside_floats_are_floats() {
    let tables = [
        "CREATE TABLE d(i INT, x DOUBLE) AS VALUES (1, 1e-20), (2, 1.5), (3, 1e25), (4, CAST('NaN' AS DOUBLE)), (5, NULL)",
        "CREATE TABLE e(y DECIMAL(10,2)) AS VALUES (1.50), (0), (NULL)",
    ];
    let queries: &[(&str, &[&str])] = &[
        ("SELECT i, y FROM d JOIN e ON x = y", &["2, 1.50"]),
        (
            "SELECT i FROM d JOIN e ON x > y WHERE y = 0",
            &["1", "2", "3", "4"],
        ),
        ("SELECT i FROM d, e WHERE x <> y AND y > 1", &["1", "3", "4"]),
        ("SELECT i FROM d, e WHERE x IS NOT DISTINCT FROM y", &["2", "5"]),
        ("SELECT i FROM d WHERE x IN (SELECT y FROM e)", &["2"]),
        ("SELECT y FROM e WHERE y IN (SELECT x FROM d)", &["1.50"]),
        (
            "SELECT i FROM d, e WHERE y = 0 AND x BETWEEN y AND y + 2",
            &["1", "2"],
        ),
        (
            "SELECT x FROM d WHERE i < 4 UNION ALL SELECT y FROM e",
            &["0.0", "1.5", "1.5", "1e-20", "1e25", "NULL"],
        ),
        (
            "SELECT y FROM e UNION SELECT x FROM d WHERE i < 3",
            &["0.0", "1.5", "1e-20", "NULL"],
        ),
        ("SELECT x FROM d INTERSECT SELECT y FROM e", &["1.5", "NULL"]),
        (
            "SELECT x FROM d EXCEPT ALL SELECT y FROM e",
            &["1e-20", "1e25", "NaN"],
        ),
        (
            "SELECT coalesce(y, x) FROM d, e WHERE i = 1 AND y IS NULL",
            &["1e-20"],
        ),
        (
            "SELECT CASE WHEN y = 0 THEN x ELSE y END FROM d, e WHERE i = 3",
            &["1.5", "1e25", "NULL"],
        ),
        (
            "SELECT greatest(x, y) FROM d, e WHERE y = 0 AND i < 3",
            &["1.5", "1e-20"],
        ),
        (
            "SELECT nullif(x, y) FROM d, e WHERE y > 1 AND i < 3",
            &["1e-20", "NULL"],
        ),
        (
            "SELECT i FROM d, e WHERE y = 0 AND x > y + 0.06 + 0.01 AND i < 3",
            &["2"],
        ),
        ("SELECT y FROM e WHERE y >= 1.4 + 0.1", &["1.50"]),
    ];
    crate::check_all(&tables, queries).await;
}

/// The least and the greatest value of a column are equal if NaN is not counted.
#[tokio::test]
async fn columns_with_nan_and_one_other_value_are_not_constant() {
    for device in DEVICES {
        let ctx = session(device, 2);
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("t.parquet").display().to_string();
        let values = "(VALUES (1, CAST('NaN' AS DOUBLE), CAST(2.5 AS FLOAT)), (2, 0.5, 'NaN'), (3, 0.5, 2.5)) v(i, v, w)";
        let copy = format!("COPY (SELECT * FROM {values}) TO '{path}'");
        let file = format!("CREATE EXTERNAL TABLE f STORED AS PARQUET LOCATION '{path}'");
        crate::prepare(&ctx, &[copy.as_str(), file.as_str()]).await;
        for (sql, expected) in [
            (
                "SELECT i, v, w FROM f",
                &["1, NaN, 2.5", "2, 0.5, NaN", "3, 0.5, 2.5"][..],
            ),
            ("SELECT v, count(*) FROM f GROUP BY v", &["0.5, 2", "NaN, 1"]),
            ("SELECT i FROM f WHERE v > 1 OR isnan(w)", &["1", "2"]),
            ("SELECT max(v), max(w) FROM f", &["NaN, NaN"]),
            ("SELECT a.i, b.i FROM f a JOIN f b ON a.v = b.w", &["1, 2"]),
        ] {
            check(&ctx, sql, expected, device).await;
        }
    }
}
