//! Groups larger than device memory: they are computed partition by partition of the hash of their keys, and
//! queries return the CPU's answers.

use crate::builds::BUILT;
use crate::compare::Pair;
use crate::joins::{STRICT, text};
use crate::parts::{far, table};

const ROWS: i64 = 50_000;

fn pair(memory: &'static str) -> Pair {
    pair_of(memory, "multipass")
}

/// `algorithm`: whether rows are partitioned once, or read once per partition.
fn pair_of(memory: &'static str, algorithm: &'static str) -> Pair {
    Pair::new(&[
        STRICT,
        BUILT,
        ("galatea.memory.gpu_limit", memory),
        ("galatea.tuning.chunk_rows", "4096"),
        ("galatea.aggregate.strategy", "hash"),
        ("galatea.tuning.hash_slots", "1024"),
        ("galatea.join.algorithm", algorithm),
    ])
}

const GROUPED: &[&str] = &[
    "SELECT k, count(*), sum(v) FROM t GROUP BY k",
    "SELECT k, small, count(*), min(paid), max(weight) FROM t WHERE open GROUP BY k, small",
    "SELECT name, small, sum(paid) FROM t GROUP BY name, small",
    "SELECT k, avg(weight) AS a, sum(v) FROM t GROUP BY k HAVING count(*) > 1",
    "SELECT v % 20000 AS g, k IS NULL, count(*) FROM t GROUP BY g, k IS NULL",
    "SELECT t.k, d.small, sum(t.v), max(d.v) FROM t JOIN d ON t.small = d.k GROUP BY t.k, d.small",
];

/// Consumers of groups: counts and sums of them, the first of them, filters on them.
const CONSUMED: &[&str] = &[
    "SELECT count(*), max(n), sum(s) FROM (SELECT k, count(*) n, sum(v) s FROM t GROUP BY k)",
    "SELECT n, count(*), min(k) FROM (SELECT k, small, count(*) n FROM t GROUP BY k, small) GROUP BY n",
    "SELECT k, sum(v) s, count(*) n FROM t GROUP BY k ORDER BY s DESC, k LIMIT 10",
    "SELECT count(DISTINCT k), count(*) FROM t",
    "SELECT small, count(DISTINCT k), sum(v) FROM t GROUP BY small",
];

async fn groups_exceed_device_memory(algorithm: &'static str, shown: [&str; 2]) {
    let memory = "640 KiB";
    for (name, key) in [
        ("far apart", (|row| far(row % 12_000)) as fn(i64) -> i64),
        ("near", |row| row * 7919 % 12_000),
        ("skewed", |row| if row % 3 == 0 { row } else { 7 }),
    ] {
        let pair = pair_of(memory, algorithm);
        pair.table("t", &[table(30_000, true, key)]);
        pair.table("d", &[table(5, false, |row| row)]);
        for sql in GROUPED.iter().chain(CONSUMED) {
            pair.check(sql, true, name).await;
        }
        pair.check(GROUPED[0], true, "the kept plan").await;
        for (sql, shown) in [GROUPED[0], CONSUMED[0]].into_iter().zip(shown) {
            let plan = text(&pair, &format!("EXPLAIN ANALYZE {sql}")).await;
            assert!(plan.contains(shown), "{sql}\n{plan}");
        }
    }
}

#[tokio::test]
async fn groups_exceed_device_memory_in_several_passes() {
    let shown = [" of the groups, one after another", "groups at a time"];
    groups_exceed_device_memory("multipass", shown).await;
}

#[tokio::test]
async fn groups_exceed_device_memory_with_rows_partitioned_once() {
    groups_exceed_device_memory("triton", [" of the groups, rows partitioned once"; 2]).await;
}

/// Groups that rows look up by a key of several parts or of strings: the partitions of a join are partitions
/// of the groups.
#[tokio::test]
async fn groups_of_a_build_side_exceed_device_memory() {
    let groups =
        "(SELECT k, small, sum(v) AS s, count(*) AS n, max(paid) AS m FROM t GROUP BY k, small) AS g";
    let both = "u.k = g.k AND u.small = g.small";
    let names = "(SELECT name, sum(v) AS s, count(*) AS n FROM t GROUP BY name) AS g";
    for (memory, sql) in [
        (
            "3 MiB",
            format!("SELECT count(*), sum(g.s), max(g.m) FROM u JOIN {groups} ON {both}"),
        ),
        (
            "3 MiB",
            format!(
                "SELECT u.small, count(*), sum(g.s) FROM u LEFT JOIN {groups} ON {both} GROUP BY u.small"
            ),
        ),
        (
            "3 MiB",
            format!(
                "SELECT count(*), sum(u.v) FROM u WHERE NOT EXISTS (SELECT 1 FROM {groups} WHERE {both} AND g.n > 2)"
            ),
        ),
        // One row for each group.
        (
            "3 MiB",
            format!("SELECT count(*), sum(g.s), count(u.v) FROM u RIGHT JOIN {groups} ON {both}"),
        ),
        (
            "1 MiB",
            format!("SELECT u.v, g.s, g.n FROM u JOIN {names} ON u.name = g.name"),
        ),
    ] {
        let pair = pair(memory);
        pair.table("t", &[table(ROWS, true, |row| far(row % 20_000))]);
        pair.table("u", &[table(30_000, true, |row| far(row * 31 % 25_000))]);
        for run in ["first run", "kept plan"] {
            pair.check(&sql, true, run).await;
        }
        let plan = text(&pair, &format!("EXPLAIN ANALYZE {sql}")).await;
        assert!(plan.contains(", one after another"), "{sql}\n{plan}");
    }
}

/// Keys that are strings without a dictionary.
#[tokio::test]
async fn string_groups_exceed_device_memory() {
    let pair = pair("3 MiB");
    pair.table("t", &[table(ROWS, true, |row| row * 7919 % 45_000)]);
    for sql in [
        "SELECT concat(name, '-', small) AS g, count(*), max(v) FROM t GROUP BY g",
        "SELECT upper(name), paid, sum(weight) FROM t GROUP BY upper(name), paid",
    ] {
        pair.check(sql, true, "computed strings").await;
        let plan = text(&pair, &format!("EXPLAIN ANALYZE {sql}")).await;
        assert!(plan.contains(" of the groups, one after another"), "{plan}");
    }
}

/// All rows in one group, one group per row, NULL keys only, and no rows.
#[tokio::test]
async fn degenerate_groups() {
    let pair = pair("1 MiB");
    for (name, rows, key) in [
        ("one", ROWS, (|_| 7) as fn(i64) -> i64),
        ("all", ROWS, far),
        ("none", 0, far),
        ("single", 1, far),
    ] {
        pair.table(name, &[table(rows, rows > 1, key)]);
        for sql in [
            format!("SELECT k, count(*), sum(v), min(paid) FROM {name} GROUP BY k"),
            format!(
                "SELECT count(*), sum(n) FROM (SELECT k, small, count(*) n FROM {name} GROUP BY k, small)"
            ),
            format!("SELECT k, count(*) FROM {name} WHERE k IS NULL GROUP BY k"),
        ] {
            pair.check(&sql, false, name).await;
        }
    }
}
