//! CSV and JSON files as found in practice: the same expected rows on the CPU, in any number of partitions,
//! and on the device.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::prelude::SessionContext;

/// Sessions on the CPU with 1, 2 and 16 partitions, and one on the emulated device.
fn sessions() -> Vec<(String, SessionContext)> {
    let build = |session: galatea::SessionBuilder| {
        let session = session.with_file_queries(true);
        session.build().expect("a session")
    };
    let on_cpu = |partitions: usize| {
        let session = galatea::session()
            .with_setting("galatea.device", "cpu")
            .with_setting("datafusion.execution.target_partitions", partitions.to_string());
        (format!("CPU, {partitions} partitions"), build(session))
    };
    let emulated = galatea::session()
        .with_emulated_device(galatea::EmulatorOptions::default())
        .with_setting("galatea.device", "emulated")
        .with_setting("galatea.tuning.min_rows", "0");
    let mut all: Vec<_> = [1, 2, 16].map(on_cpu).into();
    all.push(("emulated".to_owned(), build(emulated)));
    all
}

/// The rows of a query as one string, with `|` between columns and `;` between rows, or its error.
pub(crate) async fn rows(ctx: &SessionContext, sql: &str) -> Result<String, String> {
    let frame = galatea::sql(ctx, sql).await.map_err(|error| error.to_string())?;
    let batches = frame.collect().await.map_err(|error| error.to_string())?;
    let options = FormatOptions::default().with_null("NULL");
    let mut lines = Vec::new();
    for batch in &batches {
        let columns: Vec<_> = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column, &options).expect("printable"))
            .collect();
        for row in 0..batch.num_rows() {
            let cells: Vec<String> = columns
                .iter()
                .map(|column| column.value(row).to_string())
                .collect();
            lines.push(cells.join("|"));
        }
    }
    Ok(lines.join(";"))
}

/// A folder of files, and the sessions that read them.
pub(crate) struct Files {
    folder: tempfile::TempDir,
    pub(crate) sessions: Vec<(String, SessionContext)>,
}

impl Files {
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        let files_of = Self {
            folder: tempfile::tempdir().expect("a folder"),
            sessions: sessions(),
        };
        for (name, text) in files {
            files_of.write(name, text);
        }
        files_of
    }

    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
        std::fs::write(&path, bytes).expect("a file");
        path
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Checks that the query, with `@/` for the folder, returns these rows in every session, in two runs.
    pub(crate) async fn check(&self, sql: &str, expected: &str) {
        let sql = sql.replace("@/", &format!("{}/", self.path().display()));
        for (name, ctx) in &self.sessions {
            for time in ["first", "second"] {
                assert_eq!(
                    rows(ctx, &sql).await.as_deref(),
                    Ok(expected),
                    "{name}, {time} time\n{sql}"
                );
            }
        }
    }

    /// Checks that the statement succeeds in every session.
    pub(crate) async fn run(&self, sql: &str) {
        let sql = sql.replace("@/", &format!("{}/", self.path().display()));
        for (name, ctx) in &self.sessions {
            if let Err(error) = rows(ctx, &sql).await {
                panic!("{name}\n{sql}\n{error}");
            }
        }
    }

    /// Checks that the query fails in every session, and that each message contains all these parts.
    pub(crate) async fn refuse(&self, sql: &str, parts: &[&str]) {
        let sql = sql.replace("@/", &format!("{}/", self.path().display()));
        for (name, ctx) in &self.sessions {
            let error = rows(ctx, &sql).await.expect_err(&sql);
            for part in parts {
                assert!(error.contains(part), "{name}\n{sql}\n{part:?} is not in: {error}");
            }
        }
    }
}

