// Arguments of the kernel window_values.
#pragma once

#include "galatea/prelude.cuh"

namespace galatea {

// Type of an entry of a column; host twin: `Entry` of crates/kernels/src/kernels/window_values.rs.
enum class WindowEntry : u32 { U8, I16, I32, I64, I128, F32, F64 };

// The value computed from an entry; NULL becomes 0. Host twin: `WindowValue` there.
enum class WindowValue : u32 {
    Valid,             // u32: 1, or 0 for NULL
    Integer,           // u64: the integer, modulo 2^64
    WideInteger,       // u128: the integer, modulo 2^128
    Float,             // double
    Rank,              // u64: the rank among 64-bit integers, or doubles
    ComplementedRank,
    WideRank,          // u128: the rank among 128-bit integers
    ComplementedWideRank,
};

struct WindowValuesArguments {
    const u8* entries; // by row
    const u32* nulls;  // one bit per row; null: no entry is NULL
    const u32* ids;    // by position: the row; null: rows are in order
    u8* values;        // receives the values by position
    u64 rows;          // number of positions
    WindowEntry entry;
    WindowValue value;
};

}  // namespace galatea
