//! Build sides that pipelines build: for all kinds of columns, keys and memory, queries return the CPU's
//! answers.

use crate::compare::{Pair, answer, same};
use crate::joins::{PIPELINES, STRICT, dimension, facts, star, text};
use datafusion::arrow::array::{
    ArrayRef, BooleanArray, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray,
};
use datafusion::arrow::compute::take;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::physical_plan::collect;
use galatea::QueryDevice;
use galatea_engine::nodes::GpuExec;
use galatea_engine::report::RunReport;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::sync::Arc;

/// Forces every build side onto the device that can be built there.
pub(crate) const BUILT: (&str, &str) = ("galatea.tuning.build_rows", "0");

/// A chain of tables: `l` (many rows per key of `o`), `o` (sparse keys), `c` (few rows).
pub(crate) fn chain(pair: &Pair, rows: i64, seed: u64) {
    let mut rng = SmallRng::seed_from_u64(seed);
    let orders = (rows / 4).max(1);
    let keys: Vec<i64> = (0..orders).map(|order| order * 4 + order % 3 - 1000).collect();
    let customers = (orders / 10).max(1);
    let mut column = |of: &mut dyn FnMut(&mut SmallRng) -> Option<i64>, rows: i64| -> ArrayRef {
        Arc::new((0..rows).map(|_| of(&mut rng)).collect::<Int64Array>())
    };
    let some =
        |rng: &mut SmallRng, high: i64| (rng.random_range(0..12) > 0).then(|| rng.random_range(0..high));
    let line_keys = column(
        &mut |rng| Some(keys[rng.random_range(0..keys.len())] + i64::from(rng.random_range(0..9) == 0)),
        rows,
    );
    let prices = column(&mut |rng| some(rng, 1_000_000_007), rows);
    let dates = column(&mut |rng| some(rng, 900), rows);
    let l = RecordBatch::try_from_iter_with_nullable([
        ("k", line_keys, true),
        ("price", prices, true),
        ("day", dates, true),
    ]);
    pair.table("l", &[l.expect("one length")]);
    let owners = column(&mut |rng| some(rng, customers + 3), orders);
    let days = column(&mut |rng| some(rng, 900), orders);
    let own: ArrayRef = Arc::new(Int64Array::from(keys));
    let o = RecordBatch::try_from_iter_with_nullable([
        ("k", own, true),
        ("c", owners, true),
        ("day", days, true),
    ]);
    pair.table("o", &[o.expect("one length")]);
    let numbers = Int32Array::from_iter_values(0..customers as i32);
    pair.table("c", &[dimension("k", Arc::new(numbers), seed + 1)]);
}

