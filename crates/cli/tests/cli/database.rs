//! Databases of the command: a folder that lasts, also if a process is killed while it writes.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::Duration;

use crate::support::{command, galatea, galatea_with_input, samples};

const CPU: &str = "--set=galatea.device=cpu";

#[test]
fn database_of_the_first_argument_lasts() {
    let directory = samples();
    let run = |arguments: &[&str]| {
        let all = [&[CPU, "-q", "--format", "csv"], arguments].concat();
        galatea(directory.path(), &all)
    };
    let ran = run(&[
        "my.db",
        "CREATE TABLE t AS SELECT * FROM 'a.csv'; INSERT INTO t VALUES (4, 'four', 4.0)",
    ]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "count\n1"), "{}", ran.err);
    let ran = run(&["my.db", "-c", "SELECT count(*) AS n, sum(id) AS s FROM t"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "n,s\n4,10"), "{}", ran.err);
    let ran = run(&["--database", "my.db", "SELECT name FROM t WHERE id = 4"]);
    assert_eq!(ran.out, "name\nfour", "{}", ran.err);
    // The prompt's input is a script.
    let ran = galatea_with_input(
        directory.path(),
        &[CPU, "-q", "--format", "csv", "my.db"],
        ".tables\nDROP TABLE t;\n",
    );
    assert!(
        ran.out.ends_with("datafusion,public,t,BASE TABLE"),
        "{} {}",
        ran.out,
        ran.err
    );
    let ran = run(&["my.db", "SELECT * FROM t"]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("no such table: t"), "{}", ran.err);
    std::fs::write(directory.path().join("sqlite.db"), "SQLite format 3").expect("written");
    let ran = run(&["sqlite.db", "SELECT 1"]);
    assert_eq!(ran.code, 1);
    assert!(
        ran.err
            .contains("error: 'sqlite.db' is not a database of Galatea: it is a file"),
        "{}",
        ran.err
    );
}

/// While one process has the database open, another is refused with the number of the first.
#[test]
fn second_process_is_refused() {
    let directory = samples();
    let mut first = command(directory.path(), &[CPU, "-q", "my.db"]);
    let mut first = first
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let path = directory.path().join("my.db").join("catalog");
    for _ in 0..600 {
        if path.exists() {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let ran = galatea(directory.path(), &[CPU, "my.db", "SELECT 1"]);
    assert_eq!(ran.code, 1, "{}", ran.out);
    let expected = format!("is open in another process: process {} (galatea)", first.id());
    assert!(ran.err.contains(&expected), "{}", ran.err);
    drop(first.stdin.take());
    assert!(first.wait().expect("ends").success());
    assert_eq!(galatea(directory.path(), &[CPU, "my.db", "SELECT 1"]).code, 0);
}

/// A process that is killed at any time leaves the state before a statement or after it: each INSERT adds
/// 1,000 rows of one value, and each replacement of `r` has one value in all rows.
#[test]
fn killed_process_leaves_whole_statements() {
    let directory = samples();
    let run = |sql: &str| galatea(directory.path(), &[CPU, "-q", "--format", "csv", "my.db", sql]);
    let begin = "CREATE TABLE t (a BIGINT, b VARCHAR); CREATE OR REPLACE TABLE r AS SELECT 0 AS v, value FROM generate_series(1, 500); \
                 CREATE TABLE u AS FROM r; CREATE TABLE x AS SELECT value % 400 AS a FROM generate_series(1, 4000)";
    assert_eq!(run(begin).code, 0);
    let script: String = (1..=400)
        .map(|n| {
            format!(
                "INSERT INTO t SELECT {n}, repeat('x', 50) FROM generate_series(1, 1000);\n\
                 CREATE OR REPLACE TABLE r AS SELECT {n} AS v, value FROM generate_series(1, 500);\n\
                 UPDATE u SET v = {n} WHERE value IN (SELECT value FROM r);\n\
                 DELETE FROM x WHERE a = {n};\n\
                 SELECT {n} AS done;\n"
            )
        })
        .collect();
    std::fs::write(directory.path().join("script.sql"), script).expect("written");
    let (mut states, mut least) = (Vec::new(), 0);
    for round in 0_u64..8 {
        let mut child = command(
            directory.path(),
            &[CPU, "-q", "--format", "csv", "my.db", "-f", "script.sql"],
        );
        let mut child = child.stdout(Stdio::piped()).spawn().expect("starts");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        // After the first statements, at times that differ in each round.
        for _ in 0..2 + round {
            let _ = lines.next();
        }
        std::thread::sleep(Duration::from_micros(1700 * round * round));
        child.kill().expect("killed");
        child.wait().expect("ended");
        let sql = "SELECT count(*) AS n, count(DISTINCT a) AS d FROM t; \
                   SELECT count(*) AS bad FROM (SELECT a FROM t GROUP BY a HAVING count(*) % 1000 <> 0); \
                   SELECT count(*) AS n, count(DISTINCT v) AS d FROM r; \
                   SELECT count(*) AS n, count(DISTINCT v) AS d FROM u; \
                   SELECT count(*) AS bad FROM (SELECT a FROM x GROUP BY a HAVING count(*) <> 10)";
        let ran = run(sql);
        assert_eq!(ran.code, 0, "round {round}: {}", ran.err);
        let lines: Vec<&str> = ran.out.lines().collect();
        let count: u64 = lines[1]
            .split(',')
            .next()
            .and_then(|n| n.parse().ok())
            .expect("a number");
        assert_eq!(count % 1000, 0, "round {round}: {}", ran.out);
        assert!(count >= least, "round {round}: rows were lost: {}", ran.out);
        let whole = ["bad", "0", "n,d", "500,1", "n,d", "500,1", "bad", "0"];
        assert_eq!(&lines[2..], whole, "round {round}");
        least = count;
        states.push(count);
        // No file remains of writes that did not end.
        let catalog = std::fs::read_to_string(directory.path().join("my.db/catalog")).expect("a catalog");
        let named = catalog.matches("\"number\"").count();
        let files = std::fs::read_dir(directory.path().join("my.db/data"))
            .expect("a folder")
            .count();
        assert_eq!(files, named, "round {round}");
    }
    assert!(states.last() > Some(&0), "{states:?}");
}
