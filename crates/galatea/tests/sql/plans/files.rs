//! Plans over files are reused as long as the files are unchanged.

use super::{afresh, ask, run, session, statistics, value};
use crate::compare::same;
use datafusion::prelude::SessionContext;
use std::path::Path;
use std::time::Duration;

/// After this time, a file's modification time reveals every later change.
pub(crate) const SETTLED: Duration = Duration::from_millis(2200);

/// Writes a file of one column `v`.
async fn write(ctx: &SessionContext, file: &Path, rows: &str) {
    let staged = file.with_extension("staged");
    let format = file.extension().and_then(|e| e.to_str()).expect("a format");
    let sql = format!(
        "COPY (SELECT * FROM (VALUES {rows}) AS r(v)) TO '{}' STORED AS {format}",
        staged.display()
    );
    run(ctx, &sql).await;
    std::fs::rename(staged, file).expect("in place");
}

#[tokio::test]
async fn file_changes_invalidate_cached_plans() {
    for format in ["parquet", "csv"] {
        let folder = tempfile::tempdir().expect("a folder");
        let ctx = session(&[]).await;
        let (first, second) = (
            folder.path().join(format!("a.{format}")),
            folder.path().join(format!("b.{format}")),
        );
        write(&ctx, &first, "(1), (2), (3)").await;
        let external = format!(
            "CREATE EXTERNAL TABLE e STORED AS {format} LOCATION '{}/'",
            folder.path().display()
        );
        run(&ctx, &external).await;
        let tables = [
            format!("'{}/*.{format}'", folder.path().display()),
            format!("'{}'", folder.path().display()),
            "e".to_owned(),
        ];
        let sums: Vec<String> = tables
            .iter()
            .map(|table| format!("SELECT sum(v), min(v), count(*) FROM {table}"))
            .collect();
        // Two runs while modification times are inconclusive, and two afterwards.
        let check = async |answer: &str, what: &str| {
            for sql in &sums {
                for _ in 0..2 {
                    assert_eq!(value(&ctx, sql).await, answer, "{what}\n{sql}");
                }
            }
            std::thread::sleep(SETTLED);
            for sql in &sums {
                assert_eq!(value(&ctx, sql).await, answer, "{what}\n{sql}");
                let (rows, reused) = ask(&ctx, sql).await;
                assert!(reused, "{what}\n{sql}");
                assert_eq!(super::rows_text(&rows).join(";"), answer, "{what}\n{sql}");
            }
        };
        check("6|1|3", "one file").await;
        write(&ctx, &second, "(10), (20)").await;
        check("36|1|5", "one more file").await;
        let size = std::fs::metadata(&first).expect("a file").len();
        write(&ctx, &first, "(1), (2), (4)").await;
        assert_eq!(
            std::fs::metadata(&first).expect("a file").len(),
            size,
            "as long as before"
        );
        check("37|1|5", "rewritten with the same size").await;
        std::fs::remove_file(&second).expect("removed");
        check("7|1|3", "a file less").await;
        std::fs::rename(&first, &second).expect("renamed");
        check("7|1|3", "renamed").await;
    }
}

/// A rewrite that preserves size and modification time changes the inode or the time of the last change.
#[tokio::test]
async fn rewrite_with_equal_size_and_mtime_invalidates_plans() {
    let folder = tempfile::tempdir().expect("a folder");
    let ctx = session(&[]).await;
    let file = folder.path().join("a.parquet");
    write(&ctx, &file, "(1), (2), (3)").await;
    std::thread::sleep(SETTLED);
    let sql = format!("SELECT sum(v + 0) FROM '{}' WHERE v > 0", file.display());
    for _ in 0..2 {
        assert_eq!(value(&ctx, &sql).await, "6");
    }
    assert!(ask(&ctx, &sql).await.1);
    let modified = std::fs::metadata(&file)
        .expect("a file")
        .modified()
        .expect("a time");
    write(&ctx, &file, "(1), (2), (4)").await;
    let open = std::fs::File::options().write(true).open(&file).expect("opens");
    open.set_modified(modified).expect("set back");
    drop(open);
    assert_eq!(value(&ctx, &sql).await, "7");
}

/// Executions share the rows of a build side that a GPU subtree reads from a file, until the file changes.
#[tokio::test]
async fn shared_build_sides_follow_their_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let ctx = session(&[]).await;
    let file = folder.path().join("a.parquet");
    let sql = format!(
        "SELECT count(*), sum(t.v) FROM t JOIN '{}' AS a ON t.v = a.v WHERE a.v % 5 < 4",
        file.display()
    );
    for (rows, answer) in [("(1), (2), (4), (7)", "3|10"), ("(1), (2), (3), (9)", "3|6")] {
        write(&ctx, &file, rows).await;
        // While modification times are inconclusive, too.
        assert_eq!(value(&ctx, &sql).await, answer);
        std::thread::sleep(SETTLED);
        for run in 0..5 {
            assert_eq!(value(&ctx, &sql).await, answer, "run {run}");
            let report = galatea::last_query_report(&ctx).expect("a query ran");
            assert_eq!(report.placed, 2, "the filter is a subtree of its own: {report:?}");
            assert_eq!(report.build_sides_reused, usize::from(run > 1), "run {run}");
        }
    }
}

#[tokio::test]
async fn plans_over_files_and_tables_are_reused() {
    let folder = tempfile::tempdir().expect("a folder");
    let ctx = session(&[]).await;
    let (fact, dimension) = (folder.path().join("t.parquet"), folder.path().join("d.parquet"));
    run(&ctx, &format!("COPY t TO '{}'", fact.display())).await;
    run(&ctx, &format!("COPY d TO '{}'", dimension.display())).await;
    std::thread::sleep(SETTLED);
    let (fact, dimension) = (fact.display(), dimension.display());
    for sql in [
        format!(
            "SELECT d.name, sum(t.v) FROM '{fact}' AS t JOIN '{dimension}' AS d ON t.k = d.k GROUP BY d.name"
        ),
        format!("SELECT d.name, sum(t.v) FROM '{fact}' AS t JOIN d ON t.k = d.k GROUP BY d.name"),
        format!("SELECT k, count(*) FROM '{fact}' WHERE v > 100 GROUP BY k"),
        format!("SELECT v, f FROM '{fact}' WHERE v % 100 = 1"),
    ] {
        let expected = afresh(&ctx, &sql).await;
        for reused in [false, true, true] {
            let (rows, was) = ask(&ctx, &sql).await;
            assert_eq!(was, reused, "{sql}");
            same(&expected, &rows).unwrap_or_else(|difference| panic!("{sql}\n{difference}"));
        }
    }
    // An external table that is created again over other files.
    for (file, answer) in [(&fact, "3000"), (&dimension, "7")] {
        run(&ctx, "DROP TABLE IF EXISTS e").await;
        run(
            &ctx,
            &format!("CREATE EXTERNAL TABLE e STORED AS parquet LOCATION '{file}'"),
        )
        .await;
        for _ in 0..3 {
            assert_eq!(value(&ctx, "SELECT count(*) FROM e").await, answer);
        }
    }
    assert!(statistics(&ctx).reused > 0);
}
