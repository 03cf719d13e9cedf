//! Placement and transfer of a scan's chunks in device memory.

mod choice;

use crate::aggregate::group_table::copies_merge;
use crate::device::chunk_table::{ChunkTable, LaunchInputs};
use crate::device::columns::{ChunkAddresses, addresses};
use crate::device::{DeviceRuntime, QueryStreams, RunError};
use crate::transfer::arrivals::Arrivals;
use crate::transfer::chunk_link::{ChunkLink, ChunkTransfer, LinkStreams};
use crate::transfer::mapped::MappedChunks;
use crate::transfer::slot_ring::SlotRing;
use galatea_base::policy::policy;
use galatea_codegen::bound::BoundPipeline;
use galatea_device::{DeviceBuffer, Event, Stream};
use galatea_expression::LookupTable;
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
        /// Divisor of free device memory: slots for launches of several chunks may use the quotient.
        ring: u64 = 16,
        /// Bytes of copies that are queued ahead, for which a cancelled query still waits: 5 ms of the link.
        in_flight: u64 = 256 << 20,
        /// Number of launches over chunks in device memory that are queued ahead, of a few milliseconds each
        /// (`Run::slice` in `launch_loop.rs`).
        launches_ahead: usize = 2,
    }
}

const POLICY: LaunchPolicy = LaunchPolicy::DEFAULT;

impl LaunchInputs {
    /// Uploads the lookup tables of a launch of `bound`.
    pub(crate) fn lookups(
        runtime: &DeviceRuntime,
        stream: &Stream,
        bound: &BoundPipeline,
    ) -> Result<Vec<Option<DeviceBuffer<u8>>>, RunError> {
        let tables = bound.parameters.tables.iter();
        tables
            .map(|table| {
                let bytes = match table {
                    LookupTable::Host(bytes) if bytes.is_empty() => &[0],
                    LookupTable::Host(bytes) => &bytes[..],
                    LookupTable::Interned | LookupTable::Built { .. } => return Ok(None),
                };
                runtime.upload(stream, bytes, "a lookup table").map(Some)
            })
            .collect()
    }

