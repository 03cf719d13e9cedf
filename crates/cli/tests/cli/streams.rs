//! Standard input as a file, standard output as the target of COPY, variables, and files of a web server.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Stdio;
use std::thread;

use crate::support::{Ran, command, galatea, galatea_with_input, samples};

const CPU: &str = "--set=galatea.device=cpu";

fn csv(input: &str, sql: &str) -> Ran {
    let directory = samples();
    galatea_with_input(directory.path(), &[CPU, "-q", "--format", "csv", sql], input)
}

#[test]
fn piped_data_is_a_table() {
    let data = "a,b\n1,x\n2,\n";
    for name in ["-", "/dev/stdin", "/dev/fd/0"] {
        let ran = csv(data, &format!("SELECT a + 1 AS n, b FROM '{name}' ORDER BY a"));
        assert_eq!((ran.code, ran.out.as_str()), (0, "n,b\n2,x\n3,"), "{}", ran.err);
    }
    let ran = csv("a;b\n1;2\n", "SELECT a, b FROM read_csv('/dev/stdin')");
    assert_eq!(ran.out, "a,b\n1,2", "{}", ran.err);
    let ran = csv(
        "1|2\n3|4\n",
        "SELECT sum(column_1) AS s FROM read_csv('-', delim = '|', header = false)",
    );
    assert_eq!(ran.out, "s\n4", "{}", ran.err);
    // The format is detected from the data.
    let ran = csv(
        "{\"a\": 1, \"b\": [1, 2]}\n{\"a\": 5}\n",
        "SELECT sum(a) AS s FROM '-'",
    );
    assert_eq!(ran.out, "s\n6", "{}", ran.err);
    let ran = csv(
        "[{\"a\": 1}, {\"a\": 2}]",
        "SELECT sum(a) AS s FROM read_json('-')",
    );
    assert_eq!(ran.out, "s\n3", "{}", ran.err);
    // The columns are qualified by a name.
    let ran = csv(data, "SELECT stdin.a FROM '-' WHERE stdin.b = 'x'");
    assert_eq!(ran.out, "a\n1", "{}", ran.err);
}

#[test]
fn standard_input_is_read_once_for_all_uses() {
    let data = "a\n1\n2\n";
    let ran = csv(
        data,
        "SELECT count(*) AS n FROM '-' x JOIN '-' y ON x.a = y.a; SELECT max(a) AS m FROM '/dev/stdin'",
    );
    assert_eq!((ran.code, ran.out.as_str()), (0, "n\n2\nm\n2"), "{}", ran.err);
    let directory = samples();
    let ran = galatea_with_input(directory.path(), &[CPU, "-q", "--format", "csv", "-"], "a\n7\n");
    assert_eq!(ran.out, "a\n7", "{}", ran.err);
    let ran = csv("id,x\n1,10\n", "SELECT name, x FROM 'a.csv' JOIN '-' USING (id)");
    assert_eq!(ran.out, "name,x\none,10", "{}", ran.err);
}

#[test]
fn parquet_is_read_from_a_pipe_and_a_redirection() {
    let directory = samples();
    let bytes = std::fs::read(directory.path().join("parts/1.parquet")).expect("a file");
    let arguments = [CPU, "-q", "--format", "csv", "SELECT sum(id) AS s FROM '-'"];
    let mut piped = command(directory.path(), &arguments);
    piped.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = piped.spawn().expect("starts");
    child
        .stdin
        .take()
        .expect("piped")
        .write_all(&bytes)
        .expect("read");
    let ran = child.wait_with_output().expect("ends");
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "s\n6\n");
    let file = std::fs::File::open(directory.path().join("parts/2.parquet")).expect("a file");
    let redirected = command(directory.path(), &arguments)
        .stdin(file)
        .output()
        .expect("runs");
    assert_eq!(String::from_utf8_lossy(&redirected.stdout), "s\n36\n");
}

