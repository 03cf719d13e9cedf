//! Kernels of every shape that the engine uses, with many seeds and modes, compared with the result computed
//! on the host.

mod barriers;
mod blocks;
mod collectives;
#[path = "../support/mod.rs"]
mod support;
mod values;
mod waiting;

use galatea_emulator::{EmulatorOptions, set_seed};
use support::{Gpu, Program};

/// Runs a test on devices of several kinds, with several seeds each.
fn everywhere(source: &str, seeds: u64, test: impl Fn(&Gpu, &Program, u64)) {
    let kinds = [
        EmulatorOptions {
            worker_threads: 2,
            ..EmulatorOptions::default()
        },
        EmulatorOptions {
            worker_threads: 1,
            stress: true,
            ..EmulatorOptions::default()
        },
        EmulatorOptions {
            worker_threads: 3,
            ..EmulatorOptions::default()
        },
    ];
    for options in kinds {
        let gpu = Gpu::new(options.clone());
        let program = gpu.compile(source);
        for seed in 0..seeds {
            set_seed(gpu.ordinal, seed);
            // Printed if the test fails.
            println!(
                "seed {seed}, stress {}, {} workers",
                options.stress, options.worker_threads
            );
            test(&gpu, &program, seed);
        }
    }
}

/// The argument of all kernels here.
#[repr(C)]
#[derive(Clone, Copy)]
struct Arguments {
    input: u64,
    output: u64,
    scratch: u64,
    length: u64,
}

const ARGUMENTS: &str = r"
typedef unsigned long long u64;
struct Arguments { const unsigned *input; u64 *output; u64 *scratch; u64 length; };
#define FULL 0xffffffffu
";

fn source(kernel: &str) -> String {
    format!("{ARGUMENTS}{kernel}")
}

fn numbers(length: u32) -> Vec<u32> {
    (0..length)
        .map(|i| i.wrapping_mul(2_654_435_761).rotate_left(7))
        .collect()
}
