//! k-means in SQL, on the CPU and on the emulated device, against a loop over rows.

use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::arrow::array::{
    AsArray, Decimal128Array, Float32Array, Float64Array, Int64Array, RecordBatch,
};
use datafusion::arrow::compute::concat_batches;
use datafusion::arrow::datatypes::{
    DataType, Decimal128Type, Field, Float32Type, Float64Type, Int64Type, Schema, UInt32Type, UInt64Type,
};
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::physical_plan::{collect, displayable};
use datafusion::prelude::SessionContext;
use futures::StreamExt;

use crate::compare::Pair;

/// Rows (id, x, y, z): x of three clusters, y a 64-bit one, z a decimal.
fn rows(count: i64) -> RecordBatch {
    let schema = Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("x", DataType::Float32, true),
        Field::new("y", DataType::Float64, true),
        Field::new("z", DataType::Decimal128(10, 2), true),
    ]);
    let noise = |i: i64| ((i * 7919) % 101) as f64 / 101.0;
    let ids: Vec<i64> = (0..count).collect();
    RecordBatch::try_new(
        Arc::new(schema),
        vec![
            Arc::new(Int64Array::from(ids.clone())),
            Arc::new(Float32Array::from_iter_values(
                ids.iter().map(|i| ((i % 3) as f64 * 10.0 + noise(*i)) as f32),
            )),
            Arc::new(Float64Array::from_iter_values(
                ids.iter().map(|i| (i % 3) as f64 * -7.0 + noise(i + 5)),
            )),
            Arc::new(
                Decimal128Array::from_iter_values(
                    ids.iter().map(|i| i128::from(i % 3) * 500 + i128::from(i % 50)),
                )
                .with_precision_and_scale(10, 2)
                .expect("a decimal"),
            ),
        ],
    )
    .expect("columns of one length")
}

async fn run(ctx: &SessionContext, sql: &str) -> Result<RecordBatch, String> {
    let frame = ctx.sql(sql).await.map_err(|error| error.to_string())?;
    let schema = Arc::new(frame.schema().as_arrow().clone());
    let batches = frame.collect().await.map_err(|error| error.to_string())?;
    concat_batches(&schema, &batches).map_err(|error| error.to_string())
}

async fn error(ctx: &SessionContext, sql: &str) -> String {
    match run(ctx, sql).await {
        Ok(batch) => panic!("{sql} has {} rows", batch.num_rows()),
        Err(error) => error,
    }
}

/// The plan of an executed query.
async fn ran(ctx: &SessionContext, sql: &str) -> String {
    let frame = ctx.sql(sql).await.expect("a plan");
    let plan = frame.create_physical_plan().await.expect("a physical plan");
    collect(Arc::clone(&plan), ctx.task_ctx())
        .await
        .expect("a result");
    displayable(plan.as_ref()).indent(false).to_string()
}

fn floats(batch: &RecordBatch, name: &str) -> Vec<f64> {
    let column = batch.column_by_name(name).expect("the column");
    column.as_primitive::<Float64Type>().values().to_vec()
}

fn labels(batch: &RecordBatch) -> Vec<u32> {
    let column = batch.column_by_name("label").expect("labels");
    column.as_primitive::<UInt32Type>().values().to_vec()
}

/// Lloyd's iterations from the first k rows until convergence.
fn reference(points: &[Vec<f64>], k: usize) -> (Vec<Vec<f64>>, Vec<u32>, f64) {
    let mut centroids: Vec<Vec<f64>> = points[..k].to_vec();
    loop {
        let square = |point: &[f64], centroid: &[f64]| -> f64 {
            point.iter().zip(centroid).map(|(x, c)| (x - c).powi(2)).sum()
        };
        let nearest = |point: &Vec<f64>| {
            let of = |c: &usize| square(point, &centroids[*c]);
            (0..k).min_by(|a, b| of(a).total_cmp(&of(b))).expect("a centroid")
        };
        let found: Vec<usize> = points.iter().map(nearest).collect();
        let inertia = points
            .iter()
            .zip(&found)
            .map(|(point, c)| square(point, &centroids[*c]))
            .sum();
        let mut moved = centroids.clone();
        for (cluster, centroid) in moved.iter_mut().enumerate() {
            let of: Vec<&Vec<f64>> = points
                .iter()
                .zip(&found)
                .filter(|(_, c)| **c == cluster)
                .map(|(p, _)| p)
                .collect();
            for (f, value) in centroid.iter_mut().enumerate().filter(|_| !of.is_empty()) {
                *value = of.iter().map(|point| point[f]).sum::<f64>() / of.len() as f64;
            }
        }
        if moved == centroids {
            return (centroids, found.iter().map(|c| *c as u32).collect(), inertia);
        }
        centroids = moved;
    }
}

