// Arguments of the kernel parquet_copy_strings.
#pragma once

#include "galatea/prelude.cuh"

namespace galatea {

struct ParquetCopyStringsArguments {
    const u8* const* starts;  // addresses of strings
    const u64* offsets;       // first byte of each copy; one more than strings
    u8* bytes;                // receives the bytes
    u32* narrow;              // receives the offsets in 32 bits; or null
    u64* invalid;             // lowered to the number of each string that is not UTF-8; null: not checked
    u64 count;                // strings
};

}  // namespace galatea
