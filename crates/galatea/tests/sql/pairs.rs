//! Joins with repeated keys, with conditions in addition to the keys, or without keys.

use crate::builds::BUILT;
use crate::compare::Pair;
use crate::joins::{STRICT, dimension, facts, text};
use datafusion::arrow::array::{ArrayRef, Float32Array, Float64Array, Int32Array, RecordBatch, StringArray};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::sync::Arc;

/// A table with keys between 0 and `keys`, a tenth of them NULL, and a payload column of every kind.
pub(crate) fn side(rows: usize, keys: i32, seed: u64) -> RecordBatch {
    let mut rng = SmallRng::seed_from_u64(seed);
    let keys: Int32Array = (0..rows)
        .map(|_| (rng.random_range(0..10) > 0).then(|| rng.random_range(0..keys)))
        .collect();
    dimension("k", Arc::new(keys) as ArrayRef, seed)
}

/// Tables `l` and `r` of `rows` rows, with repeated keys.
async fn sides(left: usize, right: usize, keys: i32, seed: u64) -> Pair {
    let pair = Pair::new(&[STRICT]);
    pair.table("l", &[side(left, keys, seed)]);
    pair.table("r", &[side(right, keys + keys / 3 + 1, seed + 1)]);
    pair
}

/// Every column of both sides.
const ALL: &str = "l.k, l.name, l.size, l.weight, l.open, l.paid, l.since, \
     r.k, r.name, r.size, r.weight, r.open, r.paid, r.since";

#[tokio::test]
async fn all_join_types_with_repeated_keys_match_the_cpu() {
    let conditions = [
        "l.k = r.k",
        "l.k = r.k AND l.parent < r.parent",
        "l.k = r.k AND l.name = r.name",
        "l.k = r.k AND l.open = r.open",
        "l.k = r.k AND l.since + 400 < r.since",
    ];
    // Each of the smaller ones uses other conditions.
    for (left, right, keys, seed) in [
        (900, 700, 40, 1),
        (33, 1000, 7, 2),
        (1000, 32, 400, 3),
        (257, 255, 1, 4),
    ] {
        let pair = sides(left, right, keys, seed).await;
        let conditions = match seed {
            1 => &conditions[..],
            seed => &conditions[seed as usize - 2..][..2],
        };
        for kind in ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"] {
            for (number, condition) in conditions.iter().enumerate() {
                let from = format!("FROM l {kind} r ON {condition}");
                let context = format!("{left} and {right} rows, {keys} keys, seed {seed}: {from}");
                let columns = if number > 1 {
                    "l.k, l.name, r.size, r.open"
                } else {
                    ALL
                };
                pair.check(&format!("SELECT {columns} {from}"), true, &context)
                    .await;
                let groups = format!(
                    "SELECT l.name, r.open, count(*), count(l.k), count(r.k), sum(r.size), min(l.since), max(r.name), avg(r.weight) {from} GROUP BY l.name, r.open"
                );
                if number == 0 {
                    pair.check(&groups, true, &context).await;
                }
            }
            let one = format!(
                "SELECT count(*), sum(l.size), sum(r.size), max(l.paid) FROM l {kind} r ON l.k = r.k"
            );
            pair.check(&one, true, &one).await;
        }
    }
}

#[tokio::test]
async fn semi_and_anti_joins_with_conditions() {
    for seed in [5, 6] {
        let pair = sides(700, 800, 60, seed).await;
        for condition in [
            "r.parent > l.parent",
            "r.name = l.name",
            "r.size + l.size > 4000000000",
            "r.open AND l.open",
        ] {
            for test in ["EXISTS", "NOT EXISTS"] {
                let sql = format!(
                    "SELECT l.k, l.name, l.size, l.since FROM l WHERE {test} (SELECT 1 FROM r WHERE r.k = l.k AND {condition})"
                );
                pair.check(&sql, true, &sql).await;
            }
            let either = format!(
                "SELECT l.name, count(*), sum(l.size) FROM l WHERE l.open OR EXISTS (SELECT 1 FROM r WHERE r.k = l.k AND {condition}) GROUP BY l.name"
            );
            pair.check(&either, true, &either).await;
        }
    }
}

