//! The driver's functions for mapping memory, in a separate table, since only measurements need them.

use cudarc::driver::sys::{
    CUdeviceptr, CUmemAccessDesc, CUmemAllocationGranularity_flags, CUmemAllocationProp,
    CUmemGenericAllocationHandle,
};

super::function_table! {
    /// Functions for ranges of addresses with separately allocated pages.
    Mapping {
        cuMemGetAllocationGranularity: fn(*mut usize, *const CUmemAllocationProp, CUmemAllocationGranularity_flags);
        cuMemAddressReserve: fn(*mut CUdeviceptr, usize, usize, CUdeviceptr, u64);
        cuMemAddressFree: fn(CUdeviceptr, usize);
        cuMemCreate: fn(*mut CUmemGenericAllocationHandle, usize, *const CUmemAllocationProp, u64);
        cuMemRelease: fn(CUmemGenericAllocationHandle);
        cuMemMap: fn(CUdeviceptr, usize, usize, CUmemGenericAllocationHandle, u64);
        cuMemUnmap: fn(CUdeviceptr, usize);
        cuMemSetAccess: fn(CUdeviceptr, usize, *const CUmemAccessDesc, usize);
    }
}

super::optional_table! { Mapping }
