//! The driver's function for batches of copies, in a separate table, since drivers before CUDA 13 lack it.

use cudarc::driver::sys::{CUdeviceptr, CUmemcpyAttributes, CUstream};

super::function_table! {
    /// Batches of copies.
    Batch {
        cuMemcpyBatchAsync_v2: fn(
            *mut CUdeviceptr,
            *mut CUdeviceptr,
            *mut usize,
            usize,
            *mut CUmemcpyAttributes,
            *mut usize,
            usize,
            CUstream,
        );
    }
}

super::optional_table! { Batch }
