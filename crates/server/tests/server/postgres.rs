//! The Postgres protocol with tokio-postgres.

use std::time::Instant;

use futures::{StreamExt, TryStreamExt};
use tokio_postgres::SimpleQueryMessage;
use tokio_postgres::types::ToSql;

use crate::support::{LONG, config, postgres, postgres_socket, start, state, until};

/// A query that returns rows for hours.
const ENDLESS: &str = "SELECT v FROM generate_series(1, 1000000000000) AS t(v)";

/// The rows of a simple query, with fields separated by `|`.
pub(crate) async fn simple(
    client: &tokio_postgres::Client,
    sql: &str,
) -> Result<Vec<String>, tokio_postgres::Error> {
    let messages = client.simple_query(sql).await?;
    let rows = messages.into_iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => {
            let fields = (0..row.len()).map(|column| row.get(column).unwrap_or("NULL").to_string());
            Some(fields.collect::<Vec<_>>().join("|"))
        }
        _ => None,
    });
    Ok(rows.collect())
}

#[tokio::test]
async fn simple_queries_run_several_statements() {
    let server = start(config()).await;
    let client = postgres(&server).await;
    let sql = "CREATE TABLE t (a BIGINT, b VARCHAR); INSERT INTO t VALUES (1, 'x;y'), (2, NULL); -- done;\n\
               SELECT * FROM t ORDER BY a; SELECT count(*) FROM t";
    assert_eq!(
        simple(&client, sql).await.expect("rows"),
        ["1|x;y", "2|NULL", "2"]
    );
    let completed = |messages: Vec<SimpleQueryMessage>| match messages.last() {
        Some(SimpleQueryMessage::CommandComplete(rows)) => *rows,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        completed(
            client
                .simple_query("INSERT INTO t VALUES (3, 'z')")
                .await
                .expect("inserted")
        ),
        1
    );
    assert_eq!(
        completed(client.simple_query("SELECT * FROM t").await.expect("rows")),
        3
    );
    assert!(simple(&client, " ; ").await.expect("nothing").is_empty());
    // The statements before an error take effect.
    let failed = simple(
        &client,
        "INSERT INTO t VALUES (4, 'w'); SELECT x FROM t; DROP TABLE t",
    )
    .await;
    assert_eq!(state(failed).0, "42703");
    assert_eq!(
        simple(&client, "SELECT count(*) FROM t").await.expect("rows"),
        ["4"]
    );
    server.stop().await;
}

#[tokio::test]
async fn values_have_their_types_in_binary() {
    let server = start(config()).await;
    let client = postgres(&server).await;
    let sql = "SELECT CAST(1 AS SMALLINT), CAST(2 AS INT), CAST(3 AS BIGINT), CAST(1.5 AS REAL), \
               CAST(2.5 AS DOUBLE), true, 'text', NULL, make_array(1, 2), arrow_cast('v', 'Utf8View'), \
               arrow_cast('d', 'Dictionary(Int32, Utf8)'), CAST(7 AS INT UNSIGNED)";
    let row = client.query_one(sql, &[]).await.expect("a row");
    assert_eq!(row.get::<_, i16>(0), 1);
    assert_eq!(row.get::<_, i32>(1), 2);
    assert_eq!(row.get::<_, i64>(2), 3);
    assert_eq!(row.get::<_, f32>(3), 1.5);
    assert_eq!(row.get::<_, f64>(4), 2.5);
    assert!(row.get::<_, bool>(5));
    assert_eq!(row.get::<_, &str>(6), "text");
    assert_eq!(row.get::<_, Option<&str>>(7), None);
    assert_eq!(row.get::<_, Vec<i64>>(8), [1, 2]);
    assert_eq!(row.get::<_, &str>(9), "v");
    assert_eq!(row.get::<_, &str>(10), "d");
    assert_eq!(row.get::<_, i64>(11), 7);
    let rows = simple(&client, "SELECT DATE '2026-11-28', TIMESTAMP '2026-11-28 12:30:00', CAST(1.25 AS DECIMAL(10,2)), X'0aff', INTERVAL '1 day'").await.expect("rows");
    assert!(rows[0].starts_with("2026-11-28|2026-11-28 12:30:00"), "{rows:?}");
    assert!(rows[0].contains("|1.25|\\x0aff|"), "{rows:?}");
    // A type that the protocol does not have.
    let rows = simple(
        &client,
        "SELECT CAST(1.5 AS DECIMAL(60, 2)) AS wide, MAP {'a': 1} AS m",
    )
    .await
    .expect("rows");
    assert_eq!(rows, ["1.50|{a: 1}"]);
    server.stop().await;
}

