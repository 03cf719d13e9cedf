//! Kernels of every shape the engine uses, under many seeds and modes, against the answer computed on the
//! host.

mod support;

use std::collections::HashMap;

use galatea_emulator::{EmulatorOptions, set_seed};
use support::{Gpu, Program};

/// Runs a test on devices of several kinds, under several seeds each.
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
            // Shown when the test fails.
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

#[test]
fn block_reduction() {
    let source = source(
        r#"
extern "C" __global__ void __launch_bounds__(1024) reduce(Arguments a) {
    __shared__ u64 sums[32];
    u64 sum = 0;
    for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < a.length; i += (u64)gridDim.x * blockDim.x)
        sum += a.input[i];
    for (int delta = 16; delta > 0; delta /= 2) sum += __shfl_down_sync(FULL, sum, delta);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x < 32) {
        sum = threadIdx.x < blockDim.x / 32 ? sums[threadIdx.x] : 0;
        for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(FULL, sum, lanes);
        unsigned low = __reduce_add_sync(FULL, threadIdx.x);
        if (threadIdx.x == 0) { atomicAdd(a.output, sum); a.scratch[0] = low; }
    }
}
"#,
    );
    let values = numbers(10_007);
    let expected: u64 = values.iter().map(|&value| u64::from(value)).sum();
    everywhere(&source, 6, |gpu, program, _| {
        let input = gpu.upload(&values);
        for (grid, block) in [(1, 32), (3, 256), (2, 1024)] {
            let (output, scratch) = (gpu.zeroed::<u64>(1), gpu.zeroed::<u64>(1));
            let arguments = Arguments {
                input: input.address,
                output: output.address,
                scratch: scratch.address,
                length: values.len() as u64,
            };
            gpu.go(program, "reduce", grid, block, 0, arguments);
            assert_eq!(gpu.read(&output), [expected], "{grid} x {block}");
            assert_eq!(gpu.read(&scratch), [496]);
        }
    });
}

#[test]
fn tree_reduction_in_dynamic_shared_memory() {
    let source = source(
        r#"
extern "C" __global__ void tree(Arguments a) {
    GALATEA_DYNAMIC_SHARED(bytes);
    u64 *sums = (u64 *)bytes;
    u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x;
    sums[threadIdx.x] = i < a.length ? a.input[i] : 0;
    __syncthreads();
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) a.output[blockIdx.x] = sums[0];
}
"#,
    );
    let values = numbers(5000);
    everywhere(&source, 6, |gpu, program, _| {
        let input = gpu.upload(&values);
        for block in [64_u32, 512, 1024] {
            let blocks = values.len().div_ceil(block as usize);
            let output = gpu.alloc::<u64>(blocks);
            let arguments = Arguments {
                input: input.address,
                output: output.address,
                scratch: 0,
                length: values.len() as u64,
            };
            gpu.go(program, "tree", blocks as u32, block, block * 8, arguments);
            let expected: Vec<u64> = values
                .chunks(block as usize)
                .map(|chunk| chunk.iter().map(|&value| u64::from(value)).sum())
                .collect();
            assert_eq!(gpu.read(&output), expected, "block {block}");
        }
    });
}

#[test]
fn compaction_by_ballot() {
    let source = source(
        r#"
extern "C" __global__ void compact(Arguments a) {
    unsigned lane = threadIdx.x % warpSize;
    for (u64 start = blockIdx.x * (u64)blockDim.x; start < a.length; start += (u64)gridDim.x * blockDim.x) {
        u64 i = start + threadIdx.x;
        bool keep = i < a.length && a.input[i] % 3 == 0;
        unsigned ballot = __ballot_sync(FULL, keep);
        u64 base = 0;
        if (lane == 0 && ballot != 0) base = atomicAdd(a.scratch, (u64)__popc(ballot));
        base = __shfl_sync(FULL, base, 0);
        if (keep) a.output[base + __popc(ballot & ((1u << lane) - 1))] = a.input[i];
    }
}
"#,
    );
    let values = numbers(3001);
    let mut expected: Vec<u64> = values
        .iter()
        .filter(|&&value| value % 3 == 0)
        .map(|&v| u64::from(v))
        .collect();
    expected.sort_unstable();
    everywhere(&source, 6, |gpu, program, _| {
        let input = gpu.upload(&values);
        let (output, count) = (gpu.zeroed::<u64>(values.len()), gpu.zeroed::<u64>(1));
        let arguments = Arguments {
            input: input.address,
            output: output.address,
            scratch: count.address,
            length: values.len() as u64,
        };
        gpu.go(program, "compact", 3, 128, 0, arguments);
        let kept = gpu.read(&count)[0] as usize;
        let mut found = gpu.read(&output)[..kept].to_vec();
        found.sort_unstable();
        assert_eq!(found, expected);
    });
}

