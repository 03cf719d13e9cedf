//! The state that all sessions share: the engine, the tables, the accounts, and the running queries.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use datafusion::catalog::SchemaProvider;
use galatea::{EmulatorOptions, Engine, EngineSettings};
use metrics::gauge;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::access::Role;
pub(crate) use crate::account::{Account, Permit};
use crate::activity::{History, Statement};
use crate::config::Config;
use crate::error::ServerError;
use crate::failure::{Failure, FailureKind};
use crate::password::{self, Verifier};
use crate::tables;

/// The delay of the answer to wrong credentials.
const WRONG_CREDENTIALS: Duration = Duration::from_millis(300);

/// The name of the account of all clients of a server without users.
const LOCAL: &str = "local";

/// A running query, which can be stopped.
#[derive(Debug)]
pub(crate) struct Ticket {
    pub(crate) number: u64,
    /// Its record for the page, if the server has one.
    pub(crate) statement: Option<Statement>,
    stop: watch::Sender<Option<Failure>>,
}

impl Ticket {
    /// Stops the query with this error, unless it was stopped before.
    pub(crate) fn stop(&self, failure: Failure) {
        self.stop.send_if_modified(|stopped| {
            let first = stopped.is_none();
            stopped.get_or_insert(failure);
            first
        });
    }

    /// Resolves to the error when the query is stopped.
    pub(crate) async fn stopped(&self) -> Failure {
        let mut stop = self.stop.subscribe();
        let stopped = stop
            .wait_for(Option::is_some)
            .await
            .map(|failure| failure.clone());
        match stopped {
            Ok(Some(failure)) => failure,
            // The sender is a field of this ticket, so the channel is open.
            _ => std::future::pending().await,
        }
    }
}

/// The state of a server.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) engine: Arc<Engine>,
    /// The tables of all clients.
    pub(crate) tables: Arc<dyn SchemaProvider>,
    /// Settings of each session.
    pub(crate) settings: Vec<(String, String)>,
    /// The runtime that plans and executes queries. Connections have another one, so that a busy query does
    /// not delay a cancellation.
    pub(crate) queries: Handle,
    accounts: HashMap<String, Arc<Account>>,
    /// By the hash of the token.
    tokens: HashMap<String, Arc<Account>>,
    secret: [u8; 32],
    numbers: AtomicU64,
    running: Mutex<HashMap<u64, Arc<Ticket>>>,
    /// The last statements that have ended.
    pub(crate) history: History,
    stopping: watch::Sender<bool>,
}

impl Shared {
    /// Creates the engine and the accounts.
    pub(crate) fn new(config: Config, queries: Handle) -> Result<Arc<Self>, ServerError> {
        let (of_engine, settings): (Vec<_>, Vec<_>) =
            (config.settings.iter().cloned()).partition(|(name, _)| EngineSettings::contains(name));
        let emulated = settings
            .iter()
            .any(|(name, value)| name == "galatea.device" && value.eq_ignore_ascii_case("emulated"));
        let mut engine = Engine::builder().with_setting("galatea.cache.disk", "auto");
        for (name, value) in of_engine {
            engine = engine.with_setting(name, value);
        }
        if emulated {
            engine = engine.with_emulated_device(EmulatorOptions::default());
        }
        let mut accounts = HashMap::new();
        let mut tokens = HashMap::new();
        for (name, user) in &config.users {
            accounts.insert(name.clone(), Account::new(name, &user.role)?);
        }
        for (name, token) in &config.tokens {
            tokens.insert(token.hash.clone(), Account::new(name, &token.role)?);
        }
        if !config.authenticates() {
            let role = Arc::new(Role::local(config.limits.clone(), emulated));
            accounts.insert(LOCAL.to_string(), Account::new(LOCAL, &role)?);
        }
        Ok(Arc::new(Self {
            engine: engine.build()?,
            tables: tables::shared(),
            settings,
            queries,
            accounts,
            tokens,
            secret: password::random()?,
            numbers: AtomicU64::new(1),
            running: Mutex::new(HashMap::new()),
            history: History::default(),
            stopping: watch::Sender::new(false),
            config,
        }))
    }

    /// The account of all clients, if the server has no users.
    pub(crate) fn local(&self) -> Option<Arc<Account>> {
        match self.config.authenticates() {
            true => None,
            false => self.accounts.get(LOCAL).cloned(),
        }
    }

