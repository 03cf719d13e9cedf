//! Slots of device memory for chunks that stay only until their launch is done.

use crate::device::columns::{ChunkAddresses, addresses};
use crate::device::streamed::{SlotColumn, SlotContents, StreamedChunks};
use crate::device::{DeviceRuntime, QueryStreams, RunError};
use crate::rows::memory;
use crate::transfer::chunk_link::{ChunkLink, ChunkTransfer, LinkStreams};
use galatea_device::{DeviceBuffer, Event, Stream};
use galatea_store::{Column, TableView};
use std::collections::VecDeque;
use std::sync::Arc;

/// Device buffers that chunks without pages pass through, in turn. Columns that another run has in a slot of
/// its own are read there.
#[derive(Debug)]
pub(crate) struct SlotRing<'r> {
    streamed: &'r StreamedChunks,
    /// Whether columns are searched in the slots of other runs.
    finds: bool,
    slots: Vec<Slot>,
    /// The slots without a chunk that waits for its launch, the least recently used one first.
    free: VecDeque<usize>,
    /// The chunks that wait for their launches, in the order of their positions.
    queued: VecDeque<QueuedChunk>,
}

#[derive(Debug)]
struct Slot {
    buffer: Arc<DeviceBuffer<u8>>,
    contents: Option<Arc<SlotContents>>,
    /// Recorded after the launches that read its former contents.
    readers: Vec<Arc<Event>>,
}

/// A chunk whose copy is queued.
#[derive(Debug)]
struct QueuedChunk {
    position: usize,
    slot: Option<usize>,
    /// Slots of other runs that the launch reads.
    elsewhere: Vec<Arc<SlotContents>>,
}

/// A chunk of which all columns are in slots, or in transfer to slots.
#[derive(Debug, Default)]
pub(crate) struct SlotChunk {
    /// The events that its launch waits for.
    pub(crate) waits: Vec<Arc<Event>>,
    /// Bytes of the queued copies.
    pub(crate) copied: u64,
    /// Whether columns are in slots of other runs.
    pub(crate) is_shared: bool,
    /// The columns with other addresses than those of [`SlotRing::place`].
    pub(crate) moved: Vec<(usize, ChunkAddresses)>,
}

/// Start of column `k` of a chunk in a slot.
fn slot_start(view: &TableView, chunk: usize, k: usize) -> u64 {
    let before = |start, column: &Arc<Column>| column.chunk_layout(chunk, start).1;
    view.columns[..k].iter().fold(0, before)
}

/// The addresses of column `k` of a chunk in the slot at an address.
fn addresses_in(slot: u64, view: &TableView, chunk: usize, k: usize, start: u64) -> ChunkAddresses {
    addresses(slot, view.columns[k].chunk_layout(chunk, start).0)
}

