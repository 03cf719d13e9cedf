//! The state of one connection.

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use super::catalog;
use super::commands::Parameters;
use super::registry::Registry;
use crate::password::Exchange;
use crate::session::Session;
use crate::state::Shared;

/// A connection, before and after authentication.
pub(super) struct Connection {
    pub(super) shared: Arc<Shared>,
    pub(super) registry: Arc<Registry>,
    /// The exchange of SCRAM after the client's first message.
    pub(super) exchange: Mutex<Option<Exchange>>,
    /// The session after authentication, and the number of the connection.
    pub(super) session: OnceLock<(Arc<Session>, i32)>,
    pub(super) parameters: Mutex<Parameters>,
    /// The transaction that the client began, if any.
    pub(super) transaction: Mutex<Transaction>,
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
            parameters: Mutex::default(),
            transaction: Mutex::default(),
        }
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
