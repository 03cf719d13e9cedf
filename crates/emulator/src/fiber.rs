//! Fibers: the context switch, the stacks, and the pointer to the current thread.
//!
//! A *carrier* is a stack that runs a loop, its [`Loop`]: it runs a thread's kernel function to the end, then
//! the next thread that has not started, and so on. A thread that has to wait keeps its carrier until it is
//! resumed. So a kernel without collectives runs on one carrier and never switches.
//!
//! The switch saves the callee-saved registers of the System V ABI. The floating-point control words are not
//! saved: device code does not change them.
//!
//! Device code finds its thread through a thread-local pointer of this library, at a constant offset from the
//! OS thread's control block (the initial-exec model, so the offset is the same in all OS threads).

use std::arch::{asm, global_asm, naked_asm};
use std::io;
use std::ptr;

use crate::abi::ThreadView;

/// Bytes at the low end of each stack that fault if touched.
const GUARD: usize = 4096;
/// Number of stacks per mapping.
const CHUNK: usize = 32;
/// Words popped by [`resume`]: the registers, then the return address.
const FRAME_WORDS: usize = 7;

global_asm!(
    ".pushsection .tbss,\"awT\",@nobits",
    ".p2align 3",
    ".hidden galatea_emulator_current",
    ".globl galatea_emulator_current",
    ".type galatea_emulator_current,@tls_object",
    ".size galatea_emulator_current,8",
    "galatea_emulator_current:",
    ".zero 8",
    ".popsection",
);

/// Offset of the current-thread pointer from the OS thread's control block.
pub(crate) fn current_offset() -> i64 {
    let offset: i64;
    // SAFETY: reads a link-time constant from the global offset table.
    unsafe {
        asm!("mov {}, qword ptr [rip + galatea_emulator_current@gottpoff]", out(reg) offset, options(nostack, pure, readonly));
    }
    offset
}

/// The device thread running on this OS thread; null outside device code.
#[inline(always)]
pub(crate) fn current() -> *mut ThreadView {
    let thread: *mut ThreadView;
    // SAFETY: reads this OS thread's own copy of an 8-byte thread-local variable. Not `pure`: the value
    // changes with every switch.
    unsafe {
        asm!(
            "mov {offset}, qword ptr [rip + galatea_emulator_current@gottpoff]",
            "mov {offset}, qword ptr fs:[{offset}]",
            offset = out(reg) thread,
            options(nostack, readonly, preserves_flags)
        );
    }
    thread
}

/// Sets the thread that [`current`] returns on this OS thread.
#[inline(always)]
pub(crate) fn set_current(thread: *mut ThreadView) {
    // SAFETY: writes this OS thread's own copy of an 8-byte thread-local variable.
    unsafe {
        asm!(
            "mov {offset}, qword ptr [rip + galatea_emulator_current@gottpoff]",
            "mov qword ptr fs:[{offset}], {thread}",
            offset = out(reg) _,
            thread = in(reg) thread,
            options(nostack, preserves_flags)
        );
    }
}

/// Saves the running context into `*save` and resumes the context at `load`.
///
/// # Safety
/// `load` was written by [`switch`] or returned by [`Stacks::take`], has not been resumed since, and its
/// stack is mapped. Both belong to this OS thread.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn switch(save: *mut *mut u8, load: *mut u8) {
    naked_asm!(
        "push rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "mov [rdi], rsp",
        "mov rsp, rsi",
        "jmp {resume}",
        resume = sym resume,
    )
}

/// Second half of [`switch`], after the stack pointer has changed. The fault handler enters here.
///
/// # Safety
/// Only reached by a jump with a stack pointer saved by [`switch`].
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn resume() {
    naked_asm!(
        "pop r15", "pop r14", "pop r13", "pop r12", "pop rbx", "pop rbp", "ret"
    )
}

/// The loop of a carrier. It is entered with the top of the carrier's own stack.
pub(crate) type Loop = unsafe extern "C" fn(top: *mut u8) -> !;

/// First activation of a carrier: its top is in rbx, its loop in r12.
#[unsafe(naked)]
unsafe extern "C" fn enter() {
    naked_asm!("mov rdi, rbx", "xor ebp, ebp", "call r12", "ud2")
}

/// Size of a stack for a request of `bytes`: at least 16 KiB, in whole pages.
fn usable(bytes: usize) -> usize {
    bytes.max(16 << 10).next_multiple_of(4096)
}

/// Carrier stacks, all of one size. The stack returned last is taken first: its top is still in the cache.
#[derive(Debug)]
pub(crate) struct Stacks {
    bytes: usize,
    main: Loop,
    chunks: Vec<*mut u8>,
    tops: Vec<*mut u8>,
    free: Vec<*mut u8>,
}

