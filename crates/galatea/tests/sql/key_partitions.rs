//! Out-of-core joins partitioned by ranges of an integer key: groups as a build side, several build sides
//! with one key, and tables in the order of the key, whose chunks are read in few partitions.

use crate::builds::BUILT;
use crate::compare::{Pair, answer};
use crate::joins::{STRICT, text};
use crate::parts::table;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, TimeUnit};

const ROWS: i64 = 60_000;

fn pair(memory: &'static str) -> Pair {
    Pair::new(&[
        STRICT,
        BUILT,
        ("galatea.memory.gpu_limit", memory),
        ("galatea.tuning.chunk_rows", "2048"),
        ("galatea.cache.device", "false"),
    ])
}

/// Rows `l`, three for each key, in the order of the key or not, and one row of `o` for each third key.
fn tables(pair: &Pair, nulls: bool, ordered: bool) {
    let place = move |row: i64| if ordered { row } else { row * 7919 % ROWS };
    pair.table("l", &[table(ROWS, nulls, move |row| place(row) / 3 - 1000)]);
    pair.table(
        "o",
        &[table(ROWS / 3, nulls, move |row| {
            let place = if ordered { row } else { row * 7919 % (ROWS / 3) };
            place * 3 - 2000
        })],
    );
}

/// The EXPLAIN ANALYZE of a query that is partitioned by key.
async fn by_key(pair: &Pair, sql: &str) -> String {
    let plan = text(pair, &format!("EXPLAIN ANALYZE {sql}")).await;
    assert!(plan.contains("keys at a time, in the order of the key"), "{plan}");
    plan
}

/// TPC-H 21: rows with another value of `small` under their key, and without one that also fulfils a
/// condition.
const OTHERS: &[&str] = &[
    "SELECT count(*), sum(a.v) FROM l a WHERE EXISTS (SELECT 1 FROM l b WHERE b.k = a.k AND b.small <> a.small)",
    "SELECT a.small, count(*), sum(a.v) FROM l a WHERE EXISTS (SELECT 1 FROM l b WHERE b.k = a.k AND b.small <> a.small) \
     AND NOT EXISTS (SELECT 1 FROM l c WHERE c.k = a.k AND c.small <> a.small AND c.weight > 3000) GROUP BY a.small",
    "SELECT count(*), sum(o.v) FROM o WHERE NOT EXISTS (SELECT 1 FROM l b WHERE b.k = o.k AND b.small <> o.small)",
];

/// TPC-H 18: rows whose key has a group with a condition.
const GROUPS: &[&str] = &[
    "SELECT count(*), sum(o.v), max(o.paid) FROM o WHERE o.k IN (SELECT k FROM l GROUP BY k HAVING sum(v) > 200000)",
    "SELECT o.small, count(*), sum(g.s), max(g.m), min(g.n) FROM o JOIN (SELECT k, sum(v) s, max(weight) m, count(*) n FROM l GROUP BY k) g ON o.k = g.k GROUP BY o.small",
    "SELECT o.k, o.v, g.s FROM o LEFT JOIN (SELECT k, sum(paid) s FROM l GROUP BY k) g ON o.k = g.k WHERE o.small <> 2",
    "SELECT count(*), sum(o.v) FROM o WHERE o.k NOT IN (SELECT k FROM l WHERE k IS NOT NULL GROUP BY k HAVING count(*) > 2)",
];

#[tokio::test]
async fn groups_as_build_side_exceed_device_memory() {
    for (nulls, ordered) in [(false, true), (true, true), (true, false)] {
        let pair = pair("256 KiB");
        tables(&pair, nulls, ordered);
        for sql in OTHERS.iter().chain(GROUPS) {
            let context = format!("NULL keys {nulls}, ordered {ordered}");
            pair.check(sql, true, &context).await;
            pair.check(sql, true, &format!("{context}, again")).await;
        }
        for sql in &OTHERS[..2] {
            by_key(&pair, sql).await;
        }
    }
}

/// Build sides that rows look up by one key have the same partitions: they are not combined.
#[tokio::test]
async fn build_sides_with_one_key_share_partitions() {
    let pair = pair("256 KiB");
    tables(&pair, false, true);
    let plan = by_key(&pair, OTHERS[1]).await;
    assert!(plan.contains(" of d0 and d1, one after another"), "{plan}");
}

/// Chunks of tables in the order of the key are read in the partitions of their keys only.
#[tokio::test]
async fn ordered_tables_are_read_once() {
    let sql = "SELECT count(*), sum(o.v), sum(l.v), max(o.paid) FROM l JOIN o ON l.k = o.k";
    let bytes = async |memory, ordered| {
        let pair = pair(memory);
        tables(&pair, true, ordered);
        let plan = text(&pair, &format!("EXPLAIN ANALYZE {sql}")).await;
        pair.check(sql, true, memory).await;
        answer(&pair.gpu, sql).await;
        let report = galatea::last_query_report(&pair.gpu).expect("a report");
        (report.link_bytes, plan)
    };
    let (once, _) = bytes("64 MiB", true).await;
    let (ordered, plan) = bytes("256 KiB", true).await;
    assert!(plan.contains("in the order of the key"), "{plan}");
    assert!(
        ordered <= 3 * once,
        "{ordered} bytes over the link, {once} for one scan\n{plan}"
    );
}

