//! Options of databases, connections and statements.

use adbc_core::constants::{ADBC_OPTION_ISOLATION_LEVEL_DEFAULT, ADBC_OPTION_ISOLATION_LEVEL_SERIALIZABLE};
use adbc_core::error::Status;
use adbc_core::options::{OptionConnection, OptionDatabase, OptionStatement, OptionValue};
use adbc_core::{Connection, Database, Optionable, Statement};
use adbc_driver_galatea::STRING_VIEWS;
use arrow::datatypes::DataType;

use crate::support::{connection, database, rows, statement, update};

#[test]
fn settings_are_options_of_a_database() {
    let database = database(&[
        ("galatea.device", "cpu"),
        ("datafusion.execution.batch_size", "77"),
        ("galatea.memory.store_limit", "1 GiB"),
        ("datafusion.runtime.memory_limit", "512M"),
    ])
    .expect("a database");
    let option = |name: &str| database.get_option_string(OptionDatabase::from(name));
    assert_eq!(option("galatea.device").expect("a value"), "cpu");
    assert_eq!(option("absent").expect_err("no option").status, Status::NotFound);
    let connection = database.new_connection().expect("a connection");
    let of = |name: &str| connection.get_option_string(OptionConnection::from(name));
    assert_eq!(of("galatea.device").expect("a value"), "cpu");
    assert_eq!(
        connection
            .get_option_int(OptionConnection::from("datafusion.execution.batch_size"))
            .expect("a number"),
        77
    );
}

#[test]
fn unknown_options_are_errors() {
    let status = |options: &[(&str, &str)]| database(options).expect_err("an error").status;
    assert_eq!(status(&[("colour", "red")]), Status::NotImplemented);
    assert_eq!(status(&[("username", "ann")]), Status::NotImplemented);
    assert_eq!(status(&[("galatea.colour", "red")]), Status::InvalidArguments);
    assert_eq!(status(&[("galatea.device", "abacus")]), Status::InvalidArguments);
    assert_eq!(
        status(&[("uri", "/tmp/a"), ("path", "/tmp/b")]),
        Status::InvalidArguments
    );
    let mut open = database(&[]).expect("a database");
    let error = open.set_option(OptionDatabase::Uri, "other".into());
    assert_eq!(error.expect_err("open").status, Status::InvalidState);
}

#[test]
fn each_statement_is_its_own_transaction() {
    let mut connection = connection();
    let mut set = |key: OptionConnection, value: &str| connection.set_option(key, value.into());
    set(OptionConnection::AutoCommit, "true").expect("the default");
    let error = set(OptionConnection::AutoCommit, "false").expect_err("not supported");
    assert_eq!(error.status, Status::NotImplemented);
    assert!(error.message.contains("adbc.connection.autocommit"), "{error}");
    set(OptionConnection::ReadOnly, "false").expect("the default");
    assert_eq!(
        set(OptionConnection::ReadOnly, "true")
            .expect_err("not supported")
            .status,
        Status::NotImplemented
    );
    set(
        OptionConnection::IsolationLevel,
        ADBC_OPTION_ISOLATION_LEVEL_DEFAULT,
    )
    .expect("the default");
    assert_eq!(
        set(
            OptionConnection::IsolationLevel,
            ADBC_OPTION_ISOLATION_LEVEL_SERIALIZABLE
        )
        .expect_err("not supported")
        .status,
        Status::NotImplemented
    );
    assert_eq!(
        connection.commit().expect_err("nothing").status,
        Status::InvalidState
    );
    assert_eq!(
        connection.rollback().expect_err("nothing").status,
        Status::InvalidState
    );
    let autocommit = connection.get_option_string(OptionConnection::AutoCommit);
    assert_eq!(autocommit.expect("a value"), "true");
}

