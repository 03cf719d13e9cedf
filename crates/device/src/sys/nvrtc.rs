//! The functions of the compiler that are called.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};

use cudarc::nvrtc::sys::nvrtcProgram;

use super::library::{self, FoundNvrtc};
use super::{Backend, Code};
use crate::errors::Missing;
use crate::retry::{RETRY, Retried};

super::function_table! {
    /// Functions of NVRTC.
    NvrtcTable {
        nvrtcVersion: fn(*mut c_int, *mut c_int);
        nvrtcCreateProgram: fn(*mut nvrtcProgram, *const c_char, *const c_char, c_int, *const *const c_char, *const *const c_char);
        nvrtcDestroyProgram: fn(*mut nvrtcProgram);
        nvrtcCompileProgram: fn(nvrtcProgram, c_int, *const *const c_char);
        nvrtcGetCUBINSize: fn(nvrtcProgram, *mut usize);
        nvrtcGetCUBIN: fn(nvrtcProgram, *mut c_char);
        nvrtcGetProgramLogSize: fn(nvrtcProgram, *mut usize);
        nvrtcGetProgramLog: fn(nvrtcProgram, *mut c_char);
        nvrtcGetErrorString: fn(u32) -> *const c_char;
    }
}

/// A bound compiler.
pub(crate) struct Bound {
    pub(crate) table: NvrtcTable,
    pub(crate) version: (u32, u32),
    pub(crate) found: FoundNvrtc,
}

impl NvrtcTable {
    /// Returns the compiler of a backend, searched and bound on first use. A missing compiler is searched
    /// again after [`RETRY`].
    pub(crate) fn get(backend: Backend) -> Result<&'static Bound, Missing> {
        static GPU: Retried<Bound, Missing> = Retried::new(RETRY);
        static EMULATED: Retried<Bound, Missing> = Retried::new(RETRY);
        match backend {
            Backend::Gpu => GPU.get(|| {
                let (library, found) = library::find_nvrtc()?;
                // SAFETY: the library found is NVIDIA's libnvrtc; it is never unloaded.
                let bound = unsafe { bind(&|name| library::symbol(&library, name), found) };
                // Never unloaded: the tables live as long as the process.
                std::mem::forget(library);
                bound
            }),
            Backend::Emulated => EMULATED.get(|| {
                let resolver = super::emulator_resolver()?;
                let found = FoundNvrtc {
                    path: "built in".into(),
                    how: "the emulated device".to_owned(),
                };
                // SAFETY: the emulator's functions have NVRTC's signatures and are part of this program.
                unsafe { bind(&resolver, found) }
            }),
        }
    }

    /// Opens a copy of NVIDIA's compiler: a file of its own, which the dynamic linker loads once more. The
    /// error is the linker's message, or names a missing function.
    pub(crate) fn open_copy(path: &Path) -> Result<Self, String> {
        let library = library::open_alone(path).map_err(|error| library::reason(&error))?;
        // SAFETY: the file is a copy of NVIDIA's libnvrtc; it is never unloaded.
        let table = unsafe { Self::resolve(&|name| library::symbol(&library, name)) };
        // Never unloaded: the table lives as long as the process.
        std::mem::forget(library);
        table.map_err(|name| format!("{} has no function {name}", path.display()))
    }

    /// The file that contains the compiler; `None` if the linker does not return it.
    pub(crate) fn file(&self) -> Option<PathBuf> {
        library::file_of(self.nvrtcVersion as *const c_void)
    }

    /// NVRTC's description of a code.
    pub(crate) fn describe(&self, code: Code) -> String {
        // SAFETY: any integer is allowed; the result is a static, terminated string or null.
        let text = unsafe { (self.nvrtcGetErrorString)(code.0) };
        if text.is_null() {
            return format!("nvrtcResult {}", code.0);
        }
        // SAFETY: not null, so a static, terminated string.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }
}

/// # Safety
/// That of [`NvrtcTable::resolve`].
unsafe fn bind(resolver: &super::Resolver<'_>, found: FoundNvrtc) -> Result<Bound, Missing> {
    // SAFETY: the caller's contract.
    let table = unsafe { NvrtcTable::resolve(resolver) }.map_err(|name| {
        library::missing_nvrtc(format!(
            "{} has no function {name}: it is older than CUDA 11.1",
            found.path.display()
        ))
    })?;
    let (mut major, mut minor) = (0, 0);
    // SAFETY: both pointers are valid for writes.
    let code = unsafe { (table.nvrtcVersion)(&raw mut major, &raw mut minor) };
    if code != Code::SUCCESS {
        let text = table.describe(code);
        return Err(library::missing_nvrtc(format!(
            "{} returns no version: {text}",
            found.path.display()
        )));
    }
    Ok(Bound {
        table,
        version: (major.unsigned_abs(), minor.unsigned_abs()),
        found,
    })
}
