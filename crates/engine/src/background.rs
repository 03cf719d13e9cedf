//! Background work that serves later queries. Several pieces of work run at once, on threads of the lowest
//! priority. An engine has one background for all of its sessions. The piece with the greatest lost time,
//! that is, the time that queries have lost because it was missing, is done first.
//!
//! Pieces begin when no query runs, because cores share caches, memory and the locks of compilers whatever
//! the priority of their threads. If queries follow each other without a pause, a piece begins every two
//! seconds.

use crate::graph::PlanKey;
use datafusion::common::Result;
use futures::future::BoxFuture;
use galatea_device::lower_thread_priority;
use lru::LruCache;
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::num::NonZeroUsize;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::runtime;
use tokio::sync::watch;
use tokio::task::AbortHandle;

/// Maximum number of waiting pieces; beyond it, the piece with the least lost time is dropped.
const WAITING: usize = 256;

/// Maximum number of failed pieces that are remembered.
const FAILED: NonZeroUsize = NonZeroUsize::new(4096).expect("not 0");

/// Number of times that a piece is tried: memory that was short once may be available later.
const TRIES: u32 = 3;

/// Time that the first piece waits: a session that ends with its query begins no work. Also the time without
/// a query after which pieces begin; a client needs less to send its next query.
const PAUSE: Duration = Duration::from_millis(100);

/// The longest time that the first of the tasks waits for such a pause.
const PATIENCE: Duration = Duration::from_secs(2);

/// Starts a piece of work when its turn has come.
type Work = Box<dyn FnOnce() -> BoxFuture<'static, Result<()>> + Send>;

/// Seconds that queries have lost so far because a piece was missing.
type Lost = Arc<dyn Fn() -> f64 + Send + Sync>;

/// A waiting piece.
struct Piece {
    /// Number of the session that queued it.
    session: u64,
    key: PlanKey,
    lost: Lost,
    work: Work,
}

/// Threads that drive the work of all sessions. Other threads decode and encode the data that they read.
const THREADS: usize = 4;

/// Cores of the machine for each piece that runs at once. A piece reads columns on many threads and compiles
/// its kernels on few.
const CORES: usize = 4;

/// The background work of an engine.
#[derive(Debug)]
pub struct Background {
    shared: Arc<Shared>,
    /// Number of pieces that run at once.
    workers: usize,
}

/// The remaining work.
struct Shared {
    pieces: Mutex<Pieces>,
    /// Sessions with pieces that wait or run.
    open: watch::Sender<HashSet<u64>>,
    /// Number of partitions of queries that run.
    busy: watch::Sender<usize>,
}

/// A partition of a query that runs. It counts until the value is dropped.
#[derive(Debug)]
pub(crate) struct Busy(Arc<Shared>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.busy.send_modify(|busy| *busy -= 1);
    }
}

struct Pieces {
    waiting: Vec<Piece>,
    /// The running pieces: the session that queued each, and the number of the task that runs it.
    current: HashMap<PlanKey, (u64, u64)>,
    /// The tasks that run them, by number.
    workers: HashMap<u64, AbortHandle>,
    /// Number of tasks started so far.
    started: u64,
    /// Number of failures of each piece.
    failed: LruCache<PlanKey, u32>,
}

impl Default for Pieces {
    fn default() -> Self {
        Self {
            waiting: Vec::new(),
            current: HashMap::new(),
            workers: HashMap::new(),
            started: 0,
            failed: LruCache::new(FAILED),
        }
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("open", &*self.open.borrow())
            .finish_non_exhaustive()
    }
}

impl Default for Background {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self::with_workers((cores / CORES).clamp(1, THREADS))
    }
}

impl Background {
    /// A background that runs `workers` pieces at once.
    fn with_workers(workers: usize) -> Self {
        let shared = Shared {
            pieces: Mutex::default(),
            open: watch::Sender::new(HashSet::new()),
            busy: watch::Sender::new(0),
        };
        Self {
            shared: Arc::new(shared),
            workers,
        }
    }

