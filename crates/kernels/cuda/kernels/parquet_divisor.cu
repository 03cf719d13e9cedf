// Grid scope. Finds the greatest common divisor of the differences between integers and the least one.
#include "galatea/args/parquet_divisor.h"
#include "galatea/block.cuh"

using namespace galatea;

namespace {

struct CommonDivisor {
    GALATEA_INLINE u64 operator()(u64 a, u64 b) const {
        while (b != 0) {
            const u64 rest = a % b;
            a = b;
            b = rest;
        }
        return a;
    }
    template <typename T> GALATEA_INLINE static constexpr T identity() { return T(0); }
};

}  // namespace

extern "C" __global__ void parquet_divisor(const __grid_constant__ ParquetDivisorArguments args) {
    __shared__ Scratch<u64> scratch;
    u64 divisor = 0;
    for (u64 row = grid_thread(); row < args.rows && divisor != 1; row += grid_threads()) {
        if (args.validity != nullptr && !(args.validity[row / 32] >> (row % 32) & 1)) continue;
        divisor = CommonDivisor{}(args.values[row * args.words] - args.base, divisor);
    }
    divisor = block_reduce(divisor, CommonDivisor{}, scratch);
    if (threadIdx.x == 0) args.divisors[blockIdx.x] = divisor;
}
