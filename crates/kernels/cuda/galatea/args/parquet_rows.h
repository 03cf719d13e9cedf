// Arguments of the kernel parquet_rows.
#pragma once

#include "galatea/parquet/page.cuh"

namespace galatea {

// Order of values, for their bounds.
enum ParquetOrder : u32 {
    PARQUET_UNORDERED = 0,
    PARQUET_SIGNED = 1,    // i64
    PARQUET_UNSIGNED = 2,  // u64
    PARQUET_SIGNED_128 = 3,
    PARQUET_FLOAT_32 = 4,  // total order, without NaN
    PARQUET_FLOAT_64 = 5,
    PARQUET_BYTE = 6,
};

// Kind of the rows.
enum ParquetRowKind : u32 {
    PARQUET_ROW_VALUES = 0,
    PARQUET_ROW_INDICES = 1,  // of the dictionaries of all column chunks, one after the other
    PARQUET_ROW_STRINGS = 2,
};

// Bounds of the values that a block has written; the least is greater than the greatest if it has none. A key
// is the value with the sign bit inverted, so that keys are ordered as unsigned numbers.
struct ParquetBounds {
    u64 least[2];     // key, low word first
    u64 greatest[2];
    u64 nans;         // number of NaN
    u64 values;       // number of values that are not NULL
};

struct ParquetRowsArguments {
    const ParquetPage* pages;  // data pages, in the order of rows
    const ParquetPageState* states;
    const u32* validity;       // by page
    const u32* before;         // by word of validity
    const u8* values;          // by slot
    const u32* indices;        // by slot
    const u8* const* starts;   // by slot
    const u32* lengths;        // by slot
    u8* row_values;            // receive values or indices by row, 0 for NULL
    const u8** row_starts;     // receive addresses of strings by row
    u32* row_lengths;          // receive lengths of strings by row, 0 for NULL
    u32* row_validity;         // receives one bit per row in whole words; or null
    ParquetBounds* bounds;     // by block: receive the bounds
    u64 first_row;             // first row among those of all pages
    u64 dictionary;            // slot of the dictionary value with index 0
    u64 rows;
    u32 page_count;
    u32 kind;                  // ParquetRowKind
    u32 width;                 // bytes of a value: 1, 4, 8 or 16
    u32 order;                 // ParquetOrder
};

}  // namespace galatea
