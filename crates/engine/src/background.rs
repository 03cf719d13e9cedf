//! Work that serves later queries, done behind those that run: some pieces at once, on threads of the lowest
//! priority. An engine has one background for all of its sessions. The piece for want of which queries have
//! lost the most time is done first. While a query computes on the CPU, one piece at a time begins: cores
//! share caches and memory, whatever the priority of a thread.

use crate::graph::PlanKey;
use datafusion::common::Result;
use futures::future::BoxFuture;
use galatea_device::lower_thread_priority;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::runtime;
use tokio::sync::watch;
use tokio::task::AbortHandle;

/// Pieces that wait at most; of more, the one is dropped for want of which the least time was lost.
const WAITING: usize = 256;

/// Pieces remembered at most that have failed.
const FAILED: usize = 4096;

/// Times that a piece is tried: memory that was short once may be there later.
const TRIES: u32 = 3;

/// How long the first piece waits: a session that ends with its query begins nothing.
const PAUSE: Duration = Duration::from_millis(100);

/// What makes a piece of work, when its turn has come.
type Work = Box<dyn FnOnce() -> BoxFuture<'static, Result<()>> + Send>;

/// Seconds that queries have lost so far for want of a piece.
type Lost = Arc<dyn Fn() -> f64 + Send + Sync>;

/// A piece that waits.
struct Piece {
    /// Number of the session that left it.
    session: u64,
    key: PlanKey,
    lost: Lost,
    work: Work,
}

/// Threads that drive the work of all sessions; what they read is decoded and encoded by others.
const THREADS: usize = 4;

/// Cores of the machine for each piece that is done at once. A piece reads columns on many threads, and
/// compiles its kernels on few.
const CORES: usize = 4;

/// The work of an engine.
#[derive(Debug)]
pub struct Background {
    shared: Arc<Shared>,
    /// Pieces that are done at once.
    workers: usize,
}

/// What is left to do.
struct Shared {
    pieces: Mutex<Pieces>,
    /// Pieces that wait or are being done.
    open: watch::Sender<usize>,
    /// Partitions of queries that compute on the CPU.
    busy: watch::Sender<usize>,
}

/// A partition of a query that computes on the CPU, as long as the value lives.
#[derive(Debug)]
pub(crate) struct Busy(Arc<Shared>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.busy.send_modify(|busy| *busy -= 1);
    }
}

#[derive(Default)]
struct Pieces {
    waiting: Vec<Piece>,
    /// The pieces that are being done: the session that left each, and the number of the task that does it.
    current: HashMap<PlanKey, (u64, u64)>,
    /// The tasks that do them, by number.
    workers: HashMap<u64, AbortHandle>,
    /// Tasks started so far.
    started: u64,
    /// How often each has failed.
    failed: HashMap<PlanKey, u32>,
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
    /// One that does so many pieces at once.
    fn with_workers(workers: usize) -> Self {
        let shared = Shared {
            pieces: Mutex::default(),
            open: watch::Sender::new(0),
            busy: watch::Sender::new(0),
        };
        Self {
            shared: Arc::new(shared),
            workers,
        }
    }

    /// Leaves a piece of work of a session, known by `key`, to the background, unless it waits there already,
    /// is being done, or has failed too often.
    pub(crate) fn leave(&self, session: u64, key: PlanKey, lost: Lost, work: Work) {
        let losses = self.shared.losses();
        let mut pieces = self.shared.pieces.lock();
        let known = pieces.current.contains_key(&key)
            || pieces.failed.get(&key).is_some_and(|failed| *failed >= TRIES)
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
            take(&mut pieces.waiting, &losses, false);
        }
        self.shared.count(&pieces);
        self.start(&mut pieces);
    }

    /// Starts a task, unless there are as many as pieces are done at once.
    fn start(&self, pieces: &mut Pieces) {
        let Some(threads) = threads().filter(|_| pieces.workers.len() < self.workers) else {
            return;
        };
        let number = pieces.started;
        let worker = threads.spawn(Arc::clone(&self.shared).work(number));
        pieces.workers.insert(number, worker.abort_handle());
        pieces.started += 1;
    }

    /// A partition of a query begins to compute on the CPU.
    pub(crate) fn busy(&self) -> Busy {
        self.shared.busy.send_modify(|busy| *busy += 1);
        Busy(Arc::clone(&self.shared))
    }

    /// Waits until all that was left to it is done.
    pub async fn finished(&self) {
        let mut open = self.shared.open.subscribe();
        // The sender lives as long as this.
        let _ = open.wait_for(|open| *open == 0).await;
    }

    /// Drops the pieces of a session that wait, and stops those that are being done at their next step;
    /// whether there were such.
    pub fn cancel(&self, session: u64) -> bool {
        let mut pieces = self.shared.pieces.lock();
        pieces.waiting.retain(|piece| piece.session != session);
        let (stopped, current) = std::mem::take(&mut pieces.current)
            .into_iter()
            .partition::<HashMap<_, _>, _>(|(_, (of, _))| *of == session);
        pieces.current = current;
        for (_, worker) in stopped.values() {
            if let Some(worker) = pieces.workers.remove(worker) {
                worker.abort();
            }
        }
        if !pieces.waiting.is_empty() {
            self.start(&mut pieces);
        }
        self.shared.count(&pieces);
        !stopped.is_empty()
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let mut pieces = self.shared.pieces.lock();
        pieces.waiting.clear();
        for (_, worker) in pieces.workers.drain() {
            worker.abort();
        }
    }
}

