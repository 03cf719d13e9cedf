//! The cost of emulation: compile times, collectives, barriers, and rows per second of simple kernels.
//!
//! `cargo run -p galatea-emulator --example speed` prints wall times. With arguments KERNEL GRID BLOCK LENGTH
//! it runs one of the kernels below ten times with one worker and prints the processor time, which depends
//! less on other load.

#[path = "../tests/support/mod.rs"]
mod support;

use std::time::Instant;

use galatea_emulator::EmulatorOptions;
use support::{Buffer, Gpu, Program};

const SOURCE: &str = r#"
struct Arguments { const unsigned *input; unsigned long long *output; unsigned long long length; };
extern "C" __global__ void empty(Arguments) {}
extern "C" __global__ void shuffles(Arguments a) {
    unsigned v = threadIdx.x;
    for (unsigned long long i = 0; i < a.length; i++) v += __shfl_xor_sync(0xffffffffu, v, 1);
    if (v == 0x12345) a.output[0] = v;
}
extern "C" __global__ void barriers(Arguments a) {
    for (unsigned long long i = 0; i < a.length; i++) __syncthreads();
}
extern "C" __global__ void atomics(Arguments a) {
    for (unsigned long long i = 0; i < a.length; i++) atomicAdd(a.output + threadIdx.x % 32, 1ull);
}
// A filter and a sum, as a scalar aggregate of a query.
extern "C" __global__ void filter_sum(Arguments a) {
    unsigned long long sum = 0;
    for (unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x; i < a.length;
         i += (unsigned long long)gridDim.x * blockDim.x) {
        unsigned v = a.input[i];
        if (v % 7 < 3) sum += v;
    }
    __shared__ unsigned long long sums[32];
    for (int delta = 16; delta > 0; delta /= 2) sum += __shfl_down_sync(0xffffffffu, sum, delta);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (unsigned w = 1; w < blockDim.x / 32; w++) sum += sums[w];
        atomicAdd(a.output, sum);
    }
}
// Compaction: ballot, count, one atomic per warp.
extern "C" __global__ void compact(Arguments a) {
    unsigned long long *count = a.output;
    unsigned *kept = (unsigned *)(a.output + 1);
    unsigned lane = threadIdx.x % 32;
    for (unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x; i < a.length;
         i += (unsigned long long)gridDim.x * blockDim.x) {
        bool keep = a.input[i] % 7 < 3;
        unsigned ballot = __ballot_sync(0xffffffffu, keep);
        unsigned long long base = 0;
        if (lane == 0) base = atomicAdd(count, (unsigned long long)__popc(ballot));
        base = __shfl_sync(0xffffffffu, base, 0);
        if (keep) kept[base + __popc(ballot & ((1u << lane) - 1))] = a.input[i];
    }
}
"#;

#[repr(C)]
#[derive(Clone, Copy)]
struct Arguments {
    input: u64,
    output: u64,
    length: u64,
}

struct Bench {
    gpu: Gpu,
    program: Program,
    input: Buffer<u32>,
    output: Buffer<u64>,
}

impl Bench {
    /// Seconds of the fastest of three launches.
    fn time(&self, kernel: &str, grid: u32, block: u32, length: u64) -> f64 {
        let arguments = Arguments {
            input: self.input.address,
            output: self.output.address,
            length,
        };
        (0..3)
            .map(|_| {
                let start = Instant::now();
                self.gpu.go(&self.program, kernel, grid, block, 0, arguments);
                start.elapsed().as_secs_f64()
            })
            .fold(f64::INFINITY, f64::min)
    }
}

