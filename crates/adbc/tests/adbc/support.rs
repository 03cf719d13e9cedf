//! Databases, connections and results of tests.

use std::path::Path;
use std::sync::Arc;

use adbc_core::error::{Error, Result};
use adbc_core::options::{OptionDatabase, OptionStatement, OptionValue};
use adbc_core::{Connection, Database, Driver, Optionable, Statement};
use adbc_driver_galatea::{GalateaConnection, GalateaDatabase, GalateaDriver, GalateaStatement};
use arrow::array::{ArrayRef, RecordBatch, RecordBatchReader};
use arrow::util::pretty::pretty_format_batches;

/// A new database with these options.
pub(crate) fn database(options: &[(&str, &str)]) -> Result<GalateaDatabase> {
    let options = options
        .iter()
        .map(|(key, value)| (OptionDatabase::from(*key), OptionValue::from(*value)));
    GalateaDriver.new_database_with_opts(options)
}

/// A connection of a new database in memory, on the CPU.
pub(crate) fn connection() -> GalateaConnection {
    let database = database(&[("galatea.device", "cpu")]).expect("a database");
    database.new_connection().expect("a connection")
}

/// A connection of the database of a folder.
pub(crate) fn connection_of(folder: &Path) -> GalateaConnection {
    let uri = folder.to_str().expect("a path");
    let database = database(&[("uri", uri), ("galatea.device", "cpu")]).expect("a database");
    database.new_connection().expect("a connection")
}

/// A statement of a connection.
pub(crate) fn statement(connection: &mut GalateaConnection, sql: &str) -> GalateaStatement {
    let mut statement = connection.new_statement().expect("a statement");
    statement.set_sql_query(sql).expect("a query");
    statement
}

/// All batches of a reader.
pub(crate) fn collect(reader: impl RecordBatchReader) -> Vec<RecordBatch> {
    reader.map(|batch| batch.expect("a batch")).collect()
}

/// The rows of batches as lines, their values separated by `|`.
pub(crate) fn lines(batches: &[RecordBatch]) -> Vec<String> {
    let table = pretty_format_batches(batches).expect("a table").to_string();
    let rows = table.lines().filter(|line| line.starts_with('|')).skip(1);
    rows.map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        cells.join("|")
    })
    .collect()
}

/// The rows of a query as lines.
pub(crate) fn rows(connection: &mut GalateaConnection, sql: &str) -> Vec<String> {
    let mut statement = statement(connection, sql);
    lines(&collect(statement.execute().expect(sql)))
}

/// Executes a statement, and returns the number of changed rows.
pub(crate) fn update(connection: &mut GalateaConnection, sql: &str) -> Option<i64> {
    statement(connection, sql).execute_update().expect(sql)
}

/// The error of a statement, before its first batch.
pub(crate) fn error_of(connection: &mut GalateaConnection, sql: &str) -> Error {
    match statement(connection, sql).execute() {
        Ok(_) => panic!("no error: {sql}"),
        Err(error) => error,
    }
}

/// The SQLSTATE of an error.
pub(crate) fn sqlstate(error: &Error) -> String {
    error
        .sqlstate
        .iter()
        .map(|letter| char::from(letter.to_ne_bytes()[0]))
        .collect()
}

/// A batch of named columns.
pub(crate) fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true)))
        .expect("a batch")
}

/// A column.
pub(crate) fn column<A: arrow::array::Array + 'static>(array: A) -> ArrayRef {
    Arc::new(array)
}

/// Writes a batch to a table.
pub(crate) fn ingest(
    connection: &mut GalateaConnection,
    table: &str,
    mode: &str,
    rows: RecordBatch,
) -> Result<Option<i64>> {
    let mut statement = connection.new_statement()?;
    statement.set_option(OptionStatement::TargetTable, table.into())?;
    statement.set_option(OptionStatement::IngestMode, mode.into())?;
    statement.bind(rows)?;
    statement.execute_update()
}
