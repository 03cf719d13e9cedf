//! The emulated device: implements the CUDA driver and NVRTC for tests by running CUDA C++ on the CPU.
//!
//! A program that calls its GPU through a table of driver and NVRTC functions runs on an emulated device if
//! it fills the table from [`symbol`] instead of from the libraries. The functions have the driver's names,
//! signatures and documented behaviour. So the program's own host code runs (contexts, modules, launches,
//! copies, streams, events), and so does its device code: the same CUDA C++, compiled by the host's C++
//! compiler.
//!
//! ```text
//!  host code ── table of functions ──┬── libcuda, libnvrtc ── GPU
//!                                    └── symbol() ── this crate
//!
//!  nvrtcCompileProgram   compiler    CUDA C++ + shim (cuda/*.h) ─ g++ -O1 ─> shared object = "cubin", cached on disk
//!  cuModuleLoadData      module      dlopen
//!  cuLaunchKernel        stream      one OS thread per stream, operations in order
//!                        launch      blocks over OS threads (pool), in an order drawn from the seed
//!                        block       threads of a block are fibers (fiber) of one OS thread; who runs next
//!                        warp        collectives: rendezvous of the lanes in a mask
//!                        barrier     __syncthreads, named barriers
//!                        fault       signals in device code become failed launches; watchdog interrupts endless loops
//!  cuMemAlloc...         memory      host memory, poisoned, guarded, limited
//! ```
//!
//! # Purpose
//! * Tests run every kernel and every query through the whole GPU path on machines without a GPU.
//! * **Hostile schedules.** Lanes, warps and blocks run in an order drawn from [`EmulatorOptions::seed`].
//!   Lockstep is not guaranteed, as on GPUs since Volta. Threads progress independently: a spin lock inside a
//!   warp works. The *stress mode* may switch at every basic block and memory access, and finds races that
//!   coarser switching hides.
//! * **Misuse ends with a report** ([`last_report`]), not a hang: a barrier that some threads do not reach or
//!   reach elsewhere, collectives with lanes outside their mask or in different operations, deadlock, endless
//!   spinning, traps, assertions, stack overflow, accesses to unmapped memory. The launch fails with the
//!   driver's error, the context is lost (until its last release), and the process continues.
//! * **Memory errors.** Memory that was not written holds a pattern (device and shared memory). Dynamic
//!   shared memory and allocations of 64 KiB and more end at an inaccessible page. Smaller allocations have
//!   canaries, which are checked when they are freed. With [`EmulatorOptions::address_sanitizer`] every
//!   access is checked, also to static shared memory and local arrays.
//! * **Races.** With [`EmulatorOptions::races`] a launch fails if two threads of a block access the same
//!   bytes, one of them writes, and no barrier orders the two, in whatever order they ran.
//! * **Fault injection** ([`Faults`]): the n-th allocation, copy, launch, event or stream fails with an error
//!   that the test chooses.
//! * **Counters** ([`Counters`]) of shared-memory serialisation rounds, global-memory sectors, atomics,
//!   collectives.
//!
//! # Limits
//! * **Weak memory order.** The host's order is stronger than a GPU's: a missing fence between blocks is not
//!   found.
//! * Inline PTX, tensor cores, TMA, `cp.async`, clusters, textures, device-side launches, cooperative groups.
//!   Code that needs them has a plain alternative under `#ifdef GALATEA_EMULATED`, which only the shim
//!   defines.
//! * `extern __shared__` (use `GALATEA_DYNAMIC_SHARED(name)`), templates as entry points, `static
//!   __shared__`.
//! * The values of undefined operations differ: out-of-range casts of floating point to integers (the
//!   `__double2ll_rz` family is as on the GPU), shifts by the width or more, accesses of a misaligned address
//!   (an error on a GPU). Transcendental functions are the C library's. Integer division by zero is as on the
//!   GPU.
//! * Overruns of static shared memory are found under AddressSanitizer only. Its size is known for modules
//!   with one kernel.
//! * **Performance.** Times do not predict a GPU's. See `examples/speed.rs`: about 20 ns per lane and
//!   collective, ten per thread started, a tenth of a second for a compilation that is not in the cache.
//! * The default stream does not synchronise with blocking streams; stream priorities have no effect.
//!
//! # Requirements
//! Linux on x86-64, and a C++ compiler ([`EmulatorOptions::cxx`]; g++ or Clang). Without a compiler,
//! `nvrtcCompileProgram` fails with an explanation in its log. The fault handler handles `SIGSEGV`, `SIGBUS`,
//! `SIGILL`, `SIGFPE` and `SIGURG` for the whole process, and passes on signals from outside of device code.

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
compile_error!(
    "the emulated device needs Linux on x86-64: its context switch and its use of thread-local memory are written for it"
);

