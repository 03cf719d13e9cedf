//! Small group-bys: every sink for groups, over columns of every skew, returns the CPU's answer, and is the
//! requested one.

use crate::compare::Pair;
use crate::joins::STRICT;
use datafusion::arrow::array::{ArrayRef, Float64Array, Int16Array, Int64Array, RecordBatch};
use datafusion::arrow::util::pretty::pretty_format_batches;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::sync::Arc;

/// The distribution of groups.
#[derive(Debug, Clone, Copy)]
enum Skew {
    Uniform,
    /// Group 3 has six of ten rows, group 1 two.
    Hot,
    /// Rows are sorted by group.
    Sorted,
    /// One in five keys is NULL.
    Nulls,
}

fn rows(rows: usize, groups: i16, skew: Skew, seed: u64) -> RecordBatch {
    let mut random = SmallRng::seed_from_u64(seed);
    let group = |row: usize, random: &mut SmallRng| match skew {
        Skew::Uniform => Some(random.random_range(0..groups)),
        Skew::Hot => Some(match random.random_range(0..10) {
            0..6 => 3 % groups,
            6..8 => 1 % groups,
            _ => random.random_range(0..groups),
        }),
        Skew::Sorted => Some((row * groups as usize / rows) as i16),
        Skew::Nulls => (random.random_range(0..5) != 0).then(|| random.random_range(0..groups)),
    };
    let keys: Int16Array = (0..rows).map(|row| group(row, &mut random)).collect();
    // Large, small, negative and extreme values, so that sums carry and wrap.
    let value = |random: &mut SmallRng| match random.random_range(0..8) {
        0 => i64::MAX,
        1 => i64::MIN,
        2 => 0xffff_ffff,
        _ => random.random_range(-1000..1000),
    };
    let wide: Int64Array = (0..rows).map(|_| Some(value(&mut random))).collect();
    let small: Int64Array = (0..rows)
        .map(|_| (random.random_range(0..9) != 0).then(|| random.random_range(0..1_000_000)))
        .collect();
    let float: Float64Array = (0..rows)
        .map(|_| Some(f64::from(random.random_range(-99..99))))
        .collect();
    let columns: [(&str, ArrayRef); 4] = [
        ("g", Arc::new(keys)),
        ("wide", Arc::new(wide)),
        ("small", Arc::new(small)),
        ("f", Arc::new(float)),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true)))
        .expect("a batch")
}

const QUERIES: [&str; 5] = [
    "SELECT g, count(*), sum(small) FROM t GROUP BY g",
    "SELECT g, sum(wide), min(wide), max(small), count(small), sum(f), avg(CAST(small AS DECIMAL(20, 2))) FROM t GROUP BY g",
    "SELECT g, bit_and(small), bit_or(wide), bit_xor(wide), bit_xor(small), bool_and(wide < 0), bool_or(small > 999000), min(f > 98) FROM t GROUP BY g",
    "SELECT g, var(small), stddev_pop(small), corr(small, g), regr_slope(small, g), covar_samp(small, CAST(f AS BIGINT)) FROM t GROUP BY g",
    "SELECT g, sum(small) FILTER (WHERE wide < 0), sum(CAST(wide AS DECIMAL(38, 0))) FROM t WHERE small > 1000 OR small IS NULL GROUP BY g",
];

/// The strategy in EXPLAIN ANALYZE.
async fn strategy(pair: &Pair, sql: &str) -> String {
    let frame = pair
        .gpu
        .sql(&format!("EXPLAIN ANALYZE {sql}"))
        .await
        .expect("plans");
    let batches = frame.collect().await.expect("runs");
    let text = pretty_format_batches(&batches).expect("prints").to_string();
    let strategy = text
        .split("strategy=")
        .nth(1)
        .unwrap_or_else(|| panic!("{sql} was not placed:\n{text}"));
    strategy
        .split(", columns=")
        .next()
        .unwrap_or_default()
        .to_string()
}

