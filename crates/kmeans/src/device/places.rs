//! Places of the chunks of a pass: resident pages, or slots that chunks pass through.

use galatea_device::{DeviceBuffer, Event};
use galatea_kernels::kmeans::CHUNK_WORDS;
use galatea_memory::regions::{PagePin, Scan, Source};

use super::DeviceRun;
use crate::points::Chunk;
use crate::{KMeansError, Result};

/// Number of slots for chunks without pages: one is processed, two are copied, one waits.
pub(super) const SLOTS: usize = 4;

/// A table of chunks on the device, and its words.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) words: Vec<u64>,
    pub(super) buffer: Option<DeviceBuffer<u64>>,
}

/// A buffer that chunks pass through.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) buffer: DeviceBuffer<u8>,
    /// Event of the last launch that read it.
    pub(super) free: Option<Event>,
}

/// Places of the chunks of a pass. Those that need no copy are first.
pub(super) struct Places<'s> {
    pub(super) scan: Scan<'s>,
    /// Chunks in the order of launches.
    pub(super) order: Vec<usize>,
    /// Pages by position; none for a chunk that passes through a slot.
    pub(super) pages: Vec<Option<PagePin>>,
    /// The number of chunks that need no copy.
    pub(super) ready: usize,
}

impl<'p> DeviceRun<'p> {
    /// Finds places for all chunks.
    pub(super) fn place(&mut self) -> Result<Places<'p>> {
        let (on, points) = (self.on, self.points);
        let scan = on.manager.scan(std::iter::once(points));
        let chunks = points.chunks();
        let present = scan.present(0);
        let missing = |chunk: &usize| !present.get(*chunk).is_some_and(|is_present| *is_present);
        let needed: u64 = (0..chunks.len())
            .filter(missing)
            .map(|c| points.page_bytes(c))
            .sum();
        if needed > 0 && self.ring.is_empty() && (!on.keep || needed > scan.room()) {
            self.make_ring()?;
        }
        let mut found: Vec<(usize, Option<PagePin>)> = Vec::with_capacity(chunks.len());
        let mut room = on.keep;
        for chunk in 0..chunks.len() {
            let page = scan.page(0, chunk, room)?;
            room &= page.is_some();
            found.push((chunk, page));
        }
        if self.ring.is_empty() && found.iter().any(|(_, page)| page.is_none()) {
            self.make_ring()?;
        }
        let is_ready =
            |(_, page): &(usize, Option<PagePin>)| page.as_ref().is_some_and(|page| page.is_here());
        let (mut here, mut away): (Vec<_>, Vec<_>) = found.into_iter().partition(is_ready);
        // Chunks with pages precede chunks without: the CPU takes only chunks that would be transferred in
        // every pass.
        away.sort_by_key(|(_, page)| page.is_none());
        let ready = here.len();
        for (chunk, _) in &away {
            on.device().pin_if_possible(chunks[*chunk].memory())?;
        }
        here.extend(away);
        let (order, pages) = here.into_iter().unzip();
        Ok(Places {
            scan,
            order,
            pages,
            ready,
        })
    }

    pub(super) fn make_ring(&mut self) -> Result<()> {
        let largest = self.points.chunks().iter().map(Chunk::bytes).max().unwrap_or(0);
        let on = self.on;
        let wanted = SLOTS.min(self.points.chunks().len());
        while self.ring.len() < wanted {
            match on.manager.allocate(&on.transfer[0], largest)? {
                Some(buffer) => self.ring.push(Slot { buffer, free: None }),
                // One slot suffices, but without overlap.
                None if !self.ring.is_empty() => break,
                None => {
                    return Err(KMeansError::Memory {
                        what: "a chunk of points",
                        bytes: largest,
                        limit: on.device().budget().limit(),
                    });
                }
            }
        }
        on.transfer[1].wait(&on.transfer[0].record()?)?;
        on.compute.wait(&on.transfer[0].record()?)?;
        Ok(())
    }

    /// Writes the table of chunks to the device. `labels` returns the address for the labels of the chunk at
    /// a position.
    pub(super) fn write_table(&mut self, places: &Places<'_>, labels: impl Fn(usize) -> u64) -> Result<()> {
        let mut words = Vec::with_capacity(places.order.len() * CHUNK_WORDS);
        for (position, (&chunk, page)) in places.order.iter().zip(&places.pages).enumerate() {
            let address = match page {
                Some(page) => page.address(),
                None => self.ring[position % self.ring.len()].buffer.address(),
            };
            let chunk = &self.points.chunks()[chunk];
            words.extend([address, labels(position), chunk.len as u64, chunk.stride as u64]);
        }
        if self.table.buffer.is_none() || self.table.words != words {
            let mut buffer = match self.table.buffer.take() {
                Some(buffer) if buffer.len() == words.len() => buffer,
                _ => self.on.allocate("the table of chunks", words.len())?,
            };
            self.on.compute.copy_from_slice(&mut buffer, &words)?;
            self.table = Table {
                words,
                buffer: Some(buffer),
            };
        }
        Ok(())
    }

    /// Queues the copy of the chunk at a position. Later launches wait for it.
    pub(super) fn fetch(&mut self, places: &Places<'_>, position: usize) -> Result<()> {
        let on = self.on;
        let stream = &on.transfer[position % on.transfer.len()];
        let chunk = &self.points.chunks()[places.order[position]];
        if let Some(page) = &places.pages[position] {
            let (event, _) = page.fetch(stream, |stream, target| chunk.copy(stream, target))?;
            if let Some(event) = event {
                on.compute.wait(&event)?;
            }
            return Ok(());
        }
        let index = position % self.ring.len();
        let slot = &mut self.ring[index];
        if let Some(free) = slot.free.take() {
            stream.wait(&free)?;
        }
        chunk.copy(stream, &mut slot.buffer)?;
        Ok(on.compute.wait(&stream.record()?)?)
    }
}
