//! The context of one device, which all objects on the device keep alive.
//!
//! A process has one context per device (the driver's primary context), shared by all [`crate::Device`]
//! handles of it. So the budget, the pinned host memory and the loss of the device are per process.
//!
//! # Loss
//! Some errors destroy a context for good: a kernel that faults, an illegal address, uncorrectable memory.
//! The driver then returns the same code from every call. The first call that returns such a code marks the
//! context as lost and reports [`DeviceError::LaunchFailed`] with all available details. Every later call
//! fails at once with [`DeviceError::DeviceLost`], without calling the driver. Dropping objects of the
//! context is silent: the driver freed them with the context. Only host memory is waited for, see `host`:
//! copies that have begun may still write it. Other devices of the process are not affected. Opening the
//! device again creates a new context and budget, even while others still hold objects of the lost one.

use std::collections::HashMap;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, OnceLock, Weak};

use cudarc::driver::sys::{
    CUcontext, CUdevice, CUdeviceptr, CUmemLocation, CUmemLocationType, CUmemPool_attribute, CUmemoryPool,
    CUresult, CUstream,
};
use parking_lot::Mutex;

use crate::budget::MemoryBudget;
use crate::errors::{DeviceError, Result};
use crate::info::{self, DeviceInfo};
use crate::pins::PinTable;
use crate::sys::{self, Backend, Code, Driver};

/// A thread that waits for a stream.
pub(crate) struct Waiter<'a> {
    waiters: &'a AtomicUsize,
    /// Number of threads that waited already.
    others: usize,
}

