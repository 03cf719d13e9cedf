//! Placement and transfer of a scan's chunks in device memory.

mod choice;

use crate::device::chunk_table::LaunchInputs;
use crate::device::columns::{ChunkAddresses, addresses};
use crate::device::shared_scan::{Leader, ScanChunks};
use crate::device::{DeviceRuntime, QueryStreams, RunError};
use crate::transfer::arrivals::Arrivals;
use crate::transfer::chunk_link::{ChunkLink, ChunkTransfer, LinkStreams};
use crate::transfer::mapped::MappedChunks;
use crate::transfer::slot_ring::SlotRing;
use galatea_base::policy::policy;
use galatea_device::Event;
use galatea_memory::regions::{Ablation, MemoryManager, PagePin, Scan};
use galatea_memory::transfer::Method;
use galatea_store::TableView;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

policy! {
    /// How far copies and launches are queued ahead.
    pub(crate) struct LaunchPolicy {
        /// Number of launches with chunks in flight in a ring of slots: one computing, two copying, one
        /// waiting.
        slots: usize = 4,
        /// Bytes transferred for a launch, which take most of a millisecond: each launch has fixed costs,
        /// above all for the groups that blocks collect.
        launch: u64 = 32 << 20,
        /// Maximum number of chunks of a launch.
        launch_chunks: u64 = 16,
        /// Inverse share of the slots that a launch reads if other runs read them, too: the slots of one
        /// launch are written, those of another one are read, and slow runs read a third. Each run queues its
        /// own launches, so a launch for every 32 MiB would take longer to queue than its copies.
        shared: usize = 3,
        /// Divisor of free device memory: slots for launches of several chunks may use the quotient.
        ring: u64 = 16,
        /// Divisor of the number of chunks that pass through slots: the number of slots, if that is less.
        missing: u64 = 4,
        /// Bytes of copies that are queued ahead, for which a cancelled query still waits: 5 ms of the link.
        in_flight: u64 = 256 << 20,
        /// Number of launches over chunks in device memory that are queued ahead, of a few milliseconds each
        /// (`Run::slice` in `launch_loop.rs`).
        launches_ahead: usize = 2,
    }
}

const POLICY: LaunchPolicy = LaunchPolicy::DEFAULT;

/// Locations of the chunks of a run at the time of their launch.
///
/// Each chunk of each column is in a page of the column's region, or passes through a slot. Chunks with all
/// pages resident are first: they are read in place, by launches before those of the others.
#[derive(Debug)]
pub(crate) struct ChunkResidency<'r> {
    manager: &'r MemoryManager,
    /// The link over which missing chunks are transferred.
    link: ChunkLink<'r>,
    scan: Scan<'r>,
    /// Chunks, in the order of their launches.
    order: Vec<usize>,
    /// Number of leading chunks in the order that need no copy.
    ready: usize,
    /// By position and column; `None` if the chunk passes through a slot. Empty once its launch is queued.
    pages: Vec<Vec<Option<PagePin>>>,
    ring: Option<SlotRing>,
    /// The chunks that are read in host memory, if the method is zero-copy.
    mapped: Option<MappedChunks>,
    /// Positions with queued copies, from `ready` on, with the events for which their launches wait.
    queued: VecDeque<Vec<Arc<Event>>>,
    /// Number of positions that may be queued ahead of the current one.
    ahead: usize,
    /// Launches that are queued and may still run.
    in_flight: VecDeque<Arc<Event>>,
    /// Maximum number of transferred chunks that one launch reads.
    together: usize,
    /// The same if other runs read the chunks, too.
    together_shared: usize,
    /// Arrival flags that launches wait for while they run, if they do.
    arrivals: Option<Arrivals>,
    /// The position after the last chunk with a queued launch of this run.
    launched: usize,
    /// Number of leading chunks that are released: all launches over them are queued.
    released: usize,
    /// Lets other runs follow the scan.
    leader: Option<Leader>,
}

/// Chunks with queued copies.
#[derive(Debug, Default)]
pub(crate) struct FetchedChunks {
    /// The position behind the last chunk whose launch can be queued.
    pub(crate) end: usize,
    /// Bytes of the copies.
    pub(crate) bytes: u64,
    /// The events that a launch over the chunks waits for.
    arrived: Vec<Arc<Event>>,
}