#[test]
fn standard_input_without_data_is_an_error() {
    let ran = csv("", "SELECT * FROM '-'");
    assert_eq!(ran.code, 1);
    assert_eq!(ran.err, "error: standard input is empty: '-' has no data");
    let ran = csv(
        &"a\n".repeat(1000),
        "SET datafusion.runtime.max_temp_directory_size = '1K'; SELECT count(*) FROM '/dev/stdin'",
    );
    assert_eq!(ran.code, 1, "{}", ran.out);
    assert!(
        ran.err
            .contains("error: standard input has more than 1024 bytes, the limit of temporary files"),
        "{}",
        ran.err
    );
    // The script is not data.
    let directory = samples();
    let ran = galatea_with_input(directory.path(), &[CPU, "-q"], "SELECT * FROM '-';\n");
    assert_eq!(ran.code, 1, "{}", ran.out);
    assert!(ran.err.contains("it is the script of statements"), "{}", ran.err);
}

#[test]
fn copy_writes_to_standard_output() {
    let rows = "SELECT * FROM (VALUES (1, 'x'), (2, NULL)) AS t(a, b) ORDER BY a";
    let run = |target: &str| {
        let directory = samples();
        galatea(
            directory.path(),
            &[CPU, "-c", &format!("COPY ({rows}) TO {target}")],
        )
    };
    for target in [
        "STDOUT",
        "stdout",
        "'/dev/stdout'",
        "'-'",
        "STDOUT (FORMAT csv, HEADER)",
        "STDOUT WITH (FORMAT csv)",
    ] {
        let ran = run(target);
        assert_eq!(
            (ran.code, ran.out.as_str()),
            (0, "a,b\n1,x\n2,"),
            "{target}: {}",
            ran.err
        );
        assert!(ran.err.starts_with("2 rows in <t> s."), "{target}: {}", ran.err);
    }
    assert_eq!(run("'-' (HEADER false, DELIMITER '|')").out, "1|x\n2|");
    assert_eq!(
        run("STDOUT (FORMAT json)").out,
        "{\"a\":1,\"b\":\"x\"}\n{\"a\":2}"
    );
    let ran = run("STDOUT (FORMAT csv, PARTITION_BY (a))");
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("standard output is one"), "{}", ran.err);
    let directory = samples();
    let ran = galatea(
        directory.path(),
        &[CPU, "-c", "COPY (SELECT 1 AS a WHERE false) TO STDOUT"],
    );
    assert_eq!((ran.code, ran.out.as_str()), (0, "a"), "{}", ran.err);
    assert!(!directory.path().join("-").exists());
}

#[test]
fn copied_parquet_and_many_rows_pass_through_a_pipe() {
    let directory = samples();
    let copy = "COPY (SELECT value AS v FROM generate_series(1, 3000000)) TO STDOUT";
    let whole = command(directory.path(), &[CPU, "-q", copy])
        .output()
        .expect("runs");
    // More than the buffer of the writer, so it has several parts.
    assert!(whole.stdout.len() > 20 << 20, "{}", whole.stdout.len());
    let text = String::from_utf8(whole.stdout).expect("UTF-8");
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("v"));
    let numbers: Vec<u64> = lines.map(|line| line.parse().expect("a whole line")).collect();
    assert!(numbers.iter().copied().eq(1..=3_000_000));
    let parquet = "COPY (SELECT value AS v FROM generate_series(1, 10)) TO STDOUT (FORMAT parquet)";
    let written = command(directory.path(), &[CPU, "-q", parquet])
        .output()
        .expect("runs");
    assert!(written.stdout.starts_with(b"PAR1") && written.stdout.ends_with(b"PAR1"));
    std::fs::write(directory.path().join("out.parquet"), &written.stdout).expect("written");
    let ran = galatea(
        directory.path(),
        &[
            CPU,
            "-q",
            "--format",
            "csv",
            "SELECT sum(v) AS s FROM 'out.parquet'",
        ],
    );
    assert_eq!(ran.out, "s\n55");
    // A reader that leaves early is no error.
    let mut child = command(directory.path(), &[CPU, "-q", copy])
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut begin = [0; 2];
    child
        .stdout
        .take()
        .expect("piped")
        .read_exact(&mut begin)
        .expect("a line");
    assert!(child.wait().expect("ends").success());
}

