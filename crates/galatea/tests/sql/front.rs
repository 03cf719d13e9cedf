//! SQL between the parser and the planner: FROM without SELECT, the power operator, named windows, and
//! clauses that no planner reads. Answers are fixed, and the same on the CPU and on the emulated device.

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::prelude::SessionContext;

/// A session on the CPU and one on the emulated device.
pub(crate) struct Both([SessionContext; 2]);

impl Both {
    pub(crate) fn new() -> Self {
        Self(["cpu", "emulated"].map(|device| {
            galatea::session()
                .with_emulated_device(galatea::EmulatorOptions::default())
                .with_file_queries(true)
                .with_setting("galatea.device", device)
                .with_setting("galatea.tuning.min_rows", "0")
                .with_setting("datafusion.catalog.information_schema", "true")
                .build()
                .expect("a session")
        }))
    }

    /// Two sessions with a table t of a = 1, 2, 3, 4 and b = 'x', 'y', 'x', 'y'.
    pub(crate) async fn with_table() -> Self {
        let both = Self::new();
        both.run(
            "CREATE TABLE t AS SELECT * FROM (VALUES (1, 'x'), (2, 'y'), (3, 'x'), (4, 'y')) AS v(a, b)",
        )
        .await;
        both
    }

    /// Runs a statement on both, and ignores its result.
    pub(crate) async fn run(&self, sql: &str) {
        for ctx in &self.0 {
            if let Err(error) = rows(ctx, sql).await {
                panic!("{sql}\n{error}");
            }
        }
    }

    /// Checks the rows of a query on both: cells separated by spaces, rows by semicolons.
    pub(crate) async fn answers(&self, sql: &str, expected: &str) {
        for ctx in &self.0 {
            match rows(ctx, sql).await {
                Ok(rows) => assert_eq!(rows.join("; "), expected, "{sql}"),
                Err(error) => panic!("{sql}\n{error}"),
            }
        }
    }

    /// Checks the names of a query's columns on both, separated by spaces.
    pub(crate) async fn columns(&self, sql: &str, expected: &str) {
        for ctx in &self.0 {
            let frame = galatea::sql(ctx, sql).await;
            let frame = frame.unwrap_or_else(|error| panic!("{sql}\n{error}"));
            let names: Vec<&str> = frame
                .schema()
                .fields()
                .iter()
                .map(|field| field.name().as_str())
                .collect();
            assert_eq!(names.join(" "), expected, "{sql}");
        }
    }

    /// The rows of a query on each session.
    pub(crate) async fn each(&self, sql: &str) -> Vec<Vec<String>> {
        let mut answers = Vec::new();
        for ctx in &self.0 {
            let rows = rows(ctx, sql).await;
            answers.push(rows.unwrap_or_else(|error| panic!("{sql}\n{error}")));
        }
        answers
    }

    /// The rows of a query in order, checked to be equal on both.
    pub(crate) async fn rows(&self, sql: &str) -> Vec<String> {
        let mut answers = self.each(sql).await;
        assert_eq!(answers[0], answers[1], "{sql}");
        answers.swap_remove(0)
    }

    /// The rows of a query on the CPU.
    pub(crate) async fn first(&self, sql: &str) -> Vec<String> {
        rows(&self.0[0], sql)
            .await
            .unwrap_or_else(|error| panic!("{sql}\n{error}"))
    }

    /// Checks that a statement is refused on both with an error that contains `message` and no Rust
    /// structures.
    pub(crate) async fn refuses(&self, sql: &str, message: &str) {
        for ctx in &self.0 {
            let refused = rows(ctx, sql).await.err();
            let refused = refused.unwrap_or_else(|| panic!("not refused: {sql}"));
            assert!(refused.contains(message), "{sql}\n{refused}");
            for structure in [" { ", "Ident", "Some(", "OuterReferenceColumn"] {
                assert!(!refused.contains(structure), "{sql}\n{refused}");
            }
        }
    }
}

async fn rows(ctx: &SessionContext, sql: &str) -> Result<Vec<String>, String> {
    let frame = galatea::sql(ctx, sql).await.map_err(|error| error.to_string())?;
    let batches = frame.collect().await.map_err(|error| error.to_string())?;
    Ok(batches.iter().flat_map(cells).collect())
}

