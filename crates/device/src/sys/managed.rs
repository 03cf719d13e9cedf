//! The driver's functions for managed memory: a table of its own, since only measurements need them.

use std::ffi::c_uint;
use std::sync::OnceLock;

use cudarc::driver::sys::{CUdeviceptr, CUmemLocation, CUstream};

use super::Backend;

super::function_table! {
    /// Functions for managed memory; prefetching to a location is CUDA 12.2's.
    Managed {
        cuMemAllocManaged: fn(*mut CUdeviceptr, usize, c_uint);
        cuMemFree_v2: fn(CUdeviceptr);
        cuMemPrefetchAsync_v2: fn(CUdeviceptr, usize, CUmemLocation, c_uint, CUstream);
    }
}

impl Managed {
    /// The table of a backend; `None` where its library lacks one of the functions.
    pub(crate) fn get(backend: Backend) -> Option<&'static Self> {
        static GPU: OnceLock<Option<Managed>> = OnceLock::new();
        static EMULATED: OnceLock<Option<Managed>> = OnceLock::new();
        let table = match backend {
            Backend::Gpu => GPU.get_or_init(|| {
                let library = super::library::open("libcuda.so.1".as_ref()).ok()?;
                // SAFETY: libcuda.so.1 is NVIDIA's driver, so its symbols are its functions; it is never
                // unloaded.
                let table = unsafe { Self::resolve(&|name| super::library::symbol(&library, name)) }.ok();
                std::mem::forget(library);
                table
            }),
            Backend::Emulated => EMULATED.get_or_init(|| {
                let resolver = super::emulator_resolver().ok()?;
                // SAFETY: the emulator's functions have the driver's signatures and are part of this program.
                unsafe { Self::resolve(&resolver) }.ok()
            }),
        };
        table.as_ref()
    }
}
