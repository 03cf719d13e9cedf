//! The driver functions: argument checks and bookkeeping before calls to devices, streams, memory and
//! modules.
//!
//! Parameters that are enumerations in the driver's headers are plain integers here, so that an unknown value
//! is an error and not undefined behaviour. Handles are numbers, see [`crate::handles`].

pub(crate) mod context;
pub(crate) mod error;
pub(crate) mod kernel;
pub(crate) mod memory;
pub(crate) mod query;
pub(crate) mod stream;

use std::cell::Cell;
use std::sync::Arc;

use cudarc::driver::sys::CUresult;

use crate::compiler::{Mode, Options};
use crate::context::Context;
use crate::options::EmulatorOptions;

pub(crate) type Outcome = Result<(), CUresult>;
/// A context, stream, event, module or function handle.
pub(crate) type Handle = usize;

thread_local! {
    /// Handle of the calling thread's current context.
    static CURRENT: Cell<Handle> = const { Cell::new(0) };
}

/// Base of context handles; the ordinal times 16 is added.
const CONTEXT_BASE: Handle = 0x6a1a_0000;

/// Runs the body of a driver function.
pub(crate) fn answer(body: impl FnOnce() -> Outcome) -> CUresult {
    body().err().unwrap_or(CUresult::CUDA_SUCCESS)
}

/// Writes through a pointer of the caller.
pub(crate) unsafe fn write<T>(to: *mut T, value: T) -> Outcome {
    if to.is_null() {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: not null, and the caller's promise.
    unsafe { to.write(value) };
    Ok(())
}

pub(crate) fn handle_of(context: &Context) -> Handle {
    CONTEXT_BASE + 16 * context.ordinal as usize
}

pub(crate) fn context_of(handle: Handle) -> Option<Arc<Context>> {
    let offset = handle.checked_sub(CONTEXT_BASE)?;
    if offset % 16 != 0 {
        return None;
    }
    Context::get(i32::try_from(offset / 16).ok()?)
}

pub(crate) fn set_current(context: Handle) {
    CURRENT.set(context);
}

pub(crate) fn current() -> Handle {
    CURRENT.get()
}

/// The calling thread's current context.
pub(crate) fn current_context() -> Result<Arc<Context>, CUresult> {
    context_of(CURRENT.get()).ok_or(CUresult::CUDA_ERROR_INVALID_CONTEXT)
}

/// The calling thread's current context, if it is not lost.
pub(crate) fn usable_context() -> Result<Arc<Context>, CUresult> {
    let context = current_context()?;
    context.check()?;
    Ok(context)
}

/// Default options of a compilation: the settings of the current context's device.
pub(crate) fn current_options() -> Options {
    current_context().map_or_else(
        |_| Options::default(),
        |context| compile_defaults(context.options()),
    )
}

fn compile_defaults(options: &EmulatorOptions) -> Options {
    let mode = Mode {
        stress: options.stress,
        count: options.count,
        races: options.races,
        address_sanitizer: options.address_sanitizer,
    };
    let mut defaults = Options::default();
    defaults.mode = mode;
    defaults.compiler.clone_from(&options.cxx);
    defaults.cache.clone_from(&options.cache_directory);
    defaults
}