#[test]
fn hash_table_by_compare_and_swap() {
    // Keys claimed by 64-bit compare-and-swap from several blocks on several OS threads; sums by atomicAdd.
    let source = source(
        r#"
extern "C" __global__ void build(Arguments a) {
    const u64 slots = 512;
    u64 *keys = a.scratch, *sums = a.scratch + slots;
    for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < a.length; i += (u64)gridDim.x * blockDim.x) {
        u64 key = a.input[i] % 300 + 1;
        u64 slot = key * 0x9e3779b97f4a7c15ull >> 55;
        while (true) {
            u64 seen = atomicCAS(&keys[slot], 0ull, key);
            if (seen == 0 || seen == key) break;
            slot = (slot + 1) % slots;
        }
        atomicAdd(&sums[slot], (u64)a.input[i]);
    }
}
extern "C" __global__ void probe(Arguments a) {
    const u64 slots = 512;
    u64 key = threadIdx.x + 1, slot = key * 0x9e3779b97f4a7c15ull >> 55;
    while (a.scratch[slot] != key && a.scratch[slot] != 0) slot = (slot + 1) % slots;
    a.output[threadIdx.x] = a.scratch[slot] == key ? a.scratch[slots + slot] : 0;
}
"#,
    );
    let values = numbers(20_000);
    let mut sums = HashMap::new();
    for &value in &values {
        *sums.entry(value % 300).or_insert(0) += u64::from(value);
    }
    let expected: Vec<u64> = (0..300).map(|key| sums.get(&key).copied().unwrap_or(0)).collect();
    everywhere(&source, 4, |gpu, program, _| {
        let input = gpu.upload(&values);
        let (output, table) = (gpu.alloc::<u64>(300), gpu.zeroed::<u64>(1024));
        let arguments = Arguments {
            input: input.address,
            output: output.address,
            scratch: table.address,
            length: values.len() as u64,
        };
        gpu.go(program, "build", 8, 128, 0, arguments);
        gpu.go(program, "probe", 1, 300, 0, arguments);
        assert_eq!(gpu.read(&output), expected);
    });
}

#[test]
fn spin_lock_taken_by_every_lane() {
    let source = source(
        r#"
extern "C" __global__ void lock(Arguments a) {
    unsigned *mutex = (unsigned *)a.scratch;
    while (atomicCAS(mutex, 0u, 1u) != 0) {}
    __threadfence();
    *a.output = *a.output + threadIdx.x;
    __threadfence();
    atomicExch(mutex, 0u);
}
"#,
    );
    everywhere(&source, 6, |gpu, program, _| {
        let (output, mutex) = (gpu.zeroed::<u64>(1), gpu.zeroed::<u64>(1));
        let arguments = Arguments {
            input: 0,
            output: output.address,
            scratch: mutex.address,
            length: 0,
        };
        gpu.go(program, "lock", 4, 64, 0, arguments);
        assert_eq!(gpu.read(&output), [4 * (63 * 64 / 2)]);
    });
}

#[test]
fn producer_and_consumer_in_one_warp() {
    let source = source(
        r#"
extern "C" __global__ void relay(Arguments a) {
    // Each lane waits for the one before it.
    __shared__ unsigned turn;
    if (threadIdx.x == 0) turn = 0;
    __syncwarp();
    unsigned lane = threadIdx.x;
    while (atomicAdd(&turn, 0u) != lane) __nanosleep(20);
    a.output[lane] = lane == 0 ? 1 : a.output[lane - 1] * 3 + lane;
    __threadfence_block();
    atomicExch(&turn, lane + 1);
}
extern "C" __global__ void acquire(Arguments a) {
    // The same with an acquire load and a release store, backwards.
    unsigned *turn = (unsigned *)a.scratch;
    unsigned lane = 31 - threadIdx.x;
    while (__nv_atomic_load_n(turn, __NV_ATOMIC_ACQUIRE, __NV_THREAD_SCOPE_DEVICE) != lane) {}
    a.output[lane] = lane == 0 ? 1 : a.output[lane - 1] * 3 + lane;
    __nv_atomic_store_n(turn, lane + 1, __NV_ATOMIC_RELEASE, __NV_THREAD_SCOPE_DEVICE);
}
"#,
    );
    let mut expected = vec![1_u64];
    for lane in 1..32 {
        expected.push(expected[lane as usize - 1].wrapping_mul(3).wrapping_add(lane));
    }
    everywhere(&source, 6, |gpu, program, _| {
        for kernel in ["relay", "acquire"] {
            let (output, scratch) = (gpu.alloc::<u64>(32), gpu.zeroed::<u64>(1));
            let arguments = Arguments {
                input: 0,
                output: output.address,
                scratch: scratch.address,
                length: 0,
            };
            gpu.go(program, kernel, 1, 32, 0, arguments);
            assert_eq!(gpu.read(&output), expected, "{kernel}");
        }
    });
}