#[tokio::test]
async fn prepared_statements_take_parameters() {
    let server = start(config()).await;
    let client = postgres(&server).await;
    simple(&client, "CREATE TABLE t (a BIGINT, b VARCHAR, c DOUBLE, d DATE)")
        .await
        .expect("created");
    let insert = client
        .prepare("INSERT INTO t (a, b, c) VALUES ($1, $2, $3)")
        .await
        .expect("prepared");
    for (a, b) in [(1i64, Some("x")), (2, None), (3, Some("'; DROP TABLE t"))] {
        let parameters: [&(dyn ToSql + Sync); 3] = [&a, &b, &(a as f64 / 2.0)];
        assert_eq!(client.execute(&insert, &parameters).await.expect("inserted"), 1);
    }
    let select = client
        .prepare("SELECT b, c FROM t WHERE a >= $1 AND a < $2 ORDER BY a")
        .await
        .expect("prepared");
    assert_eq!(select.columns().len(), 2);
    let rows = client.query(&select, &[&2i64, &4i64]).await.expect("rows");
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[0].get::<_, Option<&str>>(0), None);
    assert_eq!(rows[1].get::<_, &str>(0), "'; DROP TABLE t");
    assert_eq!(rows[1].get::<_, f64>(1), 1.5);
    // A parameter without a type is a string, unless the client or a cast states one.
    let row = client
        .query_one("SELECT $1 AS a, $2::int AS b", &[&"x", &5i32])
        .await
        .expect("a row");
    assert_eq!((row.get::<_, &str>(0), row.get::<_, i32>(1)), ("x", 5));
    let typed = client
        .prepare_typed("SELECT $1 AS a", &[tokio_postgres::types::Type::INT4])
        .await
        .expect("prepared");
    assert_eq!(
        client
            .query_one(&typed, &[&8i32])
            .await
            .expect("a row")
            .get::<_, i32>(0),
        8
    );
    // The statement is planned again after its table changed.
    simple(&client, "INSERT INTO t (a) VALUES (2)")
        .await
        .expect("inserted");
    assert_eq!(
        client.query(&select, &[&2i64, &4i64]).await.expect("rows").len(),
        3
    );
    // A client cannot fill the memory with statements.
    let mut kept = Vec::new();
    let refused = loop {
        match client.prepare("SELECT 1").await {
            Ok(statement) => kept.push(statement),
            Err(error) => break state::<()>(Err(error)),
        }
    };
    assert_eq!(refused.0, "53400", "{}", refused.1);
    assert!(kept.len() > 900 && kept.len() < 1000, "{}", kept.len());
    drop(kept);
    assert_eq!(
        state(client.prepare("SELECT 1; SELECT 2").await.map(drop)).0,
        "42601"
    );
    assert_eq!(
        state(client.prepare("SELECT a FROM absent").await.map(drop)).0,
        "42P01"
    );
    server.stop().await;
}

#[tokio::test]
async fn portals_return_rows_in_parts() {
    let server = start(config()).await;
    let mut client = postgres(&server).await;
    let transaction = client.transaction().await.expect("begun");
    let portal = transaction
        .bind("SELECT v FROM generate_series(1, 1000000000000) AS t(v)", &[])
        .await
        .expect("a portal");
    for part in 0..3i64 {
        let rows = transaction.query_portal(&portal, 100).await.expect("rows");
        assert_eq!(rows.len(), 100);
        assert_eq!(rows[0].get::<_, i64>(0), part * 100 + 1);
    }
    assert_eq!(server.running(), 1);
    drop(portal);
    transaction.commit().await.expect("accepted");
    until("the closed portal stops", || server.running() == 0).await;
    server.stop().await;
}

