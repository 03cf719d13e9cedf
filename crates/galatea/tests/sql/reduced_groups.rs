//! Semi-join reduction: groups without a match in a join are not computed, and no answer changes.

use crate::compare::{Pair, same};
use crate::join_order::{rows_of, run, session_with};
use crate::joins::STRICT;
use crate::sessions::planned;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::displayable;
use datafusion::prelude::SessionContext;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

const TABLES: &[&str] = &[
    "CREATE TABLE sales AS SELECT value AS s_id, value % 1000 AS s_part, value % 300 AS s_customer, value % 7 AS s_count FROM generate_series(0, 49999)",
    "CREATE TABLE parts AS SELECT value AS p_id, value % 50 AS p_size, CAST(value AS INT) AS p_small, 'part ' || value AS p_name FROM generate_series(0, 999)",
    "CREATE TABLE doubles AS SELECT CAST(value % 1000 AS DOUBLE) AS s_double FROM generate_series(0, 9999)",
    "CREATE TABLE offers AS SELECT value % 1000 AS o_part, value % 300 AS o_customer, value % 11 AS o_price FROM generate_series(0, 7999)",
];

/// A session over the tables. Its queries run on the CPU.
async fn session(reduces: &str) -> SessionContext {
    session_with(("galatea.join.semijoin_reduction", reduces), TABLES).await
}

/// The total number of groups that the aggregates of a query compute.
async fn groups(reduces: &str, sql: &str) -> usize {
    rows_of::<AggregateExec>(&session(reduces).await, sql).await
}

const REDUCED: &[&str] = &[
    // A correlated subquery with a key that equals the filtered table's key transitively.
    "SELECT sum(s_count) FROM sales, parts WHERE p_id = s_part AND p_size = 7 \
     AND s_count < (SELECT 0.5 * avg(s_count) FROM sales WHERE s_part = p_id)",
    // Two relations.
    "SELECT p_id, n FROM parts JOIN (SELECT s_part, count(*) AS n FROM sales GROUP BY s_part) ON p_id = s_part WHERE p_size = 7",
    // One key of two, of a table that only tests for existence; groups are filtered.
    "SELECT count(*), sum(n) FROM offers JOIN (SELECT s_part, s_customer, sum(s_count) AS n FROM sales GROUP BY s_part, s_customer HAVING sum(s_count) > 3) \
     ON o_part = s_part AND o_customer = s_customer WHERE o_part IN (SELECT p_id FROM parts WHERE p_name LIKE 'part 99%' AND p_size = 49)",
    // Groups of groups, over a join.
    "SELECT p_id, customers FROM parts JOIN (SELECT s_part, count(DISTINCT s_customer) AS customers FROM sales JOIN offers ON s_id = o_customer GROUP BY s_part) \
     ON p_id = s_part WHERE p_size = 7",
];

/// Groups with keys that a filtered table excludes are not computed.
#[tokio::test]
async fn groups_without_a_join_match_are_not_computed() {
    for sql in REDUCED {
        let (all, wanted) = (groups("off", sql).await, groups("on", sql).await);
        assert!(wanted * 4 < all, "{sql}\n{wanted} groups instead of {all}");
    }
}

/// If other groups may be returned, or few would be excluded, plans are unchanged.
#[tokio::test]
async fn aggregate_is_not_reduced_when_unsafe_or_unprofitable() {
    let others = [
        // An outer join keeps its own rows regardless of the other table.
        "SELECT s_part, n, p_name FROM (SELECT s_part, count(*) AS n FROM sales GROUP BY s_part) LEFT JOIN (SELECT * FROM parts WHERE p_size = 7) ON p_id = s_part",
        "SELECT s_part, n FROM (SELECT s_part, count(*) AS n FROM sales GROUP BY s_part) WHERE s_part NOT IN (SELECT p_id FROM parts WHERE p_size = 7)",
        // Without a filter, and with one that keeps most.
        "SELECT p_id, n FROM parts JOIN (SELECT s_part, count(*) AS n FROM sales GROUP BY s_part) ON p_id = s_part",
        "SELECT p_id, n FROM parts JOIN (SELECT s_part, count(*) AS n FROM sales GROUP BY s_part) ON p_id = s_part WHERE p_size > 7",
        // A computed key, an aggregate as a key, no key.
        "SELECT p_id, n FROM parts JOIN (SELECT s_part + 1 AS k, count(*) AS n FROM sales GROUP BY s_part + 1) ON p_id = k WHERE p_size = 7",
        "SELECT p_id, n FROM parts JOIN (SELECT s_customer, count(*) AS n FROM sales GROUP BY s_customer) ON p_id = n WHERE p_size = 7",
        "SELECT p_id, n FROM parts CROSS JOIN (SELECT count(*) AS n FROM sales) WHERE p_size = 7",
        // Fewer rows are grouped than the table has.
        "SELECT p_id, n FROM parts JOIN (SELECT s_part, count(*) AS n FROM sales WHERE s_id < 100 GROUP BY s_part) ON p_id = s_part WHERE p_size = 7",
        // An input that returns other rows when it is read again.
        "SELECT p_id, n FROM parts JOIN (SELECT s_part, count(*) AS n FROM sales GROUP BY s_part) ON p_id = s_part WHERE p_size = 7 AND random() < 0.5",
        "SELECT p_id, n FROM (SELECT p_id FROM (SELECT * FROM parts LIMIT 500) WHERE p_size = 7) JOIN (SELECT s_part, count(*) AS n FROM sales GROUP BY s_part) ON p_id = s_part",
        // Keys that may be equal in groups but not in joins.
        "SELECT f, n FROM (SELECT CAST(p_id AS DOUBLE) AS f FROM parts WHERE p_size = 7) JOIN (SELECT s_double, count(*) AS n FROM doubles GROUP BY s_double) ON f = s_double",
        // Totals are groups of all keys.
        "SELECT p_id, n FROM parts JOIN (SELECT s_part, count(*) AS n FROM sales GROUP BY ROLLUP (s_part)) ON p_id = s_part WHERE p_size = 7",
    ];
    let (off, on) = (session("off").await, session("on").await);
    for sql in others {
        let shown = async |ctx| {
            let plan = planned(ctx, sql).await;
            displayable(plan.as_ref()).indent(false).to_string()
        };
        assert_eq!(shown(&off).await, shown(&on).await, "{sql}");
    }
}

