//! Memory that blocks of the kernel address: heaps of frames, and the catalogue.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use galatea_device::{Device, DeviceBuffer, SharedMemory, Stream};
use galatea_kernels::flow::{FlowHeap, FrameMemory, Words, all_free};

use crate::error::{FlowError, Result};
use crate::options::CataloguePolicy;
use crate::topology::PAGE;

/// Rejects frames at addresses that do not fit a frame word.
pub(super) fn within_reach(address: u64, bytes: usize) -> Result<()> {
    if address + bytes as u64 <= 1 << 47 {
        return Ok(());
    }
    Err(FlowError::topology(format!(
        "the device has memory for frames at {address:#x}, past 47 bits"
    )))
}

/// A heap from which blocks allocate frames.
#[derive(Debug)]
pub(super) struct BlockHeap {
    pub(super) frame_bytes: usize,
    pub(super) system: bool,
    /// Frames, if they are in host memory.
    pub(super) memory: Option<Arc<FrameMemory>>,
    /// The number of granted buffers and their addresses; then, on a line of its own, the number of wanted
    /// buffers.
    pub(super) words: Words,
    pub(super) wanted: usize,
    /// The last wanted word that the watching thread has read.
    pub(super) heard: Cell<u64>,
    /// Numbers of the granted buffers that are lent or requested.
    lent: RefCell<Vec<usize>>,
    /// Bits of free frames, and of lent frames.
    bitmap: DeviceBuffer<u32>,
    /// Frames of all buffers, of those not yet granted, too.
    frames: usize,
    bases: DeviceBuffer<u64>,
    /// The number of buffers that blocks have registered, and of frames that were released twice.
    buffers: DeviceBuffer<u32>,
    /// Frames, if they are in device memory.
    _frames: Option<DeviceBuffer<u8>>,
    words_per_buffer: usize,
    most_buffers: usize,
}

impl BlockHeap {
    pub(super) fn new(
        device: &Device,
        stream: &Stream,
        frame_bytes: usize,
        host: Option<Arc<FrameMemory>>,
        frames: usize,
    ) -> Result<Self> {
        let (most_buffers, frames_per_buffer) = match &host {
            Some(memory) => (memory.most_granted(), memory.frames_per_buffer()),
            None => (1, frames),
        };
        let words_per_buffer = frames_per_buffer.div_ceil(32);
        let words = 0..most_buffers * words_per_buffer;
        let free = words.map(|word| all_free(frames_per_buffer, word, u32::BITS) as u32);
        let mut bits: Vec<u32> = free.collect();
        bits.resize(2 * bits.len(), 0);
        let (bases, own) = match &host {
            Some(memory) => {
                let bases = (0..memory.granted()).filter_map(|buffer| memory.buffer(buffer));
                (bases.map(|buffer| buffer.address()).collect(), None)
            }
            None => {
                let own = device
                    .alloc::<u8>(stream, frames * frame_bytes + PAGE)?
                    .assume_written();
                within_reach(own.address(), own.len())?;
                (vec![own.address().next_multiple_of(PAGE as u64)], Some(own))
            }
        };
        let granted: usize = bases.len();
        let wanted = (1 + most_buffers).next_multiple_of(8);
        let words = Words::new(device, wanted + 1)?;
        for (place, base) in bases.iter().enumerate() {
            words.get(1 + place).store(*base, Ordering::Relaxed);
        }
        words.get(0).store(granted as u64, Ordering::Release);
        let mut all: Vec<u64> = bases;
        all.resize(most_buffers, 0);
        Ok(Self {
            frame_bytes,
            system: host.is_some(),
            memory: host,
            words,
            wanted,
            heard: Cell::new(0),
            lent: RefCell::default(),
            frames: most_buffers * frames_per_buffer,
            bitmap: device.upload(stream, &bits)?,
            bases: device.upload(stream, &all)?,
            buffers: device.upload(stream, &[granted as u32, 0])?,
            _frames: own,
            words_per_buffer,
            most_buffers,
        })
    }

    /// Frames in use except for lent ones, and frames that were released twice, if that is checked. Valid
    /// after the kernel.
    pub(super) fn counts(&self, stream: &Stream) -> Result<(u64, u64)> {
        let free_or_lent: u32 = stream
            .read(&self.bitmap, ..)?
            .iter()
            .map(|word| word.count_ones())
            .sum();
        let twice = stream.read(&self.buffers, ..)?[1];
        Ok((self.frames as u64 - u64::from(free_or_lent), u64::from(twice)))
    }

    /// Requests a buffer of at least `bytes` bytes. Returns its number and its memory; none if no buffer can
    /// be spared, or blocks themselves request more.
    pub(super) fn ask_for_loan(&self, bytes: usize) -> Option<(usize, Arc<SharedMemory>)> {
        let memory = self.memory.as_ref()?;
        let asked = self.words.get(self.wanted).load(Ordering::Acquire) != self.heard.get();
        if asked || memory.buffer_bytes() < bytes || !memory.may_lend() {
            return None;
        }
        let mut lent = self.lent.borrow_mut();
        let buffer = (0..memory.granted())
            .rev()
            .find(|buffer| !lent.contains(buffer))?;
        lent.push(buffer);
        memory.lend();
        Some((buffer, memory.buffer(buffer).cloned()?))
    }

    pub(super) fn describe(&self) -> FlowHeap {
        FlowHeap {
            bitmap: self.bitmap.address(),
            bases: self.bases.address(),
            buffers: self.buffers.address(),
            granted: self.words.address(0),
            wanted: self.words.address(self.wanted),
            words_per_buffer: self.words_per_buffer as u32,
            frame_bytes: self.frame_bytes as u32,
            most_buffers: self.most_buffers as u32,
            frames_per_buffer: (self.frames / self.most_buffers) as u32,
        }
    }
}

/// The structs of the catalogue, concatenated.
#[derive(Debug, Default)]
pub(super) struct Catalogue(Vec<u64>);

impl Catalogue {
    /// Appends structs. Returns their offset in bytes.
    pub(super) fn add<T: bytemuck::Pod>(&mut self, structs: &[T]) -> u64 {
        let at = self.0.len() * 8;
        self.0.extend_from_slice(bytemuck::cast_slice(structs));
        at as u64
    }

    pub(super) fn place(
        self,
        device: &Device,
        stream: &Stream,
        policy: CataloguePolicy,
    ) -> Result<(u64, Vec<DeviceBuffer<u64>>, Option<Words>)> {
        match policy {
            CataloguePolicy::ReadMostly => {
                let buffer = device.upload(stream, &self.0)?;
                Ok((buffer.address(), vec![buffer], None))
            }
            CataloguePolicy::Remote => {
                let words = Words::new(device, self.0.len())?;
                for (place, word) in self.0.iter().enumerate() {
                    words.get(place).store(*word, Ordering::Relaxed);
                }
                Ok((words.address(0), Vec::new(), Some(words)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_past_47_bits_are_refused() {
        assert!(within_reach((1 << 47) - 4096, 4096).is_ok());
        let error = within_reach((1 << 47) - 4096, 8192).expect_err("a frame word has no room for it");
        assert!(error.to_string().contains("0x7ffffffff000"), "{error}");
    }
}
