// Arguments of the kernels that decode pages: parquet_decompress, parquet_levels, parquet_hybrid,
// parquet_fixed, parquet_delta and parquet_strings.
#pragma once

#include "galatea/parquet/page.cuh"

namespace galatea {

constexpr u32 PARQUET_TASK_VALUES = 2048;  // values that a block of parquet_fixed decodes together

struct ParquetDecodeArguments {
    const ParquetPage* pages;
    ParquetPageState* states;
    const u64* tasks;    // page << 32 | first value
    u32* validity;       // by page: one bit per row, from the page's first word on
    u32* before;         // by word of validity: values of the page before it
    void* values;        // by slot: receive values in their plain form
    u32* indices;        // by slot: receive dictionary indices; lengths of prefixes of DELTA_BYTE_ARRAY
    const u8** starts;   // by slot: receive addresses of strings
    u32* lengths;        // by slot: receive lengths of strings
    u8* heap;            // receives the bytes of strings of DELTA_BYTE_ARRAY
    u64 unit;            // nanoseconds of a unit, of PARQUET_INT96
    u32 count;           // number of tasks
    u32 form;            // ParquetForm
    u32 value_bytes;     // bytes of a value in a page; 0: each value has its own length
    u32 phase;           // parquet_strings: 0: locates strings, 1: writes those of DELTA_BYTE_ARRAY;
                         // parquet_fixed: 1: values are located strings
};

}  // namespace galatea
