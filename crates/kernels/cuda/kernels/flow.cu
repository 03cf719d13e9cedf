// Grid scope. The operators of the smallest topology: one that copies its frames. Generated kernels have the
// same structure, entry point and headers; galatea-flow generates the bodies (galatea_flow::GpuOperator).
#include "galatea/flow/run.cuh"

using namespace galatea;

struct Bodies {
    GALATEA_INLINE static void begin() {}
    GALATEA_INLINE static void compute(u32, Work& work) {
        map<u32, u32>(work, [](u32 value, u32) { return value; });
    }
};

extern "C" __global__ void __launch_bounds__(1024, 1) flow(const FlowArguments args) { run<Bodies>(args); }