    /// The verifier of a user's password. For a user who does not exist, it is one that no password matches.
    pub(crate) fn verifier(&self, user: &str) -> Verifier {
        match self.config.users.get(user) {
            Some(user) => user.verifier.clone(),
            None => Verifier::decoy(user, &self.secret),
        }
    }

    /// The account of a user with a verified password.
    pub(crate) fn verified(&self, user: &str) -> Result<Arc<Account>, Failure> {
        let account = self.config.users.get(user).and(self.accounts.get(user));
        account.cloned().ok_or_else(|| wrong_credentials(user))
    }

    /// The account of a user with this password.
    pub(crate) async fn authenticate(&self, user: &str, password: &str) -> Result<Arc<Account>, Failure> {
        let verifier = self.verifier(user);
        let password = password.to_string();
        let accepts = self
            .queries
            .spawn_blocking(move || verifier.accepts(&password))
            .await;
        if !accepts.unwrap_or(false) {
            return Err(self.refuse_credentials(user).await);
        }
        self.verified(user)
    }

    /// The account of a static token.
    pub(crate) fn with_token(&self, token: &str) -> Option<Arc<Account>> {
        self.tokens.get(&password::token_hash(token)).cloned()
    }

    /// The error for wrong credentials, after a delay.
    pub(crate) async fn refuse_credentials(&self, user: &str) -> Failure {
        tokio::time::sleep(WRONG_CREDENTIALS).await;
        metrics::counter!(crate::metrics::REFUSED, "reason" => "credentials").increment(1);
        tracing::warn!(target: "galatea::server", user, "wrong credentials");
        wrong_credentials(user)
    }

    /// A number that no other session, query or statement of this process has.
    pub(crate) fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Registers a query of a client.
    ///
    /// # Errors
    /// The server shuts down.
    pub(crate) fn begin(
        &self,
        account: &Arc<Account>,
        protocol: &'static str,
        text: &Arc<str>,
    ) -> Result<Arc<Ticket>, Failure> {
        let number = self.number();
        let records = self.config.http.is_some();
        let ticket = Arc::new(Ticket {
            number,
            statement: records.then(|| Statement::new(number, account, protocol, text)),
            stop: watch::Sender::new(None),
        });
        let mut running = self.running.lock();
        if *self.stopping.borrow() {
            return Err(stopping());
        }
        running.insert(ticket.number, Arc::clone(&ticket));
        gauge!(crate::metrics::RUNNING).set(running.len() as f64);
        Ok(ticket)
    }

    /// Removes a query that has ended.
    pub(crate) fn end(&self, ticket: &Ticket) {
        let mut running = self.running.lock();
        running.remove(&ticket.number);
        gauge!(crate::metrics::RUNNING).set(running.len() as f64);
    }

    /// The running queries, by their start.
    pub(crate) fn tickets(&self) -> Vec<Arc<Ticket>> {
        let mut tickets: Vec<_> = self.running.lock().values().cloned().collect();
        tickets.sort_unstable_by_key(|ticket| ticket.number);
        tickets
    }

    /// A running query by its number.
    pub(crate) fn ticket(&self, number: u64) -> Option<Arc<Ticket>> {
        self.running.lock().get(&number).cloned()
    }

    /// The number of running queries.
    pub(crate) fn running(&self) -> usize {
        self.running.lock().len()
    }

    /// Refuses new queries and sessions from now on.
    pub(crate) fn stop_new(&self) {
        let _running = self.running.lock();
        self.stopping.send_replace(true);
    }

    /// Stops all running queries.
    pub(crate) fn stop_running(&self) {
        for ticket in self.running.lock().values() {
            ticket.stop(stopping());
        }
    }

    pub(crate) fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }

    /// Resolves when the server shuts down.
    pub(crate) async fn stopping(&self) {
        // The sender is a field of this state, so the channel is open.
        let _ = self.stopping.subscribe().wait_for(|stopping| *stopping).await;
    }
}

fn wrong_credentials(user: &str) -> Failure {
    Failure::new(
        FailureKind::Unauthenticated,
        format!("password authentication failed for user \"{user}\""),
    )
}

/// The error of requests during a shutdown.
pub(crate) fn stopping() -> Failure {
    Failure::new(FailureKind::Stopping, "the server shuts down")
}
