//! Connections of one database, and databases on disk.

use std::thread;

use adbc_core::error::Status;
use adbc_core::options::OptionConnection;
use adbc_core::{Connection, Database, Optionable, Statement};

use crate::support::{connection_of, database, error_of, rows, statement, update};

#[test]
fn connections_share_tables_macros_and_views() {
    let database = database(&[("galatea.device", "cpu")]).expect("a database");
    let mut first = database.new_connection().expect("a connection");
    let mut second = database.new_connection().expect("a connection");
    update(&mut first, "CREATE TABLE t AS SELECT 40 AS a");
    update(&mut first, "CREATE VIEW v AS SELECT a + 1 AS b FROM t");
    update(&mut first, "CREATE MACRO more(x) AS x + 1");
    assert_eq!(rows(&mut second, "SELECT more(b) FROM v"), ["42"]);
    assert_eq!(update(&mut second, "INSERT INTO t VALUES (50)"), Some(1));
    assert_eq!(rows(&mut first, "SELECT sum(a) FROM t"), ["90"]);
    update(&mut second, "DROP TABLE t");
    assert_eq!(error_of(&mut first, "SELECT * FROM t").status, Status::NotFound);
}

#[test]
fn connections_have_settings_and_variables_of_their_own() {
    let database = database(&[("galatea.device", "cpu")]).expect("a database");
    let mut first = database.new_connection().expect("a connection");
    let mut second = database.new_connection().expect("a connection");
    update(&mut first, "SET datafusion.execution.batch_size = 123");
    update(&mut first, "SET VARIABLE x = 5");
    let size = |connection: &adbc_driver_galatea::GalateaConnection| {
        connection
            .get_option_string(OptionConnection::from("datafusion.execution.batch_size"))
            .expect("a value")
    };
    assert_eq!(size(&first), "123");
    assert_eq!(size(&second), "8192");
    assert_eq!(rows(&mut second, "SELECT getvariable('x') IS NULL"), ["true"]);
}

#[test]
fn databases_in_memory_are_separate() {
    let open = || {
        let database = database(&[("uri", ":memory:"), ("galatea.device", "cpu")]).expect("a database");
        database.new_connection().expect("a connection")
    };
    let (mut first, mut second) = (open(), open());
    update(&mut first, "CREATE TABLE t AS SELECT 1 AS a");
    assert_eq!(error_of(&mut second, "SELECT * FROM t").status, Status::NotFound);
}

#[test]
fn connection_outlives_its_database() {
    let opened = database(&[("galatea.device", "cpu")]).expect("a database");
    let mut connection = opened.new_connection().expect("a connection");
    let mut kept = statement(&mut connection, "SELECT 42");
    drop(opened);
    assert_eq!(rows(&mut connection, "SELECT 42"), ["42"]);
    drop(connection);
    let reader = kept.execute().expect("a reader");
    drop(kept);
    assert_eq!(crate::support::lines(&crate::support::collect(reader)), ["42"]);
}

#[test]
fn database_on_disk_lasts() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("my.db");
    {
        let mut connection = connection_of(&path);
        update(&mut connection, "CREATE TABLE t AS SELECT 40 AS a");
        update(&mut connection, "INSERT INTO t VALUES (2)");
        update(&mut connection, "CREATE VIEW v AS SELECT sum(a) AS s FROM t");
        update(&mut connection, "CREATE MACRO more(x) AS x + 1");
    }
    let mut again = connection_of(&path);
    assert_eq!(rows(&mut again, "SELECT more(s) FROM v"), ["43"]);
}

#[test]
fn folder_is_opened_several_times_in_a_process() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("my.db");
    let mut first = connection_of(&path);
    let mut second = connection_of(&path);
    update(&mut first, "CREATE TABLE t AS SELECT 1 AS a");
    assert_eq!(update(&mut second, "INSERT INTO t VALUES (2)"), Some(1));
    assert_eq!(rows(&mut first, "SELECT sum(a) FROM t"), ["3"]);
    drop(first);
    // The second plans views after the first has ended.
    update(&mut second, "CREATE VIEW v AS SELECT max(a) AS m FROM t");
    assert_eq!(rows(&mut second, "SELECT m FROM v"), ["2"]);
    let uri = path.to_str().expect("a path");
    let error =
        database(&[("uri", uri), ("galatea.memory.store_limit", "1 GiB")]).expect_err("other settings");
    assert_eq!(error.status, Status::InvalidState);
    assert!(
        error.message.contains("galatea.memory.store_limit = 1 GiB"),
        "{error}"
    );
}

