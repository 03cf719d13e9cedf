//! Turns faults in device code into failed launches, and interrupts long-running fibers.
//!
//! Signals are handled while an OS thread runs a device thread ([`fiber::current`] is not null). All other
//! signals are passed to the handler that was installed before.
//!
//! * `SIGSEGV`, `SIGBUS`, `SIGILL`: the fault is recorded in the runner, and the OS thread continues in the
//!   context that started the block, as if the fiber had switched to it. The fiber is abandoned.
//! * `SIGFPE`: an integer division that faults on x86 (by zero, or the smallest number by -1) but not on a
//!   GPU. The quotient is set to the GPU's result (all ones; the smallest number), and the code continues.
//! * `SIGURG`, sent by [`crate::watchdog`] to a thread that has been in one fiber for long: if the thread is
//!   in the code of the module itself (not in this library or the C library), a call to [`interrupted`] is
//!   inserted, which saves every register and pauses. So a spin on a plain volatile read makes progress,
//!   though slowly.

use std::arch::naked_asm;
use std::ffi::{CStr, c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::OnceLock;

use libc::{REG_EFL, REG_RIP, REG_RSP, siginfo_t, ucontext_t};

use crate::abi;
use crate::block::{Fault, Runner, Thread};
use crate::divide;
use crate::fiber;

/// The signal that interrupts a fiber.
pub(crate) const INTERRUPT: c_int = libc::SIGURG;

const FAULTS: [c_int; 4] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE];

/// The handlers that were installed before, in the order of [`FAULTS`].
static BEFORE: OnceLock<[libc::sigaction; 4]> = OnceLock::new();

/// Installs the handlers, once.
pub(crate) fn install() {
    BEFORE.get_or_init(|| {
        FAULTS.map(|signal| {
            // SAFETY: the handler has the signature of SA_SIGINFO and is async-signal-safe.
            unsafe {
                let mut before = MaybeUninit::<libc::sigaction>::zeroed();
                libc::sigaction(signal, ptr::null(), before.as_mut_ptr());
                before.assume_init()
            }
        })
    });
    static INSTALLED: OnceLock<()> = OnceLock::new();
    // Installed only after the earlier handlers are visible to all threads.
    INSTALLED.get_or_init(|| {
        for signal in FAULTS.into_iter().chain([INTERRUPT]) {
            // SAFETY: as above; the structure is fully set.
            unsafe {
                let mut action = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
                action.sa_sigaction = handle as *const () as usize;
                action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
                // No other signal is blocked: each handler ends by returning, which restores the mask.
                libc::sigemptyset(&mut action.sa_mask);
                for other in FAULTS.into_iter().chain([INTERRUPT]) {
                    libc::sigaddset(&mut action.sa_mask, other);
                }
                libc::sigaction(signal, &action, ptr::null_mut());
            }
        }
    });
}

unsafe extern "C" fn handle(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let thread = Thread::current();
    // SAFETY: called by the kernel with valid pointers; the current thread's runner belongs to this OS
    // thread.
    unsafe {
        let registers = &mut (*context.cast::<ucontext_t>()).uc_mcontext.gregs;
        if signal == INTERRUPT {
            if !thread.is_null() {
                interrupt(&*Thread::runner(thread), registers);
            }
            return;
        }
        if thread.is_null() {
            return pass_on(signal, info, context);
        }
        if signal == libc::SIGFPE && divide::repair(registers) {
            return;
        }
        let runner = Thread::runner(thread);
        (*runner).fault = Some(Fault {
            signal,
            address: (*info).si_addr() as usize,
            instruction: registers[REG_RIP as usize] as usize,
        });
        registers[REG_RSP as usize] = (*runner).main as i64;
        registers[REG_RIP as usize] = fiber::resume as *const () as i64;
    }
}

/// Makes the interrupted code call [`interrupted`], if the code belongs to the module.
unsafe fn interrupt(runner: &Runner, registers: &mut [i64; 23]) {
    /// Bytes below the stack pointer that a function may use without moving it.
    const RED_ZONE: usize = 128;
    let instruction = registers[REG_RIP as usize] as usize;
    let stack = registers[REG_RSP as usize] as usize;
    if !runner.is_device_code(instruction) || !runner.stacks.has_room(stack, 4096) {
        return;
    }
    // SAFETY: the stack of the running fiber, which has room below the part in use.
    unsafe { ((stack - RED_ZONE - 8) as *mut usize).write(instruction) };
    registers[REG_RSP as usize] = (stack - RED_ZONE - 8) as i64;
    registers[REG_RIP as usize] = interrupted as *const () as i64;
    // The ABI requires a clear direction flag in calls.
    registers[REG_EFL as usize] &= !0x400;
}

