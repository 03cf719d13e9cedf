//! Metrics, health, tables of folders, and shutdown.

use std::fs;
use std::time::{Duration, Instant};

use tonic::Code;

use crate::support::{LONG, config, fetch, flight, http, postgres, query, start, state, status, until};

#[tokio::test]
async fn http_reports_health_and_metrics() {
    let server = start(config()).await;
    let health = http(&server, "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n").await;
    assert!(
        health.starts_with("HTTP/1.1 200 OK") && health.ends_with("ok\n"),
        "{health}"
    );
    query(&mut flight(&server).await, "SELECT 1")
        .await
        .expect("a row");
    until("the query has ended", || server.running() == 0).await;
    let metrics = http(&server, "GET /metrics HTTP/1.1\r\n\r\n").await;
    for name in [
        "galatea_server_queries_total{protocol=\"flight\",outcome=\"done\"}",
        "galatea_server_query_seconds_bucket",
        "galatea_server_sessions",
        "galatea_plans_total",
    ] {
        assert!(metrics.contains(name), "{name}\n{metrics}");
    }
    assert!(
        http(&server, "GET /etc/passwd HTTP/1.1\r\n\r\n")
            .await
            .starts_with("HTTP/1.1 404")
    );
    assert!(
        http(&server, "POST /metrics HTTP/1.1\r\n\r\n")
            .await
            .starts_with("HTTP/1.1 405")
    );
    server.stop().await;
}

#[tokio::test]
async fn folders_are_tables_of_all_sessions() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("sales.csv"), "a,b\n1,2\n3,4\n").expect("written");
    let mut with_tables = config();
    with_tables.folders = vec![folder.path().to_path_buf()];
    let server = start(with_tables).await;
    assert_eq!(server.tables(), 1);
    let table = query(&mut flight(&server).await, "SELECT sum(a * b) AS s FROM sales")
        .await
        .expect("rows");
    assert!(table.contains("| 14 |"), "{table}");
    let row = postgres(&server)
        .await
        .query_one("SELECT max(b) FROM sales", &[])
        .await
        .expect("a row");
    assert_eq!(row.get::<_, i64>(0), 4);
    server.stop().await;
}

#[tokio::test]
async fn shutdown_waits_for_running_queries_and_refuses_new_ones() {
    let server = start(config()).await;
    let mut client = flight(&server).await;
    let idle = postgres(&server).await;
    let sql = "SELECT count(*) AS n FROM generate_series(1, 20000000) AS t(v) WHERE v % 7 = 3";
    let info = client.execute(sql.to_string(), None).await.expect("planned");
    let next = client
        .execute("SELECT 1".to_string(), None)
        .await
        .expect("planned");
    let ticket = info.endpoint[0].ticket.clone().expect("a ticket");
    let stream = client.do_get(ticket).await.expect("started");
    until("the query runs", || server.running() == 1).await;
    let stopping = tokio::spawn(server.stop());
    until("the idle connection is closed", || idle.is_closed()).await;
    let refused = fetch(&mut client, next).await.expect_err("refused").to_string();
    assert!(
        refused.contains("shuts down") || refused.contains("transport") || refused.contains("GO"),
        "{refused}"
    );
    let rows: Vec<_> = futures::TryStreamExt::try_collect(stream)
        .await
        .expect("the query ends");
    let rows: Vec<arrow::array::RecordBatch> = rows;
    assert_eq!(
        rows.iter()
            .map(arrow::array::RecordBatch::num_rows)
            .sum::<usize>(),
        1
    );
    stopping.await.expect("no panic");
}

#[tokio::test]
async fn shutdown_stops_queries_after_the_grace_period() {
    let mut brief = config();
    brief.grace = Duration::from_millis(200);
    let server = start(brief).await;
    let mut client = flight(&server).await;
    let other = postgres(&server).await;
    let info = client.execute(LONG.to_string(), None).await.expect("planned");
    let stream = client
        .do_get(info.endpoint[0].ticket.clone().expect("a ticket"))
        .await
        .expect("started");
    let running = tokio::spawn(async move { state(other.simple_query(LONG).await) });
    until("both queries run", || server.running() == 2).await;
    let begun = Instant::now();
    server.stop().await;
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    assert_eq!(
        status(futures::TryStreamExt::try_collect::<Vec<_>>(stream).await).0,
        Code::Unavailable
    );
    assert_eq!(running.await.expect("no panic").0, "57P01");
}

#[tokio::test]
async fn queries_of_all_sessions_run_on_one_device() {
    let mut emulated = config();
    emulated.settings = vec![("galatea.device".to_string(), "emulated".to_string())];
    let server = start(emulated).await;
    let mut one = flight(&server).await;
    let create = "CREATE TABLE t AS SELECT v % 7 AS k, v FROM generate_series(1, 5000) AS s(v)";
    one.execute_update(create.to_string(), None)
        .await
        .expect("created");
    let sql = "SELECT k, count(*) AS n FROM t GROUP BY k ORDER BY k LIMIT 1";
    let table = query(&mut one, sql).await.expect("rows");
    assert!(table.contains("| 0 | 714 |"), "{table}");
    // The other session finds the column in device memory.
    let other = postgres(&server).await;
    let rows = other.query("SELECT region FROM galatea_memory()", &[]).await;
    assert!(!rows.expect("rows").is_empty());
    let row = other.query_one(sql, &[]).await.expect("a row");
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (0, 714));
    server.stop().await;
}
