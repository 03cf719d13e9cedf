//! Device code by scope, and one Rust type per hand-written kernel.
//!
//! ```text
//!   cuda/galatea/prelude.cuh   fixed-width types, shared memory; includes nothing
//!     ├ link.cuh               words shared with the host: ordered loads and stores
//!     └ thread.cuh             one thread: vector loads, operators
//!       ├ windows.cuh          positions of a window's order: ranks, frames, folds over them
//!       └ warp.cuh             32 lanes: reduce, scan, append
//!         └ block.cuh          a block: reduce, scan, append
//!           ├ radix_sort.cuh   one digit of keys: ranks in a warp, counts of the tiles before
//!           ├ heap.cuh         pages for threads, warps and blocks; page_chain.cuh: rows into chains of pages
//!           └ flow/run.cuh     the loop of a persistent kernel; flow/topic.cuh: frames to and from the host
//!   cuda/galatea/args/*.h      one plain header per argument struct: the document of the boundary
//!   cuda/kernels/*.cu          one kernel each, `extern "C" __global__`, one by-value argument
//!   src/kernels/*.rs           its Rust type: argument struct, typed launch, geometry
//! ```
//!
//! The headers are embedded in the binary ([`HEADERS`]) and passed to the compiler from memory. [`KERNELS`]
//! lists every kernel with its argument layout; tests compare that list with the folders, compile each kernel
//! for `sm_80` and `sm_90` if NVRTC is found, compare each layout with its header on the emulated device, and
//! run each kernel there.

mod ahead;
mod calibrate;
pub mod flow;
mod group_table;
mod headers;
pub mod heap;
mod kernel;
mod kernels;
pub mod kmeans;
mod sort;

pub use ahead::query_programs;
pub use calibrate::{GroupingProbes, ReadRate, calibrate, calibration, measure};
pub use group_table::{GroupTableView, MergeWord, SlotLayout};
pub use headers::{HEADERS, headers};
pub use kernel::{Kernel, KernelEntry, KernelFunction};
pub use kernels::*;
pub use sort::{DIGIT_BITS, DIGIT_VALUES, KeyWidth};
