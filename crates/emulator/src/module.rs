//! Loaded modules: shared objects compiled by [`crate::compiler`], and their kernels.

use std::ffi::{CStr, c_int, c_void};
use std::io::Write as _;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use libloading::os::unix::Library;
use tempfile::TempPath;

use crate::abi::{MAX_THREADS, ModuleTable, REVISION, Runtime};
use crate::{fiber, image};

/// The most dynamic plus static shared memory that a kernel may use without opting in.
pub(crate) const SHARED_WITHOUT_OPT_IN: u32 = 48 << 10;
/// The limit on dynamic shared memory was not set.
const UNSET: u32 = u32::MAX;

/// The reason why an image cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoadError {
    #[error("not an image of this version of the emulator")]
    Image,
    #[error("could not be written to a file: {0}")]
    Io(#[from] std::io::Error),
    #[error("could not be loaded: {0}")]
    Load(#[from] libloading::Error),
}

/// A loaded shared object.
#[derive(Debug)]
pub(crate) struct Module {
    functions: Vec<Arc<Function>>,
}

/// The shared object of a module and its kernels. It is closed with the last of them.
#[derive(Debug)]
struct Object {
    segments: Segments,
    _library: Library,
    _file: Option<TempPath>,
}

/// A kernel.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) run: unsafe extern "C" fn(*mut *mut c_void),
    /// Sizes of the parameters in bytes.
    pub(crate) sizes: Vec<u32>,
    /// From `__launch_bounds__`, otherwise the maximum of a block.
    pub(crate) max_threads: u32,
    max_dynamic: AtomicU32,
    /// Whether the module has no other kernel, so that all its static shared memory belongs to this one.
    only: bool,
    object: Arc<Object>,
}

impl Module {
    /// Loads an image. Its kernels call the functions of `runtime`.
    pub(crate) fn load(
        bytes: &[u8],
        runtime: &'static Runtime,
        keep_file: bool,
    ) -> Result<Module, LoadError> {
        let object = image::object(bytes).ok_or(LoadError::Image)?;
        // Each load uses a file of its own, so that two modules from one image have separate variables.
        let mut file = tempfile::Builder::new()
            .prefix("galatea-kernel-")
            .suffix(".so")
            .tempfile()?;
        file.write_all(object)?;
        file.flush()?;
        // SAFETY: our compiler compiled the object from a program without constructors of globals.
        let library = unsafe { Library::open(Some(file.path()), libc::RTLD_NOW | libc::RTLD_LOCAL) }?;
        // AddressSanitizer and race reports read line numbers from the file. Nothing else needs it after
        // loading.
        let file = keep_file.then(|| file.into_temp_path());
        // SAFETY: the symbols have these types in `cuda/runtime.h` and `cuda/export.h`.
        unsafe {
            let table: *const ModuleTable = *library.get(b"__galatea_module\0")?;
            if (*table).revision != REVISION {
                return Err(LoadError::Image);
            }
            let offset: *mut i64 = *library.get(b"__galatea_self_offset\0")?;
            *offset = fiber::current_offset();
            let functions: *mut *const Runtime = *library.get(b"__galatea_rt\0")?;
            *functions = runtime;
            let object = Arc::new(Object {
                segments: segments(table as usize),
                _library: library,
                _file: file,
            });
            let entries = std::slice::from_raw_parts((*table).kernels, (*table).count as usize);
            let functions = entries
                .iter()
                .map(|entry| {
                    Arc::new(Function {
                        name: CStr::from_ptr(entry.name).to_string_lossy().into_owned(),
                        run: entry.run,
                        sizes: std::slice::from_raw_parts(entry.sizes, entry.count as usize).to_vec(),
                        max_threads: match entry.max_threads {
                            0 => MAX_THREADS as u32,
                            bound => bound.min(MAX_THREADS as u32),
                        },
                        max_dynamic: AtomicU32::new(UNSET),
                        only: entries.len() == 1,
                        object: Arc::clone(&object),
                    })
                })
                .collect();
            Ok(Module { functions })
        }
    }

