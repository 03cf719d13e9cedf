//! Turns: which queries run at once (MultiQx §5).
//!
//! A query states the device memory that it is going to use ([`Demand`]) and begins when its turn comes
//! ([`Turns::begin`]): when that fits beside what the running ones use, regions that several read counted
//! once; by default two may run whatever they read, and small ones beside them ([`Admission`]). Nothing
//! running always admits.
//! Those that wait go by their [`Priority`], and in the order they came among equals; a later one that fits,
//! or that is more urgent, may overtake another [`OVERTAKES`] times, whatever its priority.
//!
//! Demands are predictions. A running query that finds the device full gives up all it has and waits for
//! another one to end ([`Lease::wait_for_room`]), except the one that came first: it waits while the others
//! finish, give up, or park their regions between two launches ([`Lease::is_asked`]), so that it always ends,
//! and then the next. A query that is too large for the device alone is told so when no other runs.

use parking_lot::{Condvar, Mutex};
use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering as Memory};
use std::time::{Duration, Instant};

/// Times the first of those that wait may be overtaken.
const OVERTAKES: u32 = 16;
/// Queries that [`Admission::Auto`] lets run regardless of the columns that they read: one more than the scan
/// that is larger than the device.
const ALWAYS: usize = 2;
/// Share of the device that a query may read and still count as small.
const SMALL: u64 = 16;
/// How often a waiting query looks whether it was cancelled.
const LOOK: Duration = Duration::from_millis(10);

/// Which queries run at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Admission {
    /// Those whose weighted demands fit together, regions included; two at least, and beside them
    /// those that read little, as far as their working memory fits: regions give way page by page.
    #[default]
    Auto,
    /// Those whose working memory fits together, regardless of the columns that they read.
    Working,
    /// Those whose weighted demands fit together, regions included (MultiQx Weight).
    Weight,
    /// Those whose greatest demands fit together, regions included (MultiQx Peak).
    Peak,
    /// So many, regardless of their demands (MultiQx FIX-n).
    Fixed(u32),
}

/// How urgent a query is, beside others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Priority {
    /// After all others.
    Low,
    /// In order.
    #[default]
    Normal,
    /// Before all others.
    High,
}

/// Device memory that a query is going to use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Demand {
    /// Bytes of working memory, averaged over its launches by the time they take.
    pub weighted: u64,
    /// Most bytes of working memory that one launch takes.
    pub peak: u64,
    /// Regions it reads, each named by a number that is its own, with their bytes.
    pub regions: Vec<(usize, u64)>,
}

/// The queries of one device.
#[derive(Debug, Default)]
pub struct Turns {
    state: Mutex<State>,
    /// Wakes running queries that wait for memory.
    freed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    policy: Admission,
    /// By arrival.
    queries: BTreeMap<u64, Query>,
    next: u64,
    /// Times a query ended or gave up its memory.
    freed: u64,
    /// Times a query ended.
    ended: u64,
}

/// The name of the pipeline that a query runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PipelineName {
    /// Its number in its GPU subtree.
    pub number: usize,
    /// Its sink and columns.
    pub name: String,
}

impl PipelineName {
    /// The pipeline of that number.
    pub fn new(number: usize, name: impl Into<String>) -> Self {
        let name = name.into();
        Self { number, name }
    }
}

#[derive(Debug)]
struct Query {
    pipeline: PipelineName,
    priority: Priority,
    demand: Demand,
    /// Bytes of the device.
    capacity: u64,
    since: Instant,
    running: bool,
    overtaken: u32,
    /// Waits for room in the middle of its run.
    starved: bool,
    /// Wakes it when its turn comes.
    turn: Arc<Condvar>,
}

/// Facts about a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryInfo {
    /// Its number, by arrival.
    pub number: u64,
    /// The pipeline that it runs.
    pub pipeline: PipelineName,
    /// `running`, `waiting for its turn`, or `waiting for memory`.
    pub state: &'static str,
    /// Bytes it is expected to use, regions included.
    pub demand: u64,
    /// Time since it came.
    pub age: Duration,
}

impl Demand {
    fn working(&self, policy: Admission) -> u64 {
        match policy {
            Admission::Peak => self.peak,
            _ => self.weighted,
        }
    }

    /// Bytes of working memory and regions.
    pub fn bytes(&self) -> u64 {
        self.weighted + self.regions.iter().map(|(_, bytes)| bytes).sum::<u64>()
    }
}

