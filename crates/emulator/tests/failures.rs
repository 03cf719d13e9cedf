//! A kernel that fails ends its launch with a report. The process and other devices continue.

mod support;

use std::ffi::{c_int, c_uint, c_void};
use std::time::Duration;

use cudarc::driver::sys::CUresult;
use galatea_emulator::{EmulatorOptions, set_seed, symbol};
use support::{Gpu, call};

const SOURCE: &str = r#"
struct Arguments { unsigned *output; unsigned length; };
#define FULL 0xffffffffu
extern "C" __global__ void fine(Arguments a) { a.output[threadIdx.x] = threadIdx.x; }
extern "C" __global__ void trap(Arguments a) { if (blockIdx.x == 1 && threadIdx.x == 33) __trap(); }
extern "C" __global__ void asserts(Arguments a) { assert(threadIdx.x < a.length); }
extern "C" __global__ void half_barrier(Arguments a) {
    __shared__ unsigned release;
    // Half of the threads reach the barrier; the others wait for one that does not come.
    if (threadIdx.x < 32) __syncthreads();
    else __shfl_sync(FULL, 1, 0), __galatea_named_barrier(5, 96);
}
extern "C" __global__ void two_barriers(Arguments a) {
    if (threadIdx.x < 40)
        __syncthreads();
    else
        __syncthreads();
}
extern "C" __global__ void two_kinds(Arguments a) {
    if (threadIdx.x < 40) __syncthreads(); else __syncthreads_count(1);
}
extern "C" __global__ void missing_lane(Arguments a) {
    if (threadIdx.x % 32 != 3) a.output[threadIdx.x] = __ballot_sync(FULL, 1);
    else __galatea_named_barrier(1, 32);
}
extern "C" __global__ void outside_mask(Arguments a) { a.output[0] = __shfl_sync(0xff, threadIdx.x, 0); }
extern "C" __global__ void mixed(Arguments a) {
    if (threadIdx.x % 2) a.output[0] = __ballot_sync(FULL, 1);
    else a.output[1] = __shfl_sync(FULL, 1, 0);
}
extern "C" __global__ void past_dynamic(Arguments a) {
    GALATEA_DYNAMIC_SHARED(bytes);
    unsigned *words = (unsigned *)bytes;
    words[threadIdx.x + a.length] = 1;
}
extern "C" __global__ void past_global(Arguments a) { a.output[threadIdx.x + a.length] = 1; }
extern "C" __global__ void null_pointer(Arguments a) { unsigned *p = nullptr; p[threadIdx.x] = 1; }
static __noinline__ unsigned deep(unsigned n) { volatile unsigned pad[64]; pad[n % 64] = n; return n == 0 ? 0 : deep(n - 1) + pad[n % 64]; }
extern "C" __global__ void overflow(Arguments a) { a.output[0] = deep(a.length); }
extern "C" __global__ void endless_atomic(Arguments a) { while (atomicAdd(a.output, 0u) == 0) {} }
extern "C" __global__ void endless_volatile(Arguments a) { volatile unsigned *p = a.output; while (*p == 0) {} }
extern "C" __global__ void endless_collective(Arguments a) {
    volatile unsigned *p = a.output;
    while (!__any_sync(FULL, *p != 0)) {}
}
extern "C" __global__ void endless_barrier(Arguments a) {
    volatile unsigned *p = a.output;
    while (!__syncthreads_or(*p != 0)) {}
}
extern "C" __global__ void others_wait(Arguments a) {
    if (blockIdx.x == 0) { if (threadIdx.x == 0) __trap(); __syncthreads(); }
    else while (atomicAdd(a.output, 0u) == 0) {}
}
"#;

#[repr(C)]
#[derive(Clone, Copy)]
struct Arguments {
    output: u64,
    length: u32,
}

struct Case {
    kernel: &'static str,
    grid: u32,
    block: u32,
    dynamic: u32,
    length: u32,
    error: CUresult,
    /// Strings that the report contains.
    says: &'static [&'static str],
}