#[tokio::test]
async fn kmeans_matches_a_reference_loop() {
    let pair = Pair::new(&[]);
    let batch = rows(2000);
    pair.table("t", &[batch.slice(0, 900), batch.slice(900, 1100)]);
    let (x, y) = (
        batch.column(1).as_primitive::<Float32Type>(),
        batch.column(2).as_primitive::<Float64Type>(),
    );
    let z = batch.column(3).as_primitive::<Decimal128Type>();
    let points: Vec<Vec<f64>> = (100..2000)
        .map(|i| {
            vec![
                f64::from(x.value(i)),
                y.value(i),
                z.value(i) as f64 / 100.0,
                (i / 100) as f64,
            ]
        })
        .collect();
    let (expected, expected_labels, inertia) = reference(&points, 5);
    let query = "(SELECT id, x, y, z, id / 100 AS w FROM t WHERE id >= 100)";
    let settings = "k => 5, init => 'first', tol => 0, features => 'x, y, z, w'";
    for ctx in [&pair.cpu, &pair.gpu] {
        let found = run(
            ctx,
            &format!("SELECT * FROM kmeans({query}, {settings}) ORDER BY label"),
        )
        .await
        .expect("centroids");
        assert_eq!(labels(&found), [0, 1, 2, 3, 4]);
        for (f, name) in ["x", "y", "z", "w"].into_iter().enumerate() {
            for (found, expected) in floats(&found, name).iter().zip(&expected) {
                assert!(
                    (found - expected[f]).abs() < 1e-3,
                    "{name}: {found} is not {}",
                    expected[f]
                );
            }
        }
        let sizes: Vec<u64> = (0..5)
            .map(|c| expected_labels.iter().filter(|l| **l == c).count() as u64)
            .collect();
        assert_eq!(
            found
                .column_by_name("size")
                .expect("sizes")
                .as_primitive::<UInt64Type>()
                .values(),
            &sizes[..]
        );
        let total = floats(&found, "inertia")[0];
        assert!(
            (total - inertia).abs() < 1e-3 * inertia,
            "{total} is not {inertia}"
        );

        let sql = format!("SELECT id, label, z FROM kmeans_labels({query}, {settings}) AS l ORDER BY id");
        let found = run(ctx, &sql).await.expect("labels");
        assert_eq!(
            found.column(0).as_primitive::<Int64Type>().values()[..3],
            [100, 101, 102]
        );
        assert_eq!(labels(&found), expected_labels);
    }
}

/// Every method to execute an iteration, to find centroids and to sum can be selected by name, and finds the
/// same clusters.
#[tokio::test]
async fn kmeans_methods_are_selected_by_name() {
    let pair = Pair::new(&[]);
    pair.table("t", &[rows(2000)]);
    let call = |settings: &str| {
        format!(
            "kmeans((SELECT x, y FROM t), k => 9, init => 'first', tol => 0, max_iter => 5{settings}) ORDER BY label"
        )
    };
    let expected = run(&pair.cpu, &format!("SELECT * FROM {}", call("")))
        .await
        .expect("centroids");
    for (name, ways) in [
        (
            "execution",
            &["auto", "single-pass", "multi-pass", "cross-processing"][..],
        ),
        ("scores", &["auto", "lanes", "matrix"]),
        (
            "sums",
            &["auto", "registers", "private", "features", "shared", "global"],
        ),
    ] {
        for way in ways {
            let call = call(&format!(", {name} => '{way}'"));
            let found = run(&pair.gpu, &format!("SELECT * FROM {call}"))
                .await
                .expect("centroids");
            for column in ["x", "y"] {
                for (found, expected) in floats(&found, column).iter().zip(floats(&expected, column)) {
                    assert!(
                        (found - expected).abs() < 1e-3,
                        "{way}, {column}: {found} is not {expected}"
                    );
                }
            }
            let plan = ran(&pair.gpu, &format!("SELECT * FROM {call}")).await;
            assert!(plan.contains("ran on the emulated device"), "{way}: {plan}");
        }
    }
    for (settings, message) in [
        (
            ", execution => 'twice'",
            "it must be 'auto', 'single-pass', 'multi-pass' or 'cross-processing'",
        ),
        (", scores => 'units'", "it must be 'auto', 'lanes' or 'matrix'"),
        (
            ", sums => 'none'",
            "it must be 'auto', 'registers', 'private', 'features', 'shared' or 'global'",
        ),
    ] {
        let found = error(&pair.cpu, &format!("SELECT * FROM {}", call(settings))).await;
        assert!(found.contains(message), "{found}");
    }
}

