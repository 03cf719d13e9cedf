// Grid scope. Completes a sort of keys that are in order by their upper bits: if keys with the same upper
// bits are not in order by the lower ones, one lane sorts them. Such runs are few and short, or the sort
// would not have skipped bits.
#include "galatea/args/sort_runs.h"
#include "galatea/thread.cuh"

using namespace galatea;

constexpr u32 LONGEST = 32;  // maximum number of keys of a run that is sorted

// Keys of the run around `at`, the last key in order: [begin, end). Empty if another lane sorts the run,
// because earlier keys are not in order either.
struct Run {
    u64 begin, end;
};

GALATEA_INLINE Run run_to_sort(const SortRunsArguments& args, u64 at) {
    const u64* const keys = args.keys;
    const u64 upper = keys[at] >> args.shift;
    Run run = {at, at + 2};
    while (run.begin > 0 && keys[run.begin - 1] >> args.shift == upper) {
        if (keys[run.begin - 1] > keys[run.begin]) return {0, 0};
        --run.begin;
        if (run.end - run.begin > LONGEST) break;
    }
    while (run.end - run.begin <= LONGEST && run.end < args.rows && keys[run.end] >> args.shift == upper) ++run.end;
    if (run.end - run.begin <= LONGEST) return run;
    *args.unsorted = 1;
    return {0, 0};
}

// A key is placed after smaller ones, and after equal ones before it.
GALATEA_NOINLINE void sort_run(const SortRunsArguments& args, Run run) {
    const u32 length = u32(run.end - run.begin);
    u32 ids[LONGEST];
    for (u32 at = 0; at < length; ++at) {
        const u64 key = args.keys[run.begin + at];
        u32 place = 0;
        for (u32 other = 0; other < length; ++other) {
            const u64 beside = args.keys[run.begin + other];
            place += beside < key || (beside == key && other < at) ? 1 : 0;
        }
        if (args.sorted != nullptr) args.sorted[run.begin + place] = key;
        if (args.ids != nullptr) ids[place] = args.ids[run.begin + at];
    }
    if (args.ids == nullptr) return;
    for (u32 at = 0; at < length; ++at) args.ids[run.begin + at] = ids[at];
}

extern "C" __global__ void sort_runs(const __grid_constant__ SortRunsArguments args) {
    constexpr u32 KEYS = 2;  // of a load
    for (u64 at = grid_thread() * KEYS; at < args.rows; at += grid_threads() * KEYS) {
        u64 keys[KEYS + 1];
        if (at + KEYS < args.rows) {
            const Vector<u64, KEYS> loaded = load_vector<KEYS>(args.keys, at / KEYS);
            keys[0] = loaded.item[0];
            keys[1] = loaded.item[1];
            keys[2] = args.keys[at + KEYS];
        } else {
            // No key follows the last one.
            keys[0] = args.keys[at];
            keys[1] = at + 1 < args.rows ? args.keys[at + 1] : ~0ull;
            keys[2] = ~0ull;
        }
#pragma unroll
        for (u32 k = 0; k < KEYS; ++k) {
            if (keys[k] <= keys[k + 1]) continue;
            const Run run = run_to_sort(args, at + k);
            if (run.begin != run.end) sort_run(args, run);
        }
    }
}