#[tokio::test]
async fn every_group_strategy_matches_the_cpu_for_any_skew() {
    let ways: [(&[(&str, &str)], &str); 12] = [
        (&[], ""),
        (&[("galatea.aggregate.strategy", "registers")], "registers("),
        (
            &[
                ("galatea.aggregate.strategy", "threads"),
                ("galatea.tuning.block_threads", "32"),
            ],
            "a copy per thread",
        ),
        (
            &[
                ("galatea.aggregate.strategy", "copies"),
                ("galatea.aggregate.replicas", "1"),
                ("galatea.aggregate.preaggregation", "off"),
            ],
            "one copy",
        ),
        (
            &[
                ("galatea.aggregate.strategy", "copies"),
                ("galatea.aggregate.replicas", "8"),
            ],
            "8 copies",
        ),
        (
            &[
                ("galatea.aggregate.strategy", "copies"),
                ("galatea.aggregate.replicas", "32"),
                ("galatea.tuning.block_threads", "64"),
            ],
            "32 copies",
        ),
        (
            &[
                ("galatea.aggregate.strategy", "copies"),
                ("galatea.aggregate.replicas", "2"),
                ("galatea.aggregate.preaggregation", "runs"),
            ],
            "runs",
        ),
        (
            &[
                ("galatea.aggregate.strategy", "copies"),
                ("galatea.aggregate.preaggregation", "warps"),
            ],
            "warp-aggregated",
        ),
        (&[("galatea.aggregate.strategy", "dense")], "dense("),
        (
            &[
                ("galatea.aggregate.strategy", "dense"),
                ("galatea.aggregate.replicas", "8"),
                ("galatea.aggregate.preaggregation", "off"),
            ],
            "8 copies)",
        ),
        (&[("galatea.aggregate.strategy", "hash")], "hash"),
        (
            &[
                ("galatea.aggregate.strategy", "hash"),
                ("galatea.aggregate.preaggregation", "off"),
            ],
            "hash table, fully sized",
        ),
    ];
    for (seed, (groups, skew)) in [
        (1, Skew::Uniform),
        (2, Skew::Hot),
        (33, Skew::Hot),
        (33, Skew::Nulls),
        (100, Skew::Sorted),
        (700, Skew::Hot),
    ]
    .into_iter()
    .enumerate()
    {
        for (settings, named) in ways {
            let pair = Pair::new(settings);
            pair.table("t", &[rows(6000, groups, skew, seed as u64)]);
            for sql in QUERIES {
                pair.check(
                    sql,
                    true,
                    &format!("{groups} groups, {skew:?}, seed {seed}, {settings:?}"),
                )
                .await;
            }
            // Registers and copies per thread support few groups; many copies support a limited number.
            let few = ["registers(", "a copy per thread"].contains(&named) && groups > 2;
            let dense = settings.contains(&("galatea.aggregate.strategy", "dense"));
            let many = named.contains("copies") && !dense && groups > 100;
            if !few && !many {
                let found = strategy(&pair, QUERIES[0]).await;
                assert!(found.contains(named), "{settings:?} gave {found}");
            }
        }
    }
}

#[tokio::test]
async fn cost_model_detects_skew_and_runs() {
    for (groups, skew, expected) in [(900, Skew::Hot, "hot in registers"), (900, Skew::Sorted, "runs")] {
        let pair = Pair::new(&[]);
        pair.table("t", &[rows(60_000, groups, skew, 5)]);
        let sql = "SELECT g, sum(small), sum(wide), sum(small * 2), sum(wide * 3) FROM t GROUP BY g";
        let found = strategy(&pair, sql).await;
        assert!(found.contains(expected), "{skew:?} gave {found}");
        pair.check(sql, true, &format!("{skew:?}")).await;
    }
}

#[tokio::test]
async fn groups_in_device_memory_are_warp_aggregated() {
    for forced in ["dense", "hash"] {
        let pair = Pair::new(&[("galatea.aggregate.strategy", forced)]);
        pair.table("t", &[rows(6000, 500, Skew::Hot, 8)]);
        for sql in QUERIES {
            let found = strategy(&pair, sql).await;
            assert!(found.contains("warp-aggregated"), "{sql} gave {found}");
            pair.check(sql, true, "warp-aggregated").await;
        }
    }
}

