//! Compiles programs to cubins with NVRTC, or for the emulated device. No GPU is needed.

use std::ffi::CString;
use std::ptr;

use cudarc::nvrtc::sys::{nvrtcProgram, nvrtcResult};

use crate::compilers::Lease;
use crate::ending::before_the_end;
use crate::errors::{DeviceError, Missing, Result};
use crate::info::Architecture;
use crate::program::{OPTIONAL, Program};
use crate::sys::{Backend, Bound, Code, NvrtcTable};

/// A run-time compiler.
#[derive(Clone, Copy)]
pub struct Nvrtc {
    bound: &'static Bound,
    backend: Backend,
}

impl Nvrtc {
    /// NVIDIA's compiler, if it is installed.
    ///
    /// # Errors
    /// The places that were searched, and how to install it.
    pub fn find() -> Result<Self, Missing> {
        Self::of(Backend::Gpu)
    }

    /// The emulated device's compiler, a C++ compiler of the host.
    ///
    /// # Errors
    /// The emulator's reason.
    pub fn emulated() -> Result<Self, Missing> {
        Self::of(Backend::Emulated)
    }

    pub(crate) fn of(backend: Backend) -> Result<Self, Missing> {
        let bound = NvrtcTable::get(backend)?;
        Ok(Self { bound, backend })
    }

    #[cfg(test)]
    pub(crate) fn bound(&self) -> &'static Bound {
        self.bound
    }

    /// Version, (major, minor).
    #[must_use]
    pub fn version(&self) -> (u32, u32) {
        self.bound.version
    }

    /// Compiles a program to a cubin, without any cache.
    ///
    /// # Errors
    /// [`DeviceError::Compile`] with log and numbered source.
    pub fn compile(&self, architecture: Architecture, program: &Program) -> Result<Vec<u8>> {
        before_the_end(|| self.compile_with_options(program, program.all_options(architecture)))
    }

    /// Like [`Nvrtc::compile`], with exactly these options.
    pub(crate) fn compile_with_options(
        &self,
        program: &Program,
        mut options: Vec<String>,
    ) -> Result<Vec<u8>> {
        match self.compile_with(program, &options) {
            Err(Failure { code, .. }) if code.is_some_and(is_invalid_option) => {
                options.retain(|option| !OPTIONAL.contains(&option.as_str()));
                self.compile_with(program, &options)
            }
            outcome => outcome,
        }
        .map_err(|Failure { log, .. }| DeviceError::Compile {
            program: program.name.clone(),
            log,
            listing: listing(&program.source),
            options: options.join(" "),
        })
    }

    fn compile_with(&self, program: &Program, options: &[String]) -> Result<Vec<u8>, Failure> {
        let lease = (self.backend == Backend::Gpu).then(|| Lease::of(self.bound));
        let table = lease.as_ref().map_or(&self.bound.table, |lease| lease.table);
        compile_with(table, program, options)
    }
}

impl std::fmt::Debug for Nvrtc {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Nvrtc")
            .field("version", &self.bound.version)
            .field("path", &self.bound.found.path)
            .finish()
    }
}

/// Compiles a program to a cubin for an architecture that need not be present. So every kernel can be checked
/// without a GPU.
///
/// # Errors
/// [`DeviceError::Compile`] with log and numbered source.
pub fn compile_for(architecture: Architecture, program: &Program, nvrtc: &Nvrtc) -> Result<Vec<u8>> {
    nvrtc.compile(architecture, program)
}

