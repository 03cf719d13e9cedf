//! `ORDER BY` of all rows: the device sorts. DataFusion's sort may return equal rows in any order. So queries
//! order by all columns that they return, or their keys are compared in order and their rows as a multiset.

use crate::compare::{Comparison, Pair, answer, same, same_in_order};
use crate::data::{Shape, batch};
use crate::joins::{STRICT, star, text};
use datafusion::arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use datafusion::arrow::compute::concat_batches;
use datafusion::arrow::datatypes::Int64Type;
use datafusion::arrow::error::ArrowError;
use std::sync::Arc;

/// Rows of tables, by keys of every kind.
const ROWS: &[&str] = &[
    "SELECT i8, i64 FROM t ORDER BY i8, i64",
    "SELECT i64 FROM t ORDER BY i64 DESC",
    "SELECT i64, k FROM t ORDER BY i64 DESC NULLS LAST, k",
    "SELECT u64, i16 FROM t ORDER BY u64 NULLS FIRST, i16 DESC",
    "SELECT u64 FROM t WHERE i16 > 0 ORDER BY u64 DESC NULLS LAST",
    "SELECT u8, u32 FROM t WHERE k < 5 ORDER BY u8 DESC, u32",
    "SELECT d38, d9 FROM t ORDER BY d38 DESC NULLS LAST, d9",
    "SELECT d38 FROM t WHERE d38 > 0 ORDER BY d38 NULLS FIRST",
    "SELECT d18 * d9 AS p FROM t ORDER BY p",
    "SELECT f64, f32 FROM t ORDER BY f64 DESC, f32 NULLS FIRST",
    "SELECT f32, i64 FROM t ORDER BY f32 NULLS FIRST, i64",
    "SELECT f64 / 0 AS x FROM t ORDER BY x NULLS FIRST",
    "SELECT day, ts FROM t ORDER BY day, ts DESC",
    "SELECT day, ts FROM t ORDER BY day DESC, ts OFFSET 7",
    "SELECT flag, day, i64, f64, d18 FROM t ORDER BY flag DESC, day, i64, f64, d18",
    "SELECT k, low, high, i64, ts FROM t ORDER BY k, low DESC, high, i64, ts",
    "SELECT low, view, v FROM t ORDER BY low NULLS FIRST, view DESC, v",
    "SELECT upper(low) AS u, v FROM t ORDER BY u DESC, v",
    "SELECT i64 + 1 AS next, i64 FROM t WHERE low = 'AIR' ORDER BY next DESC NULLS LAST, i64",
    "SELECT i8, i16, i32, i64, u8, u32, u64, d9, d18, d38, f32, f64, day, ts, flag, low, high, view, k, v FROM t
     ORDER BY v DESC",
    // All rows are equal.
    "SELECT 1 AS one, i8 IS NULL AND false AS no FROM t ORDER BY one, no",
    // The LIMIT is larger than the number of rows that candidate selection supports.
    "SELECT i32, v FROM t ORDER BY i32, v LIMIT 1000000",
    "SELECT high, i64 FROM t WHERE i8 > 0 ORDER BY high, i64",
];

async fn check(pair: &Pair, sql: &str, same: Comparison, context: &str) {
    if let Err(difference) = pair.compare(sql, same).await {
        panic!("{context}\n{sql}\n{difference}");
    }
}

/// Compares rows as multisets, and their first two columns in order.
fn keys_in_order(expected: &[RecordBatch], actual: &[RecordBatch]) -> Result<(), String> {
    let keys = |batches: &[RecordBatch]| -> Result<Vec<RecordBatch>, ArrowError> {
        batches.iter().map(|batch| batch.project(&[0, 1])).collect()
    };
    let keys = |batches| keys(batches).map_err(|error| error.to_string());
    same_in_order(&keys(expected)?, &keys(actual)?)?;
    same(expected, actual)
}