pub(crate) const CHAINS: &[&str] = &[
    "SELECT count(*), sum(l.price) FROM l, o WHERE l.k = o.k",
    "SELECT l.k, o.day, sum(l.price) FROM l, o WHERE l.k = o.k AND o.day < 500 AND l.day > 300 GROUP BY l.k, o.day",
    "SELECT c.name, count(*), sum(l.price), max(o.day) FROM l, o, c WHERE l.k = o.k AND o.c = c.k AND c.open GROUP BY c.name",
    "SELECT l.k, o.day, c.weight, c.paid FROM l, o, c WHERE l.k = o.k AND o.c = c.k AND l.price < 20000000",
    "SELECT count(*), sum(o.day) FROM o WHERE EXISTS (SELECT * FROM l WHERE l.k = o.k AND l.price > 900000000)",
    "SELECT count(*), sum(o.day) FROM o WHERE NOT EXISTS (SELECT * FROM l WHERE l.k = o.k)",
    "SELECT count(*) FROM l WHERE l.k IN (SELECT o.k FROM o, c WHERE o.c = c.k AND c.size > 1000)",
    "SELECT o.day, count(*) FROM l, o WHERE l.k = o.k AND l.day < o.day GROUP BY o.day",
    "SELECT count(*), count(o.day), sum(o.c) FROM l LEFT JOIN o ON l.k = o.k AND o.day < 450",
    // Rows with equal keys that differ in a column.
    "SELECT count(*), sum(a.price) FROM l a WHERE EXISTS (SELECT * FROM l b WHERE b.k = a.k AND b.day <> a.day)",
    "SELECT count(*), sum(a.price) FROM l a WHERE a.day > 200 AND NOT EXISTS (SELECT * FROM l b WHERE b.k = a.k AND b.day <> a.day AND b.price > 500000000)",
    "SELECT a.k, a.day FROM l a WHERE a.price > 900000000 AND EXISTS (SELECT * FROM l b WHERE b.k = a.k AND a.day <> b.day)
     AND NOT EXISTS (SELECT * FROM l c WHERE c.k = a.k AND c.day <> a.day AND c.price < 100000000)",
    // Groups as build sides.
    "SELECT g.n, count(*), sum(o.day) FROM o LEFT JOIN (SELECT k, count(*) n FROM l WHERE day > 100 GROUP BY k) g ON o.k = g.k GROUP BY g.n",
    "SELECT count(*), sum(o.day), sum(g.s), max(g.d), min(g.p), sum(g.n) FROM o,
     (SELECT k, sum(price) s, count(day) n, max(day) d, min(price) p FROM l WHERE price > 1000 GROUP BY k) g
     WHERE o.k = g.k AND g.n > 1",
    "SELECT o.day, g.s, g.d + 1 AS d FROM o, (SELECT k, sum(price) s, max(day) d FROM l GROUP BY k HAVING sum(price) > 2500000000) g WHERE o.k = g.k",
    "SELECT count(*), sum(l.price) FROM l, (SELECT k, avg(CAST(price AS DECIMAL(12, 2))) a, avg(CAST(day AS DOUBLE)) b FROM l GROUP BY k) g
     WHERE l.k = g.k AND CAST(l.price AS DECIMAL(12, 2)) < 0.3 * g.a AND l.day > g.b / 2",
    "SELECT l.k, o.day, sum(l.price) FROM l, o WHERE l.k = o.k AND o.k IN (SELECT k FROM l GROUP BY k HAVING count(*) > 6) GROUP BY l.k, o.day",
    "SELECT count(*), sum(l.price) FROM l, (SELECT k, max(day) AS day FROM l WHERE price > 1000 GROUP BY k) g WHERE l.k = g.k AND l.day = g.day",
    "SELECT count(*) FROM o WHERE NOT EXISTS (SELECT k, sum(price) FROM l WHERE l.k = o.k GROUP BY k)",
    "SELECT c.k, g.n, g.w FROM c, (SELECT c.k, max(c.name) AS w, count(*) AS n FROM o, c WHERE o.c = c.k GROUP BY c.k) g WHERE c.k = g.k AND g.n > 3",
];

/// Pairs of keys. One key of each pair is unique.
#[tokio::test]
async fn multi_key_joins_look_up_by_one_key() {
    let pair = Pair::new(&[STRICT, BUILT]);
    chain(&pair, 4000, 9);
    for sql in [
        "SELECT count(*), sum(l.price) FROM l, o WHERE l.k = o.k AND l.day = o.day",
        "SELECT o.c, count(*) FROM l JOIN o ON l.k = o.k AND l.day = o.day GROUP BY o.c",
        "SELECT count(*) FROM l WHERE EXISTS (SELECT * FROM o WHERE l.k = o.k AND l.day = o.day)",
        "SELECT l.k, l.day, o.c FROM l LEFT JOIN o ON l.k = o.k AND l.day = o.day WHERE l.price < 90000000",
        "SELECT count(*) FROM o WHERE NOT EXISTS (SELECT * FROM l WHERE l.k = o.k AND l.day = o.day)",
    ] {
        pair.check(sql, false, "two keys").await;
    }
}

/// A table that CPU operators collect for a build side, and another that they collect for the pipeline above
/// it. Each stays with its join when the plan is copied or its children are replaced.
#[tokio::test]
async fn collected_build_sides_survive_plan_copies() {
    let pair = Pair::new(&[STRICT, ("galatea.tuning.build_rows", "900")]);
    chain(&pair, 4000, 17);
    for sql in [
        "SELECT c.name, d.size, sum(l.price) FROM l, o, c, c d WHERE l.k = o.k AND o.c = c.k AND l.day = d.k GROUP BY c.name, d.size",
        "SELECT c.name, d.size, sum(l.price) AS s FROM l, o, c, c d WHERE l.k = o.k AND o.c = c.k AND c.size = d.k
         GROUP BY c.name, d.size ORDER BY s DESC, c.name LIMIT 7",
    ] {
        for run in ["first run", "second run"] {
            pair.check(sql, false, run).await;
        }
    }
}

