//! Folders `key=value`: COPY with PARTITION_BY, INSERT into a partitioned table, and reading both, with NULLs
//! and strings that a path cannot contain. The folders and values are DuckDB's.

use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::prelude::SessionContext;
use std::fs;
use std::path::Path;

const TABLE: &str = "CREATE TABLE t AS SELECT id, s, CAST(i AS INT) AS i, CAST(d AS DATE) AS d, b, n, \
     arrow_cast(s, 'Dictionary(Int32, Utf8)') AS c FROM (VALUES \
     (1, 'a', 1, '2024-01-01', true, 1.5), (2, NULL, NULL, NULL, NULL, NULL), \
     (3, '', 0, '1970-01-01', false, 0.0), (4, 'a/b=c%d e', -5, '2024-02-29', true, 2.25)) \
     AS v(id, s, i, d, b, n)";

const NULL_FOLDER: &str = "__HIVE_DEFAULT_PARTITION__";

fn session(device: &str, partitions: usize) -> SessionContext {
    galatea::session()
        .with_emulated_device(galatea::EmulatorOptions::default())
        .with_file_queries(true)
        .with_setting("galatea.device", device)
        .with_setting("galatea.tuning.min_rows", "0")
        .with_setting("datafusion.execution.target_partitions", partitions.to_string())
        .build()
        .expect("a session")
}

async fn tried(ctx: &SessionContext, sql: &str) -> Result<String, String> {
    let frame = galatea::sql(ctx, sql).await.map_err(|error| error.to_string())?;
    let batches = frame.collect().await.map_err(|error| error.to_string())?;
    let options = FormatOptions::default().with_null("NULL");
    let mut rows = Vec::new();
    for batch in &batches {
        let columns = batch.columns().iter();
        let columns: Vec<_> = columns
            .map(|column| ArrayFormatter::try_new(column, &options).expect("a printable column"))
            .collect();
        for row in 0..batch.num_rows() {
            let cells: Vec<String> = columns
                .iter()
                .map(|column| format!("[{}]", column.value(row)))
                .collect();
            rows.push(cells.concat());
        }
    }
    Ok(rows.join(" "))
}

async fn answer(ctx: &SessionContext, sql: &str) -> String {
    tried(ctx, sql)
        .await
        .unwrap_or_else(|error| panic!("{sql}\n{error}"))
}