/// TPC-H 18: a build side that looks up groups by its own key. Both have the partitions of the join above.
#[tokio::test]
async fn groups_below_a_build_side_share_its_partitions() {
    let sql = "SELECT o.small, count(*), sum(l.v), max(o.paid) FROM l JOIN o ON l.k = o.k \
               WHERE o.k IN (SELECT k FROM l GROUP BY k HAVING sum(v) > 200000) GROUP BY o.small";
    for (nulls, ordered) in [(false, true), (true, true), (true, false)] {
        let pair = pair("512 KiB");
        tables(&pair, nulls, ordered);
        for run in ["first run", "kept plan", "kept plan again"] {
            pair.check(sql, true, run).await;
        }
    }
}

/// A partitioned run is repeated in partitions: no attempt over all rows fails first.
#[tokio::test]
async fn kept_plans_begin_in_partitions() {
    let pair = pair("256 KiB");
    tables(&pair, false, true);
    let launches = async || {
        let plan = by_key(&pair, OTHERS[1]).await;
        let (_, rest) = plan.split_once("launches=").expect("a number of launches");
        let digits = rest.chars().take_while(char::is_ascii_digit).collect::<String>();
        digits.parse::<u64>().expect("a number")
    };
    let first = launches().await;
    let second = launches().await;
    assert!(second <= first, "{second} launches, {first} at first");
}

/// Probe rows with keys below, above and between those of the build side, and sides without rows.
#[tokio::test]
async fn keys_outside_of_all_partitions() {
    let pair = pair("256 KiB");
    pair.table("l", &[table(ROWS, false, |row| row / 3)]);
    pair.table("none", &[table(0, false, |row| row)]);
    pair.table("nulls", &[table(10, true, |_| 3)]);
    for (name, key) in [
        ("below", (|row| -row - 1) as fn(i64) -> i64),
        ("above", |row| ROWS + row),
        ("around", |row| row * 17 - 300_000),
        ("extreme", |row| if row % 2 == 0 { i64::MIN } else { i64::MAX }),
    ] {
        pair.table(name, &[table(9_000, true, key)]);
        for sql in [
            format!(
                "SELECT count(*), sum(a.v) FROM {name} a WHERE EXISTS (SELECT 1 FROM l b WHERE b.k = a.k AND b.small <> a.small)"
            ),
            format!(
                "SELECT count(*), sum(a.v) FROM {name} a WHERE NOT EXISTS (SELECT 1 FROM l b WHERE b.k = a.k AND b.small <> a.small)"
            ),
            format!(
                "SELECT count(*), count(g.k), sum(a.v), sum(g.s) FROM {name} a LEFT JOIN (SELECT k, sum(v) s FROM l GROUP BY k) g ON a.k = g.k"
            ),
        ] {
            pair.check(&sql, true, name).await;
        }
    }
    for sql in [
        "SELECT count(*), sum(a.v) FROM l a WHERE NOT EXISTS (SELECT 1 FROM none b WHERE b.k = a.k AND b.small <> a.small)",
        "SELECT count(*), sum(a.v) FROM none a WHERE EXISTS (SELECT 1 FROM l b WHERE b.k = a.k AND b.small <> a.small)",
    ] {
        pair.check(sql, false, "no rows").await;
    }
}

/// The table with its key cast to another type.
fn with_key(batch: &RecordBatch, data_type: &DataType) -> RecordBatch {
    let mut columns = batch.columns().to_vec();
    columns[0] = cast(&columns[0], data_type).expect("a key of that type");
    let names = batch.schema();
    let names = names.fields().iter().map(|field| field.name().clone());
    RecordBatch::try_from_iter_with_nullable(names.zip(columns).map(|(name, column)| (name, column, true)))
        .expect("one length")
}

#[tokio::test]
async fn keys_of_every_integer_type() {
    for data_type in [
        DataType::Int16,
        DataType::UInt16,
        DataType::Int32,
        DataType::UInt32,
        DataType::Date32,
        DataType::Timestamp(TimeUnit::Microsecond, None),
    ] {
        let pair = pair("256 KiB");
        let context = data_type.to_string();
        pair.table("l", &[with_key(&table(ROWS, true, |row| row / 3), &data_type)]);
        pair.table("o", &[with_key(&table(9_000, true, |row| row * 3), &data_type)]);
        for sql in [OTHERS[0], OTHERS[2], GROUPS[1]] {
            pair.check(sql, true, &context).await;
        }
        by_key(&pair, OTHERS[0]).await;
    }
}

/// TPC-H 10: a filtered build side fits a hash table although arrays by key would not, and rows probe another
/// one in no order, so both sides of that join are partitioned once.
#[tokio::test]
async fn build_sides_in_another_order_are_partitioned_by_hash() {
    for (algorithm, shown) in [("auto", ""), ("triton", "of d1, sides partitioned once")] {
        let pair = pair("256 KiB");
        let set = format!("SET galatea.join.algorithm = '{algorithm}'");
        answer(&pair.gpu, &set).await;
        tables(&pair, false, true);
        pair.table("c", &[table(ROWS / 2, false, |row| 3 * row)]);
        let sql = "SELECT c.small, count(*), sum(l.v), max(c.paid), sum(c.v) FROM l JOIN o ON l.k = o.k \
                   LEFT JOIN c ON o.v = c.k WHERE o.weight < 60 GROUP BY c.small";
        for run in ["first", "again"] {
            pair.check(sql, true, run).await;
        }
        let plan = text(&pair, &format!("EXPLAIN ANALYZE {sql}")).await;
        assert!(plan.contains(shown) && plan.contains(" of d1, "), "{plan}");
        assert!(!plan.contains(" of d0"), "{plan}");
    }
}
