//! `ORDER BY ... LIMIT`: the device returns candidates for the first rows. Every query orders by all columns
//! that it returns, so that it has one right answer.

use crate::compare::Pair;
use crate::data::{Shape, batch};
use crate::joins::{STRICT, facts, star, text};
use datafusion::arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use std::sync::Arc;

/// Rows of tables, by keys of every kind.
const ROWS: &[&str] = &[
    "SELECT i8, i64 FROM t ORDER BY i8, i64 LIMIT 10",
    "SELECT i64 FROM t ORDER BY i64 DESC LIMIT 100",
    "SELECT i64 FROM t ORDER BY i64 DESC NULLS LAST LIMIT 1",
    "SELECT u64, i16 FROM t ORDER BY u64 NULLS FIRST, i16 DESC LIMIT 700",
    "SELECT u64 FROM t WHERE i16 > 0 ORDER BY u64 DESC NULLS LAST LIMIT 3",
    "SELECT d38, d9 FROM t ORDER BY d38 DESC NULLS LAST, d9 LIMIT 20",
    "SELECT d18 * d9 AS p FROM t ORDER BY p LIMIT 20",
    "SELECT f64, f32 FROM t ORDER BY f64 DESC, f32 NULLS FIRST LIMIT 20",
    "SELECT f32, i64 FROM t ORDER BY f32 NULLS FIRST, i64 LIMIT 5",
    "SELECT f64 / 0 AS x FROM t ORDER BY x NULLS FIRST LIMIT 300",
    "SELECT day, ts FROM t ORDER BY day, ts DESC LIMIT 50 OFFSET 7",
    "SELECT flag, day, i64, f64, d18 FROM t ORDER BY flag DESC, day, i64, f64, d18 LIMIT 9",
    "SELECT k, low, high, i64, ts FROM t ORDER BY k, low DESC, high, i64, ts LIMIT 40",
    "SELECT i64 + 1 AS next, i64 FROM t WHERE low = 'AIR' ORDER BY next DESC NULLS LAST LIMIT 4",
    // All rows are equal.
    "SELECT 1 AS one, i8 IS NULL AND false AS no FROM t ORDER BY one, no LIMIT 12",
    // Strings by their first bytes.
    "SELECT high, i64 FROM t WHERE i8 > 0 ORDER BY high, i64 LIMIT 6",
    "SELECT high, low, view FROM t ORDER BY high DESC NULLS LAST, view, low DESC LIMIT 40",
    "SELECT k, view, high FROM t ORDER BY k, view DESC, high LIMIT 12",
    "SELECT upper(high) AS u, i64 FROM t ORDER BY u, i64 LIMIT 6",
];

/// Strings without a dictionary. Many share a prefix: as long as the compared first bytes, longer, shorter,
/// empty, ending in zeros, with non-ASCII letters, and NULL.
fn texts(rows: u64) -> RecordBatch {
    let texts = (0..rows).map(|row| {
        let number = row.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        Some(match row % 11 {
            0 => return None,
            1 => String::new(),
            2 => format!("{number:08}"),
            3 => format!("{number:07}"),
            4 => format!("{number:09}"),
            5 => format!("{number:06}\0"),
            6 => format!("{number:06}\0\0"),
            7 => format!("ünïcødé{number}"),
            8 => format!("\u{10ffff}{number}"),
            _ => format!("aaaaaaaa{number}"),
        })
    });
    let texts: StringArray = texts.collect();
    let rows: Int64Array = (0..rows as i64).collect();
    RecordBatch::try_from_iter([
        ("text", Arc::new(texts) as ArrayRef),
        ("v", Arc::new(rows) as ArrayRef),
    ])
    .expect("columns of one length")
}