mod abi;
mod barrier;
mod block;
mod clock;
mod compiler;
mod context;
mod counters;
mod device;
mod divide;
mod driver;
mod fault;
mod fiber;
mod handles;
mod heartbeat;
mod image;
mod injection;
mod launch;
mod memory;
mod module;
mod nvrtc;
mod options;
mod pool;
mod races;
mod random;
mod report;
mod sanitizer;
mod shared;
mod stream;
mod symbols;
mod warp;
mod watchdog;

pub use counters::{Counters, GlobalAccesses, SharedAccesses, WIDTHS};
pub use injection::{DriverCall, FaultCode, Faults};
pub use options::EmulatorOptions;
pub use symbols::symbol;

use context::Context;

/// Adds an emulated device and returns its ordinal. Devices live as long as the process.
#[must_use]
pub fn add_device(options: EmulatorOptions) -> i32 {
    Context::add(options)
}

/// Sets the seed of the launches and allocations of a device from now on, and restarts its sequence of
/// choices. Like all functions here, it does nothing for an ordinal that [`add_device`] did not return.
pub fn set_seed(ordinal: i32, seed: u64) {
    if let Some(context) = Context::get(ordinal) {
        context.set_seed(seed);
    }
}

/// Counters of the kernels of a device since [`reset_counters`]; all 0 unless the device counts.
#[must_use]
pub fn counters(ordinal: i32) -> Counters {
    Context::get(ordinal)
        .map(|context| context.counters())
        .unwrap_or_default()
}

/// Sets the counters of a device to 0.
pub fn reset_counters(ordinal: i32) {
    if let Some(context) = Context::get(ordinal) {
        context.reset_counters();
    }
}

/// Report of the first launch that failed on a device since it was added, if any did.
#[must_use]
pub fn last_report(ordinal: i32) -> Option<String> {
    Context::get(ordinal)?.report()
}

/// The options to add to those of `nvrtcCompileProgram` for code that runs on a device: the instrumentation,
/// the compiler, and a mark that changes with the emulator. Caches of compiled code that include the options
/// in their keys therefore never mix code of different kinds. Without any of these options, the program is
/// compiled for the device of the calling thread's current context.
#[must_use]
pub fn compile_options(ordinal: i32) -> Vec<String> {
    let mut options = vec![format!("--emulator-revision={}", compiler::revision())];
    let Some(context) = Context::get(ordinal) else {
        return options;
    };
    let settings = context.options();
    if settings.stress {
        options.push("--emulator-stress".to_owned());
    }
    if settings.count {
        options.push("--emulator-count".to_owned());
    }
    if settings.races {
        options.push("--emulator-races".to_owned());
    }
    if settings.address_sanitizer {
        options.push("--emulator-address-sanitizer".to_owned());
    }
    if let Some(compiler) = &settings.cxx {
        options.push(format!("--emulator-compiler={}", compiler.display()));
    }
    if let Some(directory) = &settings.cache_directory {
        options.push(format!("--emulator-cache={}", directory.display()));
    }
    options
}
