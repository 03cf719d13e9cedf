//! The choice of pages, slots and a transfer method for the chunks of a scan.

use super::{ChunkResidency, POLICY, Wanted};
use crate::device::persistent::running;
use crate::device::{DeviceRuntime, QueryStreams, RunError};
use crate::rows::memory;
use crate::transfer::arrivals::{Arrivals, chunks_of_launch};
use crate::transfer::chunk_link::ChunkLink;
use crate::transfer::mapped::MappedChunks;
use crate::transfer::slot_ring::SlotRing;
use galatea_codegen::aggregate::BLOCK_ROWS;
use galatea_memory::regions::{Ablation, PagePin, Scan};
use galatea_memory::transfer::Method;
use galatea_store::{ChunkData, TableView};
use std::collections::VecDeque;

/// The pages of a chunk by column; `None` if the chunk passes through a slot.
type Pages = Vec<Option<PagePin>>;

/// Chunks with their pages.
type ChunkPages = Vec<(usize, Pages)>;

/// The chunks of a scan. Some have no page in device memory.
struct ScannedChunks<'c, 'r> {
    runtime: &'r DeviceRuntime,
    streams: &'c QueryStreams,
    view: &'c TableView,
    scan: &'c Scan<'r>,
    wanted: Wanted<'c>,
    /// By column and chunk: whether the chunk has a page in device memory.
    present: Vec<Vec<bool>>,
    /// Bytes of the chunks without pages.
    needed: u64,
}

/// The chunks of launches.
#[derive(Clone, Copy)]
struct LaunchShape {
    /// Whether a launch waits for chunks while it runs.
    awaits: bool,
    /// Number of transferred chunks that one launch reads at most, so that copies and launches overlap.
    together: usize,
    /// Maximum number of chunks that one launch may read.
    most_together: usize,
    /// Number of slots, if chunks pass through slots.
    slots: usize,
}

/// The chunks in the order of their launches, with their pages.
struct Placed {
    chunks: ChunkPages,
    /// Number of leading chunks that need no copy.
    ready: usize,
    /// The slots of chunks without pages.
    ring: Option<SlotRing>,
}

impl<'r> ChunkResidency<'r> {
    /// Assigns locations to the chunks of a scan: pages while memory suffices (evicting only pages that are
    /// used less, see [`Replacement`](galatea_memory::regions::Replacement)), slots for the rest.
    pub(crate) fn choose(
        runtime: &'r DeviceRuntime,
        streams: &QueryStreams,
        view: &TableView,
        wanted: Wanted<'_>,
        scan: Scan<'r>,
    ) -> Result<Self, RunError> {
        let chunks = ScannedChunks::new(runtime, streams, view, wanted, &scan);
        chunks.check_naive()?;
        let shape = chunks.launch_shape();
        let (way, mapped) = chunks.method()?;
        let Placed {
            chunks: placed,
            ready,
            ring,
        } = chunks.place(shape.slots, way, mapped.is_some())?;
        // The chunks of the next launch are copied into slots other than those of this one.
        let halves = ring.as_ref().map_or(usize::MAX, |ring| ring.len() / 2);
        let together = shape.together.min(halves).max(1);
        let thirds = ring.as_ref().map_or(1, |ring| ring.len() / POLICY.shared);
        let together_shared = thirds.min(shape.most_together).max(together);
        let awaits = shape.awaits && together > 1 && mapped.is_none();
        let arrivals = awaits
            .then(|| Arrivals::new(runtime, streams, placed.len()))
            .transpose()?;
        let ahead = chunks.ahead();
        let (order, pages) = placed.into_iter().unzip();
        Ok(Self {
            manager: runtime.memory(),
            link: ChunkLink::new(runtime, way),
            scan,
            order,
            ready,
            pages,
            ring,
            mapped,
            queued: VecDeque::new(),
            ahead,
            in_flight: VecDeque::new(),
            together,
            together_shared,
            arrivals,
            launched: 0,
            released: 0,
            leader: None,
        })
    }

