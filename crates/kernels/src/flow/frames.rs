//! The memory of frames, and the host's heap over it.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use galatea_device::SharedMemory;

/// Frames of a heap: equal parts of buffers, which may be added one at a time, and be lent to other heaps.
#[derive(Debug)]
pub struct FrameMemory {
    frame_bytes: usize,
    frames_per_buffer: usize,
    most: usize,
    least: usize,
    /// Granted buffers, in order; a lent one keeps its number.
    buffers: Box<[OnceLock<Arc<SharedMemory>>]>,
    granted: AtomicUsize,
    lent: AtomicUsize,
}

impl FrameMemory {
    /// Memory without buffers, of up to `most` at a time; `least` of them, at least one, are not lent.
    ///
    /// The number of buffers that can be lent equals the maximum at a time: then others can still replace
    /// them, with their own numbers.
    #[must_use]
    pub fn new(frame_bytes: usize, frames_per_buffer: usize, least: usize, most: usize) -> Self {
        let numbers = if most <= 1 { most } else { 2 * most };
        Self {
            frame_bytes,
            frames_per_buffer,
            most,
            least: least.max(1),
            buffers: (0..numbers).map(|_| OnceLock::new()).collect(),
            granted: AtomicUsize::new(0),
            lent: AtomicUsize::new(0),
        }
    }

    /// Bytes of a frame.
    #[must_use]
    pub fn frame_bytes(&self) -> usize {
        self.frame_bytes
    }

    /// Bytes of a buffer.
    #[must_use]
    pub fn buffer_bytes(&self) -> usize {
        self.frame_bytes * self.frames_per_buffer
    }

    /// Frames of a buffer.
    #[must_use]
    pub fn frames_per_buffer(&self) -> usize {
        self.frames_per_buffer
    }

    /// Number of granted buffers, including those that are lent.
    #[must_use]
    pub fn granted(&self) -> usize {
        self.granted.load(Ordering::Acquire)
    }

    /// Maximum number of buffers that it can be granted.
    #[must_use]
    pub fn most_granted(&self) -> usize {
        self.buffers.len()
    }

    /// Number of buffers that it has now.
    #[must_use]
    pub fn buffers(&self) -> usize {
        self.granted() - self.lent.load(Ordering::Relaxed)
    }

    /// Whether it has all the buffers that it can have.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.buffers() == self.most
    }

    /// Whether one of its buffers may be lent.
    #[must_use]
    pub fn may_lend(&self) -> bool {
        self.buffers() > self.least && self.lent.load(Ordering::Relaxed) < self.buffers.len() - self.most
    }

    /// Records that one of its buffers is lent, permanently. Called by one thread at a time, after it has
    /// checked [`FrameMemory::may_lend`].
    pub fn lend(&self) {
        self.lent.fetch_add(1, Ordering::Relaxed);
    }

    /// Adds a buffer and returns its number. Called by one thread at a time.
    ///
    /// # Errors
    /// The buffer, if their number is at the limit, or it is too small.
    pub fn grant(&self, buffer: Arc<SharedMemory>) -> Result<usize, Arc<SharedMemory>> {
        let number = self.granted.load(Ordering::Relaxed);
        let Some(place) = self.buffers.get(number) else {
            return Err(buffer);
        };
        if self.is_complete() || buffer.len() < self.buffer_bytes() {
            return Err(buffer);
        }
        place.set(buffer)?;
        self.granted.store(number + 1, Ordering::Release);
        Ok(number)
    }

    /// A buffer.
    #[must_use]
    pub fn buffer(&self, number: usize) -> Option<&Arc<SharedMemory>> {
        self.buffers.get(number)?.get()
    }

    /// The host's and the device's address of a frame, by buffer and index in it.
    pub(super) fn frame(&self, buffer: usize, place: usize) -> (*mut u8, u64) {
        let memory = self.buffers[buffer]
            .get()
            .expect("frames are numbered in granted buffers");
        assert!(place < self.frames_per_buffer, "a frame past its buffer");
        let offset = place * self.frame_bytes;
        // SAFETY: the buffer is at least `frames_per_buffer` frames long, checked when it was granted.
        let pointer = unsafe { memory.pointer().add(offset) };
        (pointer, memory.address() + offset as u64)
    }

    /// The host's address of a frame, by the device's; `None` for an address that is not the start of a frame
    /// of this memory, or if the frame is shorter than `length`.
    pub(super) fn find(&self, address: u64, length: usize) -> Option<*mut u8> {
        let frame = self.frame_bytes as u64;
        let found = self.buffers.iter().filter_map(OnceLock::get).find_map(|memory| {
            let distance = address.checked_sub(memory.address())?;
            (distance < self.buffer_bytes() as u64 && distance % frame == 0).then_some((memory, distance))
        });
        let (memory, distance) = found?;
        // SAFETY: the distance is inside the buffer.
        (length <= self.frame_bytes).then(|| unsafe { memory.pointer().add(distance as usize) })
    }
}

/// A frame in use, by its buffer's number and its index in the buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FrameNumber {
    pub(super) buffer: u32,
    pub(super) place: u32,
}

