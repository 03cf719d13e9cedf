//! Measures streams on a GPU, or tests the measurements on the emulated device.
//!
//! ```sh
//! measure [--emulated] [--runs N] [--seed N] [--gigabytes N] [--frames N] [--little] [EXPERIMENT...]
//! measure soak [--emulated] [--seconds N] [--frames N] [--seed N]
//! ```
//!
//! A soak test runs random streams, some with injected failures, for ten minutes or the given time.

#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::Duration;

use galatea_device::{Device, DeviceOptions, EmulatorOptions};
use galatea_experiments::flow::{EXPERIMENTS, Row, Scale, Soak, findings, run, soak};

fn main() -> ExitCode {
    let mut scale = Scale::default();
    let mut soak_frames = 400_000;
    let (mut emulated, mut seed, mut seconds, mut chosen) = (false, 1_u64, 600, Vec::new());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut number = || {
            arguments
                .next()
                .and_then(|text| text.parse::<u64>().ok())
                .unwrap_or(1)
        };
        match argument.as_str() {
            "--emulated" => emulated = true,
            "--little" => scale = Scale::small(),
            "--runs" => scale.runs = number() as usize,
            "--seed" => seed = number(),
            "--seconds" => seconds = number(),
            "--gigabytes" => scale.bytes = number() << 30,
            "--frames" => {
                scale.frames = number();
                soak_frames = scale.frames;
            }
            "--threads" => scale.threads = number() as usize,
            "--block-threads" => scale.block_threads = number() as u32,
            "--blocks" => scale.blocks = Some(number() as u32),
            "--depth" => scale.depth = number() as u32,
            "--frame" => scale.frame_sizes = vec![number() as usize],
            _ => chosen.push(argument),
        }
    }
    let device = if emulated {
        scale = Scale::small();
        Device::emulated(EmulatorOptions::default(), DeviceOptions::default())
    } else {
        Device::gpu(0, DeviceOptions::default())
    };
    let device = match device {
        Ok(device) => device,
        Err(error) => return failed(&error),
    };
    if chosen.iter().any(|chosen| chosen == "soak") {
        return soaked(&device, seconds, seed, if emulated { 100 } else { soak_frames });
    }
    println!("{}", Row::HEADER);
    for name in EXPERIMENTS {
        if !chosen.is_empty() && !chosen.iter().any(|chosen| chosen == name) {
            continue;
        }
        let mut rows = Vec::new();
        let outcome = run(&device, name, &scale, seed, &mut |row| {
            println!("{}", row.csv());
            rows.push(row);
        });
        for line in findings(&rows) {
            println!("{line}");
        }
        if let Err(error) = outcome {
            println!("{name} failed: {error}");
            if device.alive().is_err() {
                return failed(&error);
            }
        }
    }
    ExitCode::SUCCESS
}

fn soaked(device: &Device, seconds: u64, seed: u64, frames: u64) -> ExitCode {
    let emulated = device.info().emulated;
    let streams = Soak {
        time: Duration::from_secs(seconds),
        seed,
        frames,
        frame_bytes: if emulated { 16 << 10 } else { 1 << 20 },
        blocks: if emulated { (4, 128) } else { (64, 1024) },
    };
    match soak(device, &streams, &mut |seen| println!("{seen:?}")) {
        Ok(seen) => {
            println!("{seen:?}: none lost, doubled or torn");
            ExitCode::SUCCESS
        }
        Err(wrong) => {
            println!("failed: {wrong}");
            ExitCode::FAILURE
        }
    }
}

fn failed(error: &dyn std::error::Error) -> ExitCode {
    println!("failed: {error}");
    ExitCode::FAILURE
}
