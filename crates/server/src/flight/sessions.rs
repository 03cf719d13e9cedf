//! Sessions of Flight SQL. A handshake opens one for its token. Other requests share the session of their
//! connection, which ends with the connection.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::{Arc, Weak};
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use lru::LruCache;
use parking_lot::Mutex;
use tonic::transport::server::TlsConnectInfo;
use tonic::{Request, Status};

use crate::failure::{ErrorKind, Failure, FailureKind};
use crate::password::{new_token, token_hash};
use crate::session::{Prepared, Session};
use crate::state::{Account, Shared, Ticket};

/// The name of the protocol in logs and metrics.
const PROTOCOL: &str = "flight";

/// Statements that a session keeps. The least recently used one is closed first.
const STATEMENTS: NonZeroUsize = NonZeroUsize::new(256).expect("above zero");

/// A session that was not used for this time is closed if its account needs another one.
const REPLACEABLE: Duration = Duration::from_secs(60);

/// A statement of a session.
#[derive(Debug, Clone)]
pub(super) struct Statement {
    pub(super) prepared: Prepared,
    /// The statement with its last parameters.
    pub(super) bound: Option<Prepared>,
    /// The result of a statement that has run.
    pub(super) result: Option<(SchemaRef, Vec<RecordBatch>)>,
    running: Weak<Ticket>,
}

/// A session with its statements.
pub(crate) struct FlightSession {
    pub(super) session: Arc<Session>,
    statements: Mutex<LruCache<u64, Statement>>,
}

fn number(handle: &[u8]) -> Option<u64> {
    handle.try_into().ok().map(u64::from_be_bytes)
}

fn unknown() -> Failure {
    Failure::invalid("unknown statement handle: it was closed, or it belongs to another session")
}

impl FlightSession {
    fn open(shared: &Arc<Shared>, account: &Arc<Account>) -> Result<Arc<Self>, Failure> {
        Ok(Arc::new(Self {
            session: Arc::new(Session::open(shared, account, PROTOCOL)?),
            statements: Mutex::new(LruCache::new(STATEMENTS)),
        }))
    }

    /// Keeps a statement. Returns its handle.
    pub(super) fn keep(&self, prepared: Prepared) -> Vec<u8> {
        let number = self.session.shared.number();
        let statement = Statement {
            prepared,
            bound: None,
            result: None,
            running: Weak::new(),
        };
        self.statements.lock().put(number, statement);
        number.to_be_bytes().to_vec()
    }

    /// The statement of a handle.
    pub(super) fn statement(&self, handle: &[u8]) -> Result<Statement, Failure> {
        let number = number(handle).ok_or_else(unknown)?;
        self.statements.lock().get(&number).cloned().ok_or_else(unknown)
    }

    /// Changes the statement of a handle.
    fn update(&self, handle: &[u8], change: impl FnOnce(&mut Statement)) {
        if let Some(number) = number(handle)
            && let Some(statement) = self.statements.lock().get_mut(&number)
        {
            change(statement);
        }
    }

    /// Binds the parameters of a statement.
    pub(super) fn bind(&self, handle: &[u8], bound: Prepared) {
        self.update(handle, |statement| statement.bound = Some(bound));
    }

    /// Keeps the result of a statement that has run.
    pub(super) fn finish(&self, handle: &[u8], schema: SchemaRef, batches: Vec<RecordBatch>) {
        self.update(handle, |statement| statement.result = Some((schema, batches)));
    }

    /// Records the running query of a statement.
    pub(super) fn runs(&self, handle: &[u8], ticket: Option<&Arc<Ticket>>) {
        let running = ticket.map(Arc::downgrade).unwrap_or_default();
        self.update(handle, |statement| statement.running = running);
    }

    /// Closes a statement.
    pub(super) fn close(&self, handle: &[u8]) {
        if let Some(number) = number(handle) {
            self.statements.lock().pop(&number);
        }
    }

    /// Cancels the query of a statement. Returns whether one was running.
    pub(super) fn cancel(&self, handle: &[u8]) -> bool {
        let running = self
            .statement(handle)
            .ok()
            .and_then(|statement| statement.running.upgrade());
        let Some(ticket) = running else {
            return false;
        };
        ticket.stop(crate::session::cancelled());
        true
    }
}

/// The sessions of a connection by their credentials.
#[derive(Default)]
pub(super) struct Connection {
    pub(super) sessions: Mutex<HashMap<String, Arc<FlightSession>>>,
}

/// The connection of a request.
#[derive(Clone, Default)]
pub(super) struct ConnectionInfo(pub(super) Arc<Connection>);

impl ConnectionInfo {
    /// The connection of a request, with or without TLS.
    pub(super) fn of<T>(request: &Request<T>) -> Option<Arc<Connection>> {
        let extensions = request.extensions();
        let tls = extensions
            .get::<TlsConnectInfo<Self>>()
            .map(TlsConnectInfo::get_ref);
        tls.or_else(|| extensions.get::<Self>())
            .map(|info| Arc::clone(&info.0))
    }
}

/// The credentials of a request.
enum Credentials {
    None,
    Basic {
        user: String,
        password: String,
        hash: String,
    },
    Bearer(String),
}

