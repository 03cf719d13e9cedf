//! Cancellation from other threads, and the limit of time.

use std::thread;
use std::time::{Duration, Instant};

use adbc_core::error::{Error, Status};
use adbc_core::options::OptionStatement;
use adbc_core::{Connection, Optionable, Statement};
use adbc_driver_galatea::{GalateaStatement, TIMEOUT};

use crate::support::{connection, rows, sqlstate, statement};

/// A query that runs for days, and returns no row before.
const ENDLESS: &str = "SELECT count(*) FROM generate_series(1, 1000000000000000) AS t(v) WHERE v % 7 = 3";

/// A query with rows for days.
const STREAM: &str = "SELECT value FROM generate_series(1, 1000000000000000) AS t(value)";

/// The error of a statement that another thread stops, which has to take less than ten seconds.
fn stopped(mut statement: GalateaStatement, stop: impl FnOnce() + Send) -> Error {
    let begun = Instant::now();
    let error = thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(300));
            stop();
        });
        statement.execute().err().expect("it was stopped")
    });
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    error
}

#[test]
fn statement_is_cancelled_from_another_thread() {
    let mut connection = connection();
    let statement = statement(&mut connection, ENDLESS);
    let cancel = statement.get_cancel_handle();
    let error = stopped(statement, || cancel.try_cancel().expect("a running query"));
    assert_eq!(error.status, Status::Cancelled);
    assert_eq!(sqlstate(&error), "57014");
    assert_eq!(rows(&mut connection, "SELECT 1"), ["1"]);
}

#[test]
fn connection_cancels_its_statements() {
    let mut connection = connection();
    let statement = statement(&mut connection, ENDLESS);
    let cancel = connection.get_cancel_handle();
    let error = stopped(statement, || cancel.try_cancel().expect("a running query"));
    assert_eq!(error.status, Status::Cancelled);
    assert_eq!(rows(&mut connection, "SELECT 1"), ["1"]);
}

#[test]
fn running_result_is_cancelled() {
    let mut connection = connection();
    let mut statement = statement(&mut connection, STREAM);
    let cancel = statement.get_cancel_handle();
    let mut reader = statement.execute().expect("a reader");
    assert!(reader.next().expect("a batch").is_ok());
    cancel.try_cancel().expect("a running query");
    let error = reader.find_map(Result::err).expect("an error");
    let text = error.to_string();
    assert!(text.contains("cancelled") && text.contains("57014"), "{text}");
    assert!(reader.next().is_none());
}

#[test]
fn nothing_running_cannot_be_cancelled() {
    let mut connection = connection();
    let mut finished = statement(&mut connection, "SELECT 1");
    drop(finished.execute().expect("a reader"));
    let error = finished
        .get_cancel_handle()
        .try_cancel()
        .expect_err("nothing runs");
    assert_eq!(error.status, Status::InvalidState);
    // Another statement of the connection is unaffected.
    let mut other = statement(&mut connection, STREAM);
    let mut reader = other.execute().expect("a reader");
    assert!(finished.get_cancel_handle().try_cancel().is_err());
    assert!(reader.next().expect("a batch").is_ok());
    assert!(reader.next().expect("a batch").is_ok());
}

#[test]
fn statement_has_a_limit_of_time() {
    let mut connection = connection();
    let mut limited = statement(&mut connection, ENDLESS);
    let option = || OptionStatement::from(TIMEOUT);
    limited.set_option(option(), 0.3.into()).expect("an option");
    let begun = Instant::now();
    let error = limited.execute_update().expect_err("it takes longer");
    assert!(begun.elapsed() < Duration::from_secs(10));
    assert_eq!(error.status, Status::Timeout);
    assert!(error.message.contains(TIMEOUT), "{error}");
    // The limit applies to reading, too.
    let mut limited = statement(&mut connection, STREAM);
    limited.set_option(option(), 0.3.into()).expect("an option");
    let error = limited.execute().expect("a reader").find_map(Result::err);
    let text = error.expect("it takes longer").to_string();
    assert!(text.contains("longer than 300ms"), "{text}");
    let error = limited.set_option(option(), "-1".into()).expect_err("no time");
    assert_eq!(error.status, Status::InvalidArguments);
    limited.set_option(option(), "0".into()).expect("no limit");
}

#[test]
fn ingestion_is_cancelled() {
    let mut connection = connection();
    let mut statement = connection.new_statement().expect("a statement");
    statement
        .set_option(OptionStatement::TargetTable, "t".into())
        .expect("an option");
    let column = arrow::array::Int64Array::from(vec![1]);
    let batch = crate::support::batch(vec![("a", crate::support::column(column))]);
    let schema = batch.schema();
    let slow = std::iter::repeat_with(move || {
        thread::sleep(Duration::from_millis(10));
        Ok(batch.clone())
    });
    let stream = arrow::array::RecordBatchIterator::new(slow, schema);
    statement.bind_stream(Box::new(stream)).expect("bound");
    let cancel = statement.get_cancel_handle();
    let error = stopped(statement, || cancel.try_cancel().expect("a running ingestion"));
    assert_eq!(error.status, Status::Cancelled);
    assert_eq!(
        crate::support::error_of(&mut connection, "SELECT * FROM t").status,
        Status::NotFound
    );
}
