//! The sessions that cancel requests find: by the number and the key that a connection received.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use parking_lot::Mutex;
use pgwire::api::cancel::CancelHandler;
use pgwire::api::{ClientInfo, PidSecretKeyGenerator, RandomPidSecretKeyGenerator};
use pgwire::messages::cancel::CancelRequest;
use pgwire::messages::startup::SecretKey;

use crate::session::Session;

/// All connections of a server.
#[derive(Default)]
pub(super) struct Registry {
    keys: RandomPidSecretKeyGenerator,
    sessions: Mutex<HashMap<i32, Keyed>>,
}

/// A session, and the bytes of its key.
type Keyed = (Vec<u8>, Weak<Session>);

/// The bytes of a key. A cancel request does not state the version of the protocol, so its key is decoded as
/// another variant.
fn bytes(key: &SecretKey) -> Vec<u8> {
    match key {
        SecretKey::I32(key) => key.to_be_bytes().to_vec(),
        SecretKey::Bytes(key) => key.to_vec(),
    }
}

impl Registry {
    /// Registers a session. Returns the number and the key of its connection.
    pub(super) fn register(&self, client: &dyn ClientInfo, session: &Arc<Session>) -> (i32, SecretKey) {
        let (number, key) = self.keys.generate(client);
        let entry = (bytes(&key), Arc::downgrade(session));
        self.sessions.lock().insert(number, entry);
        (number, key)
    }

    /// Removes a session.
    pub(super) fn remove(&self, number: i32) {
        self.sessions.lock().remove(&number);
    }
}

#[async_trait]
impl CancelHandler for Registry {
    async fn on_cancel_request(&self, request: CancelRequest) {
        let session = {
            let sessions = self.sessions.lock();
            let found = sessions.get(&request.pid);
            let found = found.filter(|(key, _)| *key == bytes(&request.secret_key));
            found.and_then(|(_, session)| session.upgrade())
        };
        // A request with a wrong key has no effect, like one that is late.
        if let Some(session) = session {
            session.cancel();
        }
    }
}
