//! Recursive queries: each step runs its term anew, on the device if that is forced.

use crate::compare::Pair;
use crate::joins::{STRICT, text};
use datafusion::arrow::array::{ArrayRef, Int32Array, RecordBatch, StringArray};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::sync::Arc;

/// Edges of a random graph of `nodes` nodes, which has cycles. A ninth starts or ends at no node.
fn edges(rows: usize, nodes: i32, seed: u64) -> RecordBatch {
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut node = || (rng.random_range(0..9) > 0).then(|| rng.random_range(0..nodes));
    let (from, to): (Vec<_>, Vec<_>) = (0..rows).map(|_| (node(), node())).unzip();
    let names = from
        .iter()
        .map(|from| from.map(|from| format!("node {}", from % 7)));
    let columns: [(&str, ArrayRef, bool); 4] = [
        ("src", Arc::new(Int32Array::from(from.clone())), true),
        ("dst", Arc::new(Int32Array::from(to)), true),
        ("weight", Arc::new((0..rows as i32).collect::<Int32Array>()), true),
        ("name", Arc::new(names.collect::<StringArray>()), true),
    ];
    RecordBatch::try_from_iter_with_nullable(columns).expect("one length")
}

/// Queries over edges `e`.
const QUERIES: &[&str] = &[
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40) SELECT count(*), sum(i) FROM n",
    // Steps with many rows, few, and none.
    "WITH RECURSIVE r(node, depth) AS (SELECT 0, 0 UNION ALL SELECT e.dst, r.depth + 1 FROM r JOIN e ON e.src = r.node WHERE r.depth < 4)
         SELECT depth, node, count(*) FROM r GROUP BY depth, node",
    "WITH RECURSIVE r(node, depth) AS (SELECT -1, 0 UNION ALL SELECT e.dst, r.depth + 1 FROM r JOIN e ON e.src = r.node WHERE r.depth < 4)
         SELECT * FROM r",
    "WITH RECURSIVE r(node) AS (SELECT dst FROM e WHERE weight < 0 UNION ALL SELECT e.dst FROM r JOIN e ON e.src = r.node) SELECT * FROM r",
    // UNION terminates in a graph with cycles.
    "WITH RECURSIVE r(node) AS (SELECT 0 UNION SELECT e.dst FROM r JOIN e ON e.src = r.node) SELECT node FROM r",
    "WITH RECURSIVE r(node) AS (SELECT src FROM e WHERE weight < 3 UNION SELECT e.dst FROM r JOIN e ON e.src = r.node WHERE e.weight % 2 = 0)
         SELECT count(*), sum(node), count(node) FROM r",
    // The rows of a step as a build side, rows with and without a match, strings and groups.
    "WITH RECURSIVE r(node, depth) AS (SELECT 0, 0 UNION ALL
           SELECT DISTINCT e.dst, r.depth + 1 FROM e LEFT JOIN r ON e.src = r.node WHERE r.depth < 5 AND e.dst IS NOT NULL)
         SELECT * FROM r",
    "WITH RECURSIVE r(name, depth) AS (SELECT 'node 1', 0 UNION ALL
           SELECT max(e.name), max(r.depth) + 1 FROM r JOIN e ON e.name <> r.name WHERE r.depth < 6 GROUP BY e.dst % 3)
         SELECT name, depth, count(*) FROM r GROUP BY name, depth",
    "WITH RECURSIVE r(node, depth) AS (SELECT 0, 0 UNION ALL
           SELECT r.node + 1, r.depth + 1 FROM r WHERE r.depth < 9 AND EXISTS (SELECT 1 FROM e WHERE e.src = r.node AND e.dst <> r.node))
         SELECT * FROM r",
    "WITH RECURSIVE r(node, place) AS (SELECT 0, CAST(0 AS BIGINT UNSIGNED) UNION ALL
           SELECT dst, place FROM (SELECT e.dst, row_number() OVER (ORDER BY e.weight) AS place, r.place AS before FROM r JOIN e ON e.src = r.node)
           WHERE place <= 3 AND before < 2)
         SELECT node, place FROM r LIMIT 100000",
    // A recursive query inside another.
    "WITH RECURSIVE a(i, k) AS (SELECT 1, 1 UNION ALL SELECT i + 1, e.dst % 3 FROM a JOIN e ON e.weight = a.i WHERE i < 12)
         SELECT * FROM (WITH RECURSIVE b(j) AS (SELECT i FROM a UNION ALL SELECT j + 20 FROM b WHERE j < 70) SELECT j, count(*) FROM b GROUP BY j)",
];

#[tokio::test]
async fn recursive_queries_match_the_cpu() {
    for (rows, nodes, seed) in [(0, 5, 1), (1, 1, 2), (33, 6, 3), (150, 40, 4), (700, 300, 5)] {
        for settings in [&[][..], &[("galatea.tuning.build_rows", "0")][..]] {
            let pair = Pair::new(settings);
            pair.table("e", &[edges(rows, nodes, seed)]);
            for sql in QUERIES {
                pair.check(sql, rows > 1, &format!("{rows} rows, seed {seed}, {settings:?}"))
                    .await;
            }
        }
    }
}

/// The term is a GPU subtree, and the CPU iterates over the steps.
#[tokio::test]
async fn recursive_term_runs_on_the_device() {
    let pair = Pair::new(&[STRICT]);
    pair.table("e", &[edges(500, 100, 6)]);
    let sql = "WITH RECURSIVE r(node) AS (SELECT 0 UNION ALL SELECT e.dst FROM r JOIN e ON e.src = r.node WHERE e.src < e.dst) SELECT node FROM r";
    let plan = text(&pair, &format!("EXPLAIN {sql}")).await;
    let (_, term) = plan.split_once("RecursiveQueryExec").expect("a recursive query");
    assert!(
        term.contains("GpuExec") && !term.contains("HashJoinExec"),
        "{plan}"
    );
    pair.check(sql, true, "a recursive term").await;
    let report = galatea::last_query_report(&pair.gpu).expect("a query ran");
    assert_eq!(report.fell_back, 0, "{report:?}");
}

/// If a step does not run on the device, the CPU reads the same rows.
#[tokio::test]
async fn recursive_steps_can_fall_back() {
    let mut fell_back = 0;
    for limit in ["8 KiB", "40 KiB", "100 KiB", "1 MiB"] {
        let pair = Pair::new(&[
            ("galatea.memory.gpu_limit", limit),
            ("galatea.tuning.chunk_rows", "100"),
        ]);
        pair.table("e", &[edges(900, 250, 7)]);
        for sql in QUERIES {
            pair.check(sql, false, limit).await;
            let report = galatea::last_query_report(&pair.gpu).expect("a query ran");
            fell_back += report.fell_back;
        }
    }
    assert!(fell_back > 0, "no step fell back");
}
