//! Topics between the host and a running kernel: the protocol, and the host's side.
//!
//! A topic is a sequence of frames that one side publishes and others read, in the order of their *offsets*
//! 0, 1, 2, ... (Z. Li, B. Peng, C. Weng: *XeFlow*, section 4). Only the address of a frame is transferred
//! from one side to the other, never a copy of it. A topic has three layers:
//!
//! ```text
//!   catalogue      FlowTopic, FlowOperator, FlowOutbox, FlowHeap     written once, copied by every block
//!   offset index   TopicWords: a ring of `depth` 64-byte slots, one per offset; acknowledgements; the end
//!   frames         FrameMemory: pages of the publishing side, in buffers, managed by a heap with a bitmap
//! ```
//!
//! # Writers of words
//! Over PCIe host and device cannot update one word atomically, so each word that both use has one writer at
//! a time, which stores it whole. Counters that several threads of a side advance (tickets, tails, bitmaps)
//! stay on that side.
//!
//! | word | writer | reader | order |
//! | --- | --- | --- | --- |
//! | frame word of a slot | the publisher that took its offset at the tail, once | subscribers | release; acquire: the frame's bytes and the rest of the slot are visible |
//! | words of a slot with an inline frame | the publisher of its offset, once | subscribers | none needed: each word has its offset |
//! | acknowledgement of a subscriber and slot | the reader of the offset | the publishing side | release; acquire: its reads are complete when the frame is reused |
//! | end | the last publisher to finish | subscribers | release, after its tail is final |
//! | stop, beat of the host | the host | blocks | none needed |
//! | beat and failure of a block | the block | the host | release for the failure |
//!
//! On the device a release is a fence of system scope and a relaxed store. The publishing thread executes the
//! fence after a barrier with the threads that wrote the frame, so it covers their writes; a reader's other
//! threads are ordered after its acquire by another barrier. Lanes of the first warp, which poll and publish,
//! are ordered among themselves only by `__syncwarp`: votes and shuffles order no memory.
//!
//! So the path of a row is ordered at each step, whichever blocks and threads execute it:
//!
//! | written | by | read | by | ordered by |
//! | --- | --- | --- | --- | --- |
//! | the input's bytes, source and stamp | the host | after a poll | all warps of a block | release of the frame word; acquire of system scope, which invalidates the multiprocessor's cache; barrier of the block |
//! | the output's bytes; device memory, by atomics | all warps | after the poll of the output | the host, and its later frames | barrier of the block; fence of system scope; frame word; acquire |
//! | a note | a block that finds the outbox locked | when its number is seen | the delivering block | fence and number; acquire; then the fence above, which covers the acquired writes |
//! | device memory, for a frame | warps of any block | for a later frame, published after the first one's output was read | warps of any block | the steps above, one after another |
//! | a frame, again | the publishing side | | | acknowledgement after the last read; acquire when it is reclaimed |
//!
//! A slot is reused when all subscribers have acknowledged it: a topic has at most `depth` frames, in use or
//! published and not reclaimed, so the holder of a frame has a slot for it (back-pressure).
//!
//! A topic of frames of at most 104 bytes may store them in its slots ([`TopicShape::inline`]): each word
//! then carries its own offset, so no thread waits for a fence. Operators on the device publish such frames
//! under the offset of their input, so blocks take no offsets either.
//!
//! # Owners of frames
//! A frame belongs to the heap of the side that publishes it. Only that side releases it: unpublished, by the
//! thread that took it; published, by the thread that reclaims offsets, in order, once it is acknowledged.
//! Frames that are published but unread when a topology ends are freed with the heap's memory; no others may
//! be in use then ([`HostPublisher::outstanding`]).
//!
//! The unsafe code is in this module, beside the device code that it relies on (`cuda/galatea/flow`); the
//! exported types are safe to use: an [`OutputFrame`] is the only handle of a frame that the bitmap
//! allocated, and an [`InputFrame`] exists from the acquire of its frame word to its acknowledgement.

mod catalogue;
mod frames;
mod index;
mod inline;
mod topic;
mod words;

pub use catalogue::{
    ABSENT, BEAT_OVER, BLOCK_BEAT, BLOCK_FAILURE, BLOCK_LENT, BLOCK_OPERATOR, BLOCK_SOURCE, CONTROL_BEAT,
    CONTROL_LEND, CONTROL_LINE, CONTROL_PARTITION, CONTROL_STOP, FAILURE_HOST_SILENT, FAILURE_OUTPUT_LENGTH,
    FAILURE_RUNTIME, FLOW_STEPS, FlowCursor, FlowHeap, FlowOperator, FlowOutbox, FlowTopic, GENERATIONS,
    LAYOUTS, MOST_HEAPS, MOST_INLINE_BYTES, MOST_NOTES, MOST_OPERATORS, MOST_TOPICS, NOTE_WORDS, OPEN,
    SLOT_WORDS, TIMES_OF_BLOCK, loan_word,
};
pub use frames::{FrameMemory, HostHeap, all_free, mix64};
pub use index::{TopicShape, TopicWords};
pub use topic::{HostPublisher, HostSubscriber, InputFrame, Look, OutputFrame, Reader};
pub use words::Words;
