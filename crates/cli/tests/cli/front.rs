//! SQL that the terminal parses in its own way: clauses that had been lost silently, and the output of nested
//! values.

use std::fs;

use crate::support::{galatea, samples};

/// The output of statements that must succeed, as CSV.
fn csv(directory: &tempfile::TempDir, sql: &str) -> String {
    let ran = galatea(directory.path(), &["-q", "--format", "csv", "-c", sql]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{sql}");
    ran.out
}

fn error(directory: &tempfile::TempDir, sql: &str) -> String {
    let ran = galatea(directory.path(), &["-q", "-c", sql]);
    assert_eq!((ran.code, ran.out.as_str()), (1, ""), "{sql}");
    ran.err
}

#[test]
fn from_without_select() {
    let directory = samples();
    assert_eq!(
        csv(&directory, "FROM 'a.csv' WHERE id < 3 ORDER BY id"),
        "id,name,price\n1,one,1.5\n2,two,2.25"
    );
    csv(
        &directory,
        "COPY (FROM 'a.csv' WHERE id = 2) TO 'it''s.csv' OPTIONS ('format.delimiter' ';')",
    );
    let written = fs::read_to_string(directory.path().join("it's.csv")).expect("a file");
    assert_eq!(written, "id;name;price\n2;two;2.25\n");
    assert_eq!(
        csv(
            &directory,
            "CREATE TABLE t AS FROM 'a.csv'; SELECT sum(id), 2 ^ 3 FROM t"
        ),
        "sum(id),2 ^ 3\n6,8.0"
    );
}

#[test]
fn show_columns_from_a_file() {
    let directory = samples();
    let shown = csv(&directory, "SHOW COLUMNS FROM 'a.csv'");
    let names: Vec<&str> = shown.lines().filter_map(|line| line.split(',').nth(3)).collect();
    assert_eq!(names, ["column_name", "id", "name", "price"]);
    let ran = galatea(directory.path(), &["-q", "-c", "\\d 'a.csv'"]);
    assert!(ran.out.contains("price"), "{}{}", ran.out, ran.err);
    let ran = galatea(directory.path(), &["-q", "-c", "\\d nothing"]);
    assert!(
        ran.err.contains("no such table: nothing"),
        "{}{}",
        ran.out,
        ran.err
    );
}

#[test]
fn refused_clauses_are_named() {
    let directory = samples();
    assert_eq!(
        error(&directory, "SELECT * FROM 'a.csv' FOR UPDATE"),
        "error: FOR UPDATE, FOR SHARE is not supported"
    );
    assert_eq!(
        error(&directory, "SELECT * FROM 'a.csv' TABLESAMPLE (101)"),
        "error: TABLESAMPLE needs a percentage from 0 to 100: 101\nhint: write TABLESAMPLE BERNOULLI (10), SYSTEM (10) or \
         (100 ROWS), and after it REPEATABLE (42) for the same rows each time"
    );
}

#[test]
fn folders_need_a_slash_or_quotes() {
    let directory = samples();
    fs::create_dir(directory.path().join("docs")).expect("made");
    fs::write(directory.path().join("docs/readme.md"), "x").expect("written");
    assert_eq!(
        csv(
            &directory,
            "CREATE TABLE docs (id INT) AS VALUES (1); SELECT * FROM docs"
        ),
        "id\n1"
    );
    fs::create_dir(directory.path().join("ord")).expect("made");
    fs::write(directory.path().join("ord/x.csv"), "a,b\n1,2\n").expect("written");
    assert_eq!(csv(&directory, "SELECT * FROM 'ord'"), "a,b\n1,2");
    assert_eq!(csv(&directory, "SELECT * FROM 'ord/'"), "a,b\n1,2");
    assert!(error(&directory, "INSERT INTO ord VALUES (3, 4)").contains("no such table: ord"));
    assert_eq!(
        fs::read_dir(directory.path().join("ord")).expect("read").count(),
        1
    );
    csv(
        &directory,
        "CREATE EXTERNAL TABLE ord STORED AS CSV LOCATION 'ord/' OPTIONS ('format.has_header' 'true'); \
         INSERT INTO ord VALUES (3, 4)",
    );
    assert_eq!(csv(&directory, "SELECT sum(a) AS s FROM 'ord'"), "s\n4");
}

/// CSV has strings for nested values; JSON has strings as map keys.
#[test]
fn output_of_nested_values() {
    let directory = samples();
    let sql = "SELECT [1, NULL] AS l, named_struct('x', 1, 'y', 'a,b') AS s, MAP {7: 'seven'} AS m, \
               CASE WHEN false THEN [1] END AS n";
    assert_eq!(
        csv(&directory, sql),
        "l,s,m,n\n\"[1, NULL]\",\"{x: 1, y: a,b}\",{7: seven},"
    );
    let format = |format: &str| {
        let ran = galatea(directory.path(), &["-q", "--format", format, "-c", sql]);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""));
        ran.out
    };
    // The end of a line without its spaces.
    assert_eq!(format("tsv"), "l\ts\tm\tn\n[1, NULL]\t{x: 1, y: a,b}\t{7: seven}");
    let json = r#"{"l":[1,null],"s":{"x":1,"y":"a,b"},"m":{"7":"seven"},"n":null}"#;
    assert_eq!(format("json"), format!("[{json}]"));
    assert_eq!(format("ndjson"), json);
    csv(&directory, &format!("COPY ({sql}) TO 'nested.csv'"));
    let written = fs::read_to_string(directory.path().join("nested.csv")).expect("a file");
    assert_eq!(written, "l,s,m,n\n\"[1, NULL]\",\"{x: 1, y: a,b}\",{7: seven},\n");
}

/// The setting raises the limit of the parser in the terminal, too.
#[test]
fn the_recursion_limit_can_be_raised() {
    let directory = samples();
    let nested = format!("SELECT {}1{} AS one", "(".repeat(450), ")".repeat(450));
    assert!(error(&directory, &nested).contains("datafusion.sql_parser.recursion_limit"));
    let raised = format!("SET datafusion.sql_parser.recursion_limit = 500; {nested}");
    assert_eq!(csv(&directory, &raised), "one\n1");
}
