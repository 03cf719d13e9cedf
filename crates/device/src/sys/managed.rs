//! The driver's functions for managed memory: a table of its own, since only measurements need them.

use std::ffi::c_uint;

use cudarc::driver::sys::{CUdeviceptr, CUmemLocation, CUstream};

super::function_table! {
    /// Functions for managed memory; prefetching to a location is CUDA 12.2's.
    Managed {
        cuMemAllocManaged: fn(*mut CUdeviceptr, usize, c_uint);
        cuMemFree_v2: fn(CUdeviceptr);
        cuMemPrefetchAsync_v2: fn(CUdeviceptr, usize, CUmemLocation, c_uint, CUstream);
    }
}

super::optional_table! { Managed }
