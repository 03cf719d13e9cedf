// The argument of every generated pipeline kernel, by value.
//
// Host twin: galatea_kernels::pipeline::PipelineArgs. The layout is asserted on both sides.
//
// A pipeline runs over *units*: runs of at most `unit_rows` consecutive rows of one chunk. Unit u belongs to the
// chunk c with first_unit(c) <= u < first_unit(c + 1). Blocks take units u = block, block + grid, ...
#pragma once

#define GALATEA_MAX_LITERALS 160
#define GALATEA_MAX_TABLES 24
#define GALATEA_MAX_OUTPUTS 64

namespace galatea {

struct PipelineArgs {
    // [chunk][chunk_words]: word 0 rows, word 1 first unit of the chunk, then per column GALATEA_COLUMN_WORDS words:
    // data address, validity address (0: no nulls), base, offsets address (text only).
    const unsigned long long* chunks;
    // Per block: the next unit it would take, so that a stopped launch can be resumed. Written by sinks that stop.
    unsigned int* progress;
    // What the sink accumulates into: group slots; each sink says how they are laid out.
    unsigned long long* groups;
    // First word: 0, or the code of the first run-time error raised by an expression.
    unsigned int* error;
    // [0] groups or rows the sink holds, [1] 1 when a block stopped because the sink was nearly full,
    // [2] rows that passed the filters.
    unsigned long long* counters;
    // Groups or rows the sink has room for before blocks must stop.
    unsigned long long limit;
    // Slots of the hash table (a power of two), or rows of an output column.
    unsigned long long capacity;
    unsigned int first_unit;
    unsigned int end_unit;
    unsigned int chunk_words;
    unsigned int unit_rows;
    // The most units any chunk has: locates a unit's chunk without a search.
    unsigned int units_per_chunk;
    unsigned int resume; // 1: blocks start where `progress` says
    // Lookup tables over dictionary codes and long IN lists.
    const unsigned char* tables[GALATEA_MAX_TABLES];
    // Materialising sinks: for output k its values, and its validity bytes (0: never null) at GALATEA_MAX_OUTPUTS / 2 + k.
    unsigned char* outputs[GALATEA_MAX_OUTPUTS];
    unsigned long long literals[GALATEA_MAX_LITERALS];
};

}  // namespace galatea
