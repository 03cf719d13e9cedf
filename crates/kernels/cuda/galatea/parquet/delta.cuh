// Warp scope: the encoding DELTA_BINARY_PACKED of integers. Blocks follow each other without an index, so a
// warp reads their headers in order and sums 32 deltas at a time.
#pragma once

#include "galatea/parquet/page.cuh"
#include "galatea/warp.cuh"

namespace galatea {

// Decodes the integers at `in`, exactly `values`, and moves `in` to their end. All lanes of a whole warp call
// it, with equal arguments. `visit(value, integer, inside)` is called by the whole warp; lanes with `inside`
// have a value. With `READ` false, only the headers are read, and nothing is visited. Returns false after
// recording a violation.
template <bool READ, typename Visit>
GALATEA_INLINE bool decode_delta(PageBytes& in, u32 values, ParquetPageState& state, Visit visit) {
    u64 block, miniblocks, total, first;
    if (!read_varint(in, block) || !read_varint(in, miniblocks) || !read_varint(in, total) || !read_varint(in, first)) {
        fail(state, PARQUET_DELTA_END, in.at, 0, values);
        return false;
    }
    const u64 length = miniblocks == 0 ? 0 : block / miniblocks;
    if (length == 0 || length % WARP != 0 || block > 0x7fffffff || length * miniblocks != block) {
        fail(state, PARQUET_DELTA_HEADER, in.at, block, miniblocks);
        return false;
    }
    if (total != values) {
        fail(state, PARQUET_DELTA_COUNT, in.at, total, values);
        return false;
    }
    if (values == 0) return true;
    u64 last = unzigzag(first);
    if (READ) visit(0, last, lane() == 0);
    u32 done = 1;
    while (done < values) {
        u64 code;
        if (!read_varint(in, code) || miniblocks > in.left()) {
            fail(state, PARQUET_DELTA_END, in.at, done, values);
            return false;
        }
        const u64 least = unzigzag(code);
        const u8* const widths = in.bytes + in.at;
        in.at += u32(miniblocks);
        for (u64 miniblock = 0; miniblock < miniblocks && done < values; ++miniblock) {
            const u32 width = widths[miniblock];
            if (width > 64) {
                fail(state, PARQUET_DELTA_WIDTH, in.at, width, 64);
                return false;
            }
            const u64 bytes = length / 8 * width;
            if (bytes > in.left()) {
                fail(state, PARQUET_DELTA_END, in.at, done, values);
                return false;
            }
            const u32 taken = length < values - done ? u32(length) : values - done;
            if (READ) {
                for (u32 begin = 0; begin < taken; begin += WARP) {
                    const u32 delta = begin + lane();
                    const bool inside = delta < taken;
                    const u64 bits = inside ? least + load_bits(in.bytes + in.at, u64(delta) * width, width) : 0;
                    u64 upto;
                    warp_exclusive_scan(bits, Sum{}, upto);
                    visit(done + delta, last + upto, inside);
                    last += __shfl_sync(0xffffffffu, upto, WARP - 1);
                }
            }
            done += taken;
            in.at += u32(bytes);
        }
    }
    return true;
}

}  // namespace galatea
