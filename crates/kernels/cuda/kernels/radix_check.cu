// Grid scope. Checks a partitioning: adds up a hash of all tuples, and counts those in a wrong partition. Of
// unpartitioned columns it only adds up the hashes.
#include "galatea/args/radix_check.h"

using namespace galatea;

extern "C" __global__ void __launch_bounds__(256) radix_check(const __grid_constant__ RadixCheckArguments args) {
    u64 sum = 0;
    u64 wrong = 0;
    for (u64 at = grid_thread(); at < args.count; at += grid_threads()) {
        Tuple tuple;
        if (args.keys != nullptr) {
            tuple = {args.keys[at], args.values[at]};
        } else {
            const u64* rows = args.rows;
            u64 row = at;
            if (args.pages != nullptr) {
                rows = reinterpret_cast<const u64*>(args.pages[at >> args.page_bits]);
                row = at & ((1ull << args.page_bits) - 1);
            }
            tuple = load_vector<2>(rows, row);
            // The last partition that starts at the tuple or before it.
            u32 low = 0;
            u32 high = args.lists;
            while (high - low > 1) {
                const u32 middle = (low + high) / 2;
                if (args.starts[middle] <= at) low = middle;
                else high = middle;
            }
            const u32 part = radix_part(tuple.item[0], args.raw, args.shift, args.bits);
            if (part != (low & ((1u << args.bits) - 1))) ++wrong;
        }
        sum += mix64(tuple.item[0] ^ mix64(tuple.item[1]));
    }
    sum = warp_reduce(sum, Sum{});
    wrong = warp_reduce(wrong, Sum{});
    if (lane() == 0) {
        atomicAdd(args.sums, sum);
        if (wrong != 0) atomicAdd(args.sums + 1, wrong);
    }
}
