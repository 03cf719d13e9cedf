// Grid scope. One pass over the points (kmeans/pass.cuh).
#include "galatea/kmeans/pass.cuh"

using namespace galatea;

extern "C" __global__ void __launch_bounds__(KMEANS_THREADS)
    kmeans_pass(const __grid_constant__ KmeansPassArguments args) {
    GALATEA_DYNAMIC_SHARED(memory);
    // The second word is set once the fit is done; it is the same for all threads, as updates are separate
    // launches.
    if (args.state != nullptr && args.state[1] != 0) return;
    kmeans_pass_over(args, memory);
}
