//! Scans of Parquet files that decode the columns of their filter first, compared with tables in memory.

use crate::{rows, session};
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::SessionContext;
use std::path::Path;
use std::sync::Arc;

/// A table of 24 columns. Most are text.
const TABLE: &str = "CREATE TABLE t AS SELECT value AS id, value % 97 AS g, \
    CASE WHEN value % 7 = 0 THEN NULL ELSE value % 1000 END AS n, \
    'url ' || (value * 7919 % 5003) AS u, \
    CAST(value % 13 AS DOUBLE) - 6 AS f, \
    to_timestamp(value * 7919 % 10007) AS ts, \
    CAST(value % 1000 AS DECIMAL(12, 2)) AS d, value % 3 = 0 AS b, make_array(value, value + 1) AS l, \
    named_struct('x', value % 5, 'y', 'a' || value) AS st, COLUMNS_OF_TEXT FROM generate_series(1, 10000)";

/// A query, and whether its scan decodes the columns of the filter first.
const QUERIES: &[(&str, bool)] = &[
    ("SELECT * FROM t WHERE u LIKE '%99%'", true),
    ("SELECT * FROM t WHERE n = 500", true),
    ("SELECT * FROM t WHERE n IS NULL AND g = 5", true),
    (
        "SELECT * FROM t WHERE id <= 3000 AND u LIKE '%1' ORDER BY ts LIMIT 10",
        true,
    ),
    ("SELECT * FROM t ORDER BY ts LIMIT 7", true),
    ("SELECT * FROM t ORDER BY ts DESC, id LIMIT 7 OFFSET 5", true),
    ("SELECT * FROM t WHERE d = 12.00 AND b", true),
    ("SELECT * FROM t WHERE n IN (1, 2, 3) OR g = 96", true),
    ("SELECT * FROM t WHERE id > 10000", false),
    ("SELECT * FROM t WHERE id < 5 OR u = 'url 7'", true),
    (
        "SELECT count(*), max(c3), min(c9), max(c12), min(u) FROM t WHERE g = 11",
        true,
    ),
    (
        "SELECT g, max(c3), min(c9), max(c12), min(u) FROM t WHERE n > 900 GROUP BY g ORDER BY g",
        true,
    ),
    ("SELECT * FROM t WHERE f > 5", false),
    ("SELECT * FROM t WHERE n <> 0 AND 1000 / n > 400", false),
    ("SELECT * FROM t WHERE st['x'] <> 0 AND 10 / st['x'] > 4", false),
    ("SELECT * FROM t WHERE l[1] % 1000 = 3", false),
    (
        "SELECT u, count(*) FROM t WHERE u LIKE '%99%' GROUP BY u ORDER BY u",
        false,
    ),
    (
        "SELECT a.* FROM t a JOIN t b ON a.id = b.id AND b.g = 3 WHERE a.n > 990",
        true,
    ),
    (
        "SELECT * FROM t a WHERE EXISTS (SELECT 1 FROM t b WHERE b.id = a.id + 1 AND b.n = 17) AND a.g < 50",
        true,
    ),
];

fn create() -> String {
    let text: Vec<String> = (0..14)
        .map(|k| format!("'text {k} of ' || value AS c{k}"))
        .collect();
    TABLE.replace("COLUMNS_OF_TEXT", &text.join(", "))
}

/// The sum of a number over the nodes of a plan.
fn sum(plan: &Arc<dyn ExecutionPlan>, of: fn(&Arc<dyn ExecutionPlan>) -> Option<usize>) -> usize {
    let below = plan.children().into_iter().map(|child| sum(child, of));
    of(plan).unwrap_or(0) + below.sum::<usize>()
}

/// The number of rows that scans of a plan have excluded while they decoded pages.
fn excluded(plan: &Arc<dyn ExecutionPlan>) -> usize {
    sum(plan, |node| {
        let pruned = node.metrics()?.sum_by_name("pushdown_rows_pruned")?;
        Some(pruned.as_usize())
    })
}

/// The number of rows that filters of a plan have returned.
fn filtered(plan: &Arc<dyn ExecutionPlan>) -> usize {
    sum(plan, |node| {
        let metrics = node.metrics().filter(|_| node.name() == "FilterExec");
        metrics?.output_rows()
    })
}

/// The plan of a query that has run.
async fn run(ctx: &SessionContext, sql: &str) -> Arc<dyn ExecutionPlan> {
    let frame = ctx.sql(sql).await.expect("a plan");
    let plan = frame.create_physical_plan().await.expect("a physical plan");
    collect(Arc::clone(&plan), ctx.task_ctx())
        .await
        .expect("an answer");
    plan
}

/// Writes the table to a file and registers it.
async fn write(memory: &SessionContext, files: &SessionContext, folder: &Path) {
    rows(memory, &create()).await.expect("a table");
    let path = folder.join("t.parquet");
    let copy = format!(
        "COPY t TO '{}' STORED AS PARQUET OPTIONS ('format.max_row_group_size' '3000', \
         'format.data_page_row_count_limit' '250', 'format.write_batch_size' '250')",
        path.display()
    );
    rows(memory, &copy).await.expect("a file");
    let table = format!(
        "CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '{}'",
        path.display()
    );
    rows(files, &table).await.expect("a table");
}

#[tokio::test]
async fn filters_are_decoded_first_in_wide_scans() {
    for partitions in [1, 4] {
        let [memory, files] = [(); 2].map(|()| session("cpu", partitions));
        let folder = tempfile::tempdir().expect("a folder");
        write(&memory, &files, folder.path()).await;
        for (sql, first) in QUERIES {
            let expected = rows(&memory, sql).await.expect(sql);
            assert_eq!(rows(&files, sql).await.expect(sql), expected, "{sql}");
            let excluded = excluded(&run(&files, sql).await);
            assert_eq!(excluded > 0, *first, "{excluded} rows are excluded: {sql}");
        }
    }
}

/// The first rows of the first row group exclude rows of the other three.
#[tokio::test]
async fn first_rows_of_a_row_group_tighten_the_filter_of_the_next_one() {
    let [memory, files] = [(); 2].map(|()| session("cpu", 1));
    let folder = tempfile::tempdir().expect("a folder");
    write(&memory, &files, folder.path()).await;
    let sql = "SELECT * FROM t WHERE g < 10 ORDER BY ts LIMIT 3";
    let expected = rows(&memory, sql).await.expect("an answer");
    assert_eq!(rows(&files, sql).await.expect("an answer"), expected);
    let matches = rows(&memory, "SELECT 1 FROM t WHERE g < 10").await;
    let (matches, filtered) = (matches.expect("rows").len(), filtered(&run(&files, sql).await));
    assert!(filtered < matches / 2, "{filtered} of {matches} rows");
}
