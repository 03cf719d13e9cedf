// Arguments of the kernel text_ranks.
#pragma once

#include "galatea/prelude.cuh"

namespace galatea {

struct TextRanksArguments {
    const u64* places; // of texts, in their order
    u32* ranks;        // by place the rank
    u64 count;         // texts
};

}  // namespace galatea