/// Keys that are unique only together, and keys too sparse for arrays, are stored in a hash table.
#[tokio::test]
async fn sparse_build_keys_use_a_hash_table() {
    for (rows, chunk) in [(1, "1000"), (33, "7"), (5000, "1000"), (40_000, "1000")] {
        let pair = Pair::new(&[STRICT, BUILT, ("galatea.tuning.chunk_rows", chunk)]);
        let many = |of: fn(i64) -> Option<i64>, rows: i64| -> ArrayRef {
            Arc::new((0..rows).map(of).collect::<Int64Array>())
        };
        // (a, b) is unique, a and b alone are not; far is unique and spread over 63 bits.
        let a = many(|row| Some(row / 4 * 1_000_003 - 5_000_000), rows);
        let b = many(|row| Some(row % 4 * 77_777 + row / 4 % 50), rows);
        let far = many(|row| Some((row * 0x1234_5678_9abc) ^ (row << 40)), rows);
        let v = many(|row| (row % 7 > 0).then_some(row * 3), rows);
        let columns = [("a", a, true), ("b", b, true), ("far", far, true), ("v", v, true)];
        pair.table(
            "s",
            &[RecordBatch::try_from_iter_with_nullable(columns).expect("one length")],
        );
        let a = many(
            |row| (row % 11 > 0).then_some(row % 30_000 / 4 * 1_000_003 - 5_000_000),
            2 * rows,
        );
        let b = many(
            |row| (row % 13 > 0).then_some(row % 5 * 77_777 + row % 30_000 / 4 % 50),
            2 * rows,
        );
        let far = many(
            |row| (row % 3 > 0).then_some((row * 0x1234_5678_9abc) ^ (row << 40)),
            2 * rows,
        );
        let w = many(Some, 2 * rows);
        let columns = [("a", a, true), ("b", b, true), ("far", far, true), ("w", w, true)];
        pair.table(
            "f",
            &[RecordBatch::try_from_iter_with_nullable(columns).expect("one length")],
        );
        for sql in [
            "SELECT count(*), sum(f.w), sum(s.v), count(s.v) FROM f, s WHERE f.a = s.a AND f.b = s.b",
            "SELECT s.b, sum(s.v), max(f.w) FROM f, s WHERE f.a = s.a AND f.b = s.b AND s.v % 2 = 0 GROUP BY s.b",
            "SELECT count(*), sum(s.v), sum(s.a) FROM f, s WHERE f.far = s.far",
            "SELECT f.w, s.v, s.far FROM f LEFT JOIN s ON f.far = s.far",
            "SELECT count(*) FROM f WHERE NOT EXISTS (SELECT * FROM s WHERE s.far = f.far AND s.v > 100)",
            "SELECT count(*) FROM f WHERE f.a IN (SELECT a FROM s WHERE v > 100)",
        ] {
            pair.check(sql, false, &format!("{rows} rows")).await;
        }
    }
}

#[tokio::test]
async fn star_joins_with_device_build_sides_match_the_cpu() {
    for settings in [
        &[STRICT, BUILT][..],
        &[
            STRICT,
            BUILT,
            ("galatea.tuning.chunk_rows", "33"),
            ("galatea.cache.device", "false"),
            ("galatea.tuning.block_threads", "32"),
        ],
        &[BUILT, ("galatea.memory.gpu_limit", "4 KiB")],
    ] {
        let pair = Pair::new(settings);
        star(&pair, 700, 21);
        for sql in PIPELINES {
            pair.check(sql, false, &format!("{settings:?}")).await;
        }
    }
}