#[tokio::test]
async fn sorted_table_rows_match_the_cpu() {
    let shapes = [Shape::Ordinary, Shape::AllNull, Shape::AllEqual, Shape::Skewed];
    for (rows, seed) in [(0, 1), (1, 4), (31, 5), (32, 6), (33, 2), (6000, 3)] {
        // For few rows, the distribution does not matter.
        for shape in shapes.into_iter().take(if rows < 1000 { 1 } else { 4 }) {
            let pair = Pair::new(&[("galatea.tuning.chunk_rows", "2000")]);
            pair.table("t", &[batch(rows, seed, shape)]);
            for sql in ROWS {
                let context = format!("{shape:?}, {rows} rows, seed {seed}");
                check(&pair, sql, same_in_order, &context).await;
            }
        }
    }
}

#[tokio::test]
async fn sort_keys_are_ordered_with_ties() {
    for seed in 0..3 {
        let pair = Pair::new(&[("galatea.tuning.chunk_rows", "700"), STRICT]);
        pair.table("t", &[batch(5000, seed, Shape::Ordinary)]);
        for sql in [
            "SELECT k, i8, low, high, view, v FROM t ORDER BY k DESC, i8",
            "SELECT flag, low, d38, f64 FROM t WHERE i16 < 100 ORDER BY flag, low DESC NULLS LAST",
        ] {
            check(&pair, sql, keys_in_order, &format!("seed {seed}")).await;
        }
    }
}

/// The device sorts rows of tables and groups, and the plan above relies on it.
#[tokio::test]
async fn sorted_rows_are_not_sorted_again() {
    let pair = Pair::new(&[STRICT, ("galatea.tuning.build_rows", "1")]);
    pair.table("t", &[batch(4000, 7, Shape::Ordinary)]);
    for (sql, order) in [
        (
            "SELECT i64, v FROM t ORDER BY i64 DESC, v",
            "sorted by=i64 DESC, v",
        ),
        (
            "SELECT low, v FROM t WHERE i8 > 3 ORDER BY low, v",
            "sorted by=low, v",
        ),
        ("SELECT k, v FROM t WHERE k = 3 ORDER BY d38", "sorted by=d38"),
        (
            "SELECT i16, count(*) AS n FROM t GROUP BY i16 ORDER BY n DESC, i16",
            "sorted by=d0.count(Int64(1)) DESC, d0.i16",
        ),
        (
            "SELECT i64, v FROM t ORDER BY v DESC LIMIT 200000",
            "sorted by=v DESC, fetch=200000",
        ),
    ] {
        let plan = text(&pair, &format!("EXPLAIN ANALYZE {sql}")).await;
        assert!(plan.contains(order), "{plan}");
        assert!(
            !plan.contains("SortExec") && !plan.contains("SortPreservingMergeExec"),
            "{plan}"
        );
        assert!(plan.contains("strategy=append, then sort by"), "{plan}");
        assert!(plan.contains("sort passes="), "{plan}");
    }
}

/// If not all rows can be sorted in device memory, they are sorted range by range, for all keys.
#[tokio::test]
async fn out_of_core_sort_by_key_ranges() {
    let settings = [
        STRICT,
        ("galatea.memory.gpu_limit", "1 MiB"),
        ("galatea.tuning.chunk_rows", "500"),
        ("galatea.tuning.block_threads", "32"),
    ];
    let pair = Pair::new(&settings);
    pair.table("t", &[batch(30_000, 5, Shape::Ordinary)]);
    for sql in [
        "SELECT i64, v FROM t ORDER BY i64 DESC, v",
        "SELECT v, high, i64, ts FROM t ORDER BY v DESC",
        "SELECT f64, v FROM t ORDER BY f64 NULLS FIRST, v",
        "SELECT d38, low, v FROM t WHERE i8 IS NOT NULL ORDER BY d38 DESC NULLS LAST, low, v",
        "SELECT k, v, i64 FROM t ORDER BY k, v",
        "SELECT low, i32, v FROM t ORDER BY low DESC, i32, v LIMIT 200000 OFFSET 5",
    ] {
        check(&pair, sql, same_in_order, "in ranges").await;
        let plan = text(&pair, &format!("EXPLAIN ANALYZE {sql}")).await;
        let ranges = plan.split_once("sort partitions=");
        let ranges = ranges.and_then(|(_, rest)| rest.split_once(','));
        let ranges: usize = ranges.map_or(0, |(number, _)| number.parse().expect("a number"));
        assert!(ranges > 1 && !plan.contains("fell back"), "{sql}\n{plan}");
    }
}