#[test]
fn codecs_of_parquet_need_no_level() {
    let directory = samples();
    for options in [
        "(COMPRESSION zstd)",
        "(FORMAT parquet, COMPRESSION gzip)",
        "(COMPRESSION 'BROTLI')",
        "OPTIONS ('compression' 'zstd')",
        "STORED AS parquet OPTIONS ('format.compression' 'zstd(9)')",
        "OPTIONS ('format.compression::a' 'zstd')",
    ] {
        let sql = format!("COPY (SELECT 5 AS a) TO 'level.parquet' {options}; SELECT a FROM 'level.parquet'");
        let ran = galatea(directory.path(), &[CPU, "-q", "--format", "csv", &sql]);
        assert_eq!(
            (ran.code, ran.out.as_str()),
            (0, "count\n1\na\n5"),
            "{options}: {}",
            ran.err
        );
    }
    for name in ["z.csv.gz", "z.csv.zst"] {
        let sql = format!("COPY (SELECT 5 AS a) TO '{name}'; SELECT a FROM '{name}'");
        let ran = galatea(directory.path(), &[CPU, "-q", "--format", "csv", &sql]);
        assert_eq!(ran.out, "count\n1\na\n5", "{name}: {}", ran.err);
    }
}

#[test]
fn variables_of_arguments_are_constants() {
    let directory = samples();
    let arguments = [
        CPU,
        "-q",
        "--format",
        "csv",
        "-v",
        "x=41",
        "-v",
        "day=2026-11-29",
        "--variable",
        "name=it's",
        "SELECT getvariable('x') + 1 AS n, getvariable('day')::DATE AS d, getvariable('name') AS s, getvariable('none') AS z",
    ];
    let ran = galatea(directory.path(), &arguments);
    assert_eq!(
        (ran.code, ran.out.as_str()),
        (0, "n,d,s,z\n42,2026-11-29,it's,"),
        "{}",
        ran.err
    );
    assert_eq!(galatea(directory.path(), &["-v", "x", "SELECT 1"]).code, 2);
}

#[test]
fn tables_are_listed() {
    let directory = samples();
    for command in ["\\dt", ".tables"] {
        let script = format!("CREATE TABLE t AS SELECT 1 AS a; CREATE VIEW v AS SELECT 2 AS b;\n{command}\n");
        let ran = galatea_with_input(directory.path(), &[CPU, "-q", "--format", "csv"], &script);
        assert_eq!(ran.code, 0, "{}", ran.err);
        let expected = "table_catalog,table_schema,table_name,table_type\n\
                        datafusion,public,t,BASE TABLE\ndatafusion,public,v,VIEW";
        assert_eq!(ran.out, expected, "{command}");
    }
    let ran = galatea(directory.path(), &[CPU, "-q", ".import a b"]);
    assert_eq!(ran.code, 1);
    let ran = galatea_with_input(
        directory.path(),
        &[CPU, "-q"],
        ".mode csv\n.schema 'a.csv'\n.quit\nSELECT 1;",
    );
    assert!(
        ran.out.starts_with("table_catalog,") && !ran.out.ends_with('1'),
        "{}",
        ran.out
    );
}

/// A server of one status for all files. Returns its address.
fn server(status: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let mut request = [0; 4096];
            let _ = stream.read(&mut request);
            let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    format!("http://{address}")
}

#[test]
fn missing_remote_file_is_named() {
    let directory = samples();
    let address = server("404 Not Found");
    for from in [
        "'URL/no.parquet'",
        "'URL/no.csv'",
        "read_parquet('URL/no.parquet')",
    ] {
        let sql = format!("SELECT * FROM {}", from.replace("URL", &address));
        let ran = galatea(directory.path(), &[CPU, "-q", &sql]);
        assert_eq!(ran.code, 1);
        assert!(
            ran.err.starts_with("error: no such file: 'http://127.0.0.1:"),
            "{}",
            ran.err
        );
        assert!(ran.err.contains("HTTP status 404"), "{}", ran.err);
    }
    let denied = server("403 Forbidden");
    let ran = galatea(
        directory.path(),
        &[CPU, "-q", &format!("SELECT * FROM '{denied}/no.csv'")],
    );
    assert!(ran.err.contains("error: no access to 'http://"), "{}", ran.err);
}
