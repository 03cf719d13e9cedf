//! Names of files and folders in queries: which are tables, which are refused, and the effect of deleting
//! them. The process keeps its folder: names are absolute, except in one test of bare names.

use crate::front::Both;
use std::fs;
use std::path::Path;

fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().expect("below the folder")).expect("made");
        fs::write(path, text).expect("written");
    }
    folder
}

fn name(path: &Path) -> String {
    format!("'{}'", path.display())
}

#[tokio::test]
async fn folder_with_mixed_formats_is_refused() {
    let both = Both::new();
    let mixed = folder(&[
        ("a.csv", "a,b\n1,2\n"),
        ("b.csv", "a,b\n3,4\n"),
        ("d.json", "{\"a\":1}\n"),
    ]);
    both.refuses(
        &format!("SELECT * FROM '{}/'", mixed.path().display()),
        "files of different formats",
    )
    .await;
    let compressed = folder(&[("a.csv", "a,b\n1,2\n"), ("x/b.csv.gz", "")]);
    both.refuses(
        &format!("SELECT * FROM '{}/'", compressed.path().display()),
        "files of different formats",
    )
    .await;
    // Files without data are skipped.
    let notes = folder(&[("a.csv", "a,b\n1,2\n"), ("_SUCCESS", ""), (".b.json", "{}")]);
    both.answers(&format!("SELECT * FROM '{}/'", notes.path().display()), "1 2")
        .await;
}

#[tokio::test]
async fn external_table_with_missing_file_is_an_error() {
    let both = Both::new();
    for format in ["parquet", "csv"] {
        let folder = folder(&[]);
        let file = folder.path().join(format!("t.{format}"));
        both.run(&format!(
            "COPY (SELECT value AS i FROM generate_series(1, 10)) TO {}",
            name(&file)
        ))
        .await;
        both.run(&format!(
            "CREATE EXTERNAL TABLE t_{format} STORED AS {format} LOCATION {} {}",
            name(&file),
            if format == "csv" {
                "OPTIONS ('format.has_header' 'true')"
            } else {
                ""
            }
        ))
        .await;
        let sql = format!("SELECT count(*), sum(i) FROM t_{format}");
        both.answers(&sql, "10 55").await;
        both.answers(&sql, "10 55").await;
        fs::remove_file(&file).expect("removed");
        both.refuses(
            &sql,
            &format!("no such file: {}, of the table t_{format}", name(&file)),
        )
        .await;
        both.refuses(
            &format!("SELECT 1 WHERE 0 < (SELECT count(*) FROM t_{format})"),
            "no such file",
        )
        .await;
    }
    let gone = folder(&[("data/a.csv", "a\n1\n")]);
    let data = gone.path().join("data");
    both.run(&format!(
        "CREATE EXTERNAL TABLE d STORED AS CSV LOCATION '{}/'",
        data.display()
    ))
    .await;
    fs::remove_dir_all(&data).expect("removed");
    both.refuses("SELECT count(*) FROM d", "no such file").await;
}

/// Both sessions insert into the same folder.
#[tokio::test]
async fn external_table_on_a_new_folder_is_empty() {
    let both = Both::new();
    let folder = folder(&[]);
    let place = folder.path().join("new/t");
    both.run(&format!(
        "CREATE EXTERNAL TABLE t (i BIGINT) STORED AS PARQUET LOCATION '{}/'",
        place.display()
    ))
    .await;
    both.answers("SELECT count(*), sum(i) FROM t", "0 NULL").await;
    both.run("INSERT INTO t VALUES (3)").await;
    both.answers("SELECT count(*), sum(i) FROM t", "2 6").await;
    fs::remove_dir_all(&place).expect("removed");
    both.refuses("SELECT count(*) FROM t", "no such file").await;
}

#[tokio::test]
async fn show_columns_of_a_file() {
    let both = Both::with_table().await;
    let folder = folder(&[("x.csv", "id,it's\n1,a\n")]);
    let file = name(&folder.path().join("x.csv"));
    let shown = both.rows(&format!("SHOW COLUMNS FROM {file}")).await;
    let columns: Vec<Vec<&str>> = shown.iter().map(|row| row.split(' ').skip(3).collect()).collect();
    assert_eq!(columns, [["id", "Int64", "YES"], ["it's", "Utf8", "YES"]]);
    let shown = both.rows("SHOW COLUMNS FROM t").await;
    assert_eq!(shown.len(), 2, "{shown:?}");
    both.refuses("SHOW COLUMNS FROM nothing", "nothing").await;
    both.refuses("SHOW COLUMNS FROM 'nothing.csv'", "no such file")
        .await;
}

/// Bare names are tables, regardless of the folder's contents. This is the only test here that needs names in
/// the process's folder: those of this crate (`src`, `tests`).
#[tokio::test]
async fn bare_name_is_not_a_folder() {
    assert!(Path::new("src").is_dir(), "tests run in their crate");
    let both = Both::new();
    both.refuses("SELECT * FROM src", "src").await;
    both.refuses("INSERT INTO src VALUES (1)", "src").await;
    both.run("CREATE TABLE src (id INT) AS VALUES (1)").await;
    both.answers("SELECT * FROM src", "1").await;
    both.answers("SELECT * FROM 'src'", "1").await;
    both.run("INSERT INTO src VALUES (2)").await;
    both.answers("SELECT sum(id) FROM src", "3").await;
    both.run("CREATE TABLE IF NOT EXISTS tests AS SELECT 1 AS x")
        .await;
    both.run("CREATE OR REPLACE TABLE tests AS SELECT 2 AS x").await;
    both.answers("SELECT x FROM tests", "2").await;
}