#[tokio::test]
async fn join_chains_become_pipeline_graphs() {
    for (rows, seed) in [(1, 1), (31, 2), (33, 3), (2000, 4), (20_000, 5)] {
        let pair = Pair::new(&[STRICT, BUILT, ("galatea.tuning.chunk_rows", "1000")]);
        chain(&pair, rows, seed);
        for sql in CHAINS {
            pair.check(sql, false, &format!("{rows} rows, seed {seed}")).await;
        }
    }
    let pair = Pair::new(&[STRICT, BUILT]);
    chain(&pair, 5000, 6);
    let plan = text(&pair, &format!("EXPLAIN {}", CHAINS[2])).await;
    assert_eq!(plan.matches("GpuExec").count(), 1, "{plan}");
    assert_eq!(plan.matches("built by").count(), 2, "{plan}");
}

#[tokio::test]
async fn only_large_build_sides_are_built_on_the_device() {
    let pair = Pair::new(&[STRICT]);
    chain(&pair, 400_000, 7);
    let plan = text(&pair, &format!("EXPLAIN {}", CHAINS[2])).await;
    assert_eq!(plan.matches("built by").count(), 1, "{plan}");
    pair.check(CHAINS[2], true, "400000 rows").await;
}

/// A build side that a pipeline could not build is remembered. From then on it is collected, or the join runs
/// on the CPU.
#[tokio::test]
async fn refused_build_side_does_not_fall_back_again() {
    let pair = Pair::new(&[BUILT]);
    pair.table("f", &[facts(3000, 4)]);
    let keys: ArrayRef = Arc::new(Int32Array::from_iter_values((0..900).map(|row| row % 50)));
    pair.table("n", &[dimension("k", keys, 5)]);
    let spread: ArrayRef = Arc::new(Int64Array::from_iter_values(
        (0..900).map(|row| i64::from(row) * (1 << 50)),
    ));
    pair.table("s", &[dimension("k", spread, 6)]);
    for sql in [
        "SELECT n.name, count(*), sum(f.v) FROM f JOIN n ON f.number = n.k GROUP BY n.name",
        "SELECT count(*), sum(s.size) FROM f JOIN s ON f.v = s.k",
    ] {
        for run in 0..3 {
            let context = format!("run {run}");
            let expected = answer(&pair.cpu, sql).await;
            let actual = answer(&pair.gpu, sql).await;
            same(&expected, &actual).unwrap_or_else(|difference| panic!("{context}\n{sql}\n{difference}"));
        }
        let report = galatea::last_query_report(&pair.gpu).expect("a report");
        assert_eq!(
            report.fell_back, 0,
            "{sql}: the refusal is remembered\n{:?}",
            report.reasons
        );
    }
    // An existence test does not need unique keys.
    let sql = "SELECT count(*) FROM f WHERE number IN (SELECT k FROM n WHERE size > 100)";
    pair.check(sql, true, "repeated keys").await;
    let report = galatea::last_query_report(&pair.gpu).expect("a report");
    assert_eq!(report.device, QueryDevice::Emulated, "{:?}", report.reasons);
}

/// Build sides are evicted like other memory of a query, and reloaded.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_joins_in_little_memory_match_the_cpu() {
    let pair = Pair::new(&[
        BUILT,
        ("galatea.memory.gpu_limit", "1 MiB"),
        ("galatea.tuning.chunk_rows", "500"),
        ("galatea.tuning.block_threads", "32"),
    ]);
    chain(&pair, 10_000, 8);
    let mut expected = Vec::new();
    for sql in CHAINS {
        expected.push(answer(&pair.cpu, sql).await);
    }
    let expected = Arc::new(expected);
    let clients = (0..6).map(|client| {
        let (ctx, expected) = (pair.gpu.clone(), Arc::clone(&expected));
        tokio::spawn(async move {
            for turn in 0..3 {
                let number = (client * 2 + turn) % CHAINS.len();
                let frame = ctx.sql(CHAINS[number]).await.expect("a plan");
                let rows = frame
                    .collect()
                    .await
                    .unwrap_or_else(|error| panic!("{}\n{error}", CHAINS[number]));
                same(&expected[number], &rows)
                    .unwrap_or_else(|difference| panic!("{}\n{difference}", CHAINS[number]));
            }
        })
    });
    let clients: Vec<_> = clients.collect();
    let all = tokio::time::timeout(
        std::time::Duration::from_secs(120),
        futures::future::join_all(clients),
    )
    .await;
    for client in all.expect("no client waits for ever") {
        client.expect("right answers");
    }
}

