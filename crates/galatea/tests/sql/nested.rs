//! Groups as the input of another pipeline: they stay on the device, for all keys, aggregates and group
//! tables.

use crate::compare::Pair;
use crate::joins::{STRICT, facts, star, text};

/// Aggregates over the groups of other aggregates, joins of groups, groups of joins.
const NESTED: &[&str] = &[
    // The number of groups for each number of rows.
    "SELECT n, count(*) FROM (SELECT number, count(*) AS n FROM f GROUP BY number) GROUP BY n",
    "SELECT n, count(*), sum(s), max(number) FROM (SELECT number, count(v) AS n, sum(m) AS s FROM f GROUP BY number) GROUP BY n",
    // A single group of groups; an aggregate over no groups.
    "SELECT max(s), min(s), count(s), count(*), avg(s) FROM (SELECT day, sum(price) AS s FROM f GROUP BY day)",
    "SELECT max(s), count(*) FROM (SELECT day, sum(price) AS s FROM f WHERE v < -100 GROUP BY day)",
    // Keys of every kind, including NULL, are passed through.
    "SELECT text, count(*), sum(n) FROM (SELECT text, number, count(*) AS n FROM f GROUP BY text, number) GROUP BY text",
    "SELECT number, day, count(*) FROM (SELECT text, number, day FROM f GROUP BY text, number, day) GROUP BY number, day",
    "SELECT price, count(v), min(v) FROM (SELECT price, v FROM f GROUP BY price, v) GROUP BY price",
    "SELECT b, count(*), max(t) FROM (SELECT v > 50 AS b, text AS t, m FROM f GROUP BY v > 50, text, m) GROUP BY b",
    "SELECT count(*), sum(w) FROM (SELECT CAST(v AS DOUBLE) / 4 AS w, m FROM f GROUP BY CAST(v AS DOUBLE) / 4, m)",
    "SELECT count(*), sum(k) FROM (SELECT v * 1000003 * 1000003 AS k, price * price AS p FROM f GROUP BY v * 1000003 * 1000003, price * price)",
    // Aggregates of every kind are finalised when they are read.
    "SELECT sum(a), sum(d), max(t), min(u), count(a), max(x), min(y) FROM
     (SELECT number, avg(price) AS a, avg(CAST(v AS DOUBLE)) AS d, max(text) AS t, min(text) AS u, max(CAST(m AS DOUBLE)) AS x, min(CAST(m AS REAL)) AS y
      FROM f GROUP BY number)",
    "SELECT t, count(*) FROM (SELECT number, max(text) FILTER (WHERE v > 700) AS t, min(text) FILTER (WHERE v > 900) AS u FROM f GROUP BY number) GROUP BY t, u",
    "SELECT s % 7, count(*) FROM (SELECT day, sum(v) AS s FROM f GROUP BY day) WHERE s > 100 GROUP BY s % 7",
    // COUNT(DISTINCT) is planned as groups of groups.
    "SELECT number, count(DISTINCT text) FROM f GROUP BY number",
    "SELECT count(DISTINCT day) FROM f",
    // Three levels.
    "SELECT c, count(*) FROM (SELECT n, count(*) AS c FROM (SELECT number, count(*) AS n FROM f GROUP BY number) GROUP BY n) GROUP BY c",
    // Groups probe other tables, and are filtered by them.
    "SELECT n.name, sum(g.c) FROM (SELECT number, text, count(*) AS c FROM f GROUP BY number, text) g JOIN n ON g.number = n.k GROUP BY n.name",
    "SELECT text, count(*), sum(price) FROM f GROUP BY text HAVING count(*) > 3 AND sum(v) > 10",
    "SELECT count(*), sum(c) FROM (SELECT number, count(*) AS c FROM f GROUP BY number) g WHERE number IN (SELECT k FROM n WHERE size > 1000)",
    // COUNT(DISTINCT) together with other aggregates.
    "SELECT number, sum(v), count(*) AS c, avg(CAST(v AS DOUBLE)), count(DISTINCT text) FROM f GROUP BY number",
    "SELECT text, count(DISTINCT number), min(text), max(day), count(v), count(DISTINCT number) + 1, min(DISTINCT v) FROM f GROUP BY text",
    "SELECT count(*), count(DISTINCT text), count(v) FILTER (WHERE m > 3), avg(CAST(v AS DOUBLE)), sum(v) FROM f",
    "SELECT day, count(*) AS c, count(DISTINCT v) FROM f GROUP BY day HAVING count(*) > 1 ORDER BY c DESC, day LIMIT 4",
    "SELECT v % 3 AS k, avg(CAST(m AS DOUBLE)), count(DISTINCT v % 5), count(*) FROM f GROUP BY v % 3",
    // Aggregates of bits and booleans.
    "SELECT a, o, x, t, e, count(*), sum(number) FROM
     (SELECT number, bit_and(v) AS a, bit_or(v) AS o, bit_xor(m) AS x, bool_and(m > 3) AS t, bool_or(v > 900) AS e FROM f GROUP BY number)
     GROUP BY a, o, x, t, e",
    // Other DISTINCT aggregates, also with a filter.
    "SELECT number, sum(DISTINCT v), count(DISTINCT v), max(v), count(*) FROM f GROUP BY number",
    "SELECT number, avg(DISTINCT v), count(DISTINCT CAST(v AS DOUBLE)), sum(m) FROM f GROUP BY number",
    "SELECT sum(DISTINCT price), avg(DISTINCT price), bit_xor(m), bool_and(v > 1) FROM f",
    "SELECT text, count(DISTINCT v), bit_or(DISTINCT v), bool_or(DISTINCT v > 800), sum(m) FROM f GROUP BY text",
    "SELECT number, count(DISTINCT v) FILTER (WHERE m > 3), sum(DISTINCT v) FILTER (WHERE m > 3), count(*), sum(v) FILTER (WHERE m < 9) FROM f GROUP BY number",
    // Rollups over joins, and expressions over them.
    "SELECT n.name, f.number % 5 AS m, sum(f.v), count(*), grouping(n.name), stddev_samp(f.v)
     FROM f JOIN n ON f.number = n.k GROUP BY ROLLUP (n.name, f.number % 5)",
    "SELECT level, count(*), sum(s) FROM
     (SELECT text, number, grouping(text) + grouping(number) AS level, sum(v) AS s FROM f GROUP BY CUBE (text, number)) GROUP BY level",
    // Windows, joins and unions of rollups, and rollups of rollups.
    "SELECT text, m, s, rk FROM (SELECT text, number % 7 AS m, sum(v) AS s, rank() OVER (PARTITION BY text ORDER BY sum(v) DESC) AS rk
     FROM f GROUP BY ROLLUP (text, number % 7)) WHERE rk <= 3",
    "SELECT n.name, count(*), sum(r.s) FROM (SELECT number, day, sum(v) AS s FROM f GROUP BY GROUPING SETS ((number, day), (number), (day), ())) r
     JOIN n ON r.number = n.k GROUP BY n.name",
    "SELECT text, count(*), sum(s) FROM (SELECT text, number % 5 AS m, sum(v) AS s FROM f GROUP BY CUBE (text, number % 5)
     UNION ALL SELECT text, m, sum(v) FROM f GROUP BY text, m) GROUP BY ROLLUP (text)",
    // Results that only the host computes are filtered and grouped as rows.
    "SELECT number, stddev(v) FROM f GROUP BY number HAVING stddev(v) > 10",
    "SELECT d > 100, count(*) FROM (SELECT number, stddev_pop(v) AS d FROM f GROUP BY number) GROUP BY d > 100",
    // Sums that share accumulators.
    "SELECT sum(a), max(b - a), min(b) FROM (SELECT number, sum(v - 7) AS a, sum(v + 2) AS b FROM f GROUP BY number)",
];

