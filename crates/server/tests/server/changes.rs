//! UPDATE, DELETE and TRUNCATE of clients: command tags, grants, errors and concurrent statements.

use galatea_server::Server;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_postgres::SimpleQueryMessage;
use tonic::Code;

use crate::support::{config, configured, flight_as, postgres_with, query, start, state, status, users};

async fn as_user(server: &Server, user: &str) -> tokio_postgres::Client {
    let connected = postgres_with(server, user, &format!("secret-{user}")).await;
    connected.expect("a connection")
}

/// The messages of the Postgres protocol that follow the statement, up to the next ReadyForQuery.
async fn messages(stream: &mut tokio::net::TcpStream) -> Vec<(u8, Vec<u8>)> {
    let mut all = Vec::new();
    loop {
        let kind = stream.read_u8().await.expect("a message");
        let length = stream.read_i32().await.expect("a length") as usize - 4;
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.expect("a body");
        all.push((kind, body));
        if kind == b'Z' {
            return all;
        }
    }
}

#[tokio::test]
async fn command_tags_have_the_number_of_changed_rows() {
    let server = start(config()).await;
    let address = server.postgres().expect("an address");
    let mut stream = tokio::net::TcpStream::connect(address).await.expect("connected");
    let parameters = b"\0\x03\0\0user\0ann\0\0";
    stream.write_i32(parameters.len() as i32 + 4).await.expect("sent");
    stream.write_all(parameters).await.expect("sent");
    messages(&mut stream).await;
    for (sql, tag) in [
        (
            "CREATE TABLE t AS SELECT value AS v FROM generate_series(1, 10)",
            "CREATE TABLE",
        ),
        ("UPDATE t SET v = v + 100 WHERE v > 7", "UPDATE 3"),
        ("UPDATE t SET v = 0 WHERE v IN (SELECT max(v) FROM t)", "UPDATE 1"),
        ("UPDATE t SET v = 0 WHERE v = -1", "UPDATE 0"),
        ("DELETE FROM t WHERE v <= 3", "DELETE 4"),
        ("DELETE FROM t WHERE NULL", "DELETE 0"),
        ("DELETE FROM t", "DELETE 6"),
        ("INSERT INTO t VALUES (1), (2)", "INSERT 0 2"),
        ("TRUNCATE TABLE t", "TRUNCATE TABLE"),
        ("SELECT * FROM t", "SELECT 0"),
    ] {
        stream.write_u8(b'Q').await.expect("sent");
        stream.write_i32(sql.len() as i32 + 5).await.expect("sent");
        stream
            .write_all(format!("{sql}\0").as_bytes())
            .await
            .expect("sent");
        let messages = messages(&mut stream).await;
        let tags = messages.iter().filter(|(kind, _)| *kind == b'C');
        let tags: Vec<_> = tags
            .map(|(_, body)| String::from_utf8_lossy(body).trim_end_matches('\0').to_owned())
            .collect();
        assert_eq!(tags, [tag], "{sql}");
    }
    server.stop().await;
}

#[tokio::test]
async fn roles_without_write_change_nothing() {
    let grants = users("tables = ['open_*']", "tables = ['*']\nwrite = true");
    let server = start(configured(&grants)).await;
    let bob = as_user(&server, "bob").await;
    let ann = as_user(&server, "ann").await;
    bob.batch_execute(
        "CREATE TABLE open_a AS SELECT 1 AS a; CREATE TABLE closed AS SELECT 2 AS b; CREATE VIEW open_view AS SELECT b FROM closed",
    )
    .await
    .expect("created");
    let statements = [
        "UPDATE open_a SET a = 5",
        "DELETE FROM open_a",
        "TRUNCATE open_a",
        "DELETE FROM open_a WHERE a IN (SELECT a FROM open_a)",
        "EXPLAIN ANALYZE UPDATE open_a SET a = 5",
        "EXPLAIN ANALYZE TRUNCATE open_a",
        "PREPARE p AS UPDATE open_a SET a = 5",
        "PREPARE p AS TRUNCATE open_a",
        "UPDATE closed SET b = 5",
        "DELETE FROM open_view",
    ];
    let mut flight = flight_as(&server, "ann").await;
    for sql in statements {
        let (code, message) = state(ann.simple_query(sql).await);
        assert_eq!(code, "42501", "{sql}: {message}");
        let (code, message) = state(ann.query(sql, &[]).await);
        assert_eq!(code, "42501", "{sql}: {message}");
        let (code, message) = status(flight.execute_update(sql.to_owned(), None).await);
        assert_eq!(code, Code::PermissionDenied, "{sql}: {message}");
    }
    // A role that writes changes the tables that it sees, also by conditions on others.
    assert_eq!(
        bob.execute(
            "UPDATE open_a SET a = 7 WHERE a < (SELECT max(b) FROM closed)",
            &[]
        )
        .await
        .expect("changed"),
        1
    );
    let rows = query(&mut flight, "SELECT a FROM open_a").await.expect("rows");
    assert!(rows.contains("| 7 |"), "{rows}");
    server.stop().await;
}