#[tokio::test]
async fn top_k_by_strings_without_dictionary_runs_on_device() {
    let pair = Pair::new(&[STRICT, ("galatea.tuning.chunk_rows", "3000")]);
    pair.table("t", &[texts(9000)]);
    for order in [
        "text, v",
        "text DESC, v",
        "text NULLS FIRST, v DESC",
        "text DESC NULLS LAST, v",
    ] {
        for (filter, limit) in [
            ("true", "3"),
            ("true", "100 OFFSET 700"),
            ("text <> ''", "10"),
            ("text LIKE 'a%'", "900"),
            ("text > '\u{10ffff}'", "5"),
            ("v % 11 = 0", "5"),
            ("false", "5"),
        ] {
            let sql = format!("SELECT text, v FROM t WHERE {filter} ORDER BY {order} LIMIT {limit}");
            pair.check(&sql, filter != "false", "by text").await;
        }
    }
}

/// If very many strings share a prefix, the CPU takes over.
#[tokio::test]
async fn top_k_of_strings_with_common_prefix_falls_back() {
    let pair = Pair::new(&[]);
    let texts: StringArray = (0..90_000)
        .map(|row| Some(format!("https://{}", row * 7919 % 90_001)))
        .collect();
    let texts = RecordBatch::try_from_iter([("text", Arc::new(texts) as ArrayRef)]).expect("one column");
    pair.table("t", &[texts]);
    let sql = "SELECT text FROM t ORDER BY text LIMIT 10";
    pair.check(sql, false, "alike").await;
    let report = galatea::last_query_report(&pair.gpu).expect("a report");
    assert!(
        report
            .reasons
            .iter()
            .any(|reason| reason.contains("rows with the same first bytes")),
        "{report:?}"
    );
    // The refusal is remembered.
    pair.check(sql, false, "alike, again").await;
}

