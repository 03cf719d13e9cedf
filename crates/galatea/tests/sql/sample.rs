//! TABLESAMPLE: the number of rows, the rows themselves, and refusals. Over tables in memory and in files, on
//! the CPU and on the emulated device.

use crate::front::Both;
use std::path::Path;

/// Number of rows of the table.
const ROWS: usize = 40_000;

/// Two sessions with a table t of n = 0, 1, 2, ... and the same rows in Parquet and CSV files of a folder.
async fn with_tables(folder: &Path) -> (Both, Vec<String>) {
    let both = Both::new();
    let last = ROWS - 1;
    both.run(&format!(
        "CREATE TABLE t AS SELECT value AS n, value % 7 AS k FROM generate_series(0, {last})"
    ))
    .await;
    let mut tables = vec!["t".to_string()];
    for file in ["t.parquet", "t.csv"] {
        let file = folder.join(file);
        both.run(&format!(
            "COPY (SELECT * FROM t ORDER BY n) TO '{}'",
            file.display()
        ))
        .await;
        tables.push(format!("'{}'", file.display()));
    }
    (both, tables)
}

async fn count(both: &Both, sql: &str) -> usize {
    both.rows(sql).await[0].parse().expect("a number")
}

/// Whether a number of sampled rows is within five standard deviations of the expected one.
fn is_likely(drawn: usize, share: f64) -> bool {
    let rows = ROWS as f64;
    (drawn as f64 - rows * share).abs() < 5.0 * (rows * share * (1.0 - share)).sqrt()
}

#[tokio::test]
async fn samples_have_the_requested_size() {
    let folder = tempfile::tempdir().expect("a folder");
    let (both, tables) = with_tables(folder.path()).await;
    for t in &tables {
        for method in ["BERNOULLI", "SYSTEM", "ROW", "BLOCK"] {
            let of = |percent: &str| {
                format!("SELECT count(*) FROM {t} TABLESAMPLE {method} ({percent}) REPEATABLE (1)")
            };
            assert_eq!(count(&both, &of("0")).await, 0, "{t} {method}");
            assert_eq!(count(&both, &of("100")).await, ROWS, "{t} {method}");
            assert_eq!(count(&both, &of("100 PERCENT")).await, ROWS, "{t} {method}");
        }
        for rows in [0, 1, 100, 12_345, ROWS, ROWS + 1] {
            let sql = format!(
                "SELECT count(*), count(DISTINCT n) FROM (SELECT n FROM {t} TABLESAMPLE ({rows} ROWS) REPEATABLE (3))"
            );
            let drawn = rows.min(ROWS);
            both.answers(&sql, &format!("{drawn} {drawn}")).await;
        }
        for seed in [0, 1, 2] {
            let sql = format!("SELECT count(*) FROM {t} TABLESAMPLE BERNOULLI (10) REPEATABLE ({seed})");
            let drawn = count(&both, &sql).await;
            assert!(is_likely(drawn, 0.1), "{sql}: {drawn}");
        }
        // Complete blocks of 2,048 rows, except the last one. The table in memory may have another order.
        if t == "t" {
            continue;
        }
        let sql = format!(
            "SELECT count(*) FROM (SELECT n / 2048 AS block, count(*) AS c FROM {t} TABLESAMPLE SYSTEM (50) \
             REPEATABLE (5) GROUP BY n / 2048) WHERE c NOT IN (2048, {})",
            ROWS % 2048
        );
        both.answers(&sql, "0").await;
    }
}

