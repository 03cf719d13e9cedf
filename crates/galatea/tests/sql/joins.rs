//! Joins of a fact table with build sides, inside its pipeline.

use crate::compare::Pair;
use datafusion::arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int16Array, Int32Array, Int64Array,
    RecordBatch, StringArray, StringViewArray,
};
use datafusion::arrow::util::pretty::pretty_format_batches;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::sync::Arc;

/// Everything must run in pipelines: a refusal, during planning or later, is an error.
pub(crate) const STRICT: (&str, &str) = ("galatea.fallback", "error");

fn decimals(values: impl Iterator<Item = Option<i128>>) -> ArrayRef {
    let array: Decimal128Array = values.collect();
    Arc::new(array.with_precision_and_scale(20, 2).expect("a decimal type"))
}

fn word(number: i64) -> String {
    format!("word {}", number % 37)
}

/// The fact table: keys of all build sides (a tenth NULL, some without a match) and measures.
pub(crate) fn facts(rows: usize, seed: u64) -> RecordBatch {
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut keys = |low: i64, high: i64| -> Vec<Option<i64>> {
        (0..rows)
            .map(|_| (rng.random_range(0..10) > 0).then(|| rng.random_range(low..high)))
            .collect()
    };
    let (number, day, text, price) = (keys(-60, 60), keys(9000, 9100), keys(0, 37), keys(-50, 50));
    let columns: Vec<(&str, ArrayRef)> = vec![
        (
            "number",
            Arc::new(number.iter().map(|k| k.map(|k| k as i32)).collect::<Int32Array>()),
        ),
        (
            "day",
            Arc::new(day.iter().map(|k| k.map(|k| k as i32)).collect::<Date32Array>()),
        ),
        (
            "text",
            Arc::new(text.iter().map(|k| k.map(word)).collect::<StringArray>()),
        ),
        (
            "price",
            decimals(price.iter().map(|k| k.map(|k| i128::from(k) * 25))),
        ),
        (
            "v",
            Arc::new(Int64Array::from_iter_values((0..rows).map(|row| row as i64 - 5))),
        ),
        (
            "m",
            Arc::new(
                (0..rows)
                    .map(|row| (row % 11 > 0).then_some(row as i16 % 90))
                    .collect::<Int16Array>(),
            ),
        ),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, c)| (n, c, true)))
        .expect("one length")
}

/// A build side of `keys`, with a payload column of every kind; a fifth of the values are NULL.
pub(crate) fn dimension(key: &str, keys: ArrayRef, seed: u64) -> RecordBatch {
    let mut rng = SmallRng::seed_from_u64(seed);
    let rows = keys.len();
    let mut some = |high: i64| -> Vec<Option<i64>> {
        (0..rows)
            .map(|_| (rng.random_range(0..5) > 0).then(|| rng.random_range(-3..high)))
            .collect()
    };
    let (name, size, weight, open, paid, since, parent) = (
        some(9),
        some(4_000_000_000),
        some(100),
        some(3),
        some(1000),
        some(500),
        some(60),
    );
    let columns: Vec<(&str, ArrayRef)> = vec![
        (key, keys),
        (
            "name",
            Arc::new(
                name.iter()
                    .map(|v| v.map(|v| format!("name {v}")))
                    .collect::<StringViewArray>(),
            ),
        ),
        ("size", Arc::new(size.into_iter().collect::<Int64Array>())),
        (
            "weight",
            Arc::new(
                weight
                    .iter()
                    .map(|v| v.map(|v| v as f64 / 8.0))
                    .collect::<Float64Array>(),
            ),
        ),
        (
            "open",
            Arc::new(open.iter().map(|v| v.map(|v| v > 0)).collect::<BooleanArray>()),
        ),
        ("paid", decimals(paid.iter().map(|v| v.map(i128::from)))),
        (
            "since",
            Arc::new(since.iter().map(|v| v.map(|v| v as i32)).collect::<Date32Array>()),
        ),
        (
            "parent",
            Arc::new(parent.iter().map(|v| v.map(|v| v as i32)).collect::<Int32Array>()),
        ),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, c)| (n, c, true)))
        .expect("one length")
}