#[test]
fn a_spin_on_a_volatile_makes_progress() {
    // Nothing in the loop calls the run time: only an interruption or the stress mode gets the lane out of
    // it.
    let source = source(
        r#"
extern "C" __global__ void wait(Arguments a) {
    volatile unsigned *flag = (volatile unsigned *)a.scratch;
    if (threadIdx.x == 7) { *flag = 1; } else { while (*flag == 0) {} }
    a.output[threadIdx.x] = 1;
}
"#,
    );
    everywhere(&source, 3, |gpu, program, _| {
        let (output, scratch) = (gpu.zeroed::<u64>(32), gpu.zeroed::<u64>(1));
        let arguments = Arguments {
            input: 0,
            output: output.address,
            scratch: scratch.address,
            length: 0,
        };
        gpu.go(program, "wait", 1, 32, 0, arguments);
        assert_eq!(gpu.read(&output), [1; 32]);
    });
}

#[test]
fn threads_may_leave_before_barriers() {
    let source = source(
        r#"
extern "C" __global__ void early(Arguments a) {
    __shared__ unsigned counts[4];
    if (threadIdx.x < 4) counts[threadIdx.x] = 0;
    __syncthreads();
    if (threadIdx.x >= a.length) return;
    atomicAdd(&counts[threadIdx.x % 4], 1u);
    __syncthreads();
    if (threadIdx.x % 2 == 1) return;
    // Half of each warp has exited; the mask still names all.
    unsigned ballot = __ballot_sync(FULL, threadIdx.x % 4 == 0);
    int live = __syncthreads_count(1);
    if (threadIdx.x == 0) {
        a.output[0] = counts[0] + counts[1] + counts[2] + counts[3];
        a.output[1] = ballot;
        a.output[2] = live;
    }
}
"#,
    );
    everywhere(&source, 6, |gpu, program, _| {
        for length in [1_u64, 31, 32, 33, 100, 128] {
            let output = gpu.zeroed::<u64>(3);
            gpu.go(
                program,
                "early",
                1,
                128,
                0,
                Arguments {
                    input: 0,
                    output: output.address,
                    scratch: 0,
                    length,
                },
            );
            let ballot = (0..length.min(32))
                .filter(|lane| lane % 4 == 0)
                .fold(0, |set, lane| set | 1 << lane);
            assert_eq!(
                gpu.read(&output),
                [length, ballot, length.div_ceil(2)],
                "length {length}"
            );
        }
    });
}

