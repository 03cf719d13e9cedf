//! read_csv, read_parquet and read_json, as in DuckDB.

use crate::front::Both;
use std::fs;

#[tokio::test]
async fn functions_read_files_with_options() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("a file");
    write("a.csv", "x,y\n1,u\n2,v\n");
    write("b.csv", "x,y\n3,w\n");
    write("semi.txt", "x;y\n1,5;u\n2,5;v\n");
    write("bare.csv", "1|007\n2|-\n");
    write("quoted.csv", "x,y\n1,'a,b'\n#2,c\n");
    write("a.json", "{\"x\": 1}\n{\"x\": 2}\n");
    let both = Both::new();
    let at = |name: &str| folder.path().join(name).display().to_string();
    both.run(&format!("COPY (SELECT 7 AS x) TO '{}'", at("a.parquet")))
        .await;
    both.run(&format!(
        "COPY (SELECT 8 AS x, 'z' AS z) TO '{}'",
        at("b.parquet")
    ))
    .await;
    both.run(&format!("COPY (SELECT 9 AS x) TO '{}'", at("c.csv.gz")))
        .await;
    for (sql, expected) in [
        (
            "SELECT x, y FROM read_csv('{a.csv}') ORDER BY x".to_owned(),
            "1 u; 2 v",
        ),
        (
            "FROM read_csv_auto('{a.csv}', header = true) ORDER BY x".to_owned(),
            "1 u; 2 v",
        ),
        ("SELECT a.x FROM read_csv('{a.csv}') WHERE x > 1".to_owned(), "2"),
        (
            "SELECT r.x FROM read_csv('{a.csv}') AS r WHERE r.y = 'u'".to_owned(),
            "1",
        ),
        (
            "FROM read_csv(['{a.csv}', '{b.csv}']) ORDER BY x".to_owned(),
            "1 u; 2 v; 3 w",
        ),
        (
            "FROM read_csv('{/}/{a,b}.csv') ORDER BY x".to_owned(),
            "1 u; 2 v; 3 w",
        ),
        ("SELECT count(*) FROM read_csv('{/}/[ab].csv')".to_owned(), "3"),
        (
            "SELECT y FROM read_csv('{semi.txt}') ORDER BY y".to_owned(),
            "u; v",
        ),
        (
            "SELECT * FROM read_csv('{semi.txt}', delim := ';', header := false) LIMIT 1".to_owned(),
            "x y",
        ),
        (
            "SELECT * FROM read_csv('{bare.csv}', header => false, nullstr => '-')".to_owned(),
            "1 007; 2 NULL",
        ),
        (
            "SELECT * FROM read_csv('{bare.csv}', sep = '|', header = 0)".to_owned(),
            "1 007; 2 -",
        ),
        (
            "SELECT * FROM read_csv('{quoted.csv}', quote = '''', comment = '#')".to_owned(),
            "1 a,b",
        ),
        ("SELECT * FROM read_csv('{c.csv.gz}')".to_owned(), "9"),
        ("SELECT sum(x) FROM read_json('{a.json}')".to_owned(), "3"),
        ("SELECT sum(x) FROM read_json_auto(['{a.json}'])".to_owned(), "3"),
        ("SELECT x FROM read_parquet('{a.parquet}')".to_owned(), "7"),
        (
            "SELECT x, z FROM read_parquet(['{a.parquet}', '{b.parquet}'], union_by_name = true) ORDER BY x"
                .to_owned(),
            "7 NULL; 8 z",
        ),
        ("PIVOT read_csv('{a.csv}') ON y USING sum(x)".to_owned(), "1 2"),
        (
            "WITH c AS (FROM read_csv('{b.csv}')) SELECT * FROM c ORDER BY ALL".to_owned(),
            "3 w",
        ),
    ] {
        both.answers(&filled(&sql, &at), expected).await;
    }
    for (sql, message) in [
        (
            "FROM read_csv('{a.csv}', colour = 'red')",
            "has no option colour; its options are delim",
        ),
        (
            "FROM read_csv('{a.csv}', delim = 'ab')",
            "needs one ASCII character",
        ),
        ("FROM read_csv('{a.csv}', header = 'perhaps')", "is true or false"),
        ("FROM read_csv('{none.csv}')", "no such file"),
        ("FROM read_csv('{/}/*.none')", "no file matches the pattern"),
        ("FROM read_csv('{/}')", "is a folder"),
        ("FROM read_csv()", "read_csv needs a path"),
        ("FROM read_csv(1)", "needs paths as strings"),
        ("FROM read_csv('{a.csv}', 'b')", "cannot read its argument"),
        (
            "FROM read_parquet('{a.parquet}', columns = 'x')",
            "read_parquet has no option columns; its options are union_by_name, filename",
        ),
        (
            "FROM read_parquet(['{a.parquet}', '{b.parquet}'], union_by_name = false)",
            "which needs union_by_name = true",
        ),
        (
            "FROM read_csv(['s3://bucket/a.csv'])",
            "with options or in a list",
        ),
    ] {
        both.refuses(&filled(sql, &at), message).await;
    }
    // A file that is written again is read again.
    both.answers(&filled("SELECT sum(x) FROM read_csv('{a.csv}')", &at), "3")
        .await;
    write("a.csv", "x,y\n10,u\n");
    both.answers(&filled("SELECT sum(x) FROM read_csv('{a.csv}')", &at), "10")
        .await;
}

