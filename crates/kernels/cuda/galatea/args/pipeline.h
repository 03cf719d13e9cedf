// The argument of every generated pipeline kernel, passed by value.
//
// Host twin: galatea_kernels::PipelineArguments. The layout is asserted on both sides.
//
// A pipeline runs over *morsels*: runs of at most `morsel_rows` consecutive rows of one chunk. Morsel m
// belongs to the chunk c with first_morsel(c) <= m < first_morsel(c + 1). A block takes every grid-th morsel,
// or claims one morsel after the other (`MorselClaims`).
#pragma once

#include "galatea/prelude.cuh"

namespace galatea {

// Host twins: MAX_LITERALS, MAX_TABLES, MAX_OUTPUTS and CHAINS_VIEW_WORDS; the layout test checks that they
// are equal.
constexpr u32 MAX_LITERALS = 184;
constexpr u32 MAX_TABLES = 40;
constexpr u32 MAX_OUTPUTS = 256;
constexpr u32 CHAINS_VIEW_WORDS = 15;

struct PipelineArguments {
    // [chunk][chunk_words]: word 0 rows, word 1 first morsel of the chunk, word 2 rows of the table before
    // the chunk, then per column COLUMN_WORDS words (morsel.cuh): data address, validity address (0: no
    // nulls), base, offsets address (string only).
    const u64* chunks;
    // Progress of sinks that can stop, from which a launch is resumed: for output columns, the next morsel of
    // each warp; for the hash table, the remaining rows of the block's morsel per thread.
    u32* progress;
    // A word for each chunk of the table, not 0 once the chunk is resident; nullptr: all chunks of the launch
    // are resident.
    const u32* arrivals;
    // The group slots that the sink accumulates into; their layout depends on the sink.
    u64* groups;
    // First word: 0, or the code of the first run-time error raised by an expression.
    u32* error;
    // [0] groups or rows the sink holds, [1] 1 when a warp or block stopped: output columns nearly full, or
    // the heap exhausted (hash table), [2] rows that passed the filters, [3] rows that overflowed from a full
    // hash table to page chains, [4] morsels that blocks have claimed; the host clears it before each launch.
    u64* counters;
    // Capacity of the sink in rows, at which blocks must stop; capacity of a hash table in groups.
    u64 limit;
    // Slots of the hash table (a power of two), or rows of an output column.
    u64 capacity;
    u32 first_morsel;
    u32 end_morsel;
    u32 chunk_words;
    u32 morsel_rows;
    // The maximum number of morsels of a chunk: gives the lower bound from which ChunkCursor::seek searches
    // forward for a morsel's chunk.
    u32 morsels_per_chunk;
    u32 resume; // 1: blocks start at `progress`
    // Lookup tables, indexed by dictionary code, for long IN lists; codes of the slots of laid-out columns;
    // packed build sides; and build sides on the device.
    const u8* tables[MAX_TABLES];
    // Append sink: for output k its values, and its validity bytes (0: never null) at MAX_OUTPUTS / 2 + k.
    // Build sink: entries of column k, and a bitmap of its NULLs (1 = NULL) at MAX_OUTPUTS / 2 + k.
    u8* outputs[MAX_OUTPUTS];
    u64 literals[MAX_LITERALS];
    // For sinks that write page chains: a PageChainsView (page_chain.cuh), which most pipelines need not
    // compile.
    u64 chains_view[CHAINS_VIEW_WORDS];
};

}  // namespace galatea