#[test]
fn collectives_of_disjoint_and_overlapping_masks() {
    let source = source(
        r#"
extern "C" __global__ void masks(Arguments a) {
    unsigned lane = threadIdx.x;
    u64 value = 0;
    if (lane < 10) {
        value = __shfl_sync(0x3ff, lane * 10, 9);
        value += __reduce_max_sync(0x3ff, lane);
    } else if (lane % 2 == 0) {
        unsigned mask = 0x55555555u & ~0x3ffu;
        for (int i = 0; i < 3; i++) value += __popc(__ballot_sync(mask, lane > 15));
    } else {
        unsigned mask = 0xaaaaaaaau & ~0x3ffu;
        value = __all_sync(mask, lane > 10) * 2 + __any_sync(mask, lane == 31);
    }
    a.output[lane] = value;
    // Pairs that overlap: each lane synchronises with its left neighbour, then with its right one.
    unsigned left = lane == 0 ? 0 : 3u << (lane - 1), right = lane == 31 ? 0 : 3u << lane;
    unsigned sum = 0;
    if (left) sum += __shfl_sync(left, lane, lane - 1);
    if (right) sum += __shfl_sync(right, lane, lane + 1);
    a.scratch[lane] = sum;
}
"#,
    );
    let expected: Vec<u64> = (0..32_u64)
        .map(|lane| match lane {
            0..10 => 90 + 9,
            _ if lane % 2 == 0 => 3 * 8,
            _ => 3,
        })
        .collect();
    let neighbours: Vec<u64> = (0..32_u64)
        .map(|lane| lane.saturating_sub(1) + if lane == 31 { 0 } else { lane + 1 })
        .collect();
    everywhere(&source, 8, |gpu, program, _| {
        let (output, scratch) = (gpu.alloc::<u64>(32), gpu.alloc::<u64>(32));
        let arguments = Arguments {
            input: 0,
            output: output.address,
            scratch: scratch.address,
            length: 0,
        };
        gpu.go(program, "masks", 1, 32, 0, arguments);
        assert_eq!(gpu.read(&output), expected);
        assert_eq!(gpu.read(&scratch), neighbours);
    });
}

#[test]
fn every_collective_gives_what_cuda_gives() {
    let source = source(
        r#"
extern "C" __global__ void all(Arguments a) {
    unsigned lane = threadIdx.x, v = a.input[lane];
    u64 *o = a.output + lane * 24;
    int equal;
    o[0] = __shfl_sync(FULL, v, lane * 7 + 3);
    o[1] = __shfl_sync(FULL, v, lane + 3, 8);
    o[2] = __shfl_up_sync(FULL, v, 5);
    o[3] = __shfl_up_sync(FULL, v, 3, 16);
    o[4] = __shfl_down_sync(FULL, v, 5);
    o[5] = __shfl_down_sync(FULL, v, 3, 4);
    o[6] = __shfl_xor_sync(FULL, v, 21);
    o[7] = __shfl_xor_sync(FULL, v, 12, 8);
    o[8] = __match_any_sync(FULL, v % 5);
    o[9] = __match_all_sync(FULL, v, &equal) * 2 + equal;
    o[10] = __match_all_sync(FULL, lane / 32, &equal) * 2ull + equal;
    o[11] = __reduce_add_sync(FULL, v);
    o[12] = __reduce_min_sync(FULL, v);
    o[13] = __reduce_max_sync(FULL, v);
    o[14] = (u64)(long long)__reduce_min_sync(FULL, (int)v);
    o[15] = (u64)(long long)__reduce_max_sync(FULL, (int)v);
    o[16] = __reduce_and_sync(FULL, v | 0xff);
    o[17] = __reduce_or_sync(FULL, v & 0xff);
    o[18] = __reduce_xor_sync(FULL, v);
    o[19] = (u64)(__shfl_xor_sync(FULL, (double)v, 1) * 2.0);
    o[20] = (u64)__shfl_xor_sync(FULL, (float)(v >> 8), 1);
    o[21] = (u64)__shfl_xor_sync(FULL, -(long long)v, 1);
    o[22] = __match_any_sync(FULL, (u64)v << 32 | v % 2);
    o[23] = __activemask() >> lane & 1;
}
"#,
    );
    let values: Vec<u32> = numbers(32);
    let mut expected = Vec::new();
    for lane in 0..32_usize {
        let v = |index: usize| u64::from(values[index]);
        let set = |test: &dyn Fn(usize) -> bool| (0..32).filter(|&l| test(l)).fold(0_u64, |m, l| m | 1 << l);
        let signed = || values.iter().map(|&value| value as i32);
        expected.extend([
            v((lane * 7 + 3) % 32),
            v(lane / 8 * 8 + (lane + 3) % 8),
            v(if lane >= 5 { lane - 5 } else { lane }),
            v(if lane % 16 >= 3 { lane - 3 } else { lane }),
            v(if lane + 5 < 32 { lane + 5 } else { lane }),
            v(if lane % 4 + 3 < 4 { lane + 3 } else { lane }),
            v(lane ^ 21),
            // A lane mask that leaves the segment upwards keeps the own value; downwards it is followed.
            v(if (lane ^ 12) < lane / 8 * 8 + 8 {
                lane ^ 12
            } else {
                lane
            }),
            set(&|l| values[l] % 5 == values[lane] % 5),
            0,
            0xffff_ffff * 2 + 1,
            u64::from(values.iter().fold(0, |sum: u32, &value| sum.wrapping_add(value))),
            u64::from(*values.iter().min().expect("32 values")),
            u64::from(*values.iter().max().expect("32 values")),
            i64::from(signed().min().expect("32 values")) as u64,
            i64::from(signed().max().expect("32 values")) as u64,
            u64::from(values.iter().fold(u32::MAX, |all, &value| all & (value | 0xff))),
            u64::from(values.iter().fold(0, |all, &value| all | (value & 0xff))),
            u64::from(values.iter().fold(0, |all, &value| all ^ value)),
            v(lane ^ 1) * 2,
            u64::from((values[lane ^ 1] >> 8) as f32 as u32),
            (-(v(lane ^ 1) as i64)) as u64,
            1 << lane,
            1,
        ]);
    }
    everywhere(&source, 4, |gpu, program, _| {
        let input = gpu.upload(&values);
        let output = gpu.alloc::<u64>(32 * 24);
        let arguments = Arguments {
            input: input.address,
            output: output.address,
            scratch: 0,
            length: 0,
        };
        gpu.go(program, "all", 1, 32, 0, arguments);
        let found = gpu.read(&output);
        for (index, (found, expected)) in found.iter().zip(&expected).enumerate() {
            assert_eq!(found, expected, "lane {}, result {}", index / 24, index % 24);
        }
    });
}

