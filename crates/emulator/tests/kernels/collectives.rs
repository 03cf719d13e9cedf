//! Collectives of a warp, for every mask of its lanes.

use crate::{Arguments, everywhere, numbers, source};

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
fn collectives_match_cuda() {
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