#[tokio::test]
async fn cancel_requests_and_closed_connections_stop_queries() {
    let server = start(config()).await;
    let client = postgres(&server).await;
    let cancel = client.cancel_token();
    let query = client.simple_query(LONG);
    let stop = async {
        until("the query runs", || server.running() == 1).await;
        cancel.cancel_query(tokio_postgres::NoTls).await.expect("sent");
    };
    let (result, ()) = tokio::join!(query, stop);
    let (code, message) = state(result);
    assert_eq!(code, "57014", "{message}");
    until("the query stops", || server.running() == 0).await;
    // The connection remains usable.
    assert_eq!(simple(&client, "SELECT 5").await.expect("rows"), ["5"]);
    // A client that is gone while its query computes, and one that is gone between rows.
    let (client, socket) = postgres_socket(&server).await;
    let running = tokio::spawn(async move { client.simple_query(LONG).await.map(drop) });
    until("the query runs", || server.running() == 1).await;
    socket.abort();
    until("the query of the closed socket stops", || server.running() == 0).await;
    assert!(running.await.expect("no panic").is_err());
    let (client, socket) = postgres_socket(&server).await;
    let rows = client.query_raw(ENDLESS, Vec::<&str>::new()).await.expect("rows");
    let first: Vec<_> = Box::pin(rows).take(10_000).try_collect().await.expect("rows");
    assert_eq!(first.len(), 10_000);
    assert_eq!(server.running(), 1);
    socket.abort();
    until("the query of the closed socket stops", || server.running() == 0).await;
    server.stop().await;
}

#[tokio::test]
async fn errors_have_sqlstates_and_leave_the_connection_usable() {
    let server = start(config()).await;
    let client = postgres(&server).await;
    for (sql, code) in [
        ("SELEC 1", "42601"),
        ("SELECT a FROM absent", "42P01"),
        ("SELECT b FROM (SELECT 1 AS a)", "42703"),
        ("SELECT 1 / (v - 1) FROM generate_series(1, 3) AS t(v)", "22012"),
        (
            "SELECT 9223372036854775807 + v FROM generate_series(1, 3) AS t(v)",
            "22003",
        ),
        ("CREATE FUNCTION f(x INT) RETURNS INT RETURN x", "0A000"),
        ("SET colour = 'red'", "22023"),
    ] {
        let (found, message) = state(simple(&client, sql).await);
        assert_eq!(found, code, "{sql}: {message}");
        let found = match client.query(sql, &[]).await {
            Err(error) => error.code().map(|code| code.code().to_string()),
            Ok(_) => None,
        };
        assert_eq!(found.as_deref(), Some(code), "{sql}, extended");
    }
    assert_eq!(simple(&client, "SELECT 1").await.expect("rows"), ["1"]);
    server.stop().await;
}

#[tokio::test]
async fn parameters_and_transactions_are_accepted() {
    let server = start(config()).await;
    let client = postgres(&server).await;
    assert_eq!(
        simple(&client, "SHOW server_version").await.expect("rows"),
        ["16.6"]
    );
    simple(
        &client,
        "SET extra_float_digits = 3; SET application_name TO 'test'; SET TIME ZONE 'Europe/Berlin'",
    )
    .await
    .expect("set");
    assert_eq!(
        simple(&client, "SHOW application_name; SHOW TIME ZONE")
            .await
            .expect("rows"),
        ["test", "Europe/Berlin"]
    );
    assert_eq!(
        simple(&client, "SHOW datafusion.execution.time_zone")
            .await
            .expect("rows"),
        ["datafusion.execution.time_zone|Europe/Berlin"]
    );
    assert_eq!(
        simple(&client, "RESET ALL; SHOW timezone").await.expect("rows"),
        ["UTC"]
    );
    assert_eq!(
        simple(&client, "SHOW transaction isolation level")
            .await
            .expect("rows"),
        ["read committed"]
    );
    simple(
        &client,
        "BEGIN; CREATE TABLE t AS SELECT 1 AS a; SAVEPOINT s; ROLLBACK",
    )
    .await
    .expect("accepted");
    assert_eq!(simple(&client, "SELECT a FROM t").await.expect("rows"), ["1"]);
    let row = client
        .query_one("SHOW standard_conforming_strings", &[])
        .await
        .expect("a row");
    assert_eq!(row.get::<_, &str>(0), "on");
    assert_eq!(
        state(simple(&client, "SET client_encoding = 'LATIN1'").await).0,
        "22023"
    );
    simple(&client, "SET statement_timeout = 200").await.expect("set");
    let begun = Instant::now();
    assert_eq!(state(simple(&client, LONG).await).0, "57014");
    assert!(begun.elapsed().as_secs() < 5);
    server.stop().await;
}