/// The statement with the paths of `{name}`.
fn filled(sql: &str, at: &impl Fn(&str) -> String) -> String {
    let mut text = sql.to_owned();
    for name in [
        "a.csv",
        "b.csv",
        "semi.txt",
        "bare.csv",
        "quoted.csv",
        "c.csv.gz",
        "a.json",
        "a.parquet",
        "b.parquet",
        "none.csv",
    ] {
        text = text.replace(&format!("{{{name}}}"), &at(name));
    }
    text.replace("{/}", &at(""))
}

#[tokio::test]
async fn sessions_without_file_queries_read_no_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a.csv");
    fs::write(&file, "x\n1\n").expect("a file");
    let ctx = galatea::session()
        .with_setting("galatea.device", "cpu")
        .build()
        .expect("a session");
    for call in [
        format!("read_csv('{}')", file.display()),
        format!("read_csv(['{}'])", file.display()),
        format!("read_json('{}')", file.display()),
    ] {
        let refused = galatea::sql(&ctx, &format!("SELECT * FROM {call}")).await;
        assert!(refused.is_err(), "{call}");
    }
}

/// The files of a list form one table, or are refused by name.
#[tokio::test]
async fn lists_of_files_are_checked() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("a file");
    let both = Both::new();
    let at = |name: &str| folder.path().join(name).display().to_string();
    write("a.csv", "x,y\n1,u\n");
    write("b.csv", "x;y\n2;v\n");
    write("c.csv", "y,x\nw,3\n");
    write("a%2Fb.csv", "x\n4\n");
    write("a%41.csv", "x\n5\n");
    write("aA.csv", "x\n6\n");
    write("q?#.csv", "x\n7\n");
    write("late.csv", &format!("x\n{}z\n", "1\n".repeat(30_000)));
    both.first(&format!("COPY (SELECT 8 AS x, 'z' AS y) TO '{}'", at("d.csv.gz")))
        .await;
    let semicolons = format!(
        "COPY (SELECT 9 AS x, 'z' AS y) TO '{}' (DELIMITER ';')",
        at("e.csv.gz")
    );
    both.first(&semicolons).await;
    for (sql, expected) in [
        ("SELECT x, y FROM read_csv('{e.csv.gz}')", "9 z"),
        ("SELECT x FROM read_csv('{a.csv}', union_by_name = false)", "1"),
        (
            "SELECT x FROM read_csv(['{a.csv}', '{c.csv}']) ORDER BY x",
            "1; 3",
        ),
        ("SELECT x FROM read_csv('{a%2Fb.csv}')", "4"),
        ("SELECT x FROM '{a%2Fb.csv}'", "4"),
        ("SELECT x FROM '{a%41.csv}'", "5"),
        ("SELECT x FROM read_csv('{a%41.csv}', header = true)", "5"),
        (
            "SELECT x FROM read_csv(['{a%41.csv}', '{aA.csv}']) ORDER BY x",
            "5; 6",
        ),
        ("SELECT x FROM '{q?#.csv}'", "7"),
        ("SELECT max(x) FROM read_csv('{late.csv}', sample_size = -1)", "z"),
        ("SELECT y FROM read_csv('{d.csv.gz}', compression = 'auto')", "z"),
    ] {
        both.answers(&named(sql, &at), expected).await;
    }
    for (sql, message) in [
        ("FROM read_csv(['{a.csv}', '{b.csv}'])", "the delimiter of"),
        ("FROM read_csv(['{a.csv}', '{d.csv.gz}'])", "the compression of"),
        ("FROM read_csv(['{a.csv}', '{a.csv}'])", "a.csv' twice"),
        ("FROM read_csv(['{a.csv}', '{./a.csv}'])", "a.csv' twice"),
        (
            "FROM read_csv(['{a.csv}', '{c.csv}'], union_by_name = false)",
            "are y, x, which needs union_by_name = true",
        ),
        (
            "FROM read_csv('{a.csv}', sample_size = 0)",
            "a number of rows from 1, or -1 for all rows: '0'",
        ),
        (
            "FROM read_csv('{a.csv}', sample_size = -2)",
            "or -1 for all rows: '-2'",
        ),
        ("FROM read_csv('{none.csv}')", "no such file"),
        ("FROM read_csv('{late.csv}')", "late.csv"),
    ] {
        both.refuses(&named(sql, &at), message).await;
    }
}

/// The statement with the paths of `{name}`.
fn named(sql: &str, at: &impl Fn(&str) -> String) -> String {
    let mut text = String::new();
    for part in sql.split('{') {
        match part.split_once('}') {
            Some((name, rest)) => text += &format!("{}{rest}", at(name)),
            None => text += part,
        }
    }
    text
}