#[tokio::test]
async fn kmeans_works_with_ctes_joins_and_aliases() {
    let pair = Pair::new(&[]);
    pair.table("t", &[rows(300)]);
    let sql = "WITH near AS (SELECT id, x, y FROM t WHERE id < 200), \
               c AS (SELECT * FROM kmeans((SELECT x, y FROM near), k => 3, seed => 4)), \
               l AS (SELECT * FROM kmeans_labels((SELECT * FROM near), k => 3, seed => 4, features => 'x,y')) \
               SELECT l.label, count(*) = max(c.size) AS same FROM l JOIN c ON l.label = c.label GROUP BY l.label ORDER BY 1";
    for ctx in [&pair.cpu, &pair.gpu] {
        let found = run(ctx, sql).await.expect("a result");
        assert_eq!(found.num_rows(), 3);
        assert!(
            found.column(1).as_boolean().iter().all(|same| same == Some(true)),
            "{found:?}"
        );
    }
    // A table of that name is still a table.
    let sql = "CREATE TABLE kmeans AS SELECT 1 AS a";
    run(&pair.cpu, sql).await.expect("a table");
    assert_eq!(
        run(&pair.cpu, "SELECT a FROM kmeans")
            .await
            .expect("a row")
            .num_rows(),
        1
    );
}

#[tokio::test]
async fn kmeans_reports_its_device() {
    let pair = Pair::new(&[]);
    pair.table("t", &[rows(500)]);
    let sql = "SELECT * FROM kmeans((SELECT x, y FROM t WHERE x < 15), k => 2)";
    let text = ran(&pair.gpu, sql).await;
    assert!(
        text.contains("KMeansExec: kmeans, k=2, features=[x, y], ran on the emulated device"),
        "{text}"
    );
    let text = ran(&pair.cpu, sql).await;
    assert!(text.contains("ran on the CPU because"), "{text}");
}

#[tokio::test]
async fn invalid_kmeans_input_is_named() {
    let pair = Pair::new(&[]);
    let batch = rows(100);
    pair.table("t", std::slice::from_ref(&batch));
    let holes = "(SELECT CASE WHEN id % 10 = 0 THEN NULL ELSE x END AS a, \
                 CASE WHEN id % 25 = 0 THEN NULL WHEN id % 25 = 1 THEN 'NaN'::double ELSE y END AS b FROM t)";
    for ctx in [&pair.cpu, &pair.gpu] {
        for (call, parts) in [
            (
                format!("kmeans({holes}, k => 2)"),
                &[
                    "column a is NULL in 10 rows",
                    "column b is NULL in 4 rows, NaN or infinite in 4",
                ][..],
            ),
            (
                "kmeans((SELECT x FROM t), k => 101)".into(),
                &["101 clusters of 100 points"],
            ),
            (
                "kmeans((SELECT x FROM t WHERE id < 0), k => 2)".into(),
                &["no points"],
            ),
            (
                "kmeans((SELECT x, 'a' AS name FROM t), k => 2)".into(),
                &["column name is of type Utf8", "features =>"],
            ),
            (
                "kmeans_labels((SELECT id, x FROM t), k => 2, features => 'q')".into(),
                &["none of the query's columns: id, x"],
            ),
            (
                "kmeans((SELECT x FROM t))".into(),
                &["needs the number of clusters"],
            ),
            (
                "kmeans((SELECT x FROM t), k => 0)".into(),
                &["k is 0: it must be a whole number from 1"],
            ),
            (
                "kmeans((SELECT x FROM t), k => 2, k => 3)".into(),
                &["k is given twice"],
            ),
            (
                "kmeans((SELECT x FROM t), k => 2, colour => 1)".into(),
                &["no setting colour"],
            ),
            (
                "kmeans((SELECT x FROM t), k => 2, init => 'best')".into(),
                &["init is 'best'"],
            ),
            ("kmeans(k => 2)".into(), &["needs a query"]),
            ("kmeans(3, k => 2)".into(), &["does not take the argument 3"]),
            (
                "kmeans((SELECT x AS size FROM t), k => 2)".into(),
                &["two columns size"],
            ),
        ] {
            let text = error(ctx, &format!("SELECT * FROM {call}")).await;
            for part in parts {
                assert!(text.contains(part), "{call}: {text}");
            }
        }
    }
}

