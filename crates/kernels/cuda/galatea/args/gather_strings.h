// Arguments of the kernel gather_strings.
#pragma once

#include "galatea/prelude.cuh"

namespace galatea {

// A chunk of a string column.
struct StringChunk {
    u64 rows;
    const u8* bytes;
    const u8* validity;  // one bit per row; null: all are valid
    const void* offsets; // one more than rows
};

struct GatherStringsArguments {
    const StringChunk* chunks;
    const u8* rows;   // the wanted rows: position of the chunk << 32 | row
    u64* starts;      // phase 0: receives lengths; phase 1: start of the bytes of each string
    u8* valid;        // phase 0: receives whether the string is not NULL; or null
    u8* bytes;        // phase 1: receives the bytes
    u64 count;        // number of wanted rows
    u32 chunk_count;
    u32 offset_width; // bytes, 4 or 8
    u32 phase;        // 0: lengths, 1: bytes
    u32 reserved;
};

}  // namespace galatea
