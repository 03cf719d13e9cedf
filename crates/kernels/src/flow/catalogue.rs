//! The catalogue in the device's layout, and the constants of `cuda/galatea/flow/catalogue.h`.

use galatea_device::{ArgumentStruct as _, Layout, kernel_arguments};

kernel_arguments! {
    /// State that blocks keep of a topic that they publish; in device memory, initially zeroed.
    pub struct FlowCursor in "galatea/flow/catalogue.h" {
        /// Offsets handed out to publishers.
        pub tail: u64,
        /// Offsets below have been acknowledged by all subscribers, and their frames released.
        pub reclaimed: u64,
        /// 1 while a block reclaims.
        pub lock: u32,
        /// Frames taken for this topic and not released.
        pub in_use: u32,
    }
}

kernel_arguments! {
    /// A topic of the catalogue; the header describes each field.
    pub struct FlowTopic in "galatea/flow/catalogue.h" {
        /// Slots of the offset index.
        pub slots: u64,
        /// Acknowledgements, by subscriber and slot.
        pub acknowledged: u64,
        /// Final number of offsets.
        pub end: u64,
        /// [`FlowCursor`] if blocks publish, else 0.
        pub cursor: u64,
        /// Frame numbers by slot if blocks publish, else 0.
        pub held: u64,
        /// Frame words by slot, copied to device memory when they are read, or 0.
        pub replica: u64,
        /// Slots, a power of two.
        pub depth: u32,
        /// Subscribers.
        pub subscribers: u32,
        /// Bytes of a frame.
        pub frame_bytes: u32,
        /// Heap of the catalogue that blocks take frames from.
        pub heap: u32,
        /// 1: the host reads frames that blocks publish.
        pub system: u32,
        /// Words of a slot: [`SLOT_WORDS`] if it refers to a frame, more if it contains one.
        pub slot_words: u32,
    }
}

kernel_arguments! {
    /// A heap of the catalogue: frames that blocks take and release.
    pub struct FlowHeap in "galatea/flow/catalogue.h" {
        /// One bit per frame, 1 = free, then one bit per frame, 1 = lent to the host; device memory.
        pub bitmap: u64,
        /// Address of each buffer; device memory.
        pub bases: u64,
        /// Number of buffers, and of frames released twice if that is checked; device memory.
        pub buffers: u64,
        /// Number of buffers, then their addresses; host memory.
        pub granted: u64,
        /// Low half: number of requested buffers; high half: another number each time. Host memory.
        pub wanted: u64,
        /// 32-bit words of the bitmap per buffer.
        pub words_per_buffer: u32,
        /// Bytes of a frame.
        pub frame_bytes: u32,
        /// Maximum number of buffers.
        pub most_buffers: u32,
        /// Frames of a buffer.
        pub frames_per_buffer: u32,
    }
}

kernel_arguments! {
    /// An operator of the catalogue.
    pub struct FlowOperator in "galatea/flow/catalogue.h" {
        /// The next offset of the previous topic to take; device memory.
        pub ticket: u64,
        /// Blocks that have not finished the operator; device memory.
        pub remaining: u64,
        /// The operator's own parameters; device memory.
        pub parameters: u64,
        /// The topic that it subscribes to.
        pub previous: u32,
        /// The topic that it publishes, or [`ABSENT`].
        pub next: u32,
        /// Its number among the subscribers of `previous`.
        pub subscriber: u32,
        /// Index of its compiled body.
        pub body: u32,
        /// Its share of a block's warps.
        pub warps: u32,
        /// Unused.
        pub unused: u32,
    }
}

kernel_arguments! {
    /// Notes of blocks to the host: `cuda/galatea/flow/outbox.cuh`. In device memory, zeroed except for
    /// `mask`.
    pub struct FlowOutbox in "galatea/flow/catalogue.h" {
        /// Entries handed out.
        pub tail: u64,
        /// Entries below are visible to the host.
        pub committed: u64,
        /// 1 while a block delivers notes.
        pub lock: u32,
        /// Number of entries, a power of two, minus 1.
        pub mask: u32,
        /// Unused.
        pub unused: [u64; 5],
    }
}

/// Words of an entry of the outbox.
pub const NOTE_WORDS: usize = 8;

/// Maximum number of undelivered notes of an operator of a block.
pub const MOST_NOTES: u32 = 8;

/// Layouts of the catalogue's structs, compared with the header by a test.
pub const LAYOUTS: [Layout; 5] = [
    FlowCursor::LAYOUT,
    FlowTopic::LAYOUT,
    FlowHeap::LAYOUT,
    FlowOperator::LAYOUT,
    FlowOutbox::LAYOUT,
];

