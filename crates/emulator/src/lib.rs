//! The emulated device: a stand-in for the CUDA driver and NVRTC that runs CUDA C++ on the CPU, for tests.

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
compile_error!(
    "the emulated device needs Linux on x86-64: its context switch and its use of thread-local memory are written for it"
);

mod abi;
mod barrier;
mod block;
mod clock;
mod compiler;
mod counters;
mod device;
mod divide;
mod driver;
mod fault;
mod fiber;
mod handles;
mod image;
mod launch;
mod memory;
mod module;
mod nvrtc;
mod options;
mod pool;
mod random;
mod report;
mod sanitizer;
mod shared;
mod stream;
mod symbols;
mod warp;
mod watchdog;

pub use counters::Counters;
pub use options::EmulatorOptions;
pub use symbols::symbol;

use device::Device;

/// Adds an emulated device and returns its ordinal. Devices live as long as the process.
#[must_use]
pub fn add_device(options: EmulatorOptions) -> i32 {
    Device::add(options)
}

/// Sets the seed of the launches and allocations of a device from now on, and starts its sequence of choices anew.
/// Does nothing for an ordinal that [`add_device`] did not return, as all functions here.
pub fn set_seed(ordinal: i32, seed: u64) {
    if let Some(device) = Device::get(ordinal) {
        device.set_seed(seed);
    }
}

/// What the kernels of a device did since [`reset_counters`]; all 0 unless the device counts.
#[must_use]
pub fn counters(ordinal: i32) -> Counters {
    Device::get(ordinal)
        .map(|device| device.counters())
        .unwrap_or_default()
}

/// Sets the counters of a device to 0.
pub fn reset_counters(ordinal: i32) {
    if let Some(device) = Device::get(ordinal) {
        device.reset_counters();
    }
}

/// What happened in the first launch that failed on a device since it was added, if any did.
#[must_use]
pub fn last_report(ordinal: i32) -> Option<String> {
    Device::get(ordinal)?.report()
}

/// The options to add to those of `nvrtcCompileProgram` for code that runs on a device: how it is to be
/// instrumented, which compiler to use, and a mark that changes with the emulator, so that caches of compiled code
/// whose keys hold the options never mix code of different kinds. Without any of them, the program is compiled for
/// the device of the calling thread's current context.
#[must_use]
pub fn compile_options(ordinal: i32) -> Vec<String> {
    let mut options = vec![format!("--emulator-revision={}", compiler::revision())];
    let Some(device) = Device::get(ordinal) else {
        return options;
    };
    let settings = device.options();
    if settings.stress {
        options.push("--emulator-stress".to_owned());
    }
    if settings.count {
        options.push("--emulator-count".to_owned());
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
