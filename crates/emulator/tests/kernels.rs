//! Kernels of every shape the engine uses, under many seeds, against the answer computed on the host.

mod support;

use galatea_emulator::{EmulatorOptions, set_seed};
use support::Gpu;

const SEEDS: u64 = 12;

#[repr(C)]
#[derive(Clone, Copy)]
struct Reduce {
    input: u64,
    output: u64,
    length: u64,
}

const REDUCE: &str = r#"
struct Arguments { const unsigned *input; unsigned long long *output; unsigned long long length; };
extern "C" __global__ void __launch_bounds__(1024) reduce(Arguments a) {
    __shared__ unsigned long long sums[32];
    unsigned long long sum = 0;
    for (unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x; i < a.length;
         i += (unsigned long long)gridDim.x * blockDim.x)
        sum += a.input[i];
    for (int delta = 16; delta > 0; delta /= 2) sum += __shfl_down_sync(0xffffffffu, sum, delta);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x < 32) {
        sum = threadIdx.x < blockDim.x / 32 ? sums[threadIdx.x] : 0;
        for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, lanes);
        if (threadIdx.x == 0) atomicAdd(a.output, sum);
    }
}
"#;

#[test]
fn block_reduction() {
    let gpu = Gpu::seeded(0);
    let program = gpu.compile(REDUCE);
    let values: Vec<u32> = (0..10_007_u32)
        .map(|i| i.wrapping_mul(2_654_435_761))
        .collect();
    let expected: u64 = values.iter().map(|&value| u64::from(value)).sum();
    let input = gpu.upload(&values);
    for seed in 0..SEEDS {
        set_seed(gpu.ordinal, seed);
        for (grid, block) in [(1, 32), (3, 256), (7, 1024)] {
            let output = gpu.zeroed::<u64>(1);
            let arguments = Reduce {
                input: input.address,
                output: output.address,
                length: values.len() as u64,
            };
            gpu.go(&program, "reduce", grid, block, 0, arguments);
            assert_eq!(
                gpu.read(&output),
                [expected],
                "seed {seed}, {grid} x {block}"
            );
        }
    }
}

#[test]
fn options_do_not_change_results() {
    for options in [
        EmulatorOptions {
            worker_threads: 1,
            ..EmulatorOptions::default()
        },
        EmulatorOptions {
            worker_threads: 4,
            ..EmulatorOptions::default()
        },
        EmulatorOptions {
            stress: true,
            ..EmulatorOptions::default()
        },
        EmulatorOptions {
            count: true,
            ..EmulatorOptions::default()
        },
    ] {
        println!("{options:?}");
        let gpu = Gpu::new(options.clone());
        let program = gpu.compile(REDUCE);
        let input = gpu.upload(&vec![3_u32; 5000]);
        let output = gpu.zeroed::<u64>(1);
        gpu.go(
            &program,
            "reduce",
            5,
            256,
            0,
            Reduce {
                input: input.address,
                output: output.address,
                length: 5000,
            },
        );
        assert_eq!(gpu.read(&output), [15_000], "{options:?}");
    }
}
