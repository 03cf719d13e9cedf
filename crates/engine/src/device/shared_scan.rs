//! Scans that several runs share, so that runs which stream the same columns at the same time transfer each
//! chunk once.
//!
//! The *leader* of a scan transfers its chunks to slots, or to pages. A *follower* attaches to the scan at
//! the chunk that the leader transfers next. Both launch their kernels over each chunk. The leader uses a
//! slot again after the launches of all followers. When the scan has ended, the follower reads the chunks
//! before its first one: it follows another scan that still has them, or leads a scan of its own.
//!
//! ```text
//! chunk          0   1   2   3   4   5   6   7
//! leader         ─transfers, launches──────────►
//! follower                   ──────launches────►     then 0 to 2
//! ```
//!
//! A leader waits for followers until they have queued their launches, and a follower waits for the transfers
//! of its leader. A run is never both at the same time, so runs do not wait for each other in a circle.
//!
//! Reference: M. Zukowski et al., *Cooperative Scans: Dynamic Bandwidth Sharing in a DBMS*, VLDB 2007.

use super::RunError;
use super::columns::ChunkAddresses;
use galatea_device::{DeviceBuffer, Event, Stream};
use galatea_memory::Identity;
use galatea_store::{Column, TableView};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::{BTreeMap, VecDeque};
use std::mem;
use std::ops::Range;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

/// Time after which a waiting run checks whether its query was cancelled.
const LOOK: Duration = Duration::from_millis(5);

/// The slots of a scan.
pub(crate) type Slots = Arc<[Mutex<DeviceBuffer<u8>>]>;

/// A launch over chunks, with their positions.
pub(crate) type ScanLaunch = (Range<usize>, Arc<Event>);

/// The scans on a device that followers can attach to.
#[derive(Debug, Default)]
pub(crate) struct SharedScans(Mutex<Vec<Weak<SharedScan>>>);

/// The role of a run in a shared scan.
#[derive(Debug)]
pub(crate) enum Role {
    /// It transfers the chunks.
    Leader(Leader),
    /// It reads the chunks of another run.
    Follower(Follower),
}

/// The scan of a leader.
#[derive(Debug)]
struct SharedScan {
    /// The columns that the leader reads.
    columns: Vec<Arc<Identity>>,
    /// Set when the scan begins.
    chunks: OnceLock<ScanChunks>,
    state: Mutex<State>,
    /// Wakes followers: the scan has begun or ended, or chunks are published.
    published: Condvar,
    /// Wakes the leader: a follower has queued a launch, or has detached.
    taken: Condvar,
}

/// The chunks of a scan by position, and their addresses.
#[derive(Debug)]
pub(crate) struct ScanChunks {
    /// Numbers of the chunks.
    pub(crate) order: Vec<usize>,
    /// Addresses by position and column.
    pub(crate) places: Vec<Vec<ChunkAddresses>>,
    /// The slots that the addresses refer to.
    pub(crate) slots: Slots,
}

#[derive(Debug, Default)]
struct State {
    /// The position after the last chunk with a queued transfer that followers may read.
    published: usize,
    /// The published chunks that not all followers have taken, and the events of their transfers.
    steps: VecDeque<Step>,
    followers: BTreeMap<usize, Progress>,
    /// Number of followers so far.
    attached: usize,
    /// Launches of followers that the leader has not collected.
    launches: Vec<ScanLaunch>,
    /// Whether the leader transfers no more chunks.
    ended: bool,
}

/// Chunks that have arrived at certain events.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    /// Their positions in the scan.
    pub(crate) positions: Range<usize>,
    /// The events of their transfers.
    pub(crate) arrived: Vec<Arc<Event>>,
}

/// The progress of a follower.
#[derive(Debug)]
struct Progress {
    /// The position of the first chunk without a launch.
    next: usize,
    /// Whether it queues a launch now.
    launches: bool,
}

impl State {
    /// The position up to which all followers have queued their launches, at most `end`.
    fn taken(&self, end: usize) -> usize {
        let next = self.followers.values().map(|follower| follower.next);
        next.fold(end, usize::min)
    }
}

impl SharedScans {
    /// Attaches a run over `chunks` of a view to a scan of all its columns that has begun; `None` if there is
    /// no such scan.
    pub(crate) fn follow(
        &self,
        view: &TableView,
        chunks: &[usize],
        compute: &Stream,
    ) -> Result<Option<Follower>, RunError> {
        let scans: Vec<_> = self.0.lock().iter().filter_map(Weak::upgrade).collect();
        let candidate = |scan: Arc<SharedScan>| {
            let columns = scan.columns_of(view)?;
            let left = scan.left_of(chunks).filter(|left| *left > 0)?;
            Some((left, scan, columns))
        };
        let best = scans
            .into_iter()
            .filter_map(candidate)
            .max_by_key(|(left, ..)| *left);
        match best {
            Some((_, scan, columns)) => Follower::attach(scan, columns, compute),
            None => Ok(None),
        }
    }

