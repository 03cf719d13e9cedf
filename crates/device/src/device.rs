//! An open device, the entry point of this crate.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytemuck::Pod;
use cudarc::driver::sys::CUmemPool_attribute;

use crate::budget::MemoryBudget;
use crate::buffer::{DeviceBuffer, Unwritten};
use crate::cache::DiskCache;
use crate::cache_folder::{CacheFolder, CacheRefusal};
use crate::context::Context;
use crate::errors::{DeviceError, Result};
use crate::host::{HostMemory, HostView};
use crate::info::{self, DeviceInfo};
use crate::module::Function;
use crate::probe::no_device;
use crate::program::{Program, Tier};
use crate::programs::{self, Compiled, PendingModule, Programs};
use crate::stream::Stream;
use crate::sys::{Backend, Driver, NvrtcTable};

/// Options for opening a device.
#[derive(Debug, Clone, Default)]
pub struct DeviceOptions {
    /// The most device memory that this process may use on the device, in bytes; default: all of it. The
    /// limit is per process: the last one given applies to all handles of the device.
    pub memory_limit: Option<u64>,
    /// The folder of compiled kernels and calibrations; default: [`crate::environment::cache_directory`]. A
    /// folder that other users can write is not used.
    pub cache_directory: Option<PathBuf>,
}

/// A GPU or an emulated device. Clones are the same device; it closes when the last handle is dropped.
#[derive(Debug, Clone)]
pub struct Device(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    context: Arc<Context>,
    programs: Programs,
    cache: Result<CacheFolder, CacheRefusal>,
}

/// Device memory as reported by the driver, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryUse {
    /// Free on the card, for all processes.
    pub free: u64,
    /// Total memory of the card.
    pub total: u64,
    /// Allocated from the pool that this process uses.
    pub pool_used: u64,
    /// Reserved by that pool on the card.
    pub pool_reserved: u64,
}

impl Device {
    /// Opens a GPU.
    ///
    /// # Errors
    /// [`DeviceError::NoDriver`] if no driver or no such GPU exists; the errors of the driver.
    pub fn gpu(ordinal: usize, options: DeviceOptions) -> Result<Self> {
        let driver = Driver::get(Backend::Gpu).map_err(DeviceError::NoDriver)?;
        if ordinal >= info::count(driver)? {
            return Err(DeviceError::NoDriver(no_device()));
        }
        Self::open(Backend::Gpu, driver, ordinal, options, Vec::new())
    }

    pub(crate) fn open(
        backend: Backend,
        driver: &'static Driver,
        ordinal: usize,
        options: DeviceOptions,
        device_options: Vec<String>,
    ) -> Result<Self> {
        let nvrtc = NvrtcTable::get(backend).ok().map(|bound| bound.version);
        let info = info::read(driver, backend, ordinal, nvrtc)?;
        let context = Context::open(backend, ordinal, driver, info)?;
        context.alive()?;
        if options.memory_limit.is_some() {
            context.budget.set_limit(options.memory_limit);
        }
        let cache = CacheFolder::open(options.cache_directory.as_deref());
        let programs = Programs::new(&context, DiskCache::new(cache.as_ref()), device_options);
        Ok(Self(Arc::new(Inner {
            context,
            programs,
            cache,
        })))
    }

    /// Properties of the device.
    #[must_use]
    pub fn info(&self) -> &DeviceInfo {
        &self.0.context.info
    }

    /// The device-memory budget of this process on it.
    #[must_use]
    pub fn budget(&self) -> &MemoryBudget {
        &self.0.context.budget
    }

    /// Bytes that this process has copied to the device and back since it was opened, for any purpose.
    #[must_use]
    pub fn link_use(&self) -> (u64, u64) {
        let context = &self.0.context;
        let read = |bytes: &AtomicU64| bytes.load(Ordering::Relaxed);
        (read(&context.uploaded), read(&context.downloaded))
    }

    /// The folder of compiled kernels and calibrations.
    ///
    /// # Errors
    /// The reason why none is used.
    pub fn cache(&self) -> Result<&CacheFolder, &CacheRefusal> {
        self.0.cache.as_ref()
    }

    /// Checks that the device is not lost.
    ///
    /// # Errors
    /// [`DeviceError::DeviceLost`] with the first error.
    pub fn alive(&self) -> Result<()> {
        self.0.context.alive()
    }

    /// Creates a queue of work.
    ///
    /// # Errors
    /// The errors of the device.
    pub fn stream(&self) -> Result<Stream> {
        Stream::new(&self.0.context, 0)
    }

    /// Creates a queue that is scheduled before others, for short work that others wait for. A negative
    /// priority is more urgent.
    ///
    /// # Errors
    /// The errors of the device.
    pub fn stream_with_priority(&self, priority: i32) -> Result<Stream> {
        Stream::new(&self.0.context, priority)
    }

