//! The host's side of topics: publishing, reading, acknowledging, reclaiming.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use galatea_device::{Device, Result};
use parking_lot::Mutex;

use super::catalogue::{
    FlowTopic, OPEN, SLOT_SOURCE, SLOT_STAMP, SLOT_WORDS, frame_of, frame_word, is_frame,
};
use super::frames::{FrameMemory, FrameNumber, HostHeap};
use super::words::Words;

/// The words of a topic that the host takes part in.
#[derive(Debug)]
pub struct TopicWords {
    words: Words,
    depth: u32,
    subscribers: u32,
    /// Subscriptions handed out, and whether the publishing side was.
    subscribed: AtomicU32,
    published: AtomicBool,
}

impl TopicWords {
    /// An open topic without frames, of `depth` slots, a power of two.
    ///
    /// # Errors
    /// Those of [`Words::new`].
    pub fn new(device: &Device, depth: u32, subscribers: u32) -> Result<Self> {
        assert!(depth.is_power_of_two(), "a depth of {depth} slots");
        let words = Words::new(device, Self::count(depth, subscribers))?;
        let topic = Self {
            words,
            depth,
            subscribers,
            subscribed: AtomicU32::new(0),
            published: AtomicBool::new(false),
        };
        topic.end().store(OPEN, Ordering::Release);
        Ok(topic)
    }

    /// Words of a topic: slots, acknowledgements, and a line for the end.
    #[must_use]
    pub fn count(depth: u32, subscribers: u32) -> usize {
        depth as usize * SLOT_WORDS + Self::acknowledgements(depth, subscribers) + SLOT_WORDS
    }

    fn acknowledgements(depth: u32, subscribers: u32) -> usize {
        (depth as usize * subscribers as usize).next_multiple_of(SLOT_WORDS)
    }

    /// Where the parts of a topic's words are: slots, acknowledgements, end, from the address of the first.
    #[must_use]
    pub fn parts(first: u64, depth: u32, subscribers: u32) -> (u64, u64, u64) {
        let acknowledged = first + (depth as usize * SLOT_WORDS * 8) as u64;
        let end = acknowledged + (Self::acknowledgements(depth, subscribers) * 8) as u64;
        (first, acknowledged, end)
    }

    /// Fills in where the words are.
    pub fn describe(&self, topic: &mut FlowTopic) {
        let (slots, acknowledged, end) = Self::parts(self.words.address(0), self.depth, self.subscribers);
        (topic.slots, topic.acknowledged, topic.end) = (slots, acknowledged, end);
        (topic.depth, topic.subscribers) = (self.depth, self.subscribers);
    }

    /// A free subscription; `None` when all are taken.
    pub fn subscribe(&self) -> Option<u32> {
        let number = self.subscribed.fetch_add(1, Ordering::Relaxed);
        (number < self.subscribers).then_some(number)
    }

    fn slot(&self, offset: u64, word: usize) -> &AtomicU64 {
        self.words.get(self.place(offset) * SLOT_WORDS + word)
    }

    fn place(&self, offset: u64) -> usize {
        (offset & u64::from(self.depth - 1)) as usize
    }

    fn acknowledged(&self, subscriber: u32, offset: u64) -> &AtomicU64 {
        let first = self.depth as usize * SLOT_WORDS;
        self.words
            .get(first + subscriber as usize * self.depth as usize + self.place(offset))
    }

    /// Final number of offsets; [`OPEN`] until it is known.
    #[must_use]
    pub fn end(&self) -> &AtomicU64 {
        self.words
            .get(Self::count(self.depth, self.subscribers) - SLOT_WORDS)
    }
}

/// The publishing side of a topic, where that is the host.
#[derive(Debug)]
pub struct HostPublisher {
    topic: Arc<TopicWords>,
    heap: Arc<HostHeap>,
    tail: AtomicU64,
    in_use: AtomicU32,
    held: Box<[AtomicU64]>,
    reclaimed: Mutex<u64>,
    publishers: AtomicU32,
}

impl HostPublisher {
    /// A topic's publishing side, for so many publishers: when all have left, the topic ends.
    ///
    /// # Panics
    /// For a topic that has one.
    #[must_use]
    pub fn new(topic: Arc<TopicWords>, heap: Arc<HostHeap>, publishers: u32) -> Self {
        let taken = topic.published.swap(true, Ordering::Relaxed);
        assert!(!taken, "a topic has one publishing side");
        Self {
            held: (0..topic.depth).map(|_| AtomicU64::new(0)).collect(),
            topic,
            heap,
            tail: AtomicU64::new(0),
            in_use: AtomicU32::new(0),
            reclaimed: Mutex::new(0),
            publishers: AtomicU32::new(publishers),
        }
    }

    /// Frames published so far.
    #[must_use]
    pub fn published(&self) -> u64 {
        self.tail.load(Ordering::Relaxed)
    }

    /// The heap of its frames.
    #[must_use]
    pub fn heap(&self) -> &Arc<HostHeap> {
        &self.heap
    }

