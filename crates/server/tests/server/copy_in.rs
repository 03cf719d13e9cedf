//! `COPY table FROM STDIN` of the Postgres protocol, with tokio-postgres and with psql.

use std::io::Write;
use std::process::{Command, Stdio};

use bytes::Bytes;
use futures::SinkExt;
use tokio_postgres::Client;

use crate::support::{config, configured, postgres, postgres_with, start, state, users};

/// Sends `pieces` by COPY. Returns the number of rows.
async fn copied(client: &Client, sql: &str, pieces: &[&str]) -> Result<u64, tokio_postgres::Error> {
    let sink = client.copy_in(sql).await?;
    let mut sink = std::pin::pin!(sink);
    for piece in pieces {
        sink.send(Bytes::copy_from_slice(piece.as_bytes())).await?;
    }
    sink.finish().await
}

/// The rows of a query, with values separated by `|`.
async fn rows(client: &Client, sql: &str) -> Vec<String> {
    let messages = client.simple_query(sql).await.expect(sql);
    let rows = messages.into_iter().filter_map(|message| match message {
        tokio_postgres::SimpleQueryMessage::Row(row) => {
            let values = (0..row.len()).map(|column| row.get(column).unwrap_or("NULL").to_string());
            Some(values.collect::<Vec<_>>().join("|"))
        }
        _ => None,
    });
    rows.collect()
}

#[tokio::test]
async fn rows_of_each_type_are_copied() {
    let server = start(config()).await;
    let client = postgres(&server).await;
    client
        .simple_query(
            "CREATE TABLE t (a BIGINT, b VARCHAR, c DOUBLE, d DATE, e TIMESTAMP, f DECIMAL(10, 2), g BOOLEAN, h BYTEA)",
        )
        .await
        .expect("created");
    let data = "1\tx\t1.5\t2026-11-29\t2026-11-29 12:30:00\t1.25\tt\t\\\\x0aff\n\
                2\t\\N\t\\N\t\\N\t\\N\t\\N\t\\N\t\\N\n\
                -3\ta\\tb\t-1e3\t1969-12-31\t1969-12-31 23:59:59\t-0.5\tfalse\t\\\\x\n";
    assert_eq!(
        copied(&client, "COPY t FROM STDIN", &[data])
            .await
            .expect("copied"),
        3
    );
    let expected = [
        "-3|a\tb|-1000.0|1969-12-31|1969-12-31 23:59:59|-0.50|f|\\x",
        "1|x|1.5|2026-11-29|2026-11-29 12:30:00|1.25|t|\\x0aff",
        "2|NULL|NULL|NULL|NULL|NULL|NULL|NULL",
    ];
    let found = rows(&client, "SELECT * FROM t ORDER BY a").await;
    for (found, expected) in found.iter().zip(expected) {
        assert_eq!(found.replace(".000000", ""), expected);
    }
    assert_eq!(found.len(), 3);
    // Some columns, in another order, in pieces that cut values.
    let pieces = ["b,a\n\"li", "ne\nb\",", "1", "0\n,11"];
    let copy = "COPY t (b, \"a\") FROM STDIN WITH (FORMAT csv, HEADER)";
    assert_eq!(copied(&client, copy, &pieces).await.expect("copied"), 2);
    assert_eq!(
        rows(&client, "SELECT a, b, c FROM t WHERE a >= 10 ORDER BY a").await,
        ["10|line\nb|NULL", "11|NULL|NULL"]
    );
    // No row at all, and many rows.
    assert_eq!(
        copied(&client, "COPY t FROM STDIN", &[]).await.expect("copied"),
        0
    );
    let many: Vec<String> = (0..20_000).map(|n| format!("{n}\n")).collect();
    let many = many.concat();
    client
        .simple_query("CREATE TABLE n (v INT)")
        .await
        .expect("created");
    assert_eq!(
        copied(&client, "COPY n FROM STDIN", &[&many])
            .await
            .expect("copied"),
        20_000
    );
    assert_eq!(
        rows(&client, "SELECT count(*), sum(v) FROM n").await,
        ["20000|199990000"]
    );
    server.stop().await;
}

