//! Counters compared with conflicts and sectors computed by hand.

mod support;

use galatea_emulator::{Counters, EmulatorOptions, counters, reset_counters};
use support::Gpu;

#[repr(C)]
#[derive(Clone, Copy)]
struct Arguments {
    data: u64,
    stride: u64,
}

const SOURCE: &str = r#"
typedef unsigned long long u64;
struct Arguments { unsigned *data; u64 stride; };
extern "C" __global__ void shared_words(Arguments a) {
    GALATEA_DYNAMIC_SHARED(bytes);
    volatile unsigned *words = (volatile unsigned *)bytes;
    unsigned v = words[threadIdx.x * a.stride];
    words[threadIdx.x * a.stride + 1] = v;
}
extern "C" __global__ void shared_doubles(Arguments a) {
    GALATEA_DYNAMIC_SHARED(bytes);
    volatile u64 *words = (volatile u64 *)bytes;
    words[threadIdx.x * a.stride] = 1;
}
extern "C" __global__ void fixed_words(Arguments a) {
    __shared__ unsigned words[32 * 32];
    words[threadIdx.x * a.stride] = threadIdx.x;
    __syncthreads();
    a.data[0] = words[0];
}
extern "C" __global__ void shared_atomics(Arguments a) {
    GALATEA_DYNAMIC_SHARED(bytes);
    unsigned *words = (unsigned *)bytes;
    atomicAdd(&words[threadIdx.x * a.stride], 1u);
    atomicMax((u64 *)bytes + threadIdx.x, 1ull);
}
extern "C" __global__ void copy(Arguments a) {
    unsigned v = a.data[threadIdx.x * a.stride];
    a.data[threadIdx.x] = v + 1;
}
extern "C" __global__ void bytes(Arguments a) {
    unsigned char *p = (unsigned char *)a.data;
    uint4 v = ((uint4 *)a.data)[threadIdx.x];
    p[threadIdx.x] = (unsigned char)(v.x + v.y + v.z + v.w);
    atomicAdd(a.data + 4096, 1u);
}
extern "C" __global__ void loop(Arguments a) {
    // The lanes do different numbers of iterations.
    for (unsigned i = 0; i <= threadIdx.x; i++) a.data[i * 32 + threadIdx.x] = i;
}
extern "C" __global__ void meets(Arguments a) {
    // Odd lanes skip the first load; the collective keeps the second ones apart from it.
    unsigned v = 0;
    for (unsigned i = 0; i < 2; i++) {
        if (i == 1 || threadIdx.x % 2 == 0) v += a.data[i * 1024 + threadIdx.x];
        v = __shfl_sync(0xffffffffu, v, 0);
    }
    if (v == 12345) a.data[0] = v;
}
"#;

fn count(gpu: &Gpu, program: &support::Program, kernel: &str, block: u32, stride: u64) -> Counters {
    let data = gpu.zeroed::<u32>(1 << 16);
    support::ok(gpu.synchronize());
    reset_counters(gpu.ordinal);
    gpu.go(
        program,
        kernel,
        1,
        block,
        32 << 10,
        Arguments {
            data: data.address,
            stride,
        },
    );
    counters(gpu.ordinal)
}

