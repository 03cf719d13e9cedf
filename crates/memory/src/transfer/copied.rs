//! Transfer methods with plain host memory: copies of it, pinned or not, and loads of it.

use std::ops::Range;
use std::sync::Arc;

use galatea_device::{Device, DeviceBuffer, DeviceError, HostMemory, HostView, Stream};

use super::{Method, Result, Transfer, TransferError, TransferOptions, pieces};

/// Two buffers on the device that ranges use alternately.
#[derive(Debug)]
pub(super) struct Slots {
    buffers: [DeviceBuffer<u8>; 2],
    next: usize,
    method: Method,
}

impl Slots {
    pub(super) fn new(device: &Device, method: Method, bytes: usize) -> Result<Self> {
        let stream = device.stream()?;
        let buffer = || Ok::<_, DeviceError>(device.alloc::<u8>(&stream, bytes.max(1))?.assume_written());
        Ok(Self {
            buffers: [buffer()?, buffer()?],
            next: 0,
            method,
        })
    }

    /// Takes the next buffer, for a range.
    pub(super) fn take(&mut self, len: usize) -> Result<&mut DeviceBuffer<u8>> {
        self.next = 1 - self.next;
        let limit = self.buffers[self.next].len();
        if len > limit {
            return Err(TransferError::Chunk {
                method: self.method,
                asked: len as u64,
                limit: limit as u64,
            });
        }
        Ok(&mut self.buffers[self.next])
    }

    /// The buffer that was taken last.
    pub(super) fn last(&self) -> &DeviceBuffer<u8> {
        &self.buffers[self.next]
    }
}

/// Plain host memory.
pub(super) struct Copied {
    device: Device,
    method: Method,
    memory: Arc<HostMemory>,
    /// A placeholder for the memory while a copy owns it.
    nothing: Arc<HostMemory>,
    /// `None` if kernels access the host memory.
    slots: Option<Slots>,
    piece: usize,
    /// The stream that was used: its copies are waited for before the host accesses its bytes.
    used: Option<Stream>,
}

impl Copied {
    pub(super) fn new(
        device: &Device,
        method: Method,
        bytes: usize,
        options: &TransferOptions,
    ) -> Result<Self> {
        let memory = Arc::new(HostMemory::new(bytes)?);
        if matches!(method, Method::Pinned | Method::PinnedPieces | Method::ZeroCopy) {
            device.pin(&memory)?;
        }
        let slots = match method {
            Method::ZeroCopy => None,
            _ => Some(Slots::new(device, method, options.chunk_bytes.min(bytes))?),
        };
        let piece = match method {
            Method::PinnedPieces => options.piece_bytes.max(1),
            _ => usize::MAX,
        };
        Ok(Self {
            device: device.clone(),
            method,
            memory,
            nothing: Arc::new(HostMemory::new(0)?),
            slots,
            piece,
            used: None,
        })
    }

    fn settle(&mut self) -> Result<()> {
        if let Some(stream) = &self.used {
            stream.synchronize()?;
        }
        Ok(())
    }

    /// Address of the pinned memory for kernels.
    fn mapped(&self, range: Range<usize>) -> Result<u64> {
        let view = HostView::new(Arc::clone(&self.memory), range.start, range.len())?;
        let address = self.device.mapped_address(&view)?;
        Ok(address.ok_or(DeviceError::HostMemory {
            requested: self.memory.len() as u64,
            available: 0,
            reason: "the driver maps no address for it".to_owned(),
            hint: "use another method",
        })?)
    }
}

impl Transfer for Copied {
    fn method(&self) -> Method {
        self.method
    }

    fn host(&mut self) -> Result<&mut [u8]> {
        self.settle()?;
        let len = self.memory.len() as u64;
        let memory = Arc::get_mut(&mut self.memory).ok_or(DeviceError::HostMemoryShared { bytes: len })?;
        Ok(memory.as_mut_slice())
    }

    fn bring(&mut self, stream: &Stream, range: Range<usize>) -> Result<u64> {
        self.used = Some(stream.clone());
        let Some(slots) = &mut self.slots else {
            return self.mapped(range);
        };
        let slot = slots.take(range.len())?;
        let pins = self.method == Method::DynamicPinning;
        if pins {
            self.device.pin_part(&self.memory, &range)?;
        }
        let batch = pieces(range.clone(), self.piece).map(|piece| {
            let view = HostView::new(Arc::clone(&self.memory), piece.start, piece.len())?;
            Ok((piece.start - range.start, view))
        });
        stream.copy_pieces(slot, &batch.collect::<Result<Vec<_>>>()?)?;
        if pins {
            // Waits for the copy.
            self.device.unpin_part(&self.memory, &range)?;
        }
        Ok(slot.address())
    }

    fn room(&mut self, stream: &Stream, range: Range<usize>) -> Result<u64> {
        self.used = Some(stream.clone());
        match &mut self.slots {
            None => self.mapped(range),
            Some(slots) => {
                let slot = slots.take(range.len())?;
                slot.used_by(stream)?;
                Ok(slot.address())
            }
        }
    }

    fn collect(&mut self, stream: &Stream, range: Range<usize>) -> Result<()> {
        // Releases memory that copies to the device held.
        stream.synchronize()?;
        let Some(slots) = &self.slots else { return Ok(()) };
        let pins = self.method == Method::DynamicPinning;
        if pins {
            self.device.pin_part(&self.memory, &range)?;
        }
        for piece in pieces(range.clone(), self.piece) {
            let source = slots
                .last()
                .slice(piece.start - range.start..piece.end - range.start)?;
            // The copy takes the only handle, and returns it.
            let memory = std::mem::replace(&mut self.memory, Arc::clone(&self.nothing));
            self.memory = stream.copy_to_host(source, memory, piece.start)?.wait()?;
        }
        if pins {
            self.device.unpin_part(&self.memory, &range)?;
        }
        Ok(())
    }
}
