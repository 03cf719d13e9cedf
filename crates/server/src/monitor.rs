//! A client of the feed of a server, for `galatea top`.

use bytes::{Buf, Bytes, BytesMut};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{AUTHORIZATION, COOKIE, HOST, SET_COOKIE};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use serde_json::json;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::client::{ClientError, Credentials, with_port};
use crate::feed::{Problem, Snapshot, VERSION};

/// The port of HTTP without another one.
const PORT: u16 = 9090;

/// The time to connect, and to receive a document.
const TIME: Duration = Duration::from_secs(10);

/// Maximum bytes of a document, and of an event.
const DOCUMENT: usize = 64 << 20;

/// A reader of the feed of a server.
#[derive(Debug)]
pub struct Monitor {
    address: String,
    /// A header with credentials.
    credentials: Option<(hyper::header::HeaderName, String)>,
}

fn failed(address: &str, problem: impl ToString) -> ClientError {
    ClientError::Connect {
        address: address.to_string(),
        problem: problem.to_string(),
    }
}

impl Monitor {
    /// Connects to the page of a server at `HOST` or `HOST:PORT`, and logs in with a user and a password.
    ///
    /// # Errors
    /// A wrong address; no connection; wrong credentials.
    pub async fn connect(address: &str, credentials: &Credentials) -> Result<Self, ClientError> {
        let address = with_port(address, PORT).ok_or_else(|| ClientError::Address {
            address: address.to_string(),
        })?;
        let mut monitor = Self {
            address,
            credentials: None,
        };
        match credentials {
            Credentials::None => {}
            Credentials::Token(token) => {
                monitor.credentials = Some((AUTHORIZATION, format!("Bearer {token}")));
            }
            Credentials::Password { user, password } => {
                let body = json!({ "user": user, "password": password }).to_string();
                let response = monitor.request(Method::POST, "/api/login", body).await?;
                let cookie = response
                    .headers()
                    .get(SET_COOKIE)
                    .and_then(|cookie| cookie.to_str().ok());
                let cookie = cookie.and_then(|cookie| cookie.split(';').next());
                monitor.credentials = cookie.map(|cookie| (COOKIE, cookie.to_string()));
            }
        }
        Ok(monitor)
    }

    /// The state of the server now.
    ///
    /// # Errors
    /// No connection; a refusal of the server; a feed of another version.
    pub async fn snapshot(&self) -> Result<Snapshot, ClientError> {
        let response = self.request(Method::GET, "/api/snapshot", String::new()).await?;
        let snapshot: Snapshot = document(response.into_body()).await?;
        check_version(snapshot)
    }

    /// The states of the server, a few per second.
    ///
    /// # Errors
    /// No connection; a refusal of the server.
    pub async fn events(&self) -> Result<Events, ClientError> {
        let response = self.request(Method::GET, "/api/events", String::new()).await?;
        Ok(Events {
            body: response.into_body(),
            received: BytesMut::new(),
        })
    }

    /// Requests the cancellation of a statement.
    ///
    /// # Errors
    /// No connection; a refusal of the server; the statement has ended.
    pub async fn cancel(&self, statement: u64) -> Result<(), ClientError> {
        let path = format!("/api/statements/{statement}/cancel");
        self.request(Method::POST, &path, String::new()).await.map(drop)
    }

    /// Sends a request on a connection of its own.
    async fn request(
        &self,
        method: Method,
        path: &str,
        body: String,
    ) -> Result<Response<Incoming>, ClientError> {
        let response = timeout(TIME, self.exchange(method, path, body)).await;
        let response = response.map_err(|_| failed(&self.address, "no response in time"))??;
        match response.status() {
            StatusCode::OK => Ok(response),
            status => {
                let problem: Result<Problem, _> = document(response.into_body()).await;
                Err(match problem {
                    Ok(problem) => ClientError::Refused(problem.message),
                    Err(_) => ClientError::Refused(format!("{} returned the status {status}", self.address)),
                })
            }
        }
    }

    async fn exchange(
        &self,
        method: Method,
        path: &str,
        body: String,
    ) -> Result<Response<Incoming>, ClientError> {
        let stream = TcpStream::connect(&self.address)
            .await
            .map_err(|error| failed(&self.address, error))?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| failed(&self.address, error))?;
        tokio::spawn(connection);
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, &self.address);
        if let Some((name, value)) = &self.credentials {
            request = request.header(name, value);
        }
        let request = request
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| failed(&self.address, error))?;
        sender
            .send_request(request)
            .await
            .map_err(|error| failed(&self.address, error))
    }
}

async fn document<T: DeserializeOwned>(body: Incoming) -> Result<T, ClientError> {
    let body = timeout(TIME, Limited::new(body, DOCUMENT).collect()).await;
    let body = body.map_err(|_| ClientError::Refused("the document did not arrive in time".to_string()))?;
    let body = body.map_err(|error| ClientError::Refused(error.to_string()))?;
    parsed(&body.to_bytes())
}

fn parsed<T: DeserializeOwned>(json: &[u8]) -> Result<T, ClientError> {
    serde_json::from_slice(json)
        .map_err(|error| ClientError::Refused(format!("not a document of the feed: {error}")))
}

fn check_version(snapshot: Snapshot) -> Result<Snapshot, ClientError> {
    match snapshot.version {
        VERSION => Ok(snapshot),
        version => Err(ClientError::Refused(format!(
            "the server has version {version} of the feed, and this program has {VERSION}"
        ))),
    }
}

/// States of a server, as they arrive.
#[derive(Debug)]
pub struct Events {
    body: Incoming,
    received: BytesMut,
}

impl Events {
    /// The next state; `None` if the server has closed the stream.
    ///
    /// # Errors
    /// The connection fails; a feed of another version.
    pub async fn next(&mut self) -> Result<Option<Snapshot>, ClientError> {
        loop {
            if let Some(event) = take_event(&mut self.received) {
                return check_version(parsed(&event)?).map(Some);
            }
            let Some(frame) = self.body.frame().await else {
                return Ok(None);
            };
            let frame =
                frame.map_err(|error| ClientError::Refused(format!("the connection failed: {error}")))?;
            if let Some(data) = frame.data_ref() {
                self.received.extend_from_slice(data);
            }
            if self.received.len() > DOCUMENT {
                return Err(ClientError::Refused(format!(
                    "an event has more than {DOCUMENT} bytes"
                )));
            }
        }
    }
}

/// Takes the data of the first complete event.
fn take_event(received: &mut BytesMut) -> Option<Bytes> {
    let end = received.windows(2).position(|bytes| bytes == b"\n\n")?;
    let event = received.split_to(end).freeze();
    received.advance(2);
    let at = event.windows(6).position(|bytes| bytes == b"data: ")?;
    Some(event.slice(at + 6..))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_taken_when_they_are_complete() {
        let mut received = BytesMut::from(&b"event: snapshot\ndata: {\"a\":1}"[..]);
        assert_eq!(take_event(&mut received), None);
        received.extend_from_slice(b"\n\nevent: snapshot\ndata: {}\n\ndata");
        assert_eq!(take_event(&mut received).as_deref(), Some(&b"{\"a\":1}"[..]));
        assert_eq!(take_event(&mut received).as_deref(), Some(&b"{}"[..]));
        assert_eq!(take_event(&mut received), None);
        assert_eq!(&received[..], b"data");
    }
}
