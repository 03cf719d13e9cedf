//! Bulk ingestion.

use adbc_core::constants::{
    ADBC_INGEST_OPTION_MODE_APPEND as APPEND, ADBC_INGEST_OPTION_MODE_CREATE as CREATE,
    ADBC_INGEST_OPTION_MODE_CREATE_APPEND as CREATE_APPEND, ADBC_INGEST_OPTION_MODE_REPLACE as REPLACE,
};
use adbc_core::error::Status;
use adbc_core::options::OptionStatement;
use adbc_core::{Connection, Optionable, Statement};
use adbc_driver_galatea::GalateaConnection;
use arrow::array::{ArrayRef, Int32Array, Int64Array, RecordBatch, RecordBatchIterator, StringArray};

use crate::support::{batch, column, connection, connection_of, ingest, rows, statement, update};

fn numbers(values: &[i64]) -> RecordBatch {
    batch(vec![("n", column(Int64Array::from(values.to_vec())))])
}

/// Writes in all modes.
fn all_modes(connection: &mut GalateaConnection) {
    let sum = "SELECT count(*), sum(n) FROM \"My table\"";
    let mut write = |mode: &str, values: &[i64]| ingest(connection, "My table", mode, numbers(values));
    assert_eq!(
        write(APPEND, &[1]).expect_err("no table").status,
        Status::NotFound
    );
    assert_eq!(write(CREATE, &[1, 2]).expect("created"), Some(2));
    assert_eq!(
        write(CREATE, &[1]).expect_err("exists").status,
        Status::AlreadyExists
    );
    assert_eq!(write(APPEND, &[3]).expect("appended"), Some(1));
    assert_eq!(write(CREATE_APPEND, &[4, 5]).expect("appended"), Some(2));
    assert_eq!(rows(connection, sum), ["5|15"]);
    let mut write = |mode: &str, values: &[i64]| ingest(connection, "My table", mode, numbers(values));
    assert_eq!(write(REPLACE, &[7]).expect("replaced"), Some(1));
    assert_eq!(write(APPEND, &[]).expect("nothing"), Some(0));
    assert_eq!(rows(connection, sum), ["1|7"]);
    assert_eq!(
        ingest(connection, "other", CREATE_APPEND, numbers(&[])).expect("created"),
        Some(0)
    );
    assert_eq!(rows(connection, "SELECT count(*), sum(n) FROM other"), ["0|"]);
}

#[test]
fn modes_apply_to_tables_in_memory() {
    all_modes(&mut connection());
}

#[test]
fn modes_apply_to_tables_of_a_database() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("my.db");
    all_modes(&mut connection_of(&path));
    let mut again = connection_of(&path);
    assert_eq!(rows(&mut again, "SELECT n FROM \"My table\""), ["7"]);
}

#[test]
fn stream_with_large_batches_is_written() {
    let mut connection = connection();
    let batches = [numbers(&(0..200_000).collect::<Vec<_>>()), numbers(&[1_000_000])];
    let schema = batches[0].schema();
    let mut statement = connection.new_statement().expect("a statement");
    statement
        .set_option(OptionStatement::TargetTable, "t".into())
        .expect("an option");
    let stream = RecordBatchIterator::new(batches.into_iter().map(Ok), schema);
    statement.bind_stream(Box::new(stream)).expect("bound");
    // The mode is create by default.
    assert_eq!(statement.execute_update().expect("written"), Some(200_001));
    assert_eq!(
        rows(&mut connection, "SELECT count(*), min(n), max(n), sum(n) FROM t"),
        ["200001|0|1000000|20000900000"]
    );
}

#[test]
fn columns_are_matched_by_name() {
    let mut connection = connection();
    update(
        &mut connection,
        "CREATE TABLE t (a BIGINT, b VARCHAR, c DOUBLE DEFAULT 1.5)",
    );
    let given = batch(vec![
        ("b", column(StringArray::from(vec![Some("x"), None]))),
        ("a", column(Int32Array::from(vec![1, 2]))),
    ]);
    assert_eq!(
        ingest(&mut connection, "t", APPEND, given).expect("appended"),
        Some(2)
    );
    assert_eq!(
        rows(&mut connection, "SELECT a, b, c FROM t ORDER BY a"),
        ["1|x|1.5", "2||1.5"]
    );
}

#[test]
fn rows_that_do_not_fit_are_refused() {
    let mut connection = connection();
    update(&mut connection, "CREATE TABLE t (a BIGINT, b BIGINT[])");
    let of = |name: &str, column: ArrayRef| batch(vec![(name, column)]);
    let unknown = of("z", column(Int64Array::from(vec![1])));
    let error = ingest(&mut connection, "t", APPEND, unknown).expect_err("no column");
    assert_eq!(error.status, Status::AlreadyExists);
    assert!(
        error.message.contains("no column z") && error.message.contains("a, b"),
        "{error}"
    );
    let list =
        arrow::array::ListArray::from_iter_primitive::<arrow::datatypes::Int64Type, _, _>([Some([Some(1)])]);
    let error = ingest(&mut connection, "t", APPEND, of("a", column(list))).expect_err("no list");
    assert_eq!(error.status, Status::AlreadyExists);
    let text = of("a", column(StringArray::from(vec!["x"])));
    let error = ingest(&mut connection, "t", APPEND, text).expect_err("no number");
    assert_eq!(error.status, Status::InvalidData);
    assert_eq!(rows(&mut connection, "SELECT count(*) FROM t"), ["0"]);
}

#[test]
fn error_of_the_stream_leaves_no_table() {
    let mut connection = connection();
    let mut statement = connection.new_statement().expect("a statement");
    statement
        .set_option(OptionStatement::TargetTable, "t".into())
        .expect("an option");
    let failed = || arrow::error::ArrowError::ComputeError("the source broke".to_owned());
    let batches = vec![Ok(numbers(&[1])), Err(failed())];
    let stream = RecordBatchIterator::new(batches, numbers(&[]).schema());
    statement.bind_stream(Box::new(stream)).expect("bound");
    let error = statement.execute_update().expect_err("a failure");
    assert!(error.message.contains("the source broke"), "{error}");
    let error = crate::support::error_of(&mut connection, "SELECT * FROM t");
    assert_eq!(error.status, Status::NotFound);
}

#[test]
fn target_may_be_in_another_schema() {
    let mut connection = connection();
    update(&mut connection, "CREATE SCHEMA s");
    let mut statement = connection.new_statement().expect("a statement");
    statement
        .set_option(OptionStatement::TargetTable, "t".into())
        .expect("an option");
    statement
        .set_option(OptionStatement::TargetDbSchema, "s".into())
        .expect("an option");
    statement.bind(numbers(&[42])).expect("bound");
    assert_eq!(statement.execute_update().expect("created"), Some(1));
    assert_eq!(rows(&mut connection, "SELECT n FROM s.t"), ["42"]);
    assert!(statement.execute_update().is_err(), "the rows were taken");
}

#[test]
fn temporary_tables_are_refused() {
    let mut connection = connection();
    let mut statement = statement(&mut connection, "SELECT 1");
    let error = statement.set_option(OptionStatement::Temporary, "true".into());
    assert_eq!(error.expect_err("not supported").status, Status::NotImplemented);
    statement
        .set_option(OptionStatement::Temporary, "false".into())
        .expect("the default");
    let error = statement.set_option(OptionStatement::IngestMode, "sideways".into());
    assert_eq!(error.expect_err("no mode").status, Status::InvalidArguments);
}
