// Grid scope. A pass of a merge sort of distinct strings (interned.cuh), by their positions: each thread
// computes a few consecutive outputs, and locates their inputs in the two merged runs by binary search (Odeh
// et al., Merge Path).
#include "galatea/args/string_sort.h"
#include "galatea/interned.cuh"
#include "galatea/thread.cuh"

using namespace galatea;

namespace {

// Strings of the first runs, and of the output of a thread. Host twin:
// crates/kernels/src/kernels/string_sort.rs.
constexpr u64 RUN = 8;

// Two adjacent runs of positions, each in the order of their strings.
struct Pair {
    const u64* first;
    const u64* second;
    u64 first_count;
    u64 second_count;

    // The number of strings of the first run among the first `count` of both in order.
    GALATEA_INLINE u64 of_first(const u64* texts, u64 count) const {
        u64 low = count > second_count ? count - second_count : 0;
        u64 high = count < first_count ? count : first_count;
        while (low < high) {
            const u64 middle = (low + high) / 2;
            if (is_before(texts, first[middle], second[count - 1 - middle])) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        return low;
    }
};

// Sorts a few consecutive strings by insertion.
GALATEA_INLINE void sort_run(const u64* texts, const u64* from, u64* to, u64 count) {
    for (u64 next = 0; next < count; ++next) {
        const u64 place = from[next] & INTERNED_PLACE;
        u64 at = next;
        for (; at > 0 && is_before(texts, place, to[at - 1]); --at) to[at] = to[at - 1];
        to[at] = place;
    }
}

// Writes outputs [begin, begin + count) of the pair of runs of `width` that contains them.
GALATEA_INLINE void merge(const u64* texts, const StringSortArguments& args, u64 begin, u64 count) {
    const u64 start = begin / (2 * args.width) * (2 * args.width);
    const u64 rest = args.count - start;
    Pair runs;
    runs.first_count = rest < args.width ? rest : args.width;
    runs.second_count = rest - runs.first_count < args.width ? rest - runs.first_count : args.width;
    runs.first = args.from + start;
    runs.second = runs.first + runs.first_count;
    u64 one = runs.of_first(texts, begin - start);
    u64 other = begin - start - one;
    for (u64 at = begin; at < begin + count; ++at) {
        const bool first = other == runs.second_count ||
                           (one < runs.first_count && is_before(texts, runs.first[one], runs.second[other]));
        args.to[at] = first ? runs.first[one++] : runs.second[other++];
    }
}

}  // namespace

extern "C" __global__ void string_sort(const __grid_constant__ StringSortArguments args) {
    const u64* const texts = args.memory + INTERNED_HEAD + args.memory[INTERNED_SLOTS];
    for (u64 thread = grid_thread(); thread * RUN < args.count; thread += grid_threads()) {
        const u64 begin = thread * RUN, rest = args.count - begin;
        const u64 count = rest < RUN ? rest : RUN;
        if (args.width == 0) {
            sort_run(texts, args.from + begin, args.to + begin, count);
        } else {
            merge(texts, args, begin, count);
        }
    }
}