/// With a setting that forbids fallback.
#[tokio::test]
async fn kmeans_refusal_is_an_error_without_fallback() {
    let pair = Pair::new(&[
        ("galatea.fallback", "error"),
        ("galatea.memory.gpu_limit", "64KB"),
    ]);
    pair.table("t", &[rows(20_000)]);
    let text = error(
        &pair.gpu,
        "SELECT * FROM kmeans((SELECT x, y FROM t), k => 2000, init => 'first')",
    )
    .await;
    assert!(text.contains("device") && text.contains("galatea."), "{text}");
}

/// A clustering that does not end, with iterations of a few milliseconds.
const ENDLESS: &str =
    "kmeans((SELECT x, y FROM t), k => 8, n_init => 1000000, max_iter => 1000000, tol => 0)";

/// Waits until a condition holds.
async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dropped_stream_stops_kmeans() {
    let pair = Pair::new(&[]);
    pair.table("t", &[rows(2_000)]);
    for ctx in [&pair.cpu, &pair.gpu] {
        let sql = format!("SELECT * FROM {ENDLESS}");
        let frame = ctx.sql(&sql).await.expect("a plan");
        let plan = frame.create_physical_plan().await.expect("a physical plan");
        let mut stream = plan.execute(0, ctx.task_ctx()).expect("a stream");
        let reading = tokio::spawn(async move { stream.next().await.is_some() });
        let iterations = || {
            let mut plan = Arc::clone(&plan);
            while plan.name() != "KMeansExec" {
                plan = Arc::clone(plan.children()[0]);
            }
            let metrics = plan.metrics()?;
            metrics.sum_by_name("iterations").map(|value| value.as_usize())
        };
        until("no iteration", || {
            iterations().is_some_and(|iterations| iterations > 0)
        })
        .await;
        assert!(!reading.is_finished(), "it ended");
        reading.abort();
        let mut before = None;
        until("it goes on", || {
            std::thread::sleep(Duration::from_secs(1));
            let now = iterations();
            std::mem::replace(&mut before, now) == now
        })
        .await;
    }
}

/// The progress that the command line's bar shows; and a cancelled statement leaves no table.
#[tokio::test(flavor = "multi_thread")]
async fn cancelled_kmeans_statement_leaves_no_table() {
    let pair = Pair::new(&[]);
    pair.table("t", &[rows(2_000)]);
    let ctx = pair.gpu.clone();
    let statement = tokio::spawn(async move {
        let sql = format!("CREATE TABLE c AS SELECT * FROM {ENDLESS}");
        ctx.sql(&sql).await.map(drop)
    });
    let progress = || galatea::last_query_report(&pair.gpu)?.progress;
    until("no iteration is reported", || {
        progress()
            .is_some_and(|progress| progress.step == galatea::QueryStep::Clustering && progress.done > 0)
    })
    .await;
    assert_eq!(progress().and_then(|progress| progress.total), Some(1_000_000));
    assert!(!statement.is_finished(), "it ended");
    statement.abort();
    assert!(statement.await.expect_err("it was cancelled").is_cancelled());
    let text = error(&pair.gpu, "SELECT * FROM c").await;
    assert!(text.contains("table") && text.contains("not found"), "{text}");
    let mut before = None;
    until("it goes on", || {
        std::thread::sleep(Duration::from_secs(1));
        let now = progress();
        std::mem::replace(&mut before, now) == now
    })
    .await;
}