/// The chunks that a run requests, and how.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'c> {
    /// The chunks.
    pub chunks: &'c [usize],
    /// Whether to allocate pages that are not resident.
    pub keep: bool,
    /// If the run resumes: the number of leading chunks that are done; the order is kept. `None`: resident
    /// chunks are moved to the front.
    pub done: Option<usize>,
    /// Whether the run may stop early: it transfers chunks one at a time.
    pub stops: bool,
    /// Whether a launch may wait for several chunks while it runs.
    pub awaits: bool,
    /// The forced transfer method.
    pub method: Option<Method>,
}

impl<'r> ChunkResidency<'r> {
    /// The residency of a launch with cached inputs: all chunks are in pages.
    pub(crate) fn kept(runtime: &'r DeviceRuntime, scan: Scan<'r>, inputs: &LaunchInputs) -> Self {
        Self {
            manager: runtime.memory(),
            // No chunk is transferred.
            link: ChunkLink::new(runtime, Method::Pinned),
            scan,
            ready: inputs.order.len(),
            order: inputs.order.clone(),
            pages: Vec::new(),
            ring: None,
            mapped: None,
            queued: VecDeque::new(),
            ahead: 0,
            in_flight: VecDeque::new(),
            together: 1,
            together_shared: 1,
            arrivals: None,
            launched: 0,
            released: 0,
            leader: None,
        }
    }

    /// Chunks in the order of their launches.
    pub(crate) fn order(&self) -> &[usize] {
        &self.order
    }

    /// Lets other runs follow the scan, if chunks pass through slots.
    pub(crate) fn lead(&mut self, leader: Leader, view: &TableView) {
        let (Some(ring), None, None) = (&self.ring, &self.arrivals, &self.mapped) else {
            return;
        };
        let columns = 0..view.columns.len();
        let places = |position| columns.clone().map(|k| self.place(view, position, k)).collect();
        leader.begin(ScanChunks {
            order: self.order[self.ready..].to_vec(),
            places: (self.ready..self.order.len()).map(places).collect(),
            slots: Arc::clone(ring.slots()),
        });
        self.leader = Some(leader);
    }

    /// The transfer method of chunks; `None` if all are resident.
    pub(crate) fn way(&self) -> Option<Method> {
        (self.ready < self.order.len()).then_some(self.link.way())
    }

    /// Number of leading chunks in the table that need no copy.
    pub(crate) fn ready(&self) -> usize {
        self.ready
    }

    /// The chunks of the launch that begins with the one at `position`, which may still be in transfer. The
    /// first launches have few chunks, to begin early, and so have the last ones, to end soon after the last
    /// copy.
    pub(crate) fn launch_from(&self, position: usize) -> Range<usize> {
        let left = self.order.len() - position;
        let most = match self.runs() {
            1 => self.together,
            _ => self.together_shared,
        };
        let together = match self.arrivals {
            Some(_) => self.together,
            None => most
                .min(position.saturating_sub(self.ready).max(1))
                .min(left.div_ceil(2)),
        };
        position..position + together.min(left)
    }

    /// Address of the arrival flags for launches over chunks in transfer; 0 if chunks have arrived before
    /// their launches.
    pub(crate) fn arrivals(&self) -> u64 {
        self.arrivals.as_ref().map_or(0, Arrivals::address)
    }

    /// Whether every chunk has its pages, so that the table stays valid after the run.
    pub(crate) fn is_resident(&self) -> bool {
        self.ring.is_none() && self.mapped.is_none()
    }

    /// The state of the regions' addresses.
    pub(crate) fn addresses(&self) -> &[(usize, u64)] {
        self.scan.addresses()
    }

    /// Address of column `k` of the chunk at `position` at the time of its launch.
    pub(crate) fn place(&self, view: &TableView, position: usize, k: usize) -> ChunkAddresses {
        let chunk = self.order[position];
        match (self.pages[position].get(k).unwrap_or(&None), &self.ring) {
            (Some(page), _) => addresses(page.address(), view.columns[k].chunk_layout(chunk, 0).0),
            (None, Some(ring)) => {
                let pages = &self.pages[position];
                let before = (0..k).filter(|k| pages.get(*k).is_none_or(Option::is_none));
                ring.place(view, (position, chunk), before, k)
            }
            (None, None) => {
                let mapped = self.mapped.as_ref().and_then(|mapped| mapped.place(chunk, k));
                mapped.unwrap_or_default()
            }
        }
    }

