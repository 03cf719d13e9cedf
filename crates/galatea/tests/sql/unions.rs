//! UNION ALL below operators that process its rows: pipelines over all inputs, compared with DataFusion's CPU
//! operators.

use crate::compare::{Pair, same, same_in_order};
use crate::data::{Shape, batch};
use crate::joins::{STRICT, text};
use datafusion::arrow::array::{ArrayRef, Int32Array, RecordBatch, StringArray};
use std::sync::Arc;

const QUERIES: &[&str] = &[
    // Groups.
    "SELECT k, count(*), sum(i64), min(d18), max(f64) FROM (SELECT * FROM t UNION ALL SELECT * FROM u) GROUP BY k",
    "SELECT low, count(*), avg(d9) FROM (SELECT low, d9 FROM t WHERE i16 > 0 UNION ALL SELECT view, d9 FROM u) GROUP BY low",
    "SELECT count(*), sum(x), count(DISTINCT x) FROM (SELECT i8 + 1 AS x FROM t UNION ALL SELECT i16 FROM u UNION ALL SELECT 7)",
    "SELECT count(*), count(flag), bool_and(flag) FROM (SELECT flag FROM t UNION ALL SELECT i8 > 0 FROM u UNION ALL SELECT flag FROM t)",
    "SELECT x, count(*) FROM (SELECT 1 AS x, v FROM t UNION ALL SELECT 2, v FROM u UNION ALL SELECT 3, v FROM t WHERE flag) GROUP BY x",
    "SELECT high, max(low), count(*) FROM (SELECT high, low FROM t UNION ALL SELECT view, high FROM u) GROUP BY high",
    "SELECT d38, f32, count(*), max(ts) FROM (SELECT d38, f32, ts FROM t UNION ALL SELECT d38, f32, ts FROM u) GROUP BY d38, f32",
    // Duplicates are removed.
    "SELECT i8, low FROM t UNION SELECT i8, low FROM u",
    "SELECT low FROM t WHERE flag UNION SELECT view FROM u UNION SELECT 'AIR'",
    // Inputs that are groups, joins and windows themselves.
    "SELECT k, sum(n) FROM (SELECT k, count(*) AS n FROM t GROUP BY k UNION ALL SELECT k, count(low) FROM u GROUP BY k) GROUP BY k",
    "SELECT count(*), sum(a) FROM (SELECT t.i32 AS a FROM t JOIN u ON t.v = u.v UNION ALL SELECT t.i32 FROM t JOIN u ON t.i8 = u.i8)",
    "SELECT r, count(*) FROM (SELECT rank() OVER (PARTITION BY k ORDER BY i8) AS r FROM t UNION ALL SELECT v FROM u) GROUP BY r",
    // Build and probe sides of joins.
    "SELECT count(*), sum(a.i32), max(b.low) FROM (SELECT * FROM t UNION ALL SELECT * FROM u) a JOIN t b ON a.v = b.v",
    "SELECT count(*), sum(a.i32) FROM t a JOIN (SELECT i8, i16 FROM t UNION ALL SELECT i8, i16 FROM u) b ON a.i8 = b.i8",
    "SELECT v FROM t WHERE i8 IN (SELECT i8 FROM t WHERE flag UNION ALL SELECT u8 FROM u)",
    "SELECT a.v, b.v FROM (SELECT v, low FROM t UNION ALL SELECT v, low FROM u) a LEFT JOIN u b ON a.v = b.v + 3 AND a.low < b.low",
    // Windows, filters, projections.
    "SELECT v, x, sum(x) OVER (PARTITION BY v ORDER BY x) AS s FROM (SELECT v, i16 AS x FROM t UNION ALL SELECT v, i8 FROM u)",
    "SELECT upper(low), v + 1 FROM (SELECT low, v FROM t UNION ALL SELECT low, v FROM u LIMIT 100000) WHERE v % 2 = 0",
    "SELECT CASE WHEN a.flag THEN a.low ELSE a.view END, count(*) FROM (SELECT * FROM t UNION ALL SELECT * FROM u) a GROUP BY 1",
    // Empty inputs, and nested unions.
    "SELECT k, count(*) FROM (SELECT k FROM t WHERE v < -10 UNION ALL SELECT k FROM u UNION ALL (SELECT k FROM t WHERE v > 1000000 UNION ALL SELECT k FROM u)) GROUP BY k",
    "SELECT count(*), max(low) FROM (SELECT low, v FROM t WHERE v < -10 UNION ALL SELECT low, v FROM u WHERE v < -10)",
    // Constants per input.
    "SELECT ch, k, count(*), sum(x) FROM (SELECT 'store' AS ch, k, i32 AS x FROM t UNION ALL SELECT 'web', k, i32 FROM u UNION ALL SELECT 'store', k, i8 FROM t) GROUP BY ch, k",
    "SELECT ch, count(*), min(v) FROM (SELECT 'a' AS ch, v FROM t UNION ALL SELECT NULL, v FROM u UNION ALL SELECT '', v FROM u) GROUP BY ROLLUP (ch)",
    "SELECT ch, max(v), count(DISTINCT ch) FROM (SELECT 'same' AS ch, v FROM t UNION ALL SELECT 'same', v FROM u) WHERE ch > 'a' GROUP BY ch",
    "SELECT ch, v, n, rank() OVER (PARTITION BY ch ORDER BY v) AS r FROM (SELECT 'x' AS ch, v, 1.5 AS n FROM t UNION ALL SELECT 'y', v, 2.5 FROM u) WHERE ch <> 'z'",
    "SELECT a.ch, b.ch, count(*) FROM (SELECT 'x' AS ch, v FROM t UNION ALL SELECT 'y', v FROM u) a JOIN (SELECT 'y' AS ch, v FROM t UNION ALL SELECT 'x', v FROM u) b ON a.v = b.v AND a.ch = b.ch GROUP BY a.ch, b.ch",
];

