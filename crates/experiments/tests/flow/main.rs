//! Experiments on streams on the emulated device: results of the workloads, rows, and findings.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod compiles;
mod experiments;
mod findings;
mod paging;
mod soak;
mod workloads;

use std::time::Duration;

use galatea_device::{Device, DeviceOptions, EmulatorOptions};
use galatea_flow::{Cpu, CpuWork, FlowOptions, Step};

/// An emulated device with a seed.
fn emulated(seed: u64) -> Device {
    let options = EmulatorOptions {
        seed,
        ..EmulatorOptions::default()
    };
    Device::emulated(options, DeviceOptions::default()).expect("the emulated device is always there")
}

/// Options with few blocks of few threads, because the emulated device runs them on the machine's cores, and
/// with long limits, because those may be busy.
fn small(blocks: u32, block_threads: u32) -> FlowOptions {
    FlowOptions {
        blocks: Some(blocks),
        block_threads,
        timeout: Duration::from_secs(120),
        ..FlowOptions::default()
    }
}

/// A source without frames.
fn source() -> Cpu {
    Cpu::new("source", 1, |_| |_: &mut CpuWork<'_>| Ok(Step::End))
}

/// A sink that ignores its frames.
fn sink() -> Cpu {
    Cpu::new("sink", 1, |_| |_: &mut CpuWork<'_>| Ok(Step::Next))
}
