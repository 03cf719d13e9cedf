//! Build sides in the cache, in shared memory by key, and by the slots of a laid-out key: the answers are
//! equal, and each build side is in the requested memory.

use crate::compare::Pair;
use crate::joins::{PIPELINES, STRICT, dimension, facts, star, text};
use datafusion::arrow::array::{
    ArrayRef, BooleanArray, Decimal128Array, Float32Array, Float64Array, Int32Array, Int64Array, RecordBatch,
    StringArray,
};
use std::sync::Arc;

const CACHE: (&str, &str) = ("galatea.join.lookup_memory", "cache");
const SHARED: (&str, &str) = ("galatea.join.lookup_memory", "shared");
const SLOTS: (&str, &str) = ("galatea.join.lookup_memory", "slots");

async fn run(pair: &Pair, sql: &str) {
    let frame = galatea::sql(&pair.gpu, sql).await.expect(sql);
    frame.collect().await.expect(sql);
}

/// Computes conflict layouts for all columns of the emulated session's table.
async fn lay_out(pair: &Pair, table: &str) {
    run(
        pair,
        &format!("ALTER TABLE {table} SET (conflict_layout = 'auto')"),
    )
    .await;
}

/// The memory of the topmost pipeline's build sides in EXPLAIN ANALYZE.
async fn memories_of(pair: &Pair, sql: &str) -> String {
    let analysed = text(pair, &format!("EXPLAIN ANALYZE {sql}")).await;
    let (_, memories) = analysed
        .split_once(", build side memory=[")
        .unwrap_or_else(|| panic!("no dimensions in\n{analysed}"));
    memories
        .split_once(']')
        .map_or(memories, |(memories, _)| memories)
        .to_owned()
}

async fn assert_memories(pair: &Pair, sql: &str, expected: &[&str]) {
    let memories = memories_of(pair, sql).await;
    for part in expected {
        assert!(
            memories.contains(part),
            "{part} is missing of [{memories}]\n{sql}"
        );
    }
}

fn wide(values: Decimal128Array) -> ArrayRef {
    Arc::new(values.with_precision_and_scale(38, 2).expect("a decimal type"))
}

fn table(pair: &Pair, name: &str, columns: Vec<(&str, ArrayRef)>) {
    let columns = columns.into_iter().map(|(name, values)| (name, values, true));
    let batch = RecordBatch::try_from_iter_with_nullable(columns).expect("one length");
    pair.table(name, &[batch]);
}

#[tokio::test]
async fn star_joins_match_the_cpu_for_every_lookup_memory() {
    for (settings, laid_out, memory) in [
        (&[STRICT, CACHE][..], false, "d0: cache (forced)"),
        (&[STRICT, SHARED], false, "d0: shared "),
        (
            &[STRICT, SHARED, ("galatea.tuning.chunk_rows", "333")],
            true,
            "d0: shared ",
        ),
        (&[STRICT, SLOTS], true, "d0: slots "),
        (
            &[
                SLOTS,
                ("galatea.tuning.rows_per_thread", "2"),
                ("galatea.tuning.block_threads", "64"),
            ],
            true,
            "d0: slots ",
        ),
        (&[STRICT], true, "d0: slots "),
    ] {
        let pair = Pair::new(settings);
        star(&pair, 1100, 42);
        if laid_out {
            lay_out(&pair, "f").await;
        }
        for sql in PIPELINES {
            pair.check(sql, true, &format!("{settings:?}")).await;
        }
        let lower = "SELECT count(*), sum(t.size), min(t.name) FROM f JOIN t ON lower(f.text) = t.k";
        pair.check(lower, true, &format!("{settings:?}")).await;
        for column in ["number", "text", "price"] {
            let table = &column[..1];
            let sql = format!("SELECT sum(d.size), max(d.paid) FROM f JOIN {table} d ON f.{column} = d.k");
            assert_memories(&pair, &sql, &[memory]).await;
        }
    }
}