    /// Takes a frame to be published. `None` while subscribers are too far behind, or the heap is exhausted:
    /// [`HostPublisher::is_behind`] tells which.
    pub fn take(&self, seed: u64) -> Option<OutputFrame<'_>> {
        let before = self.in_use.fetch_add(1, Ordering::Relaxed);
        if before * 2 >= self.topic.depth {
            self.reclaim();
        }
        let take = || self.heap.take(seed);
        let frame = (before < self.topic.depth)
            .then(|| take().or_else(|| (self.reclaim() > 0).then(take).flatten()))
            .flatten();
        if frame.is_none() {
            self.in_use.fetch_sub(1, Ordering::Relaxed);
        }
        frame.map(|number| OutputFrame {
            publisher: self,
            number: Some(number),
        })
    }

    /// Whether all slots are in use, so that only subscribers can help.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        self.in_use.load(Ordering::Relaxed) >= self.topic.depth
    }

    /// Gives back the frames of the oldest offsets that every subscriber has acknowledged; how many. Does
    /// nothing while another thread reclaims.
    ///
    /// [`HostPublisher::take`] does so when half of the slots are in use, and when the heap is exhausted. A
    /// topic without publishers at work keeps its frames until this is called.
    pub fn reclaim(&self) -> u64 {
        let Some(mut reclaimed) = self.reclaimed.try_lock() else {
            return 0;
        };
        let (before, tail) = (*reclaimed, self.tail.load(Ordering::Acquire));
        while *reclaimed < tail && self.is_read(*reclaimed) {
            self.give_back(*reclaimed);
            *reclaimed += 1;
        }
        *reclaimed - before
    }

    fn is_read(&self, offset: u64) -> bool {
        (0..self.topic.subscribers).all(|subscriber| {
            // Acquire: the subscriber's reads are over.
            self.topic
                .acknowledged(subscriber, offset)
                .load(Ordering::Acquire)
                == offset + 1
        })
    }

    fn give_back(&self, offset: u64) {
        let held = self.held[self.topic.place(offset)].load(Ordering::Relaxed);
        self.heap.give(unpack(held));
        self.in_use.fetch_sub(1, Ordering::Relaxed);
    }

    /// Frames that are published and not reclaimed: with those that handles hold, all frames in use for it.
    #[must_use]
    pub fn outstanding(&self) -> u64 {
        let reclaimed = self.reclaimed.lock();
        self.tail.load(Ordering::Acquire) - *reclaimed
    }

    /// A publisher has published its last frame; the last one to leave ends the topic.
    pub fn leave(&self) {
        if self.publishers.fetch_sub(1, Ordering::AcqRel) == 1 {
            let tail = self.tail.load(Ordering::Acquire);
            self.topic.end().store(tail, Ordering::Release);
        }
    }
}

/// A frame to be written and published. Dropped instead, it goes back to its heap.
#[derive(Debug)]
pub struct OutputFrame<'a> {
    publisher: &'a HostPublisher,
    number: Option<FrameNumber>,
}

impl OutputFrame<'_> {
    fn place(&self) -> (*mut u8, u64) {
        let number = self
            .number
            .expect("a frame is held until it is published or dropped");
        let memory = self.publisher.heap.memory();
        memory.frame(number.buffer as usize, number.place as usize)
    }

    /// Its bytes, whose content is unspecified.
    #[must_use]
    pub fn bytes(&mut self) -> &mut [u8] {
        let (pointer, _) = self.place();
        // SAFETY: the frame is mapped and initialised. Its bit in the heap was set by the one take that made
        // this handle, so no other handle writes it; it was free, so all that read it before have
        // acknowledged it.
        unsafe { std::slice::from_raw_parts_mut(pointer, self.publisher.heap.memory().frame_bytes()) }
    }

    /// Publishes its first `length` bytes; the offset.
    ///
    /// # Panics
    /// For a length above the frame's.
    pub fn publish(mut self, length: usize, source: u64, stamp: u64) -> u64 {
        let offset = self.publisher.tail.fetch_add(1, Ordering::AcqRel);
        self.publish_at(offset, length, source, stamp);
        offset
    }

    /// As [`Self::publish`] by a source, whose frames' source offsets are their own.
    ///
    /// # Panics
    /// For a length above the frame's.
    pub fn publish_source(mut self, length: usize, stamp: u64) -> u64 {
        let offset = self.publisher.tail.fetch_add(1, Ordering::AcqRel);
        self.publish_at(offset, length, offset, stamp);
        offset
    }

    fn publish_at(&mut self, offset: u64, length: usize, source: u64, stamp: u64) {
        let publisher = self.publisher;
        assert!(
            length <= publisher.heap.memory().frame_bytes(),
            "a length of {length} bytes"
        );
        let (_, address) = self.place();
        let topic = &publisher.topic;
        let number = self.number.take().expect("checked by place");
        publisher.held[topic.place(offset)].store(pack(number), Ordering::Relaxed);
        topic.slot(offset, SLOT_SOURCE).store(source, Ordering::Relaxed);
        topic.slot(offset, SLOT_STAMP).store(stamp, Ordering::Relaxed);
        let word = frame_word(address, length as u32, offset, topic.depth);
        // Release: bytes, source and stamp are visible to a reader that acquires this word.
        topic.slot(offset, 0).store(word, Ordering::Release);
    }
}