/// A statement with `on_interrupt => 'keep'` that is requested to end keeps the centroids of its last
/// complete iteration.
#[tokio::test(flavor = "multi_thread")]
async fn kmeans_ended_early_keeps_its_centroids() {
    let pair = Pair::new(&[]);
    pair.table("t", &[rows(2_000)]);
    for ctx in [&pair.cpu, &pair.gpu] {
        let started = ctx.clone();
        let keeping = ENDLESS.replace("k =>", "on_interrupt => 'keep', k =>");
        let statement = tokio::spawn(async move {
            let sql = format!("CREATE TABLE kept AS SELECT * FROM {keeping}");
            started.sql(&sql).await.map(drop)
        });
        let iterations = || {
            let progress = galatea::last_query_report(ctx)?.progress?;
            (progress.step == galatea::QueryStep::Clustering).then_some(progress.done)
        };
        until("no iteration is reported", || {
            assert!(!statement.is_finished(), "it ended");
            iterations().is_some_and(|done| done > 0)
        })
        .await;
        assert!(galatea::end_early(ctx), "it offers to");
        assert!(!galatea::end_early(ctx), "it was asked before");
        statement.await.expect("it is not cancelled").expect("a table");
        let sql = "SELECT CAST(sum(size) AS DOUBLE) AS size, CAST(min(iterations) AS DOUBLE) AS least,
                   CAST(max(iterations) AS DOUBLE) AS most FROM kept";
        let kept = run(ctx, sql).await.expect("the table");
        let number = |name: &str| floats(&kept, name)[0];
        assert_eq!(number("size"), 2_000.0);
        assert!(number("least") > 0.0 && number("most") < 1_000_000.0, "{kept:?}");
        assert_eq!(number("least"), number("most"));
        // Without the setting, and after the statement has ended, the request is refused.
        assert!(!galatea::end_early(ctx));
    }
}

/// The query's report contains the device of a clustering. No part of it is refused in advance.
#[tokio::test]
async fn query_report_contains_the_kmeans_device() {
    let pair = Pair::new(&[("galatea.fallback", "error")]);
    pair.table("t", &[rows(3_000)]);
    let sql = "SELECT count(*) FROM kmeans((SELECT x, y FROM t WHERE id > 7), k => 3)";
    run(&pair.gpu, sql).await.expect("clusters");
    let report = galatea::last_query_report(&pair.gpu).expect("a report");
    let expected = if galatea_device::environment::test_on_gpu() {
        galatea::QueryDevice::Both
    } else {
        galatea::QueryDevice::Emulated
    };
    assert_eq!((report.device, report.reasons.as_slice()), (expected, &[][..]));
    run(&pair.cpu, sql).await.expect("clusters");
}

/// The statements of the guide return the tables that it shows.
#[tokio::test]
async fn kmeans_guide_examples_match_actual_output() {
    let guide = include_str!("../../../../docs/src/guide/kmeans.md");
    let section = guide.split("## Clustering").nth(1).expect("the section");
    let block = |kind: &str, number: usize| {
        let text = section.split(kind).nth(number + 1).expect("a block");
        text.split("```").next().expect("its end").trim().to_string()
    };
    let (statements, output, labels) = (block("```sql", 0), block("```text", 0), block("```sql", 1));
    let pair = Pair::new(&[]);
    for ctx in [&pair.cpu, &pair.gpu] {
        let mut last = None;
        for sql in statements.split(';').filter(|sql| !sql.trim().is_empty()) {
            last = Some(run(ctx, sql).await.expect("a result"));
        }
        let found = pretty_format_batches(&[last.expect("a statement")])
            .expect("a table")
            .to_string();
        assert_eq!(found, output, "\n{found}");
        let found = run(ctx, labels.trim_end_matches(';')).await.expect("labels");
        let counts = found.column(1).as_primitive::<Int64Type>();
        assert_eq!(counts.values()[..], [3000; 3]);
    }
}

