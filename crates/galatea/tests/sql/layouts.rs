//! Columns with conflict layouts: queries return the same answers, and the statement reports the layouts.

use std::sync::Arc;

use datafusion::arrow::array::{Array, AsArray, Int32Array, RecordBatch, StringArray};
use datafusion::arrow::compute::concat_batches;
use datafusion::arrow::datatypes::{Float64Type, UInt64Type};
use datafusion::dataframe::DataFrameWriteOptions;
use datafusion::prelude::SessionContext;

use crate::compare::Pair;
use crate::data::{Shape, batch};

const QUERIES: &[&str] = &[
    "SELECT k, count(*), sum(v), min(i32), max(d18) FROM t GROUP BY k",
    "SELECT low, count(*), sum(d9), avg(f64) FROM t GROUP BY low",
    "SELECT low, k, i8, count(*), count(i8) FROM t GROUP BY low, k, i8",
    "SELECT count(*), sum(k), min(k), max(k), min(low), max(low), min(day), max(day), sum(i8) FROM t",
    "SELECT k, sum(v) FROM t WHERE low = 'AIR' OR low IS NULL GROUP BY k",
    "SELECT low, sum(v) FROM t WHERE low > 'FOB' AND k IN (1, 2, 5) AND i8 > 0 GROUP BY low",
    "SELECT v, k, low, i8, day FROM t WHERE day < DATE '1998-01-01' AND i8 IS NOT NULL",
    "SELECT count(*) FROM t WHERE low LIKE '%AI%' AND k + 1 < 5 AND i8 = -3",
    "SELECT i8, day, count(*), sum(d38) FROM t GROUP BY i8, day",
    "SELECT view, upper(low), count(*) FROM t GROUP BY view, upper(low)",
];
const MIXED: &[&str] = &[
    "SELECT a.low, count(*), sum(b.v) FROM t a JOIN u b ON a.low = b.low AND a.k = b.k GROUP BY a.low",
    "SELECT low, k, sum(v) FROM t GROUP BY low, k ORDER BY low NULLS FIRST, k DESC LIMIT 7",
    "SELECT low, row_number() OVER (PARTITION BY k ORDER BY v) FROM t WHERE v < 40",
];

async fn run(ctx: &SessionContext, sql: &str) -> RecordBatch {
    let frame = galatea::sql(ctx, sql).await.expect(sql);
    let schema = Arc::clone(frame.schema().inner());
    let batches = frame.collect().await.expect(sql);
    concat_batches(&schema, &batches).expect("batches of one schema")
}

/// The layouts of a changed table's columns, by name.
fn layouts(changed: &RecordBatch) -> Vec<(String, String)> {
    let text = |column: usize| changed.column(column).as_string::<i32>().clone();
    let rows = text(0);
    let layouts = text(1);
    (0..changed.num_rows())
        .map(|row| (rows.value(row).to_string(), layouts.value(row).to_string()))
        .collect()
}

async fn error_of(ctx: &SessionContext, sql: &str) -> String {
    match galatea::sql(ctx, sql).await {
        Ok(_) => panic!("{sql} was accepted"),
        Err(error) => error.to_string(),
    }
}

#[tokio::test]
async fn layouts_change_no_result() {
    const ALL: [Shape; 4] = [Shape::Ordinary, Shape::AllNull, Shape::AllEqual, Shape::Skewed];
    for (rows, shapes, settings) in [
        (1, &ALL[..2], &[][..]),
        (32, &ALL[..1], &[]),
        (33, &ALL[2..], &[]),
        (2500, &ALL[..], &[]),
        (
            2500,
            &ALL[..1],
            &[
                ("galatea.tuning.chunk_rows", "700"),
                ("galatea.aggregate.strategy", "hash"),
            ],
        ),
        (
            2500,
            &ALL[3..],
            &[
                ("galatea.tuning.block_threads", "64"),
                ("galatea.cache.device", "false"),
            ],
        ),
    ] {
        for &shape in shapes {
            let pair = Pair::new(settings);
            pair.table("t", &[batch(rows, 31, shape)]);
            pair.table("u", &[batch(rows.min(300), 32, shape)]);
            for table in ["t", "u"] {
                let sql = format!("ALTER TABLE {table} SET (conflict_layout = 'auto')");
                let changed = run(&pair.gpu, &sql).await;
                assert_eq!(changed.num_rows(), 20, "a row per column");
                let laid_out: Vec<String> = layouts(&changed)
                    .into_iter()
                    .filter(|(_, layout)| layout == "writes")
                    .map(|(column, _)| column)
                    .collect();
                for column in ["i8", "u8", "day", "low", "view", "k", "v"] {
                    assert!(
                        laid_out.iter().any(|name| name == column),
                        "{column} of {laid_out:?}"
                    );
                }
                assert!(
                    !laid_out.iter().any(|name| name == "f64" || name == "flag"),
                    "{laid_out:?}"
                );
            }
            let context = format!("{rows} rows, {shape:?}, {settings:?}");
            for sql in QUERIES {
                // With few rows or values, zone maps alone may exclude all chunks.
                let many = rows > 100 && matches!(shape, Shape::Ordinary | Shape::Skewed);
                pair.check(sql, many, &context).await;
            }
            for sql in MIXED {
                pair.check(sql, false, &context).await;
            }
        }
    }
}

