//! Errors of the binary: the messages on standard error, with exit code 1.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{command, galatea, galatea_with_input, samples};

fn error_of(sql: &str) -> String {
    let directory = samples();
    let ran = galatea(directory.path(), &["-c", sql]);
    assert_eq!((ran.code, ran.out.as_str()), (1, ""), "{sql}");
    ran.err.replace(&*directory.path().to_string_lossy(), "<dir>")
}

#[test]
fn missing_columns() {
    insta::assert_snapshot!(error_of("SELECT nam FROM 'a.csv'"), @r"
    error: no such column: nam
    line 1: SELECT nam FROM 'a.csv'
                   ^^^
    hint: did you mean name? columns are id, name, price
    ");
}

/// An error of a row shows its expression, and marks it in the statement.
#[test]
fn run_time_errors_mark_the_expression() {
    insta::assert_snapshot!(error_of("SELECT name,\n  10 / (id - 2)\nFROM 'a.csv' WHERE price / 2 < 100"), @r"
    error: division by zero in 10 / (id - 2)
    line 2:   10 / (id - 2)
              ^^^^^^^^^^^^
    hint: NULLIF(divisor, 0) makes the result NULL
    ");
    insta::assert_snapshot!(error_of("SELECT id / 0 FROM 'a.csv'"), @r"
    error: division by zero in id / 0
    line 1: SELECT id / 0 FROM 'a.csv'
                   ^^^^^^
    hint: NULLIF(divisor, 0) makes the result NULL
    ");
    insta::assert_snapshot!(error_of("SELECT CAST(name AS BIGINT) FROM 'a.csv'"), @r"
    error: cannot cast string 'one' to value of Int64 type, in CAST(name AS Int64)
    line 1: SELECT CAST(name AS BIGINT) FROM 'a.csv'
                        ^^^^
    hint: TRY_CAST makes the result NULL
    ");
    insta::assert_snapshot!(error_of("SELECT id / (id - 1), 7 % (id + 2) FROM 'a.csv'"), @r"
    error: division by zero in id / (id - 1)
    line 1: SELECT id / (id - 1), 7 % (id + 2) FROM 'a.csv'
                   ^^^^^^^^^^^^
    hint: NULLIF(divisor, 0) makes the result NULL
    ");
    insta::assert_snapshot!(error_of("SELECT id FROM 'a.csv' WHERE name < 5"), @r"
    error: cannot cast string 'one' to value of Int64 type, in CAST(name AS Int64)
    hint: TRY_CAST makes the result NULL
    ");
}

/// Overflow is marked like an error of a row, including that of a sum.
#[test]
fn overflow() {
    for sql in [
        "SELECT id + 9223372036854775807 FROM 'a.csv'",
        "SELECT 9223372036854775807 * 2",
        "SELECT sum(9223372036854775807 - id) FROM 'a.csv'",
        "SELECT sum(9223372036854775807 - id) AS s FROM 'a.csv'",
    ] {
        let error = error_of(sql);
        let marked = format!("line 1: {sql}\n               ^^^");
        assert!(error.contains("verflow") && error.contains(&marked), "{error}");
    }
}

/// Nesting of hundreds of levels needs no setting; deeper nesting needs one. A setting above the planner's
/// own limit does not raise that limit.
#[test]
fn deeply_nested_statements() {
    let nested = |levels: usize| format!("SELECT {}1{}", "(".repeat(levels), ")".repeat(levels));
    let directory = samples();
    let answer = |arguments: &[&str]| {
        let ran = galatea(directory.path(), arguments);
        assert_eq!(ran.code, 0, "{}", ran.err);
        assert!(ran.out.contains("| 1 |"), "{}", ran.out);
    };
    answer(&["-c", &nested(300)]);
    let set = "SET datafusion.sql_parser.recursion_limit = 5000;";
    answer(&["-c", &format!("{set} {}", nested(900))]);
    let setting = ["--set", "datafusion.sql_parser.recursion_limit=5000"];
    answer(&[setting[0], setting[1], "-c", &nested(900)]);
    let error = error_of(&nested(900));
    let expected = "error: the statement is nested too deeply (current limit: 400)";
    assert!(error.starts_with(expected), "{error}");
    assert!(
        error.contains("\nhint: SET datafusion.sql_parser.recursion_limit to more levels"),
        "{error}"
    );
    let ran = galatea(directory.path(), &[setting[0], setting[1], "-c", &nested(4000)]);
    assert_eq!(ran.code, 1);
    let expected = "error: expression too deep: 4002 levels, the limit is 2000";
    assert!(ran.err.starts_with(expected), "{}", ran.err);
}

#[test]
fn missing_tables() {
    insta::assert_snapshot!(error_of("SELECT * FROM orders"), @r"
    error: no such table: orders
    line 1: SELECT * FROM orders
                          ^^^^^^
    hint: SHOW TABLES lists the tables; a file is a table in quotes: FROM 'file.parquet'
    ");
}

#[test]
fn missing_files() {
    insta::assert_snapshot!(error_of("SELECT * FROM 'nowhere.parquet'"), @r"
    error: no such file: 'nowhere.parquet'
    hint: paths are relative to <dir>
    ");
    insta::assert_snapshot!(error_of("SELECT * FROM 'parts/*.csv'"), @"error: no file matches the pattern: 'parts/*.csv'");
}

#[test]
fn corrupt_files() {
    insta::assert_snapshot!(error_of("SELECT * FROM 'broken.parquet'"), @r"
    error: cannot read 'broken.parquet': invalid Parquet file. Corrupt footer
    hint: the file is cut off, damaged, or not Parquet
    ");
}

/// DataFusion skips empty files. In formats with a footer they are damaged.
#[test]
fn empty_files() {
    let directory = samples();
    std::fs::write(directory.path().join("parts/3.parquet"), "").expect("written");
    std::fs::write(directory.path().join("none.csv"), "").expect("written");
    for name in ["parts/3.parquet", "parts/*.parquet"] {
        let ran = galatea(directory.path(), &["-c", &format!("SELECT * FROM '{name}'")]);
        assert_eq!(ran.code, 1);
        let expected =
            "parts/3.parquet': the file is empty\nhint: the file is cut off, damaged, or not parquet";
        assert!(
            ran.err.starts_with("error: cannot read '") && ran.err.ends_with(expected),
            "{}",
            ran.err
        );
    }
    let ran = galatea(directory.path(), &["-q", "-c", "SELECT count(*) FROM 'none.csv'"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
}

#[test]
fn truncated_files() {
    let directory = samples();
    let whole = std::fs::read(directory.path().join("parts/1.parquet")).expect("a file");
    std::fs::write(directory.path().join("cut.parquet"), &whole[..whole.len() / 2]).expect("written");
    let ran = galatea(directory.path(), &["-c", "SELECT * FROM 'cut.parquet'"]);
    assert_eq!(ran.code, 1);
    assert!(
        ran.err.starts_with("error: cannot read 'cut.parquet': "),
        "{}",
        ran.err
    );
    // The footer is readable, but the data are damaged.
    let mut damaged = whole;
    damaged[4..60].fill(0xff);
    std::fs::write(directory.path().join("damaged.parquet"), damaged).expect("written");
    let ran = galatea(
        directory.path(),
        &["-c", "SELECT id, name FROM 'damaged.parquet'"],
    );
    assert_eq!(ran.code, 1, "{}", ran.out);
    assert!(ran.err.starts_with("error: "), "{}", ran.err);
}

#[test]
fn wrong_types() {
    insta::assert_snapshot!(error_of("SELECT name - price FROM 'a.csv'"), @r"
    error: cannot coerce arithmetic expression Utf8 - Float64 to valid types
    line 1: SELECT name - price FROM 'a.csv'
                   ^^^^
    hint: the operands have types that do not fit; convert one with CAST(... AS ...)
    ");
}

/// DataFusion reports these as internal errors and requests a bug report.
#[test]
fn invalid_function_arguments() {
    insta::assert_snapshot!(error_of("SELECT sum(name) FROM 'a.csv'"), @r"
    error: sum does not take these arguments: sum(Utf8)
    hint: there is sum(Decimal), sum(UInt64), sum(Int64), sum(Float64), sum(Duration), sum(Interval); convert arguments with CAST(... AS ...)
    ");
    insta::assert_snapshot!(error_of("SELECT substr('a', 'b')"), @r"
    error: substr does not take these arguments: substr(Utf8, Utf8)
    hint: there is substr(str: String, start_pos: Int64), substr(str: String, start_pos: Int64, length: Int64); convert arguments with CAST(... AS ...)
    ");
}

#[test]
fn invalid_sql() {
    insta::assert_snapshot!(error_of("SELEC 1"), @r"
    error: invalid SQL: expected: an SQL statement, found: SELEC
    line 1: SELEC 1
            ^^^^^
    ");
}

/// The object store would retry for ever to create a file in a directory that accepts none.
#[test]
fn copy_to_invalid_path() {
    insta::assert_snapshot!(error_of("COPY (SELECT 1 AS a) TO '/proc/x.parquet'"), @r"
    error: cannot create '/proc/x.parquet': No such file or directory (os error 2)
    hint: COPY needs a directory in which this user may create files
    ");
    insta::assert_snapshot!(error_of("COPY (SELECT 1 AS a) TO 'a.csv/new/x.parquet'"), @r"
    error: cannot create 'a.csv/new/x.parquet': Not a directory (os error 20)
    hint: COPY needs a directory in which this user may create files
    ");
    insta::assert_snapshot!(error_of("COPY (SELECT 1 AS a) TO 'parts/' STORED AS PARQUET"), @r"
    error: COPY would add files to the folder 'parts/', which is not empty
    hint: name another folder, or add the option APPEND true
    ");
    let directory = samples();
    let copy = "COPY (SELECT 1 AS a) TO 'new/x.parquet'; COPY (SELECT 1 AS a) TO 'more/' STORED AS PARQUET;";
    let ran = galatea(directory.path(), &["-q", "-c", copy]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(directory.path().join("new/x.parquet").is_file());
    let left = std::fs::read_dir(directory.path()).expect("a directory");
    let names: Vec<_> = left.map(|entry| entry.expect("an entry").file_name()).collect();
    assert!(
        names.iter().all(|name| !name.to_string_lossy().starts_with('.')),
        "{names:?}"
    );
}

#[test]
fn unknown_settings_and_wrong_values() {
    let unknown = error_of("SET galatea.devise = 'cpu'");
    let expected = "error: unknown setting: galatea.devise\nhint: did you mean galatea.device? SHOW ALL lists the settings";
    assert!(unknown.starts_with(expected), "{unknown}");
    insta::assert_snapshot!(error_of("SET galatea.device = 'tpu'"), @r"
    error: invalid value for galatea.device: 'tpu'
    hint: galatea.device accepts auto, cpu, gpu or emulated
    ");
    let directory = samples();
    let ran = galatea(
        directory.path(),
        &["--set", "galatea.fallback=perhaps", "-c", "SELECT 1"],
    );
    assert_eq!(ran.code, 1);
    assert!(
        ran.err.contains("galatea.fallback accepts allow or error"),
        "{}",
        ran.err
    );
    let ran = galatea(directory.path(), &["--set", "galatea.fallback", "-c", "SELECT 1"]);
    assert_eq!(ran.code, 2, "{}", ran.err);
}

#[test]
fn the_first_error_ends_a_script() {
    let directory = samples();
    let ran = galatea(
        directory.path(),
        &[
            "-q",
            "--format",
            "csv",
            "-c",
            "SELECT 1 AS a; SELECT b; SELECT 2 AS c",
        ],
    );
    assert_eq!((ran.code, ran.out.as_str()), (1, "a\n1"));
    let ran = galatea_with_input(
        directory.path(),
        &["-q", "--format", "csv"],
        "SELECT 1 AS a;\nSELECT b; SELECT 2 AS c;",
    );
    assert_eq!((ran.code, ran.out.as_str()), (1, "a\n1"));
    assert!(ran.err.contains("\nline 2: SELECT b\n"), "{}", ran.err);
}

#[test]
fn errors_of_scripts_name_file_and_line() {
    let directory = samples();
    let script = "SELECT 1;\n\nSELECT id,\n  nam\nFROM 'a.csv';\n";
    std::fs::write(directory.path().join("l.sql"), script).expect("written");
    std::fs::write(directory.path().join("i.sql"), "SELECT 2;\n\\i l.sql\n").expect("written");
    let expected = "\nl.sql, line 4:   nam\n                 ^^^\n";
    for arguments in [["-f", "l.sql"], ["-f", "i.sql"], ["-c", "\\i i.sql"]] {
        let ran = galatea(directory.path(), &arguments);
        assert_eq!(ran.code, 1);
        assert!(ran.err.contains(expected), "{}", ran.err);
    }
    // For an error without a position, the message shows where the statement begins.
    std::fs::write(
        directory.path().join("l.sql"),
        "SELECT 1;\n-- divides\nSELECT id / 0\nFROM 'a.csv';\n",
    )
    .expect("written");
    let ran = galatea(directory.path(), &["-f", "l.sql"]);
    assert!(
        ran.err
            .contains("division by zero in id / 0\nl.sql, line 3: SELECT id / 0"),
        "{}",
        ran.err
    );
}

#[test]
fn missing_scripts_and_directories() {
    let directory = samples();
    let ran = galatea(directory.path(), &["-f", "nowhere.sql"]);
    assert_eq!(ran.code, 1);
    assert!(
        ran.err.starts_with("error: cannot read 'nowhere.sql': "),
        "{}",
        ran.err
    );
    // Without a terminal, the start-up file is not read, but it must exist.
    let ran = galatea(directory.path(), &["--startup", "nowhere.sql"]);
    assert_eq!(ran.code, 1);
    assert!(
        ran.err.starts_with("error: cannot read 'nowhere.sql': "),
        "{}",
        ran.err
    );
    let ran = galatea(directory.path(), &["--data-path", "nowhere", "-c", "SELECT 1"]);
    assert_eq!(ran.code, 1);
    assert!(
        ran.err.starts_with("error: cannot use the data path 'nowhere': "),
        "{}",
        ran.err
    );
}

#[test]
fn an_interrupt_cancels_a_query() {
    let directory = samples();
    let endless =
        "SELECT sum(a.value * b.value) FROM generate_series(1, 10000000) a, generate_series(1, 10000000) b";
    let mut child = command(directory.path(), &["-c", endless])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    // Long enough for the query to run, even on a slow machine. Before that, the signal also ends the
    // process.
    std::thread::sleep(Duration::from_secs(2));
    let start = Instant::now();
    let sent = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .expect("kill runs");
    assert!(sent.success());
    while child.try_wait().expect("a child").is_none() {
        if start.elapsed() > Duration::from_secs(20) {
            child.kill().expect("killed");
            panic!("the query went on for 20 s after the interrupt");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let output = child.wait_with_output().expect("ended");
    assert_eq!(output.status.code(), Some(130));
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("error: cancelled"),
        "{output:?}"
    );
}