#[tokio::test]
async fn kmeans_assign_selects_the_nearest_centroid() {
    let pair = Pair::new(&[]);
    pair.table("t", &[rows(3000)]);
    for ctx in [&pair.cpu, &pair.gpu] {
        // Centroids of a clustering: the labels are equal for both sources of the centroids.
        let clusters = "kmeans((SELECT x, y FROM t), k => 3, seed => 4)";
        let labels = run(
            ctx,
            &format!(
                "WITH c AS (SELECT array_agg([x, y] ORDER BY label) AS centroids FROM {clusters}) \
                 SELECT a.label, kmeans_assign([a.x, a.y], c.centroids) AS assigned, \
                 kmeans_assign([a.x, a.y], (SELECT array_agg([x, y] ORDER BY label) FROM {clusters})) AS again \
                 FROM kmeans_labels((SELECT x, y FROM t), k => 3, seed => 4) AS a CROSS JOIN c"
            ),
        )
        .await
        .expect("labels");
        assert_eq!(labels.num_rows(), 3000);
        let column = |at: usize| labels.column(at).as_primitive::<UInt32Type>().values().to_vec();
        assert_eq!(column(0), column(1));
        assert_eq!(column(0), column(2));
        assert!((0..3).all(|label| column(0).contains(&label)));
        // Against a loop, with integers, decimals, and a tie, which goes to the lowest label.
        let sql = "SELECT id, z, kmeans_assign([id, z], [[0, 0], [1500, 7.5], [3000.0, 2], [0, 0]]) FROM t";
        let assigned = run(ctx, sql).await.expect("labels");
        let ids = assigned.column(0).as_primitive::<Int64Type>();
        let z = assigned.column(1).as_primitive::<Decimal128Type>();
        let found = assigned.column(2).as_primitive::<UInt32Type>();
        let centroids = [[0.0, 0.0], [1500.0, 7.5], [3000.0, 2.0], [0.0, 0.0]];
        for row in 0..assigned.num_rows() {
            let point = [ids.value(row) as f64, z.value(row) as f64 / 100.0];
            let mut best = (f64::INFINITY, 0);
            for (label, centroid) in centroids.iter().enumerate() {
                let distance = (point[0] - centroid[0]).powi(2) + (point[1] - centroid[1]).powi(2);
                if distance < best.0 {
                    best = (distance, label as u32);
                }
            }
            assert_eq!(found.value(row), best.1, "{point:?}");
        }
        // A different list of centroids for each row, and NULL if any input is NULL.
        let sql = "SELECT kmeans_assign(p, c) FROM (VALUES ([1.0], [[5.0], [1.0]]), ([1.0], [[1.0], [5.0]]), (NULL, [[1.0]]), \
                   ([NULL], [[1.0]]), ([1.0], NULL)) AS v(p, c)";
        let assigned = run(ctx, sql).await.expect("labels");
        let assigned: Vec<_> = assigned.column(0).as_primitive::<UInt32Type>().iter().collect();
        assert_eq!(assigned, [Some(1), Some(0), None, None, None]);
        for (sql, what) in [
            (
                "SELECT kmeans_assign([x, y], [[1, 2], [3]]) FROM t",
                "centroid 1 has 1 coordinates, centroid 0 has 2",
            ),
            (
                "SELECT kmeans_assign([x, y], [[1], [3]]) FROM t",
                "a point has 2 coordinates, the centroids have 1",
            ),
            (
                "SELECT kmeans_assign([x / 0], [[1]]) FROM t",
                "a point has the coordinate",
            ),
            (
                "SELECT kmeans_assign([x], [[1], [NULL]]) FROM t",
                "centroid 1 is NULL",
            ),
            (
                "SELECT kmeans_assign([x], ['a']) FROM t",
                "hint: kmeans_assign([x, y]",
            ),
            (
                "SELECT kmeans_assign(x, y) FROM t",
                "takes a point and a list of centroids",
            ),
        ] {
            let refused = error(ctx, sql).await;
            assert!(refused.contains(what), "{sql}\n{refused}");
        }
    }
}
