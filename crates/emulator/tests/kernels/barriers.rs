//! Barriers of a block.

use crate::{Arguments, everywhere, source};

#[test]
fn barriers_ignore_exited_threads() {
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
fn named_barriers_synchronise_a_subset_of_warps() {
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