/// Such plans run as whole queries on the device, like others.
#[tokio::test]
async fn reduced_aggregates_run_on_the_device() {
    let pair = Pair::new(&[STRICT]);
    for ctx in [&pair.cpu, &pair.gpu] {
        for table in TABLES {
            run(ctx, table).await;
        }
    }
    for sql in &REDUCED[..3] {
        pair.check(sql, true, "reduced").await;
    }
}

/// Keys that are NULL, repeat, or have no match: the answers are those without the reduction.
#[tokio::test]
async fn semijoin_reduction_changes_no_result() {
    let first: u64 = rand::rng().random_range(0..1 << 40);
    for seed in first..first + 25 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let keys = rng.random_range(1..400);
        let rows = *[0, 1, 33, 2000, 20_000].choose(&mut rng).expect("some");
        let tables = [
            format!(
                "CREATE TABLE many AS SELECT CASE WHEN value % 13 = 0 THEN NULL ELSE value * 7 % {keys} END AS k, value % 5 AS j, value % 97 AS v \
                 FROM generate_series(1, {rows})"
            ),
            format!(
                "CREATE TABLE few AS SELECT CASE WHEN value % 11 = 0 THEN NULL ELSE value % {} END AS id, value % 40 AS size, value % 3 AS other \
                 FROM generate_series(1, {})",
                keys + 3,
                rng.random_range(1..300)
            ),
        ];
        let filter = [
            "size = 3",
            "size IN (1, 2) AND other = 1",
            "size = 3 AND id IS NOT NULL",
            "size < 0",
        ]
        .choose(&mut rng)
        .expect("some");
        let aggregate = ["count(*)", "sum(v)", "count(DISTINCT v)", "avg(v)", "max(v)"]
            .choose(&mut rng)
            .expect("some");
        let queries = [
            format!(
                "SELECT id, other, n FROM few JOIN (SELECT k, {aggregate} AS n FROM many GROUP BY k) ON id = k WHERE {filter}"
            ),
            format!(
                "SELECT id, n FROM few JOIN (SELECT k, j, {aggregate} AS n FROM many GROUP BY k, j HAVING count(*) > 1) ON id = k AND other = j WHERE {filter}"
            ),
            format!(
                "SELECT count(*), sum(v) FROM few, many m WHERE id = k AND {filter} AND v < (SELECT {aggregate} FROM many WHERE k = id)"
            ),
            format!(
                "SELECT count(*) FROM many m JOIN (SELECT k, {aggregate} AS n FROM many GROUP BY k) g ON m.k = g.k WHERE m.k IN (SELECT id FROM few WHERE {filter})"
            ),
        ];
        let pair = Pair::new(&[]);
        for ctx in [&pair.cpu, &pair.gpu] {
            for table in &tables {
                run(ctx, table).await;
            }
        }
        for sql in queries {
            run(&pair.gpu, "SET galatea.device = 'cpu'").await;
            let alone = pair.compare(&sql, same).await;
            run(&pair.gpu, "SET galatea.device = 'emulated'").await;
            let placed = pair.compare(&sql, same).await;
            for outcome in [alone, placed] {
                if let Err(difference) = outcome {
                    panic!("seed {seed}\n{}\n{sql}\n{difference}", tables.join(";\n"));
                }
            }
        }
    }
}