#[tokio::test]
async fn non_equi_joins() {
    let pair = sides(150, 90, 20, 7).await;
    for sql in [
        "SELECT l.k, r.k, l.name, r.since FROM l CROSS JOIN r",
        "SELECT count(*), sum(l.size), min(r.paid) FROM l, r",
        "SELECT l.k, r.k, r.name FROM l JOIN r ON l.k < r.k",
        "SELECT l.k, r.k, r.name FROM l LEFT JOIN r ON l.k > r.k + 10 AND r.open",
        "SELECT l.k, r.k, r.name FROM l RIGHT JOIN r ON l.k > r.k + 10 AND r.open",
        "SELECT l.k, r.k, r.name FROM l FULL JOIN r ON l.size = r.size + 1",
        "SELECT l.k, l.size FROM l WHERE EXISTS (SELECT 1 FROM r WHERE r.size < l.size)",
        "SELECT l.k, l.size FROM l WHERE NOT EXISTS (SELECT 1 FROM r WHERE r.size < l.size)",
        "SELECT l.k, count(*) FROM l JOIN r ON l.since BETWEEN r.since - 10 AND r.since + 10 GROUP BY l.k",
    ] {
        pair.check(sql, true, sql).await;
    }
}

#[tokio::test]
async fn joins_of_any_size() {
    for (left, right) in [
        (0, 0),
        (0, 40),
        (40, 0),
        (1, 1),
        (31, 32),
        (32, 33),
        (2049, 1),
        (1, 2047),
    ] {
        let pair = sides(left, right, 5, 8).await;
        for kind in [
            "JOIN",
            "LEFT JOIN",
            "RIGHT JOIN",
            "FULL JOIN",
            "LEFT SEMI JOIN",
            "LEFT ANTI JOIN",
        ] {
            let looks = !kind.contains("SEMI") && !kind.contains("ANTI");
            let columns = if looks {
                "l.k, l.name, r.k, r.name"
            } else {
                "l.k, l.name"
            };
            for more in ["", " AND l.size < r.size"] {
                let sql = format!("SELECT {columns} FROM l {kind} r ON l.k = r.k{more}");
                let context = format!("{left} and {right} rows: {sql}");
                // Tables without rows are removed during planning.
                pair.check(&sql, left > 0 && right > 0, &context).await;
            }
        }
    }
}

#[tokio::test]
async fn join_matches_are_joined_grouped_and_sorted() {
    let pair = sides(400, 500, 50, 9).await;
    pair.table("m", &[side(300, 60, 11)]);
    let unique: ArrayRef = Arc::new(Int32Array::from_iter_values(0..60));
    pair.table("u", &[dimension("k", unique, 12)]);
    for sql in [
        "SELECT l.name, m.name, r.name, count(*) FROM l JOIN r ON l.k = r.k JOIN m ON m.k = r.k GROUP BY l.name, m.name, r.name",
        "SELECT l.k, r.size, u.name FROM l JOIN r ON l.k = r.k JOIN u ON u.k = r.parent",
        "SELECT u.name, count(*) FROM l JOIN r ON l.k = r.k LEFT JOIN u ON u.k = l.parent GROUP BY u.name",
        "SELECT l.k, count(*) FROM l JOIN (SELECT k, parent, count(*) AS n FROM r GROUP BY k, parent) g ON g.k = l.k WHERE g.n > 1 GROUP BY l.k",
        "SELECT a.k, b.k, count(*) FROM l a JOIN l b ON a.parent = b.parent WHERE a.size > b.size GROUP BY a.k, b.k",
        "SELECT l.k, l.parent, r.name FROM l JOIN r ON l.k = r.k AND l.parent = r.parent",
        "SELECT count(*) FROM l FULL JOIN r ON l.k = r.k FULL JOIN m ON m.k = l.k AND m.parent > r.parent",
    ] {
        pair.check(sql, true, sql).await;
        // In the second run, the repeated keys are known.
        pair.check(sql, true, &format!("again: {sql}")).await;
    }
    let ordered = "SELECT l.k, r.size, r.name FROM l JOIN r ON l.k = r.k ORDER BY r.size DESC NULLS LAST, l.k, r.name LIMIT 7";
    for run in 0..2 {
        pair.check(ordered, true, &format!("run {run}: {ordered}")).await;
    }
}

