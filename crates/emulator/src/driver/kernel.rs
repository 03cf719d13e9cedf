//! Modules, functions and launches.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::Arc;

use cudarc::driver::sys::{CUfunction_attribute as Attribute, CUresult};
use parking_lot::Mutex;

use super::{Handle, answer, stream, usable_context, write};
use crate::abi::Dimensions;
use crate::block::RUNTIME;
use crate::handles::Handles;
use crate::image;
use crate::injection::DriverCall;
use crate::launch::{Launch, Parameters, resident_blocks};
use crate::module::{Function, LoadError, Module};
use crate::stream::Operation;

#[derive(Debug)]
struct Loaded {
    module: Module,
    /// Handles of its kernels that were returned to the caller.
    functions: Mutex<Vec<Handle>>,
}

static MODULES: Handles<Loaded> = Handles::new();
static FUNCTIONS: Handles<Function> = Handles::new();

pub(crate) unsafe extern "C" fn load(module: *mut Handle, bytes: *const c_void) -> CUresult {
    answer(|| {
        let context = usable_context()?;
        context.admit(DriverCall::LoadModule)?;
        if bytes.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        // SAFETY: the caller's image: one of ours, or bytes that do not begin like one.
        let bytes = unsafe { image::at(bytes.cast()) }.ok_or(CUresult::CUDA_ERROR_INVALID_IMAGE)?;
        let options = context.options();
        let loaded =
            Module::load(bytes, &RUNTIME, options.address_sanitizer || options.races).map_err(|error| {
                tracing::error!("emulated kernel image {error}");
                match error {
                    LoadError::Io(_) => CUresult::CUDA_ERROR_OPERATING_SYSTEM,
                    LoadError::Image | LoadError::Load(_) => CUresult::CUDA_ERROR_INVALID_IMAGE,
                }
            })?;
        let loaded = Loaded {
            module: loaded,
            functions: Mutex::default(),
        };
        // SAFETY: the caller's pointer.
        unsafe { write(module, MODULES.insert(Arc::new(loaded))) }
    })
}

pub(crate) unsafe extern "C" fn unload(module: Handle) -> CUresult {
    answer(|| {
        let loaded = MODULES
            .remove(module)
            .ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)?;
        for function in loaded.functions.lock().drain(..) {
            FUNCTIONS.remove(function);
        }
        Ok(())
    })
}

pub(crate) unsafe extern "C" fn function(
    function: *mut Handle,
    module: Handle,
    name: *const c_char,
) -> CUresult {
    answer(|| {
        let loaded = MODULES.get(module).ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)?;
        if name.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        // SAFETY: a C string.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
        let found = loaded
            .module
            .function(&name)
            .ok_or(CUresult::CUDA_ERROR_NOT_FOUND)?;
        let handle = FUNCTIONS.insert(Arc::clone(found));
        loaded.functions.lock().push(handle);
        // SAFETY: the caller's pointer.
        unsafe { write(function, handle) }
    })
}

fn find(function: Handle) -> Result<Arc<Function>, CUresult> {
    FUNCTIONS.get(function).ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)
}

pub(crate) unsafe extern "C" fn set_attribute(function: Handle, attribute: u32, value: c_int) -> CUresult {
    const MAX_DYNAMIC: u32 = Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES as u32;
    const CARVEOUT: u32 = Attribute::CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT as u32;
    answer(|| {
        let function = find(function)?;
        let context = usable_context()?;
        match attribute {
            MAX_DYNAMIC => {
                let bytes = u32::try_from(value).map_err(|_| CUresult::CUDA_ERROR_INVALID_VALUE)?;
                if bytes + function.static_shared() > context.options().shared_memory_per_block {
                    return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
                }
                function.set_max_dynamic(bytes);
                Ok(())
            }
            CARVEOUT => Ok(()),
            _ => Err(CUresult::CUDA_ERROR_INVALID_VALUE),
        }
    })
}

pub(crate) unsafe extern "C" fn get_attribute(
    value: *mut c_int,
    attribute: u32,
    function: Handle,
) -> CUresult {
    const MAX_THREADS: u32 = Attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK as u32;
    const SHARED: u32 = Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES as u32;
    const REGISTERS: u32 = Attribute::CU_FUNC_ATTRIBUTE_NUM_REGS as u32;
    const PTX: u32 = Attribute::CU_FUNC_ATTRIBUTE_PTX_VERSION as u32;
    const BINARY: u32 = Attribute::CU_FUNC_ATTRIBUTE_BINARY_VERSION as u32;
    const MAX_DYNAMIC: u32 = Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES as u32;
    answer(|| {
        let function = find(function)?;
        let answer = match attribute {
            MAX_THREADS => function.max_threads,
            SHARED => function.static_shared(),
            // Unknown without a GPU; a usual number.
            REGISTERS => 32,
            PTX | BINARY => 90,
            MAX_DYNAMIC => function.max_dynamic(),
            _ => 0,
        };
        // SAFETY: the caller's pointer.
        unsafe { write(value, answer as c_int) }
    })
}