const ORDERED: &[&str] = &[
    "SELECT v, low, i8 FROM (SELECT v, low, i8 FROM t UNION ALL SELECT v + 5000, high, i8 FROM u) ORDER BY low, v DESC",
    "SELECT v, low, d38 FROM (SELECT v, low, d38 FROM t UNION ALL SELECT v + 5000, high, d38 FROM u) ORDER BY d38 DESC NULLS LAST, v LIMIT 17",
];

async fn all(queries: &[&str], sizes: [usize; 2], shape: Shape, settings: &[(&str, &str)], in_order: bool) {
    let pair = Pair::new(settings);
    pair.table("t", &[batch(sizes[0], 1, shape)]);
    pair.table("u", &[batch(sizes[1], 2, Shape::Ordinary)]);
    let same = if in_order { same_in_order } else { same };
    for sql in queries {
        if let Err(difference) = pair.compare(sql, same).await {
            panic!("{shape:?}, {sizes:?} rows, {settings:?}\n{sql}\n{difference}");
        }
    }
}

#[tokio::test]
async fn unions_return_rows_of_all_inputs() {
    all(
        QUERIES,
        [500, 300],
        Shape::Ordinary,
        &[("galatea.tuning.chunk_rows", "128")],
        false,
    )
    .await;
    for sizes in [[0, 33], [1, 0], [257, 1]] {
        all(QUERIES, sizes, Shape::AllNull, &[], false).await;
    }
}

#[tokio::test]
async fn order_by_applies_to_the_whole_union() {
    all(
        ORDERED,
        [700, 400],
        Shape::Ordinary,
        &[("galatea.tuning.chunk_rows", "100")],
        true,
    )
    .await;
    all(ORDERED, [0, 5], Shape::Ordinary, &[], true).await;
}

#[tokio::test]
async fn partitioned_joins_of_unions() {
    let settings = [
        ("galatea.join.partitions", "8"),
        ("galatea.tuning.chunk_rows", "128"),
    ];
    all(&QUERIES[12..16], [600, 300], Shape::Skewed, &settings, false).await;
}

/// Nothing runs on the CPU: one subtree contains the whole query.
#[tokio::test]
async fn union_is_part_of_its_pipeline() {
    let pair = Pair::new(&[STRICT]);
    pair.table("t", &[batch(300, 1, Shape::Ordinary)]);
    pair.table("u", &[batch(200, 2, Shape::Skewed)]);
    for sql in [QUERIES[0], QUERIES[1], QUERIES[12], QUERIES[21], ORDERED[0]] {
        pair.check(sql, true, "strict").await;
        let plan = text(&pair, &format!("EXPLAIN {sql}")).await;
        assert!(plan.contains("rows d"), "{sql}\n{plan}");
        assert!(!plan.contains("UnionExec"), "{sql}\n{plan}");
        let report = galatea::last_query_report(&pair.gpu).expect("a query ran");
        assert_eq!(report.placed, 1, "{sql}: {report:?}");
    }
}

/// The dictionaries of the inputs differ, and some share no value with the others.
#[tokio::test]
async fn strings_of_different_dictionaries_are_equal_by_value() {
    let pair = Pair::new(&[STRICT, ("galatea.tuning.chunk_rows", "16")]);
    let table = |name: &str, words: Vec<Option<&str>>| {
        let numbers: Vec<i32> = (0..words.len() as i32).collect();
        let columns: Vec<(&str, ArrayRef, bool)> = vec![
            ("w", Arc::new(StringArray::from(words)), true),
            ("n", Arc::new(Int32Array::from(numbers)), false),
        ];
        let batch = RecordBatch::try_from_iter_with_nullable(columns).expect("one length");
        pair.table(name, &[batch]);
    };
    table("a", vec![Some("b"), Some("d"), None, Some("b"), Some("")]);
    table("b", vec![Some("c"), Some("a"), Some("d"), Some("ä")]);
    table("c", vec![None, None]);
    let rows = "(SELECT w, n FROM a UNION ALL SELECT w, n FROM b UNION ALL SELECT w, n FROM c)";
    for sql in [
        format!("SELECT w, count(*), sum(n) FROM {rows} GROUP BY w"),
        format!("SELECT min(w), max(w), count(w) FROM {rows}"),
        format!("SELECT x.w, x.n, y.n FROM {rows} x JOIN a y ON x.w = y.w"),
        format!("SELECT upper(w) AS u, count(*) FROM {rows} GROUP BY u"),
    ] {
        pair.check(&sql, true, "dictionaries").await;
    }
}
