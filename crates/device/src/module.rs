//! Loaded programs and their kernels.

use std::ffi::{CString, c_void};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use cudarc::driver::sys::{CUfunction, CUfunction_attribute as Attribute, CUmodule, CUresult};

use crate::arguments::{KernelArguments, Reference};
use crate::context::Context;
use crate::errors::{DeviceError, Result};
use crate::geometry::{Geometry, Resources};
use crate::stream::Stream;
use crate::sys::Code;

/// A program loaded on a device; unloaded when the last handle is dropped.
pub struct Module {
    context: Arc<Context>,
    handle: CUmodule,
    name: String,
    image_bytes: usize,
    entries: Vec<Entry>,
}

struct Entry {
    name: Arc<str>,
    handle: CUfunction,
    resources: Resources,
    /// The most dynamic shared memory that the driver has been set to allow so far.
    allowed_shared: AtomicU32,
}

// SAFETY: module and function handles may be used from any thread with the context current; the rest is Send
// and Sync.
unsafe impl Send for Module {}
// SAFETY: as above.
unsafe impl Sync for Module {}

impl Module {
    /// Loads an image and looks up its kernels.
    pub(crate) fn load(context: &Arc<Context>, name: &str, entries: &[String], image: &[u8]) -> Result<Self> {
        context.bind()?;
        let driver = context.driver;
        let mut handle = ptr::null_mut();
        // SAFETY: the image is a whole cubin (or the emulator's), alive during the call.
        context.check("cuModuleLoadData", unsafe {
            (driver.cuModuleLoadData)(&raw mut handle, image.as_ptr().cast())
        })?;
        let mut module = Self {
            context: Arc::clone(context),
            handle,
            name: name.to_owned(),
            image_bytes: image.len(),
            entries: Vec::with_capacity(entries.len()),
        };
        for entry in entries {
            let found = module.look_up(entry, entries)?;
            module.entries.push(found);
        }
        Ok(module)
    }

    fn look_up(&self, name: &str, known: &[String]) -> Result<Entry> {
        let driver = self.context.driver;
        let unknown = || DeviceError::UnknownEntry {
            program: self.name.clone(),
            entry: name.to_owned(),
            known: format!("not that one of {}", known.join(", ")),
        };
        let symbol = CString::new(name).map_err(|_| unknown())?;
        let mut handle = ptr::null_mut();
        // SAFETY: the module is loaded, the name terminated, the pointer valid for a write.
        let code = unsafe { (driver.cuModuleGetFunction)(&raw mut handle, self.handle, symbol.as_ptr()) };
        if code.is(CUresult::CUDA_ERROR_NOT_FOUND) {
            return Err(unknown());
        }
        self.context.check("cuModuleGetFunction", code)?;
        let attribute = |attribute: Attribute| {
            let mut value = 0;
            // SAFETY: the function was just found; the pointer is valid for a write.
            let code = unsafe { (driver.cuFuncGetAttribute)(&raw mut value, attribute, handle) };
            self.context.check("cuFuncGetAttribute", code)?;
            Ok::<_, DeviceError>(u32::try_from(value).unwrap_or(0))
        };
        let resources = Resources {
            registers: attribute(Attribute::CU_FUNC_ATTRIBUTE_NUM_REGS)?,
            static_shared: attribute(Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?,
            local: attribute(Attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)?,
            max_threads_per_block: attribute(Attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
        };
        let allowed = self
            .context
            .info
            .default_shared_memory_per_block
            .saturating_sub(resources.static_shared);
        Ok(Entry {
            name: name.into(),
            handle,
            resources,
            allowed_shared: AtomicU32::new(allowed),
        })
    }

    /// Name of the program, for messages.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Size of the compiled image in bytes.
    #[must_use]
    pub fn image_bytes(&self) -> usize {
        self.image_bytes
    }

    /// Returns a kernel by name. Cheap: it was looked up when the module was loaded.
    ///
    /// # Errors
    /// [`DeviceError::UnknownEntry`] for a kernel that is not in [`crate::Program::entries`].
    pub fn function(self: &Arc<Self>, name: &str) -> Result<Function> {
        match self.entries.iter().position(|entry| &*entry.name == name) {
            Some(index) => Ok(Function {
                module: Arc::clone(self),
                index,
            }),
            None => Err(DeviceError::UnknownEntry {
                program: self.name.clone(),
                entry: name.to_owned(),
                known: self
                    .entries
                    .iter()
                    .map(|entry| &*entry.name)
                    .collect::<Vec<_>>()
                    .join(", "),
            }),
        }
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        // A launch holds no handle, so a kernel may still run: unloading waits for it.
        if self.context.synchronize().is_ok() {
            // SAFETY: loaded once, unloaded once, and nothing of it runs.
            let _ = unsafe { (self.context.driver.cuModuleUnload)(self.handle) };
        }
    }
}

impl std::fmt::Debug for Module {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Module")
            .field("name", &self.name)
            .field(
                "entries",
                &self.entries.iter().map(|entry| &*entry.name).collect::<Vec<_>>(),
            )
            .finish_non_exhaustive()
    }
}

/// A kernel of a loaded program. Cheap to clone; keeps the program loaded.
#[derive(Clone)]
pub struct Function {
    module: Arc<Module>,
    index: usize,
}

impl Function {
    fn entry(&self) -> &Entry {
        &self.module.entries[self.index]
    }