/// Build sides with sizes around those of words and of tables of bytes, with values of every width.
#[tokio::test]
async fn lookup_build_sides_of_any_size_match_the_cpu() {
    for memory in [SHARED, SLOTS] {
        let pair = Pair::new(&[STRICT, memory]);
        let rows = 1500;
        let keys = |row: i64| (row % 11 > 0).then_some(row * row % 263 - 2);
        let facts: Vec<(&str, ArrayRef)> = vec![
            ("a", Arc::new((0..rows).map(keys).collect::<Int64Array>())),
            ("v", Arc::new(Int64Array::from_iter_values(0..rows))),
        ];
        table(&pair, "f", facts);
        lay_out(&pair, "f").await;
        for size in [0_i32, 1, 2, 31, 32, 33, 127, 128, 256, 257] {
            let of = |key: i32| i128::from(key) * 7 + 1;
            let keys = || 0..size;
            let some = |key: &i32| key % 5 > 0;
            let columns: Vec<(&str, ArrayRef)> = vec![
                ("k", Arc::new(Int32Array::from_iter_values(keys()))),
                ("one", Arc::new(Int32Array::from_iter_values(keys().map(|_| -9)))),
                (
                    "few",
                    Arc::new(
                        keys()
                            .map(|k| some(&k).then_some(k % 4 - 70_000))
                            .collect::<Int32Array>(),
                    ),
                ),
                (
                    "open",
                    Arc::new(
                        keys()
                            .map(|k| some(&k).then_some(k % 2 > 0))
                            .collect::<BooleanArray>(),
                    ),
                ),
                (
                    "word",
                    Arc::new(StringArray::from_iter_values(
                        keys().map(|k| format!("w{}", k % 9)),
                    )),
                ),
                (
                    "single",
                    Arc::new(Float32Array::from_iter_values(keys().map(|k| k as f32 / -3.0))),
                ),
                (
                    "double",
                    Arc::new(Float64Array::from_iter_values(keys().map(|k| f64::from(k) / 3.0))),
                ),
                (
                    "long",
                    Arc::new(Int64Array::from_iter_values(keys().map(|k| i64::from(k) << 33))),
                ),
                (
                    "ends",
                    Arc::new(Int64Array::from_iter_values(
                        keys().map(|k| [i64::MIN, 0, i64::MAX][k as usize % 3]),
                    )),
                ),
                (
                    "wide",
                    wide(keys().map(|k| some(&k).then_some(of(k) << 90)).collect()),
                ),
                (
                    "wider",
                    wide(
                        keys()
                            .map(|k| Some(if k % 2 == 0 { of(k) << 61 } else { -of(k) }))
                            .collect(),
                    ),
                ),
            ];
            table(&pair, "d", columns);
            let context = format!("{memory:?}, {size} keys");
            for sql in [
                "SELECT count(*) FROM f JOIN d ON f.a = d.k",
                "SELECT count(*), sum(d.one), sum(d.few), count(d.few) FROM f JOIN d ON f.a = d.k",
                "SELECT sum(d.long), min(d.ends), max(d.ends), sum(d.single), sum(d.double) FROM f JOIN d ON f.a = d.k",
                "SELECT f.v, d.open, d.word, d.wide, d.wider FROM f JOIN d ON f.a = d.k",
                "SELECT d.word, d.open, count(*), sum(d.wide), sum(d.wider) FROM f JOIN d ON f.a = d.k GROUP BY d.word, d.open",
                "SELECT count(*), sum(v) FROM f WHERE NOT EXISTS (SELECT * FROM d WHERE d.k = f.a)",
            ] {
                pair.check(sql, false, &context).await;
            }
            let sql = "SELECT count(*), sum(d.few) FROM f JOIN d ON f.a = d.k";
            let way = format!("d0: {} ", memory.1);
            assert_memories(&pair, sql, &[&way]).await;
            for ctx in [&pair.cpu, &pair.gpu] {
                ctx.deregister_table("d").expect("registered");
            }
        }
    }
}

