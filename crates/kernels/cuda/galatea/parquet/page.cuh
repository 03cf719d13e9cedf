// Pages of Parquet column chunks, and bounds-checked reads of their bytes. Thread scope.
//
// A page's body is its bytes after decompression: definition levels (if the column may be NULL), then values.
// Kernels decode the non-NULL values of a page to consecutive *slots* of arrays, from the page's first slot
// on. Values of dictionary pages have slots too, after those of all data pages.
//
// Numbers in a page are checked before they are used as positions or counts. A violation is recorded in the
// page's state, and later kernels skip the page. Loads of whole words may read up to 12 bytes past the end of
// a page, never more: the memory of pages is padded by PARQUET_PADDING bytes. Such bytes never affect values.
#pragma once

#include "galatea/thread.cuh"

namespace galatea {

// Bytes behind the last page that may be read.
constexpr u32 PARQUET_PADDING = 16;

// Encodings of values, as numbered in Parquet files; the last is internal.
enum ParquetEncoding : u32 {
    PARQUET_PLAIN = 0,
    PARQUET_RLE = 3,
    PARQUET_DELTA_BINARY_PACKED = 5,
    PARQUET_DELTA_LENGTH_BYTE_ARRAY = 6,
    PARQUET_DELTA_BYTE_ARRAY = 7,
    PARQUET_DICTIONARY = 8,
    PARQUET_BYTE_STREAM_SPLIT = 9,
};

// Location of a page's definition levels.
enum ParquetLevels : u32 {
    PARQUET_NO_LEVELS = 0,
    PARQUET_LENGTH_AND_LEVELS = 1,  // version 1: 4 bytes with the length of the levels, then the levels
    PARQUET_COUNTED_LEVELS = 2,     // version 2: the page header has their length
};

// Codecs that the device decompresses.
enum ParquetCodec : u32 {
    PARQUET_NO_CODEC = 0,
    PARQUET_SNAPPY = 1,
    PARQUET_LZ4 = 2,
};

// Violations. Host twin: crates/kernels/src/kernels/parquet/page.rs.
enum ParquetFailure : u32 {
    PARQUET_INTACT = 0,
    PARQUET_LEVEL_BYTES = 1,        // bytes of levels > bytes of the page
    PARQUET_LEVELS_END = 2,         // the levels end after `number` of `limit` rows
    PARQUET_LEVEL = 3,              // a level > 1
    PARQUET_VALUES_END = 4,         // values need `number` bytes of `limit`
    PARQUET_INDEX = 5,              // a dictionary index >= number of dictionary values
    PARQUET_INDEX_WIDTH = 6,        // bits of an index > 32
    PARQUET_RUNS_END = 7,           // runs end after `number` of `limit` values
    PARQUET_DELTA_HEADER = 8,       // sizes of blocks that the format excludes
    PARQUET_DELTA_COUNT = 9,        // the header declares `number` values, the page has `limit`
    PARQUET_DELTA_END = 10,         // deltas end after `number` of `limit` values
    PARQUET_DELTA_WIDTH = 11,       // bits of a delta > 64
    PARQUET_STRING_LENGTH = 12,     // a string needs `number` bytes of `limit`
    PARQUET_PREFIX_LENGTH = 13,     // a prefix is longer than the string before
    PARQUET_SIZE = 14,              // decompressed bytes: `number` of `limit`
    PARQUET_COMPRESSED_END = 15,    // compressed bytes end after `number` of `limit` decompressed bytes
    PARQUET_COPY_DISTANCE = 16,     // a copy from `number` bytes before, `limit` are decompressed
    PARQUET_VALUE_LENGTH = 17,      // a value of `number` bytes for a type of `limit`
    PARQUET_BOOLEAN_RUN = 18,       // a run of a boolean > 1
};

// A data or dictionary page.
struct ParquetPage {
    const u8* stored;       // bytes in the file
    u8* body;               // decompressed bytes; the stored bytes if the page is not compressed
    u64 slot;               // first slot of its values; of a data page: its first row
    u64 dictionary;         // first slot of the values of its dictionary
    u64 heap;               // first byte of its strings in the heap
    u32 stored_bytes;
    u32 body_bytes;
    u32 rows;               // rows, NULL or not; values of a dictionary page
    u32 levels;             // ParquetLevels
    u32 level_bytes;        // bytes of PARQUET_COUNTED_LEVELS; these are never compressed
    u32 words;              // first word of its validity
    u32 dictionary_values;  // values of its dictionary
    u32 encoding;           // ParquetEncoding of its values
    u32 codec;              // ParquetCodec
    u32 reserved;
};

// Findings of kernels about a page, 0 at first.
struct ParquetPageState {
    u64 number;      // violating number
    u64 limit;       // its limit
    u64 heap_bytes;  // bytes of strings that are not in the body: DELTA_BYTE_ARRAY
    u32 values;      // values that are not NULL
    u32 values_at;   // their first byte in the body
    u32 failure;     // ParquetFailure, the first one found
    u32 at;          // byte of the body at which it was found
};

// Records a violation, unless the page has one already. Any thread may call it.
GALATEA_INLINE void fail(ParquetPageState& state, u32 failure, u64 at, u64 number, u64 limit) {
    if (atomicCAS(&state.failure, u32(PARQUET_INTACT), failure) != PARQUET_INTACT) return;
    state.at = u32(at);
    state.number = number;
    state.limit = limit;
}

// Bytes of a page that are read in order.
struct PageBytes {
    const u8* bytes;
    u32 at;
    u32 end;

    GALATEA_INLINE u32 left() const { return end - at; }
};

// Reads a variable-length integer of at most 64 bits. Returns whether it ended in time.
GALATEA_INLINE bool read_varint(PageBytes& in, u64& value) {
    value = 0;
    for (u32 shift = 0; shift < 64 && in.at < in.end; shift += 7) {
        const u8 byte = in.bytes[in.at++];
        value |= u64(byte & 127) << shift;
        if (byte < 128) return true;
    }
    return false;
}

// The integer of a zigzag code.
GALATEA_INLINE u64 unzigzag(u64 code) { return (code >> 1) ^ (u64(0) - (code & 1)); }

// The 4 bytes from any address on, little-endian.
GALATEA_INLINE u32 load_word(const u8* bytes) {
    const u32* const words = reinterpret_cast<const u32*>(u64(bytes) & ~u64(3));
    const u64 pair = u64(words[0]) | u64(words[1]) << 32;
    return u32(pair >> (u64(bytes) % 4 * 8));
}

// `width` <= 64 bits from bit `bit` of any address on.
GALATEA_INLINE u64 load_bits(const u8* bytes, u64 bit, u32 width) {
    if (width == 0) return 0;
    const u8* const first = bytes + bit / 8;
    const u32* const words = reinterpret_cast<const u32*>(u64(first) & ~u64(3));
    const u32 shift = u32(u64(first) % 4 * 8 + bit % 8);
    u64 bits = (u64(words[0]) | u64(words[1]) << 32) >> shift;
    if (shift + width > 64) bits |= u64(words[2]) << (64 - shift);
    return width == 64 ? bits : bits & ((u64(1) << width) - 1);
}

}  // namespace galatea