const fn case(kernel: &'static str, error: CUresult, says: &'static [&'static str]) -> Case {
    Case {
        kernel,
        grid: 2,
        block: 64,
        dynamic: 0,
        length: 48,
        error,
        says,
    }
}

/// Runs each case on a device of its own (a failure is sticky) with several seeds.
fn check(cases: &[Case], options: &EmulatorOptions, seeds: u64) {
    for case in cases {
        let start = std::time::Instant::now();
        for seed in 0..seeds {
            let gpu = Gpu::new(EmulatorOptions {
                seed,
                ..options.clone()
            });
            let program = gpu.compile(SOURCE);
            let output = gpu.zeroed::<u32>(1 << 16);
            let arguments = Arguments {
                output: output.address,
                length: case.length,
            };
            let status = gpu.run(
                &program,
                case.kernel,
                case.grid,
                case.block,
                case.dynamic,
                arguments,
            );
            let report = gpu.report();
            assert_eq!(status, case.error, "{} seed {seed}: {report}", case.kernel);
            for text in case.says.iter().chain(&[case.kernel]) {
                assert!(
                    report.contains(text),
                    "{} seed {seed}: {text:?} in {report:?}",
                    case.kernel
                );
            }
            // The error is sticky: every later call in this context fails.
            assert_eq!(gpu.run(&program, "fine", 1, 32, 0, arguments), case.error);
        }
        println!("{}: {:.1?}", case.kernel, start.elapsed());
    }
}

#[test]
fn misuse_is_reported() {
    use CUresult::*;
    let cases = [
        case(
            "trap",
            CUDA_ERROR_LAUNCH_FAILED,
            &["trap", "block (1, 0, 0), thread (33, 0, 0)"],
        ),
        case(
            "asserts",
            CUDA_ERROR_ASSERT,
            &["threadIdx.x < a.length", "test.cu:6", "thread ("],
        ),
        case(
            "half_barrier",
            CUDA_ERROR_LAUNCH_TIMEOUT,
            &[
                "deadlock",
                "32 of 64 threads wait in __syncthreads",
                "32 of 96 threads wait in named barrier 5",
            ],
        ),
        case(
            "two_barriers",
            CUDA_ERROR_LAUNCH_FAILED,
            &["mismatched barriers", "test.cu:15", "test.cu:17"],
        ),
        case(
            "two_kinds",
            CUDA_ERROR_LAUNCH_FAILED,
            &["mismatched barriers", "__syncthreads_count"],
        ),
        case(
            "missing_lane",
            CUDA_ERROR_LAUNCH_TIMEOUT,
            &["deadlock", "__ballot_sync", "missing 0x00000008"],
        ),
        case(
            "outside_mask",
            CUDA_ERROR_LAUNCH_FAILED,
            &["not in its own mask 0x000000ff", "__shfl_sync"],
        ),
        case(
            "mixed",
            CUDA_ERROR_LAUNCH_FAILED,
            &[
                "different collectives",
                "__shfl_sync",
                "__ballot_sync",
                "test.cu:29",
            ],
        ),
    ];
    for options in [
        EmulatorOptions::default(),
        EmulatorOptions {
            stress: true,
            ..EmulatorOptions::default()
        },
    ] {
        check(&cases, &options, 3);
    }
}

#[test]
fn accesses_out_of_bounds_are_reported() {
    use CUresult::*;
    let error = CUDA_ERROR_ILLEGAL_ADDRESS;
    let cases = [
        Case {
            dynamic: 256,
            length: 1,
            ..case(
                "past_dynamic",
                error,
                &["byte 256 of 256 bytes of dynamic shared memory"],
            )
        },
        Case {
            dynamic: 256,
            length: 500,
            ..case("past_dynamic", error, &["dynamic shared memory"])
        },
        // An inaccessible page begins exactly at the end of a large allocation.
        Case {
            length: 1 << 16,
            ..case("past_global", error, &["of an allocation of 262144 bytes"])
        },
        case("null_pointer", error, &["null pointer"]),
        Case {
            length: 1_000_000,
            ..case("overflow", error, &["stack overflow", "131072"])
        },
    ];
    check(&cases, &EmulatorOptions::default(), 2);
    // Accesses in bounds succeed.
    let gpu = Gpu::seeded(1);
    let program = gpu.compile(SOURCE);
    gpu.go(
        &program,
        "past_dynamic",
        1,
        64,
        256,
        Arguments { output: 0, length: 0 },
    );
}

#[test]
fn endless_waits_are_reported() {
    let cases = [
        "endless_atomic",
        "endless_volatile",
        "endless_collective",
        "endless_barrier",
    ]
    .map(|kernel| {
        case(
            kernel,
            CUresult::CUDA_ERROR_LAUNCH_TIMEOUT,
            &["no progress", "have not exited"],
        )
    });
    let options = EmulatorOptions {
        spin_limit: Duration::from_millis(200),
        ..EmulatorOptions::default()
    };
    check(&cases, &options, 1);
}

#[test]
fn failure_ends_blocks_waiting_for_the_failed_block() {
    let cases = [Case {
        grid: 6,
        ..case(
            "others_wait",
            CUresult::CUDA_ERROR_LAUNCH_FAILED,
            &["trap", "block (0, 0, 0)"],
        )
    }];
    check(
        &cases,
        &EmulatorOptions {
            worker_threads: 2,
            ..EmulatorOptions::default()
        },
        4,
    );
}

#[test]
fn small_overrun_is_detected_on_free() {
    let gpu = Gpu::seeded(1);
    let program = gpu.compile(SOURCE);
    let output = gpu.zeroed::<u32>(16);
    gpu.go(
        &program,
        "past_global",
        1,
        1,
        0,
        Arguments {
            output: output.address,
            length: 18,
        },
    );
    drop(output);
    assert_eq!(gpu.synchronize(), CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
    let report = gpu.report();
    assert!(
        report.contains("8 bytes after an allocation of 64 bytes"),
        "{report}"
    );
}

#[test]
fn released_context_recovers_from_errors() {
    let gpu = Gpu::seeded(1);
    let program = gpu.compile(SOURCE);
    let output = gpu.zeroed::<u32>(64);
    let arguments = Arguments {
        output: output.address,
        length: 0,
    };
    assert_ne!(
        gpu.run(&program, "asserts", 1, 32, 0, arguments),
        CUresult::CUDA_SUCCESS
    );
    support::ok(call!(cuDevicePrimaryCtxRelease_v2: (c_int) -> CUresult; gpu.ordinal));
    let mut context = 0_usize;
    support::ok(call!(cuDevicePrimaryCtxRetain: (*mut usize, c_int) -> CUresult; &mut context, gpu.ordinal));
    gpu.go(&program, "fine", 1, 64, 0, arguments);
    assert_eq!(gpu.read(&output)[..64], (0..64).collect::<Vec<u32>>());
}

#[test]
fn launches_beyond_the_limits_are_refused() {
    let gpu = Gpu::seeded(1);
    let source = r#"
extern "C" __global__ void __launch_bounds__(64 * 2, 1) bounded(unsigned *p) { if (p) p[0] = 1; }
extern "C" __global__ void plain(unsigned *p) { if (p) p[0] = 1; }
"#;
    let program = gpu.compile(source);
    let launch = |kernel: &str, grid, block, dynamic| {
        let function = program.function(kernel);
        let mut pointer = 0_u64;
        let mut parameters = [(&raw mut pointer).cast::<c_void>()];
        call!(cuLaunchKernel: (usize, u32, u32, u32, u32, u32, u32, u32, usize, *mut *mut c_void, *mut *mut c_void) -> CUresult;
            function, grid, 1, 1, block, 1, 1, dynamic, gpu.stream, parameters.as_mut_ptr(), std::ptr::null_mut())
    };
    assert_eq!(launch("bounded", 1, 128, 0), CUresult::CUDA_SUCCESS);
    assert_eq!(
        launch("bounded", 1, 129, 0),
        CUresult::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES
    );
    assert_eq!(launch("plain", 1, 1024, 0), CUresult::CUDA_SUCCESS);
    assert_eq!(launch("plain", 1, 1025, 0), CUresult::CUDA_ERROR_INVALID_VALUE);
    assert_eq!(launch("plain", 0, 1, 0), CUresult::CUDA_ERROR_INVALID_VALUE);
    assert_eq!(launch("plain", 1, 1, 48 << 10), CUresult::CUDA_SUCCESS);
    assert_eq!(
        launch("plain", 1, 1, (48 << 10) + 1),
        CUresult::CUDA_ERROR_INVALID_VALUE
    );
    let opt_in = |bytes: c_int| call!(cuFuncSetAttribute: (usize, c_uint, c_int) -> CUresult; program.function("plain"), 8, bytes);
    assert_eq!(opt_in((99 << 10) + 1), CUresult::CUDA_ERROR_INVALID_VALUE);
    assert_eq!(opt_in(99 << 10), CUresult::CUDA_SUCCESS);
    assert_eq!(launch("plain", 1, 1, 99 << 10), CUresult::CUDA_SUCCESS);
    support::ok(gpu.synchronize());
}

#[test]
fn compile_errors_are_returned_as_a_log() {
    let gpu = Gpu::seeded(1);
    let log = gpu.try_compile(
        "#include \"lib.h\"\nextern \"C\" __global__ void k(int *p) { *p = f(1) + nothing; }",
        &[("lib.h", "__device__ int f(int x) { return x; }\n")],
        &[],
    );
    let log = log.expect_err("does not compile");
    assert!(log.contains("test.cu:2") && log.contains("nothing"), "{log}");
    let log = gpu
        .try_compile("#include <vector>\n", &[], &[])
        .expect_err("no standard headers");
    assert!(log.contains("vector"), "{log}");
    let log = gpu
        .try_compile("", &[], &["--no-such-option"])
        .expect_err("an unknown option");
    assert!(log.contains("--no-such-option"), "{log}");
}

#[test]
fn missing_compiler_is_explained_in_the_log() {
    let gpu = Gpu::new(EmulatorOptions {
        cxx: Some("/nowhere/c++".into()),
        ..EmulatorOptions::default()
    });
    let log = gpu.try_compile("", &[], &[]).expect_err("no compiler");
    for text in ["no C++ compiler", "/nowhere/c++", "hint:", "GALATEA_CXX"] {
        assert!(log.contains(text), "{text:?} in {log:?}");
    }
}

#[test]
fn stress_mode_exposes_races_hidden_by_lockstep() {
    // Not atomic: updates are lost if a switch comes between load and store.
    let source = r#"
struct Arguments { unsigned *output; unsigned length; };
extern "C" __global__ void lost(Arguments a) { for (unsigned i = 0; i < a.length; i++) a.output[0] = a.output[0] + 1; }
extern "C" __global__ void unordered(Arguments a) {
    // A barrier is missing between write and read.
    __shared__ unsigned values[64];
    values[threadIdx.x] = threadIdx.x;
    a.output[1 + threadIdx.x] = values[63 - threadIdx.x];
}
"#;
    let lost = |options: EmulatorOptions| {
        let gpu = Gpu::new(EmulatorOptions {
            worker_threads: 1,
            ..options
        });
        let program = gpu.compile(source);
        let output = gpu.zeroed::<u32>(65);
        gpu.go(
            &program,
            "lost",
            1,
            64,
            0,
            Arguments {
                output: output.address,
                length: 32,
            },
        );
        gpu.read(&output)[0]
    };
    assert_eq!(
        lost(EmulatorOptions::default()),
        2048,
        "without stress nothing switches in a loop without calls"
    );
    for seed in 1..5 {
        let counted = lost(EmulatorOptions {
            stress: true,
            seed,
            ..EmulatorOptions::default()
        });
        assert!(counted < 2000, "seed {seed}: {counted} of 2048");
    }
    // The missing barrier is found even without stress: half of the lanes run after the others in any order.
    let gpu = Gpu::seeded(1);
    let program = gpu.compile(source);
    let expected: Vec<u32> = (0..64).rev().collect();
    let wrong = (1..5).filter(|&seed| {
        set_seed(gpu.ordinal, seed);
        let output = gpu.zeroed::<u32>(65);
        gpu.go(
            &program,
            "unordered",
            1,
            64,
            0,
            Arguments {
                output: output.address,
                length: 0,
            },
        );
        gpu.read(&output)[1..] != expected[..]
    });
    assert_eq!(wrong.count(), 4);
}

#[test]
fn the_same_seed_gives_the_same_schedule() {
    let source = r#"
struct Arguments { unsigned *output; unsigned length; };
extern "C" __global__ void order(Arguments a) { a.output[1 + atomicAdd(a.output, 1u)] = blockIdx.x * blockDim.x + threadIdx.x; }
"#;
    for stress in [false, true] {
        let gpu = Gpu::new(EmulatorOptions {
            worker_threads: 1,
            stress,
            ..EmulatorOptions::default()
        });
        let program = gpu.compile(source);
        let order = |seed| {
            set_seed(gpu.ordinal, seed);
            let output = gpu.zeroed::<u32>(4 * 64 + 1);
            gpu.go(
                &program,
                "order",
                4,
                64,
                0,
                Arguments {
                    output: output.address,
                    length: 0,
                },
            );
            gpu.read(&output)
        };
        assert_eq!(order(7), order(7));
        assert_ne!(order(7), order(8));
        if !stress {
            assert_eq!(
                order(0)[1..],
                (0..256).collect::<Vec<u32>>(),
                "seed 0 is the natural order"
            );
        }
    }
}
