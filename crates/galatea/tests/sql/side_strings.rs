//! Late materialisation of long strings of build sides, without a dictionary. If they are only returned, the
//! build side stores their row numbers, and the host gathers the strings of the result.

use crate::builds::BUILT;
use crate::compare::{Pair, same_in_order};
use crate::joins::STRICT;
use crate::partitions::partitions;
use datafusion::arrow::array::{
    ArrayRef, BooleanArray, Int32Array, RecordBatch, StringArray, StringViewArray,
};
use datafusion::arrow::util::pretty::pretty_format_batches;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::sync::Arc;

fn numbers(rows: usize, number: impl FnMut(usize) -> Option<i32>) -> ArrayRef {
    Arc::new((0..rows).map(number).collect::<Int32Array>())
}

/// Orders `o` of customers `c`; some customers do not exist. Names and remarks differ from row to row.
fn orders(pair: &Pair, rows: usize, seed: u64) {
    let mut rng = SmallRng::seed_from_u64(seed);
    let customers = rows.div_ceil(3);
    let remarks: Vec<Option<String>> = (0..customers)
        .map(|row| {
            let length = rng.random_range(0..40);
            (rng.random_range(0..6) > 0).then(|| format!("{}ß{row}", "remark ".repeat(length % 9)))
        })
        .collect();
    let names = StringArray::from_iter_values((0..customers).map(|row| format!("customer number {row}")));
    let columns: [(&str, ArrayRef, bool); 5] = [
        ("id", numbers(customers, |row| Some(row as i32)), false),
        ("nation", numbers(customers, |row| Some(row as i32 % 7)), false),
        ("name", Arc::new(names), false),
        ("remark", Arc::new(StringViewArray::from_iter(remarks)), true),
        (
            "rank",
            numbers(customers, |row| (row % 4 > 0).then_some(row as i32 % 4)),
            true,
        ),
    ];
    let c = RecordBatch::try_from_iter_with_nullable(columns).expect("one length");
    let owners: Vec<Option<i32>> = (0..rows)
        .map(|_| (rng.random_range(0..9) > 0).then(|| rng.random_range(0..customers as i32 + 4)))
        .collect();
    let texts =
        StringArray::from_iter((0..rows).map(|row| (row % 5 > 0).then(|| format!("order text {row}"))));
    let columns: [(&str, ArrayRef, bool); 5] = [
        ("id", numbers(rows, |row| Some(row as i32)), false),
        ("customer", numbers(rows, |row| owners[row]), true),
        ("total", numbers(rows, |row| Some(row as i32 * 31 % 997)), false),
        (
            "flag",
            Arc::new(BooleanArray::from_iter((0..rows).map(|row| Some(row % 7 == 0)))),
            false,
        ),
        ("text", Arc::new(texts), true),
    ];
    let o = RecordBatch::try_from_iter_with_nullable(columns).expect("one length");
    let labels = StringArray::from_iter_values((0..7).map(|nation| format!("nation {nation}")));
    let n = RecordBatch::try_from_iter([
        ("id", numbers(7, |row| Some(row as i32))),
        ("label", Arc::new(labels) as ArrayRef),
    ]);
    pair.table("c", &[c]);
    pair.table("o", &[o]);
    pair.table("n", &[n.expect("one length")]);
}

/// Strings of the build side that are only returned.
const RETURNED: &[&str] = &[
    "SELECT o.id, c.remark FROM o JOIN c ON o.customer = c.id WHERE o.total > 300",
    "SELECT o.id, c.name, c.remark, o.text FROM o LEFT JOIN c ON o.customer = c.id WHERE o.total < 700",
    "SELECT c.name || '-' || o.id, upper(c.remark), length(o.text) FROM o JOIN c ON o.customer = c.id",
    "SELECT coalesce(c.remark, o.text), md5(c.name), c.name FROM o LEFT JOIN c ON o.customer = c.id AND c.rank > 1",
    "SELECT c.remark, o.id FROM o JOIN c ON o.customer = c.id WHERE c.remark LIKE '%remark%' AND c.name <> 'x'",
    "SELECT o.text, p.text, p.id FROM o JOIN o p ON o.customer = p.customer WHERE o.total > 900 AND p.total > 700",
    "SELECT upper(o.text), p.text || p.id FROM o LEFT JOIN o p ON o.customer = p.customer AND o.total < p.total WHERE o.total > 800",
    "SELECT o.text, c.remark, o.id FROM o FULL JOIN c ON o.customer = c.id AND c.name <> o.text",
    "SELECT text, row_number() OVER (PARTITION BY customer ORDER BY id) AS n, upper(text) FROM o WHERE total > 100",
    "SELECT text, lag(text) OVER (ORDER BY id), id FROM o",
    "SELECT a.remark, b.name, o.id FROM o JOIN c a ON o.customer = a.id JOIN c b ON o.total = b.id",
];

