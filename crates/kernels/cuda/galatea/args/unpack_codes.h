// Arguments of the kernel unpack_codes.
#pragma once

#include "galatea/prelude.cuh"

namespace galatea {

constexpr u32 UNPACK_COLUMNS = 16;      // maximum number of columns of a launch
constexpr u32 PACKED_BLOCK_CODES = 512;  // codes of a block

struct UnpackCodesArguments {
    const u8* packed[UNPACK_COLUMNS];  // 16-byte aligned: a directory, blocks of codes, 16 bytes of 0
    u8* codes[UNPACK_COLUMNS];         // receive the codes; 16-byte aligned, padded to whole 16 bytes
    u64 rows;                          // codes of each column
    u32 widths[UNPACK_COLUMNS];        // bytes of a code: 1, 2, 4 or 8
    u32 columns;                       // number of columns
    u32 padding;
};

}  // namespace galatea
