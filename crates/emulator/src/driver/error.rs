//! `cuGetErrorName` and `cuGetErrorString`.

use std::ffi::{CStr, c_char};

use cudarc::driver::sys::CUresult;

use super::{answer, write};

macro_rules! known {
    ($($name:ident: $text:literal,)*) => {
        /// Name and description of an error.
        fn describe(code: u32) -> Option<(&'static CStr, &'static CStr)> {
            const SUCCESS: u32 = CUresult::CUDA_SUCCESS as u32;
            match code {
                SUCCESS => Some((c"CUDA_SUCCESS", c"no error")),
                $(code if code == CUresult::$name as u32 => {
                    const NAME: &CStr =
                        match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                            Ok(name) => name,
                            Err(_) => panic!("a name without a zero byte"),
                        };
                    Some((NAME, $text))
                })*
                _ => None,
            }
        }
    };
}

known! {
    CUDA_ERROR_INVALID_VALUE: c"invalid argument",
    CUDA_ERROR_OUT_OF_MEMORY: c"out of memory",
    CUDA_ERROR_NOT_INITIALIZED: c"initialization error",
    CUDA_ERROR_NO_DEVICE: c"no CUDA-capable device is detected",
    CUDA_ERROR_INVALID_DEVICE: c"invalid device ordinal",
    CUDA_ERROR_INVALID_IMAGE: c"device kernel image is invalid",
    CUDA_ERROR_INVALID_CONTEXT: c"invalid device context",
    CUDA_ERROR_NO_BINARY_FOR_GPU: c"no kernel image is available for execution on the device",
    CUDA_ERROR_INVALID_HANDLE: c"invalid resource handle",
    CUDA_ERROR_NOT_FOUND: c"named symbol not found",
    CUDA_ERROR_NOT_READY: c"device not ready",
    CUDA_ERROR_ILLEGAL_ADDRESS: c"an illegal memory access was encountered",
    CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES: c"too many resources requested for launch",
    CUDA_ERROR_LAUNCH_TIMEOUT: c"the launch timed out and was terminated",
    CUDA_ERROR_ASSERT: c"device-side assert triggered",
    CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED: c"part or all of the requested memory range is already mapped",
    CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED: c"pointer does not correspond to a registered memory region",
    CUDA_ERROR_LAUNCH_FAILED: c"unspecified launch failure",
    CUDA_ERROR_OPERATING_SYSTEM: c"OS call failed or operation not supported on this OS",
    CUDA_ERROR_NOT_SUPPORTED: c"operation not supported",
    CUDA_ERROR_UNKNOWN: c"unknown error",
}

pub(crate) unsafe extern "C" fn name(code: u32, text: *mut *const c_char) -> CUresult {
    answer(|| {
        let (name, _) = describe(code).ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        // SAFETY: the caller's pointer.
        unsafe { write(text, name.as_ptr()) }
    })
}

pub(crate) unsafe extern "C" fn string(code: u32, text: *mut *const c_char) -> CUresult {
    answer(|| {
        let (_, string) = describe(code).ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        // SAFETY: the caller's pointer.
        unsafe { write(text, string.as_ptr()) }
    })
}
