//! One kernel launch: its blocks, the number of finished blocks, and its outcome. Threads of a
//! [`crate::pool`] execute it.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::{Condvar, Mutex};

use crate::abi::{Dimensions, LANES};
use crate::device::Device;
use crate::module::Function;
use crate::random::mix;
use crate::report::Failure;

/// Threads that can be resident on a multiprocessor.
pub(crate) const THREADS_PER_MULTIPROCESSOR: u32 = 2048;
/// Shared memory that the system reserves per block.
pub(crate) const RESERVED_SHARED: u32 = 1024;

/// Kernel arguments, copied at launch time.
#[derive(Debug)]
pub(crate) struct Parameters {
    /// 16-byte units, so that every argument is aligned.
    storage: Box<[u128]>,
    pointers: Box<[*mut c_void]>,
}

// SAFETY: the pointers point into `storage`, which is not written after construction.
unsafe impl Send for Parameters {}
// SAFETY: as above; device code reads arguments by value.
unsafe impl Sync for Parameters {}

impl Parameters {
    /// Copies arguments of the given sizes.
    ///
    /// # Safety
    /// `arguments` points to one pointer per size, each to that number of readable bytes.
    pub(crate) unsafe fn copy(sizes: &[u32], arguments: *mut *mut c_void) -> Parameters {
        let units = |size: u32| (size as usize).div_ceil(16).max(1);
        let mut storage = vec![0_u128; sizes.iter().map(|&size| units(size)).sum()].into_boxed_slice();
        let mut pointers = Vec::with_capacity(sizes.len());
        let mut next = storage.as_mut_ptr();
        for (index, &size) in sizes.iter().enumerate() {
            // SAFETY: the caller's promise; `next` has room for `units(size)` units.
            unsafe {
                std::ptr::copy_nonoverlapping(
                    (*arguments.add(index)).cast::<u8>(),
                    next.cast::<u8>(),
                    size as usize,
                );
                pointers.push(next.cast::<c_void>());
                next = next.add(units(size));
            }
        }
        Parameters {
            storage,
            pointers: pointers.into_boxed_slice(),
        }
    }

    /// The argument of the kernel's thunk.
    pub(crate) fn pointers(&self) -> *mut *mut c_void {
        debug_assert!(self.pointers.is_empty() || !self.storage.is_empty());
        self.pointers.as_ptr().cast_mut()
    }
}

/// The owner of the OS threads that execute launches.
pub(crate) trait Helpers: std::fmt::Debug + Send + Sync {
    /// Number of OS threads that execute a launch from the start.
    fn workers(&self) -> usize;

    /// Lets `count` more threads execute a launch. If no thread can be started, the launch continues without.
    fn help(self: Arc<Self>, launch: &Arc<Launch>, count: usize);
}

/// A launch in flight.
#[derive(Debug)]
pub(crate) struct Launch {
    own: Weak<Launch>,
    helpers: Arc<dyn Helpers>,
    pub(crate) device: Arc<Device>,
    pub(crate) function: Arc<Function>,
    pub(crate) parameters: Parameters,
    pub(crate) grid: Dimensions,
    pub(crate) block: Dimensions,
    pub(crate) dynamic_shared: u32,
    pub(crate) seed: u64,
    pub(crate) serial: u64,
    total: u64,
    order: (u64, u64),
    next: AtomicU64,
    finished: AtomicU64,
    /// The most blocks that may be resident, and the number of OS threads requested so far.
    limit: u32,
    asked: AtomicU32,
    failed: AtomicBool,
    failure: Mutex<Option<Failure>>,
    workers: Mutex<Workers>,
    left: Condvar,
}

#[derive(Debug, Default)]
struct Workers {
    working: u32,
    closed: bool,
}

/// Number of blocks of a kernel that fit on one multiprocessor.
pub(crate) fn resident_blocks(
    device: &Device,
    function: &Function,
    threads: u32,
    dynamic_shared: u32,
) -> u32 {
    let options = device.options();
    let threads = threads.max(1).next_multiple_of(LANES as u32);
    let shared = dynamic_shared + function.static_shared() + RESERVED_SHARED;
    let available = shared_per_multiprocessor(device);
    (THREADS_PER_MULTIPROCESSOR / threads)
        .min(available / shared)
        .min(options.max_resident_blocks)
}

/// Shared memory of a multiprocessor: enough for two of the largest blocks.
pub(crate) fn shared_per_multiprocessor(device: &Device) -> u32 {
    2 * (device.options().shared_memory_per_block + RESERVED_SHARED)
}

