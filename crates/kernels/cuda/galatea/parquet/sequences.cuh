// Decompression of Snappy and LZ4 pages. Warp scope: every lane of a whole warp calls these functions.
//
// A compressed page is a list of sequences: literals, then a copy of earlier output. One step decodes a
// window of 32 compressed bytes:
// - Each lane parses a sequence at its own byte, as if one began there.
// - The first sequence begins at byte 0. Its length is the offset of the second one, and so on.
// - A scan of the lengths of these sequences computes their output positions.
// - The warp writes 32 output bytes at a time. If the source of a byte is written in the same step, its lane
//   follows the copies, lane by lane, to a byte that exists.
#pragma once

#include "galatea/parquet/page.cuh"
#include "galatea/warp.cuh"

namespace galatea {

// Minimum length of literals that are copied by words, in a step of their own.
constexpr u32 LONG_LITERALS = 64;

// Literals, then a copy.
struct Sequence {
    u32 advance = 0;        // compressed bytes
    u32 source = 0;         // position of the literals in the compressed bytes
    u32 literals = 0;       // number of literals
    u32 copied = 0;         // bytes of the copy
    u32 distance = 1;       // distance of the copy
    bool complete = false;  // the compressed bytes do not end within the sequence
    bool alone = false;     // it is decoded in a step of its own

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
        sequence.alone = sequence.literals >= LONG_LITERALS;
        if (!sequence.alone) sequence.advance += copy(in, at + sequence.advance, sequence);
        sequence.complete = sequence.advance > 0;
        return sequence;
    }
};

struct Lz4 {
    // Bytes that extend the length of a sequence which shares its window.
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

    // Parses a sequence at `at`. A sequence with long lengths is only parsed as the `first` one of a window.
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
        sequence.alone = sequence.length() >= LONG_LITERALS * 8;
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

    // Copies literals by words: all lanes have the same source and number.
    GALATEA_INLINE void copy_literals(const u8* source, u32 count) {
        u8* const target = bytes + written;
        const u32 until_aligned = u32(0 - u64(target)) % 4;
        const u32 head = until_aligned < count ? until_aligned : count;
        if (lane() < head) target[lane()] = source[lane()];
        const u32 words = (count - head) / 4;
        for (u32 word = lane(); word < words; word += WARP) {
            reinterpret_cast<u32*>(target + head)[word] = load_word(source + head + 4 * word);
        }
        const u32 tail = head + 4 * words;
        if (tail + lane() < count) target[tail + lane()] = source[tail + lane()];
        written += count;
        __syncwarp();
    }

    // Writes the next `count` bytes: the sequence of each lane at the lane's position. Positions do not
    // decrease; a lane without a sequence has the position of the next sequence.
    GALATEA_INLINE void write(const PageBytes& in, const Sequence& own, u32 position, u32 count) {
        constexpr u32 ALL = 0xffffffffu;
        for (u32 first = 0; first < count; first += WARP) {
            const u32 byte = first + lane();
            // Binary search: the last lane with a position at or before the byte.
            u32 from = 0;
#pragma unroll
            for (u32 step = WARP / 2; step > 0; step /= 2) {
                if (__shfl_sync(ALL, position, from + step) <= byte) from += step;
            }
            const u32 begin = __shfl_sync(ALL, position, from);
            const u32 literals = __shfl_sync(ALL, own.literals, from);
            const u32 source = __shfl_sync(ALL, own.source, from);
            const u32 distance = __shfl_sync(ALL, own.distance, from);
            u32 value = 0;
            u32 writer = lane();
            if (byte < count) {
                u32 offset = byte - begin;
                if (offset < literals) {
                    value = in.bytes[source + offset];
                } else {
                    offset -= literals;
                    // A copy that overlaps itself repeats the bytes before it.
                    const u32 repeated = offset < distance ? offset : offset % distance;
                    const u32 copied = written + begin + literals - distance + repeated;
                    if (copied < written + first) value = bytes[copied]; else writer = copied - written - first;
                }
            }
            if (__any_sync(ALL, writer != lane())) {
                for (;;) {
                    const u32 next = __shfl_sync(ALL, writer, writer);
                    if (!__any_sync(ALL, next != writer)) break;
                    writer = next;
                }
                value = __shfl_sync(ALL, value, writer);
            }
            if (byte < count) bytes[written + byte] = u8(value);
            __syncwarp();
        }
        written += count;
    }
};

// Decompresses the bytes of a page from `in.at` on. Returns whether they are valid.
template <typename Codec> GALATEA_INLINE bool decompress(PageBytes in, Output& out) {
    constexpr u32 ALL = 0xffffffffu;
    while (in.at < in.end) {
        Sequence own = Codec::read(in, in.at + lane(), lane() == 0);
        const u32 alone = __ballot_sync(ALL, own.alone);
        // One bit per lane: a sequence begins at the lane's byte.
        u32 begins = 0;
        u32 next = 0;
        for (bool more = true; more;) {
            begins |= 1u << next;
            const u32 advance = __shfl_sync(ALL, own.advance, next);
            next += advance;
            more = advance > 0 && next < WARP && next < in.left() && (alone & (1u | 1u << next)) == 0;
        }
        const bool is_one = begins >> lane() & 1;
        if (!is_one) own = Sequence{};
        u32 end;
        u32 position = warp_exclusive_scan(own.length(), Sum{}, end);
        u32 count = __shfl_sync(ALL, end, WARP - 1);
        const u32 refused = __ballot_sync(ALL, is_one && !out.accepts(own, u64(out.written) + position));
        if (refused != 0) {
            if (lane() == __ffs(refused) - 1) out.refuse(own, in.at + lane(), u64(out.written) + position);
            return false;
        }
        if ((alone & 1) != 0) {
            const u32 literals = __shfl_sync(ALL, own.literals, 0);
            out.copy_literals(in.bytes + __shfl_sync(ALL, own.source, 0), literals);
            own.literals = 0;
            count -= literals;
            if (lane() > 0) position = count;
        }
        out.write(in, own, position, count);
        in.at += next;
    }
    return out.written == out.size || out.ends_early(in);
}

}  // namespace galatea
