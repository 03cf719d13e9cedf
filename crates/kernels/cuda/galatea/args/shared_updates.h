// Arguments of the kernel shared_updates.
#pragma once

#include "galatea/prelude.cuh"

namespace galatea {

struct SharedUpdatesArguments {
    u64* total;   // added to it: the sum of the increments of all threads
    u64 updates;  // per thread; with at most two added by every thread of a block each time, less than 2^31
    u64 lanes;    // lanes of a warp that conflict in a bank, a power of two
    u64 same;     // 1: they update the same word; 0: different words of the bank
    u64 differ;   // 1: increments are 1 and 2 in turn; 0: they are the constant 1
    u64 waits;    // 1: an update depends on the result of the one before
};

}  // namespace galatea
