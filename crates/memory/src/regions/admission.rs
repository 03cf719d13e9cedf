//! Admission control: determines which queries run at the same time (MultiQx §5).
//!
//! A query declares the device memory that it is going to use ([`Demand`]) and waits for admission
//! ([`AdmissionController::begin`]). The engine does so for each pipeline of a statement. It is admitted if
//! its demand fits beside that of the running queries; regions that several queries read count once. By
//! default two queries may run regardless of the columns that they read, and beside them small ones, and
//! those that [follow](Demand::follows) a running one ([`Admission`]). If no query runs, the next one is
//! always admitted. Waiting queries are ordered by their [`Priority`], and by arrival among equals. A later
//! query that fits may overtake an earlier one that does not fit or is less urgent. No query, of whatever
//! priority, is overtaken more than [`OVERTAKES`] times.
//!
//! Demands are predictions. A running query that finds the device full releases all its memory and waits for
//! another one to end ([`AdmissionTicket::wait_for_room`]). The query that arrived first may keep its
//! memory. It waits until others have finished, released their memory, or parked their regions between two
//! launches ([`AdmissionTicket::is_preempted`]). So it always ends, and then the next one does. A query that
//! is too large for the whole device fails once no other runs.

use parking_lot::{Condvar, Mutex};
use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering as Memory};
use std::time::{Duration, Instant};

/// The most times that the first waiting query may be overtaken.
const OVERTAKES: u32 = 16;
/// Number of queries that [`Admission::Auto`] admits regardless of the columns that they read, so that
/// another query can run beside a scan that is larger than the device.
const ALWAYS: usize = 2;
/// The columns of a query count as small up to the device's size divided by this number.
const SMALL: u64 = 16;
/// Interval at which a waiting query checks whether it was cancelled.
const LOOK: Duration = Duration::from_millis(10);

/// The policy that selects the queries that run at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Admission {
    /// Queries with weighted demands, including regions, that fit together. Two queries, and further ones
    /// that read little or follow a running one, are admitted if their working memory fits: regions are
    /// evicted page by page.
    #[default]
    Auto,
    /// Queries with working memory that fits together, regardless of the columns that they read.
    Working,
    /// Queries with weighted demands, including regions, that fit together (MultiQx Weight).
    Weight,
    /// Queries with peak demands, including regions, that fit together (MultiQx Peak).
    Peak,
    /// At most n queries, regardless of their demands (MultiQx FIX-n).
    Fixed(u32),
}

/// Priority of a query relative to others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Priority {
    /// After all others.
    Low,
    /// In order of arrival.
    #[default]
    Normal,
    /// Before all others.
    High,
}

/// Device memory that a query is expected to use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Demand {
    /// Bytes of working memory, averaged over its launches and weighted by their duration.
    pub weighted: u64,
    /// The most bytes of working memory that one launch uses.
    pub peak: u64,
    /// The regions that it reads, each with a unique number and its bytes.
    pub regions: Vec<(usize, u64)>,
    /// Whether it reads its regions while another query that reads all of them transfers them, and needs no
    /// memory for them.
    pub follows: bool,
}

/// The queries of one device, and their admission.
#[derive(Debug, Default)]
pub struct AdmissionController {
    state: Mutex<State>,
    /// Wakes running queries that wait for memory.
    freed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    policy: Admission,
    /// The queries by arrival.
    queries: BTreeMap<u64, Query>,
    next: u64,
    /// Number of times that a query ended or released its memory.
    freed: u64,
    /// Number of queries that have ended.
    ended: u64,
}

/// Identifies the pipeline that a query runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PipelineName {
    /// Number of the pipeline in its GPU subtree.
    pub number: usize,
    /// Sink and columns of the pipeline.
    pub name: String,
}

impl PipelineName {
    /// Creates the name of the pipeline with that number.
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
    /// Size of the device in bytes.
    capacity: u64,
    since: Instant,
    running: bool,
    overtaken: u32,
    /// Whether it waits for memory during its run.
    starved: bool,
    /// Whether it is expected to end soon.
    brief: bool,
    /// Wakes the query when it is admitted.
    turn: Arc<Condvar>,
}

/// Facts about a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryInfo {
    /// Number of the query, by arrival.
    pub number: u64,
    /// The pipeline that it runs.
    pub pipeline: PipelineName,
    /// `running`, `waiting for its turn`, or `waiting for memory`.
    pub state: &'static str,
    /// Bytes that it is expected to use, including regions.
    pub demand: u64,
    /// Time since its arrival.
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

/// Totals of the running queries, computed once for all waiting ones.
struct Running<'s> {
    count: usize,
    starved: bool,
    /// Bytes of working memory.
    working: u64,
    /// For policies that count regions: the regions of the running queries, and the bytes of these.
    regions: HashMap<usize, u64>,
    read: u64,
    state: &'s State,
}