/// Reports of the pipelines of a query's last run: that of the query, then those of build sides.
async fn reports(pair: &Pair, sql: &str) -> Vec<RunReport> {
    let frame = pair.gpu.sql(sql).await.expect("a logical plan");
    let plan = frame.create_physical_plan().await.expect("a plan");
    let rows = collect(Arc::clone(&plan), pair.gpu.task_ctx()).await;
    rows.expect("rows");
    let mut report = None;
    let looked = plan.apply(|node| {
        report = node.downcast_ref::<GpuExec>().and_then(GpuExec::last_report);
        Ok(match report {
            Some(_) => TreeNodeRecursion::Stop,
            None => TreeNodeRecursion::Continue,
        })
    });
    looked.expect("a walk");
    let report = report.expect("a GPU subtree that ran");
    let builds = report.builds.clone();
    std::iter::once(report).chain(builds).collect()
}

/// All kernels of a graph are compiled once, before its first pipeline runs.
#[tokio::test]
async fn kernels_of_a_graph_are_compiled_before_it_runs() {
    let pair = Pair::new(&[STRICT, BUILT]);
    chain(&pair, 3000, 11);
    let sql = "SELECT c.name, sum(l.price + 77) FROM l, o, c WHERE l.k = o.k AND o.c = c.k AND o.day < 777 GROUP BY c.name";
    let first = reports(&pair, sql).await;
    assert!(first.len() > 1, "build sides are made by pipelines: {first:?}");
    for report in &first {
        assert!(!report.ahead.is_zero(), "compiled in the run: {report:?}");
        assert!(
            report.compile.is_zero() && !report.compiled.starts_with("memory"),
            "{report:?}"
        );
    }
    for report in reports(&pair, sql).await {
        assert!(report.ahead.is_zero(), "compiled again: {report:?}");
    }
    pair.check(sql, false, "compiled ahead").await;
    // Another query with the same build sides.
    let other = sql.replace("sum(l.price + 77)", "max(l.price * 3)");
    let others = reports(&pair, &other).await;
    assert!(
        others.iter().all(|report| report.compile.is_zero())
            && others.iter().any(|report| !report.ahead.is_zero()),
        "{others:?}"
    );
}

/// So are kernels over the groups of another pipeline, and over the matches of a join, unless they depend on
/// the number of these rows.
#[tokio::test]
async fn kernels_over_groups_and_matches_are_compiled_before_it_runs() {
    let pair = Pair::new(&[STRICT, BUILT]);
    chain(&pair, 3000, 11);
    let queries = [
        "SELECT k, s FROM (SELECT k, sum(price) AS s FROM l GROUP BY k) WHERE s > 40 ORDER BY s DESC, k LIMIT 7",
        "SELECT a.day, count(*), sum(b.k) FROM o a JOIN o b ON a.day = b.day GROUP BY a.day",
        "SELECT a.day, count(b.k) FROM o a LEFT JOIN o b ON a.day = b.day AND a.k < b.k GROUP BY a.day",
        "SELECT day, n, m FROM (SELECT day, count(*) AS n FROM o GROUP BY day), (SELECT sum(k) AS m FROM l) WHERE n < m",
    ];
    for sql in queries {
        let reports = reports(&pair, sql).await;
        assert!(reports.len() > 1, "several pipelines: {reports:?}");
        for report in reports {
            // The search for the first rows takes its kernels before the run that is reported.
            let ahead = !report.ahead.is_zero() || report.compiled.starts_with("memory");
            assert!(ahead, "{sql}: compiled in the run: {report:?}");
        }
        pair.check(sql, false, "compiled ahead").await;
    }
}

