//! Results, formats and footers.

use std::process::Stdio;

use crate::support::{command, galatea, galatea_with_input, samples};

const CPU: &str = "--set=galatea.device=cpu";

#[test]
fn table_output_with_device_footer() {
    let directory = samples();
    let ran = galatea(
        directory.path(),
        &[CPU, "-c", "SELECT id, name, price FROM 'a.csv' ORDER BY id"],
    );
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    insta::assert_snapshot!(ran.out, @r"
    +----+------+-------+
    | id | name | price |
    +----+------+-------+
    | 1  | one  | 1.5   |
    | 2  | two  | 2.25  |
    | 3  | NULL | 3.0   |
    +----+------+-------+
    3 rows in <t> s. Ran on the CPU (<why>).
    ");
}

/// The footer of a statement without rows names no device.
#[test]
fn statements_have_no_device() {
    let directory = samples();
    let script = "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION 'a.csv' OPTIONS ('format.has_header' 'true'); \
                  SET datafusion.execution.batch_size = 100; DROP TABLE t";
    for _ in 0..2 {
        let ran = galatea(directory.path(), &[CPU, "-c", script]);
        assert_eq!(ran.code, 0, "{}", ran.err);
        let footers: Vec<&str> = ran.out.lines().filter(|line| !line.is_empty()).collect();
        assert_eq!(footers, ["Done in <t> s."; 3]);
    }
}

#[test]
fn the_emulated_device_runs_a_query() {
    let directory = samples();
    let sql = "SELECT count(*) AS n, sum(id) AS s FROM 'parts/*.parquet' WHERE id > 1";
    let ran = galatea(directory.path(), &["--set", "galatea.device=emulated", "-c", sql]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("| 5 | 41 |"), "{}", ran.out);
    assert!(ran.out.contains("Ran on the emulated GPU."), "{}", ran.out);
}

#[test]
fn only_the_command_line_allows_the_emulated_device() {
    let directory = samples();
    let sql = "SET galatea.device = 'emulated'; SELECT count(*) FROM 'parts/*.parquet' WHERE id > 1";
    let ran = galatea(directory.path(), &["-c", sql]);
    assert_eq!(ran.code, 1, "{}", ran.out);
    assert!(ran.err.contains("--set galatea.device=emulated"), "{}", ran.err);
}

#[test]
fn world_writable_cache_folder_is_not_used() {
    use std::os::unix::fs::PermissionsExt;
    let directory = samples();
    let cache = directory.path().join("cache");
    std::fs::create_dir(&cache).expect("made");
    std::fs::set_permissions(&cache, PermissionsExt::from_mode(0o777)).expect("opened to all");
    let doctor = galatea(directory.path(), &["doctor"]);
    assert!(doctor.out.contains("none, nothing is kept"), "{}", doctor.out);
    assert!(doctor.out.contains("others may write"), "{}", doctor.out);
    let demo = galatea(directory.path(), &["demo", "--scale", "0.001"]);
    assert_eq!(demo.code, 1, "{}", demo.out);
    assert!(
        demo.err.contains("no cache folder for generated data"),
        "{}",
        demo.err
    );
    assert!(demo.err.contains("hint:"), "{}", demo.err);
}

#[test]
fn machine_formats_keep_stdout_clean() {
    let directory = samples();
    let sql = "SELECT id, price FROM 'a.csv' WHERE id < 3 ORDER BY id";
    let run = |format: &str| galatea(directory.path(), &[CPU, "--format", format, "-c", sql]);
    assert_eq!(run("csv").out, "id,price\n1,1.5\n2,2.25");
    assert_eq!(run("tsv").out, "id\tprice\n1\t1.5\n2\t2.25");
    assert_eq!(run("json").out, r#"[{"id":1,"price":1.5},{"id":2,"price":2.25}]"#);
    assert_eq!(
        run("ndjson").out,
        "{\"id\":1,\"price\":1.5}\n{\"id\":2,\"price\":2.25}"
    );
    let nulls = |format: &str| {
        let sql = "SELECT 1 AS a, NULL::INT AS b";
        galatea(directory.path(), &[CPU, "--format", format, "-c", sql]).out
    };
    assert_eq!(
        (nulls("json").as_str(), nulls("ndjson").as_str()),
        (r#"[{"a":1,"b":null}]"#, r#"{"a":1,"b":null}"#)
    );
    assert_eq!(run("csv").err, "2 rows in <t> s. Ran on the CPU (<why>).");
    let quiet = galatea(directory.path(), &[CPU, "-q", "--format", "csv", "-c", sql]);
    assert_eq!(
        (quiet.out.as_str(), quiet.err.as_str()),
        ("id,price\n1,1.5\n2,2.25", "")
    );
}

#[test]
fn files_can_be_queried_as_tables() {
    let directory = samples();
    let value = |sql: &str| {
        let ran = galatea(directory.path(), &["-q", "--format", "csv", "-c", sql]);
        assert_eq!(ran.code, 0, "{sql}: {}", ran.err);
        ran.out.lines().nth(1).unwrap_or_default().to_string()
    };
    assert_eq!(value("SELECT count(*), sum(id) FROM 'parts/*.parquet'"), "6,42");
    assert_eq!(value("SELECT sum(id) FROM 'parts/[2-9].parquet'"), "36");
    assert_eq!(value("SELECT sum(id) FROM 'p*/**/*.parquet'"), "42");
    assert_eq!(value("SELECT count(*) FROM 'parts'"), "6");
    assert_eq!(value("SELECT sum(id) FROM 'array.json'"), "3");
    assert_eq!(value("SELECT sum(id) FROM 'lines.ndjson'"), "6");
    assert_eq!(
        value("SELECT count(*) FROM 'a.csv' AS a JOIN 'parts/1.parquet' AS b ON a.id = b.id"),
        "3"
    );
}

#[test]
fn statements_are_read_from_files_arguments_and_stdin() {
    let directory = samples();
    let path = |name: &str| directory.path().join(name);
    std::fs::write(
        path("one.sql"),
        "CREATE TABLE t AS SELECT 1 AS x; -- the first; of two\n",
    )
    .expect("written");
    std::fs::write(
        path("two.sql"),
        "INSERT INTO t VALUES (2);\nINSERT INTO t VALUES (3)",
    )
    .expect("written");
    let arguments = [
        "-q",
        "--format",
        "csv",
        "-f",
        "one.sql",
        "two.sql",
        "-c",
        "SELECT sum(x) AS s FROM t",
    ];
    let ran = galatea(directory.path(), &arguments);
    assert_eq!((ran.code, ran.out.lines().last()), (0, Some("6")), "{ran:?}");
    let ran = galatea_with_input(
        directory.path(),
        &["-q", "--format", "csv"],
        "SELECT 1 AS a;\nSELECT 2 AS b;\n",
    );
    assert_eq!((ran.code, ran.out.as_str()), (0, "a\n1\nb\n2"));
}

#[test]
fn settings_are_shown_and_set() {
    let directory = samples();
    let run = |arguments: &[&str]| {
        galatea(
            directory.path(),
            &[&["-q", "--format", "csv"], arguments].concat(),
        )
    };
    let show = "SHOW galatea.device";
    assert_eq!(run(&["-c", show]).out, "name,value\ngalatea.device,auto");
    assert_eq!(
        run(&["--set", "galatea.device=cpu", "-c", show]).out,
        "name,value\ngalatea.device,cpu"
    );
    let set = "ALTER SYSTEM SET galatea.memory.gpu_limit = '2 GiB'; SHOW galatea.memory.gpu_limit";
    assert_eq!(
        run(&["-c", set]).out,
        "setting,value,sessions\ngalatea.memory.gpu_limit,2 GiB,1\nname,value\ngalatea.memory.gpu_limit,2 GiB"
    );
    let runtime = [
        "--set",
        "datafusion.runtime.memory_limit=1G",
        "-c",
        "SELECT 1 AS x",
    ];
    assert_eq!(run(&runtime).out, "x\n1");
}

#[test]
fn the_doctor_shows_where_queries_run() {
    let directory = samples();
    let ran = galatea(directory.path(), &["doctor", "--set", "galatea.device=cpu"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    for part in [
        "Queries run on",
        "CUDA driver",
        "NVRTC",
        "Caches",
        "galatea.device",
        "cpu (changed)",
    ] {
        assert!(ran.out.contains(part), "{part} in:\n{}", ran.out);
    }
    if galatea_device::probe().usable().is_err() {
        assert!(
            ran.out.starts_with("Queries run on DataFusion's CPU operators"),
            "{}",
            ran.out
        );
        assert!(ran.out.contains("to get it"), "{}", ran.out);
    }
}

#[test]
fn help_lists_the_commands() {
    let directory = samples();
    let ran = galatea(directory.path(), &["--help"]);
    assert_eq!(ran.code, 0);
    for command in [
        "demo",
        "doctor",
        "calibrate",
        "generate",
        "bench",
        "--set",
        "--format",
    ] {
        assert!(ran.out.contains(command), "{command} in:\n{}", ran.out);
    }
}

#[test]
fn policies_are_listed_with_their_meaning() {
    let directory = samples();
    let ran = galatea(directory.path(), &["policies"]);
    assert_eq!(ran.code, 0);
    let line = ran.out.lines().find(|line| line.contains("hot_share"));
    assert_eq!(
        line.map(str::trim),
        Some("hot_share     0.1  Minimum share of the sample for a hot group."),
        "{}",
        ran.out
    );
}

#[test]
fn empty_results_keep_their_header() {
    let directory = samples();
    let run = |format: &str| {
        let sql = "SELECT id, price FROM 'a.csv' WHERE id > 3";
        galatea(directory.path(), &[CPU, "-q", "--format", format, "-c", sql]).out
    };
    assert_eq!(
        (run("csv").as_str(), run("tsv").as_str()),
        ("id,price", "id\tprice")
    );
    assert_eq!((run("json").as_str(), run("ndjson").as_str()), ("[]", ""));
    assert_eq!(run("markdown"), "| id | price |\n|----|-------|");
}

#[test]
fn positional_arguments_are_sql_or_files() {
    let directory = samples();
    let run = |arguments: &[&str]| galatea(directory.path(), &[&[CPU, "-q"], arguments].concat());
    assert_eq!(run(&["--format", "csv", "SELECT 1 AS one"]).out, "one\n1");
    assert_eq!(
        run(&["--format", "csv", "a.csv"]).out,
        "id,name,price\n1,one,1.5\n2,two,2.25\n3,,3.0"
    );
    assert_eq!(run(&["--maxrows", "2", "parts/*.parquet"]).out.lines().count(), 6);
    std::fs::write(
        directory.path().join("x.sql"),
        "-- a script\nSELECT 2 AS two; \\q\nSELECT 3;",
    )
    .expect("written");
    assert_eq!(run(&["--format", "csv", "x.sql"]).out, "two\n2");
    assert_eq!(
        run(&["--format", "csv", "-c", "-- first a comment\nSELECT 4 AS four"]).out,
        "four\n4"
    );
    let typing = run(&["docter"]);
    assert_eq!(typing.code, 1);
    insta::assert_snapshot!(typing.err, @r#"
    error: no such command or file: docter
    hint: did you mean galatea doctor? SQL goes in quotes: galatea "SELECT 1"
    "#);
}

#[test]
fn commands_work_in_every_script() {
    let directory = samples();
    let script = "\\pset format csv\n\\o out.csv\nSELECT 1 AS a; \\o\nSELECT 2 AS b;\n\\x on\n\\pset format table\nSELECT 3 AS c;\n\\timing on\n";
    std::fs::write(directory.path().join("x.sql"), script).expect("written");
    let expected = "b\n2\n-[ row 1 ]------------------------------\nc | 3";
    for (arguments, input) in [
        (&["-q", "-f", "x.sql"][..], ""),
        (&["-q", "-c", script], ""),
        (&["-q"], script),
        (&["-q", "-c", "\\i x.sql"], ""),
    ] {
        let ran = galatea_with_input(directory.path(), arguments, input);
        assert_eq!(
            (ran.code, ran.out.as_str()),
            (0, expected),
            "{arguments:?}: {}",
            ran.err
        );
        let written = std::fs::read_to_string(directory.path().join("out.csv")).expect("a file");
        assert_eq!(written, "a\n1\n", "{arguments:?}");
    }
    let unknown = galatea(directory.path(), &["-c", "\\nonsense"]);
    assert_eq!(
        (unknown.code, unknown.err.as_str()),
        (
            1,
            "error: unknown command: \\nonsense\nhint: \\? lists the commands"
        )
    );
    let help = galatea(directory.path(), &["-c", "\\?"]);
    assert!(
        help.out.contains("\\timing") && !help.out.contains("datafusion"),
        "{}",
        help.out
    );
}

#[test]
fn explain_is_an_outline_unless_a_format_is_named() {
    let directory = samples();
    let run = |explain: &str| {
        let sql = format!("{explain} SELECT name, count(*) FROM 'a.csv' WHERE id > 1 GROUP BY name");
        let ran = galatea(
            directory.path(),
            &["--set", "galatea.device=emulated", "-q", "-c", &sql],
        );
        assert_eq!(ran.code, 0, "{}", ran.err);
        ran.out
    };
    let planned = run("EXPLAIN");
    assert!(planned.starts_with("runs on       emulated GPU\n\n"), "{planned}");
    assert!(
        planned.contains("filters       id > 1") && !planned.contains("strategy"),
        "{planned}"
    );
    let analysed = run("EXPLAIN ANALYZE");
    assert!(
        analysed.contains("strategy") && analysed.contains("over the link"),
        "{analysed}"
    );
    assert!(run("EXPLAIN FORMAT INDENT").contains("GpuExec: source=file a.csv, filters=[id > 1]"));
    assert!(run("EXPLAIN ANALYZE FORMAT INDENT").contains("metrics=[output_rows="));
}

#[test]
fn versions_completions_and_manual_pages_are_printed() {
    let directory = samples();
    let run = |arguments: &[&str]| {
        let ran = galatea(directory.path(), arguments);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""));
        ran.out
    };
    let version = run(&["--version"]);
    let names: Vec<_> = version
        .lines()
        .filter_map(|line| line.split(' ').next())
        .collect();
    assert_eq!(names, ["galatea", "DataFusion", "NVRTC"], "{version}");
    for shell in ["bash", "zsh", "fish"] {
        let text = run(&["completions", shell]);
        assert!(text.contains("calibrate") && text.contains("maxrows"), "{shell}");
    }
    assert!(run(&["man"]).contains(".TH galatea 1"));
    run(&["man", "--out", "pages"]);
    assert!(directory.path().join("pages/galatea-bench.1").is_file());
}

#[test]
fn warnings_are_shown() {
    let directory = samples();
    let cache = directory.path().join("cache");
    let sql = "SELECT name, count(*) FROM 'a.csv' GROUP BY name";
    let settings = [
        "--set",
        "galatea.device=emulated",
        "--set",
        "galatea.memory.gpu_limit=1 KiB",
    ];
    let ran = galatea(directory.path(), &[&settings[..], &["-c", sql]].concat());
    assert_eq!(ran.code, 0, "{} {}", ran.err, cache.display());
    assert!(
        ran.err
            .starts_with("warning: a GPU pipeline falls back to the CPU (reason: "),
        "{}",
        ran.err
    );
}

#[test]
fn closed_stdout_is_not_an_error() {
    let directory = samples();
    let sql = "SELECT value FROM generate_series(1, 1000000)";
    let mut command = command(directory.path(), &["-q", "--format", "csv", "-c", sql]);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    drop(child.stdout.take());
    let ended = child.wait_with_output().expect("ends");
    assert_eq!(
        (
            ended.status.code(),
            String::from_utf8_lossy(&ended.stderr).as_ref()
        ),
        (Some(0), "")
    );
}

#[test]
fn statements_and_files_run_in_the_order_of_the_arguments() {
    let directory = samples();
    std::fs::write(directory.path().join("three.sql"), "SELECT 3 AS n;").expect("writes");
    let ran = galatea(
        directory.path(),
        &[
            CPU,
            "-q",
            "--format",
            "csv",
            "SELECT 1 AS n",
            "-c",
            "SELECT 2 AS n",
            "three.sql",
            "-f",
            "three.sql",
            "-c",
            "SELECT 4 AS n",
        ],
    );
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let values: Vec<&str> = ran.out.lines().filter(|line| *line != "n").collect();
    assert_eq!(values, ["1", "2", "3", "3", "4"]);
}
