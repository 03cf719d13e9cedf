//! Joins by sparse keys, or by keys wider than 64 bits.

use crate::builds::BUILT;
use crate::compare::Pair;
use crate::joins::{STRICT, text};
use crate::parts::{far, table};
use datafusion::arrow::array::{ArrayRef, Decimal128Array, Int64Array, RecordBatch, StringArray};
use std::sync::Arc;

/// Events of users. The numbers of users are 64 random bits, or NULL.
fn events(rows: u64) -> RecordBatch {
    let user = |row: u64| {
        let user = row.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (rows / 4 + 1);
        (user != 7).then(|| (user + 1).wrapping_mul(0xd129_0d3b_52cd_a2c5) as i64)
    };
    let texts = (0..rows).map(|row| Some(format!("kind {}", row % 5)));
    let column = |value: &dyn Fn(u64) -> Option<i64>| -> ArrayRef {
        Arc::new((0..rows).map(value).collect::<Int64Array>())
    };
    RecordBatch::try_from_iter([
        ("id", column(&user)),
        ("at", column(&|row| Some((row * 7919 % 10_007) as i64))),
        ("v", column(&|row| (row % 9 != 4).then_some(row as i64 % 100))),
        ("kind", Arc::new(texts.collect::<StringArray>()) as ArrayRef),
    ])
    .expect("columns of one length")
}

const QUERIES: &[&str] = &[
    "SELECT count(*), sum(e.v) FROM e JOIN (SELECT id, min(at) AS first FROM e GROUP BY id) g ON e.id = g.id WHERE e.at = g.first",
    "SELECT e.kind, count(*), max(g.n) FROM e JOIN (SELECT id, count(*) AS n, sum(v) AS s FROM e GROUP BY id HAVING count(*) > 2) g ON e.id = g.id GROUP BY e.kind",
    "SELECT count(*), count(g.n) FROM e LEFT JOIN (SELECT id, count(*) AS n FROM e WHERE v > 90 GROUP BY id) g ON e.id = g.id",
    "SELECT count(*) FROM e WHERE id IN (SELECT id FROM e GROUP BY id HAVING sum(v) > 150)",
    "SELECT count(*) FROM e WHERE v > (SELECT avg(v) FROM e AS o WHERE o.id = e.id)",
    "SELECT e.id, e.at, g.most FROM e JOIN (SELECT id, max(kind) AS most FROM e GROUP BY id) g ON e.id = g.id AND e.kind = g.most WHERE e.v < 5",
    "SELECT count(*) FROM e WHERE EXISTS (SELECT 1 FROM e AS o WHERE o.id = e.id AND o.kind <> e.kind)",
    "SELECT e.kind, count(o.v) FROM e LEFT JOIN e AS o ON e.id = o.id GROUP BY e.kind",
];

/// Arrays by key would be larger than the table, so the groups are looked up in a hash table.
#[tokio::test]
async fn groups_with_sparse_keys_are_build_sides() {
    for rows in [0, 33, 4000] {
        let pair = Pair::new(if rows > 1000 { &[STRICT][..] } else { &[] });
        pair.table("e", &[events(rows)]);
        for sql in QUERIES {
            // The second run uses the facts of the first.
            for run in 1..=2 {
                pair.check(sql, rows > 1000, &format!("{rows} rows, run {run}"))
                    .await;
            }
        }
    }
}

/// Rows with keys of 64 random bits, of 128, and a string without a dictionary. Some keys are equal.
fn wide(rows: u64, seed: u64) -> RecordBatch {
    let number = |row: u64, salt: u64| {
        let number = row.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17) % (rows / 3 + 1);
        (number + salt)
            .wrapping_mul(0xd129_0d3b_52cd_a2c5)
            .wrapping_add(salt << 40)
    };
    let column = |salt: u64, nulls: u64| -> ArrayRef {
        let value = |row: u64| ((row + seed) % nulls != 1).then(|| number(row + seed, salt) as i64);
        let edges = [i64::MIN, i64::MAX, -1, 0];
        let value = |row: u64| edges.get(row as usize).copied().or_else(|| value(row));
        Arc::new(
            (0..rows)
                .map(|row| {
                    if row < 4 {
                        value((row + seed) % 4)
                    } else {
                        value(row)
                    }
                })
                .collect::<Int64Array>(),
        )
    };
    let decimals = (0..rows).map(|row| {
        let high = i128::from(number(row + seed, 5) % (1 << 40));
        ((row + seed) % 17 != 2).then(|| (high << 64) * if high % 2 == 0 { 1 } else { -1 })
    });
    let decimals = decimals
        .collect::<Decimal128Array>()
        .with_precision_and_scale(38, 2)
        .expect("decimals");
    let texts =
        (0..rows).map(|row| ((row + seed) % 19 != 3).then(|| format!("text {}", number(row + seed, 9))));
    RecordBatch::try_from_iter([
        ("a", column(0, 1 << 40)),
        ("b", column(1, 11)),
        ("d", Arc::new(decimals) as ArrayRef),
        ("text", Arc::new(texts.collect::<StringArray>())),
        ("v", Arc::new((0..rows as i64).collect::<Int64Array>())),
    ])
    .expect("columns of one length")
}

