//! Parts that fronts share: sessions over the tables of another one, placeholders, kinds of errors.

use std::collections::HashMap;

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use arrow::error::ArrowError;
use datafusion::config::Dialect;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::LogicalPlan;
use datafusion::prelude::SessionContext;
use datafusion::scalar::ScalarValue;
use galatea::{ErrorKind, PlaceholderError, Placeholders, inserted_placeholders};

fn session() -> SessionContext {
    let session = galatea::session().with_setting("galatea.device", "cpu");
    session.build().expect("a session")
}

async fn run(ctx: &SessionContext, sql: &str) -> Result<(), DataFusionError> {
    galatea::sql(ctx, sql).await?.collect().await.map(drop)
}

async fn number(ctx: &SessionContext, sql: &str) -> i64 {
    let batches = galatea::sql(ctx, sql)
        .await
        .expect(sql)
        .collect()
        .await
        .expect(sql);
    batches[0].column(0).as_primitive::<Int64Type>().value(0)
}

#[tokio::test]
async fn further_session_shares_tables_and_macros_only() {
    let first = session();
    run(&first, "CREATE TABLE t AS SELECT 40 AS a")
        .await
        .expect("a table");
    run(&first, "CREATE MACRO more(x) AS x + 1")
        .await
        .expect("a macro");
    run(&first, "SET datafusion.execution.batch_size = 100")
        .await
        .expect("a setting");
    let second = galatea::session()
        .with_tables_of(&first)
        .with_file_queries(true)
        .build()
        .expect("a session");
    assert_eq!(number(&second, "SELECT more(a) + 1 FROM t").await, 42);
    assert_eq!(second.copied_config().batch_size(), 8192);
    run(&second, "INSERT INTO t VALUES (2)").await.expect("a row");
    run(&second, "CREATE SCHEMA s").await.expect("a schema");
    run(&second, "CREATE TABLE s.u AS SELECT 7 AS b")
        .await
        .expect("a table");
    assert_eq!(number(&first, "SELECT sum(a) FROM t").await, 42);
    assert_eq!(number(&first, "SELECT b FROM s.u").await, 7);
    // A session over the tables of the second one.
    let third = galatea::session()
        .with_tables_of(&second)
        .build()
        .expect("a session");
    assert_eq!(number(&third, "SELECT count(*) FROM t").await, 2);
    let refused = galatea::session()
        .with_tables_of(&first)
        .with_setting("galatea.memory.store_limit", "1 GiB")
        .build()
        .map(drop)
        .expect_err("a setting of the engine");
    assert!(refused.to_string().contains("with_tables_of"), "{refused}");
}

#[tokio::test]
async fn further_session_changes_the_database() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("my.db");
    let first = galatea::open(&path).expect("a database");
    let second = galatea::session()
        .with_tables_of(&first)
        .build()
        .expect("a session");
    run(&second, "CREATE TABLE t AS SELECT 1 AS a")
        .await
        .expect("a table");
    run(&second, "INSERT INTO t VALUES (41)").await.expect("a row");
    run(&second, "CREATE VIEW v AS SELECT sum(a) AS s FROM t")
        .await
        .expect("a view");
    assert_eq!(number(&first, "SELECT s FROM v").await, 42);
    drop((first, second));
    let again = galatea::open(&path).expect("a database");
    assert_eq!(number(&again, "SELECT s FROM v").await, 42);
}

#[test]
fn placeholders_are_numbered() {
    let text = "SELECT $b, '$c', $a, $b -- $d";
    let placeholders = Placeholders::of(text, Dialect::Generic);
    assert!(placeholders.is_named() && !placeholders.is_empty());
    assert_eq!(placeholders.names(), ["b", "a"]);
    assert_eq!(placeholders.positional(text), "SELECT $1, '$c', $2, $1 -- $d");
    let values = HashMap::from([
        ("a".to_string(), ScalarValue::from(1_i64)),
        ("b".to_string(), ScalarValue::Int64(None)),
    ]);
    placeholders.check_names(&values).expect("they fit");
    let bound = placeholders.numbered(text, &values);
    assert_eq!(bound.text, "SELECT $1, '$c', $2, $1 -- $d");
    // A NULL with a type is a value, one without is a part of the text.
    assert_eq!(bound.values, [ScalarValue::Int64(None), ScalarValue::from(1_i64)]);
    let values = HashMap::from([("b".to_string(), ScalarValue::Null)]);
    assert_eq!(
        placeholders.check_names(&values),
        Err(PlaceholderError::Missing { name: "a".to_owned() })
    );
    assert_eq!(
        placeholders.numbered(text, &values).text,
        "SELECT NULL, '$c', NULL, NULL -- $d"
    );
    let mixed = Placeholders::of("SELECT ?, $1", Dialect::Generic);
    assert_eq!(mixed.count(), Err(PlaceholderError::Mixed));
}

