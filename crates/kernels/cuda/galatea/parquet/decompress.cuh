// Decompression of Snappy and LZ4 pages. Block scope: a whole block of DECOMPRESS_THREADS threads per page.
//
// A tile of compressed bytes is decoded in three steps:
// - `find_chain` finds the positions of its sequences.
// - A scan of their lengths computes their output positions.
// - Their output is written in steps of OUTPUT_BYTES. Each byte is a literal, an earlier byte of the page, or
//   a copy of a byte of the same step. All threads follow such copies together: each round replaces the
//   source of a byte by the source of its source, until all bytes have values.
#pragma once

#include "galatea/block.cuh"
#include "galatea/parquet/chain.cuh"

namespace galatea {

constexpr u32 OUTPUT_BYTES = 2048;                             // bytes that are written together
constexpr u32 OUTPUT_WORDS = OUTPUT_BYTES / 32;
constexpr u32 OUTPUT_ITEMS = OUTPUT_BYTES / DECOMPRESS_THREADS;  // of a thread

// A sequence of a tile at its output position, relative to the tile.
struct PlacedSequence {
    u32 position;
    u32 source;
    u32 literals;
    u32 distance;
};

// Shared memory of a block.
struct DecompressMemory {
    Chain chain;
    union {
        Windows windows;
        PlacedSequence sequences[TILE_SEQUENCES];
    };
    u32 begins[OUTPUT_WORDS];   // a bit for each output byte: a sequence begins
    u32 before[OUTPUT_WORDS];   // number of sequences that begin before each word
    u16 sources[OUTPUT_BYTES];  // by output byte: IS_VALUE and its value, or the byte with the same value
    Scratch<u32> scratch;
    u32 refused;  // the first sequence that is not accepted
};

constexpr u32 IS_VALUE = 0x8000;

// Writes the output of `count` sequences, `size` bytes, after the bytes of the page before `output`.
GALATEA_NOINLINE void write_output(DecompressMemory& memory, const u8* compressed, u8* output, u32 count, u32 size) {
    u32 earlier = 0;  // sequences that begin in earlier steps
#pragma unroll 1
    for (u32 first = 0; first < size; first += OUTPUT_BYTES) {
        const u32 bytes = size - first < OUTPUT_BYTES ? size - first : OUTPUT_BYTES;
        if (threadIdx.x < OUTPUT_WORDS) memory.begins[threadIdx.x] = 0;
        __syncthreads();
        for (u32 number = threadIdx.x; number < count; number += DECOMPRESS_THREADS) {
            const u32 byte = memory.sequences[number].position - first;
            if (byte < bytes) atomicOr(&memory.begins[byte / 32], 1u << byte % 32);
        }
        __syncthreads();
        if (warp() == 0) {
            constexpr u32 WORDS = OUTPUT_WORDS / WARP;
            u32 begins = 0;
#pragma unroll
            for (u32 word = 0; word < WORDS; ++word) begins += __popc(memory.begins[lane() * WORDS + word]);
            u32 inclusive;
            u32 before = warp_exclusive_scan(begins, Sum{}, inclusive);
#pragma unroll
            for (u32 word = 0; word < WORDS; ++word) {
                memory.before[lane() * WORDS + word] = before;
                before += __popc(memory.begins[lane() * WORDS + word]);
            }
        }
        __syncthreads();
        u8* const target = output + first;
        u16* const sources = memory.sources;
        u32 source[OUTPUT_ITEMS];
#pragma unroll
        for (u32 item = 0; item < OUTPUT_ITEMS; ++item) {
            const u32 byte = item * DECOMPRESS_THREADS + threadIdx.x;
            source[item] = IS_VALUE;
            if (byte >= bytes) continue;
            const u32 through = memory.begins[byte / 32] & 0xffffffffu >> (31 - byte % 32);
            const u32 number = earlier + memory.before[byte / 32] + __popc(through) - 1;
            const PlacedSequence sequence = memory.sequences[number];
            u32 offset = first + byte - sequence.position;
            if (offset < sequence.literals) {
                source[item] = IS_VALUE | compressed[sequence.source + offset];
            } else {
                offset -= sequence.literals;
                // A copy that overlaps itself repeats the bytes before it.
                const u32 repeated = offset < sequence.distance ? offset : offset % sequence.distance;
                const i32 copied = i32(sequence.position + sequence.literals + repeated - sequence.distance - first);
                source[item] = copied < 0 ? IS_VALUE | target[copied] : u32(copied);
            }
        }
        earlier += memory.before[OUTPUT_WORDS - 1] + __popc(memory.begins[OUTPUT_WORDS - 1]);
        bool is_open = false;
#pragma unroll
        for (u32 item = 0; item < OUTPUT_ITEMS; ++item) {
            sources[item * DECOMPRESS_THREADS + threadIdx.x] = u16(source[item]);
            is_open |= source[item] < IS_VALUE;
        }
        while (__syncthreads_or(is_open)) {
            u32 next[OUTPUT_ITEMS];
#pragma unroll
            for (u32 item = 0; item < OUTPUT_ITEMS; ++item) {
                next[item] = source[item] < IS_VALUE ? u32(sources[source[item]]) : source[item];
            }
            // No source is replaced before all threads have read theirs.
            __syncthreads();
            is_open = false;
#pragma unroll
            for (u32 item = 0; item < OUTPUT_ITEMS; ++item) {
                if (source[item] < IS_VALUE) {
                    sources[item * DECOMPRESS_THREADS + threadIdx.x] = u16(next[item]);
                    is_open |= next[item] < IS_VALUE;
                }
                source[item] = next[item];
            }
        }
#pragma unroll
        for (u32 item = 0; item < OUTPUT_ITEMS; ++item) {
            const u32 byte = item * DECOMPRESS_THREADS + threadIdx.x;
            if (byte < bytes) target[byte] = u8(source[item]);
        }
    }
}

// Copies literals to the output: 16 bytes per thread between the ends, which may be unaligned.
GALATEA_INLINE void copy_literals(const u8* source, u32 count, Output& out) {
    u8* const target = out.bytes + out.written;
    const u32 until_aligned = u32(0 - u64(target)) % 16;
    const u32 head = until_aligned < count ? until_aligned : count;
    if (threadIdx.x < head) target[threadIdx.x] = source[threadIdx.x];
    const u32 vectors = (count - head) / 16;
    for (u32 vector = threadIdx.x; vector < vectors; vector += DECOMPRESS_THREADS) {
        Vector<u32, 4> words;
#pragma unroll
        for (u32 word = 0; word < 4; ++word) words.item[word] = load_word(source + head + 16 * vector + 4 * word);
        store_vector<4>(reinterpret_cast<u32*>(target + head), vector, words);
    }
    const u32 tail = head + 16 * vectors;
    if (tail + threadIdx.x < count) target[tail + threadIdx.x] = source[tail + threadIdx.x];
    out.written += count;
}

// Decodes one sequence at `in.at`, which may have any length. Returns whether it is valid.
template <typename Codec> GALATEA_INLINE bool decompress_alone(DecompressMemory& memory, PageBytes& in, Output& out) {
    const Sequence sequence = Codec::read(in, in.at, true);
    if (!out.accepts(sequence, out.written)) {
        if (threadIdx.x == 0) out.refuse(sequence, in.at, out.written);
        return false;
    }
    copy_literals(in.bytes + sequence.source, sequence.literals, out);
    if (threadIdx.x == 0) memory.sequences[0] = {0, 0, 0, sequence.distance};
    write_output(memory, in.bytes, out.bytes + out.written, 1, sequence.copied);
    out.written += sequence.copied;
    in.at += sequence.advance;
    return true;
}

// Decodes the sequences of `memory.chain`. Returns whether they are valid.
template <typename Codec>
GALATEA_INLINE bool decompress_chain(DecompressMemory& memory, const PageBytes& in, Output& out, u32 count) {
    // Each thread has consecutive sequences. Their lengths are added to positions in two steps.
    const u32 of_thread = (count + DECOMPRESS_THREADS - 1) / DECOMPRESS_THREADS;
    const u32 first = threadIdx.x * of_thread < count ? threadIdx.x * of_thread : count;
    const u32 last = first + of_thread < count ? first + of_thread : count;
    u32 length = 0;
    for (u32 number = first; number < last; ++number) {
        const Sequence sequence = Codec::read(in, in.at + memory.chain.begin[number], false);
        memory.sequences[number] = {length, sequence.source, sequence.literals, sequence.distance};
        length += sequence.length();
    }
    u32 size;
    const u32 before = block_exclusive_scan(length, Sum{}, size, memory.scratch);
    Sequence refused;
    u32 refused_number = count;
    for (u32 number = last; number-- > first;) {
        PlacedSequence& placed = memory.sequences[number];
        Sequence sequence;
        sequence.literals = placed.literals;
        sequence.copied = length - placed.position - placed.literals;
        sequence.distance = placed.distance;
        sequence.complete = true;
        length = placed.position;
        placed.position += before;
        if (!out.accepts(sequence, u64(out.written) + placed.position)) {
            refused = sequence;
            refused_number = number;
        }
    }
    if (__syncthreads_or(refused_number < count)) {
        if (threadIdx.x == 0) memory.refused = count;
        __syncthreads();
        if (refused_number < count) atomicMin(&memory.refused, refused_number);
        __syncthreads();
        if (refused_number < count && memory.refused == refused_number) {
            const u64 position = u64(out.written) + memory.sequences[refused_number].position;
            out.refuse(refused, in.at + memory.chain.begin[refused_number], position);
        }
        return false;
    }
    write_output(memory, in.bytes, out.bytes + out.written, count, size);
    out.written += size;
    return true;
}

// Decompresses the bytes of a page from `in.at` on. Returns whether they are valid.
template <typename Codec> GALATEA_INLINE bool decompress(DecompressMemory& memory, PageBytes in, Output& out) {
    while (in.at < in.end) {
        const Sequence first = Codec::read(in, in.at, false);
        if (first.alone || !first.complete) {
            if (!decompress_alone<Codec>(memory, in, out)) return false;
        } else {
            u32 end;
            const u32 count = find_chain<Codec>(memory.chain, memory.windows, in, end);
            if (!decompress_chain<Codec>(memory, in, out, count)) return false;
            in.at += end;
        }
    }
    if (out.written == out.size) return true;
    if (threadIdx.x == 0) out.ends_early(in);
    return false;
}

}  // namespace galatea