#[test]
fn grouping_by_match_any() {
    let source = source(
        r#"
extern "C" __global__ void group(Arguments a) {
    u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x;
    bool valid = i < a.length;
    unsigned mask = __ballot_sync(FULL, valid);
    if (!valid) return;
    unsigned key = a.input[i] % 10;
    unsigned peers = __match_any_sync(mask, key);
    if (__ffs(peers) - 1 == threadIdx.x % 32) atomicAdd(&a.output[key], (u64)__popc(peers));
    double *sums = (double *)a.scratch;
    atomicAdd(&sums[key], (double)a.input[i]);
}
"#,
    );
    let values = numbers(1000);
    let mut counts = vec![0_u64; 10];
    let mut sums = vec![0.0_f64; 10];
    for &value in &values {
        counts[value as usize % 10] += 1;
        sums[value as usize % 10] += f64::from(value);
    }
    everywhere(&source, 6, |gpu, program, _| {
        let input = gpu.upload(&values);
        let (output, scratch) = (gpu.zeroed::<u64>(10), gpu.zeroed::<f64>(10));
        let arguments = Arguments {
            input: input.address,
            output: output.address,
            scratch: scratch.address,
            length: values.len() as u64,
        };
        gpu.go(program, "group", 4, 256, 0, arguments);
        assert_eq!(gpu.read(&output), counts);
        // Whole numbers below 2^53: every order of addition gives the same.
        assert_eq!(gpu.read(&scratch), sums);
    });
}

#[test]
fn decoupled_look_back() {
    // A scan of block sums: each block publishes its aggregate, then its inclusive prefix, and looks back.
    // Blocks take their number from a counter, so that a block only waits for earlier ones.
    let source = source(
        r#"
extern "C" __global__ void scan(Arguments a) {
    __shared__ unsigned tile;
    __shared__ u64 before;
    u64 *status = a.scratch + 1; // flag in the top bits: 1 aggregate, 2 prefix
    if (threadIdx.x == 0) tile = atomicAdd((unsigned *)a.scratch, 1u);
    __syncthreads();
    u64 i = tile * (u64)blockDim.x + threadIdx.x;
    unsigned value = i < a.length ? a.input[i] & 0xffff : 0;
    unsigned scanned = value;
    for (int delta = 1; delta < 32; delta *= 2) {
        unsigned left = __shfl_up_sync(FULL, scanned, delta);
        if (threadIdx.x % 32 >= delta) scanned += left;
    }
    __shared__ unsigned warps[32];
    if (threadIdx.x % 32 == 31) warps[threadIdx.x / 32] = scanned;
    __syncthreads();
    for (unsigned w = 0; w < threadIdx.x / 32; w++) scanned += warps[w];
    if (threadIdx.x == blockDim.x - 1) {
        u64 prefix = 0;
        if (tile > 0) {
            __nv_atomic_store_n(&status[tile], 1ull << 62 | scanned, __NV_ATOMIC_RELEASE, __NV_THREAD_SCOPE_DEVICE);
            for (unsigned look = tile - 1;; look--) {
                u64 seen;
                do {
                    seen = __nv_atomic_load_n(&status[look], __NV_ATOMIC_ACQUIRE, __NV_THREAD_SCOPE_DEVICE);
                } while (seen >> 62 == 0);
                prefix += seen & ~(3ull << 62);
                if (seen >> 62 == 2) break;
            }
        }
        __nv_atomic_store_n(&status[tile], 2ull << 62 | (prefix + scanned), __NV_ATOMIC_RELEASE, __NV_THREAD_SCOPE_DEVICE);
        before = prefix;
    }
    __syncthreads();
    if (i < a.length) a.output[i] = before + scanned;
}
"#,
    );
    let values = numbers(5000);
    let mut sum = 0;
    let expected: Vec<u64> = values
        .iter()
        .map(|&value| {
            sum += u64::from(value & 0xffff);
            sum
        })
        .collect();
    everywhere(&source, 6, |gpu, program, _| {
        let input = gpu.upload(&values);
        let (output, scratch) = (gpu.alloc::<u64>(values.len()), gpu.zeroed::<u64>(200));
        let arguments = Arguments {
            input: input.address,
            output: output.address,
            scratch: scratch.address,
            length: values.len() as u64,
        };
        gpu.go(
            program,
            "scan",
            values.len().div_ceil(64) as u32,
            64,
            0,
            arguments,
        );
        assert_eq!(gpu.read(&output), expected);
    });
}