fn cells(batch: &RecordBatch) -> Vec<String> {
    let options = FormatOptions::default().with_null("NULL");
    let columns = batch.columns().iter();
    let columns: Vec<_> = columns
        .map(|column| ArrayFormatter::try_new(column.as_ref(), &options).expect("a printable type"))
        .collect();
    let row = |row| {
        let cells: Vec<String> = columns
            .iter()
            .map(|column| column.value(row).to_string())
            .collect();
        cells.join(" ")
    };
    (0..batch.num_rows()).map(row).collect()
}

#[tokio::test]
async fn from_without_select_returns_all_columns() {
    let both = Both::with_table().await;
    for (sql, expected) in [
        ("FROM t ORDER BY a", "1 x; 2 y; 3 x; 4 y"),
        ("FROM t WHERE a > 2 ORDER BY a DESC LIMIT 1", "4 y"),
        (
            "FROM t JOIN t AS u ON t.a + 2 = u.a ORDER BY t.a",
            "1 x 3 x; 2 y 4 y",
        ),
        ("SELECT sum(a) FROM (FROM t WHERE b = 'x')", "4"),
        ("WITH c AS (FROM t WHERE a < 3) FROM c ORDER BY a", "1 x; 2 y"),
        (
            "FROM t WHERE a = 1 UNION ALL FROM t WHERE a = 4 ORDER BY a",
            "1 x; 4 y",
        ),
        (
            "SELECT a FROM t WHERE a IN (FROM (VALUES (2), (9)) AS v(x)) ",
            "2",
        ),
        ("FROM t SELECT max(a)", "4"),
        ("FROM (VALUES (1)) AS v(x)", "1"),
        ("SELECT count(*) FROM t WHERE a IS DISTINCT FROM 1", "3"),
    ] {
        both.answers(sql, expected).await;
    }
    both.run("CREATE TABLE copied AS FROM t WHERE a > 1").await;
    both.answers("FROM copied ORDER BY a", "2 y; 3 x; 4 y").await;
    both.run("INSERT INTO copied FROM t WHERE a = 1").await;
    both.answers("SELECT count(*), sum(a), count(b) FROM copied", "4 10 4")
        .await;
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("t.csv");
    both.run(&format!("COPY (FROM t WHERE a < 3) TO '{}'", file.display()))
        .await;
    let written = std::fs::read_to_string(&file).expect("a file");
    assert_eq!(written, "a,b\n1,x\n2,y\n");
}

#[tokio::test]
async fn power_operator_has_precedence_over_products() {
    let both = Both::with_table().await;
    for (sql, expected) in [
        ("SELECT 2^3", "8.0"),
        ("SELECT 2 * 3 ^ 2", "18.0"),
        ("SELECT 2 ^ 3 * 2", "16.0"),
        ("SELECT 1 + 2 ^ 3 * 2 - 4", "13.0"),
        ("SELECT 2 ^ 3 ^ 2", "64.0"),
        ("SELECT 2 ^ (3 ^ 2)", "512.0"),
        ("SELECT (1 + 1) ^ 3 + 1", "9.0"),
        ("SELECT -2 ^ 2", "4.0"),
        ("SELECT 2 ^ -1", "0.5"),
        ("SELECT 2 ^ 0.5 > 1.414 AND 2 ^ 0.5 < 1.415", "true"),
        ("SELECT 10 - 2 ^ 3 > 1 AND true", "true"),
        ("SELECT sum(a ^ 2) FROM t", "30.0"),
        ("SELECT 10 / 2 ^ 1 % 3", "2.0"),
        (
            "SELECT xor(6, 3) AS x, 6 XOR 3 AS y, xor(a, 1) FROM t WHERE a = 3",
            "5 5 2",
        ),
        ("SELECT NULL ^ 2", "NULL"),
    ] {
        both.answers(sql, expected).await;
    }
}

