//! The host's side of topics: publishing, reading, acknowledging, reclaiming.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use parking_lot::Mutex;

use super::catalogue::{SLOT_SOURCE, SLOT_STAMP, frame_of, frame_word, is_frame};
use super::frames::{FrameMemory, FrameNumber, HostHeap};
use super::index::TopicWords;
use super::inline::{InlineBytes, InlineFrame};

/// The publishing side of a topic, if that is the host.
#[derive(Debug)]
pub struct HostPublisher {
    topic: Arc<TopicWords>,
    /// `None` if frames are in the slots.
    heap: Option<Arc<HostHeap>>,
    tail: AtomicU64,
    in_use: AtomicU32,
    held: Box<[AtomicU64]>,
    reclaimed: Mutex<u64>,
    publishers: AtomicU32,
}

impl HostPublisher {
    /// A topic's publishing side, for `publishers` publishers: when all have left, the topic ends. It needs a
    /// heap, unless the topic's frames are in its slots.
    ///
    /// # Panics
    /// If the topic has a publishing side, or if a heap is missing or superfluous.
    #[must_use]
    pub fn new(topic: Arc<TopicWords>, heap: Option<Arc<HostHeap>>, publishers: u32) -> Self {
        assert!(topic.claim_publishing(), "a topic has one publishing side");
        let inline = topic.shape().inline_bytes().is_some();
        assert_eq!(heap.is_none(), inline, "a heap, or frames in slots");
        Self {
            held: (0..topic.shape().depth()).map(|_| AtomicU64::new(0)).collect(),
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

    /// The heap of its frames; `None` if they are in its slots.
    #[must_use]
    pub fn heap(&self) -> Option<&Arc<HostHeap>> {
        self.heap.as_ref()
    }

    /// Bytes of a frame.
    #[must_use]
    pub fn frame_bytes(&self) -> usize {
        match &self.heap {
            Some(heap) => heap.memory().frame_bytes(),
            None => self.topic.shape().inline_bytes().unwrap_or(0),
        }
    }

    /// Takes a frame to be published. `None` while subscribers are too far behind, or if the heap is
    /// exhausted: [`HostPublisher::is_behind`] distinguishes the two.
    pub fn take(&self, seed: u64) -> Option<OutputFrame<'_>> {
        let depth = self.topic.shape().depth();
        let before = self.in_use.fetch_add(1, Ordering::Relaxed);
        if before * 2 >= depth {
            self.reclaim();
        }
        let take = || match &self.heap {
            Some(heap) => heap.take(seed).map(Place::Heap),
            None => Some(Place::Slot(InlineBytes::zeroed())),
        };
        let place = (before < depth)
            .then(|| take().or_else(|| (self.reclaim() > 0).then(take).flatten()))
            .flatten();
        if place.is_none() {
            self.in_use.fetch_sub(1, Ordering::Relaxed);
        }
        place.map(|place| OutputFrame {
            publisher: self,
            place: Some(place),
        })
    }

    /// Whether all slots are in use, so that only subscribers can free one.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        self.in_use.load(Ordering::Relaxed) >= self.topic.shape().depth()
    }

    /// Reclaims the frames of the oldest offsets that every subscriber has acknowledged, and returns their
    /// number. Does nothing while another thread reclaims.
    ///
    /// [`HostPublisher::take`] calls it when half of the slots are in use, and when the heap is exhausted. A
    /// topic without active publishers keeps its frames until this is called.
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
        (0..self.topic.shape().subscribers()).all(|subscriber| {
            // Acquire: the subscriber's reads are complete.
            self.topic
                .acknowledged(subscriber, offset)
                .load(Ordering::Acquire)
                == offset + 1
        })
    }

    fn give_back(&self, offset: u64) {
        if let Some(heap) = &self.heap {
            let held = self.held[self.topic.place(offset)].load(Ordering::Relaxed);
            heap.give(unpack(held));
        }
        self.in_use.fetch_sub(1, Ordering::Relaxed);
    }

    /// Number of frames that are published and not reclaimed: together with those of handles, all frames in
    /// use for it.
    #[must_use]
    pub fn outstanding(&self) -> u64 {
        let reclaimed = self.reclaimed.lock();
        self.tail.load(Ordering::Acquire) - *reclaimed
    }

    /// Called after a publisher has published its last frame; the last one to leave ends the topic.
    pub fn leave(&self) {
        if self.publishers.fetch_sub(1, Ordering::AcqRel) == 1 {
            let tail = self.tail.load(Ordering::Acquire);
            self.topic.end().store(tail, Ordering::Release);
        }
    }
}

