//! The connections of the HTTP listener: HTTP/1.1, one request per connection.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use super::route::Web;
use crate::state::Shared;

/// The maximum time until the headers of a request have arrived.
const HEADERS: Duration = Duration::from_secs(10);

/// The maximum time of a request and its response, except for events.
const TIME: Duration = Duration::from_secs(60);

/// The maximum time of a stream of events. Its client opens another, with credentials that are still valid.
const EVENTS: Duration = Duration::from_secs(60 * 60);

/// The maximum size of the headers of a request, in bytes.
const REQUEST: usize = 16 << 10;

/// Connections at once.
const CONNECTIONS: usize = 64;

/// Serves until the task is dropped.
pub(crate) async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let slots = Arc::new(Semaphore::new(CONNECTIONS));
    let web = Arc::new(Web::new(shared));
    loop {
        let Ok((stream, peer)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let Ok(slot) = Arc::clone(&slots).try_acquire_owned() else {
            continue;
        };
        let web = Arc::clone(&web);
        tokio::spawn(async move {
            let _slot = slot;
            connection(stream, peer, &web).await;
        });
    }
}

/// Serves one connection until it ends, takes too long, or the server shuts down.
async fn connection(stream: TcpStream, peer: SocketAddr, web: &Arc<Web>) {
    let streams = Arc::new(AtomicBool::new(false));
    let responding = Arc::clone(&streams);
    let service = service_fn(|request| {
        let (web, streams) = (Arc::clone(web), Arc::clone(&responding));
        async move { web.respond(request, peer, &streams).await }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS)
        .max_buf_size(REQUEST)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    let too_long = async {
        tokio::time::sleep(TIME).await;
        if streams.load(Ordering::Relaxed) {
            tokio::time::sleep(EVENTS).await;
        }
    };
    // A client that fails tries again.
    tokio::select! {
        _ = connection => {}
        () = too_long => {}
    }
}