#[tokio::test]
async fn named_windows_are_resolved_in_every_clause() {
    let both = Both::with_table().await;
    for (sql, expected) in [
        (
            "SELECT a, sum(a) OVER w FROM t WINDOW w AS (PARTITION BY b ORDER BY a) ORDER BY a",
            "1 1; 2 2; 3 4; 4 6",
        ),
        (
            "SELECT a FROM t WINDOW w AS (PARTITION BY b) ORDER BY sum(a) OVER w DESC, a",
            "2; 4; 1; 3",
        ),
        (
            "SELECT a FROM t QUALIFY row_number() OVER w = 1 WINDOW w AS (PARTITION BY b ORDER BY a DESC) ORDER BY a",
            "3; 4",
        ),
        (
            "SELECT a, row_number() OVER (w ORDER BY a DESC) FROM t WINDOW w AS (PARTITION BY b) ORDER BY a",
            "1 2; 2 2; 3 1; 4 1",
        ),
        (
            "SELECT a, sum(a) OVER v FROM t WINDOW w AS (PARTITION BY b), v AS (w ORDER BY a) ORDER BY a",
            "1 1; 2 2; 3 4; 4 6",
        ),
    ] {
        both.answers(sql, expected).await;
    }
    both.refuses("SELECT sum(a) OVER nothing FROM t", "no such window: nothing")
        .await;
    both.refuses(
        "SELECT a FROM t ORDER BY sum(a) OVER nothing",
        "no such window: nothing",
    )
    .await;
    both.refuses(
        "SELECT sum(a) OVER (w PARTITION BY a) FROM t WINDOW w AS (PARTITION BY b)",
        "cannot have PARTITION BY",
    )
    .await;
}

#[tokio::test]
async fn clauses_of_other_dialects_are_supported() {
    let both = Both::with_table().await;
    for (sql, expected) in [
        ("SELECT a FROM t ORDER BY a FETCH FIRST 2 ROWS ONLY", "1; 2"),
        (
            "SELECT a FROM t ORDER BY a OFFSET 1 ROWS FETCH NEXT ROW ONLY",
            "2",
        ),
        (
            "SELECT b, sum(a) FROM t GROUP BY b WITH ROLLUP ORDER BY b NULLS LAST",
            "x 4; y 6; NULL 10",
        ),
        (
            "SELECT a FROM t SEMI JOIN (VALUES (2), (3)) AS v(x) ON t.a = v.x ORDER BY a",
            "2; 3",
        ),
        (
            "SELECT a FROM t ANTI JOIN (VALUES (2), (3)) AS v(x) ON t.a = v.x ORDER BY a",
            "1; 4",
        ),
    ] {
        both.answers(sql, expected).await;
    }
}

