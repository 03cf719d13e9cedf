//! A client of Flight SQL, for `galatea connect`.

use std::path::Path;
use std::time::Duration;

use arrow::datatypes::SchemaRef;
use arrow_flight::error::FlightError;
use arrow_flight::sql::client::FlightSqlServiceClient;
use datafusion::error::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, TryStreamExt, stream};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};

/// The port of Flight SQL without another one.
const PORT: u16 = 31_337;

/// The time to connect.
const CONNECT: Duration = Duration::from_secs(10);

/// Bytes of one message of a result.
const MESSAGE: usize = 1 << 30;

/// A request to a server failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The address is not one of a server.
    #[error("wrong address: {address}\nhint: HOST or HOST:PORT, for example 127.0.0.1:31337")]
    Address {
        /// The address as given.
        address: String,
    },
    /// The file of the certificate authority cannot be read.
    #[error("cannot read '{}': {cause}", path.display())]
    Certificate {
        /// The path as given.
        path: std::path::PathBuf,
        /// The system's error.
        cause: std::io::Error,
    },
    /// No connection.
    #[error("cannot connect to {address}: {problem}")]
    Connect {
        /// The address.
        address: String,
        /// The problem.
        problem: String,
    },
    /// The server refused the request; its message.
    #[error("{0}")]
    Refused(String),
}

/// The credentials of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Credentials {
    /// None: the server has no users.
    None,
    /// A user and a password.
    Password {
        /// The name of the user.
        user: String,
        /// The password.
        password: String,
    },
    /// A token.
    Token(String),
}

/// A connection to a server.
#[derive(Debug)]
pub struct Client {
    flight: FlightSqlServiceClient<Channel>,
}

/// The message of a status, or the whole error.
fn message(error: &FlightError) -> String {
    match error {
        FlightError::Tonic(status) => status.message().to_string(),
        other => other.to_string(),
    }
}

fn refused(error: &FlightError) -> ClientError {
    ClientError::Refused(message(error))
}

/// `HOST:PORT` of `HOST` or `HOST:PORT`; `None` if it is neither.
pub(crate) fn with_port(address: &str, port: u16) -> Option<String> {
    if address.is_empty() || address.contains(['/', ' ']) {
        return None;
    }
    let has_port = address.rsplit_once(':').is_some_and(|(host, port)| {
        port.parse::<u16>().is_ok() && (!host.contains(':') || host.ends_with(']'))
    });
    Some(match has_port {
        true => address.to_string(),
        false => format!("{address}:{port}"),
    })
}

impl Client {
    /// Connects to `HOST` or `HOST:PORT`, with TLS if the certificate of an authority is given.
    ///
    /// # Errors
    /// A wrong address; no connection; wrong credentials.
    pub async fn connect(
        address: &str,
        authority: Option<&Path>,
        credentials: &Credentials,
    ) -> Result<Self, ClientError> {
        let wrong = || ClientError::Address {
            address: address.to_string(),
        };
        let server = with_port(address, PORT).ok_or_else(wrong)?;
        let scheme = if authority.is_some() { "https" } else { "http" };
        let mut endpoint = Endpoint::from_shared(format!("{scheme}://{server}"))
            .map_err(|_| wrong())?
            .connect_timeout(CONNECT);
        let failed = |error: &dyn std::error::Error| {
            let cause = error
                .source()
                .map_or_else(|| error.to_string(), ToString::to_string);
            ClientError::Connect {
                address: address.to_string(),
                problem: cause,
            }
        };
        if let Some(path) = authority {
            let pem = std::fs::read(path).map_err(|cause| ClientError::Certificate {
                path: path.to_path_buf(),
                cause,
            })?;
            crate::tls::select_provider();
            let tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem));
            endpoint = endpoint.tls_config(tls).map_err(|error| failed(&error))?;
        }
        let channel = endpoint.connect().await.map_err(|error| failed(&error))?;
        let service = arrow_flight::flight_service_client::FlightServiceClient::new(channel)
            .max_decoding_message_size(MESSAGE);
        let mut flight = FlightSqlServiceClient::new_from_inner(service);
        match credentials {
            // Without a user, a server without users opens a session.
            Credentials::None => {}
            Credentials::Password { user, password } => {
                flight
                    .handshake(user, password)
                    .await
                    .map_err(|error| refused(&error))?;
            }
            Credentials::Token(token) => flight.set_token(token.clone()),
        }
        Ok(Self { flight })
    }

    /// Runs a statement. Returns its rows as they arrive; dropping them cancels the statement.
    ///
    /// # Errors
    /// The message of the server.
    pub async fn run(&mut self, statement: &str) -> Result<SendableRecordBatchStream, ClientError> {
        let refuse = |error: FlightError| refused(&error);
        let info = self
            .flight
            .execute(statement.to_string(), None)
            .await
            .map_err(refuse)?;
        let described = info.clone().try_decode_schema().map(SchemaRef::new);
        let mut results = Vec::new();
        for endpoint in info.endpoint {
            let Some(ticket) = endpoint.ticket else { continue };
            results.push(self.flight.do_get(ticket).await.map_err(refuse)?);
        }
        let mut batches = stream::iter(results)
            .flatten()
            .map_err(|error| DataFusionError::External(Box::new(ClientError::Refused(message(&error)))));
        // The first batch states the columns of a statement that is planned when it runs.
        let first = batches.try_next().await.map_err(|error| match error {
            DataFusionError::External(error) => ClientError::Refused(error.to_string()),
            other => ClientError::Refused(other.to_string()),
        })?;
        let schema = match (&first, described) {
            (Some(first), _) => first.schema(),
            (None, Ok(schema)) => schema,
            (None, Err(error)) => return Err(ClientError::Refused(error.to_string())),
        };
        let all = stream::iter(first.map(Ok)).chain(batches);
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, all)))
    }
}