#[tokio::test]
async fn string_keys_of_different_dictionaries() {
    let pair = Pair::new(&[STRICT, ("galatea.tuning.build_rows", "0")]);
    pair.table("l", &[side(600, 30, 15)]);
    pair.table("r", &[side(500, 30, 16).slice(100, 300)]);
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values(
        (-3..9).map(|n| format!("name {n}")),
    ));
    pair.table("n", &[dimension("word", texts, 17)]);
    for sql in [
        "SELECT l.name, r.name, l.size, r.size FROM l JOIN r ON l.name = r.name",
        "SELECT l.name, r.name, l.size, r.size FROM l LEFT JOIN r ON l.name = r.name AND l.k = r.k",
        "SELECT l.k, r.k FROM l FULL JOIN r ON l.name = r.name AND l.open = r.open",
        "SELECT l.k, l.name FROM l WHERE name NOT IN (SELECT name FROM r WHERE name IS NOT NULL AND k > 25)",
        "SELECT l.k, n.size FROM l JOIN n ON n.word = l.name",
        "SELECT n.name, count(*) FROM l LEFT JOIN n ON n.word = l.name GROUP BY n.name",
    ] {
        pair.check(sql, true, sql).await;
    }
}

#[tokio::test]
async fn set_operations_treat_nulls_as_equal() {
    let pair = sides(300, 200, 12, 19).await;
    for sql in [
        "SELECT k, name FROM l INTERSECT SELECT k, name FROM r",
        "SELECT k, open FROM l EXCEPT SELECT k, open FROM r",
        "SELECT k FROM l INTERSECT ALL SELECT k FROM r",
        "SELECT name, k FROM l EXCEPT ALL SELECT name, k FROM r WHERE k > 3 OR k IS NULL",
        "SELECT l.k, r.k, l.size FROM l JOIN r ON l.k IS NOT DISTINCT FROM r.k",
        "SELECT l.k, r.k, r.name FROM l LEFT JOIN r ON l.k IS NOT DISTINCT FROM r.k AND l.name IS NOT DISTINCT FROM r.name",
        "SELECT count(*), sum(r.size) FROM l FULL JOIN r ON l.name IS NOT DISTINCT FROM r.name AND l.size < r.size",
    ] {
        pair.check(sql, true, sql).await;
    }
}

#[tokio::test]
async fn single_key_joins() {
    let pair = Pair::new(&[STRICT]);
    let same = |rows: usize, seed| {
        let keys: ArrayRef = Arc::new(Int32Array::from(vec![7; rows]));
        dimension("k", keys, seed)
    };
    // More matches than a chunk of the pipeline over them holds.
    pair.table("l", &[same(1500, 1)]);
    pair.table("r", &[same(700, 2)]);
    for sql in [
        "SELECT count(*), sum(l.size + r.size), count(r.name) FROM l JOIN r ON l.k = r.k",
        "SELECT l.name, r.name, count(*) FROM l JOIN r ON l.k = r.k GROUP BY l.name, r.name",
        "SELECT l.name, count(*) FROM l LEFT JOIN r ON l.k = r.k AND r.size < 0 GROUP BY l.name",
    ] {
        pair.check(sql, true, sql).await;
    }
}