/// Statements, and a part of the error of each.
const REFUSED: &[(&str, &str)] = &[
    (
        "SELECT a FROM t POSITIONAL JOIN t AS u",
        "POSITIONAL JOIN is not supported",
    ),
    ("SELECT count(*) FROM t JOIN t AS u", "JOIN without ON or USING"),
    (
        "SELECT count(*) FROM t LEFT JOIN t AS u",
        "JOIN without ON or USING",
    ),
    (
        "SELECT a FROM t ORDER BY a FETCH FIRST 1 ROW WITH TIES",
        "FETCH WITH TIES",
    ),
    (
        "SELECT a FROM t ORDER BY a FETCH FIRST 10 PERCENT ROWS ONLY",
        "PERCENT",
    ),
    ("SELECT a FROM t FOR UPDATE", "FOR UPDATE"),
    ("SELECT a FROM t FOR SHARE", "FOR SHARE"),
    ("SELECT TOP 1 a FROM t", "TOP is not supported"),
    ("SELECT a FROM t SORT BY a", "SORT BY"),
    ("SELECT a FROM t CLUSTER BY a", "CLUSTER BY"),
    ("SELECT a FROM t LATERAL VIEW explode(b) x AS y", "LATERAL VIEW"),
    ("SELECT a FROM t GROUP BY a WITH TOTALS", "WITH TOTALS"),
    (
        "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 9 LIMIT 3) SELECT * FROM r",
        "LIMIT",
    ),
    ("SELECT * FROM t WITH (NOLOCK)", "a table hint"),
    (
        "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY a MEASURES a AS m PATTERN (x) DEFINE x AS a > 1)",
        "MATCH_RECOGNIZE is not supported",
    ),
    ("SELECT * FROM unnest([1, 2]) WITH ORDINALITY", "WITH ORDINALITY"),
    (
        "SELECT * FROM t ASOF JOIN t AS u MATCH_CONDITION (t.a >= u.a) ON t.b = u.b",
        "ASOF JOIN",
    ),
    ("SELECT * FROM t CROSS APPLY (SELECT 1 AS x) AS u", "CROSS APPLY"),
    (
        "SELECT upper(b) OVER () FROM t",
        "OVER with the scalar function upper",
    ),
    (
        "SELECT abs(a) FILTER (WHERE a > 1) FROM t",
        "FILTER with the scalar function abs",
    ),
    (
        "SELECT abs(DISTINCT a) FROM t",
        "DISTINCT with the scalar function abs",
    ),
    ("SELECT abs(a) IGNORE NULLS FROM t", "IGNORE NULLS"),
    (
        "SELECT abs(a ORDER BY a) FROM t",
        "ORDER BY in the arguments with the scalar function abs",
    ),
    (
        "SELECT row_number() FILTER (WHERE a > 1) OVER (ORDER BY a) FROM t",
        "FILTER with row_number",
    ),
    (
        "SELECT sum(a) IGNORE NULLS OVER (ORDER BY a) FROM t",
        "IGNORE NULLS or RESPECT NULLS with sum",
    ),
    (
        "SELECT rank() IGNORE NULLS OVER (ORDER BY a) FROM t",
        "IGNORE NULLS or RESPECT NULLS with rank",
    ),
    ("SELECT b COLLATE \"C\" FROM t", "COLLATE"),
    ("SELECT a FROM t WHERE a IN UNNEST([1])", "IN UNNEST"),
    ("SELECT now() AT TIME ZONE b FROM t", "AT TIME ZONE"),
    ("SELECT N'text'", "a literal of this form"),
    ("SELECT a INTO TEMPORARY made FROM t", "SELECT INTO TEMPORARY"),
    (
        "SELECT * FROM (SELECT a INTO made FROM t)",
        "SELECT INTO within a query",
    ),
    (
        "CREATE TABLE made (x INT GENERATED ALWAYS AS (1 + 1))",
        "GENERATED of a column",
    ),
    ("CREATE TABLE made (x INT COMMENT 'text')", "COMMENT of a column"),
    ("DROP DATABASE t CASCADE", "CASCADE of DROP"),
    (
        "DELETE FROM t JOIN t AS u ON t.a = u.a",
        "DELETE from anything but one table",
    ),
    ("SET NAMES utf8", "SET NAMES"),
    (
        "SET datafusion.execution.batch_size = 1 + 1",
        "SET to the expression 1 + 1",
    ),
];

#[tokio::test]
async fn unsupported_clauses_are_named() {
    let both = Both::with_table().await;
    for (sql, message) in REFUSED {
        both.refuses(sql, message).await;
    }
    both.answers("SELECT count(*) FROM t", "4").await;
}

