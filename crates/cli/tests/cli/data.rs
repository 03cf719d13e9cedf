//! `generate`, `demo` and `bench`, at scales that are fast in a debug build.

use std::fs;
use std::path::Path;

use crate::support::galatea;

fn value(directory: &Path, sql: &str) -> String {
    let ran = galatea(directory, &["-q", "--format", "csv", "-c", sql]);
    assert_eq!(ran.code, 0, "{sql}: {}", ran.err);
    ran.out.lines().nth(1).unwrap_or_default().to_string()
}

#[test]
fn tpch_data_does_not_depend_on_thread_count() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let generate = |out: &str, more: &[&str]| {
        let arguments = [&["generate", "tpch", "--scale", "0.01", "--out", out], more].concat();
        galatea(directory.path(), &arguments)
    };
    let ran = generate("one", &["--threads", "1"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("tpch at scale 0.01 by tpchgen"), "{}", ran.out);
    let file = |out: &str, name: &str| directory.path().join(out).join(name);
    let time = |out: &str| {
        fs::metadata(file(out, "lineitem.parquet"))
            .and_then(|m| m.modified())
            .expect("a file")
    };
    let first = time("one");
    assert_eq!(generate("one", &[]).code, 0);
    assert_eq!(time("one"), first, "a complete table was written again");
    assert_eq!(generate("two", &["--threads", "3"]).code, 0);
    for table in ["lineitem.parquet", "orders.parquet", "part.parquet"] {
        let (one, two) = (fs::read(file("one", table)), fs::read(file("two", table)));
        assert_eq!(one.expect("a file"), two.expect("a file"), "{table}");
    }
    let left: Vec<_> = fs::read_dir(directory.path().join("one"))
        .expect("a directory")
        .flatten()
        .collect();
    assert_eq!(left.len(), 9, "eight tables and the manifest: {left:?}");
    // The rows of dbgen at this scale.
    assert_eq!(
        value(directory.path(), "SELECT count(*) FROM 'one/lineitem.parquet'"),
        "60175"
    );
    assert_eq!(
        value(directory.path(), "SELECT count(*) FROM 'one/orders.parquet'"),
        "15000"
    );
    assert_eq!(
        value(
            directory.path(),
            "SELECT sum(l_extendedprice) FROM 'one/lineitem.parquet' WHERE l_orderkey < 100"
        ),
        value(
            directory.path(),
            "SELECT sum(l_extendedprice) FROM 'two/lineitem.parquet' WHERE l_orderkey < 100"
        ),
    );
    // Existing data of other parameters are refused, or replaced.
    let ran = generate("one", &["--compression", "zstd"]);
    assert_eq!(ran.code, 1);
    assert!(
        ran.err.contains("hint: choose another --out, or --force"),
        "{}",
        ran.err
    );
    let ran = generate(
        "one",
        &["--compression", "zstd", "--tables", "nation,orders", "--force"],
    );
    assert_eq!(ran.code, 0, "{}", ran.err);
}

#[test]
fn generate_selects_tables_and_file_count() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let arguments = [
        "generate",
        "ssb",
        "--scale",
        "0.01",
        "--out",
        "ssb",
        "--parts",
        "3",
        "--tables",
        "date,lineorder",
    ];
    let ran = galatea(
        directory.path(),
        &[&arguments[..], &["--compression", "lz4_raw"]].concat(),
    );
    assert_eq!(ran.code, 0, "{}", ran.err);
    let parts = fs::read_dir(directory.path().join("ssb/lineorder"))
        .expect("a directory of parts")
        .count();
    assert_eq!(parts, 3);
    assert_eq!(
        value(
            directory.path(),
            "SELECT count(DISTINCT lo_orderkey) FROM 'ssb/lineorder/*.parquet'"
        ),
        "15000"
    );
    assert_eq!(
        value(directory.path(), "SELECT count(*) FROM 'ssb/date.parquet'"),
        "2557"
    );
    let ran = galatea(
        directory.path(),
        &["generate", "tpch", "--out", "x", "--tables", "orderz"],
    );
    assert_eq!(ran.code, 1);
    assert!(
        ran.err
            .contains("error: unknown table: orderz\nhint: tables of tpch are region"),
        "{}",
        ran.err
    );
    let ran = galatea(
        directory.path(),
        &["generate", "tpch", "--out", "x", "--scale", "-1"],
    );
    assert_eq!(ran.code, 2, "{}", ran.err);
    let ran = galatea(
        directory.path(),
        &["generate", "tpch", "--out", "x", "--scale", "0"],
    );
    assert!(
        ran.code == 1 && ran.err.contains("invalid scale: 0"),
        "{}",
        ran.err
    );
}