impl Running<'_> {
    /// Whether one running query reads all regions of a query, and others may follow it.
    fn is_led(&self, query: &Query) -> bool {
        let leads = |leader: &Query| {
            let mut regions = query.demand.regions.iter();
            leader.demand.follows && regions.all(|region| leader.demand.regions.contains(region))
        };
        let mut queries = self.state.queries.values();
        queries.any(|other| other.running && leads(other))
    }

    /// Whether the query fits beside the running ones.
    fn admits(&self, query: &Query) -> bool {
        let policy = self.state.policy;
        if self.count == 0 {
            return true;
        }
        // Running queries have precedence.
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
        if policy == Admission::Auto && query.demand.follows && self.is_led(query) {
            return true;
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

    /// The query to admit next: it fits, no fitting query precedes it, and no earlier query has been
    /// overtaken too often.
    fn next_turn(&self) -> Option<u64> {
        let waiting = || self.queries.iter().filter(|(_, query)| !query.running);
        // Most changes happen while no query waits: the totals of the running ones are not needed then.
        waiting().next()?;
        let running = self.running();
        let fitting: Vec<_> = waiting().filter(|(_, query)| running.admits(query)).collect();
        // No query overtakes the first one that has been overtaken too often.
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

    /// Admits queries and wakes them. It has to be called after every change: once by the thread that makes
    /// the change, not by each waiting thread, so that hundreds can wait.
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

impl AdmissionController {
    /// Changes the policy.
    pub fn set_admission(&self, policy: Admission) {
        let mut state = self.state.lock();
        state.policy = policy;
        state.admit();
    }

    /// Waits for the admission of a query on a device of `capacity` bytes; `None` if `cancelled` is set
    /// first.
    pub fn begin(
        &self,
        pipeline: PipelineName,
        priority: Priority,
        demand: Demand,
        capacity: u64,
        cancelled: &AtomicBool,
    ) -> Option<AdmissionTicket<'_>> {
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
                brief: false,
                turn: Arc::clone(&turn),
            },
        );
        let ticket = AdmissionTicket {
            admission: self,
            number,
            seen: Mutex::new((0, 0)),
        };
        state.admit();
        while !state.queries.get(&number).is_some_and(|query| query.running) {
            turn.wait_for(&mut state, LOOK);
            if cancelled.load(Memory::Relaxed) {
                // Dropping the ticket takes the lock.
                drop(state);
                return None;
            }
        }
        *ticket.seen.lock() = (state.freed, state.ended);
        drop(state);
        Some(ticket)
    }

    /// Whether another query would not wait long for the device: each query runs, does not wait for memory,
    /// and [is brief](AdmissionTicket::set_brief).
    pub fn are_brief(&self) -> bool {
        let state = self.state.lock();
        let is_brief = |query: &Query| query.running && query.brief && !query.starved;
        state.queries.values().all(is_brief)
    }

    /// Whether a query waits for admission or for memory.
    pub fn are_awaited(&self) -> bool {
        let state = self.state.lock();
        state
            .queries
            .values()
            .any(|query| !query.running || query.starved)
    }

    /// The running and waiting queries, by arrival.
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

/// The admission of a query. The query ends when the ticket is dropped.
#[derive(Debug)]
pub struct AdmissionTicket<'t> {
    admission: &'t AdmissionController,
    number: u64,
    /// The numbers of releases and of ended queries when the query's current attempt began.
    seen: Mutex<(u64, u64)>,
}

impl AdmissionTicket<'_> {
    /// The number of the query, by arrival.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Notes that the query is expected to end soon.
    pub fn set_brief(&self) {
        let mut state = self.admission.state.lock();
        if let Some(query) = state.queries.get_mut(&self.number) {
            query.brief = true;
        }
    }

    /// Whether no other query runs or waits.
    pub fn is_alone(&self) -> bool {
        self.admission.state.lock().queries.len() == 1
    }

    /// Whether no query that arrived earlier is running.
    pub fn is_first(&self) -> bool {
        let state = self.admission.state.lock();
        let mut earlier = state.queries.range(..self.number);
        !earlier.any(|(_, query)| query.running)
    }

    /// Whether a query that arrived earlier waits for memory. Then this query should park its regions between
    /// two launches, and [wait](Self::wait_for_room).
    pub fn is_preempted(&self) -> bool {
        let state = self.admission.state.lock();
        let mut earlier = state.queries.range(..self.number);
        earlier.any(|(_, query)| query.running && query.starved)
    }

    /// Updates the remaining demand of the query.
    pub fn update(&self, demand: Demand) {
        self.change(|query| query.demand = demand);
    }

    /// Updates only the demand of working memory. The regions that it reads are unchanged.
    pub fn update_working(&self, weighted: u64, peak: u64) {
        self.change(|query| (query.demand.weighted, query.demand.peak) = (weighted, peak));
    }

    fn change(&self, change: impl FnOnce(&mut Query)) {
        let mut state = self.admission.state.lock();
        if let Some(query) = state.queries.get_mut(&self.number) {
            change(query);
        }
        state.admit();
    }

    /// Called after the device was full and all working memory of this query was released or parked: waits
    /// until another attempt is worthwhile. The query that [arrived first](Self::is_first) may keep its
    /// memory. Returns `false` if no other query holds memory, or `cancelled` is set.
    pub fn wait_for_room(&self, cancelled: &AtomicBool) -> bool {
        let mut state = self.admission.state.lock();
        let (freed, ended) = *self.seen.lock();
        // Memory may have been released during the failed attempt.
        let mut room = state.freed > freed;
        state.freed += 1;
        let own = state.freed;
        self.set_starved(&mut state, true);
        self.admission.freed.notify_all();
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
                // No running query holds memory, so no more will be released.
                if room || !others.any(|(_, query)| query.running && !query.starved) {
                    break;
                }
            } else if state.ended > ended
                && !others.any(|(number, query)| *number < self.number && query.starved)
            {
                room = true;
                break;
            }
            self.admission.freed.wait_for(&mut state, LOOK);
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

impl Drop for AdmissionTicket<'_> {
    fn drop(&mut self) {
        let mut state = self.admission.state.lock();
        let query = state.queries.remove(&self.number);
        // A query that never ran held no memory.
        if query.is_some_and(|query| query.running) {
            state.freed += 1;
            state.ended += 1;
        }
        state.admit();
        drop(state);
        self.admission.freed.notify_all();
    }
}
