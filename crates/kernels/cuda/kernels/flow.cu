// Grid scope. The smallest topology's operators: one that copies its frames. Generated ones have this frame,
// this entry and these headers; galatea-flow writes the bodies (galatea_flow::GpuOperator).
#include "galatea/flow/run.cuh"

using namespace galatea;

struct Bodies {
    GALATEA_INLINE static void begin() {}
    GALATEA_INLINE static void compute(u32, Work& work) {
        map<u32, u32>(work, [](u32 value, u32) { return value; });
    }
};

extern "C" __global__ void __launch_bounds__(1024, 1) flow(const FlowArguments args) { run<Bodies>(args); }
