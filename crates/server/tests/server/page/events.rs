//! Server-sent events.

use std::time::{Duration, Instant};

use galatea_server::{Credentials, Monitor};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{config, flight, query, start};

#[tokio::test]
async fn events_arrive_and_slow_readers_delay_nobody() {
    let server = start(config()).await;
    let address = server.http().expect("an address").to_string();
    let mut slow = Vec::new();
    for _ in 0..8 {
        let mut socket = tokio::net::TcpStream::connect(&address)
            .await
            .expect("a connection");
        let request = b"GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n";
        socket.write_all(request).await.expect("sent");
        let mut first = [0; 12];
        socket.read_exact(&mut first).await.expect("a response");
        assert_eq!(&first, b"HTTP/1.1 200");
        slow.push(socket);
    }
    let mut client = flight(&server).await;
    let begun = Instant::now();
    for _ in 0..20 {
        query(&mut client, "SELECT 1").await.expect("a row");
    }
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    let monitor = Monitor::connect(&address, &Credentials::None)
        .await
        .expect("a connection");
    let mut events = monitor.events().await.expect("a stream");
    let first = events.next().await.expect("an event").expect("an event");
    assert_eq!(first.history.map(|history| history.len()), Some(20));
    let begun = Instant::now();
    let second = events.next().await.expect("an event").expect("an event");
    assert_eq!(second.history, None);
    query(&mut client, "SELECT 2").await.expect("a row");
    let mut with_history = None;
    let mut count = 0;
    while with_history.is_none() {
        count += 1;
        assert!(count < 100, "no event with the new history");
        with_history = events.next().await.expect("an event").expect("an event").history;
    }
    assert_eq!(with_history.expect("a history")[0].statement, "SELECT 2");
    for _ in 0..3 {
        events.next().await.expect("an event").expect("an event");
    }
    // At most about three per second.
    assert!(
        begun.elapsed() > Duration::from_millis(500),
        "{:?}",
        begun.elapsed()
    );
    drop(slow);
    server.stop().await;
}
