//! Settings of an emulated device.

use std::path::PathBuf;
use std::time::Duration;

use crate::injection::Faults;

/// Settings of one emulated device. The fields document units and defaults.
#[derive(Clone, Debug)]
pub struct EmulatorOptions {
    /// Determines the order of lanes, warps and blocks, and the content of memory before it is written. 0 is
    /// the natural order (lanes, warps and blocks ascending), for debugging. Every other value is a different
    /// hostile order. Default 1.
    pub seed: u64,
    /// Number of multiprocessors that the device reports. Default 2: grids sized by it stay small.
    pub multiprocessors: u32,
    /// Device memory in bytes. Default 1 GiB.
    pub memory: u64,
    /// The most shared memory of a block, in bytes. Above 48 KiB a kernel has to opt in, as on a GPU. Default
    /// 99 KiB, at most 1 MiB.
    pub shared_memory_per_block: u32,
    /// The most blocks that may be resident on a multiprocessor, if threads and shared memory allow. Default
    /// 16. The whole device never runs more blocks of a launch at the same time than fit by this limit.
    pub max_resident_blocks: u32,
    /// Number of OS threads that execute the blocks of a launch. More are used only while blocks wait for one
    /// another. 0, the default, is the number of cores of the machine.
    pub worker_threads: usize,
    /// Threads may be switched at every basic block and memory access. Finds races; about 5 times slower.
    pub stress: bool,
    /// Device code is compiled with AddressSanitizer. Its run time has to be preloaded (`LD_PRELOAD=$(c++
    /// -print-file-name=libasan.so)`). Launches of the whole process run one block at a time.
    pub address_sanitizer: bool,
    /// Memory accesses, atomics and collectives are counted, see [`Counters`](crate::Counters). Slow.
    pub count: bool,
    /// If two threads of a block access the same bytes, one access is a write, and nothing orders the two,
    /// the launch fails with a report of both; see `races`. Slow. It finds the races that `compute-sanitizer
    /// --tool racecheck` finds in shared memory, and the same in global memory.
    pub races: bool,
    /// The host C++ compiler; `c++`, then `g++`, if `None`.
    pub cxx: Option<PathBuf>,
    /// The cache folder of compiled objects. No other user may be able to write it. Nothing is cached if
    /// `None`.
    pub cache_directory: Option<PathBuf>,
    /// The most host memory that can be registered at one time, in bytes. Default: no limit.
    pub pinned_memory: u64,
    /// Stack of a device thread in bytes: its registers, spills and local arrays. Default 128 KiB.
    pub stack_bytes: usize,
    /// The longest time that the threads of a launch may wait for one another without any of them finishing
    /// before the launch fails. Default 60 s.
    pub spin_limit: Duration,
    /// Injected failures of driver calls. A test keeps a clone of the handle. Default: none.
    pub faults: Faults,
}

impl Default for EmulatorOptions {
    fn default() -> EmulatorOptions {
        EmulatorOptions {
            seed: 1,
            multiprocessors: 2,
            memory: 1 << 30,
            shared_memory_per_block: 99 << 10,
            max_resident_blocks: 16,
            worker_threads: 0,
            stress: false,
            address_sanitizer: false,
            count: false,
            races: false,
            cxx: None,
            cache_directory: None,
            pinned_memory: u64::MAX,
            stack_bytes: 128 << 10,
            spin_limit: Duration::from_secs(60),
            faults: Faults::default(),
        }
    }
}

impl EmulatorOptions {
    /// The number of workers, with 0 replaced by its default.
    pub(crate) fn workers(&self) -> usize {
        if self.address_sanitizer {
            return 1;
        }
        match self.worker_threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            given => given,
        }
    }
}