/// CPU operators collect a build side before the kernels are compiled, and its keys repeat. Its plan, which
/// distributes rows over partitions, runs once, and the refusal counts as it would during the run.
#[tokio::test]
async fn build_side_refused_during_compilation_is_collected_once() {
    let pair = Pair::new(&[
        ("galatea.tuning.min_rows", "0"),
        ("galatea.tuning.build_rows", "900"),
        ("datafusion.execution.target_partitions", "4"),
        ("datafusion.optimizer.hash_join_single_partition_threshold", "0"),
        (
            "datafusion.optimizer.hash_join_single_partition_threshold_rows",
            "0",
        ),
    ]);
    chain(&pair, 6000, 23);
    let k: ArrayRef = Arc::new(Int64Array::from_iter_values((0..60).map(|row| row % 20)));
    let columns = [("k", Arc::clone(&k), true), ("v", k, true)];
    pair.table(
        "twice",
        &[RecordBatch::try_from_iter_with_nullable(columns).expect("one length")],
    );
    for sql in [
        "SELECT count(*), sum(l.price) FROM l, o, twice t WHERE l.k = o.k AND o.day = t.k",
        "SELECT t.v, count(*), sum(l.price) FROM l JOIN o ON l.k = o.k LEFT JOIN twice t ON l.day = t.k AND t.v > 3 GROUP BY t.v",
    ] {
        for run in ["first run", "second run"] {
            pair.check(sql, true, run).await;
        }
    }
}

/// If all keys but at most one have a row, a sentinel value of a column marks missing rows, provided that an
/// unused value exists.
#[tokio::test]
async fn sentinel_value_marks_keys_without_a_row() {
    const ROWS: i64 = 1000;
    let integers =
        |value: fn(i64) -> i64| -> ArrayRef { Arc::new((0..ROWS).map(value).collect::<Int64Array>()) };
    let texts = |different: i64| -> ArrayRef {
        let texts = (0..ROWS).map(|row| format!("text {}", row % different));
        Arc::new(StringArray::from_iter_values(texts))
    };
    let columns: [(&str, ArrayRef); 12] = [
        ("with -1", integers(|row| row - 1)),
        ("all bytes", integers(|row| row % 256)),
        ("all signed bytes", integers(|row| row % 256 - 128)),
        ("16 bits", integers(|row| row * 67 % 65536 - 32768)),
        ("one value", integers(|_| -1)),
        (
            "both ends",
            integers(|row| if row % 2 == 0 { i64::MIN } else { i64::MAX }),
        ),
        (
            "truth",
            Arc::new((0..ROWS).map(|row| Some(row % 3 == 0)).collect::<BooleanArray>()),
        ),
        (
            "nan",
            Arc::new(Float64Array::from_iter_values(
                (0..ROWS).map(|row| if row % 5 == 0 { f64::NAN } else { row as f64 }),
            )),
        ),
        (
            "nulls",
            Arc::new(
                (0..ROWS)
                    .map(|row| (row % 7 != 0).then_some(row))
                    .collect::<Int64Array>(),
            ),
        ),
        ("255 texts", texts(255)),
        ("256 texts", texts(256)),
        ("257 texts", texts(257)),
    ];
    let probe: ArrayRef = Arc::new(
        (0..5000)
            .map(|row| row * 7919 % (ROWS + 20) - 10)
            .collect::<Int64Array>(),
    );
    for (what, column) in columns {
        for missing in [None, Some(500)] {
            let pair = Pair::new(&[BUILT, STRICT, ("galatea.tuning.min_rows", "0")]);
            let rows = |row: &i64| Some(*row) != missing;
            let kept: Int32Array = (0..ROWS as i32).filter(|row| rows(&(*row).into())).collect();
            let keys: ArrayRef = Arc::new(kept.iter().map(|row| row.map(i64::from)).collect::<Int64Array>());
            let column = take(&column, &kept, None).expect("rows");
            let side = RecordBatch::try_from_iter_with_nullable([("k", keys, true), ("p", column, true)]);
            pair.table("r", &[side.expect("one length")]);
            let facts = RecordBatch::try_from_iter([("k", Arc::clone(&probe))]);
            pair.table("s", &[facts.expect("a column")]);
            for sql in [
                "SELECT count(*), min(r.p), max(r.p), count(r.p) FROM s JOIN r ON s.k = r.k",
                "SELECT r.p, count(*) FROM s JOIN r ON s.k = r.k GROUP BY r.p",
                "SELECT s.k, r.p FROM s LEFT JOIN r ON s.k = r.k",
                "SELECT count(*) FROM s WHERE NOT EXISTS (SELECT 1 FROM r WHERE r.k = s.k AND r.p IS NOT NULL)",
            ] {
                pair.check(sql, true, &format!("{what}, without {missing:?}"))
                    .await;
            }
            // Repeated keys are detected by the number of keys that have a row.
            let twice = answer(
                &pair.gpu,
                "SELECT count(*), max(b.p) FROM s JOIN (SELECT k % 300 AS k, p FROM r) b ON s.k = b.k",
            );
            let expected = answer(
                &pair.cpu,
                "SELECT count(*), max(b.p) FROM s JOIN (SELECT k % 300 AS k, p FROM r) b ON s.k = b.k",
            );
            same(&expected.await, &twice.await).unwrap_or_else(|difference| panic!("{what}\n{difference}"));
        }
    }
}