    /// Uploads the chunk table of a launch of `bound` over the chunks of `residency`.
    pub(crate) fn upload(
        runtime: &DeviceRuntime,
        stream: &Stream,
        bound: &BoundPipeline,
        view: &TableView,
        residency: &ChunkResidency<'_>,
        lookups: Vec<Option<DeviceBuffer<u8>>>,
    ) -> Result<Self, RunError> {
        let order = residency.order.clone();
        let mut table = ChunkTable::new(view, &order, bound.morsel_rows, |position, k| {
            residency.place(view, position, k)
        });
        let words = runtime.upload(stream, &std::mem::take(&mut table.words), "the table of chunks")?;
        let merges = copies_merge(bound)
            .map(|merges| runtime.upload(stream, &merges, "how groups merge"))
            .transpose()?;
        Ok(Self {
            order,
            table,
            words,
            lookups,
            merges,
        })
    }
}

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
    /// Arrival flags that launches wait for while they run, if they do.
    arrivals: Option<Arrivals>,
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
            arrivals: None,
        }
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
        let together = match self.arrivals {
            Some(_) => self.together,
            None => (self.together)
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
    fn place(&self, view: &TableView, position: usize, k: usize) -> ChunkAddresses {
        let chunk = self.order[position];
        match (self.pages[position].get(k).unwrap_or(&None), &self.ring) {
            (Some(page), _) => addresses(page.address(), view.columns[k].chunk_layout(chunk, 0).0),
            (None, Some(ring)) => ring.place(view, position, chunk, k),
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
        let mut copied = 0;
        if self.manager.ablations().has(Ablation::Eager) {
            for position in self.ready..self.order.len() {
                if self.pages[position].iter().all(Option::is_some) {
                    let (waits, bytes) = self.queue(streams, view, position)?;
                    copied += bytes;
                    for copy in waits {
                        streams.compute.wait(&copy)?;
                    }
                }
            }
        }
        Ok(copied)
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

    /// Queues the copies for which a launch over those chunks waits, and returns the number of bytes queued.
    /// Blocks while more launches are in flight than may be queued ahead.
    pub(crate) fn fetch(
        &mut self,
        streams: &QueryStreams,
        view: &TableView,
        chunks: Range<usize>,
    ) -> Result<u64, RunError> {
        if self.arrivals.is_none() {
            return self.fetch_ahead(streams, view, chunks);
        }
        self.settle_all_but(POLICY.launches_ahead)?;
        let mut copied = 0;
        for position in chunks {
            let (waits, bytes) = self.queue(streams, view, position)?;
            let stream = &streams.transfer[position % streams.transfer.len()];
            // Pages may be in transfer for another query.
            for copy in waits {
                stream.wait(&copy)?;
            }
            if let Some(arrivals) = &mut self.arrivals {
                arrivals.announce(stream, position)?;
            }
            copied += bytes;
        }
        Ok(copied)
    }

    /// Makes `compute` wait for those chunks, while later chunks are being copied.
    fn fetch_ahead(
        &mut self,
        streams: &QueryStreams,
        view: &TableView,
        chunks: Range<usize>,
    ) -> Result<u64, RunError> {
        let position = chunks.start;
        self.settle_all_but((self.ahead / self.together).max(1))?;
        let mut copied = 0;
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
            let (waits, bytes) = self.queue(streams, view, next)?;
            self.queued.push_back(waits);
            copied += bytes;
        }
        for event in self.queued.drain(..chunks.len()).flatten() {
            streams.compute.wait(&event)?;
        }
        Ok(copied)
    }

    /// Queues the copies of a chunk. Returns the events that its launch waits for, and the number of bytes.
    fn queue(
        &mut self,
        streams: &QueryStreams,
        view: &TableView,
        position: usize,
    ) -> Result<(Vec<Arc<Event>>, u64), RunError> {
        let chunk = self.order[position];
        let stream = &streams.transfer[position % streams.transfer.len()];
        // A page is complete for work queued later on the stream that copies it.
        let in_turn = LinkStreams {
            copy: stream,
            unpack: stream,
        };
        let (mut waits, mut copied) = (Vec::new(), 0);
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
                page.fetch(stream, |_, target| link.bring(in_turn, &[coming], target, None))?;
            waits.extend(event);
            copied += bytes;
        }
        if let Some(mapped) = &self.mapped {
            let pages = self.pages[position].iter().enumerate();
            let read = pages.filter(|(_, page)| page.is_none());
            copied += read.map(|(k, _)| mapped.bytes(chunk, k)).sum::<u64>();
        }
        let in_slot = self.pages[position].iter().any(Option::is_none);
        if let (true, Some(ring)) = (in_slot, &mut self.ring) {
            let missing = self.pages[position].iter().map(Option::is_none);
            let link = &mut self.link;
            let apart = LinkStreams {
                copy: stream,
                unpack: &streams.unpack,
            };
            let (event, bytes) = ring.fetch(link, apart, view, chunk, position, missing)?;
            waits.push(Arc::new(event));
            copied += bytes;
        }
        Ok((waits, copied))
    }

    /// Called after the launch over those chunks was queued on `compute`: once it is done, their pages may be
    /// evicted, and slots reused.
    pub(crate) fn launched(&mut self, streams: &QueryStreams, chunks: Range<usize>) -> Result<(), RunError> {
        let launch = Arc::new(streams.compute.record()?);
        self.scan.used(&launch);
        self.in_flight.push_back(Arc::clone(&launch));
        if let Some(ring) = &mut self.ring {
            ring.launched(chunks.clone(), &launch);
        }
        let pages = self.pages.iter_mut().take(chunks.end);
        pages.for_each(|pages| *pages = Vec::new());
        if chunks.end >= self.order.len() {
            self.scan.release();
        }
        Ok(())
    }
}