/// The rows of one key do not fit. If the key is the whole order, they are returned in any order, some chunks
/// after others; otherwise the CPU sorts.
#[tokio::test]
async fn rows_of_an_oversized_sort_key_are_divided() {
    let settings = [
        ("galatea.memory.gpu_limit", "1 MiB"),
        ("galatea.tuning.chunk_rows", "500"),
    ];
    let pair = Pair::new(&settings);
    pair.table("t", &[batch(30_000, 5, Shape::Ordinary)]);
    let columns = "flag, i8 > 0 AS positive, i64, d38, f64, ts, v, u64, d18";
    for (order, divided) in [
        ("flag, i8 > 0", true),
        ("flag DESC, i8 > 0 NULLS FIRST", true),
        // Rows with equal leading digits, and digits beyond those that divide rows.
        ("flag, d38 - d38, v", false),
    ] {
        for rows in ["", " LIMIT 200000"] {
            let sql = format!("SELECT {columns} FROM t WHERE flag IS NOT NULL ORDER BY {order}{rows}");
            if divided && rows.is_empty() {
                check(&pair, &sql, keys_in_order, "few keys").await;
            }
            let plan = text(&pair, &format!("EXPLAIN ANALYZE {sql}")).await;
            let fell_back = plan.contains("fell back") || plan.contains("the order alone");
            assert_eq!(fell_back, !divided, "{sql}\n{plan}");
        }
    }
}

/// The CPU sorts the rows of a filter by keys that the query does not return. The limits are such that the
/// device can filter the rows and cannot sort them, or can do neither.
#[tokio::test]
async fn cpu_sort_of_device_rows_uses_unreturned_keys() {
    let keys: ArrayRef = Arc::new(Int64Array::from_iter_values((0..30_000).map(|row| row % 2)));
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..30_000));
    // Nearly all rows agree in the first digits, so the device does not divide them.
    let wide = (0..30_000).map(|row| match row {
        10 => i64::MIN,
        11 => i64::MAX,
        _ => 0,
    });
    let wide: ArrayRef = Arc::new(Int64Array::from_iter_values(wide));
    let payload = ('a'..='h').map(|name| (name.to_string(), Arc::clone(&ids)));
    let columns = [("k", keys), ("id", Arc::clone(&ids)), ("wide", wide)];
    let columns = columns.map(|(name, array)| (name.to_owned(), array));
    let columns: Vec<(String, ArrayRef)> = columns.into_iter().chain(payload.clone()).collect();
    let table = RecordBatch::try_from_iter(columns).expect("columns of one length");
    let sql = "SELECT id, a, b, c, d, e, f, g, h FROM t WHERE id >= 7 ORDER BY k DESC, wide";
    let mut sorted_by_cpu = 0;
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("t.parquet").display().to_string();
    let writer = Pair::new(&[]);
    writer.table("t", std::slice::from_ref(&table));
    let copy = format!("COPY t TO '{file}' OPTIONS ('format.max_row_group_size' '500')");
    answer(&writer.cpu, &copy).await;
    let from_file = sql.replace("FROM t", &format!("FROM '{file}'"));
    for limit in ["1 MiB", "1150 KiB", "1300 KiB", "1400 KiB", "2 MiB"] {
        for partitions in ["1", "4"] {
            let settings = [
                ("galatea.memory.gpu_limit", limit),
                ("galatea.tuning.chunk_rows", "500"),
                ("datafusion.execution.target_partitions", partitions),
            ];
            let pair = Pair::new(&settings);
            pair.table("t", std::slice::from_ref(&table));
            // The second run of a query uses the plan of the first.
            for sql in [sql, sql, &format!("{sql} LIMIT 200000"), &from_file, &from_file] {
                let context = format!("{limit}, {partitions} partitions, {sql}");
                let rows = answer(&pair.gpu, sql).await;
                let rows = concat_batches(&rows[0].schema(), &rows).expect("batches of one schema");
                let ids = rows
                    .column_by_name("id")
                    .expect("a column")
                    .as_primitive::<Int64Type>();
                let odd = ids.values().iter().take_while(|id| **id % 2 == 1).count();
                assert_eq!((ids.len(), odd), (29_993, 14_997), "{context}");
                assert!(ids.values()[odd..].iter().all(|id| id % 2 == 0), "{context}");
                let plan = text(&pair, &format!("EXPLAIN ANALYZE {sql}")).await;
                sorted_by_cpu += usize::from(plan.contains("the order alone"));
            }
        }
    }
    assert!(sorted_by_cpu > 1, "{sorted_by_cpu}");
}

