//! ASOF JOIN, and clauses of DuckDB that run on the device as a whole.

use crate::front::Both;

#[tokio::test]
async fn asof_joins_match_the_nearest_row() {
    let both = Both::new();
    both.run("CREATE TABLE l AS SELECT * FROM (VALUES (1, 'a', 5), (2, 'a', 10), (3, 'b', 3), (4, 'b', NULL), (5, NULL, 9), (6, 'c', 1), (7, 'a', 0)) AS v(id, k, ts)").await;
    both.run("CREATE TABLE r AS SELECT * FROM (VALUES ('a', 1, 100), ('a', 7, 101), ('a', 10, 102), ('b', 4, 200), ('b', NULL, 201), (NULL, 1, 300), ('c', 1, NULL)) AS v(k, ts, v)").await;
    for (sql, expected) in [
        (
            "SELECT l.id, r.ts, r.v FROM l ASOF JOIN r ON l.k = r.k AND l.ts >= r.ts ORDER BY id",
            "1 1 100; 2 10 102; 6 1 NULL",
        ),
        (
            "SELECT l.id, r.ts, r.v FROM l ASOF LEFT JOIN r ON l.k = r.k AND l.ts >= r.ts ORDER BY id",
            "1 1 100; 2 10 102; 3 NULL NULL; 4 NULL NULL; 5 NULL NULL; 6 1 NULL; 7 NULL NULL",
        ),
        (
            "SELECT l.id, r.ts, r.v FROM l ASOF JOIN r ON l.k = r.k AND l.ts > r.ts ORDER BY id",
            "1 1 100; 2 7 101",
        ),
        (
            "SELECT l.id, r.ts, r.v FROM l ASOF JOIN r ON l.k = r.k AND l.ts <= r.ts ORDER BY id",
            "1 7 101; 2 10 102; 3 4 200; 6 1 NULL; 7 1 100",
        ),
        (
            "SELECT l.id, r.ts, r.v FROM l ASOF JOIN r ON l.k = r.k AND l.ts < r.ts ORDER BY id",
            "1 7 101; 3 4 200; 7 1 100",
        ),
        (
            "SELECT l.id, r.ts, r.v FROM l ASOF JOIN r ON r.k = l.k AND r.ts < l.ts ORDER BY id",
            "1 1 100; 2 7 101",
        ),
        (
            "SELECT * FROM l ASOF JOIN r USING (k, ts) ORDER BY id",
            "1 a 5 100; 2 a 10 102; 6 c 1 NULL",
        ),
        (
            "SELECT * FROM l ASOF LEFT JOIN r USING (k, ts) ORDER BY id",
            "1 a 5 100; 2 a 10 102; 3 b 3 NULL; 4 b NULL NULL; 5 NULL 9 NULL; 6 c 1 NULL; 7 a 0 NULL",
        ),
        (
            "SELECT l.id, r.v FROM l ASOF JOIN (SELECT * FROM r WHERE v <> 300) AS r ON l.ts >= r.ts ORDER BY id",
            "1 200; 2 102; 3 100; 5 101; 6 100",
        ),
        (
            "SELECT l.id, r.v FROM l ASOF JOIN r ON l.k = r.k AND l.ts + 1 >= r.ts * 1 ORDER BY id",
            "1 100; 2 102; 3 200; 6 NULL; 7 100",
        ),
        (
            "SELECT count(*), sum(r.v) FROM l ASOF JOIN r ON l.k = r.k AND l.ts >= r.ts WHERE l.id < 6",
            "2 202",
        ),
        (
            "SELECT a.id, b.id, r.v FROM l AS a JOIN l AS b ON a.id + 1 = b.id ASOF JOIN r ON b.k = r.k AND b.ts >= r.ts ORDER BY a.id",
            "1 2 102; 5 6 NULL",
        ),
        (
            "SELECT l.id, r.v, x.z FROM l ASOF JOIN r ON l.k = r.k AND l.ts >= r.ts JOIN (VALUES (2, 'two')) AS x(y, z) ON l.id = x.y",
            "2 102 two",
        ),
        (
            "SELECT a.id, r.v, s.v FROM l AS a ASOF JOIN r ON a.k = r.k AND a.ts >= r.ts ASOF LEFT JOIN r AS s ON a.k = s.k AND a.ts < s.ts ORDER BY a.id",
            "1 100 101; 2 102 NULL; 6 NULL NULL",
        ),
        (
            "SELECT a.* FROM (l AS a ASOF JOIN r ON a.k = r.k AND a.ts >= r.ts) ORDER BY id",
            "1 a 5; 2 a 10; 6 c 1",
        ),
        (
            "WITH w AS (SELECT k, ts FROM r WHERE v > 100) SELECT id, w.ts FROM l ASOF JOIN w ON l.k = w.k AND l.ts >= w.ts",
            "2 10",
        ),
        (
            "SELECT l.id, r.v FROM l ASOF JOIN r ON l.k = r.k AND l.ts >= r.ts AND r.v <> 102 ORDER BY id",
            "1 100; 2 101",
        ),
        (
            "SELECT l.id, r.v FROM l ASOF LEFT JOIN r ON l.k = r.k AND l.ts >= r.ts AND l.id > 1 AND true ORDER BY id",
            "1 NULL; 2 102; 3 NULL; 4 NULL; 5 NULL; 6 NULL; 7 NULL",
        ),
        (
            "SELECT l.id, r.v FROM l ASOF JOIN r ON l.k = r.k AND l.ts >= r.ts AND l.k = 'a' AND 1 = 1 ORDER BY id",
            "1 100; 2 102",
        ),
        (
            "SELECT l.id, r.v FROM l ASOF LEFT JOIN r ON l.k IS NOT DISTINCT FROM r.k AND l.ts >= r.ts ORDER BY id",
            "1 100; 2 102; 3 NULL; 4 NULL; 5 300; 6 NULL; 7 NULL",
        ),
        (
            "SELECT count(*) FROM (SELECT * FROM l WHERE false) AS e ASOF LEFT JOIN r ON e.k = r.k AND e.ts >= r.ts",
            "0",
        ),
        (
            "SELECT count(*), count(e.v) FROM l ASOF LEFT JOIN (SELECT * FROM r WHERE false) AS e ON l.k = e.k AND l.ts >= e.ts",
            "7 0",
        ),
    ] {
        both.answers(sql, expected).await;
    }
    // One match for each row, also with rows of one time.
    both.run("INSERT INTO r VALUES ('a', 10, 103), ('a', 1, 104)")
        .await;
    for sql in [
        "SELECT l.id FROM l ASOF JOIN r ON l.k = r.k AND l.ts >= r.ts ORDER BY id",
        "SELECT l.id FROM l ASOF JOIN r ON l.k = r.k AND l.ts <= r.ts AND l.k = r.k WHERE l.id IN (1, 2, 6) ORDER BY id",
    ] {
        both.answers(sql, "1; 2; 6").await;
    }
    for (sql, message) in [
        ("SELECT * FROM l ASOF JOIN r ON l.k = r.k", "has no inequality"),
        (
            "SELECT * FROM l ASOF JOIN r ON l.k = r.k AND l.ts >= r.ts AND l.id <= r.v",
            "has a second inequality",
        ),
        (
            "SELECT * FROM l ASOF JOIN r ON l.k = r.k AND l.ts >= r.ts AND l.id + r.v > 101",
            "does not compare the left table with the right",
        ),
        (
            "SELECT * FROM l ASOF JOIN r ON l.k <> r.k AND l.ts >= r.ts",
            "by the operator <>",
        ),
        (
            "SELECT * FROM l ASOF RIGHT JOIN r ON l.k = r.k AND l.ts >= r.ts",
            "ASOF RIGHT JOIN is not supported",
        ),
        ("SELECT * FROM l ASOF JOIN r", "ASOF JOIN has no condition"),
        (
            "SELECT l.id FROM l ASOF JOIN (SELECT * FROM r LIMIT 2) AS r ON l.k = r.k AND l.ts >= r.ts",
            "right side with LIMIT",
        ),
        (
            "SELECT l.id FROM l ASOF JOIN (SELECT k, random() AS ts FROM r) AS r ON l.k = r.k AND l.ts >= r.ts",
            "random values",
        ),
    ] {
        both.refuses(sql, message).await;
    }
}

