//! The NVRTC functions, implemented by [`crate::compiler`].

use std::ffi::{CStr, CString, c_char, c_int};
use std::sync::Arc;

use cudarc::nvrtc::sys::nvrtcResult;
use parking_lot::Mutex;

use crate::compiler::{self, Options, Source};
use crate::handles::Handles;

type ProgramHandle = usize;

#[derive(Debug)]
struct Program {
    source: Source,
    output: Mutex<Output>,
}

#[derive(Debug, Default)]
struct Output {
    log: CString,
    image: Option<Arc<[u8]>>,
}

static PROGRAMS: Handles<Program> = Handles::new();

/// The reported version: that of the NVRTC version that the shim follows.
pub(crate) const VERSION: (c_int, c_int) = (13, 0);

pub(crate) unsafe extern "C" fn version(major: *mut c_int, minor: *mut c_int) -> nvrtcResult {
    if major.is_null() || minor.is_null() {
        return nvrtcResult::NVRTC_ERROR_INVALID_INPUT;
    }
    // SAFETY: the caller's pointers, not null.
    unsafe {
        *major = VERSION.0;
        *minor = VERSION.1;
    }
    nvrtcResult::NVRTC_SUCCESS
}

/// The string at a pointer; `None` for null.
unsafe fn text(pointer: *const c_char) -> Option<String> {
    if pointer.is_null() {
        return None;
    }
    // SAFETY: the caller passes C strings.
    Some(unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned())
}

pub(crate) unsafe extern "C" fn create(
    program: *mut ProgramHandle,
    source: *const c_char,
    name: *const c_char,
    header_count: c_int,
    headers: *const *const c_char,
    names: *const *const c_char,
) -> nvrtcResult {
    // SAFETY: NVRTC's own contract: C strings, and `count` headers and names.
    unsafe {
        let Some(source) = text(source) else {
            return nvrtcResult::NVRTC_ERROR_INVALID_INPUT;
        };
        let count = usize::try_from(header_count).unwrap_or(0);
        if program.is_null() || count > 0 && (headers.is_null() || names.is_null()) {
            return nvrtcResult::NVRTC_ERROR_INVALID_INPUT;
        }
        let headers = (0..count).map(|index| Some((text(*names.add(index))?, text(*headers.add(index))?)));
        let Some(headers) = headers.collect::<Option<Vec<_>>>() else {
            return nvrtcResult::NVRTC_ERROR_INVALID_INPUT;
        };
        let name = text(name).unwrap_or_default();
        let source = Source {
            name,
            text: source,
            headers,
        };
        *program = PROGRAMS.insert(Arc::new(Program {
            source,
            output: Mutex::default(),
        }));
    }
    nvrtcResult::NVRTC_SUCCESS
}

pub(crate) unsafe extern "C" fn destroy(program: *mut ProgramHandle) -> nvrtcResult {
    if program.is_null() {
        return nvrtcResult::NVRTC_ERROR_INVALID_PROGRAM;
    }
    // SAFETY: the caller's pointer, not null.
    let removed = PROGRAMS.remove(unsafe { program.replace(0) });
    if removed.is_some() {
        nvrtcResult::NVRTC_SUCCESS
    } else {
        nvrtcResult::NVRTC_ERROR_INVALID_PROGRAM
    }
}