/// Compiles a program with exactly these options.
pub(crate) fn compile_with(
    table: &NvrtcTable,
    program: &Program,
    options: &[String],
) -> Result<Vec<u8>, Failure> {
    let c_string = |text: &str| {
        CString::new(text).map_err(|_| Failure {
            code: None,
            log: "a string contains a null character".to_owned(),
        })
    };
    let source = c_string(&program.source)?;
    let name = c_string(&format!("{}.cu", program.name))?;
    let files = program.headers.files();
    let texts = files
        .iter()
        .map(|(_, text)| c_string(text))
        .collect::<Result<Vec<_>, _>>()?;
    let names = files
        .iter()
        .map(|(name, _)| c_string(name))
        .collect::<Result<Vec<_>, _>>()?;
    let options = options
        .iter()
        .map(|option| c_string(option))
        .collect::<Result<Vec<_>, _>>()?;
    let pointers = |strings: &[CString]| strings.iter().map(|string| string.as_ptr()).collect::<Vec<_>>();
    let (texts, names, options) = (pointers(&texts), pointers(&names), pointers(&options));
    let count = |list: &[_]| i32::try_from(list.len()).unwrap_or(i32::MAX);

    let mut handle: nvrtcProgram = ptr::null_mut();
    // SAFETY: all strings are terminated and alive during the call; the arrays have the given length.
    let code = unsafe {
        (table.nvrtcCreateProgram)(
            &raw mut handle,
            source.as_ptr(),
            name.as_ptr(),
            count(&texts),
            texts.as_ptr(),
            names.as_ptr(),
        )
    };
    check(table, code)?;
    let mut handle = Handle { table, handle };
    // SAFETY: the program was just created; the options are terminated and alive, and their number is
    // passed.
    let code = unsafe { (table.nvrtcCompileProgram)(handle.handle, count(&options), options.as_ptr()) };
    if code != Code::SUCCESS {
        let log = handle.log();
        let text = table.describe(code);
        let log = if log.trim().is_empty() {
            text
        } else {
            format!("{text}\n{log}")
        };
        return Err(Failure {
            code: Some(code),
            log,
        });
    }
    let mut size = 0usize;
    // SAFETY: the program is compiled; the pointer is valid for a write.
    check(table, unsafe {
        (table.nvrtcGetCUBINSize)(handle.handle, &raw mut size)
    })?;
    let mut image = vec![0u8; size];
    // SAFETY: the buffer has the size that the compiler returned.
    check(table, unsafe {
        (table.nvrtcGetCUBIN)(handle.handle, image.as_mut_ptr().cast())
    })?;
    Ok(image)
}

fn check(table: &NvrtcTable, code: Code) -> Result<(), Failure> {
    if code == Code::SUCCESS {
        return Ok(());
    }
    Err(Failure {
        code: Some(code),
        log: table.describe(code),
    })
}

pub(crate) struct Failure {
    code: Option<Code>,
    log: String,
}

fn is_invalid_option(code: Code) -> bool {
    code.0 == nvrtcResult::NVRTC_ERROR_INVALID_OPTION as u32
}

/// An NVRTC program, destroyed when dropped.
struct Handle<'t> {
    table: &'t NvrtcTable,
    handle: nvrtcProgram,
}

impl Handle<'_> {
    fn log(&mut self) -> String {
        let mut size = 0usize;
        // SAFETY: the program exists; the pointer is valid for a write.
        if unsafe { (self.table.nvrtcGetProgramLogSize)(self.handle, &raw mut size) } != Code::SUCCESS {
            return String::new();
        }
        let mut log = vec![0u8; size];
        // SAFETY: the buffer has the size that the compiler returned.
        if unsafe { (self.table.nvrtcGetProgramLog)(self.handle, log.as_mut_ptr().cast()) } != Code::SUCCESS {
            return String::new();
        }
        String::from_utf8_lossy(&log).trim_end_matches('\0').to_owned()
    }
}

impl Drop for Handle<'_> {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once.
        let _ = unsafe { (self.table.nvrtcDestroyProgram)(&raw mut self.handle) };
    }
}

/// Formats source with line numbers as in compiler messages.
fn listing(source: &str) -> String {
    use std::fmt::Write as _;
    let width = source.lines().count().max(1).to_string().len();
    source
        .lines()
        .enumerate()
        .fold(String::new(), |mut text, (index, line)| {
            let _ = writeln!(text, "{:>width$} | {line}", index + 1);
            text
        })
}