/// Location of a frame that is being written.
#[derive(Debug)]
enum Place {
    /// In the heap.
    Heap(FrameNumber),
    /// In this handle, until it is stored in its slot.
    Slot(InlineBytes),
}

/// A frame to be written and published. If dropped instead, it is released to its heap.
#[derive(Debug)]
pub struct OutputFrame<'a> {
    publisher: &'a HostPublisher,
    place: Option<Place>,
}

impl OutputFrame<'_> {
    /// Its bytes, with unspecified content.
    #[must_use]
    pub fn bytes(&mut self) -> &mut [u8] {
        let publisher = self.publisher;
        let place = self.place.as_mut();
        match place.expect("a frame is held until it is published or dropped") {
            Place::Slot(bytes) => bytes.bytes_mut(publisher.frame_bytes()),
            Place::Heap(number) => {
                let (pointer, _) = publisher.located(*number);
                // SAFETY: the frame is mapped and initialised. Its bit in the heap was set by the one take
                // that created this handle, so no other handle writes it; it was free, so all earlier readers
                // have acknowledged it.
                unsafe { std::slice::from_raw_parts_mut(pointer, publisher.frame_bytes()) }
            }
        }
    }

    /// Publishes its first `length` bytes and returns the offset.
    ///
    /// # Panics
    /// For a length above the frame's.
    pub fn publish(mut self, length: usize, source: u64, stamp: u64) -> u64 {
        let offset = self.publisher.tail.fetch_add(1, Ordering::AcqRel);
        self.publish_at(offset, length, source, stamp);
        offset
    }

    /// The same as [`Self::publish`] for a source: the source offsets of its frames are their own offsets.
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
        let topic = &publisher.topic;
        assert!(length <= publisher.frame_bytes(), "a length of {length} bytes");
        let place = self.place.take();
        match place.expect("a frame is held until it is published or dropped") {
            Place::Slot(bytes) => {
                let frame = InlineFrame {
                    bytes,
                    length,
                    source,
                    stamp,
                };
                let words = topic.shape().slot_words();
                frame.store(offset, words, |word| topic.slot(offset, word));
            }
            Place::Heap(number) => {
                let (_, address) = publisher.located(number);
                publisher.held[topic.place(offset)].store(pack(number), Ordering::Relaxed);
                topic.slot(offset, SLOT_SOURCE).store(source, Ordering::Relaxed);
                topic.slot(offset, SLOT_STAMP).store(stamp, Ordering::Relaxed);
                let word = frame_word(address, length as u32, offset, topic.shape().depth());
                // Release: bytes, source and stamp are visible to a reader that acquires this word.
                topic.slot(offset, 0).store(word, Ordering::Release);
            }
        }
    }
}

impl HostPublisher {
    /// The host's and the device's address of a frame of the heap.
    fn located(&self, number: FrameNumber) -> (*mut u8, u64) {
        let heap = self.heap.as_ref().expect("a numbered frame is of a heap");
        heap.memory().frame(number.buffer as usize, number.place as usize)
    }
}

impl Drop for OutputFrame<'_> {
    fn drop(&mut self) {
        if let Some(place) = self.place.take() {
            if let (Place::Heap(number), Some(heap)) = (place, &self.publisher.heap) {
                heap.give(number);
            }
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
    /// `None` if frames are in the slots.
    frames: Option<Arc<FrameMemory>>,
    number: u32,
    next: AtomicU64,
    read: AtomicU64,
}

impl HostSubscriber {
    /// A subscription to a topic with frames in `frames`, or in its slots.
    ///
    /// # Panics
    /// If all subscriptions of the topic are taken.
    #[must_use]
    pub fn new(topic: Arc<TopicWords>, frames: Option<Arc<FrameMemory>>) -> Self {
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

    /// Number of frames that its threads have read so far.
    #[must_use]
    pub fn read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// A thread's position in the subscription.
    #[must_use]
    pub fn reader(&self) -> Reader<'_> {
        Reader {
            subscriber: self,
            offset: self.next.fetch_add(1, Ordering::Relaxed),
        }
    }
}

/// One thread's position in a subscription: the offset that it reads next, which no other thread reads.
#[derive(Debug)]
pub struct Reader<'a> {
    subscriber: &'a HostSubscriber,
    offset: u64,
}

/// The outcome of polling a topic.
#[derive(Debug)]
pub enum Look<'f, 's> {
    /// A frame. The reader proceeds to another offset when it is dropped.
    Frame(InputFrame<'f, 's>),
    /// No frame yet: poll again.
    Empty,
    /// The topic has ended.
    Ended,
    /// A frame word that is not a frame of the topic: the other side is broken.
    Corrupt(u64),
}