/// The CPU sorts a few groups, even if the device is forced.
#[tokio::test]
async fn few_groups_are_sorted_by_the_cpu() {
    let pair = Pair::new(&[STRICT]);
    pair.table("t", &[batch(4000, 7, Shape::Ordinary)]);
    let plan = text(
        &pair,
        "EXPLAIN SELECT low, count(*) FROM t GROUP BY low ORDER BY low",
    )
    .await;
    assert!(plan.contains("SortExec") && !plan.contains("sorted by"), "{plan}");
}

/// Rows that are groups, of tables of every kind.
const GROUPS: &[&str] = &[
    "SELECT v, count(*) AS n, sum(price) AS s FROM f GROUP BY v ORDER BY s DESC NULLS LAST, v",
    "SELECT v, number, text, sum(m) AS s FROM f GROUP BY v, number, text ORDER BY s, text DESC, number, v",
    "SELECT text, v, max(day) AS d FROM f GROUP BY text, v ORDER BY text NULLS FIRST, d DESC, v",
    "SELECT v, avg(price) AS a FROM f GROUP BY v HAVING count(m) > 0 ORDER BY a DESC, v DESC",
    "SELECT v + 1 AS w, 2 * sum(m) AS s FROM f GROUP BY v ORDER BY s DESC NULLS LAST, w OFFSET 4",
    "SELECT v, n.name FROM (SELECT v, number, count(*) AS c FROM f GROUP BY v, number) g JOIN n ON g.number = n.k
     ORDER BY v DESC, n.name",
    "SELECT f.v, n.name, f.m FROM f JOIN n ON f.number = n.k ORDER BY n.name, f.v, f.m",
    "SELECT v FROM f UNION ALL SELECT number FROM f ORDER BY v",
    "SELECT v, row_number() OVER (ORDER BY v) AS r FROM (SELECT DISTINCT v FROM f) ORDER BY r",
];

#[tokio::test]
async fn sorted_groups_and_joined_rows_match_the_cpu() {
    let settings: &[&[(&str, &str)]] = &[
        &[("galatea.tuning.build_rows", "1")],
        &[
            ("galatea.aggregate.strategy", "hash"),
            ("galatea.tuning.build_rows", "1"),
        ],
        &[
            ("galatea.tuning.rows_per_thread", "1"),
            ("galatea.tuning.block_threads", "32"),
        ],
        &[
            ("galatea.tuning.row_output", "direct"),
            ("galatea.tuning.chunk_rows", "700"),
        ],
    ];
    for settings in settings {
        for (rows, seed) in [(31, 2), (1900, 3)] {
            let pair = Pair::new(settings);
            star(&pair, rows, seed);
            for sql in GROUPS {
                let context = format!("{settings:?}, {rows} rows, seed {seed}");
                check(&pair, sql, same_in_order, &context).await;
            }
        }
    }
}