/// The same with ORDER BY.
const RETURNED_IN_ORDER: &[&str] = &[
    "SELECT c.remark, o.total, o.id FROM o JOIN c ON o.customer = c.id ORDER BY o.total, o.id",
    "SELECT c.remark, c.rank, o.id FROM o LEFT JOIN c ON o.customer = c.id ORDER BY c.rank DESC, o.id LIMIT 7",
    "SELECT c.name, o.id FROM o JOIN c ON o.customer = c.id ORDER BY c.name, o.id LIMIT 10",
];

/// Strings that are also inputs of expressions.
const READ: &[&str] = &[
    "SELECT c.name, sum(o.total) FROM o JOIN c ON o.customer = c.id GROUP BY c.name",
    "SELECT count(*), sum(o.total) FROM o JOIN c ON o.customer = c.id WHERE c.remark LIKE '%remark remark%' OR o.flag",
    "SELECT c.remark, o.id FROM o JOIN c ON o.customer = c.id WHERE c.remark LIKE '%remark remark%' OR o.flag",
    "SELECT o.flag, min(c.name), max(c.remark) FROM o JOIN c ON o.customer = c.id GROUP BY o.flag",
    "SELECT c.remark, n.label, o.id FROM o JOIN (SELECT c.id, c.remark, n.label FROM c JOIN n ON c.nation = n.id) c ON o.customer = c.id",
    "SELECT p.text, count(*) FROM o JOIN o p ON o.customer = p.customer WHERE o.total > 900 AND p.total > 700 GROUP BY p.text",
    "SELECT o.text, p.text FROM o JOIN o p ON o.customer = p.customer AND o.text < p.text WHERE o.total > 800 AND p.total > 700",
    "SELECT o.text, t.text FROM o JOIN (SELECT customer, text, rank() OVER (PARTITION BY customer ORDER BY id) AS r FROM o) t ON o.customer = t.customer WHERE t.r = 1 AND o.total > 800",
    "SELECT c.remark, count(*) FROM (SELECT c.remark FROM o LEFT JOIN c ON o.customer = c.id) c GROUP BY c.remark",
];

#[tokio::test]
async fn strings_of_build_sides_are_returned() {
    let hostile: [&[(&str, &str)]; 6] = [
        &[],
        &[BUILT],
        &[BUILT, ("galatea.tuning.row_output", "heap")],
        &[
            BUILT,
            ("galatea.tuning.row_output", "counted"),
            ("galatea.tuning.rows_per_thread", "1"),
        ],
        &[BUILT, ("galatea.join.partitions", "4")],
        &[BUILT, ("galatea.memory.gpu_limit", "4M")],
    ];
    let runs = [
        (1, 1),
        (31, 2),
        (32, 3),
        (33, 4),
        (900, 0),
        (900, 1),
        (900, 2),
        (2500, 4),
        (2500, 5),
    ];
    for (seed, (rows, settings)) in (60..).zip(runs) {
        let settings: Vec<_> = [STRICT, ("galatea.tuning.chunk_rows", "128")]
            .iter()
            .chain(hostile[settings])
            .copied()
            .collect();
        let pair = Pair::new(&settings);
        orders(&pair, rows, seed);
        let context = format!("{rows} rows of seed {seed}, {settings:?}");
        for sql in RETURNED.iter().chain(READ) {
            pair.check(sql, rows > 1, &context).await;
        }
        for sql in RETURNED_IN_ORDER {
            if let Err(difference) = pair.compare(sql, same_in_order).await {
                panic!("{context}\n{sql}\n{difference}");
            }
        }
    }
}

/// Only strings that are merely returned have no dictionary, and EXPLAIN shows that.
#[tokio::test]
async fn explain_shows_late_materialised_strings() {
    let pair = Pair::new(&[STRICT, BUILT]);
    orders(&pair, 500, 1);
    for (sql, late_materialised) in [
        (RETURNED[0], true),
        (RETURNED[2], true),
        (RETURNED[6], true),
        (RETURNED[8], true),
        (RETURNED[9], false),
        (READ[0], false),
        (READ[2], false),
    ] {
        let explained = pair.gpu.sql(&format!("EXPLAIN {sql}")).await;
        let explained = explained.expect("a plan").collect().await.expect("its text");
        let text = pretty_format_batches(&explained).expect("printable").to_string();
        assert_eq!(
            text.contains("late-materialised strings=["),
            late_materialised,
            "{text}"
        );
    }
}

/// Rows of an out-of-core join find the strings of their partition.
#[tokio::test]
async fn out_of_core_join_returns_strings_of_its_partition() {
    let pair = Pair::new(&[
        STRICT,
        BUILT,
        ("galatea.memory.gpu_limit", "512 KiB"),
        ("galatea.tuning.chunk_rows", "2048"),
    ]);
    orders(&pair, 60_000, 3);
    for sql in [
        "SELECT o.id, c.remark, c.name FROM o JOIN c ON o.customer = c.id WHERE o.total < 200",
        "SELECT o.text, p.text, p.id FROM o JOIN o p ON o.customer = p.customer WHERE o.id % 2 = 0 AND p.id % 2 = 1",
    ] {
        pair.check(sql, true, "little memory").await;
        let told = partitions(&pair, sql).await;
        assert!(told.iter().any(|told| told.contains(" of d0")), "{sql}\n{told:?}");
    }
}