#[test]
fn current_schema_is_that_of_the_connection() {
    let mut connection = connection();
    update(&mut connection, "CREATE SCHEMA s");
    update(&mut connection, "CREATE TABLE s.t AS SELECT 5 AS a");
    let schema = |connection: &adbc_driver_galatea::GalateaConnection| {
        connection
            .get_option_string(OptionConnection::CurrentSchema)
            .expect("a schema")
    };
    assert_eq!(schema(&connection), "public");
    connection
        .set_option(OptionConnection::CurrentSchema, "s".into())
        .expect("a schema");
    assert_eq!(schema(&connection), "s");
    assert_eq!(rows(&mut connection, "SELECT a FROM t"), ["5"]);
    let error = connection.set_option(OptionConnection::CurrentSchema, "absent".into());
    let error = error.expect_err("no schema");
    assert_eq!(error.status, Status::NotFound);
    assert!(error.message.contains("public"), "{error}");
    let error = connection.set_option(OptionConnection::CurrentCatalog, "absent".into());
    assert_eq!(error.expect_err("no catalog").status, Status::NotFound);
    let catalog = connection.get_option_string(OptionConnection::CurrentCatalog);
    assert_eq!(catalog.expect("a catalog"), "datafusion");
    connection
        .set_option(OptionConnection::CurrentCatalog, "datafusion".into())
        .expect("a catalog");
}

#[test]
fn settings_of_a_session_are_options_of_a_connection() {
    let mut connection = connection();
    let mut set = |name: &str, value: OptionValue| connection.set_option(OptionConnection::from(name), value);
    set("datafusion.execution.batch_size", OptionValue::Int(50)).expect("a setting");
    let error = set("galatea.memory.store_limit", "1 GiB".into()).expect_err("of the engine");
    assert_eq!(error.status, Status::InvalidState);
    assert!(error.message.contains("option of the database"), "{error}");
    let error = set("galatea.colour", "red".into()).expect_err("no setting");
    assert_eq!(error.status, Status::InvalidArguments);
    let error = set("colour", "red".into()).expect_err("no option");
    assert_eq!(error.status, Status::NotImplemented);
    let size = rows(
        &mut connection,
        "SELECT value FROM information_schema.df_settings WHERE name = 'datafusion.execution.batch_size'",
    );
    assert_eq!(size, ["50"]);
}

#[test]
fn string_views_are_converted_on_request() {
    let database = database(&[("galatea.device", "cpu")]).expect("a database");
    let mut connection = database.new_connection().expect("a connection");
    let sql = "SELECT arrow_cast('a', 'Utf8View') AS s";
    let type_of = |connection: &mut _| {
        let mut statement = statement(connection, sql);
        let described = statement.execute_schema().expect("a schema");
        let schema = statement.execute().expect("a reader").schema();
        assert_eq!(described.field(0).data_type(), schema.field(0).data_type());
        schema.field(0).data_type().clone()
    };
    assert_eq!(type_of(&mut connection), DataType::Utf8View);
    let key = || OptionConnection::from(STRING_VIEWS);
    connection.set_option(key(), "false".into()).expect("an option");
    assert_eq!(connection.get_option_string(key()).expect("a value"), "false");
    assert_eq!(type_of(&mut connection), DataType::Utf8);
    assert_eq!(rows(&mut connection, sql), ["a"]);
    let error = connection
        .set_option(key(), "maybe".into())
        .expect_err("no truth");
    assert_eq!(error.status, Status::InvalidArguments);
}

#[test]
fn options_of_an_ingestion_are_read_back() {
    let mut connection = connection();
    let mut statement = connection.new_statement().expect("a statement");
    statement
        .set_option(OptionStatement::TargetTable, "t".into())
        .expect("an option");
    let table = statement.get_option_string(OptionStatement::TargetTable);
    assert_eq!(table.expect("a value"), "t");
    // A query ends the ingestion.
    statement.set_sql_query("SELECT 1").expect("a query");
    let table = statement.get_option_string(OptionStatement::TargetTable);
    assert_eq!(table.expect_err("no value").status, Status::NotFound);
    let error = statement.set_option(OptionStatement::from("colour"), "red".into());
    assert_eq!(error.expect_err("no option").status, Status::NotImplemented);
    let error = statement.set_option(OptionStatement::Incremental, "true".into());
    assert_eq!(error.expect_err("no partitions").status, Status::NotImplemented);
}