// SAFETY: the stacks are plain memory that this value owns, and one OS thread at a time uses it.
unsafe impl Send for Stacks {}

impl Stacks {
    /// Creates an empty set of stacks of `bytes` each, rounded up to whole pages. Their carriers run `main`.
    pub(crate) fn new(bytes: usize, main: Loop) -> Stacks {
        Stacks {
            bytes: usable(bytes),
            main,
            chunks: Vec::new(),
            tops: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Allocates stacks until `count` exist, so that [`take`](Self::take) cannot fail later.
    pub(crate) fn reserve(&mut self, count: usize) -> io::Result<()> {
        while self.tops.len() < count {
            self.map_chunk()?;
        }
        self.reset();
        Ok(())
    }

    /// Whether the stacks are as large as stacks of `bytes` would be.
    pub(crate) fn fit(&self, bytes: usize) -> bool {
        self.bytes == usable(bytes)
    }

    /// Number of stacks.
    pub(crate) fn count(&self) -> usize {
        self.tops.len()
    }

    /// Frees all stacks: every context on them is abandoned.
    pub(crate) fn reset(&mut self) {
        self.free.clear();
        self.free.extend(self.tops.iter().rev());
    }

    /// Takes a stack, prepared so that switching to the result runs the carriers' loop.
    ///
    /// # Safety
    /// Fewer stacks are in use than were reserved.
    #[inline]
    pub(crate) unsafe fn take(&mut self) -> *mut u8 {
        // At most one carrier per thread is in use, and one per thread was reserved.
        let top = self.free.pop().expect("as many stacks as threads are reserved");
        // SAFETY: `top` is 16-byte aligned and has at least 16 KiB of stack below it.
        unsafe {
            let frame = top.cast::<usize>().sub(FRAME_WORDS);
            // Popped in the order r15 r14 r13 r12 rbx rbp, return address.
            frame.write_bytes(0, FRAME_WORDS);
            frame.add(3).write(self.main as usize);
            frame.add(4).write(top as usize);
            frame.add(6).write(enter as *const () as usize);
            frame.cast()
        }
    }

    /// Returns a stack, identified by its top.
    #[inline]
    pub(crate) fn give(&mut self, top: *mut u8) {
        self.free.push(top);
    }

    /// Whether `address` is in the guard page of one of the stacks.
    pub(crate) fn is_guard(&self, address: usize) -> bool {
        let stride = self.stride();
        self.chunks.iter().any(|&chunk| {
            let offset = address.wrapping_sub(chunk as usize);
            offset < stride * CHUNK && offset % stride < GUARD
        })
    }

    /// Whether `address` is in one of the stacks, with at least `bytes` of it below.
    pub(crate) fn has_room(&self, address: usize, bytes: usize) -> bool {
        let stride = self.stride();
        self.chunks.iter().any(|&chunk| {
            let offset = address.wrapping_sub(chunk as usize);
            offset < stride * CHUNK && offset % stride >= GUARD + bytes
        })
    }

    /// The mapped ranges, including guards.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = (*mut u8, usize)> + '_ {
        self.chunks.iter().map(|&chunk| (chunk, self.stride() * CHUNK))
    }

    fn stride(&self) -> usize {
        self.bytes + GUARD
    }

    fn map_chunk(&mut self) -> io::Result<()> {
        let stride = self.stride();
        // SAFETY: a new anonymous mapping.
        let base = unsafe {
            libc::mmap(
                ptr::null_mut(),
                stride * CHUNK,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = base.cast::<u8>();
        self.chunks.push(base);
        for index in 0..CHUNK {
            // SAFETY: inside the new mapping.
            let low = unsafe { base.add(index * stride) };
            // SAFETY: one page of the new mapping.
            if unsafe { libc::mprotect(low.cast(), GUARD, libc::PROT_NONE) } != 0 {
                return Err(io::Error::last_os_error());
            }
            // The same depth of different stacks maps to different cache sets.
            let colour = (self.tops.len() % CHUNK) * 128;
            // SAFETY: inside the mapping: a stack is at least 16 KiB, the colour less than 4 KiB.
            self.tops.push(unsafe { low.add(stride - colour) });
        }
        Ok(())
    }
}

impl Drop for Stacks {
    fn drop(&mut self) {
        for &chunk in &self.chunks {
            // SAFETY: mapped by `map_chunk` with this size; nothing runs on the stacks any more.
            unsafe { libc::munmap(chunk.cast(), self.stride() * CHUNK) };
        }
    }
}
