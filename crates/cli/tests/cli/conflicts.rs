//! Conflict layouts on the command line: the statement, its errors, and the analysis.

use crate::support::{galatea, galatea_with_input, samples};

const EMULATED: [&str; 3] = ["-q", "--set", "galatea.device=emulated"];
const TABLE: &str = "CREATE TABLE t AS SELECT value % 5 AS k, 'w' || (value % 3) AS w, value / 2.0 AS f FROM generate_series(1, 3000)";

#[test]
fn columns_are_laid_out_by_a_statement() {
    let directory = samples();
    let alter = "ALTER TABLE t SET (conflict_layout.k = 'auto'); SELECT k, count(*) AS n FROM t GROUP BY k ORDER BY k";
    let sql = format!("{TABLE}; {alter}");
    let ran = galatea(
        directory.path(),
        &[&EMULATED[..], &["--format", "csv", "-c", &sql]].concat(),
    );
    assert_eq!(ran.code, 0, "{}", ran.err);
    let lines: Vec<&str> = ran.out.lines().collect();
    assert_eq!(
        lines[0],
        "column,layout,values,slots,holes,most_copies,table_bytes_before,table_bytes_after,column_bytes_before,\
         column_bytes_after,rounds_before,rounds_after,seconds,reason"
    );
    assert!(lines[1].starts_with("k,writes,5,"), "{}", lines[1]);
    assert_eq!(lines[2..], ["k,n", "0,600", "1,600", "2,600", "3,600", "4,600"]);
    // The same from the prompt, and for a file.
    let input = format!("{TABLE};\nALTER TABLE t SET (conflict_layout = 'reads');\n");
    let ran = galatea_with_input(
        directory.path(),
        &[&EMULATED[..], &["--format", "csv"]].concat(),
        &input,
    );
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("\nw,reads,3,"), "{}", ran.out);
    assert!(ran.out.contains("\nf,none,"), "{}", ran.out);
    let alter = "ALTER TABLE 'parts/1.parquet' SET (conflict_layout.name = 'writes')";
    let ran = galatea(
        directory.path(),
        &[&EMULATED[..], &["--format", "csv", "-c", alter]].concat(),
    );
    assert!(ran.out.contains("\nname,writes,3,"), "{}{}", ran.out, ran.err);
}

#[test]
fn refused_statements_have_a_reason() {
    let directory = samples();
    let error_of = |sql: &str| {
        let sql = format!("{TABLE}; {sql}");
        let ran = galatea(directory.path(), &[&EMULATED[..], &["-c", &sql]].concat());
        assert_eq!(ran.code, 1, "{sql}: {}", ran.out);
        ran.err
    };
    insta::assert_snapshot!(error_of("ALTER TABLE t SET (conflict_layout.k = 'fastest')"), @r"
    error: invalid value for conflict_layout.k: 'fastest'
    hint: conflict_layout.k accepts auto, writes, reads, values or none
    ");
    insta::assert_snapshot!(error_of("ALTER TABLE t SET (conflict_layout.x = 'auto')"), @r"
    error: no such column: x
    hint: columns of t are k, w, f
    ");
    insta::assert_snapshot!(error_of("ALTER TABLE s SET (conflict_layout = 'auto')"), @r"
    error: no such table: s
    hint: tables are t; a file is a table in quotes: 'file.parquet'
    ");
    insta::assert_snapshot!(error_of("ALTER TABLE t SET (conflict_layout.f = 'auto')"), @r"
    error: column f cannot have a conflict layout: floats have no codes
    hint: integers, dates, times, decimals and strings that repeat can have one
    ");
    insta::assert_snapshot!(error_of("ALTER TABLE t SET (conflict_layout = 'auto', conflict_depth = 3)"), @r"
    error: unknown option: conflict_depth
    hint: options are conflict_layout, conflict_layout.<column>, conflict_window and conflict_budget
    ");
    let ran = galatea(
        directory.path(),
        &[
            "-q",
            "--set",
            "galatea.device=cpu",
            "-c",
            "ALTER TABLE 'a.csv' SET (conflict_layout = 'auto')",
        ],
    );
    assert_eq!(ran.code, 1);
    assert!(
        ran.err
            .starts_with("error: conflict layouts serve queries on a device"),
        "{}",
        ran.err
    );
}

#[test]
fn columns_are_analysed() {
    let directory = samples();
    let copy = "COPY (SELECT value / 8 % 4 AS k FROM generate_series(0, 8191)) TO 'k.parquet'";
    assert_eq!(galatea(directory.path(), &["-q", "-c", copy]).code, 0);
    let ran = galatea(directory.path(), &["analyze", "conflicts", "k.parquet.k"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        ran.out.starts_with(
            "k.parquet.k: 4 groups in 8192 rows; one 4-byte accumulator per group and copy\n+--"
        ),
        "{}",
        ran.out
    );
    let line = "| pipelines | one copy     | 4     | 4.0   | 1.0         | 8.0          | 1          | 8           |";
    assert!(ran.out.contains(line), "{}", ran.out);
    assert!(
        ran.out
            .contains("One 64-bit sum per group on an H200 (no GPU is used here), as the model predicts: "),
        "{}",
        ran.out
    );
    let ran = galatea(
        directory.path(),
        &[
            "-q",
            "analyze",
            "conflicts",
            "k.parquet.k",
            "--rows",
            "2048",
            "--format",
            "csv",
        ],
    );
    assert_eq!(ran.out.lines().count(), 11, "{}", ran.out);
    // Tables of the session, by their name. The paper's pattern processes row by row.
    let view = "CREATE VIEW v AS SELECT k FROM 'k.parquet'";
    let ran = galatea(
        directory.path(),
        &[
            "-q",
            "-c",
            view,
            "analyze",
            "conflicts",
            "public.v.k",
            "--format",
            "csv",
        ],
    );
    assert!(
        ran.out.contains("\npaper,one copy,4,4.0,1.0,8.0,1,8,"),
        "{}{}",
        ran.out,
        ran.err
    );
    let error_of = |column: &str| {
        let ran = galatea(directory.path(), &["analyze", "conflicts", column]);
        assert_eq!((ran.code, ran.out.as_str()), (1, ""), "{column}");
        ran.err
    };
    insta::assert_snapshot!(error_of("k"), @r"
    error: no column is named: k
    hint: name a table and a column: lineitem.l_returnflag, data/lineitem.parquet.l_returnflag
    ");
    insta::assert_snapshot!(error_of("k.parquet.x"), @r"
    error: no such column: x
    hint: columns of k.parquet are k
    ");
    insta::assert_snapshot!(error_of("s.k"), @r"
    error: no such table: s
    hint: there are no tables; a file is a table in quotes: 'file.parquet'
    ");
}
