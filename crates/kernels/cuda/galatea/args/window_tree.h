// Arguments of the kernel window_tree.
#pragma once

#include "galatea/prelude.cuh"

namespace galatea {

// How nodes are folded; host twin: `Fold` of crates/kernels/src/kernels/window_tree.rs.
enum class WindowFold : u32 {
    SumF64, // doubles
    Max64,  // u64
    Max128, // u128
};

struct WindowTreeArguments {
    const u8* below; // a level of the tree
    u8* above;       // receives the level above it
    u64 nodes;       // of the level below
    WindowFold fold;
    u32 unused; // fills the struct
};

}  // namespace galatea
