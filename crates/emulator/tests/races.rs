//! Races between the threads of a block are found in whatever order the threads ran, and programs that order
//! their accesses pass.

mod support;

use cudarc::driver::sys::CUresult;
use galatea_emulator::{EmulatorOptions, set_seed};
use support::Gpu;

const SOURCE: &str = r#"
struct Arguments { unsigned *output; unsigned length; };
#define FULL 0xffffffffu
extern "C" __global__ void exchanges(Arguments a) {
    __shared__ unsigned words[256];
    for (unsigned round = 0; round < 3; ++round) {
        words[threadIdx.x] = threadIdx.x + round;
        __syncthreads();
        a.output[threadIdx.x] = words[blockDim.x - 1 - threadIdx.x];
        __syncthreads();
    }
}
extern "C" __global__ void forgets_the_second_barrier(Arguments a) {
    __shared__ unsigned words[256];
    for (unsigned round = 0; round < 3; ++round) {
        words[threadIdx.x] = threadIdx.x + round;
        __syncthreads();
        a.output[threadIdx.x] = words[blockDim.x - 1 - threadIdx.x];
    }
}
extern "C" __global__ void warp_exchanges(Arguments a) {
    GALATEA_DYNAMIC_SHARED(bytes);
    unsigned *words = reinterpret_cast<unsigned *>(bytes);
    words[threadIdx.x] = threadIdx.x;
    __syncwarp();
    a.output[threadIdx.x] = words[threadIdx.x ^ 1];
}
extern "C" __global__ void warp_votes(Arguments a) {
    GALATEA_DYNAMIC_SHARED(bytes);
    unsigned *words = reinterpret_cast<unsigned *>(bytes);
    words[threadIdx.x] = threadIdx.x;
    if (__ballot_sync(FULL, threadIdx.x < a.length) == 0) return;
    a.output[threadIdx.x] = words[threadIdx.x ^ 1];
}
extern "C" __global__ void appends(Arguments a) {
    const unsigned at = atomicAdd(a.output, 1u);
    a.output[1 + at] = threadIdx.x;
}
extern "C" __global__ void writes_past_its_part(Arguments a) {
    // Each warp has eight words, and the last lane one of the next.
    const unsigned lane = threadIdx.x % 32, first = threadIdx.x / 32 * 8;
    if (lane < 9) a.output[first + lane] = lane;
}
extern "C" __global__ void hands_over(Arguments a) {
    volatile unsigned *flag = a.output;
    if (threadIdx.x == 32) {
        a.output[1] = 7;
        __threadfence();
        *flag = 1;
    }
    if (threadIdx.x == 0) {
        while (*flag == 0) {}
        __threadfence();
        a.output[2] = a.output[1];
    }
}
extern "C" __global__ void hands_over_in_the_block(Arguments a) {
    if (threadIdx.x == 32) {
        a.output[1] = 7;
        __threadfence_block();
        atomicExch(a.output, 1u);
    }
    if (threadIdx.x == 0) {
        while (__ldcg(a.output) == 0) {}
        a.output[2] = a.output[1];
    }
}
extern "C" __global__ void hands_over_without_a_fence(Arguments a) {
    if (threadIdx.x == 32) {
        a.output[1] = 7;
        atomicExch(a.output, 1u);
    }
    if (threadIdx.x == 0) {
        while (atomicAdd(a.output, 0u) == 0) {}
        a.output[2] = a.output[1];
    }
}
extern "C" __global__ void own_memory(Arguments a) {
    unsigned words[16];
    for (unsigned i = 0; i < 16; ++i) words[(i + a.length) % 16] = i;
    __shfl_sync(FULL, words[a.length % 16], 0);
    a.output[threadIdx.x] = words[threadIdx.x % 16];
}
"#;

#[repr(C)]
#[derive(Clone, Copy)]
struct Arguments {
    output: u64,
    length: u32,
}

/// Runs a kernel of 64 threads. Returns the report of the failure, if the kernel failed.
fn run(kernel: &str, seed: u64) -> Option<String> {
    let gpu = Gpu::new(EmulatorOptions {
        races: true,
        seed,
        ..EmulatorOptions::default()
    });
    let program = gpu.compile(SOURCE);
    let output = gpu.zeroed::<u32>(1024);
    set_seed(gpu.ordinal, seed);
    let arguments = Arguments {
        output: output.address,
        length: 32,
    };
    gpu.launch(&program, kernel, 1, 64, 4096, arguments);
    match gpu.synchronize() {
        CUresult::CUDA_SUCCESS => None,
        status => {
            assert_eq!(status, CUresult::CUDA_ERROR_LAUNCH_FAILED);
            Some(gpu.report())
        }
    }
}

#[test]
fn ordered_accesses_are_not_reported_as_races() {
    for kernel in [
        "exchanges",
        "warp_exchanges",
        "appends",
        "hands_over",
        "own_memory",
    ] {
        for seed in 0..6 {
            let report = run(kernel, seed);
            assert!(report.is_none(), "{kernel}, seed {seed}: {report:?}");
        }
    }
}

#[test]
fn races_are_reported_with_both_lines() {
    for (kernel, memory, lines) in [
        ("forgets_the_second_barrier", "shared memory", ["18", "16"]),
        ("warp_votes", "shared memory", ["31", "33"]),
        ("writes_past_its_part", "global memory", ["42", "42"]),
        ("hands_over_without_a_fence", "global memory", ["70", "75"]),
    ] {
        for seed in 0..6 {
            let report =
                run(kernel, seed).unwrap_or_else(|| panic!("{kernel}, seed {seed}: no race was found"));
            assert!(
                report.starts_with(&format!("race in kernel `{kernel}`")) && report.contains(memory),
                "{report}"
            );
            for line in lines {
                assert!(
                    report.contains(&format!("at test.cu:{line}")),
                    "{kernel}, line {line}: {report}"
                );
            }
        }
    }
}
