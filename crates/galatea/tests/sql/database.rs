//! Databases: tables, views, macros and settings that last, and states after failures.

use datafusion::prelude::SessionContext;
use std::fs;
use std::path::Path;

/// A session with the database of a folder, on the emulated device or on the CPU.
pub(crate) fn open(folder: &Path, device: &str) -> SessionContext {
    galatea::session()
        .with_emulated_device(galatea::EmulatorOptions::default())
        .with_database(folder)
        .with_file_queries(true)
        .with_setting("galatea.device", device)
        .with_setting("galatea.tuning.min_rows", "0")
        .with_setting("datafusion.catalog.information_schema", "true")
        .build()
        .expect("a database")
}

/// Rows of a query: values separated by spaces, rows by semicolons.
pub(crate) async fn rows(ctx: &SessionContext, sql: &str) -> Result<String, String> {
    let frame = galatea::sql(ctx, sql).await.map_err(|error| error.to_string())?;
    let batches = frame.collect().await.map_err(|error| error.to_string())?;
    let options = arrow::util::display::FormatOptions::default().with_null("NULL");
    let mut found = Vec::new();
    for batch in &batches {
        for row in 0..batch.num_rows() {
            let cells = batch.columns().iter().map(|column| {
                let format = arrow::util::display::ArrayFormatter::try_new(column.as_ref(), &options);
                format.expect("a printable type").value(row).to_string()
            });
            found.push(cells.collect::<Vec<_>>().join(" "));
        }
    }
    Ok(found.join("; "))
}

pub(crate) async fn run(ctx: &SessionContext, statements: &[&str]) {
    for sql in statements {
        if let Err(error) = rows(ctx, sql).await {
            panic!("{sql}\n{error}");
        }
    }
}

#[tokio::test]
async fn tables_views_macros_and_settings_last() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("my.db");
    let ctx = open(&path, "cpu");
    run(
        &ctx,
        &[
            "CREATE TABLE t AS SELECT nullif(a, 0) AS a, b FROM (VALUES (1, 'x'), (2, NULL)) AS v(a, b)",
            "INSERT INTO t VALUES (3, 'z')",
            "INSERT INTO t (b) SELECT b || b FROM t WHERE a = 3",
            "CREATE TABLE empty (a INT NOT NULL, \"Big Name\" DECIMAL(10, 2) DEFAULT 1.50, c TIMESTAMP)",
            "CREATE VIEW v AS SELECT a, count(*) AS n FROM t GROUP BY a",
            "CREATE VIEW w AS SELECT sum(n) AS s FROM v",
            "CREATE SCHEMA other",
            "CREATE TABLE other.t AS SELECT 7 AS seven",
            "CREATE MACRO twice(x) AS x * 2",
            "SET galatea.overflow = 'wrap'",
            "CREATE TABLE gone AS SELECT 1 AS a",
            "DROP TABLE gone",
            "CREATE OR REPLACE TABLE replaced AS SELECT 1 AS a",
            "CREATE OR REPLACE TABLE replaced AS SELECT 'new' AS b",
        ],
    )
    .await;
    drop(ctx);
    for device in ["cpu", "emulated"] {
        let ctx = open(&path, device);
        for (sql, expected) in [
            (
                "SELECT a, b FROM t ORDER BY a NULLS LAST",
                "1 x; 2 NULL; 3 z; NULL zz",
            ),
            (
                "SELECT b, count(*) FROM t GROUP BY b ORDER BY b NULLS LAST",
                "x 1; z 1; zz 1; NULL 1",
            ),
            ("SELECT * FROM empty", ""),
            ("SELECT s FROM w", "4"),
            ("SELECT seven FROM other.t", "7"),
            ("SELECT twice(21)", "42"),
            ("SHOW galatea.overflow", "galatea.overflow wrap"),
            ("SELECT * FROM replaced", "new"),
            ("SELECT count(*) FROM t AS one JOIN t AS two USING (a)", "3"),
        ] {
            assert_eq!(rows(&ctx, sql).await.as_deref(), Ok(expected), "{device}: {sql}");
        }
        assert!(rows(&ctx, "SELECT * FROM gone").await.is_err());
        let listed = "SELECT table_schema, table_name, table_type FROM information_schema.tables \
                      WHERE table_schema <> 'information_schema' ORDER BY 1, 2";
        assert_eq!(
            rows(&ctx, listed).await.as_deref(),
            Ok(
                "other t BASE TABLE; public empty BASE TABLE; public replaced BASE TABLE; public t BASE TABLE; \
                public v VIEW; public w VIEW"
            )
        );
        drop(ctx);
    }
    let ctx = open(&path, "cpu");
    run(
        &ctx,
        &[
            "INSERT INTO empty (a) VALUES (5)",
            "DROP MACRO twice",
            "RESET galatea.overflow",
            "DROP VIEW w",
            "DROP SCHEMA other CASCADE",
        ],
    )
    .await;
    assert_eq!(
        rows(&ctx, "SELECT * FROM empty").await.as_deref(),
        Ok("5 1.50 NULL")
    );
    drop(ctx);
    let ctx = open(&path, "cpu");
    for sql in [
        "SELECT twice(1)",
        "SELECT * FROM w",
        "SELECT * FROM other.t",
        "INSERT INTO empty (a) VALUES (NULL)",
    ] {
        assert!(rows(&ctx, sql).await.is_err(), "{sql}");
    }
    assert_eq!(
        rows(&ctx, "SHOW galatea.overflow").await.as_deref(),
        Ok("galatea.overflow error")
    );
    assert_eq!(
        rows(&ctx, "SELECT a, \"Big Name\" FROM empty").await.as_deref(),
        Ok("5 1.50")
    );
}

