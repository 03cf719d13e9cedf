// Arguments of the kernel radix_offsets.
#pragma once

#include "galatea/radix/tuples.cuh"

namespace galatea {

struct RadixOffsetsArguments {
    u32* counts;  // by block and partition; replaced by the position of the block's first tuple of it
    u32* starts;  // positions of partitions: `parts` + 1; if chunked, for each block and partition, + 1
    u32 blocks;
    u32 parts;
    u32 chunked;  // 1: the tuples of a block are contiguous; 0: those of a partition
    u32 unused;
};

}  // namespace galatea
