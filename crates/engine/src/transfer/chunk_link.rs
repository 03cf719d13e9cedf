//! Transfers the columns of a chunk to the device.
//!
//! All missing columns of a chunk are transferred as one batch of copies. Packed codes are transferred as
//! stored in host memory, into a ring of buffers, and one launch for all columns writes the unpacked codes to
//! their destination. These launches have their own stream, so that no copy waits until the device has
//! capacity for a launch.
//!
//! ```text
//! copy      │ chunk 0 │ chunk 2 │ chunk 4 │ ...          into buffers in turn, and plain columns into slots
//! copy      ┊    │ chunk 1 │ chunk 3 │ ...
//! unpack    ┊           │0│    │1│  │2│ ...              from buffers into slots
//! compute   ┊             │ chunk 0 │ chunk 1 │ ...      reads slots
//! ```

use crate::device::{DeviceRuntime, RunError};
use galatea_device::{DeviceBuffer, DeviceError, Event, HostMemory, HostView, In, Out, Stream};
use galatea_kernels::{PACKED_BLOCK_CODES, PackedColumn, UnpackCodes};
use galatea_memory::regions::Ablation;
use galatea_memory::transfer::{Method, TransferOptions, pieces};
use galatea_store::{BLOCK_CODES, ChunkData, Column, PackedCodes};
use std::ops::Range;
use std::sync::Arc;

// The kernel unpacks the block size of the store.
const _: () = assert!(BLOCK_CODES == PACKED_BLOCK_CODES);

/// Alignment of packed codes in a buffer of the ring.
const ALIGNMENT: usize = 256;

/// A part of host memory.
type MemoryPart = (Arc<HostMemory>, Range<usize>);

/// Number of buffers for packed codes: chunks that are copied while one waits to be unpacked.
const RING: usize = 6;

/// A column of a chunk that is transferred, and its start in the destination buffer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChunkTransfer<'a> {
    pub(crate) column: &'a Column,
    pub(crate) chunk: usize,
    pub(crate) start: u64,
}

impl ChunkTransfer<'_> {
    fn packed(&self) -> Option<&PackedCodes> {
        match &self.column.chunks[self.chunk].data {
            ChunkData::Packed(codes) => Some(codes),
            ChunkData::Plain(_) => None,
        }
    }
}

/// The streams of a chunk: one copies it, one unpacks it. Both may be the same.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LinkStreams<'s> {
    pub(crate) copy: &'s Stream,
    pub(crate) unpack: &'s Stream,
}

/// Transfers columns of chunks to the device.
#[derive(Debug)]
pub(crate) struct ChunkLink<'r> {
    runtime: &'r DeviceRuntime,
    way: Method,
    unpack: Option<UnpackCodes>,
    /// Buffers for packed codes.
    ring: [Packed; RING],
    /// The buffer that is used next.
    next: usize,
}

/// Packed codes on the device.
#[derive(Debug, Default)]
struct Packed {
    memory: Option<DeviceBuffer<u8>>,
    /// Recorded when its last contents were unpacked.
    unpacked: Option<Event>,
}

impl Packed {
    /// Whether it has space for `bytes` bytes.
    fn has(&self, bytes: usize) -> bool {
        self.memory.as_ref().is_some_and(|memory| bytes <= memory.len())
    }

    /// Queues copies into it, after the launch that unpacks its contents.
    fn receive(&mut self, copy: &Stream, pieces: &[(usize, HostView)]) -> Result<(), DeviceError> {
        let Some(memory) = self.memory.as_mut().filter(|_| !pieces.is_empty()) else {
            return Ok(());
        };
        if let Some(unpacked) = self.unpacked.take() {
            copy.wait(&unpacked)?;
        }
        copy.copy_pieces(memory, pieces)
    }
}

impl<'r> ChunkLink<'r> {
    /// A link that uses the transfer method `way`.
    pub(crate) fn new(runtime: &'r DeviceRuntime, way: Method) -> Self {
        Self {
            runtime,
            way,
            unpack: None,
            ring: Default::default(),
            next: 0,
        }
    }

    /// The transfer method of chunks.
    pub(crate) fn way(&self) -> Method {
        self.way
    }