    /// Whether chunks are expected to pass through slots.
    pub(crate) fn streams(
        runtime: &'r DeviceRuntime,
        streams: &QueryStreams,
        view: &TableView,
        wanted: Wanted<'_>,
        scan: &Scan<'r>,
    ) -> bool {
        ScannedChunks::new(runtime, streams, view, wanted, scan).exceed_memory()
    }
}

impl<'c, 'r> ScannedChunks<'c, 'r> {
    fn new(
        runtime: &'r DeviceRuntime,
        streams: &'c QueryStreams,
        view: &'c TableView,
        wanted: Wanted<'c>,
        scan: &'c Scan<'r>,
    ) -> Self {
        let mut chunks = Self {
            runtime,
            streams,
            view,
            scan,
            wanted,
            present: (0..view.columns.len()).map(|k| scan.present(k)).collect(),
            needed: 0,
        };
        chunks.needed = chunks
            .left()
            .iter()
            .map(|chunk| chunks.missing_bytes(*chunk))
            .sum();
        chunks
    }

    /// The chunks that are not done.
    fn left(&self) -> &'c [usize] {
        &self.wanted.chunks[self.wanted.done.unwrap_or(0)..]
    }

    /// The columns of a chunk without pages.
    fn missing(&self, chunk: usize) -> impl Iterator<Item = usize> {
        (0..self.view.columns.len()).filter(move |k| !self.is_present(*k, chunk))
    }

    fn is_present(&self, k: usize, chunk: usize) -> bool {
        self.present[k].get(chunk).is_some_and(|is_present| *is_present)
    }

    fn missing_bytes(&self, chunk: usize) -> u64 {
        self.missing(chunk).map(|k| self.bytes(k, chunk)).sum()
    }

    /// Bytes of a column of a chunk in device memory.
    fn bytes(&self, k: usize, chunk: usize) -> u64 {
        self.view.columns[k].chunk_layout(chunk, 0).1
    }

    fn has(&self, ablation: Ablation) -> bool {
        self.runtime.memory().ablations().has(ablation)
    }

    /// Whether not all chunks get pages. Pages that the columns have now count as room: they may be evicted
    /// for others.
    fn exceed_memory(&self) -> bool {
        let columns = 0..self.view.columns.len();
        let bytes = |chunk: &usize| columns.clone().map(|k| self.bytes(k, *chunk)).sum::<u64>();
        let all = || self.left().iter().map(bytes).sum::<u64>();
        self.needed > 0 && (!self.wanted.keep || all() > self.scan.room())
    }

    /// Without the memory manager, all columns have to fit.
    fn check_naive(&self) -> Result<(), RunError> {
        match self.has(Ablation::Naive) && self.needed > self.scan.room() {
            true => Err(self.full()),
            false => Ok(()),
        }
    }

    fn full(&self) -> RunError {
        memory(self.runtime, "the scanned columns", self.needed)
    }

    fn launch_shape(&self) -> LaunchShape {
        let away = || self.left().iter().filter(|chunk| self.missing_bytes(**chunk) > 0);
        let coming = away().count() as u64;
        let bytes = self.needed.checked_div(coming).unwrap_or(0);
        // A launch that waits occupies all multiprocessors, and would leave none for unpacking the chunks
        // that it waits for.
        let is_packed =
            |k: usize, chunk: usize| matches!(self.view.columns[k].chunks[chunk].data, ChunkData::Packed(_));
        let awaits =
            self.wanted.awaits && !away().any(|chunk| self.missing(*chunk).any(|k| is_packed(k, *chunk)));
        let rows = self
            .wanted
            .chunks
            .iter()
            .map(|chunk| self.view.chunk_rows[*chunk]);
        let most_together = chunks_of_block(rows.max().unwrap_or(0).into());
        let together = match awaits {
            true => chunks_of_launch(bytes, coming),
            false if self.wanted.stops => 1,
            false => (POLICY.launch / bytes.max(1)).clamp(1, most_together as u64) as usize,
        };
        let slots = match awaits {
            true => 2 * together,
            // Scarce memory is for pages, and few chunks need few slots.
            false => {
                let spare = self.runtime.room() / POLICY.ring / bytes.max(1);
                let few = coming / POLICY.missing;
                spare.min(few).min((POLICY.slots * together) as u64) as usize
            }
        };
        LaunchShape {
            awaits,
            together,
            most_together,
            slots: slots.max(POLICY.slots),
        }
    }

    /// The transfer method, and the chunks that kernels read in host memory if it is zero-copy.
    fn method(&self) -> Result<(Method, Option<MappedChunks>), RunError> {
        let way = match (running(), self.wanted.method) {
            (0, None) => self.runtime.chunk_transfer(),
            (0, Some(method)) => method,
            // Pinning memory may wait for running kernels, and the kernel of a stream does not end.
            _ => Method::Pageable,
        };
        if way != Method::ZeroCopy {
            return Ok((way, None));
        }
        let away = self
            .left()
            .iter()
            .copied()
            .filter(|chunk| self.missing_bytes(*chunk) > 0);
        let mapped = MappedChunks::of(self.runtime, self.view, away)?;
        Ok((mapped.as_ref().map_or(Method::Pinned, |_| way), mapped))
    }

    /// Finds the pages of all chunks, and allocates pages or slots for chunks without pages.
    fn place(&self, slots: usize, way: Method, is_mapped: bool) -> Result<Placed, RunError> {
        let slots_first = !is_mapped && self.exceed_memory() && !self.fits_reserve(slots);
        if !slots_first && let Some(placed) = self.placed(slots, way, is_mapped, false)? {
            return Ok(placed);
        }
        let placed = self.placed(slots, way, is_mapped, true)?;
        placed.ok_or_else(|| self.full())
    }

    /// Whether slots for the missing columns of chunks fit the memory that pages leave free.
    fn fits_reserve(&self, slots: usize) -> bool {
        let chunks = self.left().iter();
        let largest = SlotRing::slot_bytes(self.view, chunks.map(|chunk| (*chunk, self.missing(*chunk))));
        largest.saturating_mul(slots as u64) <= Self::free_of(self.scan.reserve())
    }

    /// The share of free memory that slots may take without eviction. Small allocations take the rest.
    fn free_of(bytes: u64) -> u64 {
        bytes / 4 * 3
    }

    /// The same. With `slots_first`, slots are allocated before pages, and replace pages if necessary.
    /// Otherwise they are allocated last, from memory that pages leave free; `None` if that does not suffice.
    fn placed(
        &self,
        slots: usize,
        way: Method,
        is_mapped: bool,
        slots_first: bool,
    ) -> Result<Option<Placed>, RunError> {
        let chunks = self.wanted.chunks;
        let columns = || 0..self.view.columns.len();
        let (runtime, streams, view) = (self.runtime, self.streams, self.view);
        let mut ring = None;
        if slots_first {
            let any = chunks.iter().map(|chunk| (*chunk, columns()));
            ring = Some(SlotRing::new(runtime, streams, view, any, (slots, u64::MAX))?);
            self.scan.make_reserve()?;
        }
        let (mut placed, mut away) = self.found()?;
        let allowed = self.columns_with_pages();
        let ready = placed.len();
        if matches!(way, Method::Pinned | Method::PinnedPieces) {
            pin_host_memory(runtime, view, away.iter().map(|(chunk, _)| *chunk))?;
        }
        let missing = |pages: &[Option<PagePin>]| pages.iter().any(Option::is_none);
        if self.wanted.keep && !is_mapped {
            for (chunk, pages) in away.iter_mut().filter(|(_, pages)| missing(pages)) {
                *pages = self.pages(*chunk, |k| allowed[k])?;
                // If one page could not be allocated, the others are not tried: each attempt is expensive.
                let mut allocated = pages.iter().zip(&allowed);
                if !allocated.all(|(page, allowed)| page.is_some() || !allowed) {
                    break;
                }
            }
        }
        // The memory was available, but other runs have taken it, or use their pages more.
        if ring.is_none() && !is_mapped && away.iter().any(|(_, pages)| missing(pages)) {
            if self.has(Ablation::Naive) {
                return Err(self.full());
            }
            // The pages of this run are pinned. Evictions would take those of other runs.
            let free = Self::free_of(runtime.device().budget().available());
            let chunks = away.iter().map(|(chunk, pages)| {
                let missing = columns().filter(|k| pages[*k].is_none());
                (*chunk, missing)
            });
            ring = match SlotRing::new(runtime, streams, view, chunks, (slots, free)) {
                Ok(ring) => Some(ring),
                Err(RunError::Memory { .. }) => return Ok(None),
                Err(error) => return Err(error),
            };
        }
        placed.extend(away);
        Ok(Some(Placed {
            chunks: placed,
            ready,
            ring,
        }))
    }

    /// The chunks with all pages in device memory, and the others. A run that resumes keeps the order of its
    /// chunks: from the first chunk without a page on, all belong to the others.
    fn found(&self) -> Result<(ChunkPages, ChunkPages), RunError> {
        let over = self.wanted.done.unwrap_or(0);
        let mut found = Vec::with_capacity(self.wanted.chunks.len());
        for (position, &chunk) in self.wanted.chunks.iter().enumerate() {
            let pages = match position < over {
                true => Vec::new(),
                false => self.pages(chunk, |_| false)?,
            };
            found.push((chunk, pages));
        }
        let is_here = |page: &Option<PagePin>| page.as_ref().is_some_and(|page| page.is_here());
        let is_ready = |pages: &[Option<PagePin>]| pages.iter().all(is_here);
        if self.wanted.done.is_none() {
            return Ok(found.into_iter().partition(|(_, pages)| is_ready(pages)));
        }
        let ready = found[over..].iter().take_while(|(_, pages)| is_ready(pages));
        let away = found.split_off(over + ready.count());
        Ok((found, away))
    }

    /// The pages of a chunk. A page that does not exist is allocated if `allocates` permits it for its
    /// column.
    fn pages(&self, chunk: usize, allocates: impl Fn(usize) -> bool) -> Result<Pages, RunError> {
        let columns = 0..self.view.columns.len();
        columns
            .map(|k| Ok(self.scan.page(k, chunk, allocates(k))?))
            .collect()
    }

    /// Whether pages may be allocated for each column: always, except with the ablation `WholeRegion`. Then
    /// only columns that fit as a whole get pages.
    fn columns_with_pages(&self) -> Vec<bool> {
        let mut room = self.scan.room();
        let whole = self.has(Ablation::WholeRegion);
        let fits = |k: usize| {
            let missing = self
                .wanted
                .chunks
                .iter()
                .filter(|chunk| !self.is_present(k, **chunk));
            let bytes: u64 = missing.map(|chunk| self.bytes(k, *chunk)).sum();
            let fits = bytes <= room;
            room -= if fits { bytes } else { 0 };
            fits || !whole
        };
        (0..self.view.columns.len()).map(fits).collect()
    }

    /// Number of chunks that may be queued ahead of the current one.
    fn ahead(&self) -> usize {
        // There may be no chunk at all: an empty table, or one with all chunks skipped by zone maps.
        let chunk_bytes = self.wanted.chunks.first().map_or(0, |chunk| {
            let columns = 0..self.view.columns.len();
            columns.map(|k| self.bytes(k, *chunk)).sum()
        });
        (POLICY.in_flight / chunk_bytes.max(1)).clamp(POLICY.slots as u64, 64) as usize
    }
}

/// Maximum number of chunks of `rows` rows each in a launch that waits for their copies.
fn chunks_of_block(rows: u64) -> usize {
    // One block may process all rows of a launch.
    POLICY.launch_chunks.min(BLOCK_ROWS / rows.max(1)).max(1) as usize
}

/// Pins the host memory of chunks, so that copies run at link speed.
fn pin_host_memory(
    runtime: &DeviceRuntime,
    view: &TableView,
    chunks: impl Iterator<Item = usize>,
) -> Result<(), RunError> {
    for chunk in chunks {
        for column in &view.columns {
            for view in column.chunks[chunk].views() {
                runtime.device().pin_if_possible(view.memory())?;
            }
        }
    }
    Ok(())
}
