//! `/healthz` and `/metrics`, for monitors of the machine. A small part of HTTP/1.1: GET, one request per
//! connection.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::state::Shared;

/// The maximum size of a request, in bytes.
const REQUEST: usize = 8 << 10;

/// The time of a request and its response.
const TIME: Duration = Duration::from_secs(10);

/// Requests at once.
const REQUESTS: usize = 32;

/// Upper bounds of the histograms, in seconds.
const BUCKETS: [f64; 12] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 300.0,
];

/// The recorder of the process, which all its servers share.
static RECORDER: OnceLock<Option<PrometheusHandle>> = OnceLock::new();

/// Installs the recorder, unless the process has another one.
pub(crate) fn install_recorder() -> Option<PrometheusHandle> {
    let handle = RECORDER.get_or_init(|| {
        let recorder = PrometheusBuilder::new()
            .set_buckets(&BUCKETS)
            .ok()?
            .build_recorder();
        let handle = recorder.handle();
        metrics::set_global_recorder(recorder).ok()?;
        crate::metrics::describe();
        Some(handle)
    });
    handle.clone()
}

/// Serves until the task is dropped.
pub(crate) async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let slots = Arc::new(Semaphore::new(REQUESTS));
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let Ok(slot) = Arc::clone(&slots).try_acquire_owned() else {
            continue;
        };
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            let _slot = slot;
            // A monitor that fails tries again.
            let _ = timeout(TIME, answer(stream, &shared)).await;
        });
    }
}

/// The path of a request; `None` before the end of its headers.
fn path_of(request: &[u8]) -> Option<Result<&str, ()>> {
    let end = request.windows(4).position(|bytes| bytes == b"\r\n\r\n")?;
    let line = str::from_utf8(&request[..end])
        .ok()
        .and_then(|text| text.lines().next());
    let mut words = line.unwrap_or_default().split(' ');
    Some(match (words.next(), words.next(), words.next()) {
        (Some("GET" | "HEAD"), Some(path), Some("HTTP/1.0" | "HTTP/1.1")) => {
            Ok(path.split('?').next().unwrap_or(path))
        }
        _ => Err(()),
    })
}

fn response(path: Option<Result<&str, ()>>, shared: &Shared) -> (&'static str, &'static str, String) {
    const TEXT: &str = "text/plain; charset=utf-8";
    match path {
        Some(Ok("/healthz")) if shared.is_stopping() => {
            ("503 Service Unavailable", TEXT, "stopping\n".to_string())
        }
        Some(Ok("/healthz")) => ("200 OK", TEXT, "ok\n".to_string()),
        Some(Ok("/metrics")) => match RECORDER.get().and_then(Option::as_ref) {
            Some(handle) => (
                "200 OK",
                "text/plain; version=0.0.4; charset=utf-8",
                handle.render(),
            ),
            None => (
                "503 Service Unavailable",
                TEXT,
                "the process has another recorder of metrics\n".to_string(),
            ),
        },
        Some(Ok(_)) => (
            "404 Not Found",
            TEXT,
            "paths are /healthz and /metrics\n".to_string(),
        ),
        Some(Err(())) | None => ("400 Bad Request", TEXT, "bad request\n".to_string()),
    }
}

async fn answer(mut stream: TcpStream, shared: &Shared) -> std::io::Result<()> {
    let mut request = Vec::new();
    while path_of(&request).is_none() && request.len() < REQUEST {
        if stream.read_buf(&mut request).await? == 0 {
            break;
        }
    }
    let (status, content, body) = response(path_of(&request), shared);
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    if !request.starts_with(b"HEAD ") {
        stream.write_all(body.as_bytes()).await?;
    }
    stream.shutdown().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_parsed() {
        assert_eq!(path_of(b"GET /metrics HTTP/1.1\r\nHost"), None);
        assert_eq!(
            path_of(b"GET /metrics?x=1 HTTP/1.1\r\n\r\n"),
            Some(Ok("/metrics"))
        );
        assert_eq!(path_of(b"POST /metrics HTTP/1.1\r\n\r\n"), Some(Err(())));
        assert_eq!(path_of(b"\xff\r\n\r\n"), Some(Err(())));
    }
}