impl Waiter<'_> {
    /// Whether it should sleep instead of polling. The driver polls: it notices the end of short work sooner,
    /// but occupies a core, which half of the machine's cores may do.
    pub(crate) fn sleeps(&self) -> bool {
        static CORES: LazyLock<usize> =
            LazyLock::new(|| std::thread::available_parallelism().map_or(1, usize::from));
        self.others >= (*CORES / 2).max(1)
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.waiters.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Contexts that are open in this process, by device.
type Contexts = HashMap<(Backend, usize), Weak<Context>>;

pub(crate) struct Context {
    pub(crate) driver: &'static Driver,
    pub(crate) backend: Backend,
    pub(crate) info: DeviceInfo,
    pub(crate) budget: MemoryBudget,
    pub(crate) pins: Arc<PinTable>,
    device: CUdevice,
    handle: CUcontext,
    pool: CUmemoryPool,
    /// Bytes copied to the device and back so far.
    pub(crate) uploaded: AtomicU64,
    pub(crate) downloaded: AtomicU64,
    /// Idle streams, with their priorities.
    idle_streams: Mutex<Vec<(CUstream, i32)>>,
    /// Unused memory outside of the pool, with its size in bytes.
    idle_words: Mutex<Vec<(CUdeviceptr, u64)>>,
    /// Number of threads that wait for streams.
    waiters: AtomicUsize,
    lost: OnceLock<String>,
    released: AtomicBool,
}

// SAFETY: the driver's handles may be used from any thread (each thread sets the context as current before a
// call, see `bind`); everything else in here is Send and Sync.
unsafe impl Send for Context {}
// SAFETY: as above; the driver synchronises its own state.
unsafe impl Sync for Context {}

impl Context {
    /// The device's memory, as a place of pages.
    pub(crate) fn memory_location(&self) -> CUmemLocation {
        CUmemLocation {
            type_: CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
            id: i32::try_from(self.info.ordinal).unwrap_or(0),
        }
    }

    /// Opens the context of a device, which all its handles share.
    pub(crate) fn open(
        backend: Backend,
        ordinal: usize,
        driver: &'static Driver,
        info: DeviceInfo,
    ) -> Result<Arc<Self>> {
        static OPEN: LazyLock<Mutex<Contexts>> = LazyLock::new(Mutex::default);
        let mut open = OPEN.lock();
        if let Some(context) = open.get(&(backend, ordinal)).and_then(Weak::upgrade) {
            if context.alive().is_ok() {
                return Ok(context);
            }
            // The lost context is still referenced. The driver creates another only after all retains are
            // released.
            context.release();
        }
        let context = Arc::new(Self::new(backend, ordinal, driver, info)?);
        open.insert((backend, ordinal), Arc::downgrade(&context));
        Ok(context)
    }

    fn new(backend: Backend, ordinal: usize, driver: &'static Driver, info: DeviceInfo) -> Result<Self> {
        let device = info::handle(driver, ordinal)?;
        let mut handle = ptr::null_mut();
        // SAFETY: the pointer is valid for a write; the device was just looked up.
        driver.check("cuDevicePrimaryCtxRetain", unsafe {
            (driver.cuDevicePrimaryCtxRetain)(&raw mut handle, device)
        })?;
        // From here on, dropping `context` releases the retained context.
        let mut context = Self {
            driver,
            backend,
            budget: MemoryBudget::new(info.total_memory, None),
            pins: Arc::new(PinTable::new(driver, handle)),
            info,
            device,
            handle,
            pool: ptr::null_mut(),
            uploaded: AtomicU64::new(0),
            downloaded: AtomicU64::new(0),
            idle_streams: Mutex::default(),
            idle_words: Mutex::default(),
            waiters: AtomicUsize::new(0),
            lost: OnceLock::new(),
            released: AtomicBool::new(false),
        };
        context.bind()?;
        let mut pool = ptr::null_mut();
        // SAFETY: the pointer is valid for a write.
        context.check("cuDeviceGetDefaultMemPool", unsafe {
            (driver.cuDeviceGetDefaultMemPool)(&raw mut pool, device)
        })?;
        context.pool = pool;
        // Freed memory stays in the pool; otherwise every synchronisation would return it to the card.
        let mut threshold = u64::MAX;
        // SAFETY: the attribute's value is a 64-bit integer; the pool is the device's own.
        context.check("cuMemPoolSetAttribute", unsafe {
            (driver.cuMemPoolSetAttribute)(
                pool,
                CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
                (&raw mut threshold).cast(),
            )
        })?;
        Ok(context)
    }

    /// Sets the context as current on this thread. Fails if the device is lost.
    pub(crate) fn bind(&self) -> Result<()> {
        self.alive()?;
        let mut current = ptr::null_mut();
        // SAFETY: the pointer is valid for a write.
        let code = unsafe { (self.driver.cuCtxGetCurrent)(&raw mut current) };
        if code == Code::SUCCESS && current == self.handle {
            return Ok(());
        }
        // SAFETY: the handle is that of a retained primary context.
        self.check("cuCtxSetCurrent", unsafe {
            (self.driver.cuCtxSetCurrent)(self.handle)
        })
    }

    /// Counts the calling thread as a waiter for a stream, until the result is dropped.
    pub(crate) fn waiter(&self) -> Waiter<'_> {
        let others = self.waiters.fetch_add(1, Ordering::Relaxed);
        Waiter {
            waiters: &self.waiters,
            others,
        }
    }

    /// Releases the driver's context, once: when no object uses it any more, or when it is lost. After that,
    /// the driver is not called for objects of the context.
    fn release(&self) {
        // Once the context is released, other threads treat pinned memory as unused.
        self.pins.close();
        if !self.released.swap(true, Ordering::Relaxed) {
            // SAFETY: retained once in `new`, released once.
            let _ = unsafe { (self.driver.cuDevicePrimaryCtxRelease_v2)(self.device) };
        }
    }

    /// Returns an error if the device is lost.
    pub(crate) fn alive(&self) -> Result<()> {
        match self.lost.get() {
            None => Ok(()),
            Some(cause) => Err(DeviceError::DeviceLost {
                device: self.info.name.clone(),
                cause: cause.clone(),
            }),
        }
    }

    /// Whether calls are useful: false for a lost device. For destructors.
    pub(crate) fn bind_for_drop(&self) -> bool {
        self.bind().is_ok()
    }

    /// Checks the result of a driver call. Marks the device as lost if the code means that.
    #[inline]
    pub(crate) fn check(&self, call: &'static str, code: Code) -> Result<()> {
        if code == Code::SUCCESS {
            Ok(())
        } else {
            Err(self.failure(call, code, None))
        }
    }

    /// Like [`Context::check`], for calls that report the failure of earlier launches.
    #[inline]
    pub(crate) fn check_after(
        &self,
        call: &'static str,
        code: Code,
        kernel: &Mutex<Option<Arc<str>>>,
    ) -> Result<()> {
        if code == Code::SUCCESS {
            Ok(())
        } else {
            Err(self.failure(call, code, kernel.lock().as_deref()))
        }
    }

    #[cold]
    fn failure(&self, call: &'static str, code: Code, kernel: Option<&str>) -> DeviceError {
        if !is_fatal(code) {
            return self.driver.error(call, code);
        }
        let (name, text) = self.driver.describe(code);
        let report = self
            .emulator_report()
            .unwrap_or_else(|| format!("{text}, reported by {call}"));
        let error = DeviceError::LaunchFailed {
            device: self.info.name.clone(),
            kernel: kernel.unwrap_or("unknown").to_owned(),
            name,
            report,
        };
        let mut first = false;
        self.lost.get_or_init(|| {
            first = true;
            error.to_string()
        });
        if first {
            tracing::error!(device = %self.info.name, "{error}");
            return error;
        }
        self.alive().err().unwrap_or(error)
    }

    fn emulator_report(&self) -> Option<String> {
        match self.backend {
            Backend::Gpu => None,
            Backend::Emulated => sys::emulator_report(self.info.ordinal),
        }
    }

    /// Free and total bytes of the device, from the driver.
    pub(crate) fn memory_info(&self) -> Result<(u64, u64)> {
        self.bind()?;
        let (mut free, mut total) = (0usize, 0usize);
        // SAFETY: both pointers are valid for writes and the context is current.
        self.check("cuMemGetInfo", unsafe {
            (self.driver.cuMemGetInfo_v2)(&raw mut free, &raw mut total)
        })?;
        Ok((free as u64, total as u64))
    }

    /// A 64-bit attribute of the device's pool.
    pub(crate) fn pool_attribute(&self, attribute: CUmemPool_attribute) -> Result<u64> {
        self.bind()?;
        let mut value = 0u64;
        // SAFETY: the requested attributes are 64-bit integers; the pool is the device's own.
        self.check("cuMemPoolGetAttribute", unsafe {
            (self.driver.cuMemPoolGetAttribute)(self.pool, attribute, (&raw mut value).cast())
        })?;
        Ok(value)
    }

    /// Takes an idle stream of a priority, if the context has one.
    pub(crate) fn idle_stream(&self, priority: i32) -> Option<CUstream> {
        let mut idle = self.idle_streams.lock();
        let index = idle.iter().position(|(_, of)| *of == priority)?;
        Some(idle.swap_remove(index).0)
    }

    /// Keeps an idle stream for reuse.
    pub(crate) fn keep_stream(&self, stream: CUstream, priority: i32) {
        self.idle_streams.lock().push((stream, priority));
    }

    /// Takes unused memory outside of the pool of that size, if the context has any.
    pub(crate) fn idle_words(&self, bytes: u64) -> Option<CUdeviceptr> {
        let mut idle = self.idle_words.lock();
        let index = idle.iter().position(|(_, of)| *of == bytes)?;
        Some(idle.swap_remove(index).0)
    }

    /// Keeps unused memory outside of the pool for reuse: freeing it would wait for all work.
    pub(crate) fn keep_words(&self, address: CUdeviceptr, bytes: u64) {
        self.idle_words.lock().push((address, bytes));
    }

    /// Waits for all work and returns free memory to the card: that of the pool, and unused memory outside of
    /// it.
    pub(crate) fn trim(&self) -> Result<()> {
        self.synchronize()?;
        for (address, _) in std::mem::take(&mut *self.idle_words.lock()) {
            // SAFETY: allocated by cuMemAlloc, unused, freed once.
            let code = unsafe { (self.driver.cuMemFree_v2)(address) };
            self.check("cuMemFree", code)?;
        }
        // SAFETY: the pool is the device's own.
        self.check("cuMemPoolTrimTo", unsafe {
            (self.driver.cuMemPoolTrimTo)(self.pool, 0)
        })
    }

    /// Waits for the running work of a stream of a lost device. The result is ignored: every call fails
    /// there.
    pub(crate) fn wait_for_lost(&self, stream: CUstream) {
        // The driver waited when it destroyed the context.
        if self.backend == Backend::Gpu && self.released.load(Ordering::Relaxed) {
            return;
        }
        // SAFETY: the context is retained or emulated, so its handles are valid, and the stream is alive.
        unsafe {
            (self.driver.cuCtxSetCurrent)(self.handle);
            (self.driver.cuStreamSynchronize)(stream);
        }
    }

    /// Waits for all work of the device.
    pub(crate) fn synchronize(&self) -> Result<()> {
        self.bind()?;
        // SAFETY: the context is current.
        self.check("cuCtxSynchronize", unsafe { (self.driver.cuCtxSynchronize)() })
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if self.bind_for_drop() {
            for (stream, _) in self.idle_streams.get_mut().drain(..) {
                // SAFETY: created in this context, unused, destroyed once.
                let _ = unsafe { (self.driver.cuStreamDestroy_v2)(stream) };
            }
            for (address, _) in self.idle_words.get_mut().drain(..) {
                // SAFETY: allocated by cuMemAlloc, unused, freed once.
                let _ = unsafe { (self.driver.cuMemFree_v2)(address) };
            }
        }
        self.release();
    }
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context")
            .field("device", &self.info.name)
            .field("ordinal", &self.info.ordinal)
            .field("backend", &self.backend)
            .field("lost", &self.lost.get())
            .finish_non_exhaustive()
    }
}

