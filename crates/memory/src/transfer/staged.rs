//! Staged copies: our threads copy between pageable memory and a ring of pinned buffers, and the copy engine
//! copies between the ring and the device.

use std::ops::Range;
use std::sync::Arc;

use galatea_device::{Device, DeviceError, Download, Event, HostMemory, HostView, Stream};
use rayon::prelude::*;

use super::copied::Slots;
use super::{Method, Result, Transfer, TransferError, TransferOptions, pieces};

/// Number of buffers of the ring: one is filled while others are copied from.
const RING: usize = 4;
/// Number of bytes that a thread copies at a time.
const PART: usize = 64 << 10;

/// A pinned buffer, and the event after which it is free.
struct Stage {
    memory: Arc<HostMemory>,
    copied: Option<Event>,
}

/// Pageable host memory with a pinned ring.
pub(super) struct Staged {
    bytes: Vec<u8>,
    slots: Slots,
    ring: Vec<Stage>,
    nothing: Arc<HostMemory>,
    threads: rayon::ThreadPool,
    piece: usize,
    next: usize,
}

impl Staged {
    pub(super) fn new(device: &Device, bytes: usize, options: &TransferOptions) -> Result<Self> {
        let threads = rayon::ThreadPoolBuilder::new()
            .num_threads(options.threads.max(1))
            .thread_name(|thread| format!("galatea-stage-{thread}"))
            .build()
            .map_err(|error| TransferError::Threads {
                asked: options.threads as u64,
                reason: error.to_string(),
            })?;
        let piece = options.piece_bytes.max(PART);
        let stage = || {
            let memory = Arc::new(HostMemory::new(piece)?);
            device.pin(&memory)?;
            Ok::<_, DeviceError>(Stage { memory, copied: None })
        };
        Ok(Self {
            bytes: vec![0; bytes],
            slots: Slots::new(device, Method::Staged, options.chunk_bytes.min(bytes))?,
            ring: (0..RING).map(|_| stage()).collect::<Result<_, DeviceError>>()?,
            nothing: Arc::new(HostMemory::new(0)?),
            threads,
            piece,
            next: 0,
        })
    }
}

/// Copies by all threads of a pool.
fn copy(threads: &rayon::ThreadPool, to: &mut [u8], from: &[u8]) {
    threads.install(|| {
        let parts = to.par_chunks_mut(PART).zip(from.par_chunks(PART));
        parts.for_each(|(to, from)| to.copy_from_slice(from));
    });
}

impl Transfer for Staged {
    fn method(&self) -> Method {
        Method::Staged
    }

    fn host(&mut self) -> Result<&mut [u8]> {
        // Copies in progress use the ring.
        Ok(&mut self.bytes)
    }

    fn bring(&mut self, stream: &Stream, range: Range<usize>) -> Result<u64> {
        let pieces: Vec<_> = pieces(range.clone(), self.piece).collect();
        let slot = self.slots.take(range.len())?;
        for piece in pieces {
            let stage = &mut self.ring[self.next % RING];
            self.next += 1;
            if let Some(copied) = stage.copied.take() {
                copied.synchronize()?;
            }
            if Arc::get_mut(&mut stage.memory).is_none() {
                // The stream releases the memory that it has copied.
                stream.synchronize()?;
            }
            let len = stage.memory.len() as u64;
            let memory =
                Arc::get_mut(&mut stage.memory).ok_or(DeviceError::HostMemoryShared { bytes: len })?;
            let target = &mut memory.as_mut_slice()[..piece.len()];
            copy(&self.threads, target, &self.bytes[piece.clone()]);
            let view = HostView::new(Arc::clone(&stage.memory), 0, piece.len())?;
            stream.copy_to_device(
                slot.slice_mut(piece.start - range.start..piece.end - range.start)?,
                &view,
            )?;
            stage.copied = Some(stream.record()?);
        }
        Ok(slot.address())
    }

    fn room(&mut self, stream: &Stream, range: Range<usize>) -> Result<u64> {
        let slot = self.slots.take(range.len())?;
        slot.used_by(stream)?;
        Ok(slot.address())
    }

    fn collect(&mut self, stream: &Stream, range: Range<usize>) -> Result<()> {
        // Releases memory that copies to the device held.
        stream.synchronize()?;
        let mut under_way: Vec<(Download, Range<usize>, usize)> = Vec::new();
        let pieces: Vec<_> = pieces(range.clone(), self.piece).collect();
        for piece in pieces
            .into_iter()
            .map(Some)
            .chain(std::iter::repeat_n(None, RING))
        {
            if under_way.len() == RING || (piece.is_none() && !under_way.is_empty()) {
                let (download, piece, stage) = under_way.remove(0);
                let memory = download.wait()?;
                copy(
                    &self.threads,
                    &mut self.bytes[piece.clone()],
                    &memory.as_slice()[..piece.len()],
                );
                self.ring[stage].memory = memory;
            }
            let Some(piece) = piece else { continue };
            let stage = self.next % RING;
            self.next += 1;
            let source = self
                .slots
                .last()
                .slice(piece.start - range.start..piece.end - range.start)?;
            let memory = std::mem::replace(&mut self.ring[stage].memory, Arc::clone(&self.nothing));
            under_way.push((stream.copy_to_host(source, memory, 0)?, piece, stage));
        }
        Ok(())
    }
}