/// The threads, started when there is work for the first time; `None` where the system gives none.
fn threads() -> Option<&'static runtime::Runtime> {
    static STARTED: OnceLock<Option<runtime::Runtime>> = OnceLock::new();
    let start = || {
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
        self.open
            .send_replace(pieces.waiting.len() + pieces.current.len());
    }

    /// Does what waits, until nothing does; as the task of that number.
    async fn work(self: Arc<Self>, number: u64) {
        tokio::time::sleep(PAUSE).await;
        let mut busy = self.busy.subscribe();
        loop {
            let is_first = self.pieces.lock().workers.keys().min() == Some(&number);
            if !is_first {
                // The sender lives as long as this.
                let _ = busy.wait_for(|busy| *busy == 0).await;
            }
            let Some(Piece { key, work, .. }) = self.next(number) else {
                return;
            };
            let outcome = work().await;
            let mut pieces = self.pieces.lock();
            pieces.current.remove(&key);
            if let Err(error) = outcome {
                tracing::debug!("not prepared: {error}");
                if pieces.failed.len() < FAILED {
                    *pieces.failed.entry(key).or_default() += 1;
                }
            }
            self.count(&pieces);
        }
    }

    /// Seconds lost for want of each piece that waits. They are computed without the lock: the last use of a
    /// session may end meanwhile, which cancels its pieces.
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
        // A session that has cancelled its work starts others.
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

/// Takes the piece for want of which the most time was lost, or the least; of equal ones the oldest.
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

    /// Of a piece that no query has lost time for.
    fn free() -> Lost {
        Arc::new(|| 0.0)
    }

    #[tokio::test]
    async fn the_piece_with_the_largest_loss_is_done_first() {
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
        background.finished().await;
        assert_eq!(*order.lock(), [2, 4, 1, 3]);
    }

    /// Work that counts itself once `gate` is open.
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
    async fn each_piece_is_done_once_while_it_waits() {
        let (background, done, gate) = (Background::default(), Arc::default(), Arc::default());
        background.finished().await;
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
        background.finished().await;
        assert_eq!(done.load(Ordering::SeqCst), 0, "three of five");
        gate.notify_one();
        background.leave(0, PlanKey(1), free(), counted(&done, &gate));
        background.finished().await;
        assert_eq!(
            done.load(Ordering::SeqCst),
            1,
            "what was done may be wanted again"
        );
    }

    #[tokio::test]
    async fn pieces_are_done_at_once() {
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
        background.finished().await;
        assert!(background.shared.pieces.lock().current.is_empty());
    }

    #[tokio::test]
    async fn one_piece_is_done_while_a_query_computes() {
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
        tokio::time::sleep(4 * PAUSE).await;
        assert_eq!(begun.load(Ordering::SeqCst), 1);
        drop(busy);
        while begun.load(Ordering::SeqCst) < 3 {
            tokio::task::yield_now().await;
        }
        gates.iter().for_each(|gate| gate.notify_one());
        background.finished().await;
        assert_eq!(done.load(Ordering::SeqCst), 3);
    }

    #[tokio::test]
    async fn what_fails_is_not_tried_for_ever() {
        let (background, tries) = (Background::default(), Arc::new(AtomicUsize::new(0)));
        for _ in 0..10 {
            let tries = Arc::clone(&tries);
            let fail = move || {
                tries.fetch_add(1, Ordering::SeqCst);
                async { exec_err!("as it should") }.boxed()
            };
            background.leave(0, PlanKey(7), free(), Box::new(fail));
            background.finished().await;
        }
        assert_eq!(tries.load(Ordering::SeqCst), TRIES as usize);
    }

    #[tokio::test]
    async fn cancelled_work_ends_and_later_work_is_done() {
        let (background, done) = (Background::default(), Arc::default());
        let (shut, open): (Arc<Notify>, Arc<Notify>) = (Arc::default(), Arc::default());
        (0..100).for_each(|key| background.leave(0, PlanKey(key), free(), counted(&done, &shut)));
        background.cancel(0);
        background.finished().await;
        open.notify_one();
        background.leave(0, PlanKey(1), free(), counted(&done, &open));
        background.finished().await;
        assert_eq!(done.load(Ordering::SeqCst), 1);
    }
}
