// Grid scope. Copies strings one after the other, several threads per string, and checks that they are UTF-8.
#include "galatea/args/parquet_copy_strings.h"
#include "galatea/thread.cuh"

using namespace galatea;

// Threads that copy a string. Host twin: crates/kernels/src/kernels/parquet/rows.rs.
constexpr u32 COPIERS = 8;

namespace {

GALATEA_INLINE bool is_continuation(u8 byte) { return (byte & 0xc0) == 0x80; }

// Bytes of the character that a byte starts; 0 if none does.
GALATEA_INLINE u32 character_bytes(u8 byte) {
    return byte < 0x80 ? 1 : byte < 0xc2 ? 0 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : byte < 0xf5 ? 4 : 0;
}

// Whether the character that a byte starts, or is a part of, is valid UTF-8. A string is valid if this is
// true for each of its bytes.
GALATEA_INLINE bool is_utf8(const u8* bytes, u64 length, u64 at) {
    const u8 byte = bytes[at];
    if (byte < 0x80) return true;
    if (is_continuation(byte)) {
        for (u32 before = 1; before <= 3 && before <= at; ++before) {
            const u8 start = bytes[at - before];
            if (!is_continuation(start)) return character_bytes(start) > before;
        }
        return false;
    }
    const u32 needed = character_bytes(byte);
    if (needed == 0 || needed > length - at) return false;
    for (u32 after = 1; after < needed; ++after) {
        if (!is_continuation(bytes[at + after])) return false;
    }
    const u8 second = bytes[at + 1];
    // Longer forms than necessary, halves of surrogate pairs, and numbers beyond Unicode.
    return !(byte == 0xe0 && second < 0xa0) && !(byte == 0xed && second > 0x9f) && !(byte == 0xf0 && second < 0x90) &&
           !(byte == 0xf4 && second > 0x8f);
}

}  // namespace

extern "C" __global__ void parquet_copy_strings(const __grid_constant__ ParquetCopyStringsArguments args) {
    // One item more than strings, for the last offset.
    for (u64 at = grid_thread() / COPIERS; at <= args.count; at += grid_threads() / COPIERS) {
        const u64 first = args.offsets[at];
        if (args.narrow != nullptr && threadIdx.x % COPIERS == 0) args.narrow[at] = u32(first);
        if (at == args.count) break;
        const u64 length = args.offsets[at + 1] - first;
        const u8* const from = args.starts[at];
        for (u64 byte = threadIdx.x % COPIERS; byte < length; byte += COPIERS) {
            args.bytes[first + byte] = from[byte];
            if (args.invalid != nullptr && !is_utf8(from, length, byte)) atomicMin(args.invalid, at);
        }
    }
}
