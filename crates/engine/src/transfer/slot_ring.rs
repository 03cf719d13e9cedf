//! Slots of device memory for chunks that stay only until their launches are done.

use crate::device::columns::{ChunkAddresses, addresses};
use crate::device::shared_scan::{ScanLaunch, Slots};
use crate::device::{DeviceRuntime, QueryStreams, RunError};
use crate::rows::memory;
use crate::transfer::chunk_link::{ChunkLink, ChunkTransfer, LinkStreams};
use galatea_device::Event;
use galatea_store::TableView;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// Device buffers that chunks without pages pass through, in turn.
#[derive(Debug)]
pub(crate) struct SlotRing {
    slots: Slots,
    /// Launches over chunks in slots, with the positions of the chunks.
    launches: VecDeque<ScanLaunch>,
    /// All launches over chunks before this position are queued.
    released: usize,
}

/// End of these columns of a chunk in a slot, one behind the other.
fn slot_end(view: &TableView, chunk: usize, columns: impl IntoIterator<Item = usize>) -> u64 {
    let end = |start, k: usize| view.columns[k].chunk_layout(chunk, start).1;
    columns.into_iter().fold(0, end)
}

impl SlotRing {
    /// `most` slots for these columns of any of the chunks, or fewer if memory is insufficient, or if they
    /// would take more than `bytes`.
    pub(crate) fn new<C: IntoIterator<Item = usize>>(
        runtime: &DeviceRuntime,
        streams: &QueryStreams,
        view: &TableView,
        chunks: impl ExactSizeIterator<Item = (usize, C)>,
        (most, bytes): (usize, u64),
    ) -> Result<Self, RunError> {
        let count = chunks.len();
        let largest = Self::slot_bytes(view, chunks);
        // Half of the available memory is left to the sink.
        let affordable = (runtime.room() / 2).min(bytes);
        let affordable = affordable.checked_div(largest).unwrap_or(u64::MAX);
        let most = affordable.clamp(1, most as u64) as usize;
        let mut slots = Vec::new();
        while slots.len() < most.min(count.max(1)) {
            match runtime.allocate(&streams.transfer[0], largest)? {
                Some(buffer) => slots.push(Mutex::new(buffer)),
                // One slot still works, without overlap.
                None if !slots.is_empty() => break,
                None => {
                    let full = memory(runtime, "one chunk of the scanned columns", largest);
                    return Err(full.sized_by("galatea.tuning.chunk_rows"));
                }
            }
        }
        // The slots were allocated in the order of one stream; the others write to them as well.
        let allocated = streams.transfer[0].record()?;
        streams.transfer[1].wait(&allocated)?;
        streams.unpack.wait(&allocated)?;
        Ok(Self {
            slots: slots.into(),
            launches: VecDeque::new(),
            released: 0,
        })
    }

    /// Bytes of a slot for these columns of any of the chunks.
    pub(crate) fn slot_bytes<C: IntoIterator<Item = usize>>(
        view: &TableView,
        chunks: impl Iterator<Item = (usize, C)>,
    ) -> u64 {
        let of_chunks = chunks.map(|(chunk, columns)| slot_end(view, chunk, columns));
        of_chunks.max().unwrap_or(0)
    }

    /// The slots.
    pub(crate) fn slots(&self) -> &Slots {
        &self.slots
    }

    /// Addresses of column `k` of the chunk at `position`, behind the columns `before` in its slot.
    pub(crate) fn place(
        &self,
        view: &TableView,
        (position, chunk): (usize, usize),
        before: impl IntoIterator<Item = usize>,
        k: usize,
    ) -> ChunkAddresses {
        let slot = self.slots[position % self.slots.len()].lock().address();
        let start = slot_end(view, chunk, before);
        addresses(slot, view.columns[k].chunk_layout(chunk, start).0)
    }

    /// Number of slots.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Called after a launch over chunks at these positions was queued: their slots are written after it.
    pub(crate) fn launched(&mut self, positions: Range<usize>, launch: &Arc<Event>) {
        self.launches.push_back((positions, Arc::clone(launch)));
    }

    /// Called when all launches over chunks before `end` are queued: their slots may be written.
    pub(crate) fn release(&mut self, end: usize) {
        self.released = end;
    }

    /// Queues the copies of a chunk's `missing` columns into its slot, after the launches that read the
    /// former contents. Returns the event of the copies and their bytes; none if such a launch is not queued
    /// yet.
    pub(crate) fn fetch(
        &mut self,
        link: &mut ChunkLink<'_>,
        streams: LinkStreams<'_>,
        view: &TableView,
        (position, chunk): (usize, usize),
        missing: &[usize],
    ) -> Result<Option<(Arc<Event>, u64)>, RunError> {
        let former = position.checked_sub(self.slots.len());
        if former.is_some_and(|former| former >= self.released) {
            return Ok(None);
        }
        let mut readers = Vec::new();
        if let Some(former) = former {
            self.launches.retain(|(positions, _)| positions.end > former);
            let of_slot = self
                .launches
                .iter()
                .filter(|(positions, _)| positions.contains(&former));
            readers.extend(of_slot.map(|(_, launch)| Arc::clone(launch)));
        }
        let mut end = 0;
        let coming = missing.iter().map(|k| {
            let (column, start) = (&view.columns[*k], end);
            end = column.chunk_layout(chunk, start).1;
            ChunkTransfer { column, chunk, start }
        });
        let coming: Vec<_> = coming.collect();
        link.prepare(streams, &coming)?;
        let mut slot = self.slots[position % self.slots.len()].lock();
        let bytes = link.bring(streams, &coming, &mut slot, &readers)?;
        Ok(Some((Arc::new(streams.unpack.record()?), bytes)))
    }
}