#[tokio::test]
async fn catalog_describes_visible_tables() {
    let server = start(config()).await;
    let client = postgres(&server).await;
    simple(&client, "CREATE TABLE sales (a BIGINT, b VARCHAR)")
        .await
        .expect("created");
    let rows = simple(
        &client,
        "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = 'sales' ORDER BY 1",
    )
    .await
    .expect("rows");
    assert_eq!(rows.len(), 2, "{rows:?}");
    let rows = simple(&client, "SELECT c.relname FROM pg_catalog.pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'public' AND c.relkind = 'r'").await.expect("rows");
    assert_eq!(rows, ["sales"]);
    let rows = simple(&client, "SELECT current_database(), current_schema(), version()")
        .await
        .expect("rows");
    assert!(
        rows[0].starts_with("galatea|public|PostgreSQL 16.6 (Galatea"),
        "{rows:?}"
    );
    let types = simple(&client, "SELECT to_regtype('int8'), to_regtype('hstore')").await;
    assert_eq!(types.expect("rows"), ["20|NULL"]);
    assert_eq!(
        simple(&client, "SELECT current_user; SELECT session_user")
            .await
            .expect("rows"),
        ["ann", "ann"]
    );
    server.stop().await;
}

#[tokio::test]
async fn many_clients_run_mixed_statements() {
    let server = start(config()).await;
    simple(
        &postgres(&server).await,
        "CREATE TABLE t AS SELECT v AS a, v % 10 AS b FROM generate_series(1, 10000) AS s(v)",
    )
    .await
    .expect("created");
    let server = std::sync::Arc::new(server);
    let mut clients = Vec::new();
    for number in 0..16i64 {
        let server = std::sync::Arc::clone(&server);
        clients.push(tokio::spawn(async move {
            if number % 2 == 0 {
                let client = postgres(&server).await;
                for round in 0..10i64 {
                    let row = client
                        .query_one("SELECT count(*), sum(a) FROM t WHERE b = $1", &[&(round % 10)])
                        .await
                        .expect("a row");
                    assert_eq!(row.get::<_, i64>(0), 1000);
                    assert_eq!(state(client.query("SELECT absent FROM t", &[]).await).0, "42703");
                }
            } else {
                let mut client = crate::support::flight(&server).await;
                for _ in 0..10 {
                    let table = crate::support::query(
                        &mut client,
                        "SELECT b, count(*) AS n FROM t GROUP BY b ORDER BY b",
                    )
                    .await
                    .expect("rows");
                    assert_eq!(table.matches("| 1000 |").count(), 10, "{table}");
                }
            }
        }));
    }
    for client in clients {
        client.await.expect("no panic");
    }
    assert_eq!(server.running(), 0);
}

/// The time of a small query, printed for the record.
#[tokio::test]
async fn small_queries_are_fast() {
    let server = start(config()).await;
    let client = postgres(&server).await;
    let statement = client.prepare("select 1").await.expect("prepared");
    for (name, is_prepared) in [("simple", false), ("prepared", true)] {
        let mut times = Vec::new();
        for _ in 0..200 {
            let begun = Instant::now();
            match is_prepared {
                true => drop(client.query_one(&statement, &[]).await.expect("a row")),
                false => drop(client.simple_query("select 1").await.expect("a row")),
            }
            times.push(begun.elapsed());
        }
        times.sort();
        println!(
            "select 1 over the Postgres protocol, {name}: median {:?}, 95 % {:?}",
            times[100], times[190]
        );
        assert!(
            times[100] < std::time::Duration::from_millis(50),
            "{:?}",
            times[100]
        );
    }
    server.stop().await;
}

#[tokio::test]
async fn cursors_return_rows_in_parts() {
    let server = start(config()).await;
    let client = postgres(&server).await;
    let declare = format!(
        "BEGIN; SAVEPOINT s; DECLARE c CURSOR FOR {ENDLESS}; DECLARE \"C\" CURSOR WITH HOLD FOR SELECT 7 AS x"
    );
    simple(&client, &declare).await.expect("cursors");
    assert_eq!(simple(&client, "FETCH 2 FROM c").await.expect("rows"), ["1", "2"]);
    assert_eq!(simple(&client, "FETCH c").await.expect("a row"), ["3"]);
    // Batches have other sizes than fetches.
    let moved = client.simple_query("MOVE 19997 IN c").await.expect("moved");
    assert!(
        matches!(moved.last(), Some(SimpleQueryMessage::CommandComplete(19997))),
        "{moved:?}"
    );
    let rows = client
        .query("FETCH FORWARD 3 FROM c", &[])
        .await
        .expect("rows in binary");
    let values: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(values, [20001, 20002, 20003]);
    assert_eq!(
        simple(&client, "FETCH 0 FROM c").await.expect("rows"),
        Vec::<String>::new()
    );
    assert_eq!(
        state(simple(&client, "DECLARE c CURSOR FOR SELECT 1").await).0,
        "42P03"
    );
    simple(&client, "ROLLBACK TO s").await.expect("resumed");
    assert_eq!(state(simple(&client, "FETCH PRIOR FROM c").await).0, "55000");
    simple(&client, "ROLLBACK TO SAVEPOINT s").await.expect("resumed");
    until("only the first cursor runs", || server.running() == 1).await;
    simple(&client, "COMMIT").await.expect("accepted");
    until("the cursor ends with the transaction", || server.running() == 0).await;
    assert_eq!(state(simple(&client, "FETCH c").await).0, "34000");
    assert_eq!(
        simple(&client, "FETCH ALL FROM \"C\"").await.expect("rows"),
        ["7"]
    );
    assert_eq!(
        simple(&client, "FETCH ALL FROM \"C\"").await.expect("no row"),
        Vec::<String>::new()
    );
    let cursors = "SELECT name, is_holdable FROM pg_catalog.pg_cursors";
    assert_eq!(simple(&client, cursors).await.expect("cursors"), ["C|t"]);
    simple(&client, "CLOSE \"C\"").await.expect("closed");
    assert_eq!(
        simple(&client, cursors).await.expect("no cursor"),
        Vec::<String>::new()
    );
    assert_eq!(state(simple(&client, "CLOSE \"C\"").await).0, "34000");
    assert_eq!(
        state(simple(&client, "DECLARE c CURSOR FOR CREATE TABLE t (a INT)").await).0,
        "22023"
    );
    server.stop().await;
}

