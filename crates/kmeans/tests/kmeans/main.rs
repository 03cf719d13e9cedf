//! Compares every variant with a reference in 64-bit floats, on the CPU and on the emulated device.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod choice;
mod edges;
mod estimator;
mod masses;
mod offsets;
mod out_of_core;
mod passes;
mod persistent;
mod reference;
mod scikit;

use galatea_device::{Device, DeviceOptions, EmulatorOptions};
use galatea_kmeans::{Points, PointsBuilder};
use galatea_layout::model::Machine;

/// A device with `memory` bytes of memory.
fn device(memory: u64) -> Device {
    let options = EmulatorOptions {
        seed: 3,
        memory,
        ..EmulatorOptions::default()
    };
    Device::emulated(options, DeviceOptions::default()).unwrap()
}

/// The machine model of the emulated device.
fn machine(device: &Device) -> Machine {
    let info = device.info();
    Machine {
        multiprocessors: info.multiprocessors,
        shared_bytes: info.shared_memory_per_multiprocessor.into(),
        shared_bytes_per_block: info.shared_memory_per_block.into(),
        ..Machine::H200
    }
}

/// Points around ten centres, so far from zero that cancellation is noticeable.
fn columns(points: usize, features: usize, seed: u64) -> Vec<Vec<f32>> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1u64 << 24) as f32
    };
    let centres: Vec<f32> = (0..10 * features).map(|_| 200.0 * next() - 100.0).collect();
    let mut columns = vec![Vec::with_capacity(points); features];
    for point in 0..points {
        for (feature, column) in columns.iter_mut().enumerate() {
            let noise = (0..4).map(|_| next()).sum::<f32>() - 2.0;
            column.push(1000.0 + centres[point % 10 * features + feature] + 10.0 * noise);
        }
    }
    columns
}

/// Points from columns, in chunks of `chunk_bytes` bytes.
fn points_of(columns: &[Vec<f32>], chunk_bytes: usize) -> Points {
    let names = (0..columns.len()).map(|f| format!("f{f}")).collect();
    let mut builder = PointsBuilder::with_chunk_bytes(names, chunk_bytes).unwrap();
    builder.append(columns).unwrap();
    builder.finish().unwrap()
}

/// Rows of the first k points, moved slightly, so that none is equal to a point.
fn first_rows(columns: &[Vec<f32>], clusters: usize) -> Vec<f64> {
    (0..clusters)
        .flat_map(|point| columns.iter().map(move |column| f64::from(column[point]) + 0.25))
        .collect()
}
