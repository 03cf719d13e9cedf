//! A block's shared memory.
//!
//! Dynamic shared memory ends (rounded up to 16 bytes) at an inaccessible page: the first access past the end
//! faults and is reported. Static shared memory is the module's thread-local memory, see [`crate::module`].
//! Both are filled with a pattern before each block, so that a kernel that relies on zeros or on values of an
//! earlier block returns wrong results here, too.

use std::io;
use std::ops::Range;
use std::ptr;

use crate::sanitizer;

/// The maximum of dynamic shared memory.
pub(crate) const MOST: usize = 1 << 20;
const PAGE: usize = 4096;
const ALIGNMENT: usize = 16;

/// The shared memory of the block that a runner executes.
#[derive(Debug)]
pub(crate) struct SharedMemory {
    mapping: *mut u8,
    dynamic: *mut u8,
    dynamic_bytes: usize,
    fixed: *mut u8,
    fixed_bytes: usize,
}

impl SharedMemory {
    /// Maps the area, with its guard pages.
    pub(crate) fn new() -> io::Result<SharedMemory> {
        // SAFETY: a new anonymous mapping, one page larger at each end.
        let mapping = unsafe {
            libc::mmap(
                ptr::null_mut(),
                MOST + 2 * PAGE,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if mapping == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let mapping = mapping.cast::<u8>();
        // SAFETY: the inner part of the new mapping.
        if unsafe { libc::mprotect(mapping.add(PAGE).cast(), MOST, libc::PROT_READ | libc::PROT_WRITE) } != 0
        {
            return Err(io::Error::last_os_error());
        }
        Ok(SharedMemory {
            mapping,
            dynamic: ptr::null_mut(),
            dynamic_bytes: 0,
            fixed: ptr::null_mut(),
            fixed_bytes: 0,
        })
    }

    /// Returns the start of `bytes` of dynamic shared memory.
    pub(crate) fn place(&mut self, bytes: usize) -> io::Result<*mut u8> {
        let rounded = bytes.next_multiple_of(ALIGNMENT);
        if rounded > MOST {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "more dynamic shared memory than can be placed",
            ));
        }
        // SAFETY: inside the mapping.
        unsafe {
            sanitizer::unpoison(self.mapping, MOST + 2 * PAGE);
            self.dynamic = self.mapping.add(PAGE + MOST - rounded);
            sanitizer::poison(self.mapping, PAGE + MOST - rounded);
            sanitizer::poison(self.dynamic.add(bytes), rounded - bytes + PAGE);
        }
        self.dynamic_bytes = bytes;
        Ok(self.dynamic)
    }

    /// Sets the module's static shared memory on this OS thread.
    pub(crate) fn set_fixed(&mut self, start: *mut u8, bytes: usize) {
        self.fixed = start;
        self.fixed_bytes = bytes;
    }

    /// Fills all shared memory with a pattern.
    pub(crate) fn poison(&mut self, pattern: u64) {
        // SAFETY: both ranges are the running block's shared memory, and no block is running.
        unsafe {
            fill(self.dynamic, self.dynamic_bytes, pattern);
            fill(self.fixed, self.fixed_bytes, pattern);
        }
    }

    /// The addresses of the static and of the dynamic part.
    pub(crate) fn ranges(&self) -> [Range<usize>; 2] {
        [(self.fixed, self.fixed_bytes), (self.dynamic, self.dynamic_bytes)]
            .map(|(start, bytes)| start as usize..start as usize + bytes)
    }

    /// Describes an address near the dynamic shared memory.
    pub(crate) fn describe(&self, address: usize) -> Option<String> {
        let start = self.mapping as usize;
        if address.wrapping_sub(start) >= MOST + 2 * PAGE {
            return None;
        }
        let offset = address.wrapping_sub(self.dynamic as usize) as isize;
        Some(format!(
            "byte {offset} of {} bytes of dynamic shared memory",
            self.dynamic_bytes
        ))
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        sanitizer::unpoison(self.mapping, MOST + 2 * PAGE);
        // SAFETY: mapped by `new` with this size; no block is running.
        unsafe { libc::munmap(self.mapping.cast(), MOST + 2 * PAGE) };
    }
}

/// Writes a repeated 8-byte pattern.
///
/// # Safety
/// The range is writable (or empty).
pub(crate) unsafe fn fill(start: *mut u8, bytes: usize, pattern: u64) {
    let words = bytes / 8;
    let word = start.cast::<u64>();
    for index in 0..words {
        // SAFETY: inside the range.
        unsafe { word.add(index).write_unaligned(pattern) };
    }
    for index in words * 8..bytes {
        // SAFETY: inside the range.
        unsafe { start.add(index).write(pattern.to_le_bytes()[index % 8]) };
    }
}
