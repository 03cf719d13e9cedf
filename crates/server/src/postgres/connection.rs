//! The state of one connection.

use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;

use super::catalog;
use super::commands::Parameters;
use super::copy_rows::Copying;
use super::cursors::Cursors;
use super::registry::Registry;
use crate::failure::{ErrorKind, Failure, FailureKind};
use crate::password::Exchange;
use crate::session::{Prepared, Session};
use crate::state::Shared;

/// A connection, before and after authentication.
pub(super) struct Connection {
    pub(super) shared: Arc<Shared>,
    pub(super) registry: Arc<Registry>,
    /// The exchange of SCRAM after the client's first message.
    pub(super) exchange: Mutex<Option<Exchange>>,
    /// The session after authentication, and the number of the connection.
    pub(super) session: OnceLock<(Arc<Session>, i32)>,
    pub(super) parameters: Arc<Mutex<Parameters>>,
    /// The statements that the client keeps prepared, and dropped ones.
    pub(super) prepared: Mutex<Vec<Weak<Prepared>>>,
    /// The transaction that the client began, if any.
    pub(super) transaction: Mutex<Transaction>,
    pub(super) cursors: Arc<Cursors>,
    /// The copy from the client that runs.
    pub(super) copying: Mutex<Option<Copying>>,
}

/// The state that warnings of transactions depend on.
#[derive(Debug, Default)]
pub(super) struct Transaction {
    /// Whether the client received the warning that transactions have no effect.
    pub(super) warned: bool,
    /// Whether a statement changed data since BEGIN.
    pub(super) changed: bool,
}

impl Connection {
    pub(super) fn new(shared: &Arc<Shared>, registry: &Arc<Registry>) -> Self {
        Self {
            shared: Arc::clone(shared),
            registry: Arc::clone(registry),
            exchange: Mutex::default(),
            session: OnceLock::new(),
            parameters: Arc::default(),
            prepared: Mutex::default(),
            transaction: Mutex::default(),
            cursors: Arc::default(),
            copying: Mutex::default(),
        }
    }
}

/// The most statements that a connection keeps prepared.
const STATEMENTS: usize = 1000;

impl Connection {
    /// Counts a prepared statement.
    ///
    /// # Errors
    /// The connection has its maximum number of statements.
    pub(super) fn keep(&self, statement: &Arc<Prepared>) -> Result<(), Failure> {
        let mut prepared = self.prepared.lock();
        if prepared.len() >= STATEMENTS {
            prepared.retain(|statement| statement.strong_count() > 0);
        }
        if prepared.len() >= STATEMENTS {
            return Err(Failure::new(
                FailureKind::Query(ErrorKind::Limit),
                format!(
                    "the connection has {STATEMENTS} prepared statements, the maximum\nhint: DEALLOCATE some"
                ),
            ));
        }
        prepared.push(Arc::downgrade(statement));
        Ok(())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some((session, number)) = self.session.get() {
            self.registry.remove(*number);
            session.cancel();
            catalog::remove(&session.ctx);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[tokio::test]
    async fn closed_connections_free_their_session() {
        let mut config = Config::default();
        config
            .settings
            .push(("galatea.device".to_string(), "cpu".to_string()));
        let shared = Shared::new(config, tokio::runtime::Handle::current()).unwrap();
        let account = shared.local().unwrap();
        let session = Arc::new(Session::open(&shared, &account, "postgres").unwrap());
        catalog::install(&session.ctx, "ann", &Arc::default(), &Arc::default()).unwrap();
        let prepared = session.prepare("SELECT 1").await.unwrap();
        let connection = Connection::new(&shared, &Arc::default());
        assert!(connection.session.set((session, 1)).is_ok());
        assert_eq!(shared.engine.sessions(), 1);
        drop((prepared, connection));
        assert_eq!(shared.engine.sessions(), 0);
    }
}