/// Tables f (facts), n (keyed by number), y (by day), t (by string) and p (by price).
pub(crate) fn star(pair: &Pair, rows: usize, seed: u64) {
    pair.table("f", &[facts(rows, seed)]);
    let some = |low: i32, high: i32, of: i32| (low..high).filter(move |key| key % of != 0);
    let numbers: Vec<Option<i32>> = some(-55, 50, 7).map(Some).chain([None, None]).collect();
    pair.table(
        "n",
        &[dimension("k", Arc::new(Int32Array::from(numbers)), seed + 1)],
    );
    let days: ArrayRef = Arc::new(Date32Array::from_iter_values(some(9010, 9200, 3).rev()));
    pair.table("y", &[dimension("k", days, seed + 2)]);
    let texts = some(3, 60, 4).filter(|key| *key < 37).map(|key| word(key.into()));
    let texts = texts.chain(["nowhere".into(), "a".into()]);
    pair.table(
        "t",
        &[dimension(
            "k",
            Arc::new(StringArray::from_iter_values(texts)),
            seed + 3,
        )],
    );
    let prices = decimals(some(-40, 45, 6).map(|key| Some(i128::from(key) * 25)));
    pair.table("p", &[dimension("k", prices, seed + 4)]);
}

pub(crate) const PIPELINES: &[&str] = &[
    "SELECT sum(n.size) FROM f JOIN n ON f.number = n.k",
    "SELECT count(*), sum(f.v), min(y.size), max(y.paid) FROM f, y WHERE f.day = y.k",
    "SELECT n.name, count(*), sum(f.v) FROM f JOIN n ON f.number = n.k GROUP BY n.name",
    "SELECT t.name, t.open, avg(t.weight), sum(t.paid) FROM f JOIN t ON f.text = t.k GROUP BY t.name, t.open",
    "SELECT p.k, count(*), sum(p.size) FROM p JOIN f ON p.k = f.price GROUP BY p.k",
    "SELECT n.name, extract(year FROM y.since) AS s, sum(f.v) FROM f, n, y
     WHERE f.number = n.k AND f.day = y.k AND n.size > 1000 AND f.m < 70 GROUP BY n.name, s",
    "SELECT n.name, t.name, p.since, count(*), sum(f.v - n.size) FROM f, n, t, p
     WHERE f.number = n.k AND f.text = t.k AND f.price = p.k AND (n.open OR t.open) GROUP BY n.name, t.name, p.since",
    "SELECT upper(n.name), count(*) FROM f JOIN n ON f.number = n.k WHERE n.name LIKE '%3' OR n.name IS NULL GROUP BY upper(n.name)",
    "SELECT CASE WHEN n.open THEN n.name ELSE t.k END AS c, count(*) FROM f, n, t WHERE f.number = n.k AND f.text = t.k GROUP BY c",
    "SELECT f.v, n.name, n.paid, n.weight, n.open FROM f JOIN n ON f.number = n.k WHERE f.m < 40",
    "SELECT f.v, y.name FROM f JOIN y ON f.day = y.k",
    "SELECT count(*), sum(f.v + n.size) FROM f JOIN n ON f.number = n.k AND f.m > n.weight",
    "SELECT count(*) FROM f JOIN n ON f.number + 1 = n.k * 2",
    "SELECT count(*), sum(n.size), count(n.name), sum(f.v) FROM f LEFT JOIN n ON f.number = n.k",
    "SELECT n.name, t.open, count(*), sum(f.v) FROM f LEFT JOIN n ON f.number = n.k AND n.open LEFT JOIN t ON t.k = f.text AND f.m > t.weight
     GROUP BY n.name, t.open",
    "SELECT f.v, n.k, n.paid, n.weight, y.since FROM n RIGHT JOIN f ON f.number = n.k LEFT JOIN y ON f.day = y.k WHERE f.m < 40",
    "SELECT count(*) FROM f LEFT JOIN n ON f.number = n.k WHERE n.size IS NULL OR n.parent = f.m",
    "SELECT count(*), sum(f.v + n.size) FROM f JOIN n ON f.number = n.k AND f.m = n.parent",
    "SELECT count(*), sum(a.size) FROM f JOIN n ON f.number = n.k JOIN n a ON n.parent = a.k",
    "SELECT count(*), sum(v) FROM f WHERE number IN (SELECT k FROM n WHERE size > 100)",
    "SELECT count(*), sum(v) FROM f WHERE number IN (SELECT parent FROM n)",
    "SELECT count(*), sum(v) FROM f WHERE NOT EXISTS (SELECT * FROM n WHERE n.k = f.number AND n.open)",
    "SELECT count(*), sum(n.size) FROM f JOIN n ON f.number = n.k WHERE n.name = 'no such name'",
    "SELECT y.name, count(*) FROM f JOIN y ON f.day = y.k WHERE y.k = DATE '1994-09-05' GROUP BY y.name",
    "SELECT a.name, sum(f.v) FROM f JOIN (SELECT parent, max(name) AS name FROM n GROUP BY parent) a ON f.number = a.parent GROUP BY a.name",
    "SELECT l.m, count(*), sum(r.v) FROM f l JOIN (SELECT m * 3 AS m3, max(v) AS v FROM f GROUP BY m) r ON l.m = r.m3 GROUP BY l.m",
    "SELECT l.v, r.v FROM f l JOIN f r ON l.v = r.v + 1 WHERE l.m > 80",
    // NOT IN: NULL among the keys, NULL as the probed value, neither, and no keys.
    "SELECT count(*), sum(v) FROM f WHERE number NOT IN (SELECT k FROM n)",
    "SELECT count(*), sum(v) FROM f WHERE number NOT IN (SELECT k FROM n WHERE size > 500)",
    "SELECT count(*), sum(v) FROM f WHERE number NOT IN (SELECT parent FROM n)",
    "SELECT count(*), sum(v) FROM f WHERE number NOT IN (SELECT parent FROM n WHERE parent IS NOT NULL AND open)",
    "SELECT count(*), sum(v) FROM f WHERE number NOT IN (SELECT k FROM n WHERE size < -1000000)",
    "SELECT count(*), sum(v) FROM f WHERE text NOT IN (SELECT name FROM t WHERE open)",
    // The existence of a match is one of several conditions.
    "SELECT count(*), sum(v) FROM f WHERE number IN (SELECT k FROM n WHERE size > 500) OR m < 30",
    "SELECT count(*), sum(v) FROM f WHERE EXISTS (SELECT * FROM n WHERE n.k = f.number AND n.open) OR EXISTS (SELECT * FROM t WHERE t.k = f.text) OR v < 9",
    "SELECT m, count(*) FROM f WHERE NOT EXISTS (SELECT * FROM n WHERE n.k = f.number AND f.m > n.weight) OR m IS NULL GROUP BY m",
];