#[tokio::test]
async fn failed_copy_inserts_nothing() {
    let server = start(config()).await;
    let client = postgres(&server).await;
    client
        .simple_query("CREATE TABLE t (a BIGINT, b DATE)")
        .await
        .expect("created");
    for (options, data, code, message) in [
        (
            "",
            "1\t2026-11-29\n2\n",
            "22P04",
            "missing data for column \"b\" (COPY t, line 2: 1 of 2 columns)",
        ),
        (
            "",
            "1\t\\N\tx\n",
            "22P04",
            "extra data after last expected column (COPY t, line 1: 3 values for 2 columns)",
        ),
        (
            "",
            "1\t\\N\n\n3\t\\N\n",
            "22P04",
            "missing data for column \"b\" (COPY t, line 2: 1 of 2 columns)",
        ),
        (
            "",
            "1\t\\N\nx\t\\N\n",
            "22P02",
            "invalid input syntax for type int8: \"x\" (COPY t, line 2, column a)",
        ),
        (
            "CSV HEADER",
            "a,b\n1,\n2,29.11.2026\n",
            "22P02",
            "invalid input syntax for type date: \"29.11.2026\" (COPY t, line 3, column b)",
        ),
        (
            "CSV",
            "1,\n\"2,\n",
            "22P04",
            "unterminated CSV quoted field (line 2)",
        ),
        (
            "CSV",
            "99999999999999999999,\n",
            "22P02",
            "invalid input syntax for type int8: \"99999999999999999999\" (COPY t, line 1, column a)",
        ),
    ] {
        let failed = copied(&client, &format!("COPY t FROM STDIN {options}"), &[data]).await;
        assert_eq!(state(failed), (code.to_string(), message.to_string()), "{data:?}");
        // The connection goes on.
        assert_eq!(rows(&client, "SELECT count(*) FROM t").await, ["0"], "{data:?}");
    }
    for (sql, code) in [
        ("COPY none FROM STDIN", "42P01"),
        ("COPY t (a, c) FROM STDIN", "42703"),
        ("COPY t FROM STDIN (FORMAT binary)", "0A000"),
        ("COPY t FROM STDIN (DELIMITER 'ab')", "22023"),
    ] {
        assert_eq!(state(copied(&client, sql, &[]).await).0, code, "{sql}");
    }
    // An error in a later piece, and a client that gives up.
    let failed = copied(
        &client,
        "COPY t FROM STDIN",
        &["1\t\\N\n", "2\t\\N\n", "y\t\\N\n", "3\t\\N\n"],
    )
    .await;
    assert_eq!(state(failed).0, "22P02");
    let sink = client
        .copy_in::<_, Bytes>("COPY t FROM STDIN")
        .await
        .expect("begun");
    {
        let mut sink = Box::pin(sink);
        sink.send(Bytes::from_static(b"5\t\\N\n")).await.expect("sent");
    }
    assert_eq!(rows(&client, "SELECT count(*) FROM t").await, ["0"]);
    assert_eq!(
        copied(&client, "COPY t FROM STDIN", &["7\t\\N\n"])
            .await
            .expect("copied"),
        1
    );
    server.stop().await;
}

#[tokio::test]
async fn copy_needs_the_grant_to_write() {
    let server = start(configured(&users(
        "tables = ['*']",
        "tables = ['*']\nwrite = true",
    )))
    .await;
    let writer = postgres_with(&server, "bob", "secret-bob")
        .await
        .expect("a connection");
    writer
        .simple_query("CREATE TABLE t (a INT)")
        .await
        .expect("created");
    assert_eq!(
        copied(&writer, "COPY t FROM STDIN", &["1\n"])
            .await
            .expect("copied"),
        1
    );
    let reader = postgres_with(&server, "ann", "secret-ann")
        .await
        .expect("a connection");
    assert_eq!(
        state(copied(&reader, "COPY t FROM STDIN", &["2\n"]).await).0,
        "42501"
    );
    assert_eq!(rows(&reader, "SELECT count(*) FROM t").await, ["1"]);
    server.stop().await;
}

#[tokio::test]
async fn copied_rows_count_against_the_memory_limit() {
    let limits = "tables = ['*']\nwrite = true\n[roles.analyst.limits]\nmemory = '1 MiB'";
    let server = start(configured(&users(limits, "tables = ['*']\nwrite = true"))).await;
    let client = postgres_with(&server, "ann", "secret-ann")
        .await
        .expect("a connection");
    client
        .simple_query("CREATE TABLE t (a VARCHAR)")
        .await
        .expect("created");
    let row = format!("{}\n", "x".repeat(1000));
    let failed = copied(&client, "COPY t FROM STDIN", &[&row.repeat(4000)]).await;
    assert_eq!(state(failed).0, "53400");
    assert_eq!(rows(&client, "SELECT count(*) FROM t").await, ["0"]);
    server.stop().await;
}

/// Runs psql with a script, if it is installed. Returns its output.
async fn psql(port: u16, script: &str) -> Option<(String, String)> {
    let script = script.to_string();
    let run = move || {
        let child = Command::new("psql")
            .args(["-X", "-q", "-t", "-A", "-h", "127.0.0.1", "-U", "ann", "-p"])
            .arg(port.to_string())
            .arg("postgres")
            .env("PGPASSWORD", "secret-ann")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let mut child = child.ok()?;
        child.stdin.take()?.write_all(script.as_bytes()).ok()?;
        let output = child.wait_with_output().ok()?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_string();
        Some((text(&output.stdout), text(&output.stderr)))
    };
    tokio::task::spawn_blocking(run).await.expect("psql ends")
}

/// In the simple protocol, an error ends the copy at once.
#[tokio::test(flavor = "multi_thread")]
async fn psql_copies_its_input_and_files() {
    let server = start(config()).await;
    let port = server.postgres().expect("an address").port();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("rows.csv");
    std::fs::write(&file, "a,b\n3,\"x,y\"\n4,\n").expect("written");
    let script = format!(
        "CREATE TABLE t (a BIGINT, b VARCHAR);\nCOPY t FROM STDIN;\n1\tone\n2\t\\N\n\\.\n\
         \\copy t FROM '{}' WITH (FORMAT csv, HEADER)\n\
         COPY t FROM STDIN CSV;\nx,y\n5,z\n\\.\n\
         SELECT a, b FROM t ORDER BY a;\n",
        file.display()
    );
    let Some((out, err)) = psql(port, &script).await else {
        server.stop().await;
        return;
    };
    assert_eq!(out, "1|one\n2|\n3|x,y\n4|");
    assert!(
        err.contains("invalid input syntax for type int8: \"x\" (COPY t, line 1, column a)"),
        "{err}"
    );
    server.stop().await;
}