impl Credentials {
    fn of<T>(request: &Request<T>) -> Result<Self, Failure> {
        let wrong = || Failure::new(FailureKind::Unauthenticated, "the authorization header is wrong");
        let Some(header) = request.metadata().get("authorization") else {
            return Ok(Self::None);
        };
        let header = header.to_str().map_err(|_| wrong())?;
        let (scheme, value) = header.split_once(' ').ok_or_else(wrong)?;
        match scheme.to_ascii_lowercase().as_str() {
            "bearer" => Ok(Self::Bearer(value.trim().to_string())),
            "basic" => {
                // Some clients omit the padding.
                let value = value.trim().trim_end_matches('=');
                let decoded = STANDARD_NO_PAD.decode(value).map_err(|_| wrong())?;
                let decoded = String::from_utf8(decoded).map_err(|_| wrong())?;
                let (user, password) = decoded.split_once(':').ok_or_else(wrong)?;
                Ok(Self::Basic {
                    user: user.to_string(),
                    password: password.to_string(),
                    hash: token_hash(&decoded),
                })
            }
            _ => Err(wrong()),
        }
    }
}

/// All sessions of handshakes.
pub(crate) struct FlightSessions {
    pub(super) shared: Arc<Shared>,
    /// By the hash of the token.
    by_token: Mutex<HashMap<String, Arc<FlightSession>>>,
}

impl FlightSessions {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            by_token: Mutex::default(),
        }
    }

    /// Opens a session for the credentials of a handshake. Returns its token.
    pub(super) async fn handshake<T>(&self, request: &Request<T>) -> Result<String, Status> {
        let account = match (self.shared.local(), Credentials::of(request)?) {
            (Some(local), _) => local,
            (None, Credentials::Basic { user, password, .. }) => {
                self.shared.authenticate(&user, &password).await?
            }
            (None, Credentials::Bearer(token)) => match self.shared.with_token(&token) {
                Some(account) => account,
                None => return Err(self.shared.refuse_credentials("token").await.into()),
            },
            (None, Credentials::None) => return Err(required().into()),
        };
        let session = match FlightSession::open(&self.shared, &account) {
            Err(failure)
                if failure.kind == FailureKind::Query(ErrorKind::Limit) && self.replace(&account) =>
            {
                FlightSession::open(&self.shared, &account)
            }
            opened => opened,
        }?;
        let token = new_token().map_err(|error| Status::internal(error.to_string()))?;
        self.by_token.lock().insert(token_hash(&token), session);
        Ok(token)
    }

    /// Ends the least recently used session of an account. Returns whether one was idle long enough.
    fn replace(&self, account: &Arc<Account>) -> bool {
        let mut sessions = self.by_token.lock();
        let own = sessions
            .iter()
            .filter(|(_, session)| Arc::ptr_eq(&session.session.account, account));
        let oldest = own
            .map(|(token, session)| (session.session.idle(), token.clone()))
            .filter(|(idle, _)| *idle > REPLACEABLE)
            .max();
        let ended = oldest.and_then(|(_, token)| sessions.remove(&token));
        ended.is_some()
    }

    /// The session of a request.
    pub(super) async fn of<T>(&self, request: &Request<T>) -> Result<Arc<FlightSession>, Status> {
        let local = self.shared.local();
        let (account, key) = match Credentials::of(request)? {
            Credentials::Bearer(token) => {
                let hash = token_hash(&token);
                if let Some(session) = self.by_token.lock().get(&hash) {
                    session.session.touch();
                    return Ok(Arc::clone(session));
                }
                match self.shared.with_token(&token).or(local) {
                    Some(account) => (account, hash),
                    None => {
                        let _ = self.shared.refuse_credentials("token").await;
                        return Err(Status::unauthenticated(
                            "unknown or expired token\nhint: log in again",
                        ));
                    }
                }
            }
            Credentials::Basic { user, password, hash } => {
                // The session of a connection proves that its credentials are right.
                if let Some(session) = connection_session(request, &hash) {
                    return Ok(session);
                }
                let account = match local {
                    Some(local) => local,
                    None => self.shared.authenticate(&user, &password).await?,
                };
                (account, hash)
            }
            Credentials::None => match local {
                Some(local) => (local, String::new()),
                None => return Err(required().into()),
            },
        };
        let connection = ConnectionInfo::of(request);
        let connection =
            connection.ok_or_else(|| Status::internal("internal error: a request without a connection"))?;
        let mut sessions = connection.sessions.lock();
        if let Some(session) = sessions.get(&key) {
            return Ok(Arc::clone(session));
        }
        let session = FlightSession::open(&self.shared, &account)?;
        sessions.insert(key, Arc::clone(&session));
        Ok(session)
    }

    /// Ends the session of a request.
    pub(super) fn close<T>(&self, request: &Request<T>) {
        if let Ok(Credentials::Bearer(token)) = Credentials::of(request) {
            let ended = self.by_token.lock().remove(&token_hash(&token));
            drop(ended);
        }
    }

    /// Ends sessions that were not used for the configured time.
    pub(crate) fn end_idle(&self) {
        let idle = self.shared.config.idle;
        let mut ended = Vec::new();
        self.by_token.lock().retain(|_, session| {
            let stays = session.session.idle() < idle;
            if !stays {
                ended.push(Arc::clone(session));
            }
            stays
        });
        if !ended.is_empty() {
            tracing::info!(target: "galatea::server", sessions = ended.len(), "idle sessions ended");
        }
    }
}

fn connection_session<T>(request: &Request<T>, key: &str) -> Option<Arc<FlightSession>> {
    let connection = ConnectionInfo::of(request)?;
    let sessions = connection.sessions.lock();
    sessions.get(key).cloned()
}

fn required() -> Failure {
    Failure::new(
        FailureKind::Unauthenticated,
        "credentials are required: a user and a password, or a token",
    )
}