/// The running queries, summed up once for all waiting ones.
struct Running<'s> {
    count: usize,
    starved: bool,
    /// Bytes of working memory.
    working: u64,
    /// By policies that count them, their regions, and the bytes of those.
    regions: HashMap<usize, u64>,
    read: u64,
    state: &'s State,
}

impl Running<'_> {
    /// Whether the query fits beside those that run.
    fn admits(&self, query: &Query) -> bool {
        let policy = self.state.policy;
        if self.count == 0 {
            return true;
        }
        // Those that have begun go first.
        if self.starved {
            return false;
        }
        if let Admission::Fixed(most) = policy {
            return self.count < most as usize;
        }
        let working = self.working + query.demand.working(policy);
        if policy == Admission::Working || working > query.capacity {
            return working <= query.capacity;
        }
        let own = query.demand.regions.iter();
        let reads: u64 = own.clone().map(|(_, bytes)| bytes).sum();
        if policy == Admission::Auto && (self.count < ALWAYS || reads <= query.capacity / SMALL) {
            return true;
        }
        let more = own.filter(|(region, _)| !self.regions.contains_key(region));
        working + self.read + more.map(|(_, bytes)| bytes).sum::<u64>() <= query.capacity
    }
}

impl State {
    fn running(&self) -> Running<'_> {
        let running = || self.queries.values().filter(|query| query.running);
        let regions: HashMap<usize, u64> = match self.policy {
            Admission::Auto | Admission::Weight | Admission::Peak => running()
                .flat_map(|query| query.demand.regions.iter().copied())
                .collect(),
            Admission::Working | Admission::Fixed(_) => HashMap::new(),
        };
        Running {
            count: running().count(),
            starved: running().any(|query| query.starved),
            working: running().map(|query| query.demand.working(self.policy)).sum(),
            read: regions.values().sum(),
            regions,
            state: self,
        }
    }

    /// The query whose turn it is: it fits, none that is before it does, and none that came earlier has been
    /// overtaken too often.
    fn next_turn(&self) -> Option<u64> {
        let running = self.running();
        let waiting = || self.queries.iter().filter(|(_, query)| !query.running);
        let fitting: Vec<_> = waiting().filter(|(_, query)| running.admits(query)).collect();
        // Nobody passes the first that has been overtaken too often.
        let barrier = waiting().find(|(_, query)| query.overtaken >= OVERTAKES);
        let last = barrier.map_or(u64::MAX, |(number, _)| *number);
        let mut candidates = fitting.iter().filter(|(number, _)| **number <= last);
        let is_before =
            |other: &(&u64, &Query), own: &(&u64, &Query)| match other.1.priority.cmp(&own.1.priority) {
                Ordering::Less => false,
                Ordering::Equal => other.0 < own.0,
                Ordering::Greater => other.0 < own.0 || own.1.overtaken < OVERTAKES,
            };
        let next = candidates.find(|own| !fitting.iter().any(|other| is_before(other, own)));
        next.map(|(number, _)| **number)
    }

    /// Begins the queries whose turn it is, and wakes them. To be called after every change: done once by the
    /// one that changes something, not by each that waits, so that hundreds can wait.
    fn admit(&mut self) {
        while let Some(number) = self.next_turn() {
            for (_, query) in self.queries.range_mut(..number) {
                query.overtaken += u32::from(!query.running);
            }
            if let Some(query) = self.queries.get_mut(&number) {
                query.running = true;
                query.turn.notify_one();
            }
        }
    }
}

impl Turns {
    /// Changes the policy.
    pub fn set_admission(&self, policy: Admission) {
        let mut state = self.state.lock();
        state.policy = policy;
        state.admit();
    }

