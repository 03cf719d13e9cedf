//! Functions of long strings without a dictionary: all of them run on the device.

use crate::compare::{Pair, same_in_order};
use crate::joins::STRICT;
use datafusion::arrow::array::{ArrayRef, Int32Array, RecordBatch, StringArray, StringViewArray};
use datafusion::arrow::util::pretty::pretty_format_batches;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use std::sync::Arc;

const PIECES: [&str; 12] = [
    "http://",
    "example",
    ".com",
    "/",
    "?q=",
    "Ünï",
    "日本",
    "42",
    "A",
    "b",
    " ",
    "İSTANBUL",
];

/// Addresses, nearly all distinct; a tenth NULL.
fn table(rows: usize, seed: u64) -> RecordBatch {
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut texts = || -> Vec<Option<String>> {
        let mut text = || {
            let length = rng.random_range(0..20);
            let pieces = (0..length).map(|_| *PIECES.choose(&mut rng).expect("not empty"));
            let text: String = pieces.collect();
            (rng.random_range(0..10) > 0).then_some(text)
        };
        (0..rows).map(|_| text()).collect()
    };
    let (url, referer) = (texts(), texts());
    let number = Int32Array::from_iter_values((0..rows).map(|row| row as i32 % 9 - 3));
    let columns: Vec<(&str, ArrayRef, bool)> = vec![
        ("url", Arc::new(StringArray::from(url)), true),
        ("referer", Arc::new(StringViewArray::from_iter(referer)), true),
        ("n", Arc::new(number), false),
    ];
    RecordBatch::try_from_iter_with_nullable(columns).expect("one length")
}

const QUERIES: &[&str] = &[
    "SELECT count(*), sum(n) FROM t WHERE url ILIKE '%EXAMPLE.com%'",
    "SELECT count(*) FROM t WHERE referer NOT ILIKE '%ünï%' AND url ILIKE 'http://%'",
    "SELECT count(*) FROM t WHERE url ~ '^http://(example)+\\.com' OR referer ~ '[0-9]{2}$'",
    "SELECT n, count(*) FROM t WHERE url !~ 'b.*A' GROUP BY n",
    "SELECT n, sum(regexp_count(url, '42|日')), max(regexp_count(referer, '[a-z]+')) FROM t GROUP BY n",
    "SELECT count(*) FROM t WHERE url ~* 'istanbul' AND regexp_like(referer, 'EXAMPLE', 'i')",
    "SELECT count(*), sum(length(split_part(url, '/', 3))) FROM t WHERE split_part(url, '/', -1) <> ''",
    "SELECT n, sum(length(right(url, n + 5))), sum(length(left(referer, n))) FROM t GROUP BY n",
    "SELECT url, referer FROM t WHERE right(url, 4) = '.com' OR substr(referer, 4) LIKE '%42'",
    "SELECT max(bit_length(url)), count(CASE WHEN url ~ 'q=' THEN referer ELSE url END) FROM t",
    "SELECT url FROM t WHERE url SIMILAR TO 'http://%(com|/)'",
];

/// Strings computed from several columns, or from numbers, in queries that return no string.
const MADE: &[&str] = &[
    "SELECT count(*), sum(n) FROM t WHERE url || referer LIKE '%.com%.com%'",
    "SELECT count(*) FROM t WHERE upper(url || referer) LIKE '%EXAMPLE%' AND n <> 7",
    "SELECT n, sum(length(concat(url, '-', n, '-', referer))) FROM t GROUP BY n",
    "SELECT n, count(url || referer), max(octet_length(upper(concat(url, referer)))) FROM t GROUP BY n",
    "SELECT count(*) FROM t WHERE concat_ws('/', url, referer, n) IN ('0', 'A/1', '/2', '42/42/0', 'http://')",
    "SELECT n FROM t WHERE url || n = n || referer OR CAST(n AS VARCHAR) = '-2'",
    "SELECT url, n FROM t WHERE lower(url) <> url AND CAST(n AS VARCHAR) LIKE '-%'",
    "SELECT count(*) FROM t WHERE repeat(concat(url, n), 3) ~ '(42|A)-?[0-9]h'",
    "SELECT sum(CASE WHEN upper(referer) > lower(url) THEN length(referer || url) ELSE n END) FROM t",
];

