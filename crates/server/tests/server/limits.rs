//! Limits of roles.

use std::time::{Duration, Instant};

use tonic::Code;

use crate::support::{LONG, configured, flight, postgres, query, start, state, status, until};

#[tokio::test]
async fn time_and_rows_are_limited() {
    let server = start(configured("[limits]\ntime = '300 ms'\nrows = 1000")).await;
    let mut client = flight(&server).await;
    let begun = Instant::now();
    let (code, message) = status(query(&mut client, LONG).await);
    assert_eq!(code, Code::DeadlineExceeded, "{message}");
    assert!(begun.elapsed() < Duration::from_secs(5));
    assert!(
        query(&mut client, "SELECT v FROM generate_series(1, 1000) AS t(v)")
            .await
            .is_ok()
    );
    let (code, message) = status(query(&mut client, "SELECT v FROM generate_series(1, 1001) AS t(v)").await);
    assert_eq!(code, Code::ResourceExhausted);
    assert!(message.contains("limits.rows"), "{message}");
    let client = postgres(&server).await;
    assert_eq!(state(client.simple_query(LONG).await).0, "57014");
    let rows = client
        .query("SELECT v FROM generate_series(1, 1001) AS t(v)", &[])
        .await;
    assert_eq!(state(rows).0, "53400");
    until("the queries have ended", || server.running() == 0).await;
    server.stop().await;
}

#[tokio::test]
async fn memory_is_limited() {
    let server = start(configured("[limits]\nmemory = '1 MiB'")).await;
    let mut client = flight(&server).await;
    let sql = "SELECT v % 1000003 AS k, count(*) AS n FROM generate_series(1, 3000000) AS t(v) GROUP BY 1 ORDER BY n DESC LIMIT 1";
    let (code, message) = status(query(&mut client, sql).await);
    assert_eq!(code, Code::ResourceExhausted, "{message}");
    assert!(query(&mut client, "SELECT 1").await.is_ok());
    server.stop().await;
}

#[tokio::test]
async fn concurrent_queries_and_sessions_are_limited() {
    let server = start(configured("[limits]\nqueries = 1\nsessions = 2")).await;
    let mut client = flight(&server).await;
    let info = client.execute(LONG.to_string(), None).await.expect("planned");
    let ticket = info.endpoint[0].ticket.clone().expect("a ticket");
    let stream = client.do_get(ticket).await.expect("started");
    until("the query runs", || server.running() == 1).await;
    let second = postgres(&server).await;
    let (code, message) = state(second.simple_query("SELECT 1").await);
    assert_eq!(code, "53400");
    assert!(message.contains("limits.queries"), "{message}");
    let third = crate::support::postgres_with(&server, "ann", "").await;
    let (code, message) = state(third);
    assert_eq!(code, "53400");
    assert!(message.contains("limits.sessions"), "{message}");
    drop(stream);
    until("the query stops", || server.running() == 0).await;
    assert!(second.simple_query("SELECT 1").await.is_ok());
    // The session of a closed connection ends.
    drop(client);
    let begun = Instant::now();
    while crate::support::postgres_with(&server, "ann", "").await.is_err() {
        assert!(begun.elapsed() < Duration::from_secs(10));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    server.stop().await;
}

#[tokio::test]
async fn idle_sessions_end() {
    let server = start(configured("[limits]\nidle = '200 ms'")).await;
    let mut client = flight(&server).await;
    client.handshake("ann", "").await.expect("a session");
    client
        .execute_update("SET datafusion.explain.format = 'tree'".to_string(), None)
        .await
        .expect("set");
    let other = postgres(&server).await;
    assert!(other.simple_query("SELECT 1").await.is_ok());
    until("the connection is closed", || other.is_closed()).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    // The token is unknown now; a server without users opens a new session for the connection.
    let shown = query(&mut client, "SHOW datafusion.explain.format")
        .await
        .expect("rows");
    assert!(!shown.contains("tree"), "{shown}");
    server.stop().await;
}
