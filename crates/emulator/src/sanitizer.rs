//! Marks memory as forbidden for AddressSanitizer, if its run time is in the process (preloaded).
//!
//! The functions are looked up by name, so that nothing links to the sanitizer. Without it every function
//! here does nothing.

use std::ffi::c_void;
use std::sync::OnceLock;

type Mark = unsafe extern "C" fn(*const c_void, usize);

fn lookup(name: &std::ffi::CStr) -> Option<Mark> {
    // SAFETY: a plain symbol lookup in the process.
    let symbol = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    if symbol.is_null() {
        return None;
    }
    // SAFETY: the sanitizer's interface header gives both functions this signature.
    Some(unsafe { std::mem::transmute::<*mut c_void, Mark>(symbol) })
}

fn marks() -> Option<(Mark, Mark)> {
    static MARKS: OnceLock<Option<(Mark, Mark)>> = OnceLock::new();
    *MARKS.get_or_init(|| {
        Some((
            lookup(c"__asan_poison_memory_region")?,
            lookup(c"__asan_unpoison_memory_region")?,
        ))
    })
}

/// Whether AddressSanitizer's run time is in this process.
pub(crate) fn present() -> bool {
    marks().is_some()
}

/// Marks the range: from now on, accesses by instrumented code are errors.
pub(crate) fn poison(start: *const u8, bytes: usize) {
    if let Some((mark, _)) = marks() {
        // SAFETY: the range is memory of this process; marking changes shadow memory only.
        unsafe { mark(start.cast(), bytes) };
    }
}

/// Unmarks the range: accesses are allowed again.
pub(crate) fn unpoison(start: *const u8, bytes: usize) {
    if let Some((_, mark)) = marks() {
        // SAFETY: as in `poison`.
        unsafe { mark(start.cast(), bytes) };
    }
}
