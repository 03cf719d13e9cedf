// Arguments of the kernel parquet_divisor.
#pragma once

#include "galatea/prelude.cuh"

namespace galatea {

struct ParquetDivisorArguments {
    const u64* values;    // integers
    const u32* validity;  // one bit per row; null: all are valid
    u64* divisors;        // by block: receive the greatest common divisor; 0 if all differences are 0
    u64 base;             // the least integer
    u64 rows;
    u64 words;            // 64-bit words of an integer; the low one suffices for its difference
};

}  // namespace galatea
