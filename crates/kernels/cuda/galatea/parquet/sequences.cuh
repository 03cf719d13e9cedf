// Sequences of Snappy and LZ4 pages: literals, then a copy of earlier output. Thread scope.
#pragma once

#include "galatea/parquet/page.cuh"

namespace galatea {

// A sequence with literals or, in LZ4, an output of at least this length is decoded alone. Others take fewer
// compressed bytes than twice this number.
constexpr u32 LONG_SEQUENCE = 1024;

// Literals, then a copy.
struct Sequence {
    u32 advance = 0;        // compressed bytes
    u32 source = 0;         // position of the literals in the compressed bytes
    u32 literals = 0;       // number of literals
    u32 copied = 0;         // bytes of the copy
    u32 distance = 1;       // distance of the copy
    bool complete = false;  // the compressed bytes do not end within the sequence
    bool alone = false;     // it is decoded alone

    GALATEA_INLINE u32 length() const { return literals + copied; }
};

// Loads at least 5 bytes from any address, little-endian. Bytes past the end of the page are undefined.
GALATEA_INLINE u64 load_bytes(const u8* bytes) {
    const u32* const words = reinterpret_cast<const u32*>(u64(bytes) & ~u64(3));
    return (u64(words[0]) | u64(words[1]) << 32) >> (u64(bytes) % 4 * 8);
}

struct Snappy {
    // Parses a copy at `at`. Returns its length in compressed bytes; 0: another tag is at `at`.
    static GALATEA_INLINE u32 copy(const PageBytes& in, u32 at, Sequence& sequence) {
        if (at >= in.end) return 0;
        const u64 bytes = load_bytes(in.bytes + at);
        const u32 tag = u32(bytes) & 255;
        const u32 kind = tag % 4;
        const u32 size = kind == 3 ? 5 : kind + 1;
        if (kind == 0 || size > in.end - at) return 0;
        const u32 operand = u32(bytes >> 8);
        sequence.copied = kind == 1 ? (tag >> 2) % 8 + 4 : (tag >> 2) + 1;
        sequence.distance = kind == 1 ? (tag >> 5) << 8 | (operand & 255) : kind == 2 ? operand & 0xffff : operand;
        return size;
    }

    // Parses a sequence at `at`: literals, a copy, or both.
    static GALATEA_INLINE Sequence read(const PageBytes& in, u32 at, bool) {
        Sequence sequence;
        if (at >= in.end) return sequence;
        sequence.source = at;
        const u64 bytes = load_bytes(in.bytes + at);
        const u32 tag = u32(bytes) & 255;
        if (tag % 4 == 0) {
            const u32 operand_bytes = tag >> 2 < 60 ? 0 : (tag >> 2) - 59;
            const u32 before = 1 + operand_bytes;
            if (before > in.end - at) return sequence;
            const u64 last = operand_bytes == 0 ? tag >> 2 : bytes >> 8 & ((u64(1) << (8 * operand_bytes)) - 1);
            if (last >= in.end - at - before) return sequence;
            sequence.source = at + before;
            sequence.literals = u32(last) + 1;
            sequence.advance = before + sequence.literals;
        }
        sequence.alone = sequence.literals >= LONG_SEQUENCE;
        if (!sequence.alone) sequence.advance += copy(in, at + sequence.advance, sequence);
        sequence.complete = sequence.advance > 0;
        return sequence;
    }
};

struct Lz4 {
    // Bytes that extend the length of a sequence which is not decoded alone.
    static constexpr u32 SHORT_EXTENSION = 4;

    // Adds bytes to a length while they are 255. Returns false if the compressed bytes end, or the length
    // takes more than `limit` bytes.
    static GALATEA_INLINE bool extend(PageBytes& in, u64& length, u32 limit) {
        for (u32 count = 0; count < limit && in.at < in.end; ++count) {
            const u8 byte = in.bytes[in.at++];
            length += byte;
            if (byte < 255) return true;
        }
        return false;
    }

    // Parses a sequence at `at`. One with long lengths is complete only if it is the `first` of a tile.
    static GALATEA_INLINE Sequence read(PageBytes in, u32 at, bool first) {
        Sequence sequence;
        if (at >= in.end) return sequence;
        const u32 limit = first ? 0xffffffffu : SHORT_EXTENSION;
        in.at = at + 1;
        const u32 token = in.bytes[at];
        u64 literals = token >> 4;
        sequence.alone = true;
        sequence.source = at;
        if (literals == 15 && !extend(in, literals, limit)) return sequence;
        sequence.source = in.at;
        if (literals > in.left()) return sequence;
        sequence.literals = u32(literals);
        in.at += sequence.literals;
        // The last sequence has literals only.
        if (in.at < in.end) {
            if (in.left() < 2) return sequence;
            sequence.distance = u32(in.bytes[in.at]) | u32(in.bytes[in.at + 1]) << 8;
            in.at += 2;
            u64 copied = token % 16;
            if (copied == 15 && !extend(in, copied, limit)) return sequence;
            copied += 4;
            sequence.copied = copied < 0x7fffffff ? u32(copied) : 0x7fffffff;
        }
        sequence.alone = sequence.length() >= LONG_SEQUENCE;
        sequence.advance = in.at - at;
        sequence.complete = true;
        return sequence;
    }
};

// The decompressed bytes of a page.
struct Output {
    u8* bytes;
    u32 written;
    u32 size;
    ParquetPageState& state;

    GALATEA_INLINE bool ends_early(const PageBytes& in) {
        fail(state, PARQUET_COMPRESSED_END, in.at, written, size);
        return false;
    }

    // Whether a sequence may be written at an output position.
    GALATEA_INLINE bool accepts(const Sequence& sequence, u64 position) const {
        const u64 copy = position + sequence.literals;
        const bool is_near = sequence.distance > 0 && sequence.distance <= copy;
        return sequence.complete && copy + sequence.copied <= size && (sequence.copied == 0 || is_near);
    }

    // Records the violation of a sequence that is not accepted. `at`: its position in the compressed bytes.
    GALATEA_INLINE void refuse(const Sequence& sequence, u32 at, u64 position) {
        const u64 copy = position + sequence.literals;
        if (!sequence.complete) {
            fail(state, PARQUET_COMPRESSED_END, at, position, size);
        } else if (copy > size) {
            fail(state, PARQUET_SIZE, at, copy, size);
        } else if (sequence.copied > 0 && (sequence.distance == 0 || sequence.distance > copy)) {
            fail(state, PARQUET_COPY_DISTANCE, at, sequence.distance, copy);
        } else {
            fail(state, PARQUET_SIZE, at, copy + sequence.copied, size);
        }
    }
};

}  // namespace galatea
