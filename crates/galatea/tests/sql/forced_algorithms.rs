//! Every join algorithm over sides without rows, without keys, with one key and with skewed keys: all kinds
//! of joins, by integers, strings and keys of several columns, return the CPU's answers. So they do if the
//! rows of partitions are spilled to files.

use crate::builds::BUILT;
use crate::compare::Pair;
use crate::joins::{STRICT, text};
use crate::parts::table;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::{filter_record_batch, is_null};
use std::collections::BTreeSet;

const ALGORITHMS: [&str; 4] = ["hash", "radix", "multipass", "triton"];

/// Joins of the sides `l` and `r` of a shape.
const KINDS: [&str; 6] = [
    "JOIN",
    "LEFT JOIN",
    "RIGHT JOIN",
    "FULL JOIN",
    "EXISTS",
    "NOT EXISTS",
];

/// Conditions: integers, strings, keys wider than 64 bits, and an integer with a condition beside it.
const CONDITIONS: [&str; 4] = [
    "l.k = r.k",
    "l.name = r.name",
    "l.k = r.k AND l.paid = r.paid AND l.name = r.name",
    "l.k = r.k AND l.v < r.v",
];

/// The keys of `rows` rows by a Zipf distribution: key `n` has a share proportional to `1 / n^exponent`.
/// Equal keys are far apart.
fn zipf(rows: i64, exponent: f64) -> impl Fn(i64) -> i64 {
    let shares: Vec<f64> = (1..=rows).map(|key| (key as f64).powf(-exponent)).collect();
    let all: f64 = shares.iter().sum();
    let mut keys = Vec::new();
    for (key, share) in (1..).zip(&shares) {
        let count = (share / all * rows as f64).ceil() as usize;
        keys.extend(std::iter::repeat_n(key, count));
    }
    // 7919 does not divide any number of rows used here.
    move |row| keys[(row * 7919 % rows) as usize]
}

/// Shapes of a join: a name, the rows of the probe side and of the build side.
fn shapes() -> Vec<(&'static str, RecordBatch, RecordBatch)> {
    let unique = |rows: i64| table(rows, true, |row| row);
    let without_keys = |rows: i64| {
        let batch = table(10 * rows, true, |row| row);
        let nulls = is_null(batch.column(0)).expect("flags");
        filter_record_batch(&batch, &nulls).expect("rows without a key")
    };
    vec![
        ("empty build side", unique(900), unique(0)),
        ("empty probe side", unique(0), unique(900)),
        ("no keys on the build side", unique(700), without_keys(30)),
        ("no keys on the probe side", without_keys(30), unique(700)),
        ("no matches", unique(800), table(900, true, |row| row + 10_000)),
        ("one key", table(70, false, |_| 5), table(90, false, |_| 5)),
        (
            "Zipf 1.05",
            table(3_000, true, zipf(3_000, 1.05)),
            table(2_000, true, zipf(2_000, 0.5)),
        ),
        (
            "Zipf 1.75",
            table(2_000, true, |row| row),
            table(3_000, true, zipf(3_000, 1.75)),
        ),
    ]
}

fn query(shape: usize, kind: &str, condition: &str) -> String {
    let (l, r) = (format!("l{shape} AS l"), format!("r{shape} AS r"));
    match kind {
        "EXISTS" | "NOT EXISTS" => format!(
            "SELECT count(*), sum(l.v), count(l.k), min(l.name) FROM {l} WHERE {kind} (SELECT 1 FROM {r} WHERE {condition})"
        ),
        _ => format!(
            "SELECT l.small, count(*), sum(l.v), sum(r.v), count(l.k), count(r.k), max(r.name) FROM {l} {kind} {r} ON {condition} GROUP BY l.small"
        ),
    }
}

/// The words of EXPLAIN ANALYZE for joins that ran by an algorithm beyond device memory.
fn shown(algorithm: &str) -> Option<&'static str> {
    match algorithm {
        "multipass" => Some("one after another"),
        "triton" => Some("sides partitioned once"),
        _ => None,
    }
}

/// Checks every kind of join of every shape; of the algorithms in device memory, every second one. With a
/// skewed or unique key, joins by each condition run by the algorithm.
async fn all_joins(algorithm: &str, memory: &'static str) {
    let pair = Pair::new(&[
        STRICT,
        BUILT,
        ("galatea.join.algorithm", algorithm),
        ("galatea.memory.gpu_limit", memory),
        ("galatea.tuning.chunk_rows", "512"),
        ("galatea.join.order", "written"),
    ]);
    let mut forced = BTreeSet::new();
    for (number, (name, probe, build)) in shapes().into_iter().enumerate() {
        let has_rows = probe.num_rows().min(build.num_rows()) > 500;
        pair.table(&format!("l{number}"), &[probe]);
        pair.table(&format!("r{number}"), &[build]);
        for (kind_number, kind) in KINDS.iter().enumerate() {
            let skipped = match algorithm {
                "hash" => 0,
                "radix" => 1,
                _ => 2,
            };
            if (number + kind_number) % 2 == skipped {
                continue;
            }
            let condition = CONDITIONS[(number + kind_number / 2) % CONDITIONS.len()];
            let sql = query(number, kind, condition);
            pair.check(&sql, false, &format!("{algorithm}, {name}, {memory}"))
                .await;
            let Some(shown) = shown(algorithm).filter(|_| has_rows) else {
                continue;
            };
            let plan = text(&pair, &format!("EXPLAIN ANALYZE {sql}")).await;
            if plan.contains(shown) {
                forced.insert(condition);
            }
        }
    }
    if shown(algorithm).is_some() {
        assert_eq!(forced, CONDITIONS.into(), "joins by {algorithm}");
    }
}

#[tokio::test]
async fn hash_joins_of_every_shape() {
    all_joins(ALGORITHMS[0], "64 MiB").await;
}

#[tokio::test]
async fn radix_joins_of_every_shape() {
    all_joins(ALGORITHMS[1], "64 MiB").await;
}

#[tokio::test]
async fn multipass_joins_of_every_shape() {
    all_joins(ALGORITHMS[2], "384 KiB").await;
}

#[tokio::test]
async fn triton_joins_of_every_shape() {
    all_joins(ALGORITHMS[3], "384 KiB").await;
}

/// Host memory is too small for the partitions, too.
#[tokio::test]
async fn stored_partitions_are_spilled_to_files() {
    let pair = Pair::new(&[
        STRICT,
        BUILT,
        ("galatea.join.algorithm", "triton"),
        ("galatea.memory.gpu_limit", "512 KiB"),
        ("galatea.memory.store_limit", "6 MiB"),
        ("galatea.tuning.chunk_rows", "4096"),
    ]);
    pair.table("r", &[table(60_000, false, |row| row * 7919 % 60_000)]);
    pair.table("l", &[table(70_000, true, |row| row * 31 % 65_000)]);
    let sql = "SELECT count(*), sum(r.v), sum(l.v), min(r.paid), max(l.weight) FROM l JOIN r ON l.k = r.k";
    pair.check(sql, true, "files").await;
    let plan = text(&pair, &format!("EXPLAIN ANALYZE {sql}")).await;
    let files = plan.split("spilled to host memory, ").nth(1);
    assert!(files.is_some_and(|files| !files.starts_with("0 ")), "{plan}");
}
