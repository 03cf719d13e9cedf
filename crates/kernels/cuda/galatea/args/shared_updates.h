// Arguments of the kernel shared_updates.
#pragma once

#include "galatea/prelude.cuh"

namespace galatea {

struct SharedUpdatesArguments {
    u64* total;   // added to it: the sum of what all threads added
    u64 updates;  // by each thread; with two added each time by every thread of a block, less than 2^31
    u64 lanes;    // lanes of a warp that meet in a bank, a power of two
    u64 same;     // 1 where they meet in one word, 0 where in different ones
    u64 differ;   // 1 where increments differ: 1 and 2 in turn; 0 where they are the constant 1
    u64 waits;    // 1 where an update waits for what the one before returned
};

}  // namespace galatea
