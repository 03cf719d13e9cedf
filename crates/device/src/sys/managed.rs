//! The driver's functions for managed memory, in a separate table, since only measurements need them.

use std::ffi::c_uint;

use cudarc::driver::sys::{CUdeviceptr, CUmemLocation, CUstream};

super::function_table! {
    /// Functions for managed memory. Prefetching to a location requires CUDA 12.2.
    Managed {
        cuMemAllocManaged: fn(*mut CUdeviceptr, usize, c_uint);
        cuMemFree_v2: fn(CUdeviceptr);
        cuMemPrefetchAsync_v2: fn(CUdeviceptr, usize, CUmemLocation, c_uint, CUstream);
    }
}

super::optional_table! { Managed }