impl Drop for OutputFrame<'_> {
    fn drop(&mut self) {
        if let Some(number) = self.number.take() {
            self.publisher.heap.give(number);
            self.publisher.in_use.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

fn pack(number: FrameNumber) -> u64 {
    u64::from(number.buffer) << 32 | u64::from(number.place)
}

fn unpack(word: u64) -> FrameNumber {
    FrameNumber {
        buffer: (word >> 32) as u32,
        place: word as u32,
    }
}

/// The host's side of one subscription: an operator, whose threads share its offsets.
#[derive(Debug)]
pub struct HostSubscriber {
    topic: Arc<TopicWords>,
    frames: Arc<FrameMemory>,
    number: u32,
    next: AtomicU64,
    read: AtomicU64,
}

impl HostSubscriber {
    /// A subscription of a topic whose frames are in `frames`.
    ///
    /// # Panics
    /// For a topic all of whose subscriptions are taken.
    #[must_use]
    pub fn new(topic: Arc<TopicWords>, frames: Arc<FrameMemory>) -> Self {
        let number = topic
            .subscribe()
            .expect("a topic has as many subscribers as it was made for");
        Self {
            topic,
            frames,
            number,
            next: AtomicU64::new(0),
            read: AtomicU64::new(0),
        }
    }

    /// Frames that its threads have read so far.
    #[must_use]
    pub fn read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// A thread's place in the subscription.
    #[must_use]
    pub fn reader(&self) -> Reader<'_> {
        Reader {
            subscriber: self,
            offset: self.next.fetch_add(1, Ordering::Relaxed),
        }
    }
}

/// One thread's place in a subscription: the offset that it reads next, which no other thread reads.
#[derive(Debug)]
pub struct Reader<'a> {
    subscriber: &'a HostSubscriber,
    offset: u64,
}

/// The outcome of a look at a topic.
#[derive(Debug)]
pub enum Look<'f, 's> {
    /// A frame. The reader goes on to another offset when it is dropped.
    Frame(InputFrame<'f, 's>),
    /// Nothing yet: look again.
    Empty,
    /// The topic has ended.
    Ended,
    /// A frame word that names no frame of the topic: the other side is broken.
    Corrupt(u64),
}

impl<'s> Reader<'s> {
    /// Looks whether the next frame is there; does not wait.
    pub fn look(&mut self) -> Look<'_, 's> {
        let (subscriber, offset) = (self.subscriber, self.offset);
        let topic = &*subscriber.topic;
        // The end first: a topic that has ended has published all before.
        let end = topic.end().load(Ordering::Acquire);
        let word = topic.slot(offset, 0).load(Ordering::Acquire);
        if !is_frame(word, offset, topic.depth) {
            return if end <= offset { Look::Ended } else { Look::Empty };
        }
        let (address, length) = frame_of(word);
        let Some(pointer) = subscriber.frames.find(address, length as usize) else {
            return Look::Corrupt(word);
        };
        let source = topic.slot(offset, SLOT_SOURCE).load(Ordering::Relaxed);
        let stamp = topic.slot(offset, SLOT_STAMP).load(Ordering::Relaxed);
        // SAFETY: the memory is mapped and initialised, and held by the subscriber. The acquire of the frame
        // word comes after all writes of the frame, and nobody writes it before this handle's drop
        // acknowledges it: its publisher reclaims it only then, and no other reader has this offset.
        let bytes = unsafe { std::slice::from_raw_parts(pointer.cast_const(), length as usize) };
        Look::Frame(InputFrame {
            reader: self,
            bytes,
            source,
            stamp,
        })
    }
}

/// A frame to read; acknowledged when it is dropped, and its reader goes on to another offset.
#[derive(Debug)]
pub struct InputFrame<'f, 's> {
    reader: &'f mut Reader<'s>,
    bytes: &'f [u8],
    source: u64,
    stamp: u64,
}

impl InputFrame<'_, '_> {
    /// The published bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.bytes
    }

    /// Its offset in the topic.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.reader.offset
    }

    /// Its place among the frames of the source.
    #[must_use]
    pub fn source(&self) -> u64 {
        self.source
    }

    /// The source's time stamp.
    #[must_use]
    pub fn stamp(&self) -> u64 {
        self.stamp
    }
}

impl Drop for InputFrame<'_, '_> {
    fn drop(&mut self) {
        let Reader { subscriber, offset } = &mut *self.reader;
        let word = subscriber.topic.acknowledged(subscriber.number, *offset);
        // Release: the reads of the frame are over.
        word.store(*offset + 1, Ordering::Release);
        subscriber.read.fetch_add(1, Ordering::Relaxed);
        *offset = subscriber.next.fetch_add(1, Ordering::Relaxed);
    }
}