    /// The kernel's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.entry().name
    }

    /// The resources of a multiprocessor that the kernel uses.
    #[must_use]
    pub fn resources(&self) -> Resources {
        self.entry().resources
    }

    /// Number of its blocks that one multiprocessor runs at the same time.
    ///
    /// # Errors
    /// The errors of the device.
    pub fn occupancy(&self, block: u32, dynamic_shared: u32) -> Result<u32> {
        let context = &self.module.context;
        context.bind()?;
        self.allow_shared(dynamic_shared)?;
        let mut blocks = 0;
        // SAFETY: the function is loaded; the pointer is valid for a write.
        context.check("cuOccupancyMaxActiveBlocksPerMultiprocessor", unsafe {
            (context.driver.cuOccupancyMaxActiveBlocksPerMultiprocessor)(
                &raw mut blocks,
                self.entry().handle,
                i32::try_from(block).unwrap_or(i32::MAX),
                dynamic_shared as usize,
            )
        })?;
        Ok(u32::try_from(blocks).unwrap_or(0))
    }

    /// Number of its blocks that the whole device runs at the same time; at least one.
    ///
    /// # Errors
    /// The errors of the device.
    pub fn resident_blocks(&self, block: u32, dynamic_shared: u32) -> Result<u64> {
        let blocks = u64::from(self.occupancy(block, dynamic_shared)?);
        Ok((blocks * u64::from(self.module.context.info.multiprocessors)).max(1))
    }

    /// Sets the driver to allow the maximum of dynamic shared memory per block, once, if the default is too
    /// small.
    fn allow_shared(&self, bytes: u32) -> Result<()> {
        let (context, entry) = (&self.module.context, self.entry());
        if bytes <= entry.allowed_shared.load(Ordering::Relaxed) {
            return Ok(());
        }
        let all = context
            .info
            .shared_memory_per_block
            .saturating_sub(entry.resources.static_shared);
        // SAFETY: the function is loaded and the context current; the driver checks the value.
        context.check("cuFuncSetAttribute", unsafe {
            (context.driver.cuFuncSetAttribute)(
                entry.handle,
                Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                i32::try_from(all).unwrap_or(i32::MAX),
            )
        })?;
        entry.allowed_shared.store(all, Ordering::Relaxed);
        Ok(())
    }

    /// Queues a launch on the home stream of the buffers in its arguments, or on a stream that they have been
    /// ordered with ([`crate::DeviceBuffer::used_by`]). Returns as soon as it is queued.
    ///
    /// # Errors
    /// [`DeviceError::Geometry`] if it exceeds a limit, [`DeviceError::WrongDevice`]; the errors of the
    /// device.
    pub fn launch<A: KernelArguments + ?Sized>(
        &self,
        stream: &Stream,
        geometry: Geometry,
        arguments: &A,
    ) -> Result<()> {
        self.launch_with(stream, geometry, arguments, &[])
    }