    /// Attaches a run over `chunks` of a view to a scan of all its columns, if `follows` permits it. If there
    /// is no such scan, the run becomes a leader. Waits for scans that are about to begin, and for the end of
    /// one that has none of the chunks left. `None` if the run may not wait. `waits` fails if the query of
    /// the run was cancelled.
    pub(crate) fn join(
        &self,
        view: &TableView,
        chunks: &[usize],
        follows: bool,
        compute: &Stream,
        waits: impl Fn() -> Result<bool, RunError>,
    ) -> Result<Option<Role>, RunError> {
        loop {
            let follower = match follows {
                true => self.follow(view, chunks, compute)?,
                false => None,
            };
            if let Some(follower) = follower {
                return Ok(Some(Role::Follower(follower)));
            }
            let mut scans = self.0.lock();
            scans.retain(|scan| scan.strong_count() > 0);
            // Chunks that the scan no longer has are transferred when it has ended: two scans at a time would
            // evict each other's pages.
            let runs =
                |scan: &Arc<SharedScan>| follows && scan.columns_of(view).is_some() && !scan.has_ended();
            let Some(scan) = scans.iter().filter_map(Weak::upgrade).find(runs) else {
                let identity = |column: &Arc<Column>| Arc::clone(&column.identity);
                let scan = Arc::new(SharedScan {
                    columns: view.columns.iter().map(identity).collect(),
                    chunks: OnceLock::new(),
                    state: Mutex::default(),
                    published: Condvar::new(),
                    taken: Condvar::new(),
                });
                scans.push(Arc::downgrade(&scan));
                return Ok(Some(Role::Leader(Leader { scan })));
            };
            drop(scans);
            if waits()? {
                scan.wait();
            } else {
                return Ok(None);
            }
        }
    }
}

impl SharedScan {
    /// Number of runs that read the chunks, at least 1.
    fn runs(&self) -> u32 {
        1 + self.state.lock().followers.len() as u32
    }

    /// The positions of a view's columns among those of the leader; `None` if the leader does not read all of
    /// them.
    fn columns_of(&self, view: &TableView) -> Option<Vec<usize>> {
        let position = |column: &Arc<Column>| {
            let mut columns = self.columns.iter();
            columns.position(|identity| Arc::ptr_eq(identity, &column.identity))
        };
        view.columns.iter().map(position).collect()
    }

    /// Whether no more chunks are transferred.
    fn has_ended(&self) -> bool {
        self.state.lock().ended
    }

    /// Waits until it begins, transfers chunks or ends, or a short time.
    fn wait(&self) {
        let mut state = self.state.lock();
        if !state.ended {
            self.published.wait_for(&mut state, LOOK);
        }
    }

    /// Number of those chunks that followers can still read; `None` if the scan has not begun.
    fn left_of(&self, chunks: &[usize]) -> Option<usize> {
        let state = self.state.lock();
        if state.ended {
            return Some(0);
        }
        let order = &self.chunks.get()?.order;
        let is_read = is_among(chunks);
        Some(
            order[state.published..]
                .iter()
                .filter(|chunk| is_read(**chunk))
                .count(),
        )
    }
}

/// A predicate that tests whether a chunk is one of `chunks`.
pub(crate) fn is_among(chunks: &[usize]) -> impl Fn(usize) -> bool {
    let end = chunks.iter().max().map_or(0, |last| last + 1);
    let mut among = vec![false; end];
    chunks.iter().for_each(|chunk| among[*chunk] = true);
    move |chunk| among.get(chunk).is_some_and(|is_among| *is_among)
}

/// The run that transfers the chunks of a scan. The scan ends when it is dropped, after
/// [`end`](Self::end) if it has begun.
#[derive(Debug)]
pub(crate) struct Leader {
    scan: Arc<SharedScan>,
}

impl Leader {
    /// Begins the scan.
    pub(crate) fn begin(&self, chunks: ScanChunks) {
        // Only the leader sets it, once.
        let _ = self.scan.chunks.set(chunks);
        let state = self.scan.state.lock();
        self.scan.published.notify_all();
        drop(state);
    }

    /// Number of runs that read the chunks, at least 1.
    pub(crate) fn runs(&self) -> u32 {
        self.scan.runs()
    }

    /// Lets followers read chunks with queued transfers.
    pub(crate) fn publish(&self, positions: Range<usize>, arrived: &[Arc<Event>]) {
        let mut state = self.scan.state.lock();
        state.published = positions.end;
        if state.followers.is_empty() {
            return;
        }
        state.steps.push_back(Step {
            positions,
            arrived: arrived.to_vec(),
        });
        self.scan.published.notify_all();
    }

    /// Returns the position up to which all followers have queued their launches, at most `end`, and the
    /// launches that they have queued since the last call.
    pub(crate) fn taken(&self, end: usize) -> (usize, Vec<ScanLaunch>) {
        let mut state = self.scan.state.lock();
        let taken = state.taken(end);
        while state
            .steps
            .front()
            .is_some_and(|step| step.positions.end <= taken)
        {
            state.steps.pop_front();
        }
        (taken, mem::take(&mut state.launches))
    }

