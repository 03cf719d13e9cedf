//! Results of single operations: atomics, fresh shared memory, bits and conversions.

use galatea_emulator::EmulatorOptions;

use crate::support::Gpu;
use crate::{Arguments, everywhere, source};

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
fn shared_memory_is_poisoned_before_each_block() {
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
