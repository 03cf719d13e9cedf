//! The functions of the driver that are called.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

use cudarc::driver::sys::{
    CUcontext, CUdevice, CUdevice_attribute, CUdeviceptr, CUevent, CUfunction, CUfunction_attribute,
    CUmemPool_attribute, CUmemoryPool, CUmodule, CUresult, CUstream, CUuuid,
};

use super::{Backend, Code};
use crate::errors::{DeviceError, Missing};
use crate::retry::{RETRY, Retried};

super::function_table! {
    /// Functions of the CUDA driver, in the order of its manual.
    Driver {
        cuInit: fn(c_uint);
        cuDriverGetVersion: fn(*mut c_int);
        cuDeviceGetCount: fn(*mut c_int);
        cuDeviceGet: fn(*mut CUdevice, c_int);
        cuDeviceGetName: fn(*mut c_char, c_int, CUdevice);
        cuDeviceGetUuid_v2: fn(*mut CUuuid, CUdevice);
        cuDeviceGetAttribute: fn(*mut c_int, CUdevice_attribute, CUdevice);
        cuDeviceTotalMem_v2: fn(*mut usize, CUdevice);
        cuDevicePrimaryCtxRetain: fn(*mut CUcontext, CUdevice);
        cuDevicePrimaryCtxRelease_v2: fn(CUdevice);
        cuCtxSetCurrent: fn(CUcontext);
        cuCtxGetCurrent: fn(*mut CUcontext);
        cuCtxSynchronize: fn();
        cuMemGetInfo_v2: fn(*mut usize, *mut usize);
        cuMemAlloc_v2: fn(*mut CUdeviceptr, usize);
        cuMemFree_v2: fn(CUdeviceptr);
        cuMemAllocAsync: fn(*mut CUdeviceptr, usize, CUstream);
        cuMemFreeAsync: fn(CUdeviceptr, CUstream);
        cuDeviceGetDefaultMemPool: fn(*mut CUmemoryPool, CUdevice);
        cuMemPoolSetAttribute: fn(CUmemoryPool, CUmemPool_attribute, *mut c_void);
        cuMemPoolGetAttribute: fn(CUmemoryPool, CUmemPool_attribute, *mut c_void);
        cuMemPoolTrimTo: fn(CUmemoryPool, usize);
        cuMemHostRegister_v2: fn(*mut c_void, usize, c_uint);
        cuMemHostUnregister: fn(*mut c_void);
        cuMemHostGetDevicePointer_v2: fn(*mut CUdeviceptr, *mut c_void, c_uint);
        cuMemcpyHtoDAsync_v2: fn(CUdeviceptr, *const c_void, usize, CUstream);
        cuMemcpyDtoHAsync_v2: fn(*mut c_void, CUdeviceptr, usize, CUstream);
        cuMemcpyDtoDAsync_v2: fn(CUdeviceptr, CUdeviceptr, usize, CUstream);
        cuMemsetD8Async: fn(CUdeviceptr, u8, usize, CUstream);
        cuStreamCreateWithPriority: fn(*mut CUstream, c_uint, c_int);
        cuStreamDestroy_v2: fn(CUstream);
        cuStreamSynchronize: fn(CUstream);
        cuStreamQuery: fn(CUstream);
        cuStreamWaitEvent: fn(CUstream, CUevent, c_uint);
        cuStreamWriteValue32_v2: fn(CUstream, CUdeviceptr, u32, c_uint);
        cuEventCreate: fn(*mut CUevent, c_uint);
        cuEventDestroy_v2: fn(CUevent);
        cuEventRecord: fn(CUevent, CUstream);
        cuEventSynchronize: fn(CUevent);
        cuEventQuery: fn(CUevent);
        cuEventElapsedTime_v2: fn(*mut f32, CUevent, CUevent);
        cuModuleLoadData: fn(*mut CUmodule, *const c_void);
        cuModuleUnload: fn(CUmodule);
        cuModuleGetFunction: fn(*mut CUfunction, CUmodule, *const c_char);
        cuFuncSetAttribute: fn(CUfunction, CUfunction_attribute, c_int);
        cuFuncGetAttribute: fn(*mut c_int, CUfunction_attribute, CUfunction);
        cuOccupancyMaxActiveBlocksPerMultiprocessor: fn(*mut c_int, CUfunction, c_int, usize);
        cuLaunchKernel: fn(
            CUfunction, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, CUstream, *mut *mut c_void, *mut *mut c_void,
        );
        cuLaunchCooperativeKernel: fn(
            CUfunction, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, CUstream, *mut *mut c_void,
        );
        cuGetErrorName: fn(c_uint, *mut *const c_char);
        cuGetErrorString: fn(c_uint, *mut *const c_char);
    }
}