/// Pauses with all registers preserved, then returns below a red zone. The flags and the vector registers of
/// baseline x86-64 (the target of device code) are saved.
#[unsafe(naked)]
unsafe extern "C" fn interrupted() {
    naked_asm!(
        "pushfq",
        "push rax", "push rcx", "push rdx", "push rsi", "push rdi",
        "push r8", "push r9", "push r10", "push r11", "push rbx", "push rbp",
        "mov rbp, rsp",
        "sub rsp, 512",
        "and rsp, -64",
        "fxsave64 [rsp]",
        "mov rbx, rsp",
        "cld",
        "mov edi, {interrupt}",
        "call {pause}",
        "fxrstor64 [rbx]",
        "mov rsp, rbp",
        "pop rbp", "pop rbx", "pop r11", "pop r10", "pop r9", "pop r8",
        "pop rdi", "pop rsi", "pop rdx", "pop rcx", "pop rax",
        "popfq",
        "ret 128",
        interrupt = const abi::pause::INTERRUPT,
        pause = sym crate::block::pause,
    )
}

/// Handles a signal outside of device code as if this handler were not installed.
unsafe fn pass_on(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let before = FAULTS
        .iter()
        .position(|&known| known == signal)
        .and_then(|index| Some(&BEFORE.get()?[index]));
    // SAFETY: an earlier handler is called with the signature that it was installed with; otherwise the
    // default action is restored and the instruction repeated.
    unsafe {
        match before.map(|action| (action.sa_sigaction, action.sa_flags)) {
            Some((handler, flags)) if handler != libc::SIG_DFL && handler != libc::SIG_IGN => {
                if flags & libc::SA_SIGINFO != 0 {
                    type Handler = unsafe extern "C" fn(c_int, *mut siginfo_t, *mut c_void);
                    std::mem::transmute::<usize, Handler>(handler)(signal, info, context);
                } else {
                    std::mem::transmute::<usize, unsafe extern "C" fn(c_int)>(handler)(signal);
                }
            }
            _ => {
                libc::signal(signal, libc::SIG_DFL);
            }
        }
    }
}

impl Fault {
    /// Describes the fault from the state of the runner.
    pub(crate) fn describe(&self, runner: &Runner) -> String {
        let address = self.address;
        let what = match self.signal {
            libc::SIGILL => "illegal instruction".to_owned(),
            libc::SIGFPE => "arithmetic fault".to_owned(),
            _ if runner.stacks.is_guard(address) => {
                let bytes = runner.launch().device.options().stack_bytes;
                format!("stack overflow: a thread's local data and calls need more than {bytes} bytes")
            }
            _ => {
                let place = runner
                    .shared
                    .describe(address)
                    .or_else(|| (address < 4096).then(|| "null pointer".to_owned()))
                    .or_else(|| runner.launch().device.memory.describe(address as u64))
                    .unwrap_or_else(|| "no memory of the device".to_owned());
                format!("access to {address:#x}: {place}")
            }
        };
        format!("{what}; at {}", instruction_name(self.instruction))
    }
}

/// The function that contains an instruction, if its symbol is known.
fn instruction_name(address: usize) -> String {
    // SAFETY: fills the structure or returns that it did not; the strings belong to loaded objects.
    unsafe {
        let mut info = MaybeUninit::<libc::Dl_info>::zeroed().assume_init();
        if libc::dladdr(address as *const c_void, &mut info) == 0 || info.dli_sname.is_null() {
            return format!("instruction {address:#x}");
        }
        let name = CStr::from_ptr(info.dli_sname).to_string_lossy();
        format!("{name}+{:#x}", address.wrapping_sub(info.dli_saddr as usize))
    }
}

/// An alternative signal stack for an OS thread that executes blocks: the faulting stack may be full, and
/// Rust's own signal stacks may be as small as a signal frame.
///
/// It is kept until the thread ends. An interruption that the watchdog sent just before a thread left its
/// last block arrives just after that, and must not use the small stack: on newer processors with wide
/// registers, the signal frame alone fills it.
#[derive(Debug)]
struct SignalStack {
    memory: *mut c_void,
}

const SIGNAL_STACK_BYTES: usize = 64 << 10;

thread_local! {
    static SIGNAL_STACK: SignalStack = SignalStack::install();
}

/// Gives the calling thread a signal stack, once.
pub(crate) fn prepare_thread() {
    SIGNAL_STACK.with(|_| {});
}

impl SignalStack {
    fn install() -> SignalStack {
        // SAFETY: registers memory that is kept until `drop` has disabled it.
        unsafe {
            let memory = libc::malloc(SIGNAL_STACK_BYTES);
            if !memory.is_null() {
                let stack = libc::stack_t {
                    ss_sp: memory,
                    ss_flags: 0,
                    ss_size: SIGNAL_STACK_BYTES,
                };
                libc::sigaltstack(&stack, ptr::null_mut());
            }
            SignalStack { memory }
        }
    }
}

impl Drop for SignalStack {
    fn drop(&mut self) {
        if self.memory.is_null() {
            return;
        }
        let none = libc::stack_t {
            ss_sp: ptr::null_mut(),
            ss_flags: libc::SS_DISABLE,
            ss_size: SIGNAL_STACK_BYTES,
        };
        // SAFETY: disabled before it is freed; the thread has ended except for its destructors.
        unsafe {
            libc::sigaltstack(&none, ptr::null_mut());
            libc::free(self.memory);
        }
    }
}