#[tokio::test]
async fn line_feeds_in_quotes_do_not_end_rows() {
    let files = Files::new(&[]);
    let mut text = "id,s\n".to_owned();
    for row in 0..60_000 {
        writeln!(text, "{row},\"line one {row}\nline, two {row}\n{row},fake\"").expect("text");
    }
    assert!(text.len() > 2 << 20);
    files.write("one/n.csv", &text);
    files
        .run("CREATE EXTERNAL TABLE whole STORED AS CSV LOCATION '@/one/n.csv'")
        .await;
    files
        .run("CREATE EXTERNAL TABLE folder STORED AS CSV LOCATION '@/one/'")
        .await;
    let declared =
        "CREATE EXTERNAL TABLE declared(id BIGINT, s VARCHAR) STORED AS CSV LOCATION '@/one/n.csv'";
    files.run(declared).await;
    for table in [
        "'@/one/n.csv'",
        "'@/one/*.csv'",
        "'@/one/'",
        "'@/one'",
        "whole",
        "folder",
        "declared",
    ] {
        let sql = format!("SELECT count(*), count(DISTINCT id), sum(id), max(arrow_typeof(id)) FROM {table}");
        files.check(&sql, "60000|60000|1799970000|Int64").await;
        let sql = format!("SELECT s FROM {table} WHERE id = 59999");
        files
            .check(&sql, "line one 59999\nline, two 59999\n59999,fake")
            .await;
    }
}

/// Files without such line feeds are still read by several threads.
#[tokio::test]
async fn plain_csv_and_json_files_are_split() {
    let files = Files::new(&[]);
    let mut text = "id,s\n".to_owned();
    for row in 0..200_000 {
        writeln!(text, "{row},\"value, {row}\"").expect("text");
    }
    files.write("n.csv", &text);
    let mut lines = String::new();
    for row in 0..100_000 {
        writeln!(lines, "{{\"id\": {row}, \"s\": \"value {row}\"}}").expect("text");
    }
    files.write("n.json", &lines);
    files
        .check("SELECT count(*), sum(id) FROM '@/n.csv'", "200000|19999900000")
        .await;
    files
        .check("SELECT count(*), sum(id) FROM '@/n.json'", "100000|4999950000")
        .await;
    let two = &files.sessions[1].1;
    for name in ["n.csv", "n.json"] {
        let sql = format!(
            "EXPLAIN SELECT id FROM '{}/{name}' WHERE id > 7",
            files.path().display()
        );
        let plan = rows(two, &sql).await.expect("a plan");
        assert!(
            plan.contains("2 groups") && plan.contains(&format!("{name}:0..")),
            "{plan}"
        );
    }
}

#[tokio::test]
async fn csv_columns_are_matched_by_name() {
    let files = Files::new(&[
        ("ab/a.csv", "a,b\n1,2\n"),
        ("ab/b.csv", "b,a\n3,4\n"),
        ("more/a.csv", "a\n1\n"),
        ("more/b.csv", "b,a\n2.5,2.5\n"),
        ("more/c.csv", "c,a\nx,3\n"),
        ("other/a.csv", "a,b\n1,2\n"),
        ("mixed/a.csv", "a,b\n1,2\n"),
        ("mixed/b.csv", "3,4\n"),
    ]);
    for table in ["'@/ab/*.csv'", "'@/ab/[ab].csv'", "'@/ab/'"] {
        files
            .check(&format!("SELECT sum(a), sum(b) FROM {table}"), "5|5")
            .await;
    }
    files
        .run("CREATE EXTERNAL TABLE found STORED AS CSV LOCATION '@/ab/'")
        .await;
    files
        .run("CREATE EXTERNAL TABLE told(a INT, b INT) STORED AS CSV LOCATION '@/ab/'")
        .await;
    files
        .run("CREATE EXTERNAL TABLE named(x INT, y INT) STORED AS CSV LOCATION '@/ab/a.csv'")
        .await;
    files.check("SELECT sum(a), sum(b) FROM found", "5|5").await;
    files.check("SELECT sum(a), sum(b) FROM told", "5|5").await;
    files.check("SELECT x, y FROM named", "1|2").await;
    files
        .check(
            "SELECT a, b, c FROM '@/more/' ORDER BY a",
            "1.0|NULL|NULL;2.5|2.5|NULL;3.0|NULL|x",
        )
        .await;
    files
        .check(
            "SELECT count(*), count(b), count(c), sum(a) FROM '@/more/*.csv'",
            "3|1|1|6.5",
        )
        .await;
    // A file that is added later and has none of the columns.
    files
        .run("CREATE EXTERNAL TABLE grows STORED AS CSV LOCATION '@/other/'")
        .await;
    files.write("other/b.csv", "x,y\n5,6\n");
    files
        .refuse(
            "SELECT sum(a) FROM grows",
            &["other/b.csv", "none of the table's columns", "x, y"],
        )
        .await;
    files
        .refuse(
            "SELECT * FROM '@/mixed/*.csv'",
            &["mixed/a.csv", "mixed/b.csv", "header"],
        )
        .await;
}

