//! The intermediate state of a partitioned join: pages of rows in device memory and in host memory.
//!
//! The pages of both memories alternate in proportion to their numbers (figure 4.11 of the thesis), so that
//! link and device memory are busy at the same time in every phase. The thesis maps both kinds of pages into
//! one range of virtual addresses. Here a table of their addresses has the same effect: kernels look a page
//! up for each row that they store.

use std::sync::Arc;

use galatea_device::{DeviceBuffer, Result, SharedMemory};
use galatea_kernels::{RADIX_TUPLE_BYTES, RadixRows, RadixSlice};

use super::rig::Rig;

/// Pages of rows.
#[derive(Debug)]
pub(super) struct State {
    /// Bits of a row's position in its page.
    bits: u32,
    /// Address of each page.
    addresses: Vec<u64>,
    /// Offset in the host memory of each page that is there.
    offsets: Vec<Option<usize>>,
    /// The addresses, for kernels.
    table: DeviceBuffer<u64>,
    /// Pages in device memory.
    _cached: DeviceBuffer<u64>,
    shared: Option<Arc<SharedMemory>>,
}

impl State {
    /// Allocates pages of 2^`bits` rows, at most `limit` bytes of them in device memory.
    pub(super) fn new(rig: &mut Rig, pages: usize, bits: u32, limit: u64) -> Result<Self> {
        let page_bytes = RADIX_TUPLE_BYTES << bits;
        let cached = usize::try_from(limit).unwrap_or(usize::MAX) / page_bytes;
        let cached = cached.min(pages);
        let memory = rig.device.alloc::<u64>(&rig.kernels, cached * page_bytes / 8)?;
        let memory = memory.assume_written();
        memory.used_by(&rig.copies)?;
        let spilled = pages - cached;
        let shared = match spilled {
            0 => None,
            _ => Some(rig.shared(spilled * page_bytes)?),
        };
        let (mut addresses, mut offsets) = (Vec::new(), Vec::new());
        let (mut on_device, mut on_host) = (0, 0);
        for page in 0..pages {
            let is_cached = (page + 1) * cached / pages > page * cached / pages;
            match shared.as_ref().filter(|_| !is_cached) {
                Some(shared) => {
                    let offset = on_host * page_bytes;
                    addresses.push(shared.address() + offset as u64);
                    offsets.push(Some(offset));
                    on_host += 1;
                }
                None => {
                    addresses.push(memory.address() + (on_device * page_bytes) as u64);
                    offsets.push(None);
                    on_device += 1;
                }
            }
        }
        Ok(Self {
            bits,
            table: rig.device.upload(&rig.kernels, &addresses)?,
            addresses,
            offsets,
            _cached: memory,
            shared,
        })
    }

    /// Fraction of the pages that are in host memory.
    pub(super) fn spilled(&self) -> f64 {
        let spilled = self.offsets.iter().flatten().count();
        spilled as f64 / self.offsets.len().max(1) as f64
    }

    /// Address of a page.
    pub(super) fn address(&self, page: usize) -> u64 {
        self.addresses[page]
    }

    /// The memory and the offset of a page in host memory.
    pub(super) fn host(&self, page: usize) -> Option<(&SharedMemory, usize)> {
        Some((self.shared.as_deref()?, self.offsets[page]?))
    }

    /// Device address of the address of a page, and of those after it.
    pub(super) fn table(&self, page: usize) -> u64 {
        self.table.address() + 8 * page as u64
    }

    /// The pages from one on, as an array.
    pub(super) fn rows_from(&self, page: usize) -> RadixRows {
        RadixRows::Pages {
            addresses: self.table(page),
            bits: self.bits,
        }
    }

    /// The pieces of a range of rows of the array that begins with a page: address and number of rows.
    pub(super) fn pieces(&self, page: usize, range: std::ops::Range<u32>) -> Vec<(u64, u32)> {
        let mut pieces = Vec::new();
        let (mut at, size) = (range.start, 1u64 << self.bits);
        while at < range.end {
            let in_page = u64::from(at) % size;
            let count = (size - in_page).min(u64::from(range.end - at)) as u32;
            let address = self.addresses[page + (u64::from(at) / size) as usize];
            pieces.push((address + in_page * RADIX_TUPLE_BYTES as u64, count));
            at += count;
        }
        pieces
    }
}

/// Rows of a partition that are joined together.
#[derive(Debug, Clone, Copy)]
pub(super) struct Batch {
    /// The first slice, and their number.
    pub(super) slices: (u32, u32),
    /// Position of the first row among the rows of the partition.
    pub(super) origin: u32,
    /// Number of rows.
    pub(super) rows: u32,
}

/// Cuts the pieces of a partition into batches of at most `most` rows, and appends their slices.
pub(super) fn batches(pieces: &[(u64, u32)], most: u32, slices: &mut Vec<RadixSlice>) -> Vec<Batch> {
    let mut batches = Vec::new();
    let (mut position, mut origin, mut first) = (0u32, 0u32, slices.len());
    let mut close = |slices: &Vec<RadixSlice>, first: &mut usize, origin: &mut u32, position: u32| {
        if position > *origin {
            batches.push(Batch {
                slices: (*first as u32, (slices.len() - *first) as u32),
                origin: *origin,
                rows: position - *origin,
            });
        }
        (*first, *origin) = (slices.len(), position);
    };
    for (address, count) in pieces {
        let mut done = 0;
        while done < *count {
            let room = most - (position - origin);
            let rows = room.min(count - done);
            slices.push(RadixSlice {
                rows: address + u64::from(done) * RADIX_TUPLE_BYTES as u64,
                first: position,
                count: rows,
            });
            (position, done) = (position + rows, done + rows);
            if position - origin == most {
                close(slices, &mut first, &mut origin, position);
            }
        }
    }
    close(slices, &mut first, &mut origin, position);
    batches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_cover_all_rows_once() {
        let pieces = [(1000, 5), (5000, 0), (9000, 12), (90_000, 1)];
        for most in [1, 3, 5, 17, 18, 100] {
            let mut slices = Vec::new();
            let found = batches(&pieces, most, &mut slices);
            let rows: Vec<u64> = found
                .iter()
                .flat_map(|batch| {
                    let of = batch.slices.0 as usize..(batch.slices.0 + batch.slices.1) as usize;
                    let slices = &slices[of];
                    assert_eq!(slices[0].first, batch.origin);
                    assert_eq!(slices.iter().map(|slice| slice.count).sum::<u32>(), batch.rows);
                    assert!(batch.rows <= most);
                    slices
                })
                .flat_map(|slice| (0..slice.count).map(move |row| slice.rows + 16 * u64::from(row)))
                .collect();
            let expected: Vec<u64> = pieces
                .iter()
                .flat_map(|(address, count)| (0..*count).map(move |row| address + 16 * u64::from(row)))
                .collect();
            assert_eq!(rows, expected, "{most}");
        }
        assert!(batches(&[], 4, &mut Vec::new()).is_empty());
    }
}
