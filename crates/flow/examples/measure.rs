//! Measures streams on a GPU, or tries the measurements out on the emulated device.
//!
//! ```sh
//! measure [--emulated] [--runs N] [--seed N] [--gigabytes N] [--frames N] [EXPERIMENT...]
//! ```

#![forbid(unsafe_code)]

use std::process::ExitCode;

use galatea_device::{Device, DeviceOptions, EmulatorOptions};
use galatea_flow::bench::{EXPERIMENTS, Row, Scale, run};

fn main() -> ExitCode {
    let mut scale = Scale::default();
    let (mut emulated, mut seed, mut chosen) = (false, 1_u64, Vec::new());
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
            "--runs" => scale.runs = number() as usize,
            "--seed" => seed = number(),
            "--gigabytes" => scale.bytes = number() << 30,
            "--frames" => scale.frames = number(),
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
    println!("{}", Row::HEADER);
    for name in EXPERIMENTS {
        if !chosen.is_empty() && !chosen.iter().any(|chosen| chosen == name) {
            continue;
        }
        if let Err(error) = run(&device, name, &scale, seed, &mut |row| println!("{}", row.csv())) {
            println!("{name} failed: {error}");
            if device.alive().is_err() {
                return failed(&error);
            }
        }
    }
    ExitCode::SUCCESS
}

fn failed(error: &dyn std::error::Error) -> ExitCode {
    println!("failed: {error}");
    ExitCode::FAILURE
}