#[tokio::test]
async fn star_joins_run_as_pipelines() {
    for (rows, seed) in [(0, 1), (1, 2), (33, 3), (700, 4), (3000, 5)] {
        // If tables have about the same size, the larger may become the build side and fall back.
        let settings = if rows > 200 { &[STRICT][..] } else { &[] };
        let pair = Pair::new(settings);
        star(&pair, rows.max(1), seed);
        if rows == 0 {
            pair.cpu.deregister_table("f").expect("registered");
            pair.gpu.deregister_table("f").expect("registered");
            pair.table("f", &[facts(0, seed)]);
        }
        for sql in PIPELINES {
            pair.check(sql, rows > 200, &format!("{rows} rows, seed {seed}"))
                .await;
        }
    }
}

#[tokio::test]
async fn star_joins_match_the_cpu_under_hostile_settings() {
    for settings in [
        &[STRICT, ("galatea.aggregate.strategy", "hash")][..],
        &[
            STRICT,
            ("galatea.tuning.chunk_rows", "33"),
            ("galatea.cache.device", "false"),
        ],
        &[
            STRICT,
            ("galatea.tuning.rows_per_thread", "1"),
            ("galatea.tuning.block_threads", "32"),
        ],
        &[STRICT, ("galatea.tuning.row_output", "counted")],
        &[STRICT, ("galatea.tuning.row_output", "heap")],
        &[("galatea.memory.gpu_limit", "4 KiB")],
    ] {
        let pair = Pair::new(settings);
        star(&pair, 400, 77);
        for sql in PIPELINES {
            pair.check(sql, false, &format!("{settings:?}")).await;
        }
    }
}