impl Launch {
    pub(crate) fn new(
        device: &Arc<Device>,
        helpers: Arc<dyn Helpers>,
        function: &Arc<Function>,
        parameters: Parameters,
        grid: Dimensions,
        block: Dimensions,
        dynamic_shared: u32,
    ) -> Arc<Launch> {
        let seed = device.seed();
        let serial = device.next_launch();
        let total = grid.volume();
        let threads = block.volume() as u32;
        let limit = resident_blocks(device, function, threads, dynamic_shared).max(1)
            * device.options().multiprocessors;
        Arc::new_cyclic(|own| Launch {
            own: Weak::clone(own),
            helpers,
            device: Arc::clone(device),
            function: Arc::clone(function),
            parameters,
            grid,
            block,
            dynamic_shared,
            seed,
            serial,
            total,
            order: order(seed, serial, total),
            next: AtomicU64::new(0),
            finished: AtomicU64::new(0),
            limit,
            asked: AtomicU32::new(1),
            failed: AtomicBool::new(false),
            failure: Mutex::new(None),
            workers: Mutex::default(),
            left: Condvar::new(),
        })
    }

    /// Executes the launch by `work` on the calling thread and on the helpers that it requests. Returns when
    /// all of them have left it.
    pub(crate) fn execute(self: &Arc<Self>, work: impl FnOnce(&Self)) -> Result<(), Failure> {
        let workers = (self.helpers.workers() as u64)
            .min(self.total)
            .min(u64::from(self.limit)) as u32;
        if workers > 1 {
            self.asked.store(workers, Ordering::Relaxed);
            Arc::clone(&self.helpers).help(self, workers as usize - 1);
        }
        work(self);
        let mut state = self.workers.lock();
        state.closed = true;
        while state.working > 0 {
            self.left.wait(&mut state);
        }
        drop(state);
        match self.failure.lock().take() {
            Some(failure) => Err(failure),
            None => Ok(()),
        }
    }

    /// Registers a thread that takes part. Returns `false` if the launch is over.
    pub(crate) fn enter(&self) -> bool {
        let mut state = self.workers.lock();
        state.working += u32::from(!state.closed);
        !state.closed
    }

    /// A thread stops taking part.
    pub(crate) fn leave(&self) {
        let mut state = self.workers.lock();
        state.working -= 1;
        if state.working == 0 {
            self.left.notify_all();
        }
    }

    /// Whether some blocks have not been started.
    pub(crate) fn has_blocks(&self) -> bool {
        self.next.load(Ordering::Relaxed) < self.total
    }

    /// The next block to execute, with its number in row-major order.
    pub(crate) fn next_block(&self) -> Option<(Dimensions, u64)> {
        if self.failed() {
            return None;
        }
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        if turn >= self.total {
            return None;
        }
        let linear = self.block_at(turn);
        let (x, y) = (u64::from(self.grid.x), u64::from(self.grid.y));
        let index = Dimensions {
            x: (linear % x) as u32,
            y: (linear / x % y) as u32,
            z: (linear / (x * y)) as u32,
        };
        Some((index, linear))
    }

    /// Counts a finished block.
    pub(crate) fn block_done(&self) {
        self.finished.fetch_add(1, Ordering::Relaxed);
    }

    /// Ends the launch with a failure, unless it has already failed.
    pub(crate) fn fail(&self, failure: Failure) {
        self.failure.lock().get_or_insert(failure);
        self.failed.store(true, Ordering::Release);
    }

    /// Whether a block failed or the context is lost, so that the other blocks are given up.
    pub(crate) fn failed(&self) -> bool {
        self.failed.load(Ordering::Acquire) || self.device.check().is_err()
    }

    /// A number that changes while the launch advances.
    pub(crate) fn progress(&self) -> u64 {
        self.finished.load(Ordering::Relaxed)
    }

    /// Called if a block waits: if other blocks have not started and may be resident, one more thread runs
    /// them.
    pub(crate) fn ask_for_help(&self) {
        if self.device.options().address_sanitizer || !self.has_blocks() {
            return;
        }
        let asked = self
            .asked
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |asked| {
                (asked < self.limit).then_some(asked + 1)
            });
        if asked.is_ok()
            && let Some(own) = self.own.upgrade()
        {
            Arc::clone(&self.helpers).help(&own, 1);
        }
    }

    /// The initial pattern of a block's shared memory.
    pub(crate) fn poison(&self, block: u64) -> u64 {
        mix(self.seed ^ mix(self.serial ^ mix(block ^ 0x5a5a)))
    }

    /// The block to run at a turn, in a permutation of all blocks.
    fn block_at(&self, turn: u64) -> u64 {
        let (start, stride) = self.order;
        ((u128::from(start) + u128::from(turn) * u128::from(stride)) % u128::from(self.total)) as u64
    }
}

/// Start and stride of the permutation of the blocks. The stride is coprime to the number of blocks.
fn order(seed: u64, serial: u64, total: u64) -> (u64, u64) {
    if seed == 0 || total < 2 {
        return (0, 1);
    }
    let random = mix(seed ^ mix(serial));
    let start = random % total;
    let mut stride = mix(random) % total;
    while greatest_common_divisor(stride, total) != 1 {
        stride = (stride + 1) % total;
    }
    (start, stride)
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 {
        a
    } else {
        greatest_common_divisor(b, a % b)
    }
}