#[tokio::test]
async fn csv_files_without_a_header_keep_their_first_row() {
    let files = Files::new(&[
        ("n.csv", "1,x\n2,y\n3,z\n"),
        ("one.csv", "1,2\n"),
        ("text.csv", "name,city\nanna,ulm\n"),
        ("codes.csv", "zip,city\n01234,Ulm\n99999,Jena\n"),
        ("days.csv", "day,n\n2021-02-28,1\n2021-02-30,2\n"),
        ("twice.csv", "a,a,b\n1,2,3\n"),
        ("empty.csv", ",b,\n1,2,3\n"),
        ("index.csv", ",a\n0,x\n1,y\n"),
        ("nulls.csv", "a,b\n1,\n2,\n"),
    ]);
    files
        .check(
            "SELECT sum(column_1), count(*), min(column_2) FROM '@/n.csv'",
            "6|3|x",
        )
        .await;
    files.check("SELECT * FROM '@/one.csv'", "1|2").await;
    files
        .check("SELECT city, name FROM '@/text.csv'", "ulm|anna")
        .await;
    files
        .run("CREATE EXTERNAL TABLE found STORED AS CSV LOCATION '@/n.csv'")
        .await;
    files
        .run("CREATE EXTERNAL TABLE told(a INT, b VARCHAR) STORED AS CSV LOCATION '@/n.csv'")
        .await;
    files
        .run(
            "CREATE EXTERNAL TABLE skips(a INT, b VARCHAR) STORED AS CSV LOCATION '@/n.csv' \
         OPTIONS ('format.has_header' 'true')",
        )
        .await;
    files.check("SELECT sum(column_1) FROM found", "6").await;
    files.check("SELECT sum(a), min(b) FROM told", "6|x").await;
    files.check("SELECT sum(a), min(b) FROM skips", "5|y").await;
    files
        .check("SELECT zip FROM '@/codes.csv' ORDER BY zip", "01234;99999")
        .await;
    files
        .check("SELECT max(day), max(n) FROM '@/days.csv'", "2021-02-30|2")
        .await;
    files.check("SELECT a, a_1, b FROM '@/twice.csv'", "1|2|3").await;
    files
        .check("SELECT column_1, b, column_3 FROM '@/empty.csv'", "1|2|3")
        .await;
    files
        .check("SELECT column_1, a FROM '@/index.csv' ORDER BY 1", "0|x;1|y")
        .await;
    files
        .check("SELECT count(b), sum(a) FROM '@/nulls.csv'", "0|3")
        .await;
}

#[tokio::test]
async fn json_files_hold_objects_or_one_array() {
    let files = Files::new(&[
        (
            "p.json",
            "[\n  {\n    \"a\": 1\n  },\n  {\n    \"a\": 2\n  }\n]\n",
        ),
        ("q.json", "[{\"a\": 1,\n\"b\": 2}]"),
        ("lines.json", "{\n\"a\": 1\n}\n{\n\"a\": 5\n}\n"),
        ("bom.json", "\u{feff}[{\"a\": 1}]"),
        ("bom_lines.json", "\u{feff}{\"a\": 1}\n{\"a\": 2}\n"),
        ("cut.json", "[{\"a\": 1},{\"a\": 3}"),
        ("numbers.json", "[1, 2]"),
        ("order.json", "{\"z\": 1, \"a\": 2}\n"),
    ]);
    files
        .check("SELECT sum(a), count(*) FROM '@/p.json'", "3|2")
        .await;
    files.check("SELECT a, b FROM '@/q.json'", "1|2").await;
    files.check("SELECT sum(a) FROM '@/lines.json'", "6").await;
    files.check("SELECT a FROM '@/bom.json'", "1").await;
    files.check("SELECT sum(a) FROM '@/bom_lines.json'", "3").await;
    files.check("SELECT * FROM '@/order.json'", "1|2").await;
    files
        .refuse("SELECT count(*) FROM '@/cut.json'", &["cut.json", "cut off"])
        .await;
    files
        .refuse(
            "SELECT * FROM '@/numbers.json'",
            &["numbers.json", "not an object"],
        )
        .await;
    let rows: Vec<String> = (0..40_000)
        .map(|row| format!("{{\"a\": {row}, \"b\": \"x{row}\"}}"))
        .collect();
    let array = format!("[{}]", rows.join(", "));
    assert!(array.len() > 1 << 20);
    files.write("arr.json", &array);
    // Truncated beyond the bytes that inference reads.
    let long = format!("[{}]", [array.trim_matches(['[', ']']); 6].join(","));
    files.write("long.json", &long[..long.len() - 1]);
    files
        .run("CREATE EXTERNAL TABLE arr STORED AS JSON LOCATION '@/arr.json'")
        .await;
    files
        .run(
            "CREATE EXTERNAL TABLE told(a BIGINT) STORED AS JSON LOCATION '@/arr.json' \
         OPTIONS ('format.newline_delimited' 'false')",
        )
        .await;
    for table in ["'@/arr.json'", "arr", "told"] {
        let sql = format!("SELECT count(*), sum(a), count(DISTINCT a) FROM {table}");
        files.check(&sql, "40000|799980000|40000").await;
    }
    files
        .refuse(
            "SELECT sum(a) FROM '@/long.json'",
            &["long.json", "cut off after 240000 elements"],
        )
        .await;
}

