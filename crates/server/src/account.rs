//! Accounts of users and tokens, and the permits that count their queries and sessions.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::execution::cache::cache_manager::CacheManagerConfig;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};

use crate::access::{Limits, Role};
use crate::error::ServerError;
use crate::failure::{ErrorKind, Failure, FailureKind};

/// A user or a token, with the use of its limits.
#[derive(Debug)]
pub(crate) struct Account {
    /// The name of the user or the token.
    pub(crate) name: String,
    pub(crate) role: Arc<Role>,
    /// The runtime of DataFusion, with the memory pool of the account.
    pub(crate) runtime: Arc<RuntimeEnv>,
    queries: AtomicUsize,
    sessions: AtomicUsize,
}

impl Account {
    pub(crate) fn new(name: &str, role: &Arc<Role>) -> Result<Arc<Self>, ServerError> {
        let mut runtime = RuntimeEnvBuilder::new()
            .with_cache_manager(CacheManagerConfig::default().with_list_files_cache_limit(0));
        if let Some(memory) = role.limits.memory {
            runtime = runtime.with_memory_limit(memory, 1.0);
        }
        Ok(Arc::new(Self {
            name: name.to_string(),
            role: Arc::clone(role),
            runtime: runtime.build_arc()?,
            queries: AtomicUsize::new(0),
            sessions: AtomicUsize::new(0),
        }))
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.role.limits
    }

    /// Counts a query until the permit is dropped.
    pub(crate) fn query_permit(self: &Arc<Self>) -> Result<Permit, Failure> {
        let limit = self.limits().queries.unwrap_or(usize::MAX);
        Permit::new(self, |account| &account.queries, limit).ok_or_else(|| {
            Failure::new(
                FailureKind::Query(ErrorKind::Limit),
                format!(
                    "{} has {limit} running queries, the maximum (limits.queries)",
                    self.name
                ),
            )
        })
    }

    /// Counts a session until the permit is dropped.
    pub(crate) fn session_permit(self: &Arc<Self>, limit: usize) -> Result<Permit, Failure> {
        Permit::new(self, |account| &account.sessions, limit).ok_or_else(|| {
            Failure::new(
                FailureKind::Query(ErrorKind::Limit),
                format!(
                    "{} has {limit} sessions, the maximum (limits.sessions)",
                    self.name
                ),
            )
        })
    }
}

/// A counted query or session of an account.
#[derive(Debug)]
pub(crate) struct Permit {
    account: Arc<Account>,
    counter: fn(&Account) -> &AtomicUsize,
}

impl Permit {
    fn new(account: &Arc<Account>, counter: fn(&Account) -> &AtomicUsize, limit: usize) -> Option<Self> {
        let add = |count| (count < limit).then_some(count + 1);
        let added = counter(account).fetch_update(Ordering::AcqRel, Ordering::Acquire, add);
        added.ok().map(|_| Self {
            account: Arc::clone(account),
            counter,
        })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        (self.counter)(&self.account).fetch_sub(1, Ordering::AcqRel);
    }
}
