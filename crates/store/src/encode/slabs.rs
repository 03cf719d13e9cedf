//! Places of a column's chunks: large pieces of host memory, divided into aligned views.

use std::ops::Range;

use galatea_device::HostMemory;

use crate::column::VIEW_ALIGNMENT;

/// Size of the pieces of memory that are allocated and pinned, in bytes. A column smaller than this gets
/// exactly its size, and a chunk larger than this a piece of its own.
pub(super) const SLAB_BYTES: usize = 256 << 20;

/// A slab and the range within it.
pub(super) type Place = (usize, Range<usize>);

/// Bytes of a chunk's views.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    pub(super) data: usize,
    pub(super) offsets: Option<usize>,
    pub(super) validity: Option<usize>,
}

/// The places of the views of all chunks.
#[derive(Debug)]
pub(super) struct Layout {
    /// Bytes of each slab.
    pub(super) slabs: Vec<usize>,
    pub(super) places: Vec<Places>,
}

/// The place of each of a chunk's views.
#[derive(Debug, Clone)]
pub(super) struct Places {
    pub(super) data: Place,
    pub(super) offsets: Option<Place>,
    pub(super) validity: Option<Place>,
}

impl Layout {
    pub(super) fn new(chunks: impl Iterator<Item = Sizes>) -> Self {
        // Even a column without a byte of data has a slab, which holds its empty views.
        let mut slabs = vec![0usize];
        let mut place = |bytes: usize| {
            let last = slabs.len() - 1;
            let start = slabs[last].next_multiple_of(VIEW_ALIGNMENT);
            if start > 0 && start + bytes > SLAB_BYTES {
                slabs.push(bytes);
                return (last + 1, 0..bytes);
            }
            slabs[last] = start + bytes;
            (last, start..start + bytes)
        };
        let places = chunks
            .map(|sizes| Places {
                data: place(sizes.data),
                offsets: sizes.offsets.map(&mut place),
                validity: sizes.validity.map(&mut place),
            })
            .collect();
        // Kernels that read host memory in place load whole vectors.
        let slabs = slabs.into_iter();
        let slabs = slabs
            .map(|bytes| bytes.next_multiple_of(VIEW_ALIGNMENT))
            .collect();
        Self { slabs, places }
    }
}

/// The memory that a chunk is written to.
pub(super) struct Targets<'a> {
    pub(super) data: &'a mut [u8],
    pub(super) offsets: Option<&'a mut [u8]>,
    pub(super) validity: Option<&'a mut [u8]>,
}

/// Takes views out of slabs from front to back.
pub(super) struct Cutter<'a> {
    /// For each slab, the number of bytes taken, and the rest.
    rest: Vec<(usize, &'a mut [u8])>,
}

impl<'a> Cutter<'a> {
    pub(super) fn new(slabs: &'a mut [HostMemory]) -> Self {
        Self {
            rest: slabs.iter_mut().map(|slab| (0, slab.as_mut_slice())).collect(),
        }
    }

    /// The memory of a chunk's views. Chunks must be passed in the order of the layout.
    pub(super) fn targets(&mut self, places: &Places) -> Targets<'a> {
        Targets {
            data: self.cut(&places.data),
            offsets: places.offsets.as_ref().map(|place| self.cut(place)),
            validity: places.validity.as_ref().map(|place| self.cut(place)),
        }
    }

    fn cut(&mut self, (slab, range): &Place) -> &'a mut [u8] {
        let (consumed, rest) = &mut self.rest[*slab];
        let (_, tail) = std::mem::take(rest).split_at_mut(range.start - *consumed);
        let (view, tail) = tail.split_at_mut(range.len());
        *consumed = range.end;
        *rest = tail;
        view
    }
}