/// The plan of a statement with placeholders.
async fn planned(ctx: &SessionContext, sql: &str) -> LogicalPlan {
    let state = ctx.state();
    let statement = galatea::statement(sql, &state).await.expect(sql);
    state.statement_to_plan(statement).await.expect(sql)
}

#[tokio::test]
async fn inserts_of_placeholders_alone_are_found() {
    let ctx = session();
    run(&ctx, "CREATE TABLE t (a INTEGER, b VARCHAR)")
        .await
        .expect("a table");
    let found = async |sql: &str| inserted_placeholders(&planned(&ctx, sql).await);
    let names = |names: [&str; 2]| Some(names.map(str::to_owned).to_vec());
    assert_eq!(found("INSERT INTO t VALUES ($1, $2)").await, names(["1", "2"]));
    assert_eq!(
        found("INSERT INTO t (b, a) VALUES ($2, $1)").await,
        names(["2", "1"])
    );
    for other in [
        "INSERT INTO t VALUES ($1, $2), ($3, $4)",
        "INSERT INTO t VALUES ($1, 'x')",
        "INSERT INTO t VALUES ($1 + 1, $2)",
        "INSERT INTO t SELECT $1, $2",
        "INSERT INTO t SELECT * FROM (VALUES (1, 'x')) AS u WHERE $1 = 1",
        "SELECT * FROM t WHERE a = $1",
    ] {
        assert_eq!(found(other).await, None, "{other}");
    }
}

#[tokio::test]
async fn values_have_the_types_of_their_columns() {
    let ctx = session();
    run(&ctx, "CREATE TABLE t (a SMALLINT)").await.expect("a table");
    let insert = async |value: i64| {
        let text = "INSERT INTO t VALUES (?)";
        let values = HashMap::from([("1".to_string(), ScalarValue::from(value))]);
        let bound = Placeholders::of(text, Dialect::Generic).numbered(text, &values);
        let plan = bound.plan(&ctx.state()).await?;
        galatea::execute(&ctx, plan).await?.collect().await
    };
    insert(7).await.expect("it fits");
    let error = insert(70_000).await.expect_err("too large").to_string();
    assert!(error.contains("70000"), "{error}");
    assert_eq!(number(&ctx, "SELECT CAST(a AS BIGINT) FROM t").await, 7);
}

#[tokio::test]
async fn kinds_follow_the_innermost_cause() {
    let ctx = session();
    run(&ctx, "CREATE TABLE t AS SELECT 1 AS a")
        .await
        .expect("a table");
    for (sql, kind, sqlstate) in [
        ("SELEC", ErrorKind::Syntax, "42601"),
        ("SELECT * FROM absent", ErrorKind::UnknownTable, "42P01"),
        ("DROP TABLE absent", ErrorKind::UnknownTable, "42P01"),
        ("DROP VIEW absent", ErrorKind::UnknownTable, "42P01"),
        ("SELECT b FROM t", ErrorKind::UnknownColumn, "42703"),
        (
            "CREATE TABLE t AS SELECT 1 AS a",
            ErrorKind::DuplicateTable,
            "42P07",
        ),
        ("SELECT 1 / (a - 1) FROM t", ErrorKind::DivisionByZero, "22012"),
        (
            "SELECT 9223372036854775807 + a FROM t",
            ErrorKind::OutOfRange,
            "22003",
        ),
        ("SELECT CAST('x' || a AS INT) FROM t", ErrorKind::Data, "22000"),
        ("SET galatea.device = 'abacus'", ErrorKind::Invalid, "22023"),
    ] {
        let error = run(&ctx, sql).await.expect_err(sql);
        assert_eq!(ErrorKind::of(&error), kind, "{sql}: {error}");
        assert_eq!(kind.sqlstate(), sqlstate);
    }
    let io = DataFusionError::from(std::io::Error::other("broken")).context("reading");
    assert_eq!(ErrorKind::of(&io), ErrorKind::Io);
    let arrow = DataFusionError::from(ArrowError::DivideByZero);
    assert_eq!(ErrorKind::of(&arrow), ErrorKind::DivisionByZero);
    let message = DataFusionError::Execution("the file already exists".to_owned());
    assert_eq!(ErrorKind::of(&message), ErrorKind::Data);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("my.db");
    let _open = galatea::open(&path).expect("a database");
    let locked = galatea::open(&path).map(drop).expect_err("it is open");
    assert_eq!(ErrorKind::of(&locked), ErrorKind::InUse);
    assert_eq!(ErrorKind::InUse.sqlstate(), "55006");
}
