//! The listener of the Postgres protocol, and the messages of a connection.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::{SinkExt, StreamExt};
use pgwire::api::{ClientInfo, DefaultClient, PgWireConnectionState};
use pgwire::error::{ErrorInfo, PgWireError};
use pgwire::messages::{PgWireBackendMessage, PgWireFrontendMessage};
use pgwire::tokio::server::{PgWireMessageServerCodec, process_error, process_message};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, Interest};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_util::codec::Framed;

use super::connection::Connection;
use super::errors::fatal_state;
use super::limits::Limited;
use super::registry::Registry;
use super::statements::{Extended, PgStatement, Planner};
use crate::metrics::REFUSED;
use crate::state::Shared;

/// The time that a client has to authenticate.
const AUTHENTICATION: Duration = Duration::from_secs(30);

/// The most connections at once, authenticated or not.
const CONNECTIONS: usize = 2000;

/// The pause after a failed accept, such as one without a free file descriptor.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Codes in place of a protocol version: requests for TLS and for GSSAPI.
const TLS_REQUEST: u32 = 80_877_103;
const GSSAPI_REQUEST: u32 = 80_877_104;

/// The first byte of a TLS connection without a request.
const TLS_HANDSHAKE: u8 = 0x16;

/// Serves until `stop` resolves, and then until all connections end.
pub(crate) async fn serve(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    shared: Arc<Shared>,
    stop: impl Future<Output = ()>,
) {
    let registry = Arc::new(Registry::default());
    let slots = Arc::new(Semaphore::new(CONNECTIONS));
    let mut connections = JoinSet::new();
    tokio::pin!(stop);
    loop {
        let accepted = tokio::select! {
            () = &mut stop => break,
            Some(ended) = connections.join_next() => {
                if ended.is_err_and(|error| error.is_panic()) {
                    tracing::warn!(target: "galatea::server", "a connection panicked on a wrong message");
                }
                continue;
            }
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                // A connection beyond the limit is closed.
                let Ok(slot) = Arc::clone(&slots).try_acquire_owned() else {
                    tracing::warn!(target: "galatea::server", %peer, "too many connections");
                    continue;
                };
                let (shared, registry, tls) = (Arc::clone(&shared), Arc::clone(&registry), tls.clone());
                connections.spawn(async move {
                    let _slot = slot;
                    if let Err(error) = begin(stream, peer, tls, &shared, &registry).await {
                        tracing::debug!(target: "galatea::server", %peer, %error, "a connection failed");
                    }
                });
            }
            Err(error) => {
                tracing::warn!(target: "galatea::server", %error, "a connection was not accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

/// Resolves when the other side of a socket has closed it, also if it sent messages before.
async fn closed(socket: &TcpStream) {
    /// The pause between checks while unread messages wait.
    const PAUSE: Duration = Duration::from_millis(250);
    loop {
        match socket.ready(Interest::READABLE).await {
            Ok(ready) if !ready.is_read_closed() => tokio::time::sleep(PAUSE).await,
            _ => return,
        }
    }
}

/// Negotiates TLS. The stream is read exactly up to the end of each request, so that no byte before the
/// encryption counts as one within it.
async fn begin(
    stream: TcpStream,
    peer: SocketAddr,
    tls: Option<TlsAcceptor>,
    shared: &Arc<Shared>,
    registry: &Arc<Registry>,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    // A second handle of the socket, since the first is in use while a query runs.
    let stream = stream.into_std()?;
    let watched = TcpStream::from_std(stream.try_clone()?)?;
    let mut stream = TcpStream::from_std(stream)?;
    let negotiate = async {
        let mut first = [0; 1];
        stream.peek(&mut first).await?;
        if first[0] == TLS_HANDSHAKE {
            return Ok::<_, io::Error>((true, Vec::new()));
        }
        // A client asks at most for each kind of encryption once.
        for _ in 0..3 {
            let mut request = [0; 8];
            stream.read_exact(&mut request).await?;
            let code = u32::from_be_bytes([request[4], request[5], request[6], request[7]]);
            match code {
                TLS_REQUEST if tls.is_some() => {
                    stream.write_all(b"S").await?;
                    return Ok((true, Vec::new()));
                }
                TLS_REQUEST | GSSAPI_REQUEST => stream.write_all(b"N").await?,
                _ => return Ok((false, request.to_vec())),
            }
        }
        Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "too many requests for encryption",
        ))
    };
    let negotiated = timeout(AUTHENTICATION, negotiate).await;
    let (encrypted, prefix) = negotiated.map_err(|_| io::ErrorKind::TimedOut)??;
    match (encrypted, tls) {
        (true, Some(tls)) => {
            let accepted = timeout(AUTHENTICATION, tls.accept(stream)).await;
            let stream = accepted.map_err(|_| io::ErrorKind::TimedOut)??;
            converse(
                Limited::new(stream, prefix),
                peer,
                true,
                &watched,
                shared,
                registry,
            )
            .await
        }
        (true, None) => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "TLS is not configured",
        )),
        (false, _) => {
            converse(
                Limited::new(stream, prefix),
                peer,
                false,
                &watched,
                shared,
                registry,
            )
            .await
        }
    }
}

