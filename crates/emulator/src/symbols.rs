//! The emulated functions by their driver and NVRTC names.

use std::ffi::c_void;

use crate::driver::{context, error, kernel, memory, query, stream};
use crate::nvrtc;

macro_rules! table {
    ($($name:literal => $function:path,)*) => {
        /// The emulated version of the driver or NVRTC function called `name`, with its C signature.
        ///
        /// Cast the result to the function's type in `cudarc::driver::sys` or `cudarc::nvrtc::sys`. `None`
        /// for functions that are not emulated, and for every name on unsupported platforms.
        #[must_use]
        pub fn symbol(name: &str) -> Option<*const c_void> {
            match name {
                $($name => Some($function as *const c_void),)*
                _ => None,
            }
        }

        /// Every name that [`symbol`] finds.
        #[cfg(test)]
        const NAMES: &[&str] = &[$($name),*];
    };
}

table! {
    "cuInit" => context::init,
    "cuDriverGetVersion" => context::driver_version,
    "cuDeviceGetCount" => query::count,
    "cuDeviceGet" => query::get,
    "cuDeviceGetName" => query::name,
    "cuDeviceGetUuid_v2" => query::uuid,
    "cuDeviceGetAttribute" => query::attribute,
    "cuDeviceTotalMem_v2" => query::total_memory,
    "cuDevicePrimaryCtxRetain" => context::retain,
    "cuDevicePrimaryCtxRelease_v2" => context::release,
    "cuCtxSetCurrent" => context::set,
    "cuCtxGetCurrent" => context::get,
    "cuCtxSynchronize" => context::synchronize,
    "cuMemGetInfo_v2" => memory::info,
    "cuMemAlloc_v2" => memory::alloc,
    "cuMemFree_v2" => memory::free,
    "cuMemAllocManaged" => memory::alloc_managed,
    "cuMemPrefetchAsync_v2" => memory::prefetch,
    "cuMemAllocAsync" => memory::alloc_async,
    "cuMemFreeAsync" => memory::free_async,
    "cuDeviceGetDefaultMemPool" => memory::default_pool,
    "cuMemPoolSetAttribute" => memory::pool_set,
    "cuMemPoolGetAttribute" => memory::pool_get,
    "cuMemPoolTrimTo" => memory::pool_trim,
    "cuMemHostRegister_v2" => memory::host_register,
    "cuMemHostUnregister" => memory::host_unregister,
    "cuMemHostGetDevicePointer_v2" => memory::host_device_pointer,
    "cuMemcpyHtoDAsync_v2" => memory::to_device,
    "cuMemcpyDtoHAsync_v2" => memory::to_host,
    "cuMemcpyDtoDAsync_v2" => memory::within_device,
    "cuMemcpyBatchAsync_v2" => memory::batch,
    "cuMemsetD8Async" => memory::set_bytes,
    "cuMemsetD32Async" => memory::set_words,
    "cuStreamCreateWithPriority" => stream::create,
    "cuStreamDestroy_v2" => stream::destroy,
    "cuStreamSynchronize" => stream::synchronize,
    "cuStreamQuery" => stream::query,
    "cuStreamWaitEvent" => stream::wait_event,
    "cuStreamWriteValue32_v2" => stream::write_value,
    "cuLaunchHostFunc" => stream::host_function,
    "cuEventCreate" => stream::event_create,
    "cuEventDestroy_v2" => stream::event_destroy,
    "cuEventRecord" => stream::event_record,
    "cuEventSynchronize" => stream::event_synchronize,
    "cuEventQuery" => stream::event_query,
    "cuEventElapsedTime_v2" => stream::event_elapsed,
    "cuModuleLoadData" => kernel::load,
    "cuModuleUnload" => kernel::unload,
    "cuModuleGetFunction" => kernel::function,
    "cuFuncSetAttribute" => kernel::set_attribute,
    "cuFuncGetAttribute" => kernel::get_attribute,
    "cuOccupancyMaxActiveBlocksPerMultiprocessor" => kernel::occupancy,
    "cuLaunchKernel" => kernel::launch,
    "cuLaunchCooperativeKernel" => kernel::launch_cooperative,
    "cuGetErrorName" => error::name,
    "cuGetErrorString" => error::string,
    "nvrtcVersion" => nvrtc::version,
    "nvrtcCreateProgram" => nvrtc::create,
    "nvrtcDestroyProgram" => nvrtc::destroy,
    "nvrtcCompileProgram" => nvrtc::compile,
    "nvrtcGetCUBINSize" => nvrtc::cubin_size,
    "nvrtcGetCUBIN" => nvrtc::cubin,
    "nvrtcGetProgramLogSize" => nvrtc::log_size,
    "nvrtcGetProgramLog" => nvrtc::log,
    "nvrtcGetErrorString" => nvrtc::error_string,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn driver_symbols_are_distinct() {
        let functions: std::collections::BTreeSet<_> = NAMES.iter().filter_map(|name| symbol(name)).collect();
        assert_eq!(functions.len(), NAMES.len());
        assert_eq!(symbol("cuCtxCreate_v2"), None);
    }
}
