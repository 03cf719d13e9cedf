// Grid scope. One level of the trees that frames are folded from: each node folds WINDOW_FAN of those below.
#include "galatea/args/window_tree.h"
#include "galatea/windows.cuh"

using namespace galatea;

namespace {

template <typename T, typename Op> GALATEA_INLINE void level(const WindowTreeArguments& args, Op op) {
    const T* const below = reinterpret_cast<const T*>(args.below);
    T* const above = reinterpret_cast<T*>(args.above);
    const u64 nodes = (args.nodes + WINDOW_FAN - 1) / WINDOW_FAN;
    for (u64 node = grid_thread(); node < nodes; node += grid_threads()) {
        const u64 first = node * WINDOW_FAN;
        const u64 end = first + WINDOW_FAN < args.nodes ? first + WINDOW_FAN : args.nodes;
        T folded = op.template identity<T>();
        for (u64 child = first; child < end; ++child) folded = op(folded, below[child]);
        above[node] = folded;
    }
}

}  // namespace

extern "C" __global__ void window_tree(const __grid_constant__ WindowTreeArguments args) {
    switch (args.fold) {
        case WindowFold::SumF64: level<double>(args, Sum{}); break;
        case WindowFold::Max64: level<u64>(args, Max{}); break;
        case WindowFold::Max128: level<u128>(args, Max{}); break;
    }
}
