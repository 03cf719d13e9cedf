//! Initialisation and primary contexts.

use std::ffi::{c_int, c_uint};

use cudarc::driver::sys::CUresult;

use super::{Handle, Outcome, answer, context_of, current, current_context, handle_of, set_current, write};
use crate::context::Context;

/// The reported driver version: CUDA 13.0.
const VERSION: c_int = 13000;

pub(crate) unsafe extern "C" fn init(_flags: c_uint) -> CUresult {
    crate::fault::install();
    CUresult::CUDA_SUCCESS
}

pub(crate) unsafe extern "C" fn driver_version(version: *mut c_int) -> CUresult {
    // SAFETY: the caller's pointer.
    answer(|| unsafe { write(version, VERSION) })
}

pub(crate) unsafe extern "C" fn retain(context: *mut Handle, device: c_int) -> CUresult {
    answer(|| {
        let found = Context::get(device).ok_or(CUresult::CUDA_ERROR_INVALID_DEVICE)?;
        // SAFETY: the caller's pointer.
        unsafe { write(context, handle_of(&found)) }?;
        found.retain();
        Ok(())
    })
}

pub(crate) unsafe extern "C" fn release(device: c_int) -> CUresult {
    answer(|| {
        let context = Context::get(device).ok_or(CUresult::CUDA_ERROR_INVALID_DEVICE)?;
        if context.release() {
            Ok(())
        } else {
            Err(CUresult::CUDA_ERROR_INVALID_CONTEXT)
        }
    })
}

pub(crate) unsafe extern "C" fn set(context: Handle) -> CUresult {
    answer(|| {
        if context != 0 && context_of(context).is_none() {
            return Err(CUresult::CUDA_ERROR_INVALID_CONTEXT);
        }
        set_current(context);
        Ok(())
    })
}

pub(crate) unsafe extern "C" fn get(context: *mut Handle) -> CUresult {
    // SAFETY: the caller's pointer.
    answer(|| unsafe { write(context, current()) })
}

pub(crate) unsafe extern "C" fn synchronize() -> CUresult {
    answer(|| -> Outcome {
        let context = current_context()?;
        context.synchronize();
        context.check()
    })
}