/// Groups by a string are looked up by the string, although each table has its own dictionary.
#[tokio::test]
async fn string_groups_are_looked_up_across_dictionaries() {
    let table = |rows: i64, texts: &dyn Fn(i64) -> Option<String>| {
        let numbers: Int64Array = (0..rows).map(|row| (row % 11 > 0).then_some(row % 50)).collect();
        let texts: StringArray = (0..rows).map(texts).collect();
        let keys: Int64Array = (0..rows).map(|row| Some(row % 3)).collect();
        let columns: [(&str, ArrayRef, bool); 3] = [
            ("text", Arc::new(texts), true),
            ("v", Arc::new(numbers), true),
            ("k", Arc::new(keys), false),
        ];
        RecordBatch::try_from_iter_with_nullable(columns).expect("one length")
    };
    let text = |row: i64, of: i64| (row % 9 > 0).then(|| format!("text {}", row % of));
    type Texts = fn(i64, &dyn Fn(i64, i64) -> Option<String>) -> Option<String>;
    // Strings that sort before the common ones, a subset, none in common, all NULL.
    let sides: [Texts; 5] = [
        |row, text| text(row, 20),
        |row, text| {
            if row % 4 == 0 {
                Some(format!("first {row}"))
            } else {
                text(row, 30)
            }
        },
        |row, text| text(row, 3),
        |row, _| Some(format!("other {}", row % 5)),
        |_, _| None,
    ];
    for (number, side) in sides.into_iter().enumerate() {
        for (rows, of_side) in [(900, 300), (33, 700), (200, 0)] {
            let pair = Pair::new(&[BUILT, STRICT, ("galatea.tuning.min_rows", "0")]);
            pair.table("l", &[table(rows, &|row| text(row, 17))]);
            pair.table("r", &[table(of_side, &|row| side(row, &text))]);
            for sql in [
                "SELECT l.v, count(*), count(r.v), sum(r.v), max(r.v) FROM r RIGHT JOIN l ON r.text = l.text GROUP BY l.v",
                "SELECT l.text, count(*), sum(r.v) FROM l LEFT JOIN r ON r.text = l.text GROUP BY l.text",
                "SELECT l.k, count(*), min(r.v) FROM l LEFT JOIN r ON r.text = l.text AND r.k = l.k GROUP BY l.k",
                "SELECT l.v, g.n, g.s FROM l JOIN (SELECT text, count(*) n, sum(v) s FROM r GROUP BY text) g ON g.text = l.text",
                "SELECT l.v, g.n FROM l LEFT JOIN (SELECT text, count(*) n FROM r GROUP BY text HAVING count(*) > 2) g
                 ON g.text = l.text",
                "SELECT l.v, (SELECT max(r.v) FROM r WHERE r.text = l.text) FROM l",
                "SELECT count(*) FROM l WHERE EXISTS (SELECT 1 FROM r WHERE r.text = l.text AND r.v <> l.v)",
                "SELECT count(*) FROM l WHERE l.v > (SELECT avg(r.v) FROM r WHERE r.text = l.text)",
            ] {
                let context = format!("side {number}, {rows} rows, {of_side} of the side");
                pair.check(sql, rows > 0 && of_side > 0, &context).await;
            }
        }
    }
}