    /// A kernel by name.
    pub(crate) fn function(&self, name: &str) -> Option<&Arc<Function>> {
        self.functions.iter().find(|function| function.name == name)
    }
}

impl Function {
    /// This OS thread's copy of the module's static shared memory.
    pub(crate) fn static_memory(&self) -> (*mut u8, usize) {
        let ThreadLocal { module, bytes } = self.object.segments.thread_local;
        if module == 0 {
            return (std::ptr::null_mut(), 0);
        }
        // SAFETY: the index of an object that stays loaded while `self.object` exists.
        let start = unsafe { __tls_get_addr(&TlsIndex { module, offset: 0 }) };
        (start.cast(), bytes)
    }

    /// Addresses of the module's code.
    pub(crate) fn code(&self) -> Range<usize> {
        self.object.segments.code.clone()
    }

    /// Static shared memory in bytes; 0 if the module has several kernels and their shares are unknown.
    pub(crate) fn static_shared(&self) -> u32 {
        if self.only {
            self.object.segments.thread_local.bytes as u32
        } else {
            0
        }
    }

    /// The most dynamic shared memory that the kernel may be launched with.
    pub(crate) fn max_dynamic(&self) -> u32 {
        match self.max_dynamic.load(Ordering::Relaxed) {
            UNSET => SHARED_WITHOUT_OPT_IN.saturating_sub(self.static_shared()),
            set => set,
        }
    }

    pub(crate) fn set_max_dynamic(&self, bytes: u32) {
        self.max_dynamic.store(bytes, Ordering::Relaxed);
    }
}

/// Parts of a loaded shared object.
#[derive(Debug, Default)]
struct Segments {
    thread_local: ThreadLocal,
    /// Addresses of the executable part.
    code: Range<usize>,
}

/// The thread-local memory of a loaded shared object.
#[derive(Clone, Copy, Debug, Default)]
struct ThreadLocal {
    /// The dynamic linker's index of the object among those with thread-local memory; 0 if it has none.
    module: usize,
    bytes: usize,
}

/// The argument of [`__tls_get_addr`]: `tls_index` of the x86-64 ABI.
#[repr(C)]
struct TlsIndex {
    module: usize,
    offset: usize,
}

unsafe extern "C" {
    /// The dynamic linker's address of a thread-local variable on this OS thread. The thread's copy is
    /// allocated on first use. `dlpi_tls_data` of `dl_iterate_phdr` is not used instead: it can be null for
    /// allocated memory if another thread loads or closes an object meanwhile.
    fn __tls_get_addr(index: *const TlsIndex) -> *mut c_void;
}

/// The parts of the shared object that contains `address`.
fn segments(address: usize) -> Segments {
    struct Search {
        address: usize,
        found: Segments,
    }
    unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _: usize, search: *mut c_void) -> c_int {
        // SAFETY: called by `dl_iterate_phdr` with the pointer given below.
        let (info, search) = unsafe { (&*info, &mut *search.cast::<Search>()) };
        // SAFETY: the program headers of a loaded object.
        let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
        let range = |header: &libc::Elf64_Phdr| {
            let start = info.dlpi_addr as usize + header.p_vaddr as usize;
            start..start + header.p_memsz as usize
        };
        let loads = || headers.iter().filter(|header| header.p_type == libc::PT_LOAD);
        if !loads().any(|header| range(header).contains(&search.address)) {
            return 0;
        }
        if let Some(header) = headers.iter().find(|header| header.p_type == libc::PT_TLS) {
            search.found.thread_local = ThreadLocal {
                module: info.dlpi_tls_modid,
                bytes: header.p_memsz as usize,
            };
        }
        if let Some(header) = loads().find(|header| header.p_flags & libc::PF_X != 0) {
            search.found.code = range(header);
        }
        1
    }
    let mut search = Search {
        address,
        found: Segments::default(),
    };
    // SAFETY: the callback matches and the argument outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut search).cast()) };
    search.found
}