    /// Applies ablations before the first launch: `Eager` queues the copies of all pages now, `NoReference`
    /// pins all resident regions. Otherwise does nothing. Returns the number of bytes queued.
    pub(crate) fn begin(&mut self, streams: &QueryStreams, view: &TableView) -> Result<u64, RunError> {
        self.scan.reference_all();
        let mut fetched = FetchedChunks::default();
        if self.manager.ablations().has(Ablation::Eager) {
            for position in self.ready..self.order.len() {
                if self.pages[position].iter().all(Option::is_some) {
                    let waits = self.queue(streams, view, position, &mut fetched)?;
                    for copy in waits.into_iter().flatten() {
                        streams.compute.wait(&copy)?;
                    }
                }
            }
        }
        Ok(fetched.bytes)
    }

    /// Between launches over chunks in device memory: waits until only a few are queued, so that a cancelled
    /// query ends soon.
    pub(crate) fn pace(&mut self, streams: &QueryStreams) -> Result<(), RunError> {
        self.in_flight.push_back(Arc::new(streams.compute.record()?));
        self.settle_all_but(POLICY.launches_ahead)
    }

    /// Waits for launches until `left` are left.
    fn settle_all_but(&mut self, left: usize) -> Result<(), RunError> {
        while self.in_flight.len() > left {
            if let Some(launch) = self.in_flight.pop_front() {
                launch.synchronize()?;
            }
        }
        Ok(())
    }

    /// Queues the copies for which a launch over the first of those chunks waits. Blocks while more launches
    /// are in flight than may be queued ahead.
    pub(crate) fn fetch(
        &mut self,
        streams: &QueryStreams,
        view: &TableView,
        chunks: Range<usize>,
    ) -> Result<FetchedChunks, RunError> {
        let mut fetched = FetchedChunks::default();
        let queued = match self.arrivals {
            Some(_) => self.fetch_awaited(streams, view, chunks.clone(), &mut fetched)?,
            None => self.fetch_ahead(streams, view, chunks.clone(), &mut fetched)?,
        };
        fetched.end = chunks.start + queued;
        if let Some(leader) = self.leader.as_ref().filter(|_| queued > 0) {
            let positions = chunks.start - self.ready..fetched.end - self.ready;
            leader.publish(positions, &fetched.arrived);
        }
        Ok(fetched)
    }

    /// Announces the arrival of each of those chunks to the launch that will wait for them.
    fn fetch_awaited(
        &mut self,
        streams: &QueryStreams,
        view: &TableView,
        chunks: Range<usize>,
        fetched: &mut FetchedChunks,
    ) -> Result<usize, RunError> {
        self.settle_all_but(POLICY.launches_ahead)?;
        for position in chunks.clone() {
            let Some(waits) = self.queue(streams, view, position, fetched)? else {
                return Err(RunError::Defect(
                    "a slot is awaited by the launch that would release it".to_owned(),
                ));
            };
            let stream = &streams.transfer[position % streams.transfer.len()];
            // Pages may be in transfer for another query.
            for copy in waits {
                stream.wait(&copy)?;
            }
            if let Some(arrivals) = &mut self.arrivals {
                arrivals.announce(stream, position)?;
            }
        }
        Ok(chunks.len())
    }

    /// Makes `compute` wait for those chunks, while later chunks are being copied. Returns the number of
    /// chunks with queued copies, which is less than that of `chunks` if no slot is free.
    fn fetch_ahead(
        &mut self,
        streams: &QueryStreams,
        view: &TableView,
        chunks: Range<usize>,
        fetched: &mut FetchedChunks,
    ) -> Result<usize, RunError> {
        let position = chunks.start;
        self.settle_all_but((self.ahead / self.together).max(1))?;
        self.release();
        loop {
            let next = (position + self.queued.len()).max(self.ready);
            let in_slot = |pages: &[Option<PagePin>]| pages.iter().any(Option::is_none);
            let reach = match (&self.ring, self.pages.get(next)) {
                (Some(ring), Some(pages)) if in_slot(pages) => ring.len(),
                _ => self.ahead.max(chunks.len()),
            };
            if next >= self.order.len() || next >= position + reach {
                break;
            }
            let Some(waits) = self.queue(streams, view, next, fetched)? else {
                break;
            };
            self.queued.push_back(waits);
        }
        let queued = chunks.len().min(self.queued.len());
        fetched.arrived.extend(self.queued.drain(..queued).flatten());
        for event in &fetched.arrived {
            streams.compute.wait(event)?;
        }
        Ok(queued)
    }