#[tokio::test]
async fn empty_build_sides_match_no_rows() {
    let pair = Pair::new(&[STRICT]);
    pair.table("f", &[facts(300, 9)]);
    pair.table(
        "n",
        &[dimension("k", Arc::new(Int32Array::from(Vec::<i32>::new())), 1)],
    );
    pair.table(
        "t",
        &[dimension("k", Arc::new(StringArray::from(vec![None::<&str>])), 2)],
    );
    for sql in [
        "SELECT count(*), sum(n.size), min(n.name) FROM f JOIN n ON f.number = n.k",
        "SELECT n.name, count(*) FROM f JOIN n ON f.number = n.k GROUP BY n.name",
        "SELECT count(*) FROM f JOIN t ON f.text = t.k",
        "SELECT f.v, t.name FROM f JOIN t ON f.text = t.k",
        "SELECT count(*) FROM f WHERE NOT EXISTS (SELECT * FROM n WHERE n.k = f.number)",
    ] {
        pair.check(sql, false, "no rows").await;
    }
}

/// Keys at the extremes of their type, and of types wider than the fact table's.
#[tokio::test]
async fn keys_of_different_widths_join() {
    let pair = Pair::new(&[STRICT]);
    let ends = [i64::MIN, i64::MIN + 1, -1, 0, 7, i64::MAX - 1, i64::MAX];
    let rows = |of: &[i64]| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(of.iter().copied().cycle().take(200)))
    };
    let small: ArrayRef = Arc::new(Int32Array::from_iter_values((0..200).map(|row| row % 9 - 4)));
    let wide = |low: i128| decimals((0..200).map(|row| Some(low + row % 5)));
    let columns = [
        ("e", rows(&ends)),
        ("s", small),
        ("w", wide(i128::from(i64::MAX) - 2)),
        ("x", wide(-3)),
    ];
    pair.table("f", &[RecordBatch::try_from_iter(columns).expect("one length")]);
    for (name, keys) in [
        ("least", vec![i64::MIN, i64::MIN + 2]),
        ("most", vec![i64::MAX - 1, i64::MAX]),
        ("near", vec![-4, 0, 3]),
    ] {
        pair.table(name, &[dimension("k", Arc::new(Int64Array::from(keys)), 3)]);
        for column in ["e", "s"] {
            let sql = format!(
                "SELECT d.k, count(*), sum(d.paid) FROM f JOIN {name} d ON f.{column} = d.k GROUP BY d.k"
            );
            pair.check(&sql, true, name).await;
        }
    }
    for (name, low) in [("wide", i128::from(i64::MAX) - 1), ("narrow", -2)] {
        let keys = decimals((0..3).map(|key| Some(low + key)));
        pair.table(name, &[dimension("k", keys, 3)]);
        for column in ["w", "x"] {
            let sql = format!(
                "SELECT d.k, count(*), max(d.name) FROM f JOIN {name} d ON f.{column} = d.k GROUP BY d.k"
            );
            pair.check(&sql, true, name).await;
        }
    }
}

pub(crate) async fn text(pair: &Pair, sql: &str) -> String {
    let frame = pair.gpu.sql(sql).await.expect("plans");
    let batches = frame.collect().await.expect("runs");
    pretty_format_batches(&batches).expect("prints").to_string()
}