/// Processor time of this process, in seconds.
fn processor_time() -> f64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: fills the structure.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn run_one(kernel: &str, grid: u32, block: u32, length: u64) {
    let gpu = Gpu::new(EmulatorOptions {
        worker_threads: 1,
        ..EmulatorOptions::default()
    });
    let program = gpu.compile(SOURCE);
    let input = gpu.zeroed::<u32>(1 << 20);
    let output = gpu.zeroed::<u64>(1 + (1 << 20));
    let bench = Bench {
        gpu,
        program,
        input,
        output,
    };
    let times = (0..10).map(|_| {
        support::ok(bench.gpu.clear(&bench.output, 1));
        support::ok(bench.gpu.synchronize());
        let start = processor_time();
        bench.once(kernel, grid, block, length);
        processor_time() - start
    });
    let best = times.fold(f64::INFINITY, f64::min);
    let threads = f64::from(grid) * f64::from(block);
    println!(
        "{kernel}: {:.2} ms, {:.2} ns per thread",
        best * 1e3,
        best * 1e9 / threads
    );
    println!(
        "{:.2} ns per thread and step",
        best * 1e9 / threads / length as f64
    );
}

fn main() {
    const ROWS: u64 = 1 << 20;
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, kernel, numbers @ ..] = &arguments[..] {
        let numbers: Vec<u32> = numbers
            .iter()
            .map(|number| number.parse().expect("a number"))
            .collect();
        let [grid, block, length] = numbers[..] else {
            panic!("arguments: KERNEL GRID BLOCK LENGTH")
        };
        return run_one(kernel, grid, block, u64::from(length));
    }
    for workers in [1, 2] {
        let gpu = Gpu::new(EmulatorOptions {
            worker_threads: workers,
            ..EmulatorOptions::default()
        });
        let start = Instant::now();
        // A comment that is new in each run yields a program that is in no cache.
        let unique = format!("{SOURCE}// {:?}\n", std::time::SystemTime::now());
        let image = gpu.try_compile(&unique, &[], &[]).expect("compiles");
        let cold = start.elapsed();
        let start = Instant::now();
        gpu.try_compile(&unique, &[], &[]).expect("compiles");
        let warm = start.elapsed();
        let program = gpu.load(&image);
        let values: Vec<u32> = (0..ROWS as u32)
            .map(|i| i.wrapping_mul(2_654_435_761) >> 8)
            .collect();
        let input = gpu.upload(&values);
        let output = gpu.zeroed::<u64>(1 + ROWS as usize);
        let bench = Bench {
            gpu,
            program,
            input,
            output,
        };
        println!("{workers} worker(s); compile {cold:.0?} cold, {warm:.0?} cached");
        let per_thread = |kernel: &str, grid: u32, block: u32, length: u64| {
            let threads = f64::from(grid) * f64::from(block);
            bench.time(kernel, grid, block, length) * 1e9 / threads / length as f64
        };
        println!(
            "  launch, 1 thread:        {:8.1} us",
            bench.time("empty", 1, 1, 1) * 1e6
        );
        println!(
            "  thread start and exit:   {:8.1} ns",
            per_thread("empty", 4096, 256, 1)
        );
        println!(
            "  shuffle, per lane:       {:8.1} ns",
            per_thread("shuffles", 2, 32, 100_000)
        );
        println!(
            "  shuffle, block 256:      {:8.1} ns",
            per_thread("shuffles", 2, 256, 10_000)
        );
        for block in [32, 256, 1024] {
            println!(
                "  barrier, block {block:4}:     {:8.1} ns",
                per_thread("barriers", 2, block, 200_000 / u64::from(block))
            );
        }
        println!(
            "  global atomic:           {:8.1} ns",
            per_thread("atomics", 2, 256, 1000)
        );
        for (kernel, grids) in [("filter_sum", [8, 528, 4096]), ("compact", [8, 528, 4096])] {
            for grid in grids {
                // The first word is the output's counter.
                support::ok(bench.gpu.clear(&bench.output, 1));
                let rows = ROWS as f64 / bench.once(kernel, grid, 256, ROWS) / 1e6;
                println!("  {kernel}, {grid:4} x 256:   {rows:8.1} M rows/s");
            }
        }
    }
}

impl Bench {
    fn once(&self, kernel: &str, grid: u32, block: u32, length: u64) -> f64 {
        let arguments = Arguments {
            input: self.input.address,
            output: self.output.address,
            length,
        };
        let start = Instant::now();
        self.gpu.go(&self.program, kernel, grid, block, 0, arguments);
        start.elapsed().as_secs_f64()
    }
}
