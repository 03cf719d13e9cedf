//! Measures the ways across the link on a GPU, or tries the measurements out on the emulated device.
//!
//! ```sh
//! transfer [--emulated] [--runs N] [--megabytes N] [rates|chunks|threads|pieces...]
//! ```

#![forbid(unsafe_code)]

use std::process::ExitCode;

use galatea_device::{Device, DeviceOptions, EmulatorOptions};
use galatea_memory::transfer::{Capabilities, EXPERIMENTS, Measured, Method, Scale, run};

fn main() -> ExitCode {
    let mut scale = Scale::default();
    let (mut emulated, mut chosen) = (false, Vec::new());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut number = || {
            arguments
                .next()
                .and_then(|text| text.parse().ok())
                .unwrap_or(1_usize)
        };
        match argument.as_str() {
            "--emulated" => emulated = true,
            "--runs" => scale.runs = number(),
            "--megabytes" => scale.bytes = number() << 20,
            _ => chosen.push(argument),
        }
    }
    let device = if emulated {
        scale.bytes = 1 << 20;
        Device::emulated(EmulatorOptions::default(), DeviceOptions::default())
    } else {
        Device::gpu(0, DeviceOptions::default())
    };
    let device = match device {
        Ok(device) => device,
        Err(error) => {
            println!("failed: {error}");
            return ExitCode::FAILURE;
        }
    };
    let capabilities = Capabilities::probe(&device);
    for method in Method::ALL {
        if let Err(absent) = capabilities.has(method) {
            println!("# {absent}");
        }
    }
    println!("{}", Measured::HEADER);
    for name in EXPERIMENTS {
        if (chosen.is_empty() || chosen.iter().any(|chosen| chosen == name))
            && let Err(error) = run(&device, name, &scale, &mut |row| println!("{}", row.csv()))
        {
            println!("# {name} failed: {error}");
        }
    }
    ExitCode::SUCCESS
}
