// Grid scope. Decompresses pages, one warp per page: all lanes read the tags, and copy the bytes together.
#include "galatea/args/parquet_decode.h"
#include "galatea/warp.cuh"

using namespace galatea;

namespace {

// The decompressed bytes of a page.
struct Output {
    u8* bytes;
    u32 written;
    u32 size;
    ParquetPageState& state;

    // Copies the next bytes of the input.
    GALATEA_INLINE bool literals(PageBytes& in, u64 length) {
        if (length > in.left()) return ends_early(in);
        if (length > size - written) return too_long(in, length);
        for (u32 byte = lane(); byte < length; byte += WARP) bytes[written + byte] = in.bytes[in.at + byte];
        in.at += u32(length);
        written += u32(length);
        __syncwarp();
        return true;
    }

    // Repeats bytes from `distance` before.
    GALATEA_INLINE bool repeat(const PageBytes& in, u64 distance, u64 length) {
        if (distance == 0 || distance > written) {
            fail(state, PARQUET_COPY_DISTANCE, in.at, distance, written);
            return false;
        }
        if (length > size - written) return too_long(in, length);
        const u8* const from = bytes + written - distance;
        for (u32 byte = lane(); byte < length; byte += WARP) {
            bytes[written + byte] = from[byte < distance ? byte : byte % u32(distance)];
        }
        written += u32(length);
        __syncwarp();
        return true;
    }

    GALATEA_INLINE bool ends_early(const PageBytes& in) {
        fail(state, PARQUET_COMPRESSED_END, in.at, written, size);
        return false;
    }

    GALATEA_INLINE bool too_long(const PageBytes& in, u64 length) {
        fail(state, PARQUET_SIZE, in.at, written + length, size);
        return false;
    }
};

// `count` <= 4 bytes, little-endian.
GALATEA_INLINE bool read_bytes(PageBytes& in, u32 count, u32& value) {
    value = 0;
    if (count > in.left()) return false;
    for (u32 byte = 0; byte < count; ++byte) value |= u32(in.bytes[in.at++]) << (8 * byte);
    return true;
}

GALATEA_INLINE bool snappy(PageBytes in, Output& out) {
    u64 size;
    if (!read_varint(in, size)) return out.ends_early(in);
    if (size != out.size) {
        fail(out.state, PARQUET_SIZE, in.at, size, out.size);
        return false;
    }
    while (in.at < in.end) {
        const u32 tag = in.bytes[in.at++];
        u32 operand;
        if (tag % 4 == 0) {
            u64 length = (tag >> 2) + 1;
            if (length > 60) {
                if (!read_bytes(in, u32(length) - 60, operand)) return out.ends_early(in);
                length = u64(operand) + 1;
            }
            if (!out.literals(in, length)) return false;
            continue;
        }
        if (!read_bytes(in, tag % 4 == 3 ? 4 : tag % 4, operand)) return out.ends_early(in);
        const bool near = tag % 4 == 1;
        const u32 distance = near ? (tag >> 5) << 8 | operand : operand;
        if (!out.repeat(in, distance, near ? (tag >> 2) % 8 + 4 : (tag >> 2) + 1)) return false;
    }
    return out.written == out.size || out.ends_early(in);
}

// Adds bytes to a length while they are 255.
GALATEA_INLINE bool extend(PageBytes& in, u64& length) {
    u8 byte;
    do {
        if (in.at >= in.end) return false;
        byte = in.bytes[in.at++];
        length += byte;
    } while (byte == 255);
    return true;
}

GALATEA_INLINE bool lz4(PageBytes in, Output& out) {
    while (in.at < in.end) {
        const u32 token = in.bytes[in.at++];
        u64 length = token >> 4;
        if (length == 15 && !extend(in, length)) return out.ends_early(in);
        if (!out.literals(in, length)) return false;
        // The last sequence has literals only.
        if (in.at == in.end) break;
        u32 distance;
        if (!read_bytes(in, 2, distance)) return out.ends_early(in);
        length = token % 16;
        if (length == 15 && !extend(in, length)) return out.ends_early(in);
        if (!out.repeat(in, distance, length + 4)) return false;
    }
    return out.written == out.size || out.ends_early(in);
}

}  // namespace

extern "C" __global__ void parquet_decompress(const __grid_constant__ ParquetDecodeArguments args) {
    for (u64 task = grid_thread() / WARP; task < args.count; task += grid_threads() / WARP) {
        const u32 number = u32(args.tasks[task] >> 32);
        const ParquetPage page = args.pages[number];
        ParquetPageState& state = args.states[number];
        const u32 levels = page.level_bytes;
        if (levels > page.stored_bytes || levels > page.body_bytes) {
            fail(state, PARQUET_LEVEL_BYTES, 0, levels, page.stored_bytes);
            continue;
        }
        for (u32 byte = lane(); byte < levels; byte += WARP) page.body[byte] = page.stored[byte];
        Output out{page.body + levels, 0, page.body_bytes - levels, state};
        // A page without values may have no compressed bytes at all.
        if (out.size == 0) continue;
        const PageBytes in{page.stored, levels, page.stored_bytes};
        if (page.codec == PARQUET_SNAPPY) {
            snappy(in, out);
        } else {
            lz4(in, out);
        }
    }
}
