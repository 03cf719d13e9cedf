//! Queries, updates and other statements.

use adbc_core::error::Status;
use adbc_core::{Connection, Statement};
use arrow::array::{RecordBatch, RecordBatchReader};
use arrow::datatypes::DataType;

use crate::support::{collect, connection, rows, statement, update};

#[test]
fn query_returns_its_rows() {
    let mut connection = connection();
    let found = rows(
        &mut connection,
        r#"SELECT v AS "a b", v * v AS a FROM (VALUES (1), (NULL), (3)) AS t(v) ORDER BY v NULLS FIRST"#,
    );
    assert_eq!(found, ["|", "1|1", "3|9"]);
}

#[test]
fn query_without_rows_has_its_schema() {
    let mut connection = connection();
    let mut statement = statement(&mut connection, "SELECT 1 AS n, 'x' AS s WHERE false");
    let reader = statement.execute().expect("a reader");
    let schema = reader.schema();
    let fields: Vec<_> = schema
        .fields()
        .iter()
        .map(|field| field.name().as_str())
        .collect();
    assert_eq!(fields, ["n", "s"]);
    assert_eq!(schema.field(0).data_type(), &DataType::Int64);
    assert_eq!(
        collect(reader).iter().map(RecordBatch::num_rows).sum::<usize>(),
        0
    );
}

#[test]
fn columns_may_share_a_name() {
    let mut connection = connection();
    let mut statement = statement(
        &mut connection,
        "SELECT * FROM (SELECT 1 AS a) AS x, (SELECT 2 AS a) AS y",
    );
    let batches = collect(statement.execute().expect("a reader"));
    assert_eq!(crate::support::lines(&batches), ["1|2"]);
}

#[test]
fn updates_count_their_rows() {
    let mut connection = connection();
    assert_eq!(
        update(&mut connection, "CREATE TABLE t (a BIGINT, b VARCHAR)"),
        None
    );
    assert_eq!(
        update(
            &mut connection,
            "INSERT INTO t VALUES (1, 'x'), (2, 'y'), (3, NULL)"
        ),
        Some(3)
    );
    assert_eq!(
        update(
            &mut connection,
            "INSERT INTO t SELECT a + 10, b FROM t WHERE a > 1"
        ),
        Some(2)
    );
    // A query as an update runs, and its rows have no reader.
    assert_eq!(update(&mut connection, "SELECT * FROM t"), None);
    assert_eq!(rows(&mut connection, "SELECT count(*), sum(a) FROM t"), ["5|31"]);
    // Through execute, an update returns its count.
    assert_eq!(rows(&mut connection, "INSERT INTO t VALUES (4, 'z')"), ["1"]);
    assert_eq!(rows(&mut connection, "SELECT count(*) FROM t"), ["6"]);
}

#[test]
fn statements_of_galatea_run() {
    let mut connection = connection();
    update(&mut connection, "CREATE MACRO twice(x) AS x * 2");
    update(&mut connection, "SET VARIABLE v = 20");
    assert_eq!(
        rows(&mut connection, "SELECT twice(getvariable('v')) + 2 AS a"),
        ["42"]
    );
    assert_eq!(rows(&mut connection, "FROM (VALUES (7)) AS t(v)"), ["7"]);
    update(&mut connection, "SET datafusion.execution.batch_size = 100");
    assert_eq!(
        rows(
            &mut connection,
            "SELECT value FROM information_schema.df_settings WHERE name = 'datafusion.execution.batch_size'"
        ),
        ["100"]
    );
    update(&mut connection, "RESET datafusion.execution.batch_size");
}

#[test]
fn batches_arrive_while_the_query_runs() {
    let mut connection = connection();
    // This result has more rows than a process could hold.
    let mut statement = statement(
        &mut connection,
        "SELECT value FROM generate_series(1, 1000000000000) AS t(value)",
    );
    let mut reader = statement.execute().expect("a reader");
    let first = reader.next().expect("a batch").expect("no error");
    assert!(first.num_rows() > 0);
    assert!(reader.next().expect("a batch").is_ok());
    drop(reader);
    // The connection is usable, and the query does not run any more.
    assert_eq!(rows(&mut connection, "SELECT 1"), ["1"]);
}

#[test]
fn schema_is_known_without_executing() {
    let mut connection = connection();
    let mut of = |sql: &str| statement(&mut connection, sql).execute_schema();
    let schema = of("SELECT 1 AS a, sum(v) AS s FROM (VALUES (1.5)) AS t(v)").expect("a schema");
    assert_eq!(schema.field(0).data_type(), &DataType::Int64);
    assert_eq!(schema.field(1).data_type(), &DataType::Float64);
    // Nothing is created.
    assert_eq!(
        of("CREATE TABLE t AS SELECT 1 AS a")
            .expect("no columns")
            .fields()
            .len(),
        0
    );
    assert_eq!(
        of("SELECT * FROM t").expect_err("no table").status,
        Status::NotFound
    );
    assert_eq!(
        of("SET galatea.device = 'cpu'")
            .expect("no columns")
            .fields()
            .len(),
        0
    );
    assert!(of("SUMMARIZE SELECT 1 AS a").expect("columns").fields().len() > 5);
    let schema = of("SELECT ? AS p, $1 + 1 AS q");
    assert!(schema.is_err(), "both forms of placeholders");
    let schema = of("SELECT CAST(? AS BIGINT) AS p").expect("a schema");
    assert_eq!(schema.field(0).data_type(), &DataType::Int64);
}

#[test]
fn schema_of_a_query_is_that_of_its_batches() {
    let mut connection = connection();
    update(
        &mut connection,
        "CREATE TABLE t AS SELECT 'a' AS s, DATE '2026-01-01' AS d, 1.5 AS f",
    );
    let mut statement = statement(&mut connection, "SELECT s || 'b' AS x, d, f, s FROM t");
    let described = statement.execute_schema().expect("a schema");
    let reader = statement.execute().expect("a reader");
    let types = |schema: &arrow::datatypes::Schema| {
        let types: Vec<DataType> = schema
            .fields()
            .iter()
            .map(|field| field.data_type().clone())
            .collect();
        types
    };
    assert_eq!(types(&described), types(&reader.schema()));
}

#[test]
fn statement_without_a_query_has_a_wrong_state() {
    let mut connection = connection();
    let mut statement = connection.new_statement().expect("a statement");
    assert_eq!(
        statement.execute().err().expect("no query").status,
        Status::InvalidState
    );
    assert_eq!(
        statement.prepare().expect_err("no query").status,
        Status::InvalidState
    );
    let error = statement.set_substrait_plan([0u8]).expect_err("no Substrait");
    assert_eq!(error.status, Status::NotImplemented);
    statement.set_sql_query("SELECT 1").expect("a query");
    assert_eq!(
        statement
            .execute_partitions()
            .map(drop)
            .expect_err("no partitions")
            .status,
        Status::NotImplemented
    );
}