#[tokio::test]
async fn pipelines_read_groups_of_other_pipelines() {
    for (rows, seed) in [(0, 1), (1, 2), (32, 3), (33, 4), (3000, 5)] {
        let pair = Pair::new(&[STRICT, ("galatea.tuning.chunk_rows", "1000")]);
        star(&pair, rows, seed);
        for sql in NESTED {
            pair.check(sql, false, &format!("{rows} rows, seed {seed}")).await;
        }
    }
}

/// Groups can be read in place from every kind of group table.
#[tokio::test]
async fn groups_are_read_in_place_from_every_group_table() {
    let settings: &[&[(&str, &str)]] = &[
        &[("galatea.aggregate.strategy", "hash")],
        &[
            ("galatea.aggregate.strategy", "hash"),
            ("galatea.debug.collide_hashes", "true"),
        ],
        // The table grows, and rows overflow into heap pages.
        &[
            ("galatea.aggregate.strategy", "hash"),
            ("galatea.tuning.hash_slots", "64"),
            ("galatea.tuning.block_threads", "32"),
        ],
        &[("galatea.aggregate.strategy", "copies")],
        &[("galatea.aggregate.strategy", "dense")],
        &[("galatea.aggregate.replicas", "4")],
        &[
            ("galatea.tuning.rows_per_thread", "1"),
            ("galatea.tuning.block_threads", "32"),
        ],
    ];
    for settings in settings {
        let pair = Pair::new(settings);
        star(&pair, 2500, 11);
        for sql in NESTED {
            pair.check(sql, false, &format!("{settings:?}")).await;
        }
    }
}