/// The name of a file states its format. The files are read by name, too, which detects the format alone.
#[tokio::test]
async fn copy_writes_the_format_of_the_extension() {
    let folder = tempfile::tempdir().expect("a folder");
    let both = Both::with_table().await;
    let begins = |name: &str, bytes: &[u8]| {
        let file = std::fs::read(folder.path().join(name)).expect("a file");
        assert!(
            file.starts_with(bytes),
            "{name}: {:?}",
            &file[..file.len().min(16)]
        );
    };
    for (name, bytes) in [
        ("t.csv", &b"a,b\n1,x\n"[..]),
        ("t.tsv", b"a\tb\n1\tx\n"),
        ("t.TSV", b"a\tb\n1\tx\n"),
        ("t.json", b"{\"a\":1,"),
        ("t.ndjson", b"{\"a\":1,"),
        ("t.jsonl", b"{\"a\":1,"),
        ("t.csv.gz", b"\x1f\x8b"),
        ("t.tsv.bz2", b"BZh"),
        ("t.json.zst", b"\x28\xb5\x2f\xfd"),
        ("t.ndjson.xz", b"\xfd7zXZ"),
        ("t.parquet", b"PAR1"),
        ("t.arrow", b"ARROW1"),
    ] {
        let path = folder.path().join(name);
        both.run(&format!(
            "COPY (SELECT * FROM t ORDER BY a) TO '{}'",
            path.display()
        ))
        .await;
        begins(name, bytes);
        let sql = format!("SELECT a, b FROM '{}' ORDER BY a", path.display());
        both.answers(&sql, "1 x; 2 y; 3 x; 4 y").await;
    }
    let path = folder.path().join("u");
    for (target, bytes) in [
        ("u.data' STORED AS TSV", &b"a\tb\n"[..]),
        ("u.tsv' STORED AS CSV", b"a,b\n"),
        ("u.tsv' OPTIONS ('format.delimiter' ';')", b"a;b\n"),
        (
            "u.csv.gz' OPTIONS ('format.compression' 'uncompressed')",
            b"a,b\n",
        ),
    ] {
        let name = target.split('\'').next().expect("a name");
        let folder = folder.path().display();
        both.run(&format!("COPY t TO '{folder}/{target}")).await;
        begins(name, bytes);
    }
    for (target, problem) in [
        (".xls'", "COPY cannot write the format xls"),
        (".avro'", "COPY cannot write the format avro"),
        (".gz'", "has no extension"),
        ("' STORED AS xls", "COPY cannot write the format xls"),
        ("'", "has no extension"),
        (".parquet.gz'", "compressed files of the format parquet"),
    ] {
        let sql = format!("COPY t TO '{}{target}", path.display());
        for ctx in &both.0 {
            let refusal = rows(ctx, &sql).await.expect_err(&sql);
            assert!(refusal.contains(problem), "{sql}\n{refusal}");
            let hint =
                "hint: formats are csv, tsv, json, ndjson, jsonl, parquet, arrow; csv, tsv and json also";
            let names = refusal.contains(hint) || !refusal.contains("COPY cannot write the format");
            assert!(names, "{sql}\n{refusal}");
        }
    }
}

/// Errors that name parts of the statement.
#[tokio::test]
async fn subqueries_are_correlated_by_any_condition() {
    let both = Both::with_table().await;
    for (sql, expected) in [
        (
            "SELECT a, (SELECT count(*) FROM t AS u WHERE u.a <= t.a) FROM t ORDER BY a",
            "1 1; 2 2; 3 3; 4 4",
        ),
        (
            "SELECT a, (SELECT count(*) FROM t AS u ASOF JOIN t AS v ON u.a >= v.a WHERE u.a <= t.a) FROM t ORDER BY a",
            "1 1; 2 2; 3 3; 4 4",
        ),
        (
            "SELECT a FROM t WHERE EXISTS (SELECT 1 FROM t AS u WHERE EXISTS (SELECT 1 FROM t AS v WHERE v.a = t.a + u.a)) ORDER BY a",
            "1; 2; 3",
        ),
        (
            "SELECT a, (SELECT u.a FROM t AS u WHERE u.a > t.a ORDER BY u.a LIMIT 1) FROM t WHERE a < 4 ORDER BY a",
            "1 2; 2 3; 3 4",
        ),
        (
            "SELECT a FROM t WHERE a > (SELECT 1 FROM t AS u WHERE u.a = t.a LIMIT 1) OR EXISTS (SELECT 1 FROM t AS v WHERE v.a > t.a OFFSET 1) ORDER BY a",
            "1; 2; 3; 4",
        ),
    ] {
        both.answers(sql, expected).await;
    }
    both.refuses(
        "SELECT a, (SELECT u.a FROM t AS u WHERE u.a > t.a) FROM t",
        "rows for a row of the query around it",
    )
    .await;
    both.refuses(
        "SELECT r, (SELECT count(*) FROM t AS u WHERE u.a < q.r) FROM (SELECT random() AS r FROM t) q",
        "an aggregate over the rows that",
    )
    .await;
    both.answers(
        "SELECT t.a AS a, u.a AS a FROM t, t AS u WHERE t.a + u.a = 2",
        "1 1",
    )
    .await;
}