    /// Waits for the turn of a query on a device of `capacity` bytes; none if `cancelled` is set first.
    pub fn begin(
        &self,
        pipeline: PipelineName,
        priority: Priority,
        demand: Demand,
        capacity: u64,
        cancelled: &AtomicBool,
    ) -> Option<Lease<'_>> {
        let mut state = self.state.lock();
        let number = state.next;
        state.next += 1;
        let turn = Arc::new(Condvar::new());
        state.queries.insert(
            number,
            Query {
                pipeline,
                priority,
                demand,
                capacity,
                since: Instant::now(),
                running: false,
                overtaken: 0,
                starved: false,
                turn: Arc::clone(&turn),
            },
        );
        let lease = Lease {
            turns: self,
            number,
            seen: Mutex::new((0, 0)),
        };
        state.admit();
        while !state.queries.get(&number).is_some_and(|query| query.running) {
            turn.wait_for(&mut state, LOOK);
            if cancelled.load(Memory::Relaxed) {
                // The lease takes the lock on drop.
                drop(state);
                return None;
            }
        }
        *lease.seen.lock() = (state.freed, state.ended);
        drop(state);
        Some(lease)
    }

    /// Whether there is no query.
    pub fn are_idle(&self) -> bool {
        self.state.lock().queries.is_empty()
    }

    /// Whether a query waits, for its turn or for memory.
    pub fn are_awaited(&self) -> bool {
        let state = self.state.lock();
        state
            .queries
            .values()
            .any(|query| !query.running || query.starved)
    }

    /// The queries there are, by arrival.
    pub fn queries(&self) -> Vec<QueryInfo> {
        let state = self.state.lock();
        let info = |(number, query): (&u64, &Query)| QueryInfo {
            number: *number,
            pipeline: query.pipeline.clone(),
            state: match (query.running, query.starved) {
                (_, true) => "waiting for memory",
                (true, false) => "running",
                (false, false) => "waiting for its turn",
            },
            demand: query.demand.bytes(),
            age: query.since.elapsed(),
        };
        state.queries.iter().map(info).collect()
    }
}

/// A query whose turn it is; over when dropped.
#[derive(Debug)]
pub struct Lease<'t> {
    turns: &'t Turns,
    number: u64,
    /// What had been freed, and how many queries had ended, when its current try began.
    seen: Mutex<(u64, u64)>,
}

impl Lease<'_> {
    /// The number of the query, by arrival.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Whether no query that came before it is running.
    pub fn is_first(&self) -> bool {
        let state = self.turns.state.lock();
        let mut earlier = state.queries.range(..self.number);
        !earlier.any(|(_, query)| query.running)
    }

    /// Whether a query that came before it waits for memory: between two launches it should park its regions,
    /// and [wait](Self::wait_for_room).
    pub fn is_asked(&self) -> bool {
        let state = self.turns.state.lock();
        let mut earlier = state.queries.range(..self.number);
        earlier.any(|(_, query)| query.running && query.starved)
    }

    /// States the rest of its demand, as far as it is known by now.
    pub fn update(&self, demand: Demand) {
        self.change(|query| query.demand = demand);
    }

    /// The same of its working memory alone; the regions that it reads stay as they were.
    pub fn update_working(&self, weighted: u64, peak: u64) {
        self.change(|query| (query.demand.weighted, query.demand.peak) = (weighted, peak));
    }

    fn change(&self, change: impl FnOnce(&mut Query)) {
        let mut state = self.turns.state.lock();
        if let Some(query) = state.queries.get_mut(&self.number) {
            change(query);
        }
        state.admit();
    }

    /// After the device was found full, and all working memory of this query given up or parked: waits until
    /// it is worth another try. The query that [came first](Self::is_first) may keep its memory. `false`: no
    /// other query has any memory, or `cancelled` is set.
    pub fn wait_for_room(&self, cancelled: &AtomicBool) -> bool {
        let mut state = self.turns.state.lock();
        let (freed, ended) = *self.seen.lock();
        // Somebody may have made room while this query found none.
        let mut room = state.freed > freed;
        state.freed += 1;
        let own = state.freed;
        self.set_starved(&mut state, true);
        self.turns.freed.notify_all();
        loop {
            if cancelled.load(Memory::Relaxed) {
                room = false;
                break;
            }
            let mut running = state.queries.iter().filter(|(_, query)| query.running);
            let first = running.next().is_none_or(|(number, _)| *number == self.number);
            let mut others = state.queries.iter().filter(|(number, _)| **number != self.number);
            if first {
                room |= state.freed > own;
                // Of those that run now, none holds memory: no more will be freed.
                if room || !others.any(|(_, query)| query.running && !query.starved) {
                    break;
                }
            } else if state.ended > ended
                && !others.any(|(number, query)| *number < self.number && query.starved)
            {
                room = true;
                break;
            }
            self.turns.freed.wait_for(&mut state, LOOK);
        }
        self.set_starved(&mut state, false);
        state.admit();
        *self.seen.lock() = (state.freed, state.ended);
        room
    }

    fn set_starved(&self, state: &mut State, starved: bool) {
        if let Some(query) = state.queries.get_mut(&self.number) {
            query.starved = starved;
        }
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        let mut state = self.turns.state.lock();
        let query = state.queries.remove(&self.number);
        // One that never ran had no memory.
        if query.is_some_and(|query| query.running) {
            state.freed += 1;
            state.ended += 1;
        }
        state.admit();
        drop(state);
        self.turns.freed.notify_all();
    }
}