    /// Waits until a follower queues a launch, or a short time. Returns at once if all followers have queued
    /// their launches up to `end`.
    pub(crate) fn wait(&self, end: usize) {
        let mut state = self.scan.state.lock();
        if state.taken(end) < end {
            self.scan.taken.wait_for(&mut state, LOOK);
        }
    }

    /// Ends the scan: followers queue no more launches over its chunks. Returns launches that were queued
    /// since the last call of [`taken`](Self::taken).
    pub(crate) fn end(self) -> Vec<ScanLaunch> {
        mem::take(&mut self.ended().launches)
    }

    /// Ends the scan, and waits until no follower queues a launch.
    fn ended(&self) -> MutexGuard<'_, State> {
        let mut state = self.scan.state.lock();
        state.ended = true;
        self.scan.published.notify_all();
        while state.followers.values().any(|follower| follower.launches) {
            self.scan.taken.wait(&mut state);
        }
        state
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        drop(self.ended());
    }
}

/// A run that reads the chunks of another run. It detaches from the scan when it is dropped: its launches
/// must have been announced by [`launched`](Self::launched), or have ended.
#[derive(Debug)]
pub(crate) struct Follower {
    scan: Arc<SharedScan>,
    number: usize,
    /// The position of its first chunk.
    first: usize,
    /// Its columns, as positions among those of the leader.
    columns: Vec<usize>,
}

impl Follower {
    /// Attaches to a scan that has begun; `None` if it has ended.
    fn attach(
        scan: Arc<SharedScan>,
        columns: Vec<usize>,
        compute: &Stream,
    ) -> Result<Option<Self>, RunError> {
        let Some(chunks) = scan.chunks.get() else {
            return Ok(None);
        };
        // The slots are freed after the launches on this stream.
        for slot in chunks.slots.iter() {
            slot.lock().used_by(compute)?;
        }
        let mut state = scan.state.lock();
        if state.ended {
            return Ok(None);
        }
        let (number, first) = (state.attached, state.published);
        state.attached += 1;
        let progress = Progress {
            next: first,
            launches: false,
        };
        state.followers.insert(number, progress);
        drop(state);
        Ok(Some(Self {
            scan,
            number,
            first,
            columns,
        }))
    }

    /// The chunks of the scan.
    fn chunks(&self) -> &ScanChunks {
        match self.scan.chunks.get() {
            Some(chunks) => chunks,
            None => unreachable!("a follower attaches to a scan that has begun"),
        }
    }

    /// Positions of the chunks that it may read, from its first one on, that are among `chunks`.
    pub(crate) fn positions(&self, chunks: &[usize]) -> Vec<usize> {
        let (is_read, order) = (is_among(chunks), &self.chunks().order);
        let positions = self.first..order.len();
        positions.filter(|position| is_read(order[*position])).collect()
    }

    /// The chunk at a position.
    pub(crate) fn chunk(&self, position: usize) -> usize {
        self.chunks().order[position]
    }

    /// Addresses of the follower's column `k` of the chunk at a position.
    pub(crate) fn place(&self, position: usize, k: usize) -> ChunkAddresses {
        self.chunks().places[position][self.columns[k]]
    }

    /// Number of runs that read the chunks, at least 2.
    pub(crate) fn runs(&self) -> u32 {
        self.scan.runs()
    }

    /// Waits for the next chunks of the leader; `None` if the scan has ended. A launch over the chunks must
    /// be queued at once, and announced. `check` fails if the query was cancelled.
    pub(crate) fn next(&self, check: impl Fn() -> Result<(), RunError>) -> Result<Option<Step>, RunError> {
        let end = self.chunks().order.len();
        let mut state = self.scan.state.lock();
        loop {
            let State {
                steps,
                followers,
                ended,
                ..
            } = &mut *state;
            let Some(own) = followers.get_mut(&self.number) else {
                return Ok(None);
            };
            if *ended || own.next >= end {
                return Ok(None);
            }
            if let Some(step) = steps.iter().find(|step| step.positions.start == own.next) {
                own.launches = true;
                return Ok(Some(step.clone()));
            }
            check()?;
            self.scan.published.wait_for(&mut state, LOOK);
        }
    }

    /// Announces the launch over the chunks of a step.
    pub(crate) fn launched(&self, step: &Step, launch: Arc<Event>) {
        let mut state = self.scan.state.lock();
        if let Some(own) = state.followers.get_mut(&self.number) {
            own.next = step.positions.end;
            own.launches = false;
        }
        state.launches.push((step.positions.clone(), launch));
        self.scan.taken.notify_one();
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let mut state = self.scan.state.lock();
        state.followers.remove(&self.number);
        self.scan.taken.notify_one();
    }
}