/// The rewritten clauses run on the device as a whole.
#[tokio::test]
async fn clauses_run_on_the_device() {
    let ctx = galatea::session()
        .with_emulated_device(galatea::EmulatorOptions::default())
        .with_setting("galatea.device", "emulated")
        .with_setting("galatea.tuning.min_rows", "0")
        .build()
        .expect("a session");
    for table in ["l", "r"] {
        let sql = format!(
            "CREATE TABLE {table} AS SELECT value % 5 AS k, value * 2 AS ts, value AS v FROM generate_series(1, 5000)"
        );
        let frame = galatea::sql(&ctx, &sql).await.expect("a statement");
        frame.collect().await.expect("a table");
    }
    for sql in [
        "SELECT count(*), sum(r.v) FROM l ASOF JOIN r ON l.k = r.k AND l.ts + 1 >= r.ts",
        "SELECT count(*), sum(r.v) FROM l ASOF LEFT JOIN r ON l.k = r.k AND l.ts < r.ts",
        "PIVOT r ON k USING sum(v) GROUP BY ts ORDER BY ALL LIMIT 3",
        "SELECT sum(x) FROM r UNPIVOT (x FOR n IN (ts, v))",
    ] {
        let frame = galatea::sql(&ctx, sql).await.expect(sql);
        let plan = frame.create_physical_plan().await.expect(sql);
        let outline = galatea::outline(&plan, false);
        assert!(outline.contains("GpuExec"), "{sql}\n{outline}");
        for operator in [
            "HashJoinExec",
            "WindowAggExec",
            "AggregateExec",
            "UnionExec",
            "CrossJoinExec",
            "FilterExec",
        ] {
            assert!(!outline.contains(operator), "{sql}\n{outline}");
        }
    }
}
