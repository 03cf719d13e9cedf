//! Inline frames: frames of a few bytes, stored in the slots of the offset index.
//!
//! A reader of a frame in a heap waits for two reads over the link, one after the other: of the slot that
//! refers to the frame, and of the frame. The device, before it publishes one, waits for a fence of system
//! scope, so that the frame's bytes are visible before the word that refers to it. An inline frame needs
//! neither: each 64-bit word of its slot has 32 bits of data and 32 bits of the offset. Words are stored and
//! loaded whole, so a reader that finds the offset in all of them has all of the data, in whatever order they
//! arrived. The protocol "LL" of NCCL works in this way.
//!
//! | word | data |
//! | --- | --- |
//! | 0 | number of bytes of the frame |
//! | 1 | unused |
//! | 2, 3 | its offset at the source, low half first |
//! | 4, 5 | the source's stamp |
//! | 6 on | its bytes, four per word |

use std::sync::atomic::{AtomicU64, Ordering};

use super::catalogue::{INLINE_HEADER, MOST_INLINE_BYTES, SLOT_WORDS, inline_tag};

/// Words of a slot that contains frames of `bytes` bytes: whole lines of 64 bytes, more than a slot that
/// refers to a frame has.
pub(super) fn slot_words(bytes: usize) -> usize {
    assert!(bytes <= MOST_INLINE_BYTES, "an inline frame of {bytes} bytes");
    (INLINE_HEADER + bytes.div_ceil(4))
        .next_multiple_of(SLOT_WORDS)
        .max(2 * SLOT_WORDS)
}

/// Maximum number of words of a slot: each lane of a warp has one.
const WORDS: usize = INLINE_HEADER + MOST_INLINE_BYTES / 4;

/// A copy of an inline frame, aligned for items of up to 16 bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct InlineBytes([u128; MOST_INLINE_BYTES.div_ceil(16)]);

impl InlineBytes {
    pub(super) fn zeroed() -> Self {
        Self([0; MOST_INLINE_BYTES.div_ceil(16)])
    }

    pub(super) fn bytes(&self, length: usize) -> &[u8] {
        &bytemuck::cast_slice(&self.0)[..length]
    }

    pub(super) fn bytes_mut(&mut self, length: usize) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.0)[..length]
    }
}

/// A frame with the other contents of its slot.
#[derive(Debug, Clone, Copy)]
pub(super) struct InlineFrame {
    pub(super) bytes: InlineBytes,
    pub(super) length: usize,
    pub(super) source: u64,
    pub(super) stamp: u64,
}

impl InlineFrame {
    /// Stores the frame in all words of its slot: a remainder of an earlier frame could otherwise be mistaken
    /// for one of 2^32 offsets later.
    pub(super) fn store<'w>(&self, offset: u64, words: usize, word: impl Fn(usize) -> &'w AtomicU64) {
        let items: &[u32] = bytemuck::cast_slice(&self.bytes.0);
        for at in 0..words {
            let data = match at {
                0 => self.length as u32,
                1 => 0,
                2 => self.source as u32,
                3 => (self.source >> 32) as u32,
                4 => self.stamp as u32,
                5 => (self.stamp >> 32) as u32,
                at => items.get(at - INLINE_HEADER).copied().unwrap_or(0),
            };
            // Relaxed: each word carries its own offset.
            word(at).store(u64::from(data) << 32 | inline_tag(offset), Ordering::Relaxed);
        }
    }

    /// Loads a frame; `None` while a word of it is missing.
    pub(super) fn load<'w>(offset: u64, words: usize, word: impl Fn(usize) -> &'w AtomicU64) -> Option<Self> {
        let mut data = [0_u32; WORDS];
        for (at, data) in data.iter_mut().enumerate().take(words) {
            let value = word(at).load(Ordering::Relaxed);
            if value & u64::from(u32::MAX) != inline_tag(offset) {
                return None;
            }
            *data = (value >> 32) as u32;
        }
        let (header, items) = data.split_at(INLINE_HEADER);
        let mut bytes = InlineBytes::zeroed();
        let room: &mut [u32] = bytemuck::cast_slice_mut(&mut bytes.0);
        room[..items.len()].copy_from_slice(items);
        let pair = |at: usize| u64::from(header[at]) | u64::from(header[at + 1]) << 32;
        Some(Self {
            bytes,
            length: header[0] as usize,
            source: pair(2),
            stamp: pair(4),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(words: usize) -> Vec<AtomicU64> {
        (0..words).map(|_| AtomicU64::new(0)).collect()
    }

    #[test]
    fn inline_frame_load_returns_stored_bytes_and_origin() {
        for length in [0, 1, 3, 4, 8, 63, 64, 103, MOST_INLINE_BYTES] {
            let words = slot_words(length);
            assert!(
                words > SLOT_WORDS && words <= 32,
                "{words} words for {length} bytes"
            );
            let slot = slot(words);
            let mut bytes = InlineBytes::zeroed();
            for (place, byte) in bytes.bytes_mut(length).iter_mut().enumerate() {
                *byte = place as u8 ^ 0x5a;
            }
            let frame = InlineFrame {
                bytes,
                length,
                source: u64::MAX - 7,
                stamp: 1 << 40 | 3,
            };
            let offset = (1 << 32) + 5;
            assert!(InlineFrame::load(offset, words, |at| &slot[at]).is_none());
            frame.store(offset, words, |at| &slot[at]);
            let found = InlineFrame::load(offset, words, |at| &slot[at]).expect("it was stored");
            assert_eq!(found.bytes.bytes(length), bytes.bytes(length));
            assert_eq!((found.source, found.stamp), (frame.source, frame.stamp));
            assert!(InlineFrame::load(offset + 64, words, |at| &slot[at]).is_none());
        }
    }

    /// Words may arrive in any order: while one is missing, no frame is returned.
    #[test]
    fn inline_frame_load_returns_none_if_words_are_missing() {
        let words = slot_words(64);
        let (before, after) = (slot(words), slot(words));
        let frame = |source| InlineFrame {
            bytes: InlineBytes::zeroed(),
            length: 64,
            source,
            stamp: 0,
        };
        frame(1).store(3, words, |at| &before[at]);
        frame(2).store(11, words, |at| &after[at]);
        for missing in 0..words {
            let mixed = |at| if at == missing { &before[at] } else { &after[at] };
            assert!(InlineFrame::load(11, words, mixed).is_none(), "word {missing}");
        }
    }
}