type Client<S> = Framed<Limited<S>, PgWireMessageServerCodec<PgStatement>>;

/// Sends an error that ends the connection.
async fn end<S>(client: &mut Client<S>, state: &str, message: &str) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let error = ErrorInfo::from(fatal_state(state, message));
    let sent = client.send(PgWireBackendMessage::ErrorResponse(error.into()));
    // The client may not read.
    let _ = timeout(Duration::from_secs(1), sent).await;
    client.close().await
}

/// Answers the messages of a connection until it ends.
async fn converse<S>(
    stream: Limited<S>,
    peer: SocketAddr,
    is_secure: bool,
    watched: &TcpStream,
    shared: &Arc<Shared>,
    registry: &Arc<Registry>,
) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + Sync + 'static,
{
    let codec = PgWireMessageServerCodec::new(DefaultClient::new(peer, is_secure));
    let mut client: Client<S> = Framed::new(stream, codec);
    client.set_state(PgWireConnectionState::AwaitingStartup);
    let connection = Arc::new(Connection::new(shared, registry));
    let planner = Arc::new(Planner(Arc::clone(&connection)));
    let extended = Arc::new(Extended {
        connection: Arc::clone(&connection),
        planner,
    });
    let authentication = tokio::time::sleep(AUTHENTICATION);
    tokio::pin!(authentication);
    loop {
        let is_authenticated = connection.session.get().is_some();
        let message = tokio::select! {
            biased;
            () = shared.stopping() => {
                return end(&mut client, "57P01", "the server shuts down").await;
            }
            () = &mut authentication, if !is_authenticated => return client.close().await,
            () = tokio::time::sleep(shared.config.idle), if is_authenticated => {
                return end(&mut client, "57P05", "the session was idle for too long (limits.idle)").await;
            }
            message = client.next() => message,
        };
        let message = match message {
            Some(Ok(PgWireFrontendMessage::Terminate(_))) | None => return Ok(()),
            Some(Ok(message)) => message,
            Some(Err(PgWireError::IoError(error))) if error.kind() == io::ErrorKind::FileTooLarge => {
                metrics::counter!(REFUSED, "reason" => "message").increment(1);
                tracing::warn!(target: "galatea::server", %peer, %error, "refused a message");
                return end(&mut client, "54000", &error.to_string()).await;
            }
            Some(Err(PgWireError::IoError(error))) => return Err(error),
            Some(Err(error)) => {
                return end(&mut client, "08P01", &error.to_string()).await;
            }
        };
        // A failed copy of an extended query also waits for the client's Sync.
        let waits_for_sync = message.is_extended_query()
            || matches!(client.state(), PgWireConnectionState::CopyInProgress(true));
        let processed = process_message(
            message,
            &mut client,
            Arc::clone(&connection),
            Arc::clone(&connection),
            Arc::clone(&extended),
            Arc::clone(&connection),
            Arc::clone(registry),
        );
        let processed = tokio::select! {
            // The client of a cancel request does not wait for an answer.
            biased;
            processed = processed => processed,
            // Dropping the connection stops its query.
            () = closed(watched) => return Ok(()),
        };
        match processed {
            Ok(()) => {}
            // The other side is gone or does not read.
            Err(PgWireError::IoError(error)) => return Err(error),
            Err(error) if connection.session.get().is_none() => {
                let info = ErrorInfo::from(error);
                let _ = client
                    .send(PgWireBackendMessage::ErrorResponse(info.into()))
                    .await;
                return client.close().await;
            }
            Err(error) => process_error(&mut client, error, waits_for_sync).await?,
        }
        if connection.session.get().is_some() {
            client.get_mut().set_limit(shared.config.message);
        }
    }
}
