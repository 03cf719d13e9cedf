// Arguments of the kernel gather_texts.
#pragma once

#include "galatea/prelude.cuh"

namespace galatea {

// A chunk of a text column.
struct TextChunk {
    u64 rows;
    const u8* bytes;
    const u8* validity;  // a bit a row; null: all are valid
    const void* offsets; // one more than rows
};

struct GatherTextsArguments {
    const TextChunk* chunks;
    const u8* rows;   // wanted, words of position of the chunk << 32 | row
    u64* starts;      // phase 0: receives lengths; phase 1: where the bytes of each begin
    u8* valid;        // phase 0: receives whether there is a text; or null
    u8* bytes;        // phase 1: receives the bytes
    u64 count;        // rows wanted
    u32 chunk_count;
    u32 offset_width; // bytes, 4 or 8
    u32 phase;        // 0: lengths, 1: bytes
    u32 reserved;
};

}  // namespace galatea
