// Grid scope. Finds the positions where partitions and peer groups begin in the order of a window: where a
// key word differs from that of the previous position.
#include "galatea/args/window_bounds.h"
#include "galatea/thread.cuh"

using namespace galatea;

namespace {

GALATEA_INLINE bool differ(const WindowBoundsArguments& args, u32 word, u64 one, u64 other) {
    const u8* const keys = args.words[word];
    if (args.widths[word] == 4) {
        return reinterpret_cast<const u32*>(keys)[one] != reinterpret_cast<const u32*>(keys)[other];
    }
    return reinterpret_cast<const u64*>(keys)[one] != reinterpret_cast<const u64*>(keys)[other];
}

}  // namespace

extern "C" __global__ void window_bounds(const __grid_constant__ WindowBoundsArguments args) {
    for (u64 place = grid_thread(); place < args.rows; place += grid_threads()) {
        bool partition = place == 0;
        bool peers = place == 0;
        if (place != 0) {
            const u64 row = args.ids == nullptr ? place : args.ids[place];
            const u64 before = args.ids == nullptr ? place - 1 : args.ids[place - 1];
            for (u32 word = 0; word < args.key_words && !partition; ++word) {
                const bool other = differ(args, word, row, before);
                partition = other && word < args.partition_words;
                peers = peers || other;
            }
        }
        args.partitions[place] = partition ? 1 : 0;
        args.peers[place] = peers ? 1 : 0;
    }
}