#[test]
fn folder_is_opened_again_while_its_last_query_ends() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("my.db");
    // Threads of the pool outlive the folder.
    let _other = crate::support::connection();
    update(
        &mut connection_of(&path),
        "CREATE TABLE t AS SELECT value AS a FROM generate_series(1, 100000) AS s(value)",
    );
    for _ in 0..20 {
        let mut connection = connection_of(&path);
        // A result that is not read to its end.
        let sql = "SELECT t.a + s.b AS c FROM t, generate_series(1, 1000000000) AS s(b)";
        let mut reader = statement(&mut connection, sql).execute().expect("a reader");
        assert!(reader.next().expect("a batch").is_ok());
    }
}

#[test]
fn addresses_name_folders() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("my.db");
    update(&mut connection_of(&path), "CREATE TABLE t AS SELECT 42 AS a");
    let path = path.to_str().expect("a path");
    for option in [
        ("path", path.to_owned()),
        ("uri", format!("galatea:{path}")),
        ("uri", format!("galatea://{path}")),
        ("uri", format!("file://{path}")),
    ] {
        let opened = database(&[(option.0, &option.1), ("galatea.device", "cpu")]).expect("a database");
        let mut connection = opened.new_connection().expect("a connection");
        assert_eq!(rows(&mut connection, "SELECT a FROM t"), ["42"], "{option:?}");
    }
}

#[test]
fn folder_without_a_database_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("notes.txt"), "x").expect("a file");
    let uri = folder.path().to_str().expect("a path");
    let error = database(&[("uri", uri)]).expect_err("no database");
    assert_eq!(error.status, Status::InvalidArguments);
    assert!(error.message.contains("is not a database of Galatea"), "{error}");
}

#[test]
fn connections_share_the_device() {
    let database = database(&[("galatea.device", "emulated")]).expect("a database");
    let mut first = database.new_connection().expect("a connection");
    let mut second = database.new_connection().expect("a connection");
    update(
        &mut first,
        "CREATE TABLE t AS SELECT value % 3 AS k, value AS v FROM generate_series(1, 1000) AS s(value)",
    );
    let query = "SELECT k, sum(v) FROM t GROUP BY k ORDER BY k";
    let expected = ["0|166833", "1|167167", "2|166500"];
    for connection in [&mut first, &mut second] {
        assert_eq!(rows(connection, query), expected);
        let plan = rows(connection, &format!("EXPLAIN {query}")).join("\n");
        assert!(plan.contains("emulated GPU"), "{plan}");
    }
}

#[test]
fn threads_use_a_database_at_once() {
    let database = database(&[("galatea.device", "cpu")]).expect("a database");
    let mut connection = database.new_connection().expect("a connection");
    update(&mut connection, "CREATE TABLE t (a BIGINT)");
    thread::scope(|scope| {
        for start in 0..4 {
            let mut connection = database.new_connection().expect("a connection");
            scope.spawn(move || {
                for value in 0..10 {
                    let sql = format!("INSERT INTO t VALUES ({})", start * 10 + value);
                    assert_eq!(update(&mut connection, &sql), Some(1));
                }
                // Statements of one connection run at once, too.
                let mut first = statement(&mut connection, "SELECT count(*) FROM t");
                let mut second = connection.new_statement().expect("a statement");
                second.set_sql_query("SELECT 7").expect("a query");
                let (one, two) = (first.execute().expect("rows"), second.execute().expect("rows"));
                assert_eq!(crate::support::lines(&crate::support::collect(two)), ["7"]);
                assert_eq!(crate::support::collect(one).len(), 1);
            });
        }
    });
    assert_eq!(
        rows(&mut connection, "SELECT count(*), sum(a) FROM t"),
        ["40|780"]
    );
}