impl<'r> SlotRing<'r> {
    /// `most` slots for any of `chunks`, or fewer if memory is insufficient.
    pub(crate) fn new(
        runtime: &'r DeviceRuntime,
        streams: &QueryStreams,
        view: &TableView,
        chunks: &[usize],
        most: usize,
        finds: bool,
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
                Some(buffer) => slots.push(Slot {
                    buffer: Arc::new(buffer),
                    contents: None,
                    readers: Vec::new(),
                }),
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
            streamed: runtime.streamed(),
            finds,
            free: (0..slots.len()).collect(),
            slots,
            queued: VecDeque::new(),
        })
    }

    /// Lets the chunk at `position` be the first that passes through the slots. It gets the slot of
    /// [`Self::place`].
    pub(crate) fn begin_at(&mut self, position: usize) {
        self.free.rotate_left(position % self.slots.len());
    }

    /// Addresses of column `k` of the chunk at `position`, if no chunk before it is found in slots of other
    /// runs.
    pub(crate) fn place(&self, view: &TableView, position: usize, chunk: usize, k: usize) -> ChunkAddresses {
        let slot = self.slots[position % self.slots.len()].buffer.address();
        addresses_in(slot, view, chunk, k, slot_start(view, chunk, k))
    }

    /// Number of slots.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Called after `launch`, which reads the chunks at positions before `end`: their slots may be reused
    /// after it.
    pub(crate) fn launched(&mut self, end: usize, launch: &Arc<Event>) {
        let mut others = false;
        while self.queued.front().is_some_and(|queued| queued.position < end) {
            let Some(queued) = self.queued.pop_front() else {
                return;
            };
            for contents in &queued.elsewhere {
                contents.read_by(launch);
                others = true;
            }
            if let Some(slot) = queued.slot {
                if let Some(contents) = &self.slots[slot].contents {
                    contents.read_by(launch);
                }
                self.free.push_back(slot);
            }
        }
        if others {
            self.streamed.release();
        }
    }

    /// Waits until another run releases a slot, or a short time. Does nothing if this run keeps a slot of
    /// another run, because runs must not wait for each other.
    pub(crate) fn wait_for_slot(&self) {
        if self.queued.iter().all(|queued| queued.elsewhere.is_empty()) {
            self.streamed.wait_for_release();
        }
    }

    /// Takes a slot that no run is about to read.
    fn take_slot(&mut self) -> Option<usize> {
        for next in 0..self.free.len() {
            let slot = &mut self.slots[self.free[next]];
            match slot
                .contents
                .take()
                .map(|contents| self.streamed.take_back(contents))
            {
                None => {}
                Some(Ok(readers)) => slot.readers = readers,
                Some(Err(contents)) => {
                    slot.contents = Some(contents);
                    continue;
                }
            }
            return self.free.remove(next);
        }
        None
    }

    /// Queues the copies of a chunk's `missing` columns into a slot, except of those that other runs have in
    /// slots. None if no slot is free now.
    pub(crate) fn fetch(
        &mut self,
        link: &mut ChunkLink<'_>,
        streams: RingStreams<'_>,
        view: &TableView,
        (position, chunk): (usize, usize),
        missing: &[usize],
    ) -> Result<Option<SlotChunk>, RunError> {
        let columns: Vec<SlotColumn<'_>> = missing
            .iter()
            .map(|k| SlotColumn {
                identity: &view.columns[*k].chunks[chunk].identity,
                start: slot_start(view, chunk, *k),
            })
            .collect();
        let taken = match self.finds && self.streamed.has_all(&columns) {
            true => None,
            false => self.take_slot(),
        };
        let address = taken.map(|slot| self.slots[slot].buffer.address());
        let Some(found) = self.streamed.find_or_announce(&columns, self.finds, address) else {
            return Ok(None);
        };
        let (mut slot, mut fetched) = (None, SlotChunk::default());
        match (taken, found.own) {
            (Some(index), Some(contents)) => {
                let own = missing.iter().zip(&columns).zip(&found.elsewhere);
                let coming: Vec<_> = own
                    .filter(|(_, elsewhere)| elsewhere.is_none())
                    .map(|((k, column), _)| ChunkTransfer {
                        column: &view.columns[*k],
                        chunk,
                        start: column.start,
                    })
                    .collect();
                // Other runs wait for this copy, so it is queued before anything is waited for.
                let copied = self.copy(index, link, streams, &coming, &contents);
                contents.given_up();
                self.slots[index].contents = Some(contents);
                let (copied, bytes) = copied?;
                fetched.waits.push(copied);
                fetched.copied = bytes;
                slot = Some(index);
            }
            (Some(index), None) => self.free.push_front(index),
            (None, _) => {}
        }
        let mut elsewhere: Vec<Arc<SlotContents>> = Vec::new();
        for ((k, column), found) in missing.iter().zip(&columns).zip(found.elsewhere) {
            let (base, start) = match &found {
                Some((contents, start)) => (contents.address(), *start),
                None => (address.unwrap_or_default(), column.start),
            };
            let place = addresses_in(base, view, chunk, *k, start);
            if place != self.place(view, position, chunk, *k) {
                fetched.moved.push((*k, place));
            }
            let Some((contents, _)) = found else { continue };
            if elsewhere.iter().any(|known| Arc::ptr_eq(known, &contents)) {
                continue;
            }
            let Some((buffer, copied)) = contents.wait_until_queued() else {
                // The other run failed. The next attempt finds the columns that this one has copied.
                self.free.extend(slot);
                return Ok(None);
            };
            buffer.used_by(streams.compute)?;
            fetched.waits.push(copied);
            elsewhere.push(contents);
        }
        fetched.is_shared = !elsewhere.is_empty();
        self.queued.push_back(QueuedChunk {
            position,
            slot,
            elsewhere,
        });
        Ok(Some(fetched))
    }

    /// Queues the copies of columns into a slot, after the launches that read its former contents.
    fn copy(
        &mut self,
        index: usize,
        link: &mut ChunkLink<'_>,
        streams: RingStreams<'_>,
        coming: &[ChunkTransfer<'_>],
        contents: &SlotContents,
    ) -> Result<(Arc<Event>, u64), RunError> {
        let slot = &mut self.slots[index];
        link.prepare(streams.link, coming)?;
        let in_use = || RunError::Defect("a slot is written while a run reads it".to_owned());
        let buffer = Arc::get_mut(&mut slot.buffer).ok_or_else(in_use)?;
        let bytes = link.bring(streams.link, coming, buffer, &slot.readers)?;
        slot.readers.clear();
        let copied = Arc::new(streams.link.unpack.record()?);
        contents.queued(&slot.buffer, Arc::clone(&copied));
        Ok((copied, bytes))
    }
}

/// The streams of a ring: those of copies, and that of the launches that read its slots.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RingStreams<'s> {
    pub(crate) link: LinkStreams<'s>,
    pub(crate) compute: &'s Stream,
}
