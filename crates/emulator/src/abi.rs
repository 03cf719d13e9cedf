//! The structures shared with device code, mirrored from `cuda/runtime.h` and `cuda/export.h`.
//!
//! Loading a module that was compiled against another revision of them fails ([`REVISION`]). The layout
//! itself is asserted below, with the offsets that the System V rules give the C++ side.

use std::ffi::{c_char, c_void};
use std::mem::{offset_of, size_of};

/// Incremented whenever this file or its C++ counterpart changes.
pub(crate) const REVISION: u32 = 2;

/// Lanes of a warp.
pub(crate) const LANES: usize = 32;
/// Threads of the largest block.
pub(crate) const MAX_THREADS: usize = 1024;

/// Three dimensions, as CUDA's `uint3`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dimensions {
    pub(crate) x: u32,
    pub(crate) y: u32,
    pub(crate) z: u32,
}

impl Dimensions {
    /// The product of the three. For a block: its number of threads.
    pub(crate) fn volume(self) -> u64 {
        u64::from(self.x) * u64::from(self.y) * u64::from(self.z)
    }
}

/// `__galatea_block`: the fields of the running block that all its threads can read.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct BlockView {
    pub(crate) dynamic_shared: *mut u8,
    pub(crate) dynamic_bytes: u32,
    pub(crate) block_index: Dimensions,
    pub(crate) block_dim: Dimensions,
    pub(crate) grid_dim: Dimensions,
}

/// `__galatea_thread`: the part of a thread that device code reads.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct ThreadView {
    pub(crate) block: *mut BlockView,
    pub(crate) thread_index: Dimensions,
    pub(crate) lane: u32,
    pub(crate) spin_address: *const c_void,
    pub(crate) spin_value: u64,
    pub(crate) spin_count: u32,
    pub(crate) fuel: i32,
}

/// `__galatea_runtime`: the functions that device code calls.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Runtime {
    pub(crate) collective: unsafe extern "C" fn(u32, u32, u64, u32, *const c_char, u32) -> u64,
    pub(crate) barrier: unsafe extern "C" fn(u32, u32, u32, u32, *const c_char, u32) -> u32,
    pub(crate) pause: unsafe extern "C" fn(u32),
    pub(crate) stop: unsafe extern "C" fn(u32, *const c_char, *const c_char, u32),
    pub(crate) clock: unsafe extern "C" fn(u32) -> u64,
    pub(crate) access: unsafe extern "C" fn(*const c_void, u32, u32, *const c_void),
}

/// `__galatea_kernel`: one entry of a module.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct KernelEntry {
    pub(crate) name: *const c_char,
    pub(crate) run: unsafe extern "C" fn(*mut *mut c_void),
    pub(crate) sizes: *const u32,
    pub(crate) count: u32,
    /// From `__launch_bounds__`; 0 without.
    pub(crate) max_threads: u32,
}

/// `__galatea_module_table`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct ModuleTable {
    pub(crate) revision: u32,
    pub(crate) count: u32,
    pub(crate) kernels: *const KernelEntry,
}

const _: () = {
    assert!(size_of::<BlockView>() == 48);
    assert!(offset_of!(BlockView, block_index) == 12);
    assert!(offset_of!(BlockView, grid_dim) == 36);
    assert!(size_of::<ThreadView>() == 48);
    assert!(offset_of!(ThreadView, lane) == 20);
    assert!(offset_of!(ThreadView, spin_address) == 24);
    assert!(offset_of!(ThreadView, fuel) == 44);
    assert!(size_of::<KernelEntry>() == 32);
};

/// Kinds of [`Runtime::pause`].
pub(crate) mod pause {
    pub(crate) const SPIN: u32 = 0;
    pub(crate) const SLEEP: u32 = 1;
    pub(crate) const STRESS: u32 = 2;
    /// Inserted by the fault handler. Device code does not use it.
    pub(crate) const INTERRUPT: u32 = 3;
}

/// Kinds of [`Runtime::stop`].
pub(crate) mod stop {
    pub(crate) const ASSERT: u32 = 1;
}

/// Kinds of [`Runtime::access`].
pub(crate) mod access {
    pub(crate) const READ: u32 = 0;
    pub(crate) const WRITE: u32 = 1;
    pub(crate) const ATOMIC: u32 = 2;
    /// Through a pointer to volatile, if the instrumentation distinguishes it.
    pub(crate) const VOLATILE_READ: u32 = 3;
    pub(crate) const VOLATILE_WRITE: u32 = 4;
    /// A fence of the thread, not an access.
    pub(crate) const FENCE: u32 = 5;
}

/// Operations of [`Runtime::collective`].
pub(crate) mod collective {
    pub(crate) const SYNCWARP: u32 = 0;
    pub(crate) const SHFL: u32 = 1;
    pub(crate) const SHFL_UP: u32 = 2;
    pub(crate) const SHFL_DOWN: u32 = 3;
    pub(crate) const SHFL_XOR: u32 = 4;
    pub(crate) const BALLOT: u32 = 5;
    pub(crate) const ANY: u32 = 6;
    pub(crate) const ALL: u32 = 7;
    pub(crate) const MATCH_ANY: u32 = 8;
    pub(crate) const MATCH_ALL: u32 = 9;
    pub(crate) const REDUCE_ADD: u32 = 10;
    pub(crate) const REDUCE_MIN: u32 = 11;
    pub(crate) const REDUCE_MAX: u32 = 12;
    pub(crate) const REDUCE_MIN_SIGNED: u32 = 13;
    pub(crate) const REDUCE_MAX_SIGNED: u32 = 14;
    pub(crate) const REDUCE_AND: u32 = 15;
    pub(crate) const REDUCE_OR: u32 = 16;
    pub(crate) const REDUCE_XOR: u32 = 17;

    /// The CUDA name of an operation, for reports.
    pub(crate) fn name(operation: u32) -> &'static str {
        const NAMES: [&str; 18] = [
            "__syncwarp",
            "__shfl_sync",
            "__shfl_up_sync",
            "__shfl_down_sync",
            "__shfl_xor_sync",
            "__ballot_sync",
            "__any_sync",
            "__all_sync",
            "__match_any_sync",
            "__match_all_sync",
            "__reduce_add_sync",
            "__reduce_min_sync",
            "__reduce_max_sync",
            "__reduce_min_sync",
            "__reduce_max_sync",
            "__reduce_and_sync",
            "__reduce_or_sync",
            "__reduce_xor_sync",
        ];
        NAMES
            .get(operation as usize)
            .copied()
            .unwrap_or("unknown collective")
    }
}

/// Kinds of [`Runtime::barrier`].
pub(crate) mod barrier {
    // 0 is __syncthreads.
    pub(crate) const COUNT: u32 = 1;
    pub(crate) const AND: u32 = 2;
    pub(crate) const OR: u32 = 3;
    pub(crate) const NAMED: u32 = 4;
    pub(crate) const ARRIVE: u32 = 5;

    /// The CUDA name of a kind, for reports.
    pub(crate) fn name(kind: u32) -> &'static str {
        const NAMES: [&str; 6] = [
            "__syncthreads",
            "__syncthreads_count",
            "__syncthreads_and",
            "__syncthreads_or",
            "named barrier",
            "named barrier arrival",
        ];
        NAMES.get(kind as usize).copied().unwrap_or("unknown barrier")
    }
}