/// Group keys computed from several columns, or from numbers.
const GROUPS: &[&str] = &[
    "SELECT url || referer, count(*), sum(n) FROM t GROUP BY 1",
    "SELECT concat(url, '/', n) AS u, n, count(*) FROM t GROUP BY u, n",
    "SELECT DISTINCT CAST(n AS VARCHAR) || left(url, n) FROM t",
    "SELECT left(url, n), right(referer, n), max(n) FROM t WHERE n < 4 GROUP BY 1, 2",
    "SELECT count(DISTINCT url || referer) FROM t",
    "SELECT n, count(DISTINCT concat(referer, n)) FROM t GROUP BY n",
    "SELECT length(k), count(*), sum(c) FROM (SELECT concat(url, n) AS k, count(*) AS c FROM t GROUP BY 1) GROUP BY 1",
    "SELECT upper(k), sum(c) FROM (SELECT concat(url, n) AS k, count(*) AS c FROM t GROUP BY 1) GROUP BY 1",
    "SELECT upper(left(url, 6)) || n, CASE WHEN n > 0 THEN referer || n ELSE 'none' END, count(*) FROM t GROUP BY 1, 2",
];

/// Join keys computed from several columns, or from numbers; `d` is a table of the same columns.
const JOINS: &[&str] = &[
    "SELECT count(*), sum(t.n), sum(d.n) FROM t JOIN d ON concat(t.url, t.n) = concat(d.url, d.n)",
    "SELECT t.n, count(*) FROM t JOIN d ON t.url || CAST(t.n AS VARCHAR) = d.url GROUP BY t.n",
    "SELECT t.n, d.n FROM t JOIN d ON t.url = d.referer || '' AND t.n = d.n",
    "SELECT t.n, count(d.n), sum(d.n) FROM t LEFT JOIN d ON upper(t.url || t.referer) = upper(d.url || d.referer) GROUP BY t.n",
    "SELECT count(*), sum(n) FROM t WHERE concat(url, n) IN (SELECT concat(d.url, d.n) FROM d WHERE d.n > 0)",
    "SELECT count(*), sum(n) FROM t WHERE NOT EXISTS (SELECT 1 FROM d WHERE d.url || d.n = t.url || t.n)",
    "SELECT count(*) FROM t JOIN d ON left(t.url, t.n) = left(d.referer, d.n) AND t.url || 'x' = d.url || 'x'",
];

#[tokio::test]
async fn computed_strings_are_join_keys() {
    let on_device = ("galatea.tuning.build_rows", "1");
    let hostile: [&[(&str, &str)]; 5] = [
        // The CPU collects small build sides, and computes their keys.
        &[],
        &[STRICT, on_device],
        &[
            STRICT,
            on_device,
            ("galatea.tuning.hash_slots", "2"),
            ("galatea.tuning.rows_per_thread", "1"),
        ],
        &[STRICT, on_device, ("galatea.debug.collide_hashes", "true")],
        &[STRICT, on_device, ("galatea.memory.gpu_limit", "4M")],
    ];
    let runs = [
        (0, 1),
        (0, 33),
        (0, 1500),
        (1, 32),
        (1, 1500),
        (2, 700),
        (3, 300),
        (4, 1000),
    ];
    for (seed, (settings, rows)) in (20..).zip(runs) {
        let settings: Vec<_> = hostile[settings]
            .iter()
            .chain([&("galatea.tuning.chunk_rows", "512")])
            .copied()
            .collect();
        let pair = Pair::new(&settings);
        pair.table("t", &[table(rows, seed)]);
        pair.table("d", &[table(rows.div_ceil(2), seed)]);
        for sql in JOINS {
            let context = format!("{rows} rows of seed {seed}, {settings:?}");
            pair.check(sql, rows > 1, &context).await;
        }
    }
}