/// Absent topic.
pub const ABSENT: u32 = u32::MAX;
/// The end of a topic that is open.
pub const OPEN: u64 = u64::MAX;
/// Words of a slot of the offset index that refers to a frame: 64 bytes.
pub const SLOT_WORDS: usize = 8;
/// Maximum number of bytes of a frame stored in a slot: each lane of a warp has one word of it.
pub const MOST_INLINE_BYTES: usize = 4 * (32 - INLINE_HEADER);
/// Words of such a slot before the frame's bytes.
pub(super) const INLINE_HEADER: usize = 6;
/// Word of a slot with the source offset.
pub(super) const SLOT_SOURCE: usize = 2;
/// Word of a slot with the source's stamp.
pub(super) const SLOT_STAMP: usize = 3;
/// Tickets must be less than this many times the depth ahead of the acknowledged offsets.
pub const GENERATIONS: u64 = 15;
/// Maximum number of operators of a topology on the device.
pub const MOST_OPERATORS: usize = 8;
/// Maximum number of topics that operators on the device use.
pub const MOST_TOPICS: usize = 16;
/// Maximum number of heaps that they take frames from.
pub const MOST_HEAPS: usize = 8;
/// Words of a line of control words: the host's is first, then one for each block.
pub const CONTROL_LINE: usize = 8;
/// Host's: not 0: blocks leave.
pub const CONTROL_STOP: usize = 0;
/// Host's: changes while the host is alive.
pub const CONTROL_BEAT: usize = 1;
/// Host's: warps of each operator, 8 bits each from the lowest; 0: as in the catalogue.
pub const CONTROL_PARTITION: usize = 2;
/// Host's: a buffer for blocks to lend ([`loan_word`]), or 0.
pub const CONTROL_LEND: usize = 3;
/// Block's: changes while the block is alive; 0 before it has started.
pub const BLOCK_BEAT: usize = 0;
/// The beat of a block that has ended.
pub const BEAT_OVER: u64 = u64::MAX;
/// Block's: failure code, 0 if none.
pub const BLOCK_FAILURE: usize = 1;
/// Block's: the operator that failed.
pub const BLOCK_OPERATOR: usize = 2;
/// Block's: source offset of the frame that it failed on.
pub const BLOCK_SOURCE: usize = 3;
/// First block's: the buffer that it has lent last, as numbered by the host.
pub const BLOCK_LENT: usize = 4;
/// Codes below this belong to operators.
pub const FAILURE_RUNTIME: u32 = 0xffff_0000;
/// The host's beat did not change for too long.
pub const FAILURE_HOST_SILENT: u32 = FAILURE_RUNTIME + 1;
/// An operator's output is longer than a frame.
pub const FAILURE_OUTPUT_LENGTH: u32 = FAILURE_RUNTIME + 2;
/// Number of steps of a round with counted clocks: look, compute, publish, idle.
pub const FLOW_STEPS: usize = 4;
/// Words of a block's clocks: by step, then clocks and bytes of each operator.
pub const TIMES_OF_BLOCK: usize = FLOW_STEPS + 2 * MOST_OPERATORS;

/// The host's request to lend a buffer: by heap of the catalogue, and number in the heap.
#[must_use]
pub fn loan_word(heap: usize, buffer: usize) -> u64 {
    (heap as u64 + 1) << 32 | buffer as u64
}

/// The low half of each word of a slot that contains the frame of an offset.
pub(super) fn inline_tag(offset: u64) -> u64 {
    (offset + 1) & u64::from(u32::MAX)
}

const PAGE_BITS: u32 = 12;
const LENGTH_BITS: u32 = 25;
const GENERATION_BITS: u32 = 4;

/// A published frame in one word: see `frame_word` in `cuda/galatea/flow/frame.cuh`.
pub(super) fn frame_word(address: u64, length: u32, offset: u64, depth: u32) -> u64 {
    (address >> PAGE_BITS) << (LENGTH_BITS + GENERATION_BITS)
        | u64::from(length) << GENERATION_BITS
        | generation(offset, depth)
}

/// Generation of an offset's slot, 1 to 15.
fn generation(offset: u64, depth: u32) -> u64 {
    offset / u64::from(depth) % GENERATIONS + 1
}

/// Whether a frame word belongs to an offset.
pub(super) fn is_frame(word: u64, offset: u64, depth: u32) -> bool {
    word & ((1 << GENERATION_BITS) - 1) == generation(offset, depth)
}

/// Address and length in a frame word.
pub(super) fn frame_of(word: u64) -> (u64, u32) {
    let length = (word >> GENERATION_BITS) & ((1 << LENGTH_BITS) - 1);
    (
        (word >> (LENGTH_BITS + GENERATION_BITS)) << PAGE_BITS,
        length as u32,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frame_word_round_trips_address_length_and_generation() {
        for address in [0x1000_u64, 0x7fff_ffff_f000, 0x7f12_3456_7000] {
            for length in [0_u32, 1, 4096, 16 << 20] {
                for (offset, depth) in [
                    (0_u64, 1_u32),
                    (1, 1),
                    (63, 64),
                    (64, 64),
                    (64 * 14, 64),
                    (64 * 15, 64),
                ] {
                    let word = frame_word(address, length, offset, depth);
                    assert_eq!(frame_of(word), (address, length));
                    assert!(is_frame(word, offset, depth));
                    for generations in 1..GENERATIONS {
                        let later = offset + generations * u64::from(depth);
                        assert!(!is_frame(word, later, depth), "{offset} taken for {later}");
                    }
                }
            }
        }
        // Memory that was never written is not a frame.
        assert!((0..1000).all(|offset| !is_frame(0, offset, 64)));
    }
}