    /// Allocates memory for packed codes of columns that will be transferred together. If that fails, the
    /// host unpacks them.
    pub(crate) fn prepare(
        &mut self,
        streams: LinkStreams<'_>,
        coming: &[ChunkTransfer<'_>],
    ) -> Result<(), RunError> {
        let needed = packed_bytes(coming);
        if needed == 0 {
            return Ok(());
        }
        if self.unpack.is_none() {
            self.unpack = Some(UnpackCodes::new(self.runtime.device())?);
        }
        let packed = &mut self.ring[self.next];
        if !packed.has(needed) {
            // Freed once it is unpacked: all streams that use a buffer are waited for.
            packed.memory = None;
            packed.memory = self.runtime.allocate(streams.copy, needed as u64)?;
        }
        Ok(())
    }

    /// Queues the transfer of columns of a chunk to their positions in `buffer`, which may be written after
    /// the events `free`. Returns the number of bytes transferred over the link. The transfer is complete for
    /// work queued later on `streams.unpack`.
    pub(crate) fn bring(
        &mut self,
        streams: LinkStreams<'_>,
        coming: &[ChunkTransfer<'_>],
        buffer: &mut DeviceBuffer<u8>,
        free: &[Arc<Event>],
    ) -> Result<u64, DeviceError> {
        let (mut plain, mut packed, mut columns) = (Vec::new(), Vec::new(), Vec::new());
        let has_room = self.ring[self.next].has(packed_bytes(coming));
        let mut end = 0;
        for column in coming {
            let chunk = &column.column.chunks[column.chunk];
            let places = column.column.chunk_layout(column.chunk, column.start).0;
            let data = match (column.packed(), places[0]) {
                (Some(codes), Some(place)) if has_room => {
                    columns.push(PackedColumn {
                        packed: end as u64,
                        packed_bytes: codes.stored().len() as u64,
                        codes: place,
                        width: codes.width().bytes() as u32,
                    });
                    packed.push((end, self.source(codes.stored())?));
                    end += room(codes.stored());
                    None
                }
                (Some(codes), _) => Some(unpacked(codes)?),
                (None, _) => Some(self.source(chunk.data.stored())?),
            };
            let source = |view: &Option<HostView>| view.as_ref().map(|view| self.source(view)).transpose();
            let views = [data, source(&chunk.validity)?, source(&chunk.offsets)?];
            let placed = views.into_iter().zip(places);
            plain.extend(placed.filter_map(|(view, place)| Some((place? as usize, view?))));
        }
        let LinkStreams { copy, unpack } = streams;
        for free in free {
            unpack.wait(free)?;
            if !plain.is_empty() {
                copy.wait(free)?;
            }
        }
        let pieces = plain.iter().chain(&packed);
        let bytes = pieces.clone().map(|(_, view)| view.len() as u64).sum();
        let pinned = match self.way {
            Method::DynamicPinning => self.pin(pieces.map(|(_, view)| view))?,
            _ => Vec::new(),
        };
        if self.way == Method::PinnedPieces {
            (plain, packed) = (split(&plain)?, split(&packed)?);
        }
        self.ring[self.next].receive(copy, &packed)?;
        copy.copy_pieces(buffer, &plain)?;
        for (memory, range) in pinned {
            // Waits for the copies.
            self.runtime.device().unpin_part(&memory, &range)?;
        }
        if !copy.is(unpack) {
            unpack.wait(&copy.record()?)?;
        }
        let into = &mut self.ring[self.next];
        if let (Some(kernel), Some(memory), Some(first), false) =
            (&self.unpack, &into.memory, coming.first(), columns.is_empty())
        {
            let rows = first.column.chunks[first.chunk].rows.into();
            kernel.launch(unpack, In(memory), Out(buffer), rows, &columns)?;
            into.unpacked = Some(unpack.record()?);
            self.next = (self.next + 1) % RING;
        }
        Ok(bytes)
    }

    /// Pins the parts of host memory with these views for one batch of copies. Memory that cannot be pinned
    /// is copied unpinned.
    fn pin<'v>(&self, views: impl Iterator<Item = &'v HostView>) -> Result<Vec<MemoryPart>, DeviceError> {
        // Views share pages of memory, which can be pinned once.
        let mut parts: Vec<MemoryPart> = Vec::new();
        for view in views {
            let range = view.offset()..view.offset() + view.len();
            match parts
                .iter_mut()
                .find(|(memory, _)| Arc::ptr_eq(memory, view.memory()))
            {
                Some((_, part)) => *part = part.start.min(range.start)..part.end.max(range.end),
                None => parts.push((Arc::clone(view.memory()), range)),
            }
        }
        let mut pinned = Vec::with_capacity(parts.len());
        for (memory, range) in parts {
            match self.runtime.device().pin_part(&memory, &range) {
                Ok(()) => pinned.push((memory, range)),
                Err(error) if error.is_device_lost() => return Err(error),
                Err(error) => tracing::debug!(%error, "host memory is copied without being pinned"),
            }
        }
        Ok(pinned)
    }

    /// The source of a view's copy: a staging buffer with the same bytes, or the view itself.
    fn source(&self, view: &HostView) -> Result<HostView, DeviceError> {
        let memory = self.runtime.memory();
        if self.way == Method::Staged || memory.ablations().has(Ablation::Copied) {
            memory.staged(view)
        } else {
            Ok(view.clone())
        }
    }
}

/// The copies in the pieces of [`Method::PinnedPieces`].
fn split(copies: &[(usize, HostView)]) -> Result<Vec<(usize, HostView)>, DeviceError> {
    let most = TransferOptions::default().piece_bytes;
    let parts = copies.iter().flat_map(|(target, view)| {
        pieces(0..view.len(), most).map(move |piece| {
            let start = view.offset() + piece.start;
            let part = HostView::new(Arc::clone(view.memory()), start, piece.len())?;
            Ok((target + piece.start, part))
        })
    });
    parts.collect()
}

/// Bytes that packed codes use in a buffer of the ring.
fn room(stored: &HostView) -> usize {
    stored.len().next_multiple_of(ALIGNMENT)
}

/// Bytes that columns use in a buffer of the ring.
fn packed_bytes(coming: &[ChunkTransfer<'_>]) -> usize {
    let codes = coming.iter().filter_map(ChunkTransfer::packed);
    codes.map(|codes| room(codes.stored())).sum()
}

/// The codes, unpacked by the host.
fn unpacked(codes: &PackedCodes) -> Result<HostView, DeviceError> {
    let bytes = codes.plain_bytes();
    let mut memory = HostMemory::new(bytes)?;
    codes.unpack(&mut memory.as_mut_slice()[..bytes]);
    HostView::new(Arc::new(memory), 0, bytes)
}