#[tokio::test]
async fn csv_files_have_declared_columns_types_and_names() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("a file");
    write("a.csv", "id,name,price\n1,x,1.50\n2,NA,2\n3,-,\n");
    write("b.csv", "name,id,price\ny,4,4\n");
    write("bare.csv", "007|2024-01-31\n008|2024-02-29\n");
    write("short.csv", "p,q\n1,2\n3\n");
    let both = Both::new();
    let filled = |sql: &str| {
        let at = |name: &str| folder.path().join(name).display().to_string();
        let mut sql = sql.to_owned();
        for name in ["a.csv", "b.csv", "bare.csv", "short.csv"] {
            sql = sql.replace(&format!("{{{name}}}"), &at(name));
        }
        sql
    };
    for (sql, expected) in [
        (
            "SELECT id + 1, price FROM read_csv('{a.csv}', types = {'price': 'DECIMAL(9,2)', 'id': 'SMALLINT'}) ORDER BY 1",
            "2 1.50; 3 2.00; 4 NULL",
        ),
        (
            "SELECT arrow_typeof(id), arrow_typeof(name) FROM read_csv('{a.csv}', dtypes = ['INTEGER']) LIMIT 1",
            "Int32 Utf8",
        ),
        (
            "SELECT k, n FROM read_csv('{a.csv}', names = ['k', 'n']) WHERE price > 1 ORDER BY k",
            "1 x; 2 NA",
        ),
        // Names are those of positions, also if they are the names of other columns.
        (
            "SELECT id, name FROM read_csv('{a.csv}', names = ['name', 'id']) ORDER BY name",
            "x 1; NA 2; - 3",
        ),
        (
            "SELECT a, b, a + 1 FROM read_csv('{bare.csv}', columns = {'a': 'BIGINT', 'b': 'DATE'}) ORDER BY a",
            "7 2024-01-31 8; 8 2024-02-29 9",
        ),
        (
            "SELECT a FROM read_csv('{bare.csv}', delim = '|', header = false, columns = {'a': 'VARCHAR', 'b': 'DATE'}) ORDER BY a",
            "007; 008",
        ),
        (
            "SELECT price FROM read_csv('{a.csv}', all_varchar = true) ORDER BY id",
            "1.50; 2; NULL",
        ),
        (
            "SELECT name FROM read_csv('{a.csv}', nullstr = ['NA', '-']) ORDER BY id",
            "x; NULL; NULL",
        ),
        (
            "SELECT p, q FROM read_csv('{short.csv}', null_padding = true) ORDER BY p",
            "1 2; 3 NULL",
        ),
        (
            "SELECT id, name FROM read_csv(['{a.csv}', '{b.csv}'], types = {'id': 'INTEGER'}) WHERE id > 2 ORDER BY id",
            "3 -; 4 y",
        ),
    ] {
        both.answers(&filled(sql), expected).await;
    }
    for (sql, message) in [
        (
            "FROM read_csv('{a.csv}', types = {'colour': 'INT'})",
            "column 'colour'",
        ),
        (
            "FROM read_csv('{a.csv}', types = {'id': 'COLOUR'})",
            "type COLOUR",
        ),
        (
            "FROM read_csv('{a.csv}', names = ['a', 'b', 'c', 'd'])",
            "4 names for 3 columns",
        ),
        ("FROM read_csv('{a.csv}', names = ['price'])", "two columns price"),
        (
            "FROM read_csv('{a.csv}', columns = ['INT'])",
            "all columns with their types",
        ),
        (
            "FROM read_csv('{a.csv}', columns = {'a': 'INT'}, names = ['b'])",
            "excludes the option names",
        ),
        (
            "FROM read_csv(['{a.csv}', '{b.csv}'], names = ['a'])",
            "union_by_name",
        ),
        ("FROM read_csv('{a.csv}', types = {'name': 'INTEGER'})", "name"),
        ("FROM read_csv('{a.csv}', quote = ['a'])", "needs a constant"),
    ] {
        both.refuses(&filled(sql), message).await;
    }
}

/// Parquet has no timestamps of seconds.
#[tokio::test]
async fn timestamps_of_seconds_are_written_to_parquet() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(
        folder.path().join("t.csv"),
        "at,k\n2024-01-02 03:04:05,1\n1969-12-31 23:59:59,2\n",
    )
    .expect("a file");
    let both = Both::new();
    let at = |name: &str| folder.path().join(name).display().to_string();
    both.answers(
        &format!("SELECT arrow_typeof(at) FROM '{}' LIMIT 1", at("t.csv")),
        "Timestamp(s)",
    )
    .await;
    both.first(&format!("COPY (FROM '{}') TO '{}'", at("t.csv"), at("t.parquet")))
        .await;
    let sql = format!(
        "SELECT at, k, arrow_typeof(at) FROM '{}' ORDER BY at DESC",
        at("t.parquet")
    );
    both.answers(
        &sql,
        "2024-01-02T03:04:05 1 Timestamp(ms); 1969-12-31T23:59:59 2 Timestamp(ms)",
    )
    .await;
}