#[test]
fn grid_barrier_of_resident_blocks() {
    let source = source(
        r#"
extern "C" __global__ void grid(Arguments a) {
    unsigned *arrived = (unsigned *)a.scratch;
    for (unsigned round = 1; round <= 3; round++) {
        __syncthreads();
        if (threadIdx.x == 0) {
            atomicAdd(a.output, round);
            __threadfence();
            atomicAdd(arrived, 1u);
            while (atomicAdd(arrived, 0u) < round * gridDim.x) {}
            // All threads have added: the sum is that after this round, and at most that after the next.
            u64 sum = atomicAdd(a.output, 0ull);
            u64 least = (u64)gridDim.x * round * (round + 1) / 2;
            assert(sum >= least && sum <= least + (u64)gridDim.x * (round + 1));
        }
    }
}
"#,
    );
    let gpu = Gpu::new(EmulatorOptions {
        multiprocessors: 4,
        max_resident_blocks: 12,
        worker_threads: 2,
        ..EmulatorOptions::default()
    });
    let program = gpu.compile(&source);
    for seed in 0..3 {
        set_seed(gpu.ordinal, seed);
        let (output, scratch) = (gpu.zeroed::<u64>(1), gpu.zeroed::<u64>(1));
        let arguments = Arguments {
            input: 0,
            output: output.address,
            scratch: scratch.address,
            length: 0,
        };
        gpu.go(&program, "grid", 48, 64, 0, arguments);
        assert_eq!(gpu.read(&output), [48 * 6], "seed {seed}");
    }
}

#[test]
fn named_barriers_join_some_of_the_warps() {
    let source = source(
        r#"
extern "C" __global__ void named(Arguments a) {
    __shared__ u64 stage[64];
    unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    // Warps 0 and 1 hand over to 2 and 3 through two barriers, for several rounds.
    unsigned pair = warp % 2;
    for (u64 round = 0; round < 4; round++) {
        if (warp < 2) {
            if (round > 0) __galatea_named_barrier(3 + pair, 64);
            stage[pair * 32 + lane] = round * 100 + lane;
            __galatea_named_barrier_arrive(1 + pair, 64);
        } else {
            __galatea_named_barrier(1 + pair, 64);
            a.output[pair * 32 + lane] += stage[pair * 32 + (lane + 1) % 32];
            if (round < 3) __galatea_named_barrier_arrive(3 + pair, 64);
        }
    }
}
"#,
    );
    let expected: Vec<u64> = (0..64_u64)
        .map(|i| (0..4).map(|round| round * 100 + (i + 1) % 32).sum())
        .collect();
    everywhere(&source, 8, |gpu, program, _| {
        let output = gpu.zeroed::<u64>(64);
        gpu.go(
            program,
            "named",
            1,
            128,
            0,
            Arguments {
                input: 0,
                output: output.address,
                scratch: 0,
                length: 0,
            },
        );
        assert_eq!(gpu.read(&output), expected);
    });
}

