// Arguments of the kernel parquet_pack.
#pragma once

#include "galatea/prelude.cuh"

namespace galatea {

struct ParquetPackArguments {
    const u64* values;    // integers; or null
    const u32* indices;   // dictionary indices, where `values` is null
    const u32* validity;  // one bit per row; null: all are valid
    const u32* map;       // code of each dictionary index
    u8* codes;            // receive the codes; 0 for NULL
    u64 base;             // integer of code 0
    u64 factor;           // difference of integers with consecutive codes, at least 1
    u64 rows;
    u32 width;            // bytes of a code: 1, 2, 4 or 8
    u32 words;            // 64-bit words of an integer; the low one suffices for its code
};

}  // namespace galatea
