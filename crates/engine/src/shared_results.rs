//! Results of equal queries that run at the same time.
//!
//! Clients of one engine often send the same query. The first one runs, and those that arrive before it has
//! ended wait for its result. Nothing is kept afterwards: a later query runs again.
//!
//! Every client polls the run. It continues if the client that began it stops, and is cancelled if all
//! clients stop. A run that fails or has a large result belongs to the client that began it: the others run
//! on their own, so that no error or limit of one client affects another.

use crate::report::QueryReport;
use arrow::array::RecordBatch;
use datafusion::common::Result;
use datafusion::execution::SendableRecordBatchStream;
use futures::future::{BoxFuture, FutureExt, Shared, WeakShared};
use parking_lot::Mutex;
use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Weak};

/// The identity of a query over certain data: equal ones have the same rows.
pub(crate) trait QueryIdentity: Any + fmt::Debug + Send + Sync {
    /// A hash of the identity.
    fn hash(&self) -> u64;

    /// Whether the other one is equal.
    fn same(&self, other: &dyn QueryIdentity) -> bool;
}

/// The end of a run.
pub(crate) enum SharedRun {
    /// All rows, for all clients, and the report of the run.
    Rows(Vec<RecordBatch>, Box<QueryReport>),
    /// The rows or the error, for the client that began the run.
    Own(Mutex<Option<Result<SendableRecordBatchStream>>>),
}

/// A run that several clients poll.
pub(crate) type SharedRunFuture = Shared<BoxFuture<'static, Arc<SharedRun>>>;

/// The run of a query that is in progress, if there is one.
pub(crate) struct SharedResult {
    /// `None` if it is not shared with other sessions.
    identity: Option<Box<dyn QueryIdentity>>,
    running: Mutex<Option<WeakShared<BoxFuture<'static, Arc<SharedRun>>>>>,
}

impl fmt::Debug for SharedResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedResult")
            .field("identity", &self.identity)
            .finish_non_exhaustive()
    }
}

impl SharedResult {
    /// For the executions of one cached plan.
    pub(crate) fn of_plan() -> Arc<Self> {
        Arc::new(Self {
            identity: None,
            running: Mutex::default(),
        })
    }

    /// The run in progress, or else the one that `run` begins, and whether it began now.
    pub(crate) fn join(
        &self,
        run: impl FnOnce() -> BoxFuture<'static, Arc<SharedRun>>,
    ) -> (SharedRunFuture, bool) {
        let mut running = self.running.lock();
        let found = running.as_ref().and_then(WeakShared::upgrade);
        // The clients of a run that has ended may still hold it.
        match found {
            Some(found) if found.peek().is_none() => (found, false),
            ended => {
                let began = run().shared();
                *running = began.downgrade();
                drop(running);
                drop(ended);
                (began, true)
            }
        }
    }
}

/// The shared results of an engine, by the hash of their identity.
#[derive(Debug, Default)]
pub(crate) struct SharedResults(Mutex<HashMap<u64, Vec<Weak<SharedResult>>>>);

impl SharedResults {
    /// The result of the query with this identity, for all sessions.
    pub(crate) fn of(&self, identity: Box<dyn QueryIdentity>) -> Arc<SharedResult> {
        let mut all = self.0.lock();
        all.retain(|_, equal| {
            equal.retain(|result| result.strong_count() > 0);
            !equal.is_empty()
        });
        let equal = all.entry(identity.hash()).or_default();
        let is_same = |result: &Arc<SharedResult>| {
            let other = result.identity.as_ref();
            other.is_some_and(|other| identity.same(&**other))
        };
        if let Some(found) = equal.iter().filter_map(Weak::upgrade).find(is_same) {
            return found;
        }
        let result = Arc::new(SharedResult {
            identity: Some(identity),
            running: Mutex::default(),
        });
        equal.push(Arc::downgrade(&result));
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::future;

    #[derive(Debug)]
    struct Named(u64, &'static str);

    impl QueryIdentity for Named {
        fn hash(&self) -> u64 {
            self.0
        }

        fn same(&self, other: &dyn QueryIdentity) -> bool {
            let other: &dyn Any = other;
            other
                .downcast_ref::<Self>()
                .is_some_and(|other| self.1 == other.1)
        }
    }

    fn ended() -> BoxFuture<'static, Arc<SharedRun>> {
        let rows = SharedRun::Rows(Vec::new(), Box::new(QueryReport::cpu(Vec::new())));
        future::ready(Arc::new(rows)).boxed()
    }

    #[test]
    fn equal_identities_share_a_result_while_one_is_held() {
        let results = SharedResults::default();
        let first = results.of(Box::new(Named(1, "a")));
        assert!(Arc::ptr_eq(&first, &results.of(Box::new(Named(1, "a")))));
        // Equal hashes do not suffice.
        assert!(!Arc::ptr_eq(&first, &results.of(Box::new(Named(1, "b")))));
        drop(first);
        results.of(Box::new(Named(2, "c")));
        assert_eq!(
            results.0.lock().len(),
            1,
            "results that no plan holds are forgotten"
        );
    }

    #[test]
    fn runs_are_joined_until_they_end() {
        let result = SharedResult::of_plan();
        let (first, began) = result.join(|| future::pending().boxed());
        assert!(began);
        let (second, began) = result.join(ended);
        assert!(!began && second.peek().is_none());
        // When no client polls the run, it is cancelled, and the next query runs.
        drop((first, second));
        let (third, began) = result.join(ended);
        assert!(began);
        assert!(third.clone().now_or_never().is_some());
        let (_, began) = result.join(ended);
        assert!(began, "a run that has ended is not joined");
    }
}