/// Columns of a table of 99 chunks: in the order of the rows and in reverse, random, of few values, equal,
/// with NULLs, floats with NaN and infinities, strings; and one with its smallest values in one chunk in the
/// middle.
fn orders() -> RecordBatch {
    let rows = 9_900_i64;
    let random = |row: i64| ((row as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) as i64;
    let column = |value: &dyn Fn(i64) -> Option<i64>| -> ArrayRef {
        Arc::new((0..rows).map(value).collect::<Int64Array>())
    };
    let floats: Float64Array = (0..rows)
        .map(|row| match random(row) % 1000 {
            0 => f64::NAN,
            1 => f64::INFINITY,
            2 => -0.0,
            other => other as f64 - 500.0,
        })
        .collect();
    let texts: StringArray = (0..rows)
        .map(|row| Some(format!("{:09}", random(row) % 99_991)))
        .collect();
    RecordBatch::try_from_iter([
        ("v", column(&|row| Some(row))),
        ("up", column(&|row| Some(row / 3))),
        ("down", column(&|row| Some(-row / 2))),
        ("random", column(&|row| Some(random(row)))),
        ("few", column(&|row| Some(random(row) % 5))),
        ("same", column(&|_| Some(7))),
        ("nulls", column(&|row| (random(row) % 3 > 0).then_some(row))),
        (
            "hidden",
            column(&|row| Some(if row / 100 == 50 { row - 9000 } else { row % 1000 })),
        ),
        ("float", Arc::new(floats) as ArrayRef),
        ("text", Arc::new(texts) as ArrayRef),
    ])
    .expect("columns of one length")
}

#[tokio::test]
async fn top_k_over_many_chunks_matches_the_cpu() {
    let pair = Pair::new(&[STRICT, ("galatea.tuning.chunk_rows", "100")]);
    pair.table("t", &[orders()]);
    let keys = [
        "up",
        "down",
        "random",
        "few",
        "same",
        "nulls",
        "hidden",
        "float",
        "text",
        "abs(hidden - 400)",
    ];
    for key in keys {
        for order in ["", " DESC", " NULLS FIRST", " DESC NULLS LAST"] {
            for (filter, limit) in [
                ("true", "3"),
                ("random % 7 = 0", "5 OFFSET 2"),
                ("v >= 9800", "4"),
                ("nulls % 2 = 0 AND few > 1", "1"),
            ] {
                let sql = format!(
                    "SELECT {key} AS key, v FROM t WHERE {filter} ORDER BY {key}{order}, v LIMIT {limit}"
                );
                pair.check(&sql, true, "some of the chunks").await;
            }
        }
    }
}

#[tokio::test]
async fn top_k_over_many_chunks_takes_about_one_pass() {
    let pair = Pair::new(&[STRICT, ("galatea.tuning.chunk_rows", "100")]);
    pair.table("t", &[orders()]);
    let bytes = async |key: &str, limit: u64| {
        let sql = format!("SELECT v FROM t ORDER BY {key}, v LIMIT {limit}");
        pair.check(&sql, true, "bytes").await;
        galatea::last_query_report(&pair.gpu)
            .expect("a report")
            .device_bytes
    };
    // Too many rows to return them based on a sample.
    let all = bytes("random", 1000).await;
    let one = bytes("random", 3).await;
    assert!(5 * one < 2 * all, "{one} of {all} bytes");
    for key in ["up", "down", "down DESC", "up DESC"] {
        let first = bytes(key, 3).await;
        assert!(10 * first < one, "{key}: {first} of {one} bytes");
    }
}

#[tokio::test]
async fn top_k_rows_match_the_cpu() {
    let shapes = [Shape::Ordinary, Shape::AllNull, Shape::AllEqual, Shape::Skewed];
    for (rows, seed) in [(0, 1), (33, 2), (1500, 3)] {
        // Few rows are all returned, so their distribution does not matter.
        for shape in shapes.into_iter().take(if rows < 1000 { 1 } else { 4 }) {
            let pair = Pair::new(&[("galatea.tuning.chunk_rows", "600")]);
            pair.table("t", &[batch(rows, seed, shape)]);
            for sql in ROWS {
                let context = format!("{shape:?}, {rows} rows, seed {seed}");
                pair.check(sql, false, &context).await;
            }
        }
    }
}

/// Rows that are groups, of tables of every kind.
const GROUPS: &[&str] = &[
    "SELECT v, count(*) AS n, sum(price) AS s FROM f GROUP BY v ORDER BY s DESC NULLS LAST, v LIMIT 10",
    "SELECT v, number, text, sum(m) AS s FROM f GROUP BY v, number, text ORDER BY s, text DESC, number, v LIMIT 25",
    "SELECT text, v, max(day) AS d FROM f GROUP BY text, v ORDER BY text NULLS FIRST, d DESC, v LIMIT 30",
    "SELECT v, avg(price) AS a FROM f GROUP BY v HAVING count(m) > 0 ORDER BY a DESC, v DESC LIMIT 8",
    "SELECT v, avg(CAST(m AS DOUBLE)) AS a FROM f GROUP BY v ORDER BY a NULLS FIRST, v LIMIT 8",
    "SELECT v + 1 AS w, 2 * sum(m) AS s FROM f GROUP BY v ORDER BY s DESC NULLS LAST, w LIMIT 3 OFFSET 4",
    "SELECT v, n.name FROM (SELECT v, number, count(*) AS c FROM f GROUP BY v, number) g JOIN n ON g.number = n.k
     ORDER BY v DESC LIMIT 6",
    "SELECT v, (SELECT max(price) FROM f) - sum(price) AS below FROM f GROUP BY v ORDER BY below, v LIMIT 5",
    "SELECT number, count(*) AS n FROM f GROUP BY number ORDER BY n DESC, number LIMIT 2000",
];

#[tokio::test]
async fn top_k_groups_match_the_cpu() {
    let settings: &[&[(&str, &str)]] = &[
        &[],
        &[("galatea.aggregate.strategy", "hash")],
        &[
            ("galatea.aggregate.strategy", "hash"),
            ("galatea.debug.collide_hashes", "true"),
        ],
        &[
            ("galatea.tuning.rows_per_thread", "1"),
            ("galatea.tuning.block_threads", "32"),
        ],
        &[("galatea.tuning.row_output", "counted")],
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
                pair.check(sql, false, &format!("{settings:?}, {rows} rows, seed {seed}"))
                    .await;
            }
        }
    }
}