#[tokio::test]
async fn lookup_join_with_repeated_keys_is_replanned() {
    let pair = sides(300, 300, 30, 13).await;
    let sql = "SELECT l.name, count(*), sum(r.size) FROM l JOIN r ON l.k = r.k GROUP BY l.name";
    let before = text(&pair, &format!("EXPLAIN {sql}")).await;
    assert!(
        before.contains("joins=[d0: k on k") && !before.contains("pairs"),
        "{before}"
    );
    let first = text(&pair, &format!("EXPLAIN ANALYZE {sql}")).await;
    assert!(
        first.contains("source=pairs d0") && first.contains("multimap by"),
        "{first}"
    );
    assert!(!first.contains("fell back"), "{first}");
    let after = text(&pair, &format!("EXPLAIN {sql}")).await;
    assert!(after.contains("source=pairs d0"), "{after}");
    pair.check(sql, true, "after it").await;
}

/// Floats of every kind by number: zeros of both signs, NaNs of several bit patterns, infinities, adjacent
/// numbers.
fn float(number: usize) -> f64 {
    let next_to_one = f64::from_bits(1.0f64.to_bits() + 1);
    [
        0.0,
        -0.0,
        1.0,
        next_to_one,
        -1.0,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        f64::from_bits(0xfff8_0000_0000_0000),
        f64::from_bits(0x7ff8_0000_0000_0001),
        f64::MIN_POSITIVE / 4.0,
        f64::MAX,
    ][number % 12]
}

/// A number for each row, 64-bit and 32-bit floats, a ninth of them NULL, and others that rarely repeat.
fn floats(rows: usize, step: usize) -> RecordBatch {
    let present = |row: usize| row % 9 != 4;
    let doubles = (0..rows).map(|row| present(row).then(|| float(row * step)));
    let singles = (0..rows).map(|row| present(row).then(|| float(row * step / 2) as f32));
    let spread = (0..rows).map(|row| Some((row * step) as f64 / 7.0 - 20.0));
    let columns: [(&str, ArrayRef); 4] = [
        ("id", Arc::new((0..rows as i32).collect::<Int32Array>())),
        ("d", Arc::new(doubles.collect::<Float64Array>())),
        ("s", Arc::new(singles.collect::<Float32Array>())),
        ("w", Arc::new(spread.collect::<Float64Array>())),
    ];
    let columns = columns.map(|(name, array)| (name, array, true));
    RecordBatch::try_from_iter_with_nullable(columns).expect("one length")
}

#[tokio::test]
async fn float_join_keys() {
    let pair = Pair::new(&[STRICT]);
    for (number, (left, right)) in [(0, 5), (1, 1), (31, 33), (32, 0), (200, 130)]
        .into_iter()
        .enumerate()
    {
        let (l, r) = (format!("l{number}"), format!("r{number}"));
        pair.table(&l, &[floats(left, 1)]);
        pair.table(&r, &[floats(right, 5)]);
        let ons = [
            "l.d = r.d",
            "l.s = r.s",
            "l.w = r.w",
            "l.d = r.d AND l.s = r.s",
            "l.d = r.s",
            "l.d IS NOT DISTINCT FROM r.d",
        ];
        for (at, on) in ons.into_iter().enumerate() {
            for kind in ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]
                .into_iter()
                .skip(at % 2)
            {
                let sql = format!("SELECT l.id, r.id FROM {l} l {kind} {r} r ON {on}");
                pair.check(&sql, true, "floats").await;
            }
        }
        for sql in [
            "SELECT l.id FROM L l WHERE EXISTS (SELECT 1 FROM R r WHERE r.d = l.d)",
            "SELECT l.id FROM L l WHERE NOT EXISTS (SELECT 1 FROM R r WHERE r.d = l.d)",
            "SELECT l.id FROM L l WHERE EXISTS (SELECT 1 FROM R r WHERE r.s = l.s AND r.id > l.id)",
            "SELECT count(*), sum(l.id + r.id) FROM L l JOIN R r ON l.w = r.w",
        ] {
            let sql = sql
                .replace("L l", &format!("{l} l"))
                .replace("R r", &format!("{r} r"));
            pair.check(&sql, true, "floats").await;
        }
    }
}