/// One node: the inner groups never leave the device.
#[tokio::test]
async fn nested_aggregates_run_as_one_graph() {
    let pair = Pair::new(&[STRICT]);
    pair.table("f", &[facts(5000, 6)]);
    for (sql, pipelines) in [(NESTED[0], 1), (NESTED[13], 1), (NESTED[15], 2)] {
        let plan = text(&pair, &format!("EXPLAIN {sql}")).await;
        assert_eq!(plan.matches("GpuExec").count(), 1, "{plan}");
        assert_eq!(plan.matches("built by").count(), pipelines, "{plan}");
        assert!(plan.contains("source=groups d0"), "{plan}");
    }
}

/// Groups that are read later are evicted like other memory of a query.
#[tokio::test]
async fn nested_aggregates_match_the_cpu_in_little_memory() {
    for limit in ["300 KiB", "600 KiB", "2 MiB"] {
        let pair = Pair::new(&[
            ("galatea.memory.gpu_limit", limit),
            ("galatea.tuning.chunk_rows", "500"),
            ("galatea.tuning.block_threads", "32"),
        ]);
        star(&pair, 5000, 12);
        for sql in NESTED {
            pair.check(sql, false, limit).await;
        }
    }
}

/// Subqueries that return a constant, which is known only at run time.
const SCALARS: &[&str] = &[
    "SELECT count(*), sum(price) FROM f WHERE v > (SELECT avg(v) FROM f)",
    "SELECT day, sum(v) FROM f GROUP BY day HAVING sum(v) > (SELECT sum(v) * 0.01 FROM f)",
    "SELECT count(*) FROM f WHERE price < (SELECT avg(price) FROM f WHERE price > 0) AND number > (SELECT min(k) + 3 FROM n)",
    // Without a row, the result is NULL.
    "SELECT count(*) FROM f WHERE v > (SELECT max(v) FROM f WHERE v < -1000)",
    "SELECT v, (SELECT v FROM f WHERE v = -900) AS none FROM f WHERE v < 3",
    "SELECT sum(CASE WHEN m > (SELECT avg(m) FROM f) THEN v ELSE 0 END) FROM f",
    "SELECT n.k, r.s FROM n, (SELECT number, sum(v) AS s FROM f GROUP BY number) r WHERE n.k = r.number
     AND r.s = (SELECT max(s) FROM (SELECT number, sum(v) AS s FROM f GROUP BY number))",
    // The error is DataFusion's.
    "SELECT count(*) FROM f WHERE v > (SELECT v FROM f WHERE v < 10)",
];

#[tokio::test]
async fn scalar_subqueries_are_run_time_constants() {
    for (rows, seed) in [(0, 1), (1, 2), (33, 4), (3000, 5)] {
        let pair = Pair::new(&[STRICT, ("galatea.tuning.chunk_rows", "1000")]);
        star(&pair, rows, seed);
        for sql in SCALARS {
            // Two runs: cached pipelines run with other constants.
            for _ in 0..2 {
                pair.check(sql, false, &format!("{rows} rows, seed {seed}")).await;
            }
        }
    }
    let pair = Pair::new(&[STRICT]);
    star(&pair, 1000, 6);
    let count = "SELECT count(*) FROM f WHERE v > (SELECT max(v) / 2 FROM f WHERE v < 100)";
    pair.check(count, true, "before").await;
    let other = "SELECT count(*) FROM f WHERE v > (SELECT max(v) / 2 FROM f WHERE v < 500)";
    pair.check(other, true, "with another constant").await;
}