    /// Queues a piece of work of a session under `key`, unless it already waits, runs, or has failed too
    /// often.
    pub(crate) fn leave(&self, session: u64, key: PlanKey, lost: Lost, work: Work) {
        // These are computed before the lock is taken and dropped after it is released: a piece may be the
        // last owner of a session, and the end of a session cancels its pieces.
        let mut losses = self.shared.losses();
        losses.insert(key, lost());
        let mut least = None;
        let mut pieces = self.shared.pieces.lock();
        let known = pieces.current.contains_key(&key)
            || pieces.failed.peek(&key).is_some_and(|failed| *failed >= TRIES)
            || pieces.waiting.iter().any(|other| other.key == key);
        if known {
            return;
        }
        pieces.waiting.push(Piece {
            session,
            key,
            lost,
            work,
        });
        if pieces.waiting.len() > WAITING {
            least = take(&mut pieces.waiting, &losses, false);
        }
        self.shared.count(&pieces);
        self.start(&mut pieces);
        drop(pieces);
        drop(least);
    }

    /// Starts a task, unless the maximum number of pieces already runs.
    fn start(&self, pieces: &mut Pieces) {
        let Some(threads) = threads().filter(|_| pieces.workers.len() < self.workers) else {
            return;
        };
        let number = pieces.started;
        let worker = threads.spawn(Arc::clone(&self.shared).work(number));
        pieces.workers.insert(number, worker.abort_handle());
        pieces.started += 1;
    }

    /// Records that a partition of a query begins to run.
    pub(crate) fn busy(&self) -> Busy {
        self.shared.busy.send_modify(|busy| *busy += 1);
        Busy(Arc::clone(&self.shared))
    }

    /// Waits until all pieces that a session has queued are done.
    pub async fn finished(&self, session: u64) {
        let mut open = self.shared.open.subscribe();
        // The sender lives as long as `self`.
        let _ = open.wait_for(|open| !open.contains(&session)).await;
    }

    /// Drops the waiting pieces of a session, and stops its running pieces at their next step. Returns
    /// whether the session had any.
    pub fn cancel(&self, session: u64) -> bool {
        let mut pieces = self.shared.pieces.lock();
        let (dropped, waiting) = std::mem::take(&mut pieces.waiting)
            .into_iter()
            .partition::<Vec<_>, _>(|piece| piece.session == session);
        pieces.waiting = waiting;
        let (stopped, current) = std::mem::take(&mut pieces.current)
            .into_iter()
            .partition::<HashMap<_, _>, _>(|(_, (of, _))| *of == session);
        pieces.current = current;
        for (_, worker) in stopped.values() {
            if let Some(worker) = pieces.workers.remove(worker) {
                worker.abort();
            }
        }
        for _ in 0..pieces.waiting.len().min(self.workers) {
            self.start(&mut pieces);
        }
        self.shared.count(&pieces);
        drop(pieces);
        drop(dropped);
        !stopped.is_empty()
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let mut pieces = self.shared.pieces.lock();
        let dropped = std::mem::take(&mut pieces.waiting);
        for (_, worker) in pieces.workers.drain() {
            worker.abort();
        }
        drop(pieces);
        drop(dropped);
    }
}

/// The threads, started when work is queued for the first time; `None` if the system cannot start them.
fn threads() -> Option<&'static runtime::Runtime> {
    static STARTED: OnceLock<Option<runtime::Runtime>> = OnceLock::new();
    let start = || {
        // Rayon's pool for queries starts before a low-priority thread may use it, because threads inherit
        // the priority.
        rayon::current_num_threads();
        let threads = runtime::Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("galatea-background")
            .on_thread_start(lower_thread_priority)
            .enable_all()
            .build();
        if let Err(error) = &threads {
            tracing::warn!("nothing is done in the background: {error}");
        }
        threads.ok()
    };
    STARTED.get_or_init(start).as_ref()
}

