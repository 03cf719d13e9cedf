//! The offset index of a topic that the host takes part in.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use galatea_device::{Device, Result};

use super::catalogue::{FlowTopic, OPEN, SLOT_WORDS};
use super::inline::slot_words;
use super::words::Words;

/// Number of slots and subscribers of a topic, and the kind of slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TopicShape {
    depth: u32,
    subscribers: u32,
    inline_bytes: Option<usize>,
}

impl TopicShape {
    /// A topic of `depth` slots, a power of two, which refer to frames of a heap.
    #[must_use]
    pub fn of_frames(depth: u32, subscribers: u32) -> Self {
        assert!(depth.is_power_of_two(), "a depth of {depth} slots");
        Self {
            depth,
            subscribers,
            inline_bytes: None,
        }
    }

    /// A topic with slots that contain frames of up to `bytes` bytes, at most
    /// [`MOST_INLINE_BYTES`](super::MOST_INLINE_BYTES).
    #[must_use]
    pub fn inline(depth: u32, subscribers: u32, bytes: usize) -> Self {
        Self {
            inline_bytes: Some(bytes),
            ..Self::of_frames(depth, subscribers)
        }
    }

    pub(super) fn depth(self) -> u32 {
        self.depth
    }

    pub(super) fn subscribers(self) -> u32 {
        self.subscribers
    }

    /// Maximum number of bytes of a frame, if slots contain frames.
    #[must_use]
    pub fn inline_bytes(self) -> Option<usize> {
        self.inline_bytes
    }

    /// Words of a slot.
    pub(super) fn slot_words(self) -> usize {
        self.inline_bytes.map_or(SLOT_WORDS, slot_words)
    }

    /// Words of a topic: slots, acknowledgements, and a line for the end.
    #[must_use]
    pub fn words(self) -> usize {
        self.depth as usize * self.slot_words() + self.acknowledgements() + SLOT_WORDS
    }

    fn acknowledgements(self) -> usize {
        (self.depth as usize * self.subscribers as usize).next_multiple_of(SLOT_WORDS)
    }

    /// Index of the word with the end of the topic.
    #[must_use]
    pub fn end(self) -> usize {
        self.words() - SLOT_WORDS
    }

    /// Describes a topic of this shape with its first word at an address.
    pub fn describe(self, first: u64, topic: &mut FlowTopic) {
        let slots = self.depth as usize * self.slot_words();
        topic.slots = first;
        topic.acknowledged = first + (slots * 8) as u64;
        topic.end = first + (self.end() * 8) as u64;
        (topic.depth, topic.subscribers) = (self.depth, self.subscribers);
        topic.slot_words = self.slot_words() as u32;
    }
}

/// The words of a topic that the host takes part in.
#[derive(Debug)]
pub struct TopicWords {
    words: Words,
    shape: TopicShape,
    /// Subscriptions handed out, and whether the publishing side was.
    subscribed: AtomicU32,
    published: AtomicBool,
}

impl TopicWords {
    /// An open topic without frames.
    ///
    /// # Errors
    /// Those of [`Words::new`].
    pub fn new(device: &Device, shape: TopicShape) -> Result<Self> {
        let topic = Self {
            words: Words::new(device, shape.words())?,
            shape,
            subscribed: AtomicU32::new(0),
            published: AtomicBool::new(false),
        };
        topic.end().store(OPEN, Ordering::Release);
        Ok(topic)
    }

    /// Its shape.
    #[must_use]
    pub fn shape(&self) -> TopicShape {
        self.shape
    }

    /// Fills in the addresses of the words.
    pub fn describe(&self, topic: &mut FlowTopic) {
        self.shape.describe(self.words.address(0), topic);
    }

    /// A free subscription; `None` when all are taken.
    pub fn subscribe(&self) -> Option<u32> {
        let number = self.subscribed.fetch_add(1, Ordering::Relaxed);
        (number < self.shape.subscribers).then_some(number)
    }

    /// Claims the publishing side; returns whether it was free.
    pub(super) fn claim_publishing(&self) -> bool {
        !self.published.swap(true, Ordering::Relaxed)
    }

    pub(super) fn slot(&self, offset: u64, word: usize) -> &AtomicU64 {
        self.words
            .get(self.place(offset) * self.shape.slot_words() + word)
    }

    pub(super) fn place(&self, offset: u64) -> usize {
        (offset & u64::from(self.shape.depth - 1)) as usize
    }

    pub(super) fn acknowledged(&self, subscriber: u32, offset: u64) -> &AtomicU64 {
        let depth = self.shape.depth as usize;
        let first = depth * self.shape.slot_words();
        self.words
            .get(first + subscriber as usize * depth + self.place(offset))
    }

    /// Final number of offsets; [`OPEN`] until it is known.
    #[must_use]
    pub fn end(&self) -> &AtomicU64 {
        self.words.get(self.shape.end())
    }
}
