//! Algorithms of whole blocks and grids: reductions, compaction, a hash table, look-back, a grid barrier.

use std::collections::HashMap;

use galatea_emulator::{EmulatorOptions, set_seed};

use crate::support::Gpu;
use crate::{Arguments, everywhere, numbers, source};

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
    // Blocks on several OS threads claim keys by 64-bit compare-and-swap and sum by atomicAdd.
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
