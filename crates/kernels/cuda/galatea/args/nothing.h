// Arguments of the kernel nothing.
#pragma once

#include "galatea/prelude.cuh"

namespace galatea {

struct NothingArguments {
    u64 unused;  // a struct has at least one field
};

}  // namespace galatea
