//! Streams over folders with a growing number of files.

use super::source::sessions;
use crate::compare::same_in_order;
use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::datatypes::Int64Type;
use futures::StreamExt;
use std::path::Path;

/// Writes a file, and renames it into the folder when it is complete.
fn put(folder: &Path, name: &str, text: &str) {
    let part = folder.join(format!(".{name}"));
    std::fs::write(&part, text).expect("writes");
    std::fs::rename(part, folder.join(name)).expect("renames");
}

fn table(folder: &Path, format: &str) -> String {
    format!(
        "CREATE UNBOUNDED EXTERNAL TABLE e (ts TIMESTAMP, k VARCHAR, v BIGINT) STORED AS {format} WITH ORDER (ts)
         LOCATION '{}' OPTIONS ('format.has_header' 'true')",
        folder.display()
    )
}

const SQL: &str =
    "SELECT date_bin(INTERVAL '1 minute', ts) AS w, k, sum(v) AS s FROM e WHERE v <> 4 GROUP BY w, k";

#[tokio::test]
async fn new_files_in_a_folder_are_streamed() {
    let pair = sessions(&[]);
    let folder = tempfile::tempdir().expect("a folder");
    put(
        folder.path(),
        "a.csv",
        "ts,k,v\n2024-01-01T00:00:05,x,1\n2024-01-01T00:00:50,x,2\n",
    );
    pair.gpu
        .sql(&table(folder.path(), "CSV"))
        .await
        .expect("a stream");
    let mut windows = pair
        .gpu
        .sql(SQL)
        .await
        .expect("plans")
        .execute_stream()
        .await
        .expect("starts");
    // Incomplete files are not read.
    std::fs::write(folder.path().join(".c.csv"), "ts,k,v\nbroken").expect("writes");
    put(
        folder.path(),
        "b.csv",
        "ts,k,v\n2024-01-01T00:01:00,x,3\n2024-01-01T00:01:01,,4\n2024-01-01T00:01:02,,5\n",
    );
    let sum = |batch: &RecordBatch| batch.column(2).as_primitive::<Int64Type>().values().to_vec();
    let first = windows.next().await.expect("a window").expect("rows");
    assert_eq!(sum(&first), [3]);
    put(folder.path(), "_END", "");
    let mut rest = Vec::new();
    while let Some(batch) = windows.next().await {
        rest.extend(sum(&batch.expect("rows")));
    }
    rest.sort_unstable();
    assert_eq!(rest, [3, 5]);
}

#[tokio::test]
async fn file_formats_stream_the_same_rows() {
    let pair = sessions(&[]);
    let folder = tempfile::tempdir().expect("a folder");
    let rows = "SELECT to_timestamp(1704067200 + value) AS ts, CASE WHEN value % 5 > 0 THEN
        concat('k', value % 3) END AS k, CAST(value AS BIGINT) AS v FROM generate_series(1, 500) ORDER BY value";
    let query = "SELECT ts, v * 2 AS x, k FROM e WHERE v % 7 < 3";
    let mut expected: Option<Vec<RecordBatch>> = None;
    for (format, file) in [("CSV", "a.csv"), ("JSON", "a.json"), ("PARQUET", "a.parquet")] {
        let one = folder.path().join(format);
        std::fs::create_dir(&one).expect("a folder");
        let copy = format!(
            "COPY ({rows}) TO '{}' STORED AS {format}",
            one.join(file).display()
        );
        pair.cpu
            .sql(&copy)
            .await
            .expect("plans")
            .collect()
            .await
            .expect("copies");
        put(&one, "_END", "");
        let _ = pair.gpu.deregister_table("e").expect("a session's table");
        pair.gpu.sql(&table(&one, format)).await.expect("a stream");
        let found = pair
            .gpu
            .sql(query)
            .await
            .expect("plans")
            .collect()
            .await
            .expect("runs");
        let report = galatea::last_query_report(&pair.gpu).expect("a report");
        assert!(report.placed > 0, "{format}: {report:?}");
        match &expected {
            None => expected = Some(found),
            Some(expected) => same_in_order(expected, &found).expect(format),
        }
    }
    let rows: usize = expected.iter().flatten().map(RecordBatch::num_rows).sum();
    assert_eq!(rows, 500 - 500 / 7 * 4 - 1);
}
