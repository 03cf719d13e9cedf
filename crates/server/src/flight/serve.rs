//! The listener of Flight SQL.

use std::sync::Arc;
use std::time::Duration;

use arrow_flight::flight_service_server::FlightServiceServer;
use tokio::net::TcpListener;
use tonic::transport::{Identity, Server, ServerTlsConfig};

use super::schemas::WithSchemas;
use super::service::FlightSql;
use super::sessions::FlightSessions;
use super::socket::incoming;
use crate::error::ServerError;
use crate::tls::Pem;

/// The time between checks that the other side of a connection still exists.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// Requests of one connection at once.
const STREAMS: u32 = 256;

/// Bytes of the headers of one request.
const HEADERS: u32 = 32 << 10;

/// Serves until `stop` resolves, and then until the running requests end.
pub(crate) async fn serve(
    listener: TcpListener,
    tls: Option<Pem>,
    sessions: Arc<FlightSessions>,
    stop: impl Future<Output = ()>,
) -> Result<(), ServerError> {
    let message = sessions.shared.config.message;
    let failed = |error: tonic::transport::Error| ServerError::Failed(format!("Flight SQL: {error}"));
    let service = FlightServiceServer::new(WithSchemas(FlightSql::new(sessions)))
        .max_decoding_message_size(message)
        .max_encoding_message_size(usize::MAX);
    let mut server = Server::builder()
        .http2_keepalive_interval(Some(KEEPALIVE))
        .http2_max_header_list_size(HEADERS)
        .max_concurrent_streams(STREAMS);
    if let Some(pem) = tls {
        let identity = Identity::from_pem(pem.certificate, pem.key);
        server = server
            .tls_config(ServerTlsConfig::new().identity(identity))
            .map_err(|error| ServerError::Tls(error.to_string()))?;
    }
    server
        .add_service(service)
        .serve_with_incoming_shutdown(incoming(listener), stop)
        .await
        .map_err(failed)
}