const LIBRARY: &str = "libcuda.so.1";
const WHAT: &str = "CUDA driver";
const REMEDY: &str =
    "install NVIDIA's driver (580 or later for CUDA 13; inside a container, run it with GPU access)";

impl Driver {
    /// Returns the table of a backend, bound and initialised on first use. A missing driver is searched again
    /// after [`RETRY`].
    pub(crate) fn get(backend: Backend) -> Result<&'static Self, Missing> {
        static GPU: Retried<Driver, Missing> = Retried::new(RETRY);
        static EMULATED: Retried<Driver, Missing> = Retried::new(RETRY);
        match backend {
            Backend::Gpu => GPU.get(Self::load),
            Backend::Emulated => EMULATED.get(|| {
                let resolver = super::emulator_resolver()?;
                // SAFETY: the emulator's functions have the driver's signatures and are part of this program.
                unsafe { Self::bind(&resolver) }
            }),
        }
    }

    /// Whether the library is installed.
    pub(crate) fn is_installed() -> bool {
        static INSTALLED: Retried<(), ()> = Retried::new(RETRY);
        let open = || {
            let library = super::library::open(LIBRARY.as_ref()).map_err(drop)?;
            // It is never unloaded, see `load`.
            std::mem::forget(library);
            Ok(())
        };
        INSTALLED.get(open).is_ok()
    }

    fn load() -> Result<Self, Missing> {
        let library = super::library::open(LIBRARY.as_ref())
            .map_err(|error| missing(super::library::reason(&error)))?;
        // SAFETY: libcuda.so.1 is NVIDIA's driver, so its symbols are its functions; it is never unloaded.
        let driver = unsafe {
            Self::bind(&|name| {
                super::library::symbol(&library, name).or_else(|| match name {
                    // The name of the same function before 12.8.
                    "cuEventElapsedTime_v2" => super::library::symbol(&library, "cuEventElapsedTime"),
                    _ => None,
                })
            })
        };
        // Never unloaded: the tables live as long as the process, and a driver that failed to initialise may
        // have started threads.
        std::mem::forget(library);
        driver
    }

    /// # Safety
    /// That of [`Driver::resolve`].
    unsafe fn bind(resolver: &super::Resolver<'_>) -> Result<Self, Missing> {
        // SAFETY: the caller's contract.
        let driver = unsafe { Self::resolve(resolver) }
            .map_err(|name| missing(format!("its library has no function {name}: it is too old")))?;
        // SAFETY: no preconditions; 0 is the only flag value.
        let code = unsafe { (driver.cuInit)(0) };
        if code == Code::SUCCESS {
            return Ok(driver);
        }
        let (name, text) = driver.describe(code);
        let reason = if code.is(CUresult::CUDA_ERROR_NO_DEVICE) {
            "it finds no GPU".to_owned()
        } else {
            format!("it does not initialise: {name}: {text}")
        };
        Err(missing(reason))
    }

    /// Checks the result of a call that belongs to no context.
    pub(crate) fn check(&self, call: &'static str, code: Code) -> Result<(), DeviceError> {
        if code == Code::SUCCESS {
            Ok(())
        } else {
            Err(self.error(call, code))
        }
    }

    /// The error of a failed call, with the driver's description.
    pub(crate) fn error(&self, call: &'static str, code: Code) -> DeviceError {
        let (name, text) = self.describe(code);
        DeviceError::Driver {
            call,
            code: code.0,
            name,
            text,
        }
    }

    /// Name and description of a code, from the driver.
    pub(crate) fn describe(&self, code: Code) -> (String, String) {
        let text = |function: unsafe extern "C" fn(c_uint, *mut *const c_char) -> Code| {
            let mut pointer = std::ptr::null();
            // SAFETY: `pointer` is valid for a write.
            let found = unsafe { function(code.0, &raw mut pointer) };
            if found != Code::SUCCESS || pointer.is_null() {
                return None;
            }
            // SAFETY: the driver returns a static, terminated string.
            Some(unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned())
        };
        (
            text(self.cuGetErrorName).unwrap_or_else(|| format!("CUresult {}", code.0)),
            text(self.cuGetErrorString).unwrap_or_else(|| "unknown to this driver".to_owned()),
        )
    }
}

fn missing(reason: String) -> Missing {
    Missing {
        what: WHAT,
        reason,
        remedy: REMEDY,
    }
}
