//! MIN and MAX of values with ranks wider than a word: strings without a dictionary, decimals beyond 64 bits.

use crate::compare::Pair;
use crate::joins::STRICT;
use datafusion::arrow::array::{ArrayRef, Decimal128Array, Int64Array, RecordBatch, StringArray};
use std::sync::Arc;

/// Rows with a key `few`, a key `many`, a string without a dictionary, and a wide decimal. Strings are empty,
/// end in zeros, share long prefixes, are prefixes of others, contain non-ASCII letters, or are NULL. Those
/// of group 3 of `few` are all NULL.
pub(crate) fn table(rows: u64, seed: u64) -> RecordBatch {
    let number = |row: u64| (row + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    let few = |row: u64| (number(row) % 5) as i64;
    let texts = (0..rows).map(|row| {
        let number = number(row);
        Some(match row % 13 {
            _ if few(row) == 3 => return None,
            0 => return None,
            1 if row % 4 == 1 => String::new(),
            2 => format!("{number:08}"),
            3 => format!("{number:07}"),
            4 => format!("{:06}", number % 1000),
            5 => format!("{:06}\0", number % 1000),
            6 => format!("{:06}\0\0b", number % 1000),
            7 => format!("ünïcødé{number}"),
            8 => format!("\u{10ffff}{number}"),
            9 => format!("https://example.org/a/long/way/{number}"),
            10 => format!(
                "https://example.org/a/long/way/{number}/{}",
                "x".repeat(row as usize % 300)
            ),
            _ => format!("https://{number}"),
        })
    });
    let texts: StringArray = texts.collect();
    let wide = (0..rows).map(|row| {
        let sign = if number(row) % 2 == 0 { 1 } else { -1 };
        (row % 7 != 3).then(|| sign * (i128::from(number(row)) << (number(row) % 90)))
    });
    let wide: Decimal128Array = wide.collect();
    let wide = wide.with_precision_and_scale(38, 3).expect("a type of decimals");
    let column =
        |value: &dyn Fn(u64) -> i64| -> ArrayRef { Arc::new((0..rows).map(value).collect::<Int64Array>()) };
    RecordBatch::try_from_iter([
        ("few", column(&few)),
        ("many", column(&|row| (number(row) % (rows / 3 + 1)) as i64 * 3)),
        ("v", column(&|row| row as i64)),
        ("text", Arc::new(texts) as ArrayRef),
        ("wide", Arc::new(wide) as ArrayRef),
    ])
    .expect("columns of one length")
}

const QUERIES: &[&str] = &[
    "SELECT min(text), max(text), count(*) FROM t",
    "SELECT min(wide), max(wide), sum(v) FROM t",
    "SELECT min(text) FILTER (WHERE v % 3 = 0), max(text) FILTER (WHERE wide > 0), max(upper(text)) FROM t WHERE v > 5",
    "SELECT min(text), max(wide) FROM t WHERE v < 0",
    "SELECT few, min(text), max(text) FROM t GROUP BY few",
    "SELECT few, min(wide), max(wide), min(text), count(text), sum(v), avg(v) FROM t GROUP BY few",
    "SELECT few, min(text) AS a, max(text) AS b, min(text || 'x'), max(reverse(text)) FROM t WHERE text LIKE '%0%' GROUP BY few",
    "SELECT many, min(text), max(text) FROM t GROUP BY many",
    "SELECT many, few, max(wide), min(wide), count(*), max(text) FILTER (WHERE v % 2 = 0) FROM t GROUP BY many, few",
    "SELECT text, max(text), min(wide), count(*) FROM t GROUP BY text",
    // Groups that stay on the device.
    "SELECT few, min(text) AS a FROM t GROUP BY few HAVING max(text) > 'https' AND max(wide) > 5",
    "SELECT many, min(text) AS a, max(wide) AS w FROM t GROUP BY many ORDER BY w DESC NULLS LAST, a, many LIMIT 7",
    "SELECT many, max(text) AS b FROM t GROUP BY many ORDER BY b DESC NULLS LAST, many LIMIT 9",
    "SELECT count(*), min(a), max(b) FROM (SELECT many, min(text) AS a, max(wide) AS b FROM t GROUP BY many) WHERE a <> ''",
    "SELECT count(*), sum(t.v) FROM t JOIN (SELECT many, min(text) AS a, max(wide) AS w FROM t GROUP BY many) g ON t.many = g.many WHERE t.text = g.a OR t.wide = g.w",
    "SELECT t.v, g.a FROM t JOIN (SELECT few, min(text) AS a, min(wide) AS w FROM t GROUP BY few) g ON t.few = g.few WHERE t.text = g.a AND t.wide >= g.w",
    "SELECT count(*) FROM t WHERE text = (SELECT max(text) FROM t)",
    "SELECT count(*), max(v) FROM t WHERE text < (SELECT max(text) FROM t WHERE v % 2 = 0) AND text <> (SELECT min(text) FROM t WHERE text > 'h')",
    "SELECT count(*) FROM t WHERE text LIKE (SELECT max(text) FROM t WHERE v % 2 = 0) OR text IN ((SELECT max(text) FROM t), (SELECT min(text) FROM t WHERE v < 0))",
    "SELECT v, coalesce(text, (SELECT min(text) FROM t WHERE v > 7)) FROM t WHERE v % 9 = 0",
    "SELECT count(*) FROM t WHERE wide = (SELECT min(wide) FROM t)",
    "SELECT few, min(text), grouping(few) FROM t GROUP BY ROLLUP (few)",
];

#[tokio::test]
async fn strings_and_wide_decimals_at_every_size() {
    for rows in [0, 1, 31, 32, 33, 257, 5000] {
        let pair = Pair::new(if rows > 200 { &[STRICT][..] } else { &[] });
        pair.table("t", &[table(rows, rows)]);
        for sql in QUERIES {
            // Statistics answer some; a refusal is an error.
            pair.check(sql, false, &format!("{rows} rows")).await;
        }
    }
}

/// For all sinks: merged, copied, in a table that grows, and with little memory for strings.
#[tokio::test]
async fn strings_and_wide_decimals_under_every_setting() {
    for settings in [
        &[("galatea.aggregate.strategy", "registers")][..],
        &[("galatea.aggregate.strategy", "threads")],
        &[
            ("galatea.aggregate.strategy", "copies"),
            ("galatea.aggregate.preaggregation", "runs"),
        ],
        &[("galatea.aggregate.preaggregation", "warps")],
        &[
            ("galatea.aggregate.strategy", "dense"),
            ("galatea.aggregate.replicas", "4"),
        ],
        &[
            ("galatea.aggregate.strategy", "dense"),
            ("galatea.aggregate.preaggregation", "warps"),
            ("galatea.aggregate.replicas", "2"),
        ],
        &[("galatea.aggregate.strategy", "hash")],
        &[
            ("galatea.aggregate.strategy", "hash"),
            ("galatea.aggregate.preaggregation", "off"),
        ],
        &[
            ("galatea.aggregate.strategy", "hash"),
            ("galatea.tuning.hash_slots", "2"),
            ("galatea.tuning.block_threads", "32"),
            ("galatea.tuning.rows_per_thread", "1"),
        ],
        &[
            ("galatea.aggregate.strategy", "hash"),
            ("galatea.tuning.hash_slots", "2"),
            ("galatea.debug.collide_hashes", "true"),
        ],
        &[
            ("galatea.aggregate.strategy", "hash"),
            ("galatea.tuning.hash_slots", "2"),
            ("galatea.memory.gpu_limit", "8 MiB"),
            ("galatea.tuning.block_threads", "32"),
            ("galatea.tuning.chunk_rows", "400"),
        ],
        &[
            ("galatea.tuning.chunk_rows", "33"),
            ("galatea.cache.device", "false"),
        ],
        &[
            ("galatea.tuning.rows_per_thread", "1"),
            ("galatea.tuning.block_threads", "64"),
        ],
    ] {
        let pair = Pair::new(settings);
        pair.table("t", &[table(1500, 4)]);
        for sql in QUERIES {
            pair.check(sql, false, &format!("{settings:?}")).await;
        }
    }
}