/// A block of the emulated device has 99 KiB; 2 of them are reserved.
#[tokio::test]
async fn only_fitting_build_sides_use_shared_memory() {
    let pair = Pair::new(&[STRICT, SHARED, ("galatea.join.order", "written")]);
    let rows = 30_000;
    let row = |row: i64| row * 7919 % 24_900 - 10;
    table(
        &pair,
        "f",
        vec![("a", Arc::new(Int64Array::from_iter_values((0..rows).map(row))))],
    );
    // Values of 31 bits and a bit for each key take four bytes; absent keys take four more.
    for (keys, memory) in [
        (24_831, "d0: shared 97.0 KiB"),
        (24_832, "d0: cache (97.0 KiB more than 97.0 KiB of shared memory)"),
    ] {
        let name = format!("d{keys}");
        let sizes = Int32Array::from_iter_values((0..keys).map(|key| key * 86_400));
        let columns: Vec<(&str, ArrayRef)> = vec![
            (
                "k",
                Arc::new(Int64Array::from_iter_values((0..keys).map(i64::from))),
            ),
            ("size", Arc::new(sizes)),
        ];
        table(&pair, &name, columns);
        let sql = format!("SELECT count(*), sum(d.size) FROM f JOIN {name} d ON f.a = d.k");
        pair.check(&sql, true, &name).await;
        assert_memories(&pair, &sql, &[memory]).await;
        // Beside groups, a quarter of the shared memory is available.
        let sql = format!("SELECT d.size % 7 AS g, count(*) FROM f JOIN {name} d ON f.a = d.k GROUP BY g");
        pair.check(&sql, true, &name).await;
        assert_memories(
            &pair,
            &sql,
            &["d0: cache (97.0 KiB more than 22.8 KiB of shared memory)"],
        )
        .await;
    }
    // The small build side is copied first, the large one not at all.
    let small: ArrayRef = Arc::new(Int64Array::from_iter_values(0..900));
    pair.table("n", &[dimension("k", small, 7)]);
    let sql = "SELECT n.name, count(*), sum(d.size) FROM f, d24831 d, n WHERE f.a = d.k AND f.a = n.k GROUP BY n.name";
    pair.check(sql, true, "one of two").await;
    let memories = memories_of(&pair, sql).await;
    assert!(
        memories.contains("shared ") && memories.contains("cache (97.0 KiB more than"),
        "{memories}"
    );
}

/// Groups use the shared memory that build sides leave.
#[tokio::test]
async fn build_sides_and_groups_divide_shared_memory() {
    for way in [SHARED, SLOTS] {
        for group_by in ["threads", "copies", "slots"] {
            let pair = Pair::new(&[STRICT, way, ("galatea.aggregate.strategy", group_by)]);
            let rows = 20_000;
            let key = |row: i64| row * row % 1511;
            let columns: Vec<(&str, ArrayRef)> = vec![
                ("a", Arc::new(Int64Array::from_iter_values((0..rows).map(key)))),
                (
                    "v",
                    Arc::new(Int64Array::from_iter_values((0..rows).map(|row| row % 100))),
                ),
            ];
            table(&pair, "f", columns);
            run(
                &pair,
                "ALTER TABLE f SET (conflict_layout.a = 'auto', conflict_budget = 1.5)",
            )
            .await;
            let keys: ArrayRef = Arc::new(Int64Array::from_iter_values((0..1500).map(|key| key + 3)));
            pair.table("n", &[dimension("k", keys, 5)]);
            let context = format!("{way:?}, {group_by}");
            let by_key =
                "SELECT f.a, count(*), sum(f.v) FROM f JOIN n ON f.a = n.k WHERE n.open GROUP BY f.a";
            for sql in [
                by_key,
                "SELECT n.name, count(*), sum(n.parent), sum(f.v) FROM f JOIN n ON f.a = n.k GROUP BY n.name",
                "SELECT f.v, sum(n.parent) FROM f JOIN n ON f.a = n.k GROUP BY f.v",
            ] {
                pair.check(sql, true, &context).await;
                assert_memories(&pair, sql, &[&format!("d0: {} ", way.1)]).await;
            }
            if group_by != "threads" {
                let analysed = text(&pair, &format!("EXPLAIN ANALYZE {by_key}")).await;
                assert!(analysed.contains("strategy=shared("), "{context}: {analysed}");
            }
        }
    }
}