/// The host's heap of frames (XeFlow, section 4.4): buffers and a bitmap, 1 = free, as in the device's heaps
/// (`cuda/galatea/heap/bits.cuh`). A buffer's frames are probed word by word from a hashed start. Earlier
/// buffers are probed first, so that a heap with more frames than are in use keeps its last buffers free:
/// only a buffer without a frame in use can be lent.
#[derive(Debug)]
pub struct HostHeap {
    memory: Arc<FrameMemory>,
    words_per_buffer: usize,
    bitmap: Box<[AtomicU64]>,
}

impl HostHeap {
    /// A heap over frames, none of them in use.
    #[must_use]
    pub fn new(memory: Arc<FrameMemory>) -> Self {
        let words_per_buffer = memory.frames_per_buffer.div_ceil(64);
        let words = words_per_buffer * memory.most_granted();
        let bitmap =
            (0..words).map(|word| AtomicU64::new(all_free(memory.frames_per_buffer, word, u64::BITS)));
        Self {
            bitmap: bitmap.collect(),
            words_per_buffer,
            memory,
        }
    }

    /// Its frames.
    #[must_use]
    pub fn memory(&self) -> &Arc<FrameMemory> {
        &self.memory
    }

    /// Takes a frame; `None` if all granted frames are in use.
    pub(super) fn take(&self, seed: u64) -> Option<FrameNumber> {
        let start = mix64(seed) as usize % self.words_per_buffer;
        for probe in 0..self.memory.granted() * self.words_per_buffer {
            let (buffer, probe) = (probe / self.words_per_buffer, probe % self.words_per_buffer);
            let place = (start + probe) % self.words_per_buffer;
            let word = buffer * self.words_per_buffer + place;
            let mut free = self.bitmap[word].load(Ordering::Relaxed);
            while free != 0 {
                let bit = free.trailing_zeros();
                // Acquire: the last user's accesses are complete.
                free = self.bitmap[word].fetch_and(!(1 << bit), Ordering::Acquire);
                if free >> bit & 1 != 0 {
                    return Some(FrameNumber {
                        buffer: buffer as u32,
                        place: (place * 64) as u32 + bit,
                    });
                }
            }
        }
        None
    }

    /// Releases a frame.
    pub(super) fn give(&self, frame: FrameNumber) {
        let word = frame.buffer as usize * self.words_per_buffer + frame.place as usize / 64;
        let bit = 1_u64 << (frame.place % 64);
        let before = self.bitmap[word].fetch_or(bit, Ordering::Release);
        debug_assert!(before & bit == 0, "a frame given back twice");
    }

    /// Whether no frame is free.
    #[must_use]
    pub fn is_exhausted(&self) -> bool {
        let words = self.memory.granted() * self.words_per_buffer;
        self.bitmap[..words]
            .iter()
            .all(|word| word.load(Ordering::Relaxed) == 0)
    }

    /// Number of frames in use, excluding those of lent buffers.
    #[must_use]
    pub fn in_use(&self) -> usize {
        let words = self.bitmap.iter();
        let free: u32 = words.map(|word| word.load(Ordering::Relaxed).count_ones()).sum();
        let lent = self.memory.granted() - self.memory.buffers();
        (self.memory.most_granted() - lent) * self.memory.frames_per_buffer - free as usize
    }

    /// Removes a whole buffer from the heap for use by another one: the last one without a frame in use; its
    /// frames stay marked here permanently. `None` if each has a frame in use, and if the heap may not lend.
    /// Called by one thread at a time.
    pub fn lend_buffer(&self) -> Option<Arc<SharedMemory>> {
        if !self.memory.may_lend() {
            return None;
        }
        (0..self.memory.granted()).rev().find_map(|buffer| {
            let words = buffer * self.words_per_buffer..(buffer + 1) * self.words_per_buffer;
            for word in words.clone() {
                let free = all_free(self.memory.frames_per_buffer, word, u64::BITS);
                let taken = self.bitmap[word].compare_exchange(free, 0, Ordering::Acquire, Ordering::Relaxed);
                if taken.is_err() {
                    for undone in words.start..word {
                        let free = all_free(self.memory.frames_per_buffer, undone, u64::BITS);
                        self.bitmap[undone].store(free, Ordering::Release);
                    }
                    return None;
                }
            }
            self.memory.lend();
            self.memory.buffer(buffer).cloned()
        })
    }
}

/// A word of `bits` bits of the bitmap of a heap without frames in use. Each buffer has its own words, and
/// the bits of its last word beyond the buffer's frames are never free.
#[must_use]
pub fn all_free(frames_per_buffer: usize, word: usize, bits: u32) -> u64 {
    let bits_before = word % frames_per_buffer.div_ceil(bits as usize) * bits as usize;
    let frames = (frames_per_buffer - bits_before).min(bits as usize);
    u64::MAX >> (u64::BITS as usize - frames)
}

/// See `mix64` in `cuda/galatea/prelude.cuh`.
#[inline]
#[must_use]
pub fn mix64(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