#[tokio::test]
async fn columns_with_layout_are_grouped_by_slot() {
    for (groups, skew) in [
        (2, Skew::Hot),
        (40, Skew::Nulls),
        (300, Skew::Hot),
        (300, Skew::Sorted),
    ] {
        let pair = Pair::new(&[
            ("galatea.aggregate.strategy", "slots"),
            ("galatea.tuning.chunk_rows", "3000"),
        ]);
        pair.table("t", &[rows(10_000, groups, skew, 9)]);
        galatea::sql(&pair.gpu, "ALTER TABLE t SET (conflict_layout.g = 'writes')")
            .await
            .expect("is laid out")
            .collect()
            .await
            .expect("is laid out");
        for sql in QUERIES {
            pair.check(sql, true, &format!("{groups} groups, {skew:?}, laid out"))
                .await;
        }
        let found = strategy(&pair, QUERIES[0]).await;
        assert!(
            found.contains("slots of a laid-out column"),
            "{groups} groups, {skew:?} gave {found}"
        );
    }
}

#[tokio::test]
async fn replicas_that_do_not_fit_memory_are_omitted() {
    // Rows have five bytes: a MiB fits 32 copies beside 150,000 rows, but not beside 195,000.
    for (rows, copies) in [(150_000, true), (195_000, false)] {
        let pair = Pair::new(&[
            ("galatea.memory.gpu_limit", "1 MiB"),
            ("galatea.aggregate.strategy", "dense"),
            ("galatea.aggregate.replicas", "32"),
        ]);
        let keys = Int64Array::from_iter_values((0..rows).map(|row| row % 250));
        let values =
            Int64Array::from_iter_values((0..rows).map(|row| row * 7919 * 1_000_003 % 1_000_000_007));
        let columns = [("g", Arc::new(keys) as ArrayRef), ("v", Arc::new(values))];
        pair.table(
            "t",
            &[RecordBatch::try_from_iter(columns).expect("equal lengths")],
        );
        let sql = "SELECT g, count(*), sum(v) FROM t GROUP BY g";
        let found = strategy(&pair, sql).await;
        assert_eq!(found.contains("32 copies"), copies, "{rows} rows gave {found}");
        pair.check(sql, true, &format!("{rows} rows")).await;
    }
}

#[tokio::test]
async fn wide_rows_in_large_blocks_use_shared_memory() {
    let pair = Pair::new(&[
        ("galatea.aggregate.strategy", "copies"),
        ("galatea.tuning.block_threads", "1024"),
    ]);
    let mut random = SmallRng::seed_from_u64(3);
    let mut column =
        || Arc::new(Int64Array::from_iter_values((0..5000).map(|_| random.random()))) as ArrayRef;
    let (a, b, c, d) = (column(), column(), column(), column());
    let keys: ArrayRef = Arc::new(Int64Array::from_iter_values((0..5000).map(|row| row % 4)));
    let columns = [("g", keys), ("a", a), ("b", b), ("c", c), ("d", d)];
    pair.table(
        "t",
        &[RecordBatch::try_from_iter(columns).expect("equal lengths")],
    );
    let sql = "SELECT g, sum(a), sum(b), sum(c), max(d) FROM t GROUP BY g";
    let found = strategy(&pair, sql).await;
    assert!(
        found.contains("shared(") && found.contains("1024 threads"),
        "{found}"
    );
    pair.check(sql, true, "1024 threads").await;
}

/// If few dense accumulators have a row, these are found before they are read. If many have one, all are
/// read.
#[tokio::test]
async fn few_used_dense_accumulators_are_compacted() {
    for (rows, spread) in [(0, 1), (1, 1), (3000, 199_999), (200_000, 1)] {
        let pair = Pair::new(&[STRICT, ("galatea.aggregate.strategy", "dense")]);
        let key = |row: i64| (row % 97 != 3).then(|| row.wrapping_mul(spread) % 300_000);
        let keys = [0, 299_999].into_iter().map(Some).chain((0..rows).map(key));
        let keys: Int64Array = keys.collect();
        let values: Int64Array = (0..keys.len() as i64)
            .map(|row| (row % 5 != 2).then_some(row))
            .collect();
        let columns = [
            ("k", Arc::new(keys) as ArrayRef),
            ("v", Arc::new(values) as ArrayRef),
        ];
        pair.table("t", &[RecordBatch::try_from_iter(columns).expect("one length")]);
        for sql in [
            "SELECT k, count(*), sum(v), max(v) FROM t GROUP BY k",
            "SELECT k, count(*) FROM t WHERE v > 20 GROUP BY k ORDER BY 2 DESC, 1 LIMIT 7",
            "SELECT k, avg(v) FROM t WHERE v < -1 GROUP BY k",
        ] {
            pair.check(sql, true, &format!("{rows} rows")).await;
        }
    }
}
