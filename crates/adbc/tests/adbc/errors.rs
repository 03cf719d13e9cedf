//! Errors have the status of ADBC and the SQLSTATE of PostgreSQL, and the message of the terminal.

use adbc_core::Statement;
use adbc_core::error::Status;
use arrow::array::{Int64Array, RecordBatchIterator};

use crate::support::{batch, column, connection, error_of, rows, sqlstate, statement, update};

#[test]
fn errors_have_a_status_and_a_sqlstate() {
    let mut connection = connection();
    update(&mut connection, "CREATE TABLE t AS SELECT 1 AS a");
    for (sql, status, state, message) in [
        ("SELEC 1", Status::InvalidArguments, "42601", "SELEC"),
        ("SELECT * FROM absent", Status::NotFound, "42P01", "absent"),
        ("SELECT b FROM t", Status::InvalidArguments, "42703", "b"),
        (
            "CREATE TABLE t AS SELECT 1 AS a",
            Status::AlreadyExists,
            "42P07",
            "t",
        ),
        (
            "CREATE VIEW t AS SELECT 1 AS a",
            Status::AlreadyExists,
            "42P07",
            "t",
        ),
        ("DROP TABLE absent", Status::NotFound, "42P01", "absent"),
        (
            "SELECT 1 / (a - 1) FROM t",
            Status::InvalidData,
            "22012",
            "division by zero",
        ),
        (
            "SELECT 9223372036854775807 + a FROM t",
            Status::InvalidData,
            "22003",
            "overflow",
        ),
        (
            "SELECT CAST('x' || a AS INT) FROM t",
            Status::InvalidData,
            "22000",
            "x1",
        ),
        (
            "SET galatea.device = 'abacus'",
            Status::InvalidArguments,
            "22023",
            "abacus",
        ),
        (
            "INSERT INTO t VALUES (2) RETURNING a",
            Status::NotImplemented,
            "0A000",
            "RETURNING",
        ),
        (
            "SELECT 1; SELECT 2",
            Status::NotImplemented,
            "0A000",
            "one statement",
        ),
    ] {
        let error = error_of(&mut connection, sql);
        assert_eq!(error.status, status, "{sql}: {error}");
        assert_eq!(sqlstate(&error), state, "{sql}: {error}");
        assert!(error.message.contains(message), "{sql}: {error}");
    }
}

#[test]
fn message_shows_the_position_and_the_hint() {
    let mut connection = connection();
    update(&mut connection, "CREATE TABLE people AS SELECT 'x' AS name");
    let error = error_of(&mut connection, "SELECT nme FROM people");
    assert!(error.message.contains("SELECT nme FROM people"), "{error}");
    assert!(error.message.contains("\n               ^^^\nhint: "), "{error}");
}

#[test]
fn exhausted_memory_names_the_setting() {
    let options = [
        ("galatea.device", "cpu"),
        ("datafusion.runtime.memory_limit", "1M"),
    ];
    let database = crate::support::database(&options).expect("a database");
    let mut connection = adbc_core::Database::new_connection(&database).expect("a connection");
    let error = error_of(
        &mut connection,
        "SELECT array_agg(value) FROM generate_series(1, 3000000) AS t(value)",
    );
    assert_eq!(error.status, Status::IO);
    assert_eq!(sqlstate(&error), "53400");
    assert!(
        error.message.contains("datafusion.runtime.memory_limit"),
        "{error}"
    );
}

#[test]
fn panic_is_an_internal_error() {
    let mut connection = connection();
    update(&mut connection, "CREATE TABLE t (a BIGINT)");
    let empty = batch(vec![("a", column(Int64Array::from(Vec::<i64>::new())))]);
    for sql in ["INSERT INTO t VALUES (?)", "SELECT ? + 1"] {
        let panics = std::iter::from_fn(|| panic!("the source is broken"));
        let stream = RecordBatchIterator::new(panics, empty.schema());
        let mut statement = statement(&mut connection, sql);
        statement.bind_stream(Box::new(stream)).expect("bound");
        let error = statement.execute().map(drop).expect_err("a panic");
        assert_eq!(error.status, Status::Internal, "{error}");
        assert!(error.message.contains("the source is broken"), "{error}");
    }
    assert_eq!(rows(&mut connection, "SELECT count(*) FROM t"), ["0"]);
}

#[test]
fn missing_file_is_reported() {
    let mut connection = connection();
    let error = error_of(&mut connection, "SELECT * FROM '/absent/file.parquet'");
    assert!(error.message.contains("/absent/file.parquet"), "{error}");
}
