//! Tests of the device code: that lists and folders agree, that everything compiles for every target, that
//! both sides agree on every argument struct, and the results of each kernel and primitive.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod build_sides;
mod compiles;
mod frames;
mod heap;
mod joins;
mod kernels;
mod links;
mod packed;
mod primitives;
mod radix;
mod registry;
mod sort;
mod texts;
mod windows;

use galatea_device::{Device, DeviceOptions, EmulatorOptions, testing};

/// An emulated device with a seed.
fn emulated(seed: u64) -> Device {
    let options = EmulatorOptions {
        seed,
        ..EmulatorOptions::default()
    };
    Device::emulated(options, DeviceOptions::default()).expect("the emulated device is always there")
}

/// Emulated devices, including one that switches threads at every basic block, and a GPU if available.
fn stressed_devices() -> Vec<Device> {
    let mut devices: Vec<Device> = [0, 7].map(emulated).into();
    let stress = EmulatorOptions {
        seed: 1,
        stress: true,
        ..EmulatorOptions::default()
    };
    devices.push(Device::emulated(stress, DeviceOptions::default()).unwrap());
    devices.extend(testing::gpu());
    devices
}