#[tokio::test]
async fn cursors_take_parameters_and_end_with_their_connection() {
    let server = start(config()).await;
    let client = postgres(&server).await;
    let declare =
        "DECLARE c CURSOR FOR SELECT v FROM generate_series(1, 1000) AS t(v) WHERE v % $1 = 0 ORDER BY v";
    client.execute(declare, &[&10i64]).await.expect("a cursor");
    let rows = client.query("FETCH 2 FROM c", &[]).await.expect("rows");
    let values: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(values, [10, 20]);
    for number in 0..4 {
        let declare = format!("DECLARE c{number} CURSOR FOR {ENDLESS}");
        simple(&client, &declare).await.expect("a cursor");
    }
    simple(&client, "CLOSE ALL").await.expect("closed");
    until("closed cursors end", || server.running() == 0).await;
    simple(&client, &format!("DECLARE d CURSOR FOR {ENDLESS}"))
        .await
        .expect("a cursor");
    assert_eq!(server.running(), 1);
    drop(client);
    until("the cursor ends with its connection", || server.running() == 0).await;
    server.stop().await;
}

#[tokio::test]
async fn rows_are_copied_to_the_client() {
    let server = start(config()).await;
    let client = postgres(&server).await;
    let create = "CREATE TABLE t AS VALUES (1, 'a|b', DATE '2024-02-29', 1.5), (2, NULL, NULL, NULL)";
    simple(&client, create).await.expect("a table");
    let copy = async |statement: &str| {
        let lines = client.copy_out(statement).await.expect("a copy");
        let lines: Vec<_> = lines.try_collect().await.expect("lines");
        String::from_utf8(lines.concat()).expect("UTF-8")
    };
    let text = copy("COPY (SELECT * FROM t ORDER BY column1) TO STDOUT").await;
    assert_eq!(text, "1\ta|b\t2024-02-29\t1.5\n2\t\\N\t\\N\t\\N\n");
    let csv = "COPY (SELECT * FROM t ORDER BY 1) TO STDOUT (FORMAT csv, HEADER, DELIMITER '|')";
    assert_eq!(
        copy(csv).await,
        "column1|column2|column3|column4\n1|\"a|b\"|2024-02-29|1.5\n2|||\n"
    );
    assert_eq!(copy("COPY t (column1) TO STDOUT").await.lines().count(), 2);
    assert_eq!(
        copy("COPY (SELECT 1 AS a WHERE false) TO STDOUT CSV HEADER").await,
        "a\n"
    );
    let many = copy("COPY (SELECT v FROM generate_series(1, 100000) AS t(v)) TO STDOUT").await;
    assert_eq!(many.lines().count(), 100_000);
    assert_eq!(
        state(client.copy_out("COPY absent TO STDOUT").await.map(drop)).0,
        "42P01"
    );
    let error = "COPY (SELECT 1 / (v - 50000) FROM generate_series(1, 100000) AS t(v)) TO STDOUT";
    let lines = client.copy_out(error).await.expect("a copy");
    assert_eq!(state(lines.try_collect::<Vec<_>>().await).0, "22012");
    assert_eq!(simple(&client, "SELECT 1").await.expect("usable"), ["1"]);
    server.stop().await;
}
