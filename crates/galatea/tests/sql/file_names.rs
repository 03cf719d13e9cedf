//! `filename = true`: the path of each row's file as a column, on the CPU and on the emulated device.

use crate::front::Both;
use std::fs;

/// Two files of CSV, two of Parquet and one of JSON in a folder. `{/}` in a statement is the folder.
async fn samples(both: &Both) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("a file");
    write("a.csv", "x\n1\n2\n");
    write("b.csv", "x\n3\n");
    write("empty.csv", "x\n");
    write("a.json", "{\"x\": 5}\n{\"x\": null}\n");
    write("taken.csv", "x,filename\n1,u\n");
    let at = folder.path().display();
    both.run(&format!(
        "COPY (SELECT * FROM (VALUES (1, 'u'), (2, 'v')) AS t(x, y)) TO '{at}/a.parquet'"
    ))
    .await;
    both.run(&format!("COPY (SELECT 7 AS x) TO '{at}/b.parquet'"))
        .await;
    folder
}

#[tokio::test]
async fn rows_have_the_path_of_their_file() {
    let both = Both::new();
    let folder = samples(&both).await;
    let at = folder.path().display().to_string();
    let named = |sql: &str| sql.replace("{/}", &at);
    for (sql, expected) in [
        (
            "SELECT x, filename FROM read_csv('{/}/[ab].csv', filename = true) ORDER BY x",
            "1 {/}/a.csv; 2 {/}/a.csv; 3 {/}/b.csv",
        ),
        (
            "SELECT filename, sum(x), count(*) FROM read_csv(['{/}/b.csv', '{/}/a.csv'], filename => true) GROUP BY filename ORDER BY 1",
            "{/}/a.csv 3 2; {/}/b.csv 3 1",
        ),
        (
            "SELECT x, y, filename FROM read_parquet('{/}/{a,b}.parquet', filename = 1) ORDER BY x, y NULLS LAST",
            "1 u {/}/a.parquet; 2 v {/}/a.parquet; 7 NULL {/}/b.parquet",
        ),
        (
            "SELECT sum(x) FROM read_parquet('{/}/*.parquet', filename = true) WHERE filename LIKE '%b.parquet'",
            "7",
        ),
        (
            "SELECT DISTINCT filename FROM read_parquet('{/}/*.parquet', filename = true) WHERE x < 3",
            "{/}/a.parquet",
        ),
        (
            "SELECT count(*), count(DISTINCT filename), max(x) FROM read_json('{/}/a.json', filename = true)",
            "2 1 5",
        ),
        // Another name of the column, also beside one of the files.
        (
            "SELECT x, filename, path FROM read_csv('{/}/taken.csv', filename = 'path')",
            "1 u {/}/taken.csv",
        ),
        ("SELECT * FROM read_csv('{/}/b.csv', filename = false)", "3"),
        ("FROM read_csv('{/}/empty.csv', filename = true)", ""),
        (
            "SELECT count(*) FROM read_parquet('{/}/*.parquet', filename = true)",
            "3",
        ),
        (
            "WITH f AS (FROM read_csv('{/}/?.csv', filename = true)) SELECT one.x, two.x FROM f AS one JOIN f AS two ON one.filename = two.filename AND one.x < two.x",
            "1 2",
        ),
        (
            "SELECT filename, x FROM read_csv('{/}/[ab].csv', filename = true) ORDER BY x DESC LIMIT 1",
            "{/}/b.csv 3",
        ),
    ] {
        both.answers(&named(sql), &named(expected)).await;
    }
    both.columns(
        &named("FROM read_csv('{/}/a.csv', filename = true)"),
        "x filename",
    )
    .await;
    both.refuses(
        &named("FROM read_csv('{/}/taken.csv', filename = true)"),
        "the option filename adds the column filename, and the files have a column of this name",
    )
    .await;
}

/// A new file is in the next result.
#[tokio::test]
async fn paths_are_listed_for_each_query() {
    let both = Both::new();
    let folder = samples(&both).await;
    let sql = format!(
        "SELECT count(DISTINCT filename), sum(x) FROM read_csv('{}/?.csv', filename = true)",
        folder.path().display()
    );
    both.answers(&sql, "2 6").await;
    fs::write(folder.path().join("c.csv"), "x\n10\n").expect("a file");
    both.answers(&sql, "3 16").await;
}

/// Views resolve names of files for each query, too: below other views, and after a file was removed.
#[tokio::test]
async fn views_read_the_files_that_match_now() {
    let both = Both::new();
    let folder = samples(&both).await;
    let at = folder.path().display();
    for (name, from) in [
        ("by_name", format!("'{at}/?.csv'")),
        ("by_function", format!("read_csv('{at}/?.csv')")),
        ("by_view", "by_name".to_owned()),
    ] {
        both.run(&format!("CREATE VIEW {name} AS SELECT x FROM {from}"))
            .await;
    }
    let sums =
        "SELECT (SELECT sum(x) FROM by_name), (SELECT sum(x) FROM by_function), (SELECT sum(x) FROM by_view)";
    both.answers(sums, "6 6 6").await;
    fs::write(folder.path().join("c.csv"), "x\n10\n").expect("a file");
    both.answers(sums, "16 16 16").await;
    fs::remove_file(folder.path().join("a.csv")).expect("removed");
    both.answers(sums, "13 13 13").await;
}