#[tokio::test]
async fn writers_change_visible_tables_only() {
    let grants = users(
        "tables = ['open_*']\nwrite = true",
        "tables = ['*']\nwrite = true",
    );
    let server = start(configured(&grants)).await;
    let bob = as_user(&server, "bob").await;
    let ann = as_user(&server, "ann").await;
    bob.batch_execute("CREATE TABLE open_a AS SELECT 1 AS a; CREATE TABLE closed AS SELECT 1 AS a")
        .await
        .expect("created");
    for sql in [
        "UPDATE closed SET a = 5",
        "DELETE FROM closed",
        "TRUNCATE closed",
        "DELETE FROM open_a WHERE a IN (SELECT a FROM closed)",
        "UPDATE open_a SET a = (SELECT max(a) FROM closed)",
    ] {
        let (code, message) = state(ann.simple_query(sql).await);
        assert_eq!(code, "42P01", "{sql}: {message}");
    }
    assert_eq!(
        ann.execute("UPDATE open_a SET a = 5", &[])
            .await
            .expect("changed"),
        1
    );
    let row = bob
        .query_one(
            "SELECT (SELECT a FROM open_a)::BIGINT AS one, (SELECT a FROM closed)::BIGINT AS two",
            &[],
        )
        .await
        .expect("a row");
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (5, 1));
    server.stop().await;
}

#[tokio::test]
async fn errors_have_their_sqlstate() {
    let server = start(config()).await;
    let client = as_user(&server, "ann").await;
    client
        .batch_execute(
            "CREATE TABLE t(a BIGINT NOT NULL, b BIGINT) AS VALUES (1, 10), (2, 20); CREATE VIEW w AS SELECT * FROM t",
        )
        .await
        .expect("created");
    for (sql, expected, part) in [
        (
            "UPDATE t SET a = NULL WHERE a = 2",
            "23502",
            "NULL in the column 'a'",
        ),
        (
            "UPDATE t SET a = nullif(a, 2)",
            "23502",
            "NOT NULL in the table t",
        ),
        ("UPDATE w SET a = 1", "0A000", "the view w"),
        ("DELETE FROM t LIMIT 1", "0A000", "LIMIT"),
        ("UPDATE t SET b = 1 RETURNING b", "0A000", "RETURNING"),
        ("UPDATE t SET b = 1 RETURNING b", "0A000", "RETURNING"),
        ("UPDATE t SET b = 1 / (a - 1)", "22012", "zero"),
        ("UPDATE t SET b = b + 9223372036854775807", "22003", "verflow"),
        ("UPDATE missing SET b = 1", "42P01", "missing"),
        ("DELETE FROM t WHERE c = 1", "42703", "c"),
    ] {
        let (code, message) = state(client.simple_query(sql).await);
        assert_eq!(code, expected, "{sql}: {message}");
        assert!(message.contains(part), "{sql}: {message}");
    }
    let row = client
        .query_one("SELECT count(*), sum(a)::BIGINT, sum(b)::BIGINT FROM t", &[])
        .await
        .expect("a row");
    assert_eq!(
        (row.get::<_, i64>(0), row.get::<_, i64>(1), row.get::<_, i64>(2)),
        (2, 3, 30)
    );

    // A statement that was prepared for a table which has been replaced.
    let update = client.prepare("UPDATE t SET b = 0").await.expect("prepared");
    assert_eq!(client.execute(&update, &[]).await.expect("changed"), 2);
    assert_eq!(client.execute(&update, &[]).await.expect("changed again"), 2);
    client
        .batch_execute("CREATE OR REPLACE TABLE t AS SELECT 1 AS a, 2 AS b")
        .await
        .expect("replaced");
    let (code, message) = state(client.execute(&update, &[]).await);
    assert_eq!(code, "42P01", "{message}");
    assert!(message.contains("dropped or replaced"), "{message}");
    server.stop().await;
}

/// Each statement either adds one to all rows or fails with the state of a conflict.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_updates_lose_nothing() {
    let server = start(config()).await;
    let first = as_user(&server, "ann").await;
    first
        .batch_execute("CREATE TABLE t AS SELECT 0 AS v FROM generate_series(1, 1000)")
        .await
        .expect("created");
    let mut tasks = Vec::new();
    for _ in 0..4 {
        let client = as_user(&server, "ann").await;
        tasks.push(tokio::spawn(async move {
            let mut changed = 0_i64;
            for _ in 0..20 {
                match client.simple_query("UPDATE t SET v = v + 1").await {
                    Ok(messages) => {
                        let last = messages.last();
                        assert!(
                            matches!(last, Some(SimpleQueryMessage::CommandComplete(1000))),
                            "{last:?}"
                        );
                        changed += 1;
                    }
                    error => {
                        let (code, message) = state(error);
                        assert_eq!(code, "40001", "{message}");
                    }
                }
            }
            changed
        }));
    }
    let mut changed = 0;
    for task in tasks {
        changed += task.await.expect("no panic");
    }
    assert!(changed >= 20, "{changed}");
    let row = first
        .query_one("SELECT count(*), min(v)::BIGINT, max(v)::BIGINT FROM t", &[])
        .await
        .expect("a row");
    assert_eq!(
        (row.get::<_, i64>(0), row.get::<_, i64>(1), row.get::<_, i64>(2)),
        (1000, changed, changed)
    );
    server.stop().await;
}
