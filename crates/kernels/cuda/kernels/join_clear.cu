// Grid scope. Sets all words of a hash table, in any device-accessible memory, by stores of 16 bytes.
#include "galatea/args/join_clear.h"
#include "galatea/thread.cuh"

using namespace galatea;

extern "C" __global__ void join_clear(const JoinClearArguments args) {
    const Vector<u64, 2> values = {{args.value, args.value}};
    for (u64 pair = grid_thread(); pair < args.count / 2; pair += grid_threads()) {
        store_vector<2>(args.words, pair, values);
    }
}