#[test]
fn reducing_barriers() {
    let source = source(
        r#"
extern "C" __global__ void reducing(Arguments a) {
    int count = __syncthreads_count(threadIdx.x % 3 == 0);
    int all = __syncthreads_and(threadIdx.x < a.length);
    int any = __syncthreads_or(threadIdx.x == 77);
    a.output[threadIdx.x] = count * 100 + all * 10 + any;
}
"#,
    );
    everywhere(&source, 4, |gpu, program, _| {
        for (length, all) in [(96, 1), (95, 0)] {
            let output = gpu.alloc::<u64>(96);
            gpu.go(
                program,
                "reducing",
                1,
                96,
                0,
                Arguments {
                    input: 0,
                    output: output.address,
                    scratch: 0,
                    length,
                },
            );
            assert_eq!(gpu.read(&output), [32 * 100 + all * 10 + 1; 96]);
        }
    });
}

#[test]
fn atomics_of_every_kind() {
    let source = source(
        r#"
template <class T> __device__ T *at(u64 *p, int i) { return (T *)(p + i); }
extern "C" __global__ void atomics(Arguments a) {
    int t = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    u64 *o = a.output;
    atomicAdd(at<int>(o, 0), t); atomicSub(at<unsigned>(o, 1), (unsigned)t); atomicAdd(o + 2, (u64)t << 32);
    atomicMin(at<int>(o, 3), -t); atomicMax(at<int>(o, 4), t - 5); atomicMin(at<unsigned>(o, 5), 7u + t);
    atomicMax(o + 6, (u64)t << 40); atomicMin(at<long long>(o, 7), -((long long)t << 33));
    atomicOr(at<unsigned>(o, 8), 1u << t % 32); atomicAnd(o + 9, ~(1ull << t % 64)); atomicXor(o + 10, (u64)t);
    atomicInc(at<unsigned>(o, 11), 9u); atomicDec(at<unsigned>(o, 12), 9u);
    atomicAdd(at<float>(o, 13), 0.5f); atomicAdd_system(at<double>(o, 14), 0.25); atomicAdd_block(o + 15, 1ull);
    unsigned short *half = (unsigned short *)(o + 16);
    unsigned short seen = *half, before;
    do { before = seen; seen = atomicCAS(half, before, (unsigned short)(before + 3)); } while (seen != before);
    if (atomicExch(o + 17, 1ull) == 0) atomicAdd(o + 18, 1ull);
}
"#,
    );
    let threads = 128_i64;
    everywhere(&source, 3, |gpu, program, _| {
        let mut start = vec![0_u64; 19];
        start[5] = 1000;
        start[9] = u64::MAX;
        let output = gpu.upload(&start);
        gpu.go(
            program,
            "atomics",
            2,
            64,
            0,
            Arguments {
                input: 0,
                output: output.address,
                scratch: 0,
                length: 0,
            },
        );
        let sum = threads * (threads - 1) / 2;
        // Inc counts modulo 10 upwards from 0, Dec downwards.
        let expected = [
            sum as u64,
            u64::from((-sum) as u32),
            (sum as u64) << 32,
            u64::from(-(threads as i32 - 1) as u32),
            threads as u64 - 6,
            7,
            (threads as u64 - 1) << 40,
            (-((threads - 1) << 33)) as u64,
            0xffff_ffff,
            0,
            0,
            threads as u64 % 10,
            (10 - threads as u64 % 10) % 10,
            u64::from((threads as f32 / 2.0).to_bits()),
            (threads as f64 / 4.0).to_bits(),
            threads as u64,
            3 * threads as u64,
            1,
            1,
        ];
        assert_eq!(gpu.read(&output), expected);
    });
}

#[test]
fn shared_memory_is_not_zero_and_not_what_it_was() {
    let source = source(
        r#"
extern "C" __global__ void leftovers(Arguments a) {
    GALATEA_DYNAMIC_SHARED(bytes);
    __shared__ u64 fixed[32];
    u64 *dynamic = (u64 *)bytes;
    a.output[blockIdx.x * 64 + threadIdx.x] = fixed[threadIdx.x];
    a.output[blockIdx.x * 64 + 32 + threadIdx.x] = dynamic[threadIdx.x];
    fixed[threadIdx.x] = dynamic[threadIdx.x] = 42;
}
"#,
    );
    let gpu = Gpu::new(EmulatorOptions {
        worker_threads: 1,
        ..EmulatorOptions::default()
    });
    let program = gpu.compile(&source);
    let output = gpu.alloc::<u64>(64 * 4);
    gpu.go(
        &program,
        "leftovers",
        4,
        32,
        256,
        Arguments {
            input: 0,
            output: output.address,
            scratch: 0,
            length: 0,
        },
    );
    let found = gpu.read(&output);
    assert!(found.iter().all(|&value| value != 0 && value != 42), "{found:x?}");
}