#[tokio::test]
async fn computed_strings_are_group_keys() {
    let hostile: [&[(&str, &str)]; 4] = [
        &[],
        &[
            ("galatea.tuning.hash_slots", "2"),
            ("galatea.tuning.rows_per_thread", "1"),
        ],
        &[("galatea.debug.collide_hashes", "true")],
        &[
            ("galatea.memory.gpu_limit", "4M"),
            ("galatea.tuning.chunk_rows", "64"),
        ],
    ];
    for (settings, rows, seed) in [
        (0, 33, 7),
        (0, 3000, 8),
        (1, 1500, 9),
        (2, 400, 10),
        (3, 1000, 11),
    ] {
        let settings: Vec<_> = [STRICT, ("galatea.tuning.chunk_rows", "512")]
            .iter()
            .chain(hostile[settings])
            .copied()
            .collect();
        let pair = Pair::new(&settings);
        pair.table("t", &[table(rows, seed)]);
        for sql in GROUPS {
            pair.check(sql, true, &format!("{rows} rows of seed {seed}, {settings:?}"))
                .await;
            let report = galatea::last_query_report(&pair.gpu).expect("a query ran");
            assert!(report.reasons.is_empty(), "{sql}: {report:?}");
        }
    }
}

/// Functions of long strings that are returned.
const OUTPUTS: &[&str] = &[
    "SELECT upper(url), n FROM t WHERE n > 2",
    "SELECT substr(url, 3, 9), right(referer, 4), md5(url), length(url), n FROM t WHERE url LIKE '%.com%'",
    "SELECT coalesce(referer, 'none'), replace(url, 'example', 'x'), referer FROM t WHERE n = -2",
    "SELECT regexp_replace(url, '[a-z]+', '-') AS u, n FROM t ORDER BY n, length(url)",
    "SELECT upper(url) AS u, n FROM t WHERE n > 2 ORDER BY u, n",
    "SELECT reverse(url) AS u FROM t WHERE upper(url) LIKE 'HTTP%' AND n < 3",
    "SELECT TRY_CAST(split_part(url, '42', 2) AS INT), CAST(regexp_replace(url, '.*', '7') AS INT) FROM t WHERE url LIKE '%42%'",
];

#[tokio::test]
async fn functions_of_returned_strings_need_no_dictionary() {
    for (rows, seed) in [(1, 30), (32, 31), (33, 32), (3000, 33)] {
        for output in ["direct", "heap"] {
            let settings = [
                STRICT,
                ("galatea.tuning.chunk_rows", "512"),
                ("galatea.tuning.row_output", output),
            ];
            let pair = Pair::new(&settings);
            pair.table("t", &[table(rows, seed)]);
            for sql in OUTPUTS {
                pair.check(sql, rows > 1, &format!("{rows} rows of seed {seed}, {output}"))
                    .await;
            }
        }
    }
}