#[tokio::test]
async fn layouts_survive_inserts_and_can_be_removed() {
    let pair = Pair::new(&[("galatea.tuning.chunk_rows", "1000")]);
    for ctx in [&pair.cpu, &pair.gpu] {
        run(
            ctx,
            "CREATE TABLE t AS SELECT nullif(value % 13, 99) AS k, nullif('w' || (value % 5), '') AS w, value AS v FROM generate_series(1, 4500)",
        )
        .await;
    }
    let changed = run(
        &pair.gpu,
        "ALTER TABLE t SET (conflict_layout.k = 'writes', conflict_layout.w = 'reads', conflict_budget = 3)",
    )
    .await;
    let expected = [("k", "writes"), ("w", "reads")];
    assert_eq!(
        layouts(&changed),
        expected.map(|(a, b)| (a.to_string(), b.to_string()))
    );
    let number = |name: &str| {
        let column = changed.column_by_name(name).expect(name);
        column.as_primitive::<UInt64Type>().clone()
    };
    assert_eq!(number("values").values()[..], [13, 5]);
    assert!((0..2).all(|row| number("slots").value(row) <= 3 * number("values").value(row)));
    assert!(number("most_copies").value(0) > 1);
    assert_eq!(number("table_bytes_before").values()[..], [13 * 8, 5 * 8]);
    let rounds = |name: &str| {
        let column = changed.column_by_name(name).expect(name);
        column.as_primitive::<Float64Type>().clone()
    };
    assert!(rounds("rounds_after").value(0) < rounds("rounds_before").value(0));
    assert_eq!(changed.column_by_name("reason").expect("reason").null_count(), 2);
    let query = "SELECT k, w, count(*), sum(v) FROM t GROUP BY k, w";
    pair.check(query, true, "laid out").await;
    for (name, insert) in [
        (
            "known values",
            "INSERT INTO t SELECT k, w, v + 1 FROM t WHERE v < 700",
        ),
        (
            "new values",
            "INSERT INTO t VALUES (77, 'other', 1), (NULL, NULL, 2)",
        ),
        ("a wide value", "INSERT INTO t VALUES (1000000, 'w1', 1)"),
        ("deleted", "DELETE FROM t WHERE k > 900000"),
    ] {
        // DataFusion's own tables support DELETE like ours.
        for ctx in [&pair.cpu, &pair.gpu] {
            run(ctx, insert).await;
        }
        pair.check(query, true, name).await;
    }
    let unchanged = run(&pair.gpu, "ALTER TABLE t SET (conflict_layout.k = 'auto')").await;
    assert_eq!(unchanged.num_rows(), 1);
    let changed = run(&pair.gpu, "ALTER TABLE t SET (conflict_layout = 'none')").await;
    assert!(layouts(&changed).iter().all(|(_, layout)| layout == "none"));
    pair.check(query, true, "as before").await;
    // A copy of a laid-out table is a plain table.
    run(&pair.gpu, "ALTER TABLE t SET (conflict_layout = 'values')").await;
    for ctx in [&pair.cpu, &pair.gpu] {
        run(ctx, "CREATE TABLE copied AS SELECT * FROM t WHERE v > 10").await;
    }
    pair.check("SELECT w, count(k) FROM copied GROUP BY w", true, "copied")
        .await;
}

#[tokio::test]
async fn file_layouts_apply_to_every_query() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.parquet");
    let pair = Pair::new(&[]);
    pair.table("t", &[batch(2500, 8, Shape::Skewed)]);
    let frame = pair.cpu.sql("SELECT k, low, v, f64 FROM t").await.expect("plans");
    let options = DataFrameWriteOptions::new().with_single_file_output(true);
    frame
        .write_parquet(path.to_str().expect("a path"), options, None)
        .await
        .expect("writes");
    let file = format!("'{}'", path.display());
    let changed = run(
        &pair.gpu,
        &format!("ALTER TABLE {file} SET (conflict_layout = 'auto')"),
    )
    .await;
    let expected = [
        ("k", "writes"),
        ("low", "writes"),
        ("v", "writes"),
        ("f64", "none"),
    ];
    assert_eq!(
        layouts(&changed),
        expected.map(|(a, b)| (a.to_string(), b.to_string()))
    );
    for sql in [
        "SELECT low, count(*), sum(v) FROM {} GROUP BY low",
        "SELECT k, avg(f64) FROM {} WHERE low <> 'AIR' GROUP BY k",
    ] {
        let sql = sql.replace("{}", &file);
        pair.check(&sql, true, "laid out").await;
        run(&pair.gpu, "SET galatea.cache.files = false").await;
        pair.check(&sql, true, "loaded again").await;
        run(&pair.gpu, "SET galatea.cache.files = true").await;
    }
    run(
        &pair.gpu,
        &format!("CREATE EXTERNAL TABLE ext STORED AS PARQUET LOCATION {file}"),
    )
    .await;
    let changed = run(&pair.gpu, "ALTER TABLE ext SET (conflict_layout.k = 'reads')").await;
    assert_eq!(layouts(&changed), [("k".to_string(), "reads".to_string())]);
}