impl Shared {
    fn count(&self, pieces: &Pieces) {
        let waiting = pieces.waiting.iter().map(|piece| piece.session);
        let current = pieces.current.values().map(|(session, _)| *session);
        self.open.send_replace(waiting.chain(current).collect());
    }

    /// Runs waiting pieces until none is left, as the task with this number.
    async fn work(self: Arc<Self>, number: u64) {
        tokio::time::sleep(PAUSE).await;
        loop {
            self.wait_for_pause(number).await;
            let Some(Piece { key, work, .. }) = self.next(number) else {
                return;
            };
            let outcome = work().await;
            let mut pieces = self.pieces.lock();
            // A piece that was cancelled meanwhile may be done by another task.
            if pieces.current.get(&key).is_none_or(|(_, task)| *task != number) {
                continue;
            }
            pieces.current.remove(&key);
            if let Err(error) = outcome {
                tracing::debug!("not prepared: {error}");
                *pieces.failed.get_or_insert_mut(key, u32::default) += 1;
            }
            self.count(&pieces);
        }
    }

    /// Waits until no query has run for [`PAUSE`], the first task at most for [`PATIENCE`].
    async fn wait_for_pause(&self, number: u64) {
        let mut busy = self.busy.subscribe();
        let pause = async {
            loop {
                // The sender lives as long as `self`.
                let _ = busy.wait_for(|busy| *busy == 0).await;
                let next = busy.wait_for(|busy| *busy != 0);
                if tokio::time::timeout(PAUSE, next).await.is_err() {
                    return;
                }
            }
        };
        tokio::pin!(pause);
        // Another task may become the first.
        let is_first = || self.pieces.lock().workers.keys().min() == Some(&number);
        while tokio::time::timeout(PATIENCE, &mut pause).await.is_err() && !is_first() {}
    }

    /// Lost seconds of each waiting piece. They are computed without the lock: the last use of a session may
    /// end meanwhile, which cancels its pieces.
    fn losses(&self) -> HashMap<PlanKey, f64> {
        let pieces = self.pieces.lock();
        let waiting: Vec<_> = (pieces.waiting.iter())
            .map(|piece| (piece.key, Arc::clone(&piece.lost)))
            .collect();
        drop(pieces);
        waiting.into_iter().map(|(key, lost)| (key, lost())).collect()
    }

    fn next(&self, number: u64) -> Option<Piece> {
        let losses = self.losses();
        let mut pieces = self.pieces.lock();
        // A session that has cancelled its work starts new tasks.
        let next = match pieces.workers.contains_key(&number) {
            true => take(&mut pieces.waiting, &losses, true),
            false => None,
        };
        match &next {
            Some(piece) => {
                pieces.current.insert(piece.key, (piece.session, number));
            }
            None => {
                pieces.workers.remove(&number);
            }
        }
        self.count(&pieces);
        next
    }
}

