//! The page and its feed over HTTP.

mod access;
mod events;
mod statements;

use std::time::{Duration, Instant};

use galatea_server::feed::{Problem, Snapshot};
use galatea_server::{Config, Server};
use serde::de::DeserializeOwned;

use crate::support::{config, http};

/// A response: the status line with the headers, and the body.
pub(super) struct Response {
    pub(super) head: String,
    pub(super) body: String,
}

impl Response {
    pub(super) fn code(&self) -> u16 {
        let code = self.head.split(' ').nth(1).and_then(|code| code.parse().ok());
        code.unwrap_or_else(|| panic!("no status: {}", self.head))
    }

    pub(super) fn document<T: DeserializeOwned>(&self) -> T {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    /// The kind of an error.
    pub(super) fn error(&self) -> String {
        self.document::<Problem>().error
    }
}

/// Sends a request with headers, each with its line end.
pub(super) async fn send(server: &Server, method: &str, path: &str, headers: &str, body: &str) -> Response {
    let host = if headers.contains("Host:") {
        ""
    } else {
        "Host: localhost\r\n"
    };
    let length = body.len();
    let request =
        format!("{method} {path} HTTP/1.1\r\n{host}{headers}Content-Length: {length}\r\n\r\n{body}");
    let response = http(server, &request).await;
    let (head, body) = response.split_once("\r\n\r\n").expect("a response");
    Response {
        head: head.to_string(),
        body: body.to_string(),
    }
}

pub(super) async fn get(server: &Server, path: &str, headers: &str) -> Response {
    send(server, "GET", path, headers, "").await
}

pub(super) async fn snapshot(server: &Server) -> Snapshot {
    let response = get(server, "/api/snapshot", "").await;
    assert_eq!(response.code(), 200, "{}", response.body);
    response.document()
}

/// Snapshots until one has the property.
pub(super) async fn snapshot_with(server: &Server, what: &str, has: impl Fn(&Snapshot) -> bool) -> Snapshot {
    let begun = Instant::now();
    loop {
        let snapshot = snapshot(server).await;
        if has(&snapshot) {
            return snapshot;
        }
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "not in time: {what}: {snapshot:?}"
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

pub(super) fn emulated() -> Config {
    let mut emulated = config();
    emulated.settings = vec![("galatea.device".to_string(), "emulated".to_string())];
    emulated
}