    /// Waits for all work on all streams of the device.
    ///
    /// # Errors
    /// The failure of any work.
    pub fn synchronize(&self) -> Result<()> {
        self.0.context.synchronize()
    }

    /// Returns the loaded module of a program: from memory, from disk, or compiled now.
    ///
    /// # Errors
    /// [`DeviceError::Compile`], [`DeviceError::NoCompiler`], [`DeviceError::UnknownEntry`]; the errors of
    /// the device.
    pub fn compile(&self, program: &Program) -> Result<Compiled> {
        self.0.programs.compile(program)
    }

    /// Returns the kernel of that name. The program must always be the same for this name: the device caches
    /// it for its own lifetime.
    ///
    /// # Errors
    /// Those of [`Device::compile`].
    pub fn kernel(&self, name: &'static str, program: impl FnOnce() -> Program) -> Result<Function> {
        self.0.programs.kernel(name, program)
    }

    /// Compiles the modules of several programs in parallel. Returns them in order.
    ///
    /// # Errors
    /// The first error, as in [`Device::compile`].
    pub fn compile_all(&self, programs: &[Program]) -> Result<Vec<Compiled>> {
        programs::compile_all(&self.0.programs, programs)
    }

    /// Returns a module of a program soon: the optimised one if it is in memory or on disk, otherwise that of
    /// the quick tier. The second result is then the optimised one, which is compiled in the background, on
    /// one thread for all programs, as soon as [`PendingModule::get`] is called.
    ///
    /// # Errors
    /// Those of [`Device::compile`], for the first module.
    pub fn compile_soon(&self, program: &Program) -> Result<(Compiled, Option<PendingModule>)> {
        let optimised = program.clone().tier(Tier::Optimised);
        if let Some(compiled) = self.compiled(&optimised) {
            return Ok((compiled, None));
        }
        let compiled = self.compile(&program.clone().tier(Tier::Quick))?;
        let device = Arc::downgrade(&self.0);
        let pending = PendingModule::new(move || {
            let compiled = device.upgrade()?.programs.compile(&optimised);
            compiled
                .inspect_err(|error| {
                    tracing::warn!(program = optimised.name, "not optimised, it stays quick: {error}");
                })
                .ok()
        });
        Ok((compiled, Some(pending)))
    }

    /// Returns the module of a program if it is in memory or on disk; `None` if it would have to be compiled.
    #[must_use]
    pub fn compiled(&self, program: &Program) -> Option<Compiled> {
        self.0.programs.compiled(program)
    }

    /// Whether the cache on disk has the compiled program. The program is not loaded. False without a cache.
    #[must_use]
    pub fn is_on_disk(&self, program: &Program) -> bool {
        self.0.programs.is_on_disk(program)
    }

    /// Waits until every program that [`PendingModule::get`] queued is compiled, before measurements that
    /// background compilation would disturb.
    pub fn finish_compiling() {
        programs::wait_for_behind();
    }

    /// Allocates memory for `len` values in the order of a stream. Its content is unspecified.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`]; the errors of the device.
    pub fn alloc<T: Pod>(&self, stream: &Stream, len: usize) -> Result<Unwritten<T>> {
        self.owns(stream)?;
        Unwritten::new(stream, len)
    }

    /// Allocates memory for `len` values in the order of a stream, with all bytes zero.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`]; the errors of the device.
    pub fn zeroed<T: Pod>(&self, stream: &Stream, len: usize) -> Result<DeviceBuffer<T>> {
        let mut buffer = self.alloc(stream, len)?.assume_written();
        stream.fill(&mut buffer, 0)?;
        Ok(buffer)
    }

    /// Allocates `len` words of 0 that streams may store into with [`Stream::write_word`]. Dropping them
    /// waits for the work that uses them.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`]; the errors of the device.
    pub fn words(&self, stream: &Stream, len: usize) -> Result<DeviceBuffer<u32>> {
        self.owns(stream)?;
        let mut words = DeviceBuffer::for_words(stream, len)?;
        stream.fill(&mut words, 0)?;
        Ok(words)
    }

    /// Copies a slice to the device. Returns when the copy is done.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`]; the errors of the device.
    pub fn upload<T: Pod>(&self, stream: &Stream, values: &[T]) -> Result<DeviceBuffer<T>> {
        let mut buffer = self.alloc(stream, values.len())?.assume_written();
        stream.copy_from_slice(&mut buffer, values)?;
        Ok(buffer)
    }

    /// Pins host memory for this device, so that copies run at link speed and in the background. Later calls
    /// have no effect. The memory is unpinned when it or the device is dropped.
    ///
    /// # Errors
    /// [`DeviceError::HostMemory`] if the system cannot pin that size; the errors of the device.
    pub fn pin(&self, memory: &Arc<HostMemory>) -> Result<()> {
        memory.pin(&self.0.context)
    }