pub(crate) unsafe extern "C" fn occupancy(
    blocks: *mut c_int,
    function: Handle,
    block: c_int,
    dynamic_shared: usize,
) -> CUresult {
    answer(|| {
        let function = find(function)?;
        let context = usable_context()?;
        let threads = u32::try_from(block).map_err(|_| CUresult::CUDA_ERROR_INVALID_VALUE)?;
        let fits = threads > 0
            && threads <= function.max_threads
            && dynamic_shared <= context.options().shared_memory_per_block as usize;
        let answer = if fits {
            resident_blocks(&context, &function, threads, dynamic_shared as u32)
        } else {
            0
        };
        // SAFETY: the caller's pointer.
        unsafe { write(blocks, answer as c_int) }
    })
}

pub(crate) unsafe extern "C" fn launch(
    function: Handle,
    grid_x: c_uint,
    grid_y: c_uint,
    grid_z: c_uint,
    block_x: c_uint,
    block_y: c_uint,
    block_z: c_uint,
    dynamic_shared: c_uint,
    stream: Handle,
    parameters: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> CUresult {
    answer(|| {
        if !extra.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let (grid, block) = (
            dimensions(grid_x, grid_y, grid_z),
            dimensions(block_x, block_y, block_z),
        );
        // SAFETY: the caller's pointers.
        unsafe { queue(function, grid, block, dynamic_shared, stream, parameters, false) }
    })
}

/// A launch with all blocks resident at the same time: they may wait for each other.
pub(crate) unsafe extern "C" fn launch_cooperative(
    function: Handle,
    grid_x: c_uint,
    grid_y: c_uint,
    grid_z: c_uint,
    block_x: c_uint,
    block_y: c_uint,
    block_z: c_uint,
    dynamic_shared: c_uint,
    stream: Handle,
    parameters: *mut *mut c_void,
) -> CUresult {
    answer(|| {
        let (grid, block) = (
            dimensions(grid_x, grid_y, grid_z),
            dimensions(block_x, block_y, block_z),
        );
        // SAFETY: the caller's pointers.
        unsafe { queue(function, grid, block, dynamic_shared, stream, parameters, true) }
    })
}

fn dimensions(x: c_uint, y: c_uint, z: c_uint) -> Dimensions {
    Dimensions { x, y, z }
}

/// # Safety
/// The driver's contract for `parameters`.
unsafe fn queue(
    function: Handle,
    grid: Dimensions,
    block: Dimensions,
    dynamic_shared: u32,
    stream: Handle,
    parameters: *mut *mut c_void,
    cooperative: bool,
) -> Result<(), CUresult> {
    let function = find(function)?;
    let stream = stream::find(stream)?;
    let device = stream.device();
    device.admit(DriverCall::Launch)?;
    let grid_fits = grid.x <= i32::MAX as u32 && grid.y <= 65535 && grid.z <= 65535;
    let block_fits = block.x <= 1024 && block.y <= 1024 && block.z <= 64 && block.volume() <= 1024;
    if grid.volume() == 0 || block.volume() == 0 || !grid_fits || !block_fits {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    if block.volume() > u64::from(function.max_threads) {
        return Err(CUresult::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    }
    let shared = dynamic_shared.saturating_add(function.static_shared());
    if dynamic_shared > function.max_dynamic() || shared > device.options().shared_memory_per_block {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    if !function.sizes.is_empty() && parameters.is_null() {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    if cooperative {
        if device.options().address_sanitizer {
            return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
        }
        let resident = resident_blocks(device, &function, block.volume() as u32, dynamic_shared);
        if grid.volume() > u64::from(resident) * u64::from(device.options().multiprocessors) {
            return Err(CUresult::CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
        }
    }
    // SAFETY: the driver's contract: one pointer per parameter of the kernel, each to a value of its type.
    let parameters = unsafe { Parameters::copy(&function.sizes, parameters) };
    let helpers = Arc::clone(stream.pool()) as _;
    let launch = Launch::new(
        device,
        helpers,
        &function,
        parameters,
        grid,
        block,
        dynamic_shared,
    );
    stream::push(&stream, Operation::Launch(launch))
}