/// The number of rows that the GPU subtree of a plan has returned.
fn returned(plan: &str) -> f64 {
    let gpu = plan.split("GpuExec").nth(1).expect("a GPU subtree");
    let rows = gpu.split("output_rows=").nth(1).expect("a row count");
    let rows: String = rows.chars().take_while(|c| !",]} \n".contains(*c)).collect();
    match rows.strip_suffix('K') {
        Some(thousands) => thousands.trim().parse::<f64>().expect("a number") * 1e3,
        None => rows.trim().parse().expect("a number"),
    }
}

/// If very many rows are equal in the order, only the number of the LIMIT is returned.
#[tokio::test]
async fn top_k_limits_the_number_of_returned_ties() {
    let pair = Pair::new(&[
        STRICT,
        ("galatea.tuning.chunk_rows", "2000"),
        ("galatea.tuning.block_threads", "32"),
    ]);
    pair.table("t", &[batch(60_000, 9, Shape::Ordinary)]);
    for (rows, key) in [
        ("SELECT v % 2 AS key FROM t", "key DESC"),
        (
            "SELECT v, (CASE WHEN v < 3 THEN 1 ELSE 2 END) AS key FROM t",
            "key",
        ),
        ("SELECT v % 5 AS a, (v < 900) AS key FROM t", "key, a"),
        (
            "SELECT i64, u64, count(*) AS key FROM t GROUP BY i64, u64",
            "key DESC",
        ),
    ] {
        for limit in [1, 10, 3000] {
            let sql = format!("SELECT key FROM ({rows}) AS r ORDER BY {key} LIMIT {limit}");
            pair.check(&sql, true, "ties").await;
            let plan = text(&pair, &format!("EXPLAIN ANALYZE {sql}")).await;
            let most = if rows.contains("GROUP BY") {
                20_000.0
            } else {
                4000.0
            };
            assert!(returned(&plan) < most, "{plan}");
        }
    }
    // The order has more bits than a key, so the device cannot order the rows with equal keys.
    let long = "SELECT flag, i64, u64, v FROM t WHERE v < 40000 ORDER BY flag, v % 1, i64, u64, v LIMIT 20";
    pair.check(long, true, "a long order").await;
}

/// Few rows leave the device, after some passes over the keys.
#[tokio::test]
async fn top_k_returns_few_candidates() {
    let pair = Pair::new(&[STRICT]);
    pair.table("f", &[facts(20_000, 7)]);
    for sql in [
        "SELECT v, count(*) AS n, sum(price) AS s FROM f GROUP BY v ORDER BY v DESC LIMIT 10",
        "SELECT v, day FROM f ORDER BY v LIMIT 10",
    ] {
        let plan = text(&pair, &format!("EXPLAIN ANALYZE {sql}")).await;
        assert!(plan.contains("top k=first 10 by"), "{plan}");
        assert!(plan.contains("counting passes="), "{plan}");
        let returned = returned(&plan);
        assert!((10.0..=1100.0).contains(&returned), "{returned}\n{plan}");
    }
}

/// A pipeline that cannot select candidates falls back to DataFusion's operator.
#[tokio::test]
async fn top_k_matches_the_cpu_in_little_memory() {
    for limit in ["300 KiB", "2 MiB"] {
        let pair = Pair::new(&[
            ("galatea.memory.gpu_limit", limit),
            ("galatea.tuning.chunk_rows", "500"),
            ("galatea.tuning.block_threads", "32"),
        ]);
        star(&pair, 5000, 12);
        for sql in GROUPS {
            pair.check(sql, false, limit).await;
        }
    }
}
