//! CUDA C++ headers by scope, and one Rust type per hand-written kernel.