/// A view shows the rows of its tables at the time of its use, in the session that created it, too.
#[tokio::test]
async fn views_show_current_rows() {
    let folder = tempfile::tempdir().expect("a folder");
    let ctx = open(folder.path(), "cpu");
    run(
        &ctx,
        &[
            "CREATE TABLE t AS SELECT 1 AS a",
            "CREATE VIEW v AS SELECT sum(a) AS s FROM t",
        ],
    )
    .await;
    assert_eq!(rows(&ctx, "SELECT s FROM v").await.as_deref(), Ok("1"));
    run(&ctx, &["INSERT INTO t VALUES (10)"]).await;
    assert_eq!(rows(&ctx, "SELECT s FROM v").await.as_deref(), Ok("11"));
    assert_eq!(rows(&ctx, "SELECT sum(a) FROM t").await.as_deref(), Ok("11"));
    run(&ctx, &["CREATE OR REPLACE TABLE t AS SELECT 5 AS a"]).await;
    assert_eq!(rows(&ctx, "SELECT s FROM v").await.as_deref(), Ok("5"));
    // A view that would contain itself.
    run(&ctx, &["CREATE OR REPLACE VIEW v AS SELECT * FROM v"]).await;
    let error = rows(&ctx, "SELECT * FROM v").await.expect_err("nested in itself");
    assert!(error.contains("is nested in itself"), "{error}");
    run(&ctx, &["DROP VIEW v"]).await;
}

/// A view that does not fit its tables any more is listed, and names itself when it is read.
#[tokio::test]
async fn invalid_views_are_listed_and_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let in_memory = galatea::session()
        .with_setting("galatea.device", "cpu")
        .with_setting("datafusion.catalog.information_schema", "true")
        .build()
        .expect("a session");
    for ctx in [open(folder.path(), "cpu"), in_memory] {
        run(
            &ctx,
            &[
                "CREATE TABLE t AS SELECT 1 AS a",
                "CREATE VIEW w AS SELECT a FROM t",
                "SELECT * FROM w",
                "CREATE OR REPLACE TABLE t AS SELECT 2 AS z",
            ],
        )
        .await;
        let tables =
            "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' ORDER BY 1";
        assert_eq!(rows(&ctx, tables).await.as_deref(), Ok("t; w"));
        let columns = "SELECT column_name FROM information_schema.columns WHERE table_name IN ('t', 'w') ORDER BY table_name";
        assert_eq!(rows(&ctx, columns).await.as_deref(), Ok("z; a"));
        let error = rows(&ctx, "SELECT a FROM w").await.expect_err("an invalid view");
        assert!(
            error.contains("the view w does not fit its tables any more"),
            "{error}"
        );
        assert!(error.contains("DROP VIEW w"), "{error}");
        run(&ctx, &["CREATE OR REPLACE TABLE t AS SELECT 3 AS a"]).await;
        assert_eq!(rows(&ctx, "SELECT a FROM w").await.as_deref(), Ok("3"));
        run(
            &ctx,
            &["CREATE OR REPLACE TABLE t AS SELECT 2 AS z", "DROP VIEW w"],
        )
        .await;
        assert_eq!(rows(&ctx, tables).await.as_deref(), Ok("t"));
    }
}