#[tokio::test]
async fn sparse_and_repeated_keys_are_built_on_the_device() {
    let pair = Pair::new(&[STRICT]);
    pair.table("f", &[facts(500, 4)]);
    let twice: ArrayRef = Arc::new(Int32Array::from(vec![1, 2, 3, 2]));
    pair.table("twice", &[dimension("k", twice, 1)]);
    let scattered: ArrayRef = Arc::new(Int32Array::from(vec![1, 2, 10_000_000]));
    pair.table("scattered", &[dimension("k", scattered, 1)]);
    for (name, how) in [("twice", "multimap by=k"), ("scattered", "build side by=k")] {
        let sql = format!(
            "SELECT d.name, count(*), sum(f.v) FROM f JOIN {name} d ON f.number = d.k GROUP BY d.name"
        );
        let analysed = text(&pair, &format!("EXPLAIN ANALYZE {sql}")).await;

        assert!(analysed.contains(how), "{how} is missing:\n{analysed}");
        assert!(!analysed.contains("fell back"), "{analysed}");
        pair.check(&sql, true, name).await;
        // An existence test allows repeated keys.
        let exists = format!("SELECT count(*) FROM f WHERE number IN (SELECT k FROM {name})");
        pair.check(&exists, true, name).await;
    }
    let wide =
        "SELECT f.v, d.k, d.name, d.size, d.weight, d.open, d.paid, d.since, d.parent, d.size + 1, e.name
        FROM f JOIN twice d ON f.number = d.k JOIN scattered e ON f.number = e.k";
    pair.check(wide, true, "both").await;
}

/// The smallest and the largest integer span 2^64 values, one more than a word can count.
#[tokio::test]
async fn build_side_with_the_full_64_bit_key_range() {
    let pair = Pair::new(&[STRICT]);
    pair.table("f", &[facts(500, 4)]);
    let ends: ArrayRef = Arc::new(Int64Array::from(vec![i64::MIN, 0, i64::MAX]));
    pair.table("ends", &[dimension("k", ends, 1)]);
    let sql = "SELECT d.name, count(*) FROM f JOIN ends d ON f.v = d.k GROUP BY d.name";
    pair.check(sql, true, "every 64-bit integer").await;
    let analysed = text(&pair, &format!("EXPLAIN ANALYZE {sql}")).await;
    for fact in [
        "build side by=k",
        "why=a table of keys, which are more than 64 bits",
    ] {
        assert!(analysed.contains(fact), "{fact} is missing:\n{analysed}");
    }
}

#[tokio::test]
async fn queries_see_replaced_build_tables() {
    let pair = Pair::new(&[STRICT]);
    pair.table("f", &[facts(500, 4)]);
    let sql = "SELECT d.name, count(*), sum(d.size) FROM f JOIN d ON f.number = d.k GROUP BY d.name";
    for seed in 0..3 {
        let keys: ArrayRef = Arc::new(Int32Array::from_iter_values((0..40).map(|key| key - 20)));
        pair.table("d", &[dimension("k", keys, seed)]);
        for again in 0..2 {
            pair.check(sql, true, &format!("rows of seed {seed}, run {again}"))
                .await;
        }
        for ctx in [&pair.cpu, &pair.gpu] {
            ctx.deregister_table("d").expect("registered");
        }
    }
}

#[tokio::test]
async fn explain_shows_lookup_build_sides() {
    let pair = Pair::new(&[("galatea.join.order", "written")]);
    star(&pair, 1000, 3);
    let sql = "SELECT n.name, sum(f.v) FROM f, n, y WHERE f.number = n.k AND f.day = y.k AND y.open GROUP BY n.name";
    let plan = text(&pair, &format!("EXPLAIN {sql}")).await;
    for part in [
        "joins=[d0: k on number, host lookup, rows 92, d1: k on day",
        "number IN d0",
        "keys=[d0.name]",
    ] {
        assert!(plan.contains(part), "{part} is missing:\n{plan}");
    }
    assert!(!plan.contains("HashJoinExec"), "{plan}");
    let analysed = text(&pair, &format!("EXPLAIN ANALYZE {sql}")).await;
    assert!(analysed.contains("build side rows=[92, "), "{analysed}");
    let floats = "EXPLAIN SELECT count(*) FROM f FULL JOIN n ON CAST(f.number AS DOUBLE) = n.weight";
    let plan = text(&pair, floats).await;
    assert!(plan.contains("source=pairs d0"), "{plan}");
    assert!(!plan.contains("HashJoinExec"), "{plan}");
}