/// Returned strings computed from several columns, or from numbers; `d` is a table of the same columns.
const RETURNED: &[&str] = &[
    "SELECT url || '-' || referer FROM t WHERE n > 0",
    "SELECT CAST(n AS VARCHAR), concat(url, n), url, n, upper(url) FROM t WHERE n <> 2",
    "SELECT concat_ws('/', referer, n, url) AS u, upper(url || n), to_hex(n) FROM t WHERE url LIKE '%.com%' AND n < 4",
    "SELECT lower(url || referer), lpad(referer, n + 9, url), repeat(url, n), replace(url, left(referer, 3), 'x') FROM t WHERE n < 5",
    "SELECT coalesce(url, referer), CASE WHEN n > 1 THEN url ELSE referer END, CASE WHEN url > referer THEN 'a' ELSE 'b' END FROM t WHERE n < 4",
    "SELECT x, length(x), upper(x), x || n FROM (SELECT url || referer AS x, n FROM t) WHERE x LIKE '%42%'",
    "SELECT coalesce(x, 'none'), CASE WHEN n > 1 THEN x ELSE 'few' END FROM (SELECT coalesce(referer, url) AS x, n FROM t WHERE n < 5)",
    "SELECT max(n), x FROM (SELECT n, concat(url, n) AS x FROM t WHERE n > 1) GROUP BY x",
    "SELECT t.n + d.n, concat(t.url, '>', d.url, t.n * d.n) FROM t JOIN d ON t.url = d.url AND t.n = d.n WHERE t.n < 5",
    "SELECT t.n, d.referer || t.n, coalesce(d.url, t.url) FROM t LEFT JOIN d ON t.url = d.url WHERE t.n > 1",
    "SELECT k.url || t.n, k.c FROM t JOIN (SELECT url, count(*) AS c FROM d GROUP BY url) k ON t.url = k.url",
    "SELECT url || row_number() OVER (PARTITION BY n ORDER BY url, referer) FROM t",
];

/// The same with ORDER BY.
const RETURNED_IN_ORDER: &[&str] = &[
    "SELECT url || n AS u, n, length(url) AS l FROM t WHERE n > -2 ORDER BY n, l, u",
    "SELECT concat(n, '-', url) AS u FROM t WHERE n > 0 ORDER BY u LIMIT 7",
    "SELECT n, url || referer AS u FROM t WHERE n < 3 ORDER BY n DESC, u NULLS FIRST LIMIT 9",
];

#[tokio::test]
async fn strings_of_several_columns_are_returned() {
    let hostile: [&[(&str, &str)]; 4] = [
        &[],
        &[
            ("galatea.tuning.row_output", "heap"),
            ("galatea.tuning.build_rows", "1"),
        ],
        &[
            ("galatea.tuning.row_output", "counted"),
            ("galatea.tuning.rows_per_thread", "1"),
        ],
        &[
            ("galatea.memory.gpu_limit", "4M"),
            ("galatea.tuning.build_rows", "0"),
        ],
    ];
    let runs = [(0, 0), (1, 1), (31, 2), (32, 3), (33, 0), (1200, 1), (3000, 0)];
    for (seed, (rows, settings)) in (40..).zip(runs) {
        let settings: Vec<_> = [STRICT, ("galatea.tuning.chunk_rows", "512")]
            .iter()
            .chain(hostile[settings])
            .copied()
            .collect();
        let pair = Pair::new(&settings);
        pair.table("t", &[table(rows, seed)]);
        pair.table("d", &[table(rows.div_ceil(2), seed)]);
        let context = format!("{rows} rows of seed {seed}, {settings:?}");
        for sql in RETURNED {
            pair.check(sql, rows > 1, &context).await;
        }
        for sql in RETURNED_IN_ORDER {
            if let Err(difference) = pair.compare(sql, same_in_order).await {
                panic!("{context}\n{sql}\n{difference}");
            }
        }
    }
}

/// EXPLAIN names the expressions that the host computes. Their errors are the CPU's.
#[tokio::test]
async fn explain_names_expressions_computed_on_the_host() {
    let pair = Pair::new(&[]);
    pair.table("t", &[table(100, 5)]);
    let explained = pair
        .gpu
        .sql("EXPLAIN SELECT url || n, n FROM t WHERE n > 0")
        .await;
    let explained = explained.expect("a plan").collect().await.expect("its text");
    let text = pretty_format_batches(&explained).expect("printable").to_string();
    let named = "computed on the CPU=[concat(url, CAST(n AS Utf8))]";
    assert!(text.contains(named), "{text}");
    let sql = "SELECT repeat(url || 'x', n * 1000000000) FROM t WHERE n > 2";
    pair.check(sql, false, "a text that is too long").await;
}

