//! Rows that CPU operators produce below a forced device: expressions that the device does not support run
//! below, and the operators above run on the device.

use crate::compare::Pair;
use crate::joins::text;

/// Queries over a table of a number, a structure and a list.
const QUERIES: &[&str] = &[
    // Fields of structures.
    "SELECT id, s['a'] AS a FROM n ORDER BY s['a'] DESC, id",
    "SELECT s['t'], count(*), sum(s['a']), max(id) FROM n GROUP BY s['t']",
    "SELECT id, row_number() OVER (PARTITION BY c ORDER BY id DESC) FROM (SELECT id, array_length(l) AS c FROM n)",
    "SELECT x.id, y.id FROM n x JOIN n y ON x.s['a'] = y.id WHERE x.id % 3 = 1",
    // Filters.
    "SELECT count(*), sum(id) FROM n WHERE array_has(l, 3)",
    "SELECT id % 5, max(id) FROM n WHERE id % 3 = 0 AND array_length(l) > 1 GROUP BY id % 5",
    "SELECT id, sum(id) OVER (ORDER BY id) FROM n WHERE array_length(l) > 1",
    // Strings that the device cannot compute.
    "SELECT md5(CAST(id % 50 AS VARCHAR)) AS h, id FROM n ORDER BY h, id",
    "SELECT concat(s['t'], CAST(id % 20 AS VARCHAR)) AS c FROM n ORDER BY c DESC",
    // Below aggregates in classes.
    "SELECT median(s['a']), array_agg(s['a'] ORDER BY id) FROM n",
];

async fn pair(rows: usize, settings: &[(&str, &str)]) -> Pair {
    let pair = Pair::new(settings);
    let sql = format!(
        "CREATE TABLE n AS SELECT i AS id,
         named_struct('a', CASE WHEN i % 5 <> 0 THEN i * 7 % 11 END, 't', concat('t', i % 3)) AS s,
         range(i % 4) AS l FROM generate_series(1, {rows}) AS g(i)"
    );
    for ctx in [&pair.cpu, &pair.gpu] {
        let table = ctx.sql(&sql).await.expect("a plan");
        table.collect().await.expect("a table");
    }
    pair
}

#[tokio::test]
async fn forced_device_reads_rows_computed_by_the_cpu() {
    for rows in [0, 1, 31, 32, 33, 900] {
        let pair = pair(rows, &[("galatea.tuning.chunk_rows", "128")]).await;
        for sql in QUERIES {
            pair.check(sql, rows > 0, &format!("{rows} rows")).await;
        }
    }
}

/// EXPLAIN shows the reason for running on the CPU. A plan of only such rows stays there for the same reason.
#[tokio::test]
async fn cpu_reason_names_the_expression() {
    let pair = pair(100, &[]).await;
    for (sql, reason, placed) in [
        (
            "SELECT id, s['a'] AS a FROM n ORDER BY s['a'], id",
            "get_field",
            true,
        ),
        ("SELECT count(*) FROM n WHERE array_has(l, 2)", "array_has", true),
        ("SELECT id FROM n WHERE array_has(l, 2)", "array_has", false),
    ] {
        let plan = text(&pair, &format!("EXPLAIN {sql}")).await;
        assert!(plan.contains(&format!("function {reason}: ")), "{plan}");
        assert_eq!(plan.contains("GpuExec"), placed, "{plan}");
    }
}