    /// Number of runs that read the chunks, at least 1.
    pub(crate) fn runs(&self) -> u32 {
        self.leader.as_ref().map_or(1, Leader::runs)
    }

    /// Waits a short time for followers, which have not queued their launches over a chunk that this run has
    /// launched.
    pub(crate) fn wait_for_followers(&self) {
        if let Some(leader) = &self.leader {
            leader.wait(self.launched - self.ready);
        }
    }

    /// Whether all followers have queued their launches over all chunks. Then the shared scan has ended.
    pub(crate) fn is_released(&mut self) -> bool {
        self.release();
        if self.released == self.order.len() {
            self.end_scan();
        }
        self.leader.is_none()
    }

    /// Ends the shared scan: followers queue no more launches. The manager receives their launches before
    /// pages are unpinned.
    fn end_scan(&mut self) {
        let launches = self.leader.take().map(Leader::end);
        for (_, launch) in launches.into_iter().flatten() {
            self.scan.used(&launch);
        }
    }

    /// Releases chunks with queued launches of this run and of all followers: pages may be evicted after the
    /// launches, and slots reused.
    fn release(&mut self) {
        let mut end = self.launched;
        if let Some(leader) = &self.leader {
            let (taken, launches) = leader.taken(self.launched.saturating_sub(self.ready));
            end = self.launched.min(self.ready + taken);
            for (positions, launch) in launches {
                self.scan.used(&launch);
                if let Some(ring) = &mut self.ring {
                    ring.launched(self.ready + positions.start..self.ready + positions.end, &launch);
                }
            }
        }
        if let Some(ring) = &mut self.ring {
            ring.release(end);
        }
        let released = self.pages.iter_mut().take(end).skip(self.released);
        released.for_each(|pages| *pages = Vec::new());
        self.released = end;
        if end >= self.order.len() {
            self.scan.release();
        }
    }

    /// Queues the copies of a chunk. Returns the events that its launch waits for; none if no slot is free.
    fn queue(
        &mut self,
        streams: &QueryStreams,
        view: &TableView,
        position: usize,
        fetched: &mut FetchedChunks,
    ) -> Result<Option<Vec<Arc<Event>>>, RunError> {
        let chunk = self.order[position];
        let stream = &streams.transfer[position % streams.transfer.len()];
        let mut waits = Vec::new();
        let missing = self.pages[position].iter().enumerate();
        let missing: Vec<usize> = missing
            .filter(|(_, page)| page.is_none())
            .map(|(k, _)| k)
            .collect();
        if let (false, Some(ring)) = (missing.is_empty(), &mut self.ring) {
            let apart = LinkStreams {
                copy: stream,
                unpack: &streams.unpack,
            };
            let copied = ring.fetch(&mut self.link, apart, view, (position, chunk), &missing)?;
            let Some((arrives, bytes)) = copied else {
                return Ok(None);
            };
            waits.push(arrives);
            fetched.bytes += bytes;
        }
        // A page is complete for work queued later on the stream that copies it.
        let in_turn = LinkStreams {
            copy: stream,
            unpack: stream,
        };
        for (k, page) in self.pages[position].iter().enumerate() {
            let Some(page) = page else { continue };
            let coming = ChunkTransfer {
                column: &view.columns[k],
                chunk,
                start: 0,
            };
            if !page.is_here() {
                self.link.prepare(in_turn, &[coming])?;
            }
            let link = &mut self.link;
            let (event, bytes) =
                page.fetch(stream, |_, target| link.bring(in_turn, &[coming], target, &[]))?;
            waits.extend(event);
            fetched.bytes += bytes;
        }
        if let Some(mapped) = &self.mapped {
            let read = missing.iter().map(|k| mapped.bytes(chunk, *k));
            fetched.bytes += read.sum::<u64>();
        }
        Ok(Some(waits))
    }

    /// Called after the launch over those chunks was queued on `compute`.
    pub(crate) fn launched(&mut self, streams: &QueryStreams, chunks: Range<usize>) -> Result<(), RunError> {
        let launch = Arc::new(streams.compute.record()?);
        self.scan.used(&launch);
        self.in_flight.push_back(Arc::clone(&launch));
        if let Some(ring) = &mut self.ring {
            ring.launched(chunks.clone(), &launch);
        }
        self.launched = chunks.end;
        self.release();
        Ok(())
    }
}

impl Drop for ChunkResidency<'_> {
    fn drop(&mut self) {
        self.end_scan();
    }
}