/// NOT IN by keys that a pipeline computes: NULL on either side, on both, on none, and no rows at all.
#[tokio::test]
async fn not_in_by_floats_and_device_computed_keys() {
    let pair = Pair::new(&[STRICT, ("galatea.tuning.build_rows", "0")]);
    for (number, (left, right)) in [(1, 1), (9, 5), (32, 33), (200, 4), (300, 170)]
        .into_iter()
        .enumerate()
    {
        let (l, r) = (format!("l{number}"), format!("r{number}"));
        pair.table(&l, &[floats(left, 1)]);
        pair.table(&r, &[floats(right, 5)]);
        for key in ["d", "s", "w"] {
            for (own, others) in [
                ("true", "true"),
                ("true", "r.K IS NOT NULL"),
                ("l.K IS NOT NULL", "true"),
                ("l.K IS NOT NULL", "r.K IS NOT NULL"),
                ("true", "r.id < 3"),
                ("true", "r.id < 0"),
                ("true", "r.K IS NULL"),
            ] {
                let sql = format!(
                    "SELECT l.id, l.K FROM {l} l WHERE {own} AND l.K NOT IN (SELECT K FROM {r} r WHERE {others})"
                );
                let sql = sql.replace('K', key);
                pair.check(&sql, true, "floats").await;
                let count = sql.replace(&format!("l.id, l.{key}"), "count(*), sum(l.id)");
                pair.check(&count, true, "floats").await;
            }
        }
        // Keys that are not columns, and a key that occurs twice on the other side.
        for sql in [
            "SELECT l.id FROM L l WHERE l.d + 1 NOT IN (SELECT s FROM R r WHERE s IS NOT NULL)",
            "SELECT l.id FROM L l WHERE l.w NOT IN (SELECT min(w) FROM R r GROUP BY id % 3)",
            "SELECT l.id FROM L l WHERE l.w NOT IN (SELECT x.w FROM R x JOIN R y ON x.s = y.s)",
            "SELECT l.id FROM L l WHERE 5 IN (SELECT id FROM R r)",
            "SELECT l.id FROM L l WHERE 5 NOT IN (SELECT id FROM R r) OR l.d = 1",
            "SELECT l.id FROM L l WHERE 1.0 NOT IN (SELECT d FROM R r)",
        ] {
            let sql = sql
                .replace("L l", &format!("{l} l"))
                .replace("R ", &format!("{r} "));
            pair.check(&sql, true, "floats").await;
        }
    }
    let plan = text(
        &pair,
        "EXPLAIN SELECT l.id FROM l1 l WHERE l.d NOT IN (SELECT d FROM r1)",
    )
    .await;
    assert!(
        plan.contains("joins=[") && !plan.contains("HashJoinExec"),
        "{plan}"
    );
}

/// The first run finds that the keys of a build side repeat, plans the subtree again and continues on the
/// device. The sort of a top-k query is not in this subtree.
#[tokio::test]
async fn repeated_keys_are_found_without_fallback() {
    for sql in [
        "SELECT n.name, avg(f.v) AS mean FROM f JOIN n ON f.number = n.k GROUP BY n.name ORDER BY n.name LIMIT 3",
        "SELECT f.v, n.size FROM f JOIN n ON f.number = n.k ORDER BY f.v DESC, n.size LIMIT 7",
        "SELECT n.name, count(*) FROM f JOIN n ON f.number = n.k GROUP BY n.name",
    ] {
        let pair = Pair::new(&[
            BUILT,
            ("galatea.fallback", "error"),
            ("galatea.join.order", "written"),
        ]);
        pair.table("f", &[facts(3000, 4)]);
        let keys: ArrayRef = Arc::new(Int32Array::from_iter_values((0..900).map(|row| row % 50)));
        pair.table("n", &[dimension("k", keys, 5)]);
        for run in ["first", "second"] {
            pair.check(sql, true, run).await;
        }
    }
}