#[test]
fn clickbench_is_generated_by_row_count_and_measured() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let generate = ["generate", "hits", "--rows", "3000", "--out", "hits"];
    let ran = galatea(directory.path(), &generate);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(
        value(directory.path(), "SELECT count(*) FROM 'hits/hits.parquet'"),
        "3000"
    );
    let both = galatea(directory.path(), &[&generate[..], &["--scale", "1"]].concat());
    assert_eq!(both.code, 2, "{}", both.err);
    let bench = ["bench", "hits", "--data", "hits", "--queries", "0,8,q42"];
    let modes = [
        "--mode",
        "cpu,datafusion,memory",
        "--iterations",
        "1",
        "--duckdb",
        "never",
    ];
    let ran = galatea(directory.path(), &[&bench[..], &modes].concat());
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("| 42 |"), "{}", ran.out);
}

#[test]
fn the_demo_runs_on_the_cpu() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let arguments = ["demo", "--scale", "0.01", "--set", "galatea.device=cpu"];
    for round in 0..2 {
        let ran = galatea(directory.path(), &arguments);
        assert_eq!(ran.code, 0, "round {round}: {}", ran.err);
        assert!(ran.out.contains("TPC-H 1: Pricing summary report"), "{}", ran.out);
        assert!(
            ran.out.contains("| A            | F            | 380456.00 |"),
            "{}",
            ran.out
        );
        assert_eq!(
            ran.out.matches("Ran on the CPU (<why>)").count(),
            10,
            "{}",
            ran.out
        );
        assert!(
            ran.out.ends_with("10 queries in <t> ms: 10 on the CPU"),
            "{}",
            ran.out
        );
    }
}

#[test]
fn benchmarks_write_their_rows() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let arguments = [
        "bench",
        "micro",
        "--scale",
        "0.001",
        "--queries",
        "count,group-k256",
        "--mode",
        "datafusion,memory",
    ];
    let more = [
        "--iterations",
        "2",
        "--duckdb",
        "never",
        "--out",
        "results",
        "--commit",
        "abc",
        "-q",
    ];
    let ran = galatea(directory.path(), &[&arguments[..], &more].concat());
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        ran.out.contains("How many times faster datafusion is than"),
        "{}",
        ran.out
    );
    let results = directory.path().join("results");
    let day = fs::read_dir(&results)
        .expect("results")
        .flatten()
        .next()
        .expect("one directory")
        .path();
    let csv = fs::read_to_string(day.join("micro-datafusion-memory.csv")).expect("rows");
    // Two queries, two modes, and in each one warm-up and two measured runs.
    assert_eq!(csv.lines().count(), 1 + 2 * 2 * 3, "{csv}");
    assert!(csv.lines().skip(1).all(|line| line.contains(",abc,")), "{csv}");
    let readme = fs::read_to_string(day.join("README.md")).expect("a README");
    assert!(readme.contains("galatea bench micro --scale 0.001"), "{readme}");
    let ran = galatea(
        directory.path(),
        &["bench", "tpch", "--data", ".", "--mode", "cpu"],
    );
    assert!(
        ran.code == 1 && ran.err.contains("error: no tpch tables in '.'"),
        "{}",
        ran.err
    );
}

#[test]
fn tpcds_parquet_and_csv_have_equal_rows() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    for format in ["parquet", "csv"] {
        let arguments = [
            "generate", "tpcds", "--scale", "0.01", "--out", format, "--format", format,
        ];
        let tables = ["--tables", "store_sales,item", "--parts", "2"];
        let ran = galatea(directory.path(), &[&arguments[..], &tables].concat());
        assert_eq!(ran.code, 0, "{}", ran.err);
        // The values of dsdgen at this scale.
        let sales = format!("'{format}/store_sales/*.{format}'");
        for (sql, expected) in [
            (format!("SELECT count(*) FROM {sales}"), "120527"),
            (format!("SELECT sum(ss_net_profit) FROM {sales}"), "-96239860.87"),
            (
                format!("SELECT count(*) FROM {sales} WHERE ss_store_sk IS NULL"),
                "5422",
            ),
            (
                format!("SELECT count(i_item_desc) FROM '{format}/item.{format}'"),
                "1991",
            ),
        ] {
            assert_eq!(value(directory.path(), &sql), expected, "{sql}");
        }
    }
}