#[tokio::test]
async fn repeatable_samples_do_not_depend_on_partitions() {
    let folder = tempfile::tempdir().expect("a folder");
    let (both, tables) = with_tables(folder.path()).await;
    for t in &tables {
        for clause in ["BERNOULLI (5)", "SYSTEM (30)", "(700 ROWS)"] {
            let of =
                |seed: u32| format!("SELECT n FROM {t} TABLESAMPLE {clause} REPEATABLE ({seed}) ORDER BY n");
            let mut answers = Vec::new();
            for partitions in [1, 2, 16] {
                both.run(&format!(
                    "SET datafusion.execution.target_partitions = {partitions}"
                ))
                .await;
                answers.push(both.each(&of(7)).await);
            }
            assert!(!answers[0][0].is_empty(), "{t} {clause}");
            // The sessions have separate tables in memory, possibly with different row orders.
            if t != "t" {
                assert_eq!(answers[0][0], answers[0][1], "{t} {clause}");
            }
            assert_eq!(answers[0], answers[1], "{t} {clause}");
            assert_eq!(answers[0], answers[2], "{t} {clause}");
            assert_ne!(answers[0], both.each(&of(8)).await, "{t} {clause}");
        }
    }
}

/// The pipelines of the device sample by the row number in the table, regardless of its files, row groups and
/// chunks.
#[tokio::test]
async fn samples_of_files_are_drawn_on_the_device() {
    let folder = tempfile::tempdir().expect("a folder");
    let both = Both::new();
    both.run("ALTER SYSTEM SET galatea.tuning.chunk_rows = 4096")
        .await;
    for (file, first) in [("a", 0), ("b", 10_000), ("c", 12_001)] {
        let last = [10_000, 12_001, 40_000].into_iter().find(|last| *last > first);
        both.run(&format!(
            "COPY (SELECT value AS n, value % 7 AS k FROM generate_series({first}, {} - 1)) TO '{}/{file}.parquet' OPTIONS \
             ('format.max_row_group_size' '3000')",
            last.expect("an end"),
            folder.path().display()
        ))
        .await;
    }
    let t = format!("'{}/*.parquet'", folder.path().display());
    for clause in [
        "BERNOULLI (3)",
        "BERNOULLI (99.9)",
        "SYSTEM (40)",
        "(0 ROWS)",
        "(701 ROWS)",
        "(39999 ROWS)",
    ] {
        for seed in [0, 7, 123_456_789] {
            let drawn = format!("TABLESAMPLE {clause} REPEATABLE ({seed})");
            let sample = format!("{t} {drawn}");
            for sql in [
                format!("SELECT k, count(*) AS c, sum(n) AS s FROM {sample} GROUP BY k ORDER BY k"),
                format!("SELECT n FROM {sample} WHERE k < 3 ORDER BY n LIMIT 50"),
                format!("SELECT count(*), sum(x.n) FROM {t} AS x {drawn} JOIN {t} AS y ON x.n = y.n + 1"),
                format!(
                    "SELECT count(*), sum(y.k) FROM {t} AS y LEFT JOIN {t} AS x {drawn} ON x.n = y.n WHERE x.n IS NULL"
                ),
                format!("SELECT count(*) FROM (SELECT n FROM {sample} UNION ALL SELECT n FROM {t}) AS u"),
            ] {
                let answers = both.each(&sql).await;
                assert_eq!(answers[0], answers[1], "{sql}");
                let plan = both.each(&format!("EXPLAIN FORMAT indent {sql}")).await[1].join("\n");
                assert!(
                    plan.contains("GpuExec") && !plan.contains("SampleExec"),
                    "{sql}\n{plan}"
                );
            }
        }
    }
}

#[tokio::test]
async fn samples_without_a_seed_are_redrawn() {
    let folder = tempfile::tempdir().expect("a folder");
    let (both, tables) = with_tables(folder.path()).await;
    for t in &tables {
        for clause in ["BERNOULLI (10)", "(10 PERCENT)", "10 PERCENT", "(4000 ROWS)"] {
            let sql = format!("SELECT sum(n), count(*) FROM {t} TABLESAMPLE {clause}");
            let (one, other) = (both.first(&sql).await, both.first(&sql).await);
            assert_ne!(one, other, "{sql}");
        }
    }
}

