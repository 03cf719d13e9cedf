//! Slots of device memory for chunks that stay only until their launch is done.

use crate::device::columns::{ChunkAddresses, addresses};
use crate::device::{DeviceRuntime, QueryStreams, RunError};
use crate::rows::memory;
use crate::transfer::chunk_link::{ChunkLink, ChunkTransfer, LinkStreams};
use galatea_device::{DeviceBuffer, Event};
use galatea_store::{Column, TableView};
use std::ops::Range;
use std::sync::Arc;

/// Device buffers that chunks without pages pass through, in turn.
#[derive(Debug)]
pub(crate) struct SlotRing {
    slots: Vec<Slot>,
}

#[derive(Debug)]
struct Slot {
    buffer: DeviceBuffer<u8>,
    /// Recorded in the compute stream after the last launch that read the slot.
    free: Option<Arc<Event>>,
}

/// Start of column `k` of a chunk in a slot.
fn slot_start(view: &TableView, chunk: usize, k: usize) -> u64 {
    let before = |start, column: &Arc<Column>| column.chunk_layout(chunk, start).1;
    view.columns[..k].iter().fold(0, before)
}

impl SlotRing {
    /// `most` slots for any of `chunks`, or fewer if memory is insufficient.
    pub(crate) fn new(
        runtime: &DeviceRuntime,
        streams: &QueryStreams,
        view: &TableView,
        chunks: &[usize],
        most: usize,
    ) -> Result<Self, RunError> {
        let bytes = chunks
            .iter()
            .map(|chunk| slot_start(view, *chunk, view.columns.len()));
        let largest = bytes.max().unwrap_or(0);
        // Half of the available memory is left to the sink.
        let affordable = (runtime.room() / 2).checked_div(largest).unwrap_or(u64::MAX);
        let most = affordable.clamp(1, most as u64) as usize;
        let mut slots = Vec::new();
        while slots.len() < most.min(chunks.len().max(1)) {
            match runtime.allocate(&streams.transfer[0], largest)? {
                Some(buffer) => slots.push(Slot { buffer, free: None }),
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
        Ok(Self { slots })
    }

    /// Addresses of column `k` of the chunk at `position`.
    pub(crate) fn place(&self, view: &TableView, position: usize, chunk: usize, k: usize) -> ChunkAddresses {
        let slot = &self.slots[position % self.slots.len()];
        let start = slot_start(view, chunk, k);
        addresses(
            slot.buffer.address(),
            view.columns[k].chunk_layout(chunk, start).0,
        )
    }

    /// Number of slots.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Called after `launch`, which reads the chunks at those positions: their slots may be reused after it.
    pub(crate) fn launched(&mut self, positions: Range<usize>, launch: &Arc<Event>) {
        let slots = self.slots.len();
        for position in positions.rev().take(slots) {
            self.slots[position % slots].free = Some(Arc::clone(launch));
        }
    }

    /// Queues the copy of a chunk's `missing` columns into its slot once the slot is free. The event marks
    /// its completion.
    pub(crate) fn fetch(
        &mut self,
        link: &mut ChunkLink<'_>,
        streams: LinkStreams<'_>,
        view: &TableView,
        chunk: usize,
        position: usize,
        missing: impl Iterator<Item = bool>,
    ) -> Result<(Event, u64), RunError> {
        let index = position % self.slots.len();
        let slot = &mut self.slots[index];
        let coming: Vec<_> = missing
            .enumerate()
            .filter(|(_, missing)| *missing)
            .map(|(k, _)| ChunkTransfer {
                column: &view.columns[k],
                chunk,
                start: slot_start(view, chunk, k),
            })
            .collect();
        link.prepare(streams, &coming)?;
        let free = slot.free.take();
        let copied = link.bring(streams, &coming, &mut slot.buffer, free.as_deref())?;
        Ok((streams.unpack.record()?, copied))
    }
}