/// Takes the piece with the most lost time, or with the least; among equal pieces, the oldest.
fn take(pieces: &mut Vec<Piece>, losses: &HashMap<PlanKey, f64>, most: bool) -> Option<Piece> {
    let lost = |at: &usize| losses.get(&pieces[*at].key).copied().unwrap_or(0.0);
    let before = |a: &usize, b: &usize| match most {
        true => lost(b).total_cmp(&lost(a)),
        false => lost(a).total_cmp(&lost(b)),
    };
    let at = (0..pieces.len()).min_by(before)?;
    Some(pieces.remove(at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::common::exec_err;
    use futures::FutureExt;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::sync::Notify;

    /// No lost time.
    fn free() -> Lost {
        Arc::new(|| 0.0)
    }

    #[tokio::test]
    async fn task_with_the_largest_loss_runs_first() {
        let (background, order) = (Background::with_workers(1), Arc::new(Mutex::new(Vec::new())));
        for (key, lost) in [(1, 0.1), (2, 0.5), (3, 0.0), (4, 0.5)] {
            let order = Arc::clone(&order);
            let work = move || {
                async move {
                    order.lock().push(key);
                    Ok(())
                }
                .boxed()
            };
            background.leave(0, PlanKey(key), Arc::new(move || lost), Box::new(work));
        }
        background.finished(0).await;
        assert_eq!(*order.lock(), [2, 4, 1, 3]);
    }

    /// Work that increments a counter once `gate` is open.
    fn counted(done: &Arc<AtomicUsize>, gate: &Arc<Notify>) -> Work {
        let (done, gate) = (Arc::clone(done), Arc::clone(gate));
        Box::new(|| {
            async move {
                gate.notified().await;
                done.fetch_add(1, Ordering::SeqCst);
                Ok(())
            }
            .boxed()
        })
    }

    #[tokio::test]
    async fn queued_task_is_not_queued_twice() {
        let (background, done, gate) = (Background::default(), Arc::default(), Arc::default());
        background.finished(0).await;
        for key in [1, 2, 1, 2, 3] {
            background.leave(0, PlanKey(key), free(), counted(&done, &gate));
        }
        for _ in 0..3 {
            gate.notify_one();
            while done.load(Ordering::SeqCst) == 0 {
                tokio::task::yield_now().await;
            }
            done.fetch_sub(1, Ordering::SeqCst);
        }
        background.finished(0).await;
        assert_eq!(done.load(Ordering::SeqCst), 0, "three of five");
        gate.notify_one();
        background.leave(0, PlanKey(1), free(), counted(&done, &gate));
        background.finished(0).await;
        assert_eq!(
            done.load(Ordering::SeqCst),
            1,
            "what was done may be wanted again"
        );
    }

    #[tokio::test]
    async fn tasks_run_concurrently() {
        let background = Background::with_workers(2);
        let both = Arc::new(tokio::sync::Barrier::new(2));
        for key in [1, 2] {
            let both = Arc::clone(&both);
            let meet = move || {
                async move {
                    both.wait().await;
                    Ok(())
                }
                .boxed()
            };
            background.leave(0, PlanKey(key), free(), Box::new(meet));
        }
        background.finished(0).await;
        assert!(background.shared.pieces.lock().current.is_empty());
    }

    #[tokio::test]
    async fn pieces_wait_for_a_pause_between_queries() {
        let (background, done) = (Background::with_workers(4), Arc::new(AtomicUsize::new(0)));
        let busy = background.busy();
        let gates: Vec<Arc<Notify>> = (0..3).map(|_| Arc::default()).collect();
        let begun = Arc::new(AtomicUsize::new(0));
        for (key, gate) in (1..).zip(&gates) {
            let (work, begun) = (counted(&done, gate), Arc::clone(&begun));
            let work = move || {
                begun.fetch_add(1, Ordering::SeqCst);
                work()
            };
            background.leave(0, PlanKey(key), free(), Box::new(work));
        }
        // Two queries follow each other.
        tokio::time::sleep(4 * PAUSE).await;
        drop(busy);
        tokio::time::sleep(PAUSE / 10).await;
        let busy = background.busy();
        assert_eq!(begun.load(Ordering::SeqCst), 0);
        tokio::time::sleep(PATIENCE).await;
        assert_eq!(begun.load(Ordering::SeqCst), 1);
        drop(busy);
        while begun.load(Ordering::SeqCst) < 3 {
            tokio::task::yield_now().await;
        }
        gates.iter().for_each(|gate| gate.notify_one());
        background.finished(0).await;
        assert_eq!(done.load(Ordering::SeqCst), 3);
    }

    #[tokio::test]
    async fn failing_task_is_retried_a_limited_number_of_times() {
        let (background, tries) = (Background::default(), Arc::new(AtomicUsize::new(0)));
        for _ in 0..10 {
            let tries = Arc::clone(&tries);
            let fail = move || {
                tries.fetch_add(1, Ordering::SeqCst);
                async { exec_err!("as it should") }.boxed()
            };
            background.leave(0, PlanKey(7), free(), Box::new(fail));
            background.finished(0).await;
        }
        assert_eq!(tries.load(Ordering::SeqCst), TRIES as usize);
    }

    #[tokio::test]
    async fn tasks_run_after_a_cancellation() {
        let (background, done) = (Background::default(), Arc::default());
        let (shut, open): (Arc<Notify>, Arc<Notify>) = (Arc::default(), Arc::default());
        (0..100).for_each(|key| background.leave(0, PlanKey(key), free(), counted(&done, &shut)));
        background.cancel(0);
        background.finished(0).await;
        open.notify_one();
        background.leave(0, PlanKey(1), free(), counted(&done, &open));
        background.finished(0).await;
        assert_eq!(done.load(Ordering::SeqCst), 1);
    }

    /// Pieces of another session continue, even while a query runs, and do not wait for a piece that is
    /// gone.
    #[tokio::test]
    async fn session_cancels_only_its_own_tasks() {
        let (background, done) = (Background::with_workers(2), Arc::new(AtomicUsize::new(0)));
        let busy = background.busy();
        let (shut, open): (Arc<Notify>, Arc<Notify>) = (Arc::default(), Arc::default());
        (0..5).for_each(|key| background.leave(1, PlanKey(key), Arc::new(|| 9.0), counted(&done, &shut)));
        (5..7).for_each(|key| background.leave(2, PlanKey(key), free(), counted(&done, &open)));
        // The first piece has begun.
        tokio::time::sleep(PATIENCE + 4 * PAUSE).await;
        assert!(background.cancel(1) && !background.cancel(3));
        background.finished(1).await;
        for number in 1..=2 {
            open.notify_one();
            while done.load(Ordering::SeqCst) < number {
                tokio::time::sleep(PAUSE / 10).await;
            }
        }
        background.finished(2).await;
        drop(busy);
        assert_eq!(done.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn full_queue_drops_the_task_with_the_smallest_loss() {
        let (background, done) = (Background::with_workers(1), Arc::new(AtomicUsize::new(0)));
        let gate: Arc<Notify> = Arc::default();
        for key in 0..=WAITING as u64 {
            let lost = if key == WAITING as u64 {
                7.0
            } else {
                1.0 + key as f64 / 1000.0
            };
            background.leave(0, PlanKey(key), Arc::new(move || lost), counted(&done, &gate));
        }
        let pieces = background.shared.pieces.lock();
        let waits = |key| pieces.waiting.iter().any(|piece| piece.key == PlanKey(key));
        assert!(!waits(0) && waits(1) && waits(WAITING as u64));
    }

    /// A piece may be the last owner of its session, and the end of a session cancels its pieces.
    #[tokio::test]
    async fn dropping_a_task_can_drop_its_session() {
        struct Session(Arc<Background>, u64);
        impl Drop for Session {
            fn drop(&mut self) {
                self.0.cancel(self.1);
            }
        }
        let background = Arc::new(Background::with_workers(1));
        let shut: Arc<Notify> = Arc::default();
        background.leave(0, PlanKey(0), free(), counted(&Arc::default(), &shut));
        for number in 1..=2 * WAITING as u64 {
            let session = Session(Arc::clone(&background), number);
            let work = move || {
                drop(session);
                async { Ok(()) }.boxed()
            };
            background.leave(number, PlanKey(number), free(), Box::new(work));
        }
        (0..=2 * WAITING as u64).for_each(|number| {
            background.cancel(number);
        });
        background.finished(7).await;
        assert!(background.shared.pieces.lock().waiting.is_empty());
    }
}