#[tokio::test]
async fn columns_without_possible_layout_are_refused() {
    let pair = Pair::new(&[]);
    pair.table("t", &[batch(300, 8, Shape::Ordinary)]);
    run(&pair.gpu, "CREATE VIEW w AS SELECT k FROM t").await;
    for (sql, message) in [
        (
            "ALTER TABLE missing SET (conflict_layout = 'auto')",
            "no such table: missing\nhint: tables are t, w",
        ),
        (
            "ALTER TABLE t SET (conflict_layout.missing = 'auto')",
            "no such column: missing\nhint: columns of t are i8, ",
        ),
        (
            "ALTER TABLE t SET (conflict_layout.f64 = 'auto')",
            "column f64 cannot have a conflict layout: floats have no codes\nhint: ",
        ),
        (
            "ALTER TABLE t SET (conflict_layout.i32 = 'auto')",
            "values, and a block has shared memory for at most 8192 slots",
        ),
        (
            "ALTER TABLE w SET (conflict_layout = 'auto')",
            "w cannot be laid out: it is a view",
        ),
        (
            "ALTER TABLE t SET (conflict_layout.k = 'fast')",
            "conflict_layout.k accepts auto, writes, reads, values or none",
        ),
    ] {
        let error = error_of(&pair.gpu, sql).await;
        assert!(error.contains(message), "{sql}: {error}");
    }
    let error = error_of(&pair.cpu, "ALTER TABLE t SET (conflict_layout = 'auto')").await;
    assert!(error.contains("this session has none"), "{error}");
    // All other statements are DataFusion's.
    assert_eq!(run(&pair.gpu, "SELECT count(*) FROM t").await.num_rows(), 1);
}

#[tokio::test]
async fn conflict_analysis_counts_effects_of_layouts() {
    let pair = Pair::new(&[]);
    let rows = 5 * 8192;
    let keys = Int32Array::from_iter_values((0..rows).map(|row| row / 8 % 4 * 32));
    let words = StringArray::from_iter_values((0..rows).map(|row| format!("w{}", row % 97)));
    let batch = RecordBatch::try_from_iter([("k", Arc::new(keys) as Arc<dyn Array>), ("w", Arc::new(words))]);
    pair.table("t", &[batch.expect("columns of one length")]);
    for ctx in [&pair.gpu, &pair.cpu] {
        let analysis = galatea::analyse_conflicts(ctx, &"t".into(), "k", usize::MAX).await;
        let analysis = analysis.expect("analysed");
        // Multiples of 32: four groups, in steps of their common divisor.
        assert_eq!((analysis.rows, analysis.groups), (rows as u64, 4));
        let lines: Vec<(&str, &str)> = analysis
            .lines
            .iter()
            .map(|line| (line.pattern, line.accumulators.as_str()))
            .collect();
        let each = ["one copy", "2 copies", "8 copies", "32 copies", "slots"];
        assert_eq!(lines[..5], each.map(|line| ("pipelines", line)));
        assert_eq!(lines[5..], each.map(|line| ("paper", line)));
        // A lane of a pipeline reads eight rows, so neighbouring lanes have the four groups in turn.
        let one = analysis.lines[0].conflicts;
        assert_eq!(
            (one.mean_banks(), one.mean_write_rounds(), one.mean_read_rounds()),
            (4.0, 8.0, 1.0)
        );
        assert_eq!(analysis.lines[3].conflicts.mean_write_rounds(), 1.0);
        assert!(analysis.lines[4].conflicts.mean_write_rounds() < 1.01);
        assert!(analysis.prediction.best().is_some());
        assert_eq!(analysis.batch().expect("a batch").num_rows(), 10);
        let some = galatea::analyse_conflicts(ctx, &"t".into(), "w", 1000)
            .await
            .expect("analysed");
        assert_eq!((some.rows, some.all_rows, some.groups), (1000, rows as u64, 97));
    }
    // The analysis of a laid-out column uses its values, not its slots.
    run(&pair.gpu, "ALTER TABLE t SET (conflict_layout = 'auto')").await;
    let laid_out = galatea::analyse_conflicts(&pair.gpu, &"t".into(), "k", usize::MAX).await;
    assert_eq!(
        laid_out.expect("analysed").lines[0].conflicts.mean_write_rounds(),
        8.0
    );
    let error = galatea::analyse_conflicts(&pair.cpu, &"t".into(), "x", 10).await;
    let error = error.expect_err("no such column").to_string();
    assert!(error.contains("columns of t are k, w"), "{error}");
}
