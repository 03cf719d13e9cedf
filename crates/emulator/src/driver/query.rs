//! Attributes of a device.

use std::ffi::{c_char, c_int};

use cudarc::driver::sys::{CUdevice_attribute as Attribute, CUresult, CUuuid};

use super::{answer, write};
use crate::context::Context;
use crate::device::Device;
use crate::launch::{RESERVED_SHARED, THREADS_PER_MULTIPROCESSOR, shared_per_multiprocessor};
use crate::module::SHARED_WITHOUT_OPT_IN;
use crate::random::mix;

pub(crate) unsafe extern "C" fn count(count: *mut c_int) -> CUresult {
    // SAFETY: the caller's pointer.
    answer(|| unsafe { write(count, Context::count()) })
}

pub(crate) unsafe extern "C" fn get(device: *mut c_int, ordinal: c_int) -> CUresult {
    answer(|| {
        Context::get(ordinal).ok_or(CUresult::CUDA_ERROR_INVALID_DEVICE)?;
        // SAFETY: the caller's pointer.
        unsafe { write(device, ordinal) }
    })
}

pub(crate) unsafe extern "C" fn name(buffer: *mut c_char, length: c_int, device: c_int) -> CUresult {
    answer(|| {
        Context::get(device).ok_or(CUresult::CUDA_ERROR_INVALID_DEVICE)?;
        let room = usize::try_from(length).unwrap_or(0);
        if buffer.is_null() || room == 0 {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let name = b"Galatea emulated device";
        let kept = name.len().min(room - 1);
        // SAFETY: the caller's buffer has `length` bytes.
        unsafe {
            std::ptr::copy_nonoverlapping(name.as_ptr(), buffer.cast(), kept);
            buffer.add(kept).write(0);
        }
        Ok(())
    })
}

pub(crate) unsafe extern "C" fn uuid(uuid: *mut CUuuid, device: c_int) -> CUresult {
    answer(|| {
        Context::get(device).ok_or(CUresult::CUDA_ERROR_INVALID_DEVICE)?;
        let words = [mix(device as u64), mix(!(device as u64))];
        let mut bytes = [0; 16];
        for (byte, value) in bytes
            .iter_mut()
            .zip(words.iter().flat_map(|word| word.to_le_bytes()))
        {
            *byte = value as c_char;
        }
        // SAFETY: the caller's pointer.
        unsafe { write(uuid, CUuuid { bytes }) }
    })
}

pub(crate) unsafe extern "C" fn total_memory(bytes: *mut usize, device: c_int) -> CUresult {
    answer(|| {
        let context = Context::get(device).ok_or(CUresult::CUDA_ERROR_INVALID_DEVICE)?;
        // SAFETY: the caller's pointer.
        unsafe { write(bytes, context.memory.limit() as usize) }
    })
}

pub(crate) unsafe extern "C" fn attribute(value: *mut c_int, attribute: u32, device: c_int) -> CUresult {
    answer(|| {
        let context = Context::get(device).ok_or(CUresult::CUDA_ERROR_INVALID_DEVICE)?;
        // SAFETY: the caller's pointer.
        unsafe { write(value, value_of(&context, attribute)) }
    })
}

/// Returns an attribute: by the options, else like that of a Hopper GPU. Unknown attributes are 0.
fn value_of(device: &Device, attribute: u32) -> c_int {
    use Attribute::*;
    let options = device.options();
    let table: &[(Attribute, i64)] = &[
        (CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024),
        (CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024),
        (CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024),
        (CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64),
        (CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, i64::from(i32::MAX)),
        (CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535),
        (CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535),
        (
            CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK,
            i64::from(SHARED_WITHOUT_OPT_IN.min(options.shared_memory_per_block)),
        ),
        (
            CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
            i64::from(options.shared_memory_per_block),
        ),
        (
            CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR,
            i64::from(shared_per_multiprocessor(device)),
        ),
        (
            CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK,
            i64::from(RESERVED_SHARED),
        ),
        (CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 65536),
        (CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32),
        (CU_DEVICE_ATTRIBUTE_MAX_PITCH, i64::from(i32::MAX)),
        (CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536),
        (CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 65536),
        (CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1_000_000),
        (CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 1_000_000),
        (CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 512),
        (CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 4 << 20),
        (CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, 512),
        (CU_DEVICE_ATTRIBUTE_GPU_OVERLAP, 1),
        (
            CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
            i64::from(options.multiprocessors),
        ),
        (CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1),
        (CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1),
        (CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 2),
        (CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1),
        (CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1),
        (CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 1),
        (CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, 0),
        (
            CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH,
            i64::from(!options.address_sanitizer),
        ),
        (CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1),
        (CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1),
        (CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 1),
        (CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1),
        (
            CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR,
            i64::from(THREADS_PER_MULTIPROCESSOR),
        ),
        (
            CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR,
            i64::from(options.max_resident_blocks),
        ),
        (CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9),
        (CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0),
        (CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, i64::from(device.ordinal)),
    ];
    table
        .iter()
        .find(|(known, _)| *known as u32 == attribute)
        .map_or(0, |&(_, value)| value as c_int)
}