impl<'s> Reader<'s> {
    /// Polls for the next frame, without waiting.
    pub fn look(&mut self) -> Look<'_, 's> {
        let (subscriber, offset) = (self.subscriber, self.offset);
        let topic = &*subscriber.topic;
        // The end is loaded first: a topic that has ended has published all before.
        let end = topic.end().load(Ordering::Acquire);
        let nothing = if end <= offset { Look::Ended } else { Look::Empty };
        let Some(frames) = &subscriber.frames else {
            let words = topic.shape().slot_words();
            let found = InlineFrame::load(offset, words, |word| topic.slot(offset, word));
            return match found {
                None => nothing,
                Some(frame) if frame.length > topic.shape().inline_bytes().unwrap_or(0) => {
                    Look::Corrupt(frame.length as u64)
                }
                Some(frame) => Look::Frame(InputFrame {
                    reader: self,
                    content: Content::Slot(frame.bytes, frame.length),
                    source: frame.source,
                    stamp: frame.stamp,
                }),
            };
        };
        let word = topic.slot(offset, 0).load(Ordering::Acquire);
        if !is_frame(word, offset, topic.shape().depth()) {
            return nothing;
        }
        let (address, length) = frame_of(word);
        let Some(pointer) = frames.find(address, length as usize) else {
            return Look::Corrupt(word);
        };
        let source = topic.slot(offset, SLOT_SOURCE).load(Ordering::Relaxed);
        let stamp = topic.slot(offset, SLOT_STAMP).load(Ordering::Relaxed);
        // SAFETY: the memory is mapped and initialised, and held by the subscriber. The acquire of the frame
        // word is ordered after all writes of the frame, and no thread writes it before this handle's drop
        // acknowledges it: its publisher reclaims it only then, and no other reader has this offset.
        let bytes = unsafe { std::slice::from_raw_parts(pointer.cast_const(), length as usize) };
        Look::Frame(InputFrame {
            reader: self,
            content: Content::Frame(bytes),
            source,
            stamp,
        })
    }
}

/// The bytes of a frame being read.
#[derive(Debug)]
enum Content<'f> {
    Frame(&'f [u8]),
    Slot(InlineBytes, usize),
}

/// A frame to read; when it is dropped, it is acknowledged, and its reader proceeds to another offset.
#[derive(Debug)]
pub struct InputFrame<'f, 's> {
    reader: &'f mut Reader<'s>,
    content: Content<'f>,
    source: u64,
    stamp: u64,
}

impl InputFrame<'_, '_> {
    /// The published bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        match &self.content {
            Content::Frame(bytes) => bytes,
            Content::Slot(bytes, length) => bytes.bytes(*length),
        }
    }

    /// Its offset in the topic.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.reader.offset
    }

    /// Its offset among the frames of the source.
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
        // Release: the reads of the frame are complete.
        word.store(*offset + 1, Ordering::Release);
        subscriber.read.fetch_add(1, Ordering::Relaxed);
        *offset = subscriber.next.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use galatea_device::{DeviceOptions, EmulatorOptions};

    use super::super::index::TopicShape;
    use super::*;

    /// A topic with slot 0 stored by the other side.
    fn subscriber(shape: TopicShape, words: &[u64]) -> HostSubscriber {
        let device = galatea_device::Device::emulated(EmulatorOptions::default(), DeviceOptions::default())
            .expect("the emulated device is always there");
        let topic = TopicWords::new(&device, shape).expect("there is memory");
        for (at, word) in words.iter().enumerate() {
            topic.slot(0, at).store(*word, Ordering::Release);
        }
        let frames = Arc::new(FrameMemory::new(4096, 4, 1, 1));
        HostSubscriber::new(Arc::new(topic), shape.inline_bytes().is_none().then_some(frames))
    }

    #[test]
    fn frame_word_out_of_bounds_is_reported_as_corrupt() {
        let word = frame_word(0x7000, 100, 0, 4);
        let subscriber = subscriber(TopicShape::of_frames(4, 1), &[word]);
        assert!(matches!(subscriber.reader().look(), Look::Corrupt(found) if found == word));
    }

    #[test]
    fn an_inline_frame_longer_than_its_slot_is_corrupt() {
        let shape = TopicShape::inline(4, 1, 8);
        let words: Vec<u64> = (0..16).map(|at| if at == 0 { 9 << 32 | 1 } else { 1 }).collect();
        assert!(matches!(
            subscriber(shape, &words).reader().look(),
            Look::Corrupt(9)
        ));
        let words: Vec<u64> = (0..16).map(|at| if at == 0 { 8 << 32 | 1 } else { 1 }).collect();
        assert!(matches!(
            subscriber(shape, &words).reader().look(),
            Look::Frame(_)
        ));
    }
}
