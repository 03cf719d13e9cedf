//! `galatea optimize`.

use crate::support::{Ran, galatea};

const EVENTS: &str = "COPY (SELECT value AS at, value * 7919 % 13 AS user FROM generate_series(1, 10000)) \
                      TO 'events.parquet'";

/// A folder with the file `events.parquet`.
fn events() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    assert_eq!(galatea(folder.path(), &["-q", "-c", EVENTS]).code, 0);
    folder
}

#[test]
fn a_file_is_rewritten_and_sorted() {
    let folder = events();
    let run = |arguments: &[&str]| -> Ran { galatea(folder.path(), arguments) };
    let ran = run(&[
        "optimize",
        "events.parquet",
        "--out",
        "fast.parquet",
        "--sort-by",
        "user,at",
    ]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let lines: Vec<_> = ran.out.lines().collect();
    let [at, user, file] = lines[..] else {
        panic!("{}", ran.out);
    };
    assert!(at.starts_with("at    delta "), "{at}");
    assert!(user.starts_with("user  dictionary "), "{user}");
    assert!(
        file.starts_with("'events.parquet' -> 'fast.parquet': 10,000 rows, "),
        "{file}"
    );
    let first = "SELECT * FROM 'fast.parquet' LIMIT 2";
    assert_eq!(
        run(&["-q", "--format", "csv", "-c", first]).out,
        "at,user\n13,0\n26,0"
    );
    let sums = "SELECT count(*) AS n, sum(at) AS a, sum(user) AS u FROM";
    let of = |file: &str| run(&["-q", "--format", "csv", "-c", &format!("{sums} '{file}'")]).out;
    assert_eq!(of("fast.parquet"), of("events.parquet"));
    let ran = run(&["-q", "optimize", "events.parquet", "--in-place"]);
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "", ""));
    assert_eq!(of("fast.parquet"), of("events.parquet"));
}

#[test]
fn refused_files_name_the_cause() {
    let folder = events();
    let error = |arguments: &[&str], code: i32| {
        let ran = galatea(folder.path(), &[&["optimize"], arguments].concat());
        assert_eq!((ran.code, ran.out.as_str()), (code, ""), "{arguments:?}");
        ran.err
    };
    std::fs::write(folder.path().join("b.csv"), "a,b\n").expect("a file");
    let column = error(&["events.parquet", "--out", "b.parquet", "--sort-by", "usr"], 1);
    assert_eq!(
        column,
        "error: 'events.parquet' has no column usr\nhint: a similar name is user"
    );
    let exists = error(&["events.parquet", "--out", "b.csv"], 1);
    assert_eq!(exists, "error: 'b.csv' exists\nhint: --force replaces it");
    let several = error(&["events.parquet", "b.csv", "--out", "folder"], 1);
    assert_eq!(
        several,
        "error: --out 'folder' is no folder, and 2 files are given"
    );
    let format = error(&["b.csv", "--out", "b.parquet"], 1);
    assert!(
        format.starts_with("error: cannot read 'b.csv' as a Parquet file: "),
        "{format}"
    );
    let out = error(&["events.parquet"], 2);
    assert!(out.contains("--out <PATH>"), "{out}");
}
