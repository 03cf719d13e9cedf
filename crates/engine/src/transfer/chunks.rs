//! Placement and transfer of a scan's chunks in device memory.

mod choice;

use crate::aggregate::group_table::copies_merge;
use crate::device::chunk_table::{ChunkTable, LaunchInputs, column_start, column_words};
use crate::device::columns::{ChunkAddresses, addresses};
use crate::device::{DeviceRuntime, QueryStreams, RunError};
use crate::transfer::arrivals::Arrivals;
use crate::transfer::chunk_link::{ChunkLink, ChunkTransfer, LinkStreams};
use crate::transfer::mapped::MappedChunks;
use crate::transfer::slot_ring::{RingStreams, SlotRing};
use galatea_base::policy::policy;
use galatea_codegen::bound::BoundPipeline;
use galatea_device::{DeviceBuffer, Event, HostMemory, HostView, Stream};
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

    /// Queues changes of the chunk table: new addresses by position and column, in ascending order.
    pub(crate) fn move_columns(
        &mut self,
        compute: &Stream,
        view: &TableView,
        moved: &[(usize, usize, ChunkAddresses)],
    ) -> Result<(), RunError> {
        let next_to =
            |one: &(usize, usize, _), other: &(usize, usize, _)| one.0 == other.0 && one.1 + 1 == other.1;
        for columns in moved.chunk_by(next_to) {
            let (position, first, _) = columns[0];
            let chunk = self.order[position];
            let words: Vec<u64> = (columns.iter())
                .flat_map(|(_, k, place)| column_words(&view.columns[*k].chunks[chunk], *place))
                .collect();
            let start = position * self.table.stride + column_start(first);
            let bytes = size_of_val(words.as_slice());
            let mut memory = HostMemory::new(bytes)?;
            memory.as_mut_slice()[..bytes].copy_from_slice(bytemuck::cast_slice(&words));
            let source = HostView::new(Arc::new(memory), 0, bytes)?;
            compute.copy_to_device(self.words.slice_mut(start..start + words.len())?, &source)?;
        }
        Ok(())
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
    ring: Option<SlotRing<'r>>,
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

/// Chunks with queued copies.
#[derive(Debug, Default)]
pub(crate) struct FetchedChunks {
    /// The position behind the last chunk whose launch can be queued.
    pub(crate) end: usize,
    /// Bytes of the copies.
    pub(crate) bytes: u64,
    /// Number of chunks that are read, at least in part, in slots of other runs.
    pub(crate) shared: usize,
    /// New addresses in the chunk table, by position and column.
    pub(crate) moved: Vec<(usize, usize, ChunkAddresses)>,
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
    /// Whether to read chunks in the slots of other runs.
    pub shares: bool,
    /// Whether the first chunk without pages may be any of them.
    pub any_order: bool,
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
            let waits = loop {
                match self.queue(streams, view, position, fetched)? {
                    Some(waits) => break waits,
                    None => self.wait_for_slot(),
                }
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
        for event in self.queued.drain(..queued).flatten() {
            streams.compute.wait(&event)?;
        }
        Ok(queued)
    }

    /// Waits a short time for a slot that other runs read.
    pub(crate) fn wait_for_slot(&self) {
        if let Some(ring) = &self.ring {
            ring.wait_for_slot();
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
            let apart = RingStreams {
                link: LinkStreams {
                    copy: stream,
                    unpack: &streams.unpack,
                },
                compute: &streams.compute,
            };
            let found = ring.fetch(&mut self.link, apart, view, (position, chunk), &missing)?;
            let Some(found) = found else { return Ok(None) };
            waits.extend(found.waits);
            fetched.bytes += found.copied;
            fetched.shared += usize::from(found.is_shared);
            let moved = found.moved.into_iter();
            fetched.moved.extend(moved.map(|(k, place)| (position, k, place)));
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

    /// Called after the launch over those chunks was queued on `compute`: once it is done, their pages may be
    /// evicted, and slots reused.
    pub(crate) fn launched(&mut self, streams: &QueryStreams, chunks: Range<usize>) -> Result<(), RunError> {
        let launch = Arc::new(streams.compute.record()?);
        self.scan.used(&launch);
        self.in_flight.push_back(Arc::clone(&launch));
        if let Some(ring) = &mut self.ring {
            ring.launched(chunks.end, &launch);
        }
        let pages = self.pages.iter_mut().take(chunks.end);
        pages.for_each(|pages| *pages = Vec::new());
        if chunks.end >= self.order.len() {
            self.scan.release();
        }
        Ok(())
    }
}
