// The catalogue of a topology: its topics, operators and heaps, as the device uses them.
//
// The host writes it before the kernel starts; it is read-only from then on, and blocks copy it to shared
// memory. Addresses point to host memory if the host takes part in a topic, and to device memory otherwise.
#pragma once

#include "galatea/prelude.cuh"

namespace galatea {

// Words of a slot of the offset index: the frame word, source offset and stamp (16 bytes copied at once), and
// unused words, so that a slot is 64 bytes and a page of 4 KiB has 64 of them.
constexpr u32 SLOT_WORDS = 8;
constexpr u32 SLOT_SOURCE = 2;
constexpr u32 SLOT_STAMP = 3;

// A slot with more words contains its frame: see inline.cuh. Each lane of a warp has one word of it, these
// first.
constexpr u32 INLINE_LENGTH = 0;
constexpr u32 INLINE_ORIGIN = 2;  // source offset and stamp, in halves
constexpr u32 INLINE_HEADER = 6;
constexpr u32 MOST_INLINE_BYTES = 4 * (32 - INLINE_HEADER);

// State that blocks keep of a topic that they publish; in device memory.
struct FlowCursor {
    u64 tail;       // offsets handed out to publishers; for inline frames, the number published
    u64 reclaimed;  // offsets below have been acknowledged by all subscribers, and their frames released
    u32 lock;       // 1 while a block reclaims
    u32 in_use;     // frames taken for this topic and not released; inline frames are not counted
};

struct FlowTopic {
    u64* slots;        // `depth` slots of SLOT_WORDS words
    u64* acknowledged; // `subscribers` times `depth` words: offset + 1 last read from that slot
    u64* end;          // final number of offsets; all ones while the topic is open
    FlowCursor* cursor; // null if the host publishes
    u32* held;         // `depth` frame numbers of the heap, by slot; null if the host publishes
    u64* replica;      // `depth` frame words in device memory, copied when they are read; or null
    u32 depth;         // slots, a power of two
    u32 subscribers;
    u32 frame_bytes;
    u32 heap;          // heap of the frames that blocks publish
    u32 system;        // 1: the host reads the frames that blocks publish
    u32 slot_words;    // SLOT_WORDS if slots refer to frames, more if they contain them
};

// Frames that blocks take and release: a bitmap, 1 for a free frame. A buffer occupies whole words of it.
struct FlowHeap {
    u32* bitmap;       // device memory; followed by the same number of words for lent frames
    u64* bases;        // device memory: address of each buffer
    u32* buffers;      // device memory: buffers in use; frames released twice, in the checking mode
    u64* granted;      // host memory: number of buffers, then their addresses
    u64* wanted;       // host memory: low half, requested buffers; high half, another number each time
    u32 words_per_buffer;
    u32 frame_bytes;
    u32 most_buffers;
    u32 frames_per_buffer;
};

struct FlowOperator {
    u64* ticket;      // device memory: the next offset to take of the previous topic
    u32* remaining;   // device memory: blocks that have not finished the operator
    u64 parameters;   // device memory: the operator's own
    u32 previous;     // the topic that it subscribes to
    u32 next;         // the topic that it publishes, or ABSENT
    u32 subscriber;   // its number among the subscribers of `previous`
    u32 body;         // index of its compiled body
    u32 warps;        // its share of a block's warps
    u32 unused;
};

constexpr u32 ABSENT = 0xffffffffu;

// Bounds set by shared memory and the lanes of a warp.
constexpr u32 MOST_OPERATORS = 8;
constexpr u32 MOST_TOPICS = 16;
constexpr u32 MOST_HEAPS = 8;

// Notes for the host, delivered by the holder of the lock: see outbox.cuh. In device memory.
struct FlowOutbox {
    u64 tail;       // entries handed out
    u64 committed;  // entries below are visible to the host
    u32 lock;       // 1 while a block delivers notes
    u32 mask;       // number of entries, a power of two, minus 1
    u64 unused[5];
};

// An entry: the values to store once everything before it is visible to the host. 64 bytes.
struct FlowNote {
    u64 ready;          // the entry's number + 1, once the rest is written
    u64* slot;          // of a frame that is published, or null
    u64 word;
    u64 source;
    u64 stamp;
    u64* acknowledged;  // of a frame that was read, or null
    u64 offset;         // the value to store there
    u64 unused;
};

// Maximum number of undelivered notes of a station: a power of two.
constexpr u32 MOST_NOTES = 8;

// The control words, in host memory: a line of 64 bytes for the host, then one for each block.
constexpr u32 CONTROL_LINE = 8;
constexpr u32 CONTROL_STOP = 0;   // host: not 0: blocks leave
constexpr u32 CONTROL_BEAT = 1;   // host: changes while the host is alive
constexpr u32 CONTROL_PARTITION = 2;  // host: warps of each operator, 8 bits each from the lowest; 0: as in the catalogue
constexpr u32 CONTROL_LEND = 3;   // host: a buffer for blocks to lend, or 0: lend.cuh
constexpr u32 BLOCK_BEAT = 0;     // block: changes while the block is alive; 0 before it has started
constexpr u32 BLOCK_FAILURE = 1;  // block: failure code, 0 if none
constexpr u32 BLOCK_OPERATOR = 2; // block: the operator that failed
constexpr u32 BLOCK_SOURCE = 3;   // block: source offset of the frame that it failed on
constexpr u32 BLOCK_LENT = 4;     // first block: the buffer that it has lent last, as numbered by the host

// The beat of a block that has ended.
constexpr u64 BEAT_OVER = ~0ull;

// Failure codes below this belong to operators.
constexpr u32 FAILURE_RUNTIME = 0xffff0000u;
constexpr u32 FAILURE_HOST_SILENT = FAILURE_RUNTIME + 1;  // the host's beat did not change for too long
constexpr u32 FAILURE_OUTPUT_LENGTH = FAILURE_RUNTIME + 2;  // a body produced more than a frame holds

// Clocks of a block by step, if they are counted.
enum FlowStep { STEP_LOOK, STEP_COMPUTE, STEP_PUBLISH, STEP_IDLE, FLOW_STEPS };

}  // namespace galatea