#[tokio::test]
async fn json_values_of_several_kinds_are_string() {
    let files = Files::new(&[
        ("h.json", "{\"a\":1}\n{\"a\":\"x\"}\n{\"a\":true}\n"),
        ("nested.json", "{\"a\":1}\n{\"a\":{\"b\":2}}\n"),
        ("mix/a.json", "{\"a\":1}\n"),
        ("mix/b.json", "{\"a\":2.5, \"c\": \"x\"}\n"),
    ]);
    files
        .check("SELECT a FROM '@/h.json' ORDER BY a", "1;true;x")
        .await;
    files
        .run("CREATE EXTERNAL TABLE h(a VARCHAR) STORED AS JSON LOCATION '@/h.json'")
        .await;
    files.check("SELECT a FROM h ORDER BY a", "1;true;x").await;
    files
        .refuse(
            "SELECT a FROM '@/nested.json'",
            &["nested.json", "column a", "no type holds both"],
        )
        .await;
    files
        .check("SELECT sum(a), count(c), count(*) FROM '@/mix/*.json'", "3.5|1|2")
        .await;
    files
        .run("CREATE EXTERNAL TABLE n(a INT) STORED AS JSON LOCATION '@/h.json'")
        .await;
    files
        .refuse("SELECT sum(a) FROM n", &["h.json", "column a", "hint:"])
        .await;
}

#[tokio::test]
async fn errors_of_rows_name_file_line_and_column() {
    let files = Files::new(&[
        ("ragged/a.csv", "a,b\n1,2\n"),
        ("ragged/b.csv", "a,b\n1,2\n\"x\ny\",2\n3,4,5\n"),
    ]);
    let mut text = "id,n\n".to_owned();
    for row in 0..300_000 {
        let value = if row == 250_000 {
            "x".to_owned()
        } else {
            row.to_string()
        };
        writeln!(text, "{row},{value}").expect("text");
    }
    files.write("late.csv", &text);
    let parts = [
        "late.csv",
        "line 250002",
        "column n",
        "'x'",
        "BIGINT",
        "hint: ",
        "CREATE EXTERNAL TABLE",
    ];
    files.refuse("SELECT sum(n) FROM '@/late.csv'", &parts).await;
    files
        .refuse(
            "SELECT sum(b) FROM '@/ragged/*.csv'",
            &["ragged/b.csv", "line 5", "the row has"],
        )
        .await;
    files
        .run("CREATE EXTERNAL TABLE days(d DATE, n INT) STORED AS CSV LOCATION '@/days.csv'")
        .await;
    files.write("days.csv", "d,n\n2021-02-28,1\n2021-02-30,2\n");
    files
        .run("CREATE EXTERNAL TABLE told(d DATE, n INT) STORED AS CSV LOCATION '@/days.csv'")
        .await;
    files
        .refuse(
            "SELECT max(d) FROM told",
            &["days.csv", "line 3", "column d", "2021-02-30", "DATE"],
        )
        .await;
}