#[test]
fn counters_match_hand_computed_values() {
    for seed in 0..4 {
        let gpu = Gpu::new(EmulatorOptions {
            count: true,
            seed,
            ..EmulatorOptions::default()
        });
        let program = gpu.compile(SOURCE);
        let count = |kernel: &str, stride| count(&gpu, &program, kernel, 32, stride);
        for (stride, rounds) in [
            (0, 1),
            (1, 1),
            (2, 2),
            (3, 1),
            (4, 4),
            (16, 16),
            (32, 32),
            (33, 1),
        ] {
            let counted = count("shared_words", stride);
            assert_eq!(
                counted.shared_reads.rounds, rounds,
                "stride {stride}, seed {seed}"
            );
            assert_eq!(
                counted.shared_writes.rounds, rounds,
                "stride {stride}, seed {seed}"
            );
            assert_eq!(counted.shared_reads.instructions, 1);
            assert_eq!(counted.shared_reads.lanes, [0, 0, 32, 0, 0]);
            assert_eq!(
                counted.global_reads.instructions + counted.global_writes.instructions,
                0,
                "{counted:?}"
            );
        }
        for (stride, rounds) in [(1, 2), (2, 4), (16, 32)] {
            assert_eq!(
                count("shared_doubles", stride).shared_writes.rounds,
                rounds,
                "stride {stride}"
            );
        }
        for (stride, rounds) in [(1, 1), (2, 2), (32, 32)] {
            let counted = count("fixed_words", stride);
            assert_eq!(counted.shared_writes.rounds, rounds, "stride {stride}");
            // A broadcast of one word.
            assert_eq!(counted.shared_reads.rounds, 1);
            assert_eq!(counted.barriers, 1);
        }
        for (stride, rounds) in [(0, 32), (1, 1), (2, 2), (32, 32)] {
            let counted = count("shared_atomics", stride);
            assert_eq!(counted.shared_atomics.instructions, 2);
            assert_eq!(counted.shared_atomics.lanes, [0, 0, 32, 32, 0]);
            assert_eq!(counted.shared_atomics.rounds, rounds + 2, "stride {stride}");
        }
        for (stride, sectors) in [(1, 4), (2, 8), (8, 32), (100, 32), (0, 1)] {
            let counted = count("copy", stride);
            assert_eq!(
                counted.global_reads.sectors,
                [0, 0, sectors, 0, 0],
                "stride {stride}"
            );
            assert_eq!(counted.global_writes.sectors, [0, 0, 4, 0, 0]);
            assert_eq!(counted.global_reads.useful_bytes(), 128);
            assert_eq!(counted.global_reads.moved_bytes(), sectors * 32);
        }
        let counted = count("bytes", 0);
        assert_eq!(counted.global_reads.useful_bytes(), 512);
        assert_eq!(counted.global_reads.sectors.iter().sum::<u64>() % 16, 0);
        assert_eq!(counted.global_writes.sectors, [1, 0, 0, 0, 0]);
        assert_eq!(counted.global_atomics.lanes, [0, 0, 32, 0, 0]);
        assert_eq!(counted.global_atomics.sectors, [0, 0, 1, 0, 0]);
        let counted = count("loop", 0);
        assert_eq!(counted.global_writes.instructions, 32);
        assert_eq!(counted.global_writes.lanes, [0, 0, 32 * 33 / 2, 0, 0]);
        let counted = count("meets", 0);
        assert_eq!(counted.collectives, 2);
        assert_eq!(counted.global_reads.instructions, 2, "{counted:?}");
        assert_eq!(counted.global_reads.sectors, [0, 0, 8, 0, 0]);
    }
}

#[test]
fn partial_warps_are_counted_separately() {
    let gpu = Gpu::new(EmulatorOptions {
        count: true,
        worker_threads: 2,
        ..EmulatorOptions::default()
    });
    let program = gpu.compile(SOURCE);
    let counted = count(&gpu, &program, "copy", 80, 1);
    assert_eq!(counted.global_reads.instructions, 3);
    assert_eq!(counted.global_reads.lanes, [0, 0, 80, 0, 0]);
    assert_eq!(counted.global_reads.sectors, [0, 0, 10, 0, 0]);
    reset_counters(gpu.ordinal);
    assert_eq!(counters(gpu.ordinal), Counters::default());
}

#[test]
fn counters_are_zero_unless_enabled() {
    let gpu = Gpu::seeded(1);
    let program = gpu.compile(SOURCE);
    assert_eq!(count(&gpu, &program, "copy", 32, 1), Counters::default());
}