/// The folders below a folder, sorted.
fn folders(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).expect("a folder");
    let mut names: Vec<String> = entries
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    names.sort();
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn copied_keys_are_read_back() {
    for (device, partitions) in [("cpu", 1), ("cpu", 16), ("emulated", 2)] {
        let ctx = session(device, partitions);
        answer(&ctx, TABLE).await;
        for format in ["parquet", "csv", "json", "arrow"] {
            let root = tempfile::tempdir().expect("a folder");
            for (key, expected) in [
                ("s", "[1][a] [2][NULL] [3][] [4][a/b=c%d e]"),
                ("c", "[1][a] [2][NULL] [3][] [4][a/b=c%d e]"),
                ("i", "[1][1] [2][NULL] [3][0] [4][-5]"),
                ("d", "[1][2024-01-01] [2][NULL] [3][1970-01-01] [4][2024-02-29]"),
                ("b", "[1][true] [2][NULL] [3][false] [4][true]"),
                ("n", "[1][1.5] [2][NULL] [3][0.0] [4][2.25]"),
            ] {
                let path = root.path().join(key);
                let copy = format!(
                    "COPY (SELECT id, {key} FROM t) TO '{}' (FORMAT {format}, PARTITION_BY ({key}))",
                    path.display()
                );
                answer(&ctx, &copy).await;
                assert!(folders(&path).contains(&format!("{key}={NULL_FOLDER}")), "{copy}");
                let sql = format!("SELECT id, {key} FROM '{}/' ORDER BY id", path.display());
                for _ in 0..2 {
                    assert_eq!(answer(&ctx, &sql).await, expected, "{device} {copy}");
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn conditions_on_folders_follow_sql() {
    let root = tempfile::tempdir().expect("a folder");
    let path = root.path().join("f");
    let writer = session("cpu", 4);
    answer(&writer, TABLE).await;
    let copy = format!(
        "COPY (SELECT id, s, i FROM t) TO '{}' (FORMAT parquet, PARTITION_BY (s, i))",
        path.display()
    );
    answer(&writer, &copy).await;
    assert_eq!(
        folders(&path.join(format!("s={NULL_FOLDER}"))),
        [format!("i={NULL_FOLDER}")]
    );
    let declared = format!(
        "CREATE EXTERNAL TABLE f (id BIGINT, s VARCHAR, i INT) STORED AS PARQUET PARTITIONED BY (s, i) LOCATION '{}/'",
        path.display()
    );
    for (device, partitions) in [("cpu", 1), ("cpu", 2), ("cpu", 16), ("emulated", 2)] {
        let ctx = session(device, partitions);
        answer(&ctx, &declared).await;
        for (condition, expected) in [
            ("true", "[1] [2] [3] [4]"),
            ("s IS NULL", "[2]"),
            ("s IS NOT NULL", "[1] [3] [4]"),
            ("s <> 'a'", "[3] [4]"),
            ("s = 'a'", "[1]"),
            ("s = 'a/b=c%d e'", "[4]"),
            ("s = ''", "[3]"),
            ("s = '__HIVE_DEFAULT_PARTITION__'", ""),
            ("NOT (s = 'a')", "[3] [4]"),
            ("s IN ('a', NULL)", "[1]"),
            ("coalesce(s, 'n') = 'n'", "[2]"),
            ("i IS NULL", "[2]"),
            ("i > -9", "[1] [3] [4]"),
            ("i = 0 OR i IS NULL", "[2] [3]"),
            ("i IS DISTINCT FROM 1 AND id > 2", "[3] [4]"),
            ("i = (SELECT max(i) FROM f)", "[1]"),
            ("s IS NULL AND id = 2", "[2]"),
            ("id = 4", "[4]"),
        ] {
            let sql = format!("SELECT id FROM f WHERE {condition} ORDER BY id");
            for _ in 0..2 {
                assert_eq!(answer(&ctx, &sql).await, expected, "{device} {partitions} {sql}");
            }
        }
        for (sql, expected) in [
            (
                "SELECT count(*), count(s), count(i), min(i), max(i), sum(i) FROM f",
                "[4][3][3][-5][1][-4]",
            ),
            (
                "SELECT s, count(*) FROM f GROUP BY s ORDER BY s NULLS FIRST",
                "[NULL][1] [][1] [a][1] [a/b=c%d e][1]",
            ),
            ("SELECT i + 1 FROM f ORDER BY 1 NULLS LAST", "[-4] [1] [2] [NULL]"),
            (
                "SELECT x.id FROM f x LEFT JOIN f y ON x.s = y.s WHERE y.id IS NULL",
                "[2]",
            ),
            ("SELECT id FROM f ORDER BY i DESC NULLS FIRST LIMIT 2", "[2] [1]"),
            ("SELECT count(*) FROM (SELECT id FROM f LIMIT 3)", "[3]"),
        ] {
            for _ in 0..2 {
                assert_eq!(answer(&ctx, sql).await, expected, "{device} {partitions} {sql}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn inserted_keys_are_read_back() {
    for format in ["PARQUET", "CSV", "JSON", "ARROW"] {
        let root = tempfile::tempdir().expect("a folder");
        let ctx = session("cpu", 3);
        answer(&ctx, TABLE).await;
        let create = format!(
            "CREATE EXTERNAL TABLE f (id BIGINT, s VARCHAR, d DATE) STORED AS {format} PARTITIONED BY (s, d) LOCATION '{}/'",
            root.path().join("new").display()
        );
        answer(&ctx, &create).await;
        answer(&ctx, "INSERT INTO f SELECT id, s, d FROM t").await;
        let all = "[1][a][2024-01-01] [2][NULL][NULL] [3][][1970-01-01] [4][a/b=c%d e][2024-02-29]";
        assert_eq!(answer(&ctx, "SELECT * FROM f ORDER BY id").await, all, "{format}");
        answer(
            &ctx,
            "INSERT INTO f VALUES (5, NULL, DATE '2024-01-01'), (6, 'b', NULL)",
        )
        .await;
        assert_eq!(
            answer(&ctx, "SELECT id FROM f WHERE s IS NULL OR d IS NULL ORDER BY id").await,
            "[2] [5] [6]",
            "{format}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unwritable_keys_are_errors() {
    let root = tempfile::tempdir().expect("a folder");
    let ctx = session("cpu", 2);
    answer(&ctx, TABLE).await;
    for (select, key, message) in [
        (
            "SELECT id, '__HIVE_DEFAULT_PARTITION__' AS k FROM t",
            "k",
            "means NULL in the name of a folder",
        ),
        (
            "SELECT id, [1] AS k FROM t",
            "k",
            "cannot partition files by the column k: its type is List",
        ),
        (
            "SELECT 1 AS id, s AS \"a=b\" FROM t",
            "\"a=b\"",
            "cannot partition files by the column \"a=b\"",
        ),
        (
            "SELECT 1 AS id, s AS \"a/b\" FROM t",
            "\"a/b\"",
            "hint: rename the column",
        ),
    ] {
        let copy = format!(
            "COPY ({select}) TO '{}' (FORMAT parquet, PARTITION_BY ({key}))",
            root.path().join("e").display()
        );
        let error = tried(&ctx, &copy).await.expect_err(&copy);
        assert!(error.contains(message), "{copy}\n{error}");
    }
    answer(&ctx, "SET datafusion.execution.keep_partition_by_columns = true").await;
    let copy = |select: &str, name: &str| {
        let path = root.path().join(name);
        format!(
            "COPY ({select}) TO '{}' (FORMAT parquet, PARTITION_BY (i))",
            path.display()
        )
    };
    let error = tried(&ctx, &copy("SELECT id, i FROM t", "k"))
        .await
        .expect_err("a NULL");
    assert!(
        error.contains("it has a NULL, and the files contain the column, too"),
        "{error}"
    );
    answer(&ctx, &copy("SELECT id, i FROM t WHERE i IS NOT NULL", "l")).await;
    let sql = format!(
        "SELECT id, i FROM '{}/*/*.parquet' ORDER BY id",
        root.path().join("l").display()
    );
    assert_eq!(answer(&ctx, &sql).await, "[1][1] [3][0] [4][-5]");
    let folder = root.path().join("bad/i=x");
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join("a.csv"), "id\n1\n").expect("a file");
    let create = format!(
        "CREATE EXTERNAL TABLE bad (id BIGINT, i INT) STORED AS CSV PARTITIONED BY (i) LOCATION '{}/'",
        root.path().join("bad").display()
    );
    answer(&ctx, &create).await;
    let error = tried(&ctx, "SELECT * FROM bad")
        .await
        .expect_err("a wrong folder");
    assert!(error.contains("the folder 'i=x' is no Int32"), "{error}");
}
