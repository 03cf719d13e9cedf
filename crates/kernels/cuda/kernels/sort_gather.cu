// Grid scope. Copies the values with certain ids, in the order of the ids.
#include "galatea/args/sort_gather.h"
#include "galatea/thread.cuh"

using namespace galatea;

template <typename T> GALATEA_INLINE void gather(const SortGatherArguments& args) {
    const T* const values = reinterpret_cast<const T*>(args.values);
    T* const gathered = reinterpret_cast<T*>(args.gathered);
    for (u64 at = grid_thread(); at < args.rows; at += grid_threads()) gathered[at] = values[args.ids[at]];
}

extern "C" __global__ void sort_gather(const __grid_constant__ SortGatherArguments args) {
    switch (args.width) {
        case 1: gather<u8>(args); break;
        case 4: gather<u32>(args); break;
        case 8: gather<u64>(args); break;
        default: gather<Vector<u64, 2>>(args); break;
    }
}