/// A query that reads a sample twice reads the same rows, and so do grouping sets over it.
#[tokio::test]
async fn repeated_references_read_the_same_sample() {
    let folder = tempfile::tempdir().expect("a folder");
    let (both, tables) = with_tables(folder.path()).await;
    for t in &tables {
        let sample = format!("WITH s AS (SELECT * FROM {t} TABLESAMPLE BERNOULLI (10))");
        let twice = format!(
            "{sample} SELECT count(*) FROM s FULL JOIN s AS u ON s.n = u.n WHERE s.n IS NULL OR u.n IS NULL"
        );
        both.answers(&twice, "0").await;
        let totals = format!(
            "{sample}, r AS (SELECT k, count(*) AS c FROM s GROUP BY ROLLUP (k)) SELECT sum(CASE WHEN k IS NULL THEN c ELSE \
             -c END) FROM r"
        );
        both.answers(&totals, "0").await;
    }
}

#[tokio::test]
async fn filters_joins_and_limits_apply_to_the_sample() {
    let folder = tempfile::tempdir().expect("a folder");
    let (both, tables) = with_tables(folder.path()).await;
    for t in &tables {
        let sample = format!("(SELECT * FROM {t} TABLESAMPLE (50 ROWS) REPEATABLE (11))");
        let all = both
            .each(&format!("SELECT count(*) FROM {sample} WHERE k < 3"))
            .await;
        let filtered =
            format!("SELECT count(*) FROM {t} AS x TABLESAMPLE (50 ROWS) REPEATABLE (11) WHERE x.k < 3");
        assert_eq!(both.each(&filtered).await, all, "{t}");
        both.answers(
            &format!(
                "SELECT count(*) FROM {t} AS x TABLESAMPLE (50 ROWS) REPEATABLE (11) JOIN t AS y ON x.n = y.n"
            ),
            "50",
        )
        .await;
        both.answers(
            &format!("SELECT count(*) FROM (SELECT n FROM {t} TABLESAMPLE (50 ROWS) LIMIT 7)"),
            "7",
        )
        .await;
    }
}

#[tokio::test]
async fn subqueries_and_views_are_sampled_without_a_seed() {
    let both = Both::new();
    both.run("CREATE TABLE t AS SELECT value AS n FROM generate_series(1, 1000)")
        .await;
    both.run("CREATE VIEW v AS SELECT n FROM t WHERE n <= 500").await;
    for source in ["(SELECT n FROM t WHERE n <= 500)", "v"] {
        both.answers(
            &format!("SELECT count(*) FROM {source} TABLESAMPLE (20 ROWS)"),
            "20",
        )
        .await;
        both.answers(
            &format!("SELECT count(*) FROM {source} TABLESAMPLE BERNOULLI (100)"),
            "500",
        )
        .await;
        both.answers(
            &format!("SELECT count(*) FROM {source} TABLESAMPLE BERNOULLI (0)"),
            "0",
        )
        .await;
        both.refuses(
            &format!("SELECT * FROM {source} TABLESAMPLE (20 ROWS) REPEATABLE (1)"),
            "REPEATABLE needs a table",
        )
        .await;
        both.refuses(
            &format!("SELECT * FROM {source} TABLESAMPLE SYSTEM (20)"),
            "SYSTEM needs a table",
        )
        .await;
    }
    both.answers(
        "SELECT count(*) FROM generate_series(1, 100) AS g TABLESAMPLE (9 ROWS) REPEATABLE (1)",
        "9",
    )
    .await;
}

#[tokio::test]
async fn invalid_sample_clauses_are_refused() {
    let both = Both::with_table().await;
    for (clause, message) in [
        ("BERNOULLI (101)", "a percentage from 0 to 100: 101"),
        ("BERNOULLI (-1)", "a percentage from 0 to 100: -1"),
        ("SYSTEM (100.5)", "a percentage from 0 to 100: 100.5"),
        ("(-5 ROWS)", "a whole number of rows from 0 on: -5"),
        ("(1.5 ROWS)", "a whole number of rows from 0 on: 1.5"),
        ("SYSTEM (5 ROWS)", "SYSTEM with a number of ROWS"),
        ("BERNOULLI (a)", "needs a number: a"),
        ("('x')", "needs a number: 'x'"),
        ("(BUCKET 1 OUT OF 4)", "BUCKET"),
    ] {
        both.refuses(&format!("SELECT * FROM t TABLESAMPLE {clause}"), message)
            .await;
    }
}
