//! Strings without a dictionary that are returned in another order than they are stored in. If their number
//! is large, the device gathers them.

use crate::compare::{Pair, answer, same, same_in_order};
use crate::joins::STRICT;
use datafusion::arrow::array::{ArrayRef, AsArray, BinaryArray, Int64Array, RecordBatch, StringArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Int64Type};
use std::sync::Arc;

/// Strings of every type. All differ, so they get no dictionary.
fn table(rows: usize) -> RecordBatch {
    let number = |row: usize| (row as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
    let some = |row: usize| match row % 9 {
        0 => None,
        1 => Some(String::new()),
        2 => Some("ü".repeat(number(row) as usize % 900)),
        _ => Some(format!("{}/{}", number(row), "x".repeat(row % 70))),
    };
    let all = |row: usize| format!("https://example.org/{:08}", number(row));
    let texts: ArrayRef = Arc::new((0..rows).map(some).collect::<StringArray>());
    let full: ArrayRef = Arc::new(StringArray::from_iter_values((0..rows).map(all)));
    let bytes = (0..rows).map(|row| (row % 5 > 0).then(|| number(row).to_le_bytes().repeat(row % 4)));
    let column =
        |value: &dyn Fn(usize) -> i64| -> ArrayRef { Arc::new((0..rows).map(value).collect::<Int64Array>()) };
    RecordBatch::try_from_iter([
        ("v", column(&|row| row as i64)),
        ("other", column(&|row| (row * 7919 % rows.max(1)) as i64)),
        ("random", column(&|row| number(row) as i64)),
        ("text", texts.clone()),
        ("large", cast(&texts, &DataType::LargeUtf8).expect("strings")),
        ("view", cast(&texts, &DataType::Utf8View).expect("strings")),
        ("full", full),
        ("bytes", Arc::new(bytes.collect::<BinaryArray>()) as ArrayRef),
    ])
    .expect("columns of one length")
}

const QUERIES: &[(&str, bool)] = &[
    (
        "SELECT text, large, view, full, bytes FROM t ORDER BY random, v",
        true,
    ),
    (
        "SELECT full, v FROM t WHERE v % 3 > 0 ORDER BY random DESC, v",
        true,
    ),
    ("SELECT text, text || '!' AS more FROM t ORDER BY random, v", true),
    ("SELECT full FROM t ORDER BY full DESC", true),
    (
        "SELECT a.v, b.text, b.full FROM t a JOIN t b ON a.other = b.v",
        false,
    ),
    (
        "SELECT a.v, b.text, b.bytes FROM t a LEFT JOIN t b ON a.random = b.random AND b.v % 2 = 0",
        false,
    ),
    (
        "SELECT b.view, b.full, a.text FROM t a LEFT JOIN t b ON a.other = b.v AND b.v > 50 ORDER BY a.random, a.v",
        true,
    ),
    (
        "SELECT a.v, b.full FROM t a LEFT JOIN t b ON a.other = b.v AND b.v < 0 ORDER BY a.random, a.v",
        true,
    ),
    (
        "SELECT view, large, rank() OVER (ORDER BY random, v) AS r FROM t",
        false,
    ),
    (
        "SELECT full, lag(text) OVER (ORDER BY random, v) AS l FROM t",
        false,
    ),
    ("SELECT view, full FROM t ORDER BY random, v LIMIT 1500", true),
];

async fn all_of_them(pair: &Pair, context: &str) {
    for (sql, in_order) in QUERIES {
        let compared = match in_order {
            true => pair.compare(sql, same_in_order).await,
            false => pair.compare(sql, same).await,
        };
        if let Err(difference) = compared {
            panic!("{context}\n{sql}\n{difference}");
        }
    }
}

#[tokio::test]
async fn strings_are_gathered_in_result_order() {
    for rows in [0, 33, 1023, 1024, 1025, 6000] {
        let pair = Pair::new(&[
            STRICT,
            ("galatea.tuning.chunk_rows", "700"),
            ("galatea.tuning.build_rows", "1"),
        ]);
        pair.table("t", &[table(rows)]);
        all_of_them(&pair, &format!("{rows} rows")).await;
    }
}

/// If the column and the ordered strings do not both fit, the host gathers them.
#[tokio::test]
async fn strings_are_gathered_in_result_order_in_little_memory() {
    for limit in ["900 KiB", "2 MiB", "4 MiB"] {
        let settings = [
            ("galatea.memory.gpu_limit", limit),
            ("galatea.tuning.chunk_rows", "300"),
        ];
        let pair = Pair::new(&settings);
        pair.table("t", &[table(3000)]);
        all_of_them(&pair, limit).await;
    }
}

/// The number of bytes over the link shows whether row numbers or strings are transferred.
#[tokio::test]
async fn device_gathers_strings_if_profitable() {
    let pair = Pair::new(&[STRICT, ("galatea.tuning.chunk_rows", "700")]);
    pair.table("t", &[table(6000)]);
    let link = async |sql: &str| {
        pair.compare(sql, same_in_order).await.expect("the same");
        pair.compare(sql, same_in_order).await.expect("the same");
        galatea::last_query_report(&pair.gpu)
            .expect("a report")
            .link_bytes
    };
    let bytes = answer(&pair.cpu, "SELECT sum(octet_length(full)) AS n FROM t").await;
    let bytes = bytes[0].column(0).as_primitive::<Int64Type>().value(0);
    let all = link("SELECT full FROM t ORDER BY random, v").await;
    assert!(all > bytes as u64, "{all} of {bytes} bytes");
    let few = link("SELECT full FROM t WHERE v < 900 ORDER BY random, v").await;
    assert!(few < 900 * 16, "{few} bytes for 900 rows");
}
