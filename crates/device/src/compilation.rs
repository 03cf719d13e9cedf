//! One compilation: the calls of NVRTC, or of the emulated device's compiler.

use std::ffi::CString;
use std::ptr;

use cudarc::nvrtc::sys::nvrtcProgram;

use crate::program::Program;
use crate::sys::{Code, NvrtcTable};

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

/// A failed compilation.
pub(crate) struct Failure {
    /// NVRTC's code; `None` if it was not called.
    pub(crate) code: Option<Code>,
    pub(crate) log: String,
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