/// Joins with many matches per row, below aggregates.
const MANY_PARTNERS: &[&str] = &[
    "SELECT n.k, count(f.v), count(*), sum(f.price), max(f.text), min(f.day) FROM n LEFT JOIN f ON n.k = f.number GROUP BY n.k",
    "SELECT n.name, count(f.v), count(*), sum(f.m) FROM n LEFT JOIN f ON n.k = f.number AND f.v % 3 = 0 GROUP BY n.name",
    "SELECT n.k, count(f.m), sum(f.v) FROM n, f WHERE n.k = f.number AND f.text LIKE '%3%' AND n.size > 0 GROUP BY n.k",
    "SELECT c, count(*) FROM (SELECT n.k, count(f.v) AS c FROM f RIGHT JOIN n ON n.k = f.number GROUP BY n.k) GROUP BY c",
    "SELECT n.open, n.name, sum(f.v), max(f.m) FROM n LEFT JOIN f ON n.k = f.number GROUP BY n.open, n.name",
];

/// Outer joins with rows without a match.
const WITHOUT_PARTNER: &[&str] = &[
    "SELECT n.k, sum(CASE WHEN f.v IS NULL THEN 1 ELSE 0 END), count(coalesce(f.m, 7)) FROM n LEFT JOIN f ON n.k = f.number GROUP BY n.k",
    "SELECT n.open, sum(f.v * 2 + f.m), count(1) FROM n LEFT JOIN f ON n.k = f.number GROUP BY n.open",
    "SELECT n.k, min(CAST(substr(f.text, 1, 4) AS INT)) FROM n LEFT JOIN f ON n.k = f.number AND f.text LIKE '9%' GROUP BY n.k",
];

#[tokio::test]
async fn aggregates_over_joins_with_many_matches_agree() {
    for (rows, seed) in [(33, 4), (3000, 5)] {
        let pair = Pair::new(&[("galatea.tuning.chunk_rows", "1000")]);
        star(&pair, rows, seed);
        for sql in MANY_PARTNERS.iter().chain(WITHOUT_PARTNER) {
            pair.check(sql, false, &format!("{rows} rows, seed {seed}")).await;
        }
    }
    let pair = Pair::new(&[STRICT]);
    star(&pair, 5000, 7);
    for sql in MANY_PARTNERS {
        pair.check(sql, true, "5000 rows of 120 keys").await;
        let report = galatea::last_query_report(&pair.gpu).expect("a report");
        assert_eq!(report.fell_back, 0, "{sql}\n{:?}", report.reasons);
    }
}

/// String constants among the columns of groups and of returned rows.
const CONSTANT_STRINGS: &[&str] = &[
    "SELECT x.channel, y.channel, x.number, x.s, y.n FROM
     (SELECT 'store' AS channel, number, sum(v) AS s FROM f GROUP BY number HAVING sum(v) > 10) x JOIN
     (SELECT 'web' AS channel, number, count(*) AS n FROM f GROUP BY number) y ON x.number = y.number",
    "SELECT g.channel, g.number, n.name FROM (SELECT 'store' AS channel, number, count(*) AS c FROM f GROUP BY number) g
     JOIN n ON g.number = n.k WHERE g.c > 1",
    "SELECT 'a', v, CAST(NULL AS VARCHAR) FROM f WHERE v > 500",
    // Build sides contain them, with one row and with several rows per key.
    "SELECT x.channel, y.channel, x.number, y.s FROM
     (SELECT 'store' AS channel, number, text, sum(v) AS s FROM f GROUP BY number, text HAVING sum(v) > 10) x JOIN
     (SELECT 'web' AS channel, number, text, sum(v) AS s FROM f GROUP BY number, text HAVING count(*) > 1) y ON x.number = y.number",
    "SELECT f.v, y.channel, y.s FROM f JOIN (SELECT 'web' AS channel, number, sum(v) AS s FROM f GROUP BY number) y
     ON f.number = y.number WHERE f.v > 600",
];

#[tokio::test]
async fn string_constants_are_returned() {
    let pair = Pair::new(&[STRICT]);
    star(&pair, 5000, 11);
    for sql in CONSTANT_STRINGS {
        pair.check(sql, true, "5000 rows").await;
        let report = galatea::last_query_report(&pair.gpu).expect("a report");
        assert_eq!(report.fell_back, 0, "{sql}\n{:?}", report.reasons);
    }
}