#[tokio::test]
async fn failed_statements_change_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("my.db");
    let ctx = open(&path, "cpu");
    run(
        &ctx,
        &[
            "CREATE TABLE t AS SELECT 1 AS a",
            "CREATE TABLE n (a INT NOT NULL)",
        ],
    )
    .await;
    for sql in [
        "CREATE TABLE t AS SELECT 2 AS a",
        "CREATE OR REPLACE TABLE t AS SELECT 10 / (value - 2) AS a FROM generate_series(1, 3)",
        "INSERT INTO t SELECT 10 / (value - 2) FROM generate_series(1, 3)",
        "INSERT INTO t SELECT 1, 2",
        "INSERT INTO n VALUES (1), (NULL)",
        "CREATE TABLE u AS SELECT 10 / (value - 2) AS a FROM generate_series(1, 3)",
        "DROP TABLE none",
        "DROP SCHEMA public",
        "CREATE VIEW w AS SELECT nothing FROM t",
    ] {
        assert!(rows(&ctx, sql).await.is_err(), "{sql}");
        assert_eq!(rows(&ctx, "SELECT * FROM t").await.as_deref(), Ok("1"), "{sql}");
        assert_eq!(
            rows(&ctx, "SELECT count(*) FROM n").await.as_deref(),
            Ok("0"),
            "{sql}"
        );
    }
    for (sql, message) in [
        (
            "INSERT INTO n SELECT nullif(1, 1)",
            "INSERT: a row has NULL in the column 'a', which is NOT NULL in the table n",
        ),
        ("DROP SCHEMA public", "the schema public has tables: n, t"),
    ] {
        let error = rows(&ctx, sql).await.expect_err(sql);
        assert!(error.contains(message), "{sql}\n{error}");
    }
    drop(ctx);
    let ctx = open(&path, "cpu");
    assert_eq!(rows(&ctx, "SELECT * FROM t").await.as_deref(), Ok("1"));
    assert!(rows(&ctx, "SELECT * FROM u").await.is_err());
}

/// Single rows do not become files for ever, and no file remains that the catalog does not name.
#[tokio::test]
async fn small_files_are_merged_and_unnamed_ones_removed() {
    let folder = tempfile::tempdir().expect("a folder");
    let ctx = open(folder.path(), "cpu");
    run(&ctx, &["CREATE TABLE t (a BIGINT)"]).await;
    for value in 0..100 {
        run(&ctx, &[&format!("INSERT INTO t VALUES ({value})")]).await;
    }
    assert_eq!(
        rows(&ctx, "SELECT count(*), sum(a) FROM t").await.as_deref(),
        Ok("100 4950")
    );
    drop(ctx);
    let data = folder.path().join("data");
    let count = || fs::read_dir(&data).expect("a folder").count();
    assert!((1..=33).contains(&count()), "{} files", count());
    fs::write(data.join("000000000999.parquet"), "torn").expect("written");
    let before = count();
    let ctx = open(folder.path(), "cpu");
    assert_eq!(count(), before - 1);
    run(&ctx, &["INSERT OVERWRITE t SELECT 7"]).await;
    assert_eq!(
        rows(&ctx, "SELECT count(*), sum(a) FROM t").await.as_deref(),
        Ok("1 7")
    );
    drop(ctx);
    assert_eq!(count(), 1);
}

