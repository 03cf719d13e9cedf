//! Allocation, host registration, copies and fills.

use std::ffi::{c_int, c_uchar, c_uint, c_void};

use cudarc::driver::sys::{CUmemLocation, CUmemPool_attribute as PoolAttribute, CUresult};

use super::stream::{self, push};
use super::{Handle, Outcome, answer, current_context, usable_context, write};
use crate::context::Context;
use crate::device::Device;
use crate::injection::DriverCall;
use crate::random::mix;
use crate::stream::{Operation, Stream};

/// Base of memory pool handles; the ordinal times 16 is added.
const POOL_BASE: Handle = 0x6a1b_0000;

pub(crate) unsafe extern "C" fn info(free: *mut usize, total: *mut usize) -> CUresult {
    answer(|| {
        let context = usable_context()?;
        let (used, _) = context.memory.used();
        // SAFETY: the caller's pointers.
        unsafe {
            write(free, context.memory.limit().saturating_sub(used) as usize)?;
            write(total, context.memory.limit() as usize)
        }
    })
}

/// Allocates. If memory is short, waits for pending frees first, beginning with those of `stream`.
fn allocate(device: &Device, bytes: usize, stream: Option<&Stream>) -> Result<u64, CUresult> {
    if bytes == 0 {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    let pattern = mix(device.seed() ^ bytes as u64);
    let attempt = || device.memory.allocate(bytes, pattern, stream.is_some());
    attempt()
        .or_else(|| {
            stream?.synchronize();
            attempt()
        })
        .or_else(|| {
            if !device.memory.has_dying() {
                return None;
            }
            Context::get(device.ordinal)?.synchronize();
            attempt()
        })
        .ok_or(CUresult::CUDA_ERROR_OUT_OF_MEMORY)
}

pub(crate) unsafe extern "C" fn alloc(address: *mut u64, bytes: usize) -> CUresult {
    answer(|| {
        let context = usable_context()?;
        context.admit(DriverCall::Allocate)?;
        // SAFETY: the caller's pointer.
        unsafe { write(address, allocate(&context, bytes, None)?) }
    })
}

/// Managed memory is ordinary memory: device memory is host memory here.
pub(crate) unsafe extern "C" fn alloc_managed(address: *mut u64, bytes: usize, _flags: c_uint) -> CUresult {
    // SAFETY: the caller's pointer.
    unsafe { alloc(address, bytes) }
}

/// Checks the range and the stream. No data has to move.
pub(crate) unsafe extern "C" fn prefetch(
    address: u64,
    bytes: usize,
    _location: CUmemLocation,
    _flags: c_uint,
    stream: Handle,
) -> CUresult {
    answer(|| {
        let stream = stream::find(stream)?;
        if stream.device().memory.usable(address, bytes) {
            stream.device().check()
        } else {
            Err(CUresult::CUDA_ERROR_INVALID_VALUE)
        }
    })
}

pub(crate) unsafe extern "C" fn free(address: u64) -> CUresult {
    answer(|| {
        // A lost context frees no memory, as on a GPU: kernels that still run may use it.
        let context = usable_context()?;
        if address == 0 {
            return Ok(());
        }
        if !context.memory.retire(address) {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        // As in CUDA, freeing waits for the device.
        context.synchronize();
        // Appended to a stream, so that all errors are reported in the same way.
        let stream = context.default_stream();
        push(&stream, Operation::Free(address))?;
        stream.synchronize();
        context.check()
    })
}

pub(crate) unsafe extern "C" fn alloc_async(address: *mut u64, bytes: usize, stream: Handle) -> CUresult {
    answer(|| {
        let stream = stream::find(stream)?;
        stream.device().admit(DriverCall::Allocate)?;
        // SAFETY: the caller's pointer.
        unsafe { write(address, allocate(stream.device(), bytes, Some(&stream))?) }
    })
}

pub(crate) unsafe extern "C" fn free_async(address: u64, stream: Handle) -> CUresult {
    answer(|| {
        let stream = stream::find(stream)?;
        // A lost context frees no memory, as on a GPU: kernels of other streams that still run may use it.
        stream.device().check()?;
        if address == 0 {
            return Ok(());
        }
        if !stream.device().memory.retire(address) {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        push(&stream, Operation::Free(address))
    })
}

pub(crate) unsafe extern "C" fn default_pool(pool: *mut Handle, device: c_int) -> CUresult {
    answer(|| {
        let context = Context::get(device).ok_or(CUresult::CUDA_ERROR_INVALID_DEVICE)?;
        // SAFETY: the caller's pointer.
        unsafe { write(pool, POOL_BASE + 16 * context.ordinal as usize) }
    })
}

fn context_of_pool(pool: Handle) -> Result<std::sync::Arc<Context>, CUresult> {
    pool.checked_sub(POOL_BASE)
        .filter(|offset| offset % 16 == 0)
        .and_then(|offset| Context::get(i32::try_from(offset / 16).ok()?))
        .ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)
}

/// Accepted without effect: freed memory is returned to the host at once.
pub(crate) unsafe extern "C" fn pool_set(pool: Handle, _attribute: u32, value: *mut c_void) -> CUresult {
    answer(|| {
        context_of_pool(pool)?;
        if value.is_null() {
            Err(CUresult::CUDA_ERROR_INVALID_VALUE)
        } else {
            Ok(())
        }
    })
}

pub(crate) unsafe extern "C" fn pool_get(pool: Handle, attribute: u32, value: *mut c_void) -> CUresult {
    const RESERVED: u32 = PoolAttribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT as u32;
    const RESERVED_HIGH: u32 = PoolAttribute::CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH as u32;
    const USED: u32 = PoolAttribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT as u32;
    const USED_HIGH: u32 = PoolAttribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH as u32;
    const THRESHOLD: u32 = PoolAttribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD as u32;
    answer(|| {
        let memory = &context_of_pool(pool)?.memory;
        let answer = match attribute {
            RESERVED | USED => memory.pooled(),
            RESERVED_HIGH | USED_HIGH => memory.used().1,
            THRESHOLD => 0,
            _ => return Err(CUresult::CUDA_ERROR_INVALID_VALUE),
        };
        // SAFETY: these attributes are 64-bit numbers.
        unsafe { write(value.cast::<u64>(), answer) }
    })
}

pub(crate) unsafe extern "C" fn pool_trim(pool: Handle, _keep: usize) -> CUresult {
    answer(|| context_of_pool(pool).map(drop))
}

pub(crate) unsafe extern "C" fn host_register(start: *mut c_void, bytes: usize, _flags: c_uint) -> CUresult {
    answer(|| {
        let context = usable_context()?;
        if start.is_null() || bytes == 0 {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        context.admit(DriverCall::RegisterHost)?;
        if context.memory.pinned_bytes().saturating_add(bytes as u64) > context.options().pinned_memory {
            return Err(CUresult::CUDA_ERROR_OUT_OF_MEMORY);
        }
        if context.memory.pin(start as u64, bytes) {
            Ok(())
        } else {
            Err(CUresult::CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED)
        }
    })
}

pub(crate) unsafe extern "C" fn host_unregister(start: *mut c_void) -> CUresult {
    answer(|| {
        let context = current_context()?;
        // Copies in flight may still use the memory.
        context.synchronize();
        if context.memory.unpin(start as u64) {
            Ok(())
        } else {
            Err(CUresult::CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED)
        }
    })
}

pub(crate) unsafe extern "C" fn host_device_pointer(
    address: *mut u64,
    start: *mut c_void,
    _flags: c_uint,
) -> CUresult {
    answer(|| {
        if !usable_context()?.memory.pinned(start as u64, 1) {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        // SAFETY: the caller's pointer.
        unsafe { write(address, start as u64) }
    })
}

/// Enqueues a copy. If the host memory is pageable, waits for the copy, as the driver does.
fn copy(to: u64, from: u64, bytes: usize, device: (bool, bool), stream: Handle) -> Outcome {
    let stream = stream::find(stream)?;
    let memory = &stream.device().memory;
    stream.device().admit(match device {
        (true, true) => DriverCall::CopyWithin,
        (true, false) => DriverCall::CopyToDevice,
        _ => DriverCall::CopyToHost,
    })?;
    if bytes == 0 {
        return Ok(());
    }
    let mut pageable = false;
    for (address, on_device) in [(to, device.0), (from, device.1)] {
        if address == 0 || on_device && !memory.usable(address, bytes) {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        pageable |= !on_device && !memory.pinned(address, bytes);
    }
    push(
        &stream,
        Operation::Copy {
            to,
            from,
            bytes,
            device,
        },
    )?;
    if pageable {
        stream.synchronize();
        stream.device().check()?;
    }
    Ok(())
}

/// Copies one range after the other. An address within device memory is a device address, any other a host
/// address.
pub(crate) unsafe extern "C" fn batch(
    to: *const u64,
    from: *const u64,
    bytes: *const usize,
    count: usize,
    _attributes: *const c_void,
    _attribute_indices: *const usize,
    _attribute_count: usize,
    stream: Handle,
) -> CUresult {
    answer(|| {
        if to.is_null() || from.is_null() || bytes.is_null() || count == 0 {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        for index in 0..count {
            // SAFETY: the caller's arrays have `count` values each.
            let (to, from, bytes) = unsafe { (*to.add(index), *from.add(index), *bytes.add(index)) };
            let found = stream::find(stream)?;
            let memory = &found.device().memory;
            let device = [to, from].map(|address| memory.usable(address, bytes));
            let pinned = [to, from].map(|address| memory.pinned(address, bytes));
            if (0..2).any(|side| !device[side] && !pinned[side]) {
                return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
            }
            copy(to, from, bytes, device.into(), stream)?;
        }
        Ok(())
    })
}

pub(crate) unsafe extern "C" fn to_device(
    to: u64,
    from: *const c_void,
    bytes: usize,
    stream: Handle,
) -> CUresult {
    answer(|| copy(to, from as u64, bytes, (true, false), stream))
}

pub(crate) unsafe extern "C" fn to_host(
    to: *mut c_void,
    from: u64,
    bytes: usize,
    stream: Handle,
) -> CUresult {
    answer(|| copy(to as u64, from, bytes, (false, true), stream))
}

pub(crate) unsafe extern "C" fn within_device(to: u64, from: u64, bytes: usize, stream: Handle) -> CUresult {
    answer(|| copy(to, from, bytes, (true, true), stream))
}

fn set(to: u64, value: u32, width: usize, count: usize, stream: Handle) -> Outcome {
    let stream = stream::find(stream)?;
    stream.device().admit(DriverCall::Fill)?;
    if count == 0 {
        return Ok(());
    }
    let bytes = count
        .checked_mul(width)
        .ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
    if !to.is_multiple_of(width as u64) || !stream.device().memory.usable(to, bytes) {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    push(
        &stream,
        Operation::Fill {
            to,
            value,
            width,
            count,
        },
    )
}

pub(crate) unsafe extern "C" fn set_bytes(to: u64, value: c_uchar, count: usize, stream: Handle) -> CUresult {
    answer(|| set(to, u32::from(value), 1, count, stream))
}

pub(crate) unsafe extern "C" fn set_words(to: u64, value: c_uint, count: usize, stream: Handle) -> CUresult {
    answer(|| set(to, value, 4, count, stream))
}
