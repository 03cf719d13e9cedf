//! Slots of device memory for chunks that stay no longer than their launch.

use super::columns::{ChunkAddresses, addresses, chunk_layout, copy_chunk};
use super::error::RunError;
use super::working::memory;
use crate::runtime::{DeviceRuntime, QueryStreams};
use galatea_device::{DeviceBuffer, Event, Stream};
use galatea_memory::regions::MemoryManager;
use galatea_store::{Column, TableView};
use std::ops::Range;
use std::sync::Arc;

/// Device buffers that chunks without pages pass through, in turn.
#[derive(Debug)]
pub(super) struct SlotRing {
    slots: Vec<Slot>,
}

#[derive(Debug)]
struct Slot {
    buffer: DeviceBuffer<u8>,
    /// Recorded in the compute stream after the last launch that read the slot.
    free: Option<Arc<Event>>,
}

/// Where column `k` of a chunk begins in a slot.
fn slot_layout(view: &TableView, chunk: usize, k: usize) -> ([Option<u64>; 3], u64) {
    let before = |start, column: &Arc<Column>| chunk_layout(column, chunk, start).1;
    let start = view.columns[..k].iter().fold(0, before);
    chunk_layout(&view.columns[k], chunk, start)
}

impl SlotRing {
    /// `most` slots for any of `chunks`, or as many as there is room for.
    pub(super) fn new(
        runtime: &DeviceRuntime,
        streams: &QueryStreams,
        view: &TableView,
        chunks: &[usize],
        most: usize,
    ) -> Result<Self, RunError> {
        let last = view.columns.len().saturating_sub(1);
        let bytes = chunks.iter().map(|chunk| slot_layout(view, *chunk, last).1);
        let largest = bytes.max().unwrap_or(0);
        // Half of what can be allocated is left to the sink.
        let affordable = (runtime.room() / 2).checked_div(largest).unwrap_or(u64::MAX);
        let most = affordable.clamp(1, most as u64) as usize;
        let mut slots = Vec::new();
        while slots.len() < most.min(chunks.len().max(1)) {
            match runtime.allocate(&streams.transfer[0], largest)? {
                Some(buffer) => slots.push(Slot { buffer, free: None }),
                // One slot still works, without overlap.
                None if !slots.is_empty() => break,
                None => return Err(memory(runtime, "one chunk of the scanned columns", largest)),
            }
        }
        // The slots were allocated in the order of one stream; the other copies into them too.
        streams.transfer[1].wait(&streams.transfer[0].record()?)?;
        Ok(Self { slots })
    }

    /// Where column `k` of the chunk at `position` lies.
    pub(super) fn place(&self, view: &TableView, position: usize, chunk: usize, k: usize) -> ChunkAddresses {
        let slot = &self.slots[position % self.slots.len()];
        addresses(slot.buffer.address(), slot_layout(view, chunk, k).0)
    }

    /// How many slots there are.
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// After `launch`, which reads the chunks at those positions: their slots may be used again behind it.
    pub(super) fn launched(&mut self, positions: Range<usize>, launch: &Arc<Event>) {
        let slots = self.slots.len();
        for position in positions.rev().take(slots) {
            self.slots[position % slots].free = Some(Arc::clone(launch));
        }
    }

    /// Queues the copy of a chunk's `missing` columns into its slot once the slot is free; the event says
    /// when they are there.
    pub(super) fn fetch(
        &mut self,
        staging: Option<&MemoryManager>,
        stream: &Stream,
        view: &TableView,
        chunk: usize,
        position: usize,
        missing: impl Iterator<Item = bool>,
    ) -> Result<(Event, u64), RunError> {
        let index = position % self.slots.len();
        let slot = &mut self.slots[index];
        if let Some(free) = slot.free.take() {
            stream.wait(&free)?;
        }
        let mut copied = 0;
        for (k, _) in missing.enumerate().filter(|(_, missing)| *missing) {
            let layout = slot_layout(view, chunk, k).0;
            copied += copy_chunk(staging, stream, &view.columns[k], chunk, &mut slot.buffer, layout)?;
        }
        Ok((stream.record()?, copied))
    }
}