/// Codes after which a context returns no other code.
fn is_fatal(code: Code) -> bool {
    const FATAL: [CUresult; 15] = [
        CUresult::CUDA_ERROR_ECC_UNCORRECTABLE,
        CUresult::CUDA_ERROR_NVLINK_UNCORRECTABLE,
        CUresult::CUDA_ERROR_ILLEGAL_ADDRESS,
        CUresult::CUDA_ERROR_LAUNCH_TIMEOUT,
        CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED,
        CUresult::CUDA_ERROR_ASSERT,
        CUresult::CUDA_ERROR_HARDWARE_STACK_ERROR,
        CUresult::CUDA_ERROR_ILLEGAL_INSTRUCTION,
        CUresult::CUDA_ERROR_MISALIGNED_ADDRESS,
        CUresult::CUDA_ERROR_INVALID_ADDRESS_SPACE,
        CUresult::CUDA_ERROR_INVALID_PC,
        CUresult::CUDA_ERROR_LAUNCH_FAILED,
        CUresult::CUDA_ERROR_EXTERNAL_DEVICE,
        CUresult::CUDA_ERROR_DEVICE_UNAVAILABLE,
        CUresult::CUDA_ERROR_UNKNOWN,
    ];
    FATAL.into_iter().any(|fatal| code.is(fatal))
}