const WIDE: &[&str] = &[
    "SELECT count(*), sum(l.v), sum(r.v) FROM l JOIN r ON l.a = r.a",
    "SELECT count(*), sum(l.v), sum(r.v) FROM l JOIN r ON l.a = r.a AND l.b = r.b",
    "SELECT l.v, r.v FROM l LEFT JOIN r ON l.b = r.b AND l.a = r.a AND l.d = r.d",
    "SELECT count(*), sum(r.v) FROM l RIGHT JOIN r ON l.d = r.d AND l.text = r.text",
    "SELECT l.v, r.v FROM l FULL JOIN r ON l.d = r.d",
    "SELECT count(*), max(r.v) FROM l JOIN r ON l.a IS NOT DISTINCT FROM r.a AND l.b IS NOT DISTINCT FROM r.b",
    "SELECT count(*), sum(v) FROM l WHERE EXISTS (SELECT 1 FROM r WHERE r.a = l.a AND r.b = l.b)",
    "SELECT count(*), sum(v) FROM l WHERE NOT EXISTS (SELECT 1 FROM r WHERE r.a = l.a AND r.d = l.d)",
    "SELECT count(*), sum(v) FROM l WHERE a IN (SELECT a FROM r WHERE v % 2 = 0)",
    "SELECT a, b FROM l INTERSECT SELECT a, b FROM r",
    "SELECT a, d FROM l EXCEPT SELECT a, d FROM r",
    "SELECT l.a, count(*), sum(r.v) FROM l JOIN r ON l.a = r.a AND l.d = r.d AND l.v > r.v GROUP BY l.a",
    "SELECT count(*), sum(l.v) FROM l JOIN (SELECT a, b, max(v) AS m FROM r GROUP BY a, b) g ON l.a = g.a AND l.b = g.b WHERE l.v < g.m",
    "SELECT count(*), sum(l.v) FROM l JOIN (SELECT d, count(*) AS n FROM r GROUP BY d) g ON l.d = g.d",
];

#[tokio::test]
async fn keys_wider_than_64_bits_are_joined() {
    for (settings, rows) in [
        (&[][..], 33),
        (&[STRICT], 3000),
        (&[("galatea.debug.collide_hashes", "true")], 300),
        (
            &[
                ("galatea.memory.gpu_limit", "2 MiB"),
                ("galatea.tuning.chunk_rows", "500"),
            ],
            3000,
        ),
    ] {
        let pair = Pair::new(settings);
        pair.table("l", &[wide(rows, 0)]);
        pair.table("r", &[wide(rows / 2, rows / 5)]);
        for sql in WIDE {
            let strict = settings.contains(&STRICT);
            pair.check(sql, strict, &format!("{rows} rows, {settings:?}"))
                .await;
        }
    }
}

/// Unique keys of more than 64 bits are looked up, although their memory for strings is too small at first.
#[tokio::test]
async fn unique_wide_keys_are_looked_up() {
    let pair = Pair::new(&[STRICT, BUILT]);
    pair.table("l", &[table(30_000, true, |row| far(row * 31 % 25_000))]);
    pair.table("r", &[table(20_000, false, |row| far(row * 7919 % 20_000))]);
    let sql = "SELECT count(*), sum(l.v), sum(r.v) FROM l JOIN r ON l.k = r.k AND l.v = r.v";
    for run in ["first run", "kept plan"] {
        pair.check(sql, true, run).await;
        let plan = text(&pair, &format!("EXPLAIN ANALYZE {sql}")).await;
        assert!(
            plan.contains("device lookup") && !plan.contains("multimap"),
            "{run}\n{plan}"
        );
    }
}
