// Arguments of the kernel kmeans_masses.
#pragma once

#include "galatea/prelude.cuh"

namespace galatea {

struct KmeansMassesArguments {
    const unsigned char* labels;  // of KMEANS_LABELS bytes each; 16-byte aligned
    u64* masses;                  // [k]; added to
    u32* partials;                // [block][k], cleared; for partitioned global masses, else null
    u64 count;                    // labels
    u64 clusters;                 // k
};

}  // namespace galatea