#[tokio::test]
async fn long_strings_are_searched_on_the_device() {
    for (rows, seed) in [(1, 1), (31, 4), (32, 5), (33, 6), (700, 2), (3000, 3)] {
        let pair = Pair::new(&[STRICT, ("galatea.tuning.chunk_rows", "512")]);
        pair.table("t", &[table(rows, seed)]);
        for sql in QUERIES.iter().chain(MADE) {
            pair.check(sql, true, &format!("{rows} rows")).await;
        }
    }
}

/// Substring search by a warp in the bytes of its rows: at the ends of strings, across them, several times in
/// one, and in strings longer than the bytes that a warp loads at once.
#[tokio::test]
async fn substring_search_handles_string_ends_and_load_windows() {
    let patterns = [
        "%goog%",
        "%google%",
        "google%",
        "%google",
        "%oo%",
        "%goo_le%le%",
        "%日本日本%",
        "%google.com/search?q=42%",
        r"%50\%\_%",
        "%",
    ];
    let conditions = patterns.iter().flat_map(|like| {
        [
            format!("url LIKE '{like}'"),
            format!("url NOT LIKE '{like}'"),
            format!("(url LIKE '%/goo%' OR url LIKE '{like}' OR n > 4) AND referer LIKE '%google%'"),
            format!("n > 0 AND url LIKE '{like}'"),
        ]
    });
    let conditions: Vec<String> = conditions.collect();
    for (rows, seed) in [(0, 0), (1, 1), (31, 2), (33, 3), (512, 4), (515, 5), (4000, 6)] {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut texts = || -> Vec<Option<String>> {
            let pieces = [
                "goo",
                "gle",
                "google",
                "/",
                "o",
                "日本",
                ".com/search?q=42",
                "50%_",
                "",
            ];
            let mut text = || {
                let length = if rng.random_range(0..50) == 0 {
                    900
                } else {
                    rng.random_range(0..6)
                };
                let pieces = (0..length).map(|_| *pieces.choose(&mut rng).expect("not empty"));
                let text: String = pieces.collect();
                (rng.random_range(0..10) > 0).then_some(text)
            };
            (0..rows).map(|_| text()).collect()
        };
        let columns: Vec<(&str, ArrayRef, bool)> = vec![
            ("url", Arc::new(StringArray::from(texts())), true),
            ("referer", Arc::new(StringViewArray::from_iter(texts())), true),
            (
                "n",
                Arc::new(Int32Array::from_iter_values((0..rows).map(|row| row % 9 - 3))),
                false,
            ),
        ];
        let table = RecordBatch::try_from_iter_with_nullable(columns).expect("one length");
        for chunk_rows in ["512", "100"] {
            let pair = Pair::new(&[STRICT, ("galatea.tuning.chunk_rows", chunk_rows)]);
            pair.table("t", std::slice::from_ref(&table));
            for condition in &conditions {
                let sql = format!("SELECT count(*), sum(n) FROM t WHERE {condition}");
                pair.check(
                    &sql,
                    true,
                    &format!("{rows} rows of seed {seed}, chunks of {chunk_rows}"),
                )
                .await;
            }
        }
    }
}

/// Patterns without an automaton run on the CPU, with a reason.
#[tokio::test]
async fn patterns_without_an_automaton_run_on_the_cpu() {
    let pair = Pair::new(&[]);
    pair.table("t", &[table(300, 4)]);
    pair.check(
        r"SELECT count(*) FROM t WHERE url || referer ~ '\bA'",
        false,
        "a boundary",
    )
    .await;
    let report = galatea::last_query_report(&pair.gpu).expect("a query ran");
    assert!(
        report
            .reasons
            .iter()
            .any(|reason| reason.contains("no automaton") || reason.contains("||")),
        "{report:?}"
    );
}