#[tokio::test]
async fn prepared_inserts_and_explain_use_the_database() {
    let folder = tempfile::tempdir().expect("a folder");
    let ctx = open(folder.path(), "cpu");
    run(
        &ctx,
        &[
            "CREATE TABLE t (a BIGINT, b VARCHAR)",
            "PREPARE add(BIGINT, VARCHAR) AS INSERT INTO t VALUES ($1, $2)",
        ],
    )
    .await;
    for sql in ["EXECUTE add(1, 'x')", "EXECUTE add(2, NULL)"] {
        assert_eq!(rows(&ctx, sql).await.as_deref(), Ok("1"), "{sql}");
    }
    let plan = rows(&ctx, "EXPLAIN INSERT INTO t VALUES (3, 'y')")
        .await
        .expect("a plan");
    assert!(plan.contains("DatabaseTable(public.t)"), "{plan}");
    assert_eq!(
        rows(&ctx, "SELECT * FROM t ORDER BY a").await.as_deref(),
        Ok("1 x; 2 NULL")
    );
    // A cached plan is not used for the rows before.
    for expected in ["2", "3", "4"] {
        assert_eq!(
            rows(&ctx, "SELECT count(*) FROM t").await.as_deref(),
            Ok(expected)
        );
        run(&ctx, &["INSERT INTO t SELECT 9, 'z'"]).await;
    }
}

#[tokio::test]
async fn external_tables_last_and_programs_register_none() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a.csv");
    fs::write(&file, "x\n1\n2\n").expect("written");
    let path = folder.path().join("my.db");
    let ctx = open(&path, "cpu");
    let create = format!(
        "CREATE EXTERNAL TABLE e STORED AS CSV LOCATION '{}' OPTIONS ('format.has_header' 'true')",
        file.display()
    );
    run(&ctx, &[&create, "CREATE VIEW v AS SELECT sum(x) AS s FROM e"]).await;
    let view = ctx.sql("SELECT 1 AS a").await.expect("a query").into_view();
    let error = ctx.register_table("p", view).expect_err("no statement");
    assert!(
        error.to_string().contains("without a statement of SQL"),
        "{error}"
    );
    drop(ctx);
    let ctx = open(&path, "cpu");
    assert_eq!(rows(&ctx, "SELECT s FROM v").await.as_deref(), Ok("3"));
    fs::remove_file(&file).expect("removed");
    assert!(rows(&ctx, "SELECT s FROM v").await.is_err());
    run(&ctx, &["DROP VIEW v", "DROP TABLE e"]).await;
}

#[tokio::test]
async fn wrong_folders_are_refused_with_their_problem() {
    let folder = tempfile::tempdir().expect("a folder");
    let refused = |path: &Path| match galatea::open(path) {
        Ok(_) => panic!("not refused: {}", path.display()),
        Err(error) => error.to_string(),
    };
    let file = folder.path().join("file.db");
    fs::write(&file, "SQLite format 3").expect("written");
    assert!(refused(&file).contains("is not a database of Galatea: it is a file"));
    let other = folder.path().join("other.db");
    fs::create_dir(&other).expect("a folder");
    fs::write(other.join("notes.txt"), "mine").expect("written");
    assert!(refused(&other).contains("the folder has other files and no catalog"));
    let path = folder.path().join("my.db");
    let ctx = galatea::open(&path).expect("a database");
    let locked = refused(&path);
    assert!(locked.contains("is open in another process: process"), "{locked}");
    run(&ctx, &["CREATE TABLE t AS SELECT 1 AS a"]).await;
    drop(ctx);
    let data = fs::read_dir(path.join("data"))
        .expect("a folder")
        .next()
        .expect("a file")
        .expect("a file")
        .path();
    let whole = fs::read(&data).expect("a file");
    for (bytes, problem) in [
        (whole[..whole.len() - 1].to_vec(), "the catalog expects"),
        (vec![b'x'; whole.len()], "it is not a Parquet file"),
    ] {
        fs::write(&data, bytes).expect("written");
        let error = refused(&path);
        assert!(
            error.contains("of the table public.t is damaged") && error.contains(problem),
            "{error}"
        );
    }
    fs::remove_file(&data).expect("removed");
    assert!(refused(&path).contains("of the table public.t is damaged"));
    fs::write(&data, &whole).expect("written");
    let catalog = fs::read(path.join("catalog")).expect("a catalog");
    fs::write(path.join("catalog"), &catalog[..catalog.len() - 2]).expect("cut");
    assert!(refused(&path).contains("its checksum does not match"));
    // A next version that was not published has no effect.
    fs::write(path.join("catalog"), &catalog).expect("restored");
    fs::write(path.join("catalog.next"), &catalog[..20]).expect("torn");
    let ctx = galatea::open(&path).expect("a database");
    assert_eq!(rows(&ctx, "SELECT a FROM t").await.as_deref(), Ok("1"));
}