/// If the device has too little memory to sort, the CPU sorts the device's rows, or runs the whole query.
#[tokio::test]
async fn sorts_match_the_cpu_in_little_memory() {
    for limit in ["300 KiB", "600 KiB", "2 MiB"] {
        let settings = [
            ("galatea.memory.gpu_limit", limit),
            ("galatea.tuning.chunk_rows", "500"),
            ("galatea.tuning.block_threads", "32"),
            ("galatea.tuning.build_rows", "1"),
        ];
        let pair = Pair::new(&settings);
        star(&pair, 5000, 12);
        for sql in GROUPS {
            check(&pair, sql, same_in_order, limit).await;
        }
        let pair = Pair::new(&settings);
        pair.table("t", &[batch(9000, 8, Shape::Ordinary)]);
        for sql in ROWS {
            check(&pair, sql, same_in_order, limit).await;
        }
    }
}

/// Columns of rows in seven chunks: `up` and `down` are sorted, `steps` has ties, `swapped` is sorted except
/// for two neighbours in a chunk, and `gaps` has a NULL.
fn ordered_rows(rows: i64) -> RecordBatch {
    let column = |value: &dyn Fn(i64) -> i64| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values((0..rows).map(value)))
    };
    let swapped = |row: i64| match row {
        500 => 501,
        501 => 500,
        row => row,
    };
    let gaps: ArrayRef = Arc::new(Int64Array::from_iter(
        (0..rows).map(|row| (row != 3).then_some(row)),
    ));
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values(
        (0..rows).map(|row| format!("text {:05}", row / 3)),
    ));
    RecordBatch::try_from_iter([
        ("up", column(&|row| row * row - 1_000_000)),
        ("down", column(&|row| 7 * (rows - row))),
        ("steps", column(&|row| row / 100)),
        ("swapped", column(&swapped)),
        ("gaps", gaps),
        ("texts", texts),
        ("mixed", column(&|row| row * 7919 % 1009)),
    ])
    .expect("columns of one length")
}

/// A table in the requested order is not sorted; one that only appears to be in that order is.
#[tokio::test]
async fn sort_is_skipped_if_the_table_is_sorted() {
    for (rows, chunk_rows) in [(2000, "300"), (1, "300"), (31, "8"), (300, "300"), (301, "300")] {
        let settings = [
            STRICT,
            ("galatea.tuning.chunk_rows", chunk_rows),
            ("galatea.tuning.block_threads", "64"),
        ];
        let pair = Pair::new(&settings);
        pair.table("t", &[ordered_rows(rows)]);
        for (keys, sorts) in [
            ("up", false),
            ("up DESC", true),
            ("down DESC", false),
            ("down DESC NULLS LAST, up", false),
            ("down", true),
            ("steps, up", false),
            ("steps, down DESC", false),
            ("steps, down", true),
            ("swapped", true),
            ("swapped DESC", true),
            ("texts, up", false),
            ("texts DESC, up", true),
            ("up, mixed", false),
            ("mixed, up", true),
            ("gaps NULLS LAST", true),
            ("up + 1", true),
        ] {
            let sql = format!("SELECT up, steps, gaps, texts, mixed FROM t ORDER BY {keys}");
            check(&pair, &sql, same_in_order, &format!("{rows} rows")).await;
            let limited = format!("{sql} LIMIT 200000");
            check(&pair, &limited, same_in_order, &format!("{rows} rows")).await;
            let filtered = format!("SELECT up, mixed FROM t WHERE mixed > 100 ORDER BY {keys}");
            check(&pair, &filtered, same_in_order, &format!("{rows} rows")).await;
            let plan = text(&pair, &format!("EXPLAIN ANALYZE {sql}")).await;
            let as_it_is = plan.contains("sort=skipped (input sorted)");
            if rows >= 2000 {
                assert_eq!(as_it_is, !sorts, "{keys}\n{plan}");
                assert_eq!(plan.contains("sort passes="), sorts, "{keys}\n{plan}");
            }
            let plan = text(&pair, &format!("EXPLAIN ANALYZE {filtered}")).await;
            assert!(!plan.contains("sort=skipped (input sorted)"), "{keys}\n{plan}");
        }
    }
}