    /// Pins a part of host memory for one copy. It is unpinned by [`Device::unpin_part`], or when the memory
    /// is dropped. Memory that is already pinned stays pinned.
    ///
    /// # Errors
    /// [`DeviceError::Range`] for bytes outside; those of [`Device::pin`].
    pub fn pin_part(&self, memory: &HostMemory, range: &std::ops::Range<usize>) -> Result<()> {
        memory.pin_part(&self.0.context, range)
    }

    /// Unpins a part that [`Device::pin_part`] pinned, after all work of the device is done.
    ///
    /// # Errors
    /// The failure of any work.
    pub fn unpin_part(&self, memory: &HostMemory, range: &std::ops::Range<usize>) -> Result<()> {
        memory.unpin_part(&self.0.context, range)
    }

    /// Like [`Device::pin`], for copies that may also be slow: memory that cannot be pinned is copied
    /// unpinned. Returns whether it is pinned.
    ///
    /// # Errors
    /// [`DeviceError::DeviceLost`].
    pub fn pin_if_possible(&self, memory: &Arc<HostMemory>) -> Result<bool> {
        static WARNED: AtomicBool = AtomicBool::new(false);
        match self.pin(memory) {
            Ok(()) => Ok(true),
            Err(error) if error.is_device_lost() => Err(error),
            Err(error) => {
                if !WARNED.swap(true, Ordering::Relaxed) {
                    tracing::warn!("copies are slower, through memory that is not pinned: {error}");
                }
                Ok(false)
            }
        }
    }

    /// The most bytes of device memory that this process may use if no limit is set: the memory that it uses
    /// and the free memory, except for a reserve of a sixteenth of the card, at most 1 GiB, for the driver,
    /// its modules and other processes.
    ///
    /// # Errors
    /// The errors of the device.
    pub fn automatic_limit(&self) -> Result<u64> {
        let memory = self.memory_use()?;
        let reserve = (memory.total / 16).min(1 << 30);
        Ok((memory.free + memory.pool_reserved).saturating_sub(reserve))
    }

    /// Pins memory, and returns the address at which kernels access it over the link.
    ///
    /// # Errors
    /// [`DeviceError::HostMemory`] if the system cannot pin it, or if the driver maps no address for it; the
    /// errors of the device.
    pub fn pin_mapped(&self, memory: &Arc<HostMemory>) -> Result<u64> {
        self.pin(memory)?;
        let view = HostView::new(Arc::clone(memory), 0, memory.len())?;
        self.mapped_address(&view)?.ok_or(DeviceError::HostMemory {
            requested: memory.len() as u64,
            available: 0,
            reason: "the driver maps no address for it".to_owned(),
            hint: "use a device that maps host memory",
        })
    }

    /// Whether memory is pinned for this device.
    #[must_use]
    pub fn is_pinned(&self, memory: &HostMemory) -> bool {
        memory.is_pinned(&self.0.context)
    }

    /// The address at which kernels can read pinned host memory over the link; `None` for memory that is not
    /// pinned.
    ///
    /// # Errors
    /// The errors of the device.
    pub fn mapped_address(&self, view: &HostView) -> Result<Option<u64>> {
        self.0.context.bind()?;
        let start = self
            .0
            .context
            .pins
            .device_address(view.memory().address() as usize)?;
        Ok(start.map(|start| start + view.offset() as u64))
    }

    /// Device memory as reported by the driver, to compare with [`MemoryBudget`].
    ///
    /// # Errors
    /// The errors of the device.
    pub fn memory_use(&self) -> Result<MemoryUse> {
        let (free, total) = self.0.context.memory_info()?;
        Ok(MemoryUse {
            free,
            total,
            pool_used: self
                .0
                .context
                .pool_attribute(CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT)?,
            pool_reserved: self
                .0
                .context
                .pool_attribute(CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)?,
        })
    }

    /// Waits for all work and returns the memory that the pool keeps for reuse to the card.
    ///
    /// # Errors
    /// The errors of the device.
    pub fn trim(&self) -> Result<()> {
        self.0.context.trim()
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.0.context
    }

    fn owns(&self, stream: &Stream) -> Result<()> {
        if Arc::ptr_eq(&self.0.context, stream.context()) {
            Ok(())
        } else {
            Err(DeviceError::WrongDevice { what: "stream" })
        }
    }

    #[cfg(test)]
    pub(crate) fn cubin_key(&self, program: &Program) -> crate::cache::Key {
        let nvrtc = crate::Nvrtc::of(self.0.context.backend).expect("the device compiles");
        self.0.programs.key(program, nvrtc)
    }

    #[cfg(test)]
    pub(crate) fn cubin_path(&self, program: &Program) -> PathBuf {
        let path = self.0.programs.disk.path(self.cubin_key(program));
        path.expect("a cache folder")
    }
}