#[test]
fn bit_and_conversion_functions() {
    let source = source(
        r#"
extern "C" __global__ void bits(Arguments a) {
    u64 *o = a.output;
    int i = 0;
    o[i++] = __clz(0) * 100 + __clz(1); o[i++] = __clzll(0) * 100 + __clzll(255);
    o[i++] = __ffs(0) * 100 + __ffs(8); o[i++] = __ffsll(1ll << 40); o[i++] = __popcll(~0ull);
    o[i++] = __brev(1u) + __brev(6u); o[i++] = __brevll(1ull);
    o[i++] = __byte_perm(0x33221100u, 0x77665544u, 0x7150u); o[i++] = __byte_perm(0x80u, 0, 0x8888u);
    o[i++] = __umulhi(0xffffffffu, 0xffffffffu); o[i++] = __umul64hi(~0ull, ~0ull); o[i++] = __mul64hi(-1ll, 1ll);
    o[i++] = __funnelshift_l(0x80000000u, 1u, 33); o[i++] = __funnelshift_r(1u, 0x80000000u, 4);
    o[i++] = __funnelshift_rc(1u, 5u, 40);
    o[i++] = (u64)(long long)__double2int_rz(1e20); o[i++] = __float2uint_rz(-3.0f); o[i++] = __double2ll_rn(2.5);
    o[i++] = (u64)__double2ll_rz(-1e300); o[i++] = __float2int_rz(NAN); o[i++] = __double2ll_rd(-1.5) + 2;
    o[i++] = min(3u, -1); o[i++] = (u64)(min(-3, 2) + 10); o[i++] = max(1ull, 2ll); o[i++] = (u64)(max(1.5f, 2.5) * 2);
    o[i++] = isnan(0.0 / a.length) + 2 * isinf(1.0f / a.length); o[i++] = (u64)(rsqrt(4.0) * 10); o[i++] = __float_as_uint(1.0f);
    o[i++] = (u64)(fmod(7.5, 2.0) * 10); o[i++] = __dp4a(0x01020304, 0x01010101, 5); o[i++] = __fns(0xf0u, 0, 2);
    // Divisions that trap on x86 and not on a GPU.
    int zero = (int)a.length, least = -2147483647 - 1;
    o[i++] = (unsigned)(5 / zero); o[i++] = (unsigned)(least / (zero - 1)); o[i++] = 7ull / (u64)zero; o[i++] = 7u % (unsigned)zero;
    uint4 v = make_uint4(1, 2, 3, 4);
    o[i++] = sizeof(uint4) * 1000 + alignof(ulonglong2) * 100 + alignof(float3) + v.w; o[i++] = sizeof(uchar4) * 10 + alignof(ushort4);
    dim3 d = 5;
    o[i++] = d.x * 100 + d.y * 10 + d.z; o[i++] = (u64)((__int128)1 << 100 >> 98);
}
"#,
    );
    let gpu = Gpu::seeded(0);
    let program = gpu.compile(&source);
    let expected = [
        3200 + 31,
        6400 + 56,
        4,
        41,
        64,
        0x8000_0000 + 0x6000_0000,
        1 << 63,
        0x7711_5500,
        0xffff_ffff,
        0xffff_fffe,
        u64::MAX - 1,
        u64::MAX,
        3,
        0,
        5,
        0x7fff_ffff,
        0,
        2,
        1 << 63,
        0,
        0,
        3,
        7,
        2,
        5,
        1 + 2,
        5,
        0x3f80_0000,
        15,
        15,
        5,
        0xffff_ffff,
        0x8000_0000,
        u64::MAX,
        7,
        16_000 + 1600 + 4 + 4,
        48,
        511,
        4,
    ];
    let output = gpu.zeroed::<u64>(expected.len());
    gpu.go(
        &program,
        "bits",
        1,
        1,
        0,
        Arguments {
            input: 0,
            output: output.address,
            scratch: 0,
            length: 0,
        },
    );
    let found = gpu.read(&output);
    for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert_eq!(*found, expected, "result {index}");
    }
}
