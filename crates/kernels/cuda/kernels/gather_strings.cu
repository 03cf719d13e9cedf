// Grid scope. Gathers the strings of rows in any order: first their lengths, then, after a prefix sum gives
// the start of each, their bytes.
#include "galatea/args/gather_strings.h"
#include "galatea/thread.cuh"

using namespace galatea;

namespace {

// Threads that copy a string. Host twin: crates/kernels/src/kernels/gather_strings.rs.
constexpr u32 COPIERS = 8;

// The bytes of a row; empty if the row has no string.
struct Text {
    const u8* bytes = nullptr;
    u64 length = 0;
    bool valid = false;
};

template <typename Offset> GALATEA_INLINE Text string_at(const StringChunk& chunk, u32 row) {
    const Offset* const offsets = static_cast<const Offset*>(chunk.offsets);
    Text text;
    text.bytes = chunk.bytes + offsets[row];
    text.length = offsets[row + 1] - offsets[row];
    text.valid = true;
    return text;
}

GALATEA_INLINE Text string_of(const GatherStringsArguments& args, u64 at) {
    const u64 wanted = reinterpret_cast<const u64*>(args.rows)[at];
    const u64 position = wanted >> 32;
    const u32 row = u32(wanted);
    // A row that is not wanted, from a join without a match, may have any number.
    if (position >= args.chunk_count || row >= args.chunks[position].rows) return Text();
    const StringChunk chunk = args.chunks[position];
    if (chunk.validity != nullptr && !(chunk.validity[row / 8] >> (row % 8) & 1)) return Text();
    return args.offset_width == 4 ? string_at<u32>(chunk, row) : string_at<u64>(chunk, row);
}

}  // namespace

extern "C" __global__ void gather_strings(const __grid_constant__ GatherStringsArguments args) {
    if (args.phase == 0) {
        for (u64 at = grid_thread(); at < args.count; at += grid_threads()) {
            const Text text = string_of(args, at);
            args.starts[at] = text.length;
            if (args.valid != nullptr) args.valid[at] = text.valid;
        }
        return;
    }
    for (u64 at = grid_thread() / COPIERS; at < args.count; at += grid_threads() / COPIERS) {
        const Text text = string_of(args, at);
        u8* const to = args.bytes + args.starts[at];
        for (u64 byte = threadIdx.x % COPIERS; byte < text.length; byte += COPIERS) to[byte] = text.bytes[byte];
    }
}
