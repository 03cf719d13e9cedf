//! Threads that wait for others in a loop.

use crate::{Arguments, everywhere, source};

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