#[tokio::test]
async fn conflict_layouts_serve_joins_after_appends() {
    let pair = Pair::new(&[]);
    for ctx in [&pair.cpu, &pair.gpu] {
        let sql = "CREATE TABLE f AS SELECT nullif(value % 17, 16) AS k, nullif('w' || (value % 5), '') AS w, value AS v
                   FROM generate_series(1, 4000)";
        ctx.sql(sql).await.expect("plans").collect().await.expect("runs");
    }
    run(
        &pair,
        "ALTER TABLE f SET (conflict_layout.k = 'auto', conflict_layout.w = 'reads')",
    )
    .await;
    table(
        &pair,
        "d",
        vec![
            (
                "k",
                Arc::new(Int64Array::from_iter_values((0..40).filter(|key| key % 3 > 0))),
            ),
            (
                "size",
                Arc::new(Int32Array::from_iter_values(
                    (0..40).filter(|key| key % 3 > 0).map(|key| key * 11),
                )),
            ),
        ],
    );
    table(
        &pair,
        "t",
        vec![
            ("k", Arc::new(StringArray::from(vec!["w1", "w3", "w9", "other"]))),
            (
                "size",
                Arc::new(Int32Array::from(vec![Some(4), None, Some(-7), Some(100)])),
            ),
        ],
    );
    let queries = [
        "SELECT count(*), sum(d.size), count(t.size) FROM f, d, t WHERE f.k = d.k AND f.w = t.k",
        "SELECT f.k, count(*), sum(d.size) FROM f JOIN d ON f.k = d.k GROUP BY f.k",
        "SELECT d.size, count(*), sum(f.v) FROM f JOIN d ON f.k = d.k GROUP BY d.size",
    ];
    for insert in [
        "",
        "INSERT INTO f SELECT k, w, v + 1 FROM f WHERE v < 700",
        "INSERT INTO f VALUES (38, 'w9', 1), (NULL, NULL, 2), (1000, 'other', 3)",
    ] {
        if !insert.is_empty() {
            for ctx in [&pair.cpu, &pair.gpu] {
                ctx.sql(insert)
                    .await
                    .expect("plans")
                    .collect()
                    .await
                    .expect("runs");
            }
        }
        for sql in queries {
            pair.check(sql, true, insert).await;
            assert_memories(&pair, sql, &["d0: slots "]).await;
        }
    }
}

#[tokio::test]
async fn unusable_forced_lookup_memory_has_a_reason() {
    let pair = Pair::new(&[SLOTS]);
    star(&pair, 900, 8);
    let sum = |key: &str| format!("SELECT sum(d.size) FROM f JOIN n d ON {key} = d.k");
    assert_memories(&pair, &sum("f.number"), &["d0: cache (its key is not laid out)"]).await;
    lay_out(&pair, "f").await;
    assert_memories(&pair, &sum("f.number"), &["d0: slots "]).await;
    let moved = sum("f.number + 1");
    assert_memories(&pair, &moved, &["d0: cache (its key is not laid out)"]).await;
    pair.check(&moved, true, "an expression").await;

    // Without a forced memory, only build sides that profit are copied.
    let pair = Pair::new(&[STRICT]);
    let keys: ArrayRef = Arc::new(Int32Array::from_iter_values((0..100).map(|key| key * 160)));
    pair.table("d", &[dimension("k", keys, 5)]);
    for (name, rows, memory) in [
        ("few", 300, "d0: cache (few rows)"),
        ("many", 9000, "d0: shared "),
    ] {
        pair.table(name, &[facts(rows, 4)]);
        let sql = format!("SELECT count(*), sum(d.parent) FROM {name} f JOIN d ON f.number = d.k");
        pair.check(&sql, true, name).await;
        assert_memories(&pair, &sql, &[memory]).await;
    }
}

/// Pipelines and their tables are cached, but tables of outdated rows are not used.
#[tokio::test]
async fn changed_build_sides_are_copied_again() {
    for (way, laid_out) in [(SHARED, false), (SLOTS, true)] {
        let pair = Pair::new(&[STRICT, way]);
        pair.table("f", &[facts(500, 4)]);
        if laid_out {
            lay_out(&pair, "f").await;
        }
        let sql = "SELECT d.name, count(*), sum(d.size) FROM f JOIN d ON f.number = d.k GROUP BY d.name";
        for seed in 0..3 {
            let keys: ArrayRef = Arc::new(Int32Array::from_iter_values((0..40).map(|key| key - 20)));
            pair.table("d", &[dimension("k", keys, seed)]);
            for again in 0..2 {
                pair.check(sql, true, &format!("{way:?}, rows of seed {seed}, run {again}"))
                    .await;
            }
            for ctx in [&pair.cpu, &pair.gpu] {
                ctx.deregister_table("d").expect("registered");
            }
        }
    }
}