    /// Like [`Function::launch`], for arguments with references to the memory that they use: any stream may
    /// be used.
    ///
    /// # Errors
    /// Those of [`Function::launch`].
    pub fn launch_with<A: KernelArguments + ?Sized>(
        &self,
        stream: &Stream,
        geometry: Geometry,
        arguments: &A,
        references: &[Reference<'_>],
    ) -> Result<()> {
        self.queue(stream, geometry, arguments, references, false)
    }

    /// Like [`Function::launch_with`], with all blocks resident at once, so that they may wait for each
    /// other: the launch begins when all of them fit
    /// ([`DeviceInfo::cooperative_launch`](crate::DeviceInfo::cooperative_launch)).
    ///
    /// # Errors
    /// Those of [`Function::launch_with`]; [`DeviceError::Geometry`] for more blocks than the device runs at
    /// once.
    pub fn launch_cooperative<A: KernelArguments + ?Sized>(
        &self,
        stream: &Stream,
        geometry: Geometry,
        arguments: &A,
        references: &[Reference<'_>],
    ) -> Result<()> {
        self.queue(stream, geometry, arguments, references, true)
    }

    fn queue<A: KernelArguments + ?Sized>(
        &self,
        stream: &Stream,
        geometry: Geometry,
        arguments: &A,
        references: &[Reference<'_>],
        cooperative: bool,
    ) -> Result<()> {
        let (context, entry) = (&self.module.context, self.entry());
        if !Arc::ptr_eq(context, stream.context()) {
            return Err(DeviceError::WrongDevice { what: "stream" });
        }
        let checked = geometry.check(&entry.name, &context.info, &entry.resources)?;
        if cooperative {
            let threads = u32::try_from(geometry.threads_per_block()).unwrap_or(u32::MAX);
            let limit = self.resident_blocks(threads, checked.dynamic_shared)?;
            let asked = checked.grid.into_iter().map(u64::from).product();
            if asked > limit {
                return Err(DeviceError::Geometry {
                    kernel: entry.name.to_string(),
                    what: "blocks that wait for each other",
                    asked,
                    limit,
                });
            }
        }
        for reference in references {
            reference.used_by(stream)?;
        }
        context.bind()?;
        self.allow_shared(checked.dynamic_shared)?;
        let bytes = arguments.as_bytes();
        if bytes.len() > MAX_ARGUMENTS {
            return Err(DeviceError::Geometry {
                kernel: entry.name.to_string(),
                what: "bytes of arguments",
                asked: bytes.len() as u64,
                limit: MAX_ARGUMENTS as u64,
            });
        }
        let mut parameters: [*mut c_void; 1] = [bytes.as_ptr().cast_mut().cast()];
        let ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]) = (checked.grid, checked.block);
        let (call, code): (_, Code) = if cooperative {
            // SAFETY: the function is loaded and held by `self`; the geometry is within its limits; it has
            // one parameter, of this layout (the contract of `KernelArguments`), which the driver copies
            // before it returns.
            let code = unsafe {
                (context.driver.cuLaunchCooperativeKernel)(
                    entry.handle,
                    grid_x,
                    grid_y,
                    grid_z,
                    block_x,
                    block_y,
                    block_z,
                    checked.dynamic_shared,
                    stream.handle(),
                    parameters.as_mut_ptr(),
                )
            };
            ("cuLaunchCooperativeKernel", code)
        } else {
            // SAFETY: as above.
            let code = unsafe {
                (context.driver.cuLaunchKernel)(
                    entry.handle,
                    grid_x,
                    grid_y,
                    grid_z,
                    block_x,
                    block_y,
                    block_z,
                    checked.dynamic_shared,
                    stream.handle(),
                    parameters.as_mut_ptr(),
                    ptr::null_mut(),
                )
            };
            ("cuLaunchKernel", code)
        };
        stream.launched(&entry.name);
        stream.check(call, code)
    }
}

/// Bytes of arguments that every supported device and driver accepts.
const MAX_ARGUMENTS: usize = 4096;

impl std::fmt::Debug for Function {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Function")
            .field("name", &self.name())
            .field("resources", &self.resources())
            .finish()
    }
}