pub(crate) unsafe extern "C" fn compile(
    program: ProgramHandle,
    option_count: c_int,
    options: *const *const c_char,
) -> nvrtcResult {
    let Some(program) = PROGRAMS.get(program) else {
        return nvrtcResult::NVRTC_ERROR_INVALID_PROGRAM;
    };
    let count = usize::try_from(option_count).unwrap_or(0);
    // SAFETY: `count` C strings.
    let Some(given) = (0..count)
        .map(|index| unsafe { text(*options.add(index)) })
        .collect::<Option<Vec<_>>>()
    else {
        return nvrtcResult::NVRTC_ERROR_INVALID_INPUT;
    };
    let explicit = given.iter().any(|option| option.starts_with("--emulator-"));
    let defaults = if explicit {
        Options::default()
    } else {
        crate::driver::current_options()
    };
    let (result, log, image) = match Options::parse(given.iter().map(String::as_str), defaults) {
        Err(error) => (nvrtcResult::NVRTC_ERROR_INVALID_OPTION, error.to_string(), None),
        Ok(options) => match compiler::compile(&program.source, &options) {
            Ok(image) => (nvrtcResult::NVRTC_SUCCESS, String::new(), Some(image.into())),
            Err(error) => (nvrtcResult::NVRTC_ERROR_COMPILATION, error.to_string(), None),
        },
    };
    let log = CString::new(log.replace('\0', " ")).unwrap_or_default();
    *program.output.lock() = Output { log, image };
    result
}

pub(crate) unsafe extern "C" fn cubin_size(program: ProgramHandle, size: *mut usize) -> nvrtcResult {
    let Some(program) = PROGRAMS.get(program) else {
        return nvrtcResult::NVRTC_ERROR_INVALID_PROGRAM;
    };
    match &program.output.lock().image {
        // SAFETY: the caller's pointer.
        Some(image) if !size.is_null() => unsafe { *size = image.len() },
        _ => return nvrtcResult::NVRTC_ERROR_INVALID_INPUT,
    }
    nvrtcResult::NVRTC_SUCCESS
}

pub(crate) unsafe extern "C" fn cubin(program: ProgramHandle, bytes: *mut c_char) -> nvrtcResult {
    let Some(program) = PROGRAMS.get(program) else {
        return nvrtcResult::NVRTC_ERROR_INVALID_PROGRAM;
    };
    match &program.output.lock().image {
        // SAFETY: the caller's buffer has the size that was returned to it.
        Some(image) if !bytes.is_null() => unsafe {
            std::ptr::copy_nonoverlapping(image.as_ptr(), bytes.cast(), image.len());
        },
        _ => return nvrtcResult::NVRTC_ERROR_INVALID_INPUT,
    }
    nvrtcResult::NVRTC_SUCCESS
}

pub(crate) unsafe extern "C" fn log_size(program: ProgramHandle, size: *mut usize) -> nvrtcResult {
    let Some(program) = PROGRAMS.get(program) else {
        return nvrtcResult::NVRTC_ERROR_INVALID_PROGRAM;
    };
    if size.is_null() {
        return nvrtcResult::NVRTC_ERROR_INVALID_INPUT;
    }
    // SAFETY: the caller's pointer, not null.
    unsafe { *size = program.output.lock().log.as_bytes_with_nul().len() };
    nvrtcResult::NVRTC_SUCCESS
}

pub(crate) unsafe extern "C" fn log(program: ProgramHandle, buffer: *mut c_char) -> nvrtcResult {
    let Some(program) = PROGRAMS.get(program) else {
        return nvrtcResult::NVRTC_ERROR_INVALID_PROGRAM;
    };
    if buffer.is_null() {
        return nvrtcResult::NVRTC_ERROR_INVALID_INPUT;
    }
    let output = program.output.lock();
    let bytes = output.log.as_bytes_with_nul();
    // SAFETY: the caller's buffer has the size that was returned to it.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), buffer.cast(), bytes.len()) };
    nvrtcResult::NVRTC_SUCCESS
}

pub(crate) unsafe extern "C" fn error_string(result: u32) -> *const c_char {
    let text = match result {
        0 => c"NVRTC_SUCCESS",
        3 => c"NVRTC_ERROR_INVALID_INPUT",
        4 => c"NVRTC_ERROR_INVALID_PROGRAM",
        5 => c"NVRTC_ERROR_INVALID_OPTION",
        6 => c"NVRTC_ERROR_COMPILATION",
        _ => c"NVRTC_ERROR",
    };
    text.as_ptr()
}
