// Grid scope: how a pipeline walks its chunks and how a thread loads its rows.
//
// A thread holds V consecutive rows (V = 16 or 8 for narrow pipelines, fewer for wide ones); a block of B
// threads covers B * V rows per step, so every load of a column is one or a few aligned vector loads per
// thread. Chunk columns are aligned to, and padded to, 256 bytes: loads past the last row stay inside the
// allocation and are masked.
#pragma once
#include "galatea/prelude.cuh"
#include "galatea/args/pipeline.h"
#ifdef GALATEA_AWAITS_CHUNKS
#include "galatea/link.cuh"
#endif

namespace galatea {

// An entry of the chunk table has CHUNK_HEADER_WORDS words for the chunk, then COLUMN_WORDS words for each
// column. The host has the same constants (crates/kernels/src/kernels/pipeline.rs).
constexpr u32 COLUMN_WORDS = 4;
constexpr u32 CHUNK_HEADER_WORDS = 3;

// The type that one load instruction of `Bytes` bytes moves.
template <int Bytes> struct Piece;
template <> struct Piece<1> { using Type = unsigned char; };
template <> struct Piece<2> { using Type = unsigned short; };
template <> struct Piece<4> { using Type = unsigned int; };
template <> struct Piece<8> { using Type = uint2; };
template <> struct Piece<16> { using Type = uint4; };

// V values of type T of consecutive rows, held in registers.
template <typename T, int V> struct alignas(sizeof(T) * V < 16 ? sizeof(T) * V : 16) Rows {
    T value[V];
    GALATEA_INLINE T operator[](int i) const { return value[i]; }
};

// Thread scope. Loads rows [row, row + V) of a column; `row` is a multiple of V.
template <typename T, int V>
GALATEA_INLINE Rows<T, V> load_rows(const unsigned char* data, u32 row) {
    constexpr int bytes = int(sizeof(T)) * V;
    constexpr int piece = bytes < 16 ? bytes : 16;
    using P = typename Piece<piece>::Type;
    union Both {
        Rows<T, V> rows;
        P pieces[bytes / piece];
        __device__ Both() {}
    } u;
    const P* source = reinterpret_cast<const P*>(data + u64(row) * sizeof(T));
#pragma unroll
    for (int i = 0; i < bytes / piece; ++i) u.pieces[i] = __ldg(source + i);
    return u.rows;
}

// Thread scope. Validity of rows [row, row + V) as V low bits, 1 = valid; a null address means all valid.
template <int V>
GALATEA_INLINE u32 load_validity(const unsigned char* bitmap, u32 row) {
    static_assert(V <= 16, "a thread holds at most 16 rows");
    constexpr u32 all = (1u << V) - 1u;
    if (bitmap == nullptr) return all;
    if (V == 16) return __ldg(reinterpret_cast<const unsigned short*>(bitmap) + (row >> 4));
    return (u32(__ldg(bitmap + (row >> 3))) >> (row & 7)) & all;
}

// Position of a block: the chunk of its current morsel. No chunk has more than `morsels_per_chunk` morsels,
// so morsel / morsels_per_chunk is at most the number of the chunk, and equal to it if all chunks have that
// number of morsels. `seek` searches forward from there. The last entry of the table is a sentinel: its first
// morsel is greater than every morsel, so the search ends.
struct ChunkCursor {
    const u64* table;
    const u64* chunk;
    u32 words;
    u32 morsels_per_chunk;
    GALATEA_INLINE ChunkCursor(const PipelineArguments& args)
        : table(args.chunks), chunk(table), words(args.chunk_words),
          morsels_per_chunk(args.morsels_per_chunk) {}
    // Thread scope, same result in all threads of the block.
    GALATEA_INLINE void seek(u32 morsel) {
        chunk = table + u64(morsel / morsels_per_chunk) * words;
        while (u32(__ldg(chunk + words + 1)) <= morsel) chunk += words;
    }
#ifdef GALATEA_AWAITS_CHUNKS
    // Warp scope. Waits for the chunk if it may still be in transfer (PipelineArguments::arrivals).
    GALATEA_INLINE void wait_for_arrival(const u32* arrivals) const {
        if (arrivals != nullptr) await_arrival(arrivals + index());
    }
#endif
    // Index of the chunk in the table.
    GALATEA_INLINE u32 index() const { return u32((chunk - table) / words); }
    GALATEA_INLINE u32 rows() const { return u32(__ldg(chunk)); }
    GALATEA_INLINE u32 first_morsel() const { return u32(__ldg(chunk + 1)); }
    // Number of rows of the table before those of the chunk.
    GALATEA_INLINE u64 first_row() const { return __ldg(chunk + 2); }
    GALATEA_INLINE u64 word(u32 column, u32 which) const {
        return __ldg(chunk + CHUNK_HEADER_WORDS + column * COLUMN_WORDS + which);
    }
    GALATEA_INLINE const unsigned char* data(u32 column) const {
        return reinterpret_cast<const unsigned char*>(word(column, 0));
    }
    GALATEA_INLINE const unsigned char* validity(u32 column) const {
        return reinterpret_cast<const unsigned char*>(word(column, 1));
    }
    GALATEA_INLINE i64 base(u32 column) const { return i64(word(column, 2)); }
    GALATEA_INLINE const unsigned char* offsets(u32 column) const {
        return reinterpret_cast<const unsigned char*>(word(column, 3));
    }
};

// Block scope. Blocks claim the morsels of a launch in order, so that at any time all blocks read nearby
// rows. Blocks that take every grid-th morsel drift apart.
struct MorselClaims {
    u64* counter;
    u32 first;
    u32 turn = 0;
    GALATEA_INLINE MorselClaims(const PipelineArguments& args)
        : counter(args.counters + 4), first(args.first_morsel) {}
    // The next morsel, or any number past the launch's last one. `claimed` is in shared memory; its two words
    // take turns, because a thread may still read one of them. Barriers: 1.
    GALATEA_INLINE u32 next(u32 (&claimed)[2]) {
        turn ^= 1;
        if (threadIdx.x == 0) claimed[turn] = first + u32(atomicAdd(counter, u64(1)));
        __syncthreads();
        return claimed[turn];
    }
};

}  // namespace galatea
