//! Frames of streams: many threads take frames from a heap's bitmap concurrently, under any interleaving.

use std::sync::atomic::Ordering;

use galatea_device::{
    ArgumentBytes, Device, DeviceBuffer, DeviceOptions, EmulatorOptions, Function, Geometry, Program, Stream,
};
use galatea_kernels::flow::{FlowHeap, Words, all_free};
use galatea_kernels::headers;

/// Threads take frames and record the owner of each: [0] taken, [1] not taken, [2] taken by two at a time.
/// They release them, or keep them, or release each twice.
const SOURCE: &str = r#"
#include "galatea/flow/frame.cuh"
using namespace galatea;

struct Arguments { FlowHeap heap; u32* owners; u64* counts; u64 rounds; u64 times_given; };

extern "C" __global__ void take_frames(const Arguments args) {
    const u32 id = 1 + blockIdx.x * blockDim.x + threadIdx.x;
    for (u64 round = 0; round < args.rounds; ++round) {
        const u32 frame = take_frame(args.heap, u64(id) << 32 | round, true);
        if (frame == ABSENT) {
            atomicAdd(args.counts + 1, u64(1));
            continue;
        }
        atomicAdd(args.counts, u64(1));
        if (atomicExch(args.owners + frame, id) != 0) atomicAdd(args.counts + 2, u64(1));
        if (args.times_given == 0) continue;
        if (atomicExch(args.owners + frame, 0u) != id) atomicAdd(args.counts + 2, u64(1));
        for (u64 time = 0; time < args.times_given; ++time) give_frame(args.heap, frame);
    }
}
"#;

/// A heap of `buffers` buffers without memory: only its bitmap is used.
struct Heap {
    stream: Stream,
    kernel: Function,
    frames: usize,
    words: usize,
    bitmap: DeviceBuffer<u32>,
    bases: DeviceBuffer<u64>,
    buffers: DeviceBuffer<u32>,
    granted: Words,
    most_buffers: usize,
    frames_per_buffer: usize,
}

impl Heap {
    fn new(device: &Device, frames_per_buffer: usize, buffers: usize, most_buffers: usize) -> Self {
        let program = Program::new("frames", SOURCE)
            .headers(headers())
            .entry("take_frames")
            .option("-DGALATEA_HEAP_CHECK");
        let stream = device.stream().unwrap();
        let words = frames_per_buffer.div_ceil(32) * most_buffers;
        let free: Vec<u32> = (0..words)
            .map(|word| all_free(frames_per_buffer, word, 32) as u32)
            .collect();
        let granted = Words::new(device, 2 + most_buffers).unwrap();
        granted.get(0).store(buffers as u64, Ordering::Release);
        Self {
            kernel: device
                .compile(&program)
                .unwrap()
                .module
                .function("take_frames")
                .unwrap(),
            frames: frames_per_buffer * most_buffers,
            words,
            bitmap: device.upload(&stream, &free).unwrap(),
            bases: device.zeroed(&stream, most_buffers).unwrap(),
            buffers: device.upload(&stream, &[buffers as u32, 0]).unwrap(),
            granted,
            stream,
            most_buffers,
            frames_per_buffer,
        }
    }

    /// Counts of a launch.
    fn take(&self, device: &Device, threads: u32, rounds: u64, times_given: u64) -> [u64; 3] {
        let owners = device.zeroed::<u32>(&self.stream, self.words * 32).unwrap();
        let counts = device.zeroed::<u64>(&self.stream, 3).unwrap();
        let mut arguments = ArgumentBytes::new();
        arguments.push(FlowHeap {
            bitmap: self.bitmap.address(),
            bases: self.bases.address(),
            buffers: self.buffers.address(),
            granted: self.granted.address(0),
            wanted: self.granted.address(1 + self.most_buffers),
            words_per_buffer: self.frames_per_buffer.div_ceil(32) as u32,
            frame_bytes: 4096,
            most_buffers: self.most_buffers as u32,
            frames_per_buffer: self.frames_per_buffer as u32,
        });
        for word in [owners.address(), counts.address(), rounds, times_given] {
            arguments.push(word);
        }
        self.kernel
            .launch(&self.stream, Geometry::new(3_u64, threads), &arguments)
            .unwrap();
        let counts = self.stream.read(&counts, ..).unwrap();
        [counts[0], counts[1], counts[2]]
    }

    fn free(&self) -> usize {
        let words = self.stream.read(&self.bitmap, ..).unwrap();
        words.iter().map(|word| word.count_ones() as usize).sum()
    }

    fn given_twice(&self) -> u32 {
        self.stream.read(&self.buffers, ..).unwrap()[1]
    }
}

fn device(seed: u64) -> Device {
    let options = EmulatorOptions {
        seed,
        races: seed.is_multiple_of(2),
        ..EmulatorOptions::default()
    };
    Device::emulated(options, DeviceOptions::default()).unwrap()
}

#[test]
fn concurrently_allocated_frames_have_one_owner() {
    for (seed, frames) in [1, 2, 31, 32, 33, 64, 65].into_iter().enumerate() {
        let device = device(seed as u64);
        let heap = Heap::new(&device, frames, 1 + seed % 3, 3);
        let [taken, refused, shared] = heap.take(&device, 40, 20, 1);
        assert_eq!((taken + refused, shared), (3 * 40 * 20, 0), "{frames} frames");
        assert!(taken > 0, "{frames} frames");
        assert_eq!(
            (heap.free(), heap.given_twice()),
            (heap.frames, 0),
            "{frames} frames"
        );
    }
}

#[test]
fn exhausted_frame_heap_requests_a_buffer_from_the_host() {
    for (seed, frames) in [1, 31, 32, 33, 65, 100].into_iter().enumerate() {
        let buffers = 1 + seed % 2;
        let device = device(seed as u64);
        let heap = Heap::new(&device, frames, buffers, 2);
        // 3 * 96 threads want one frame each.
        let [taken, refused, shared] = heap.take(&device, 96, 1, 0);
        let there = frames * buffers;
        assert_eq!(
            (taken as usize, shared),
            (there.min(3 * 96), 0),
            "{frames} frames"
        );
        assert_eq!(refused as usize, 3 * 96 - taken as usize);
        assert_eq!(heap.free(), heap.frames - taken as usize);
        let wanted = heap.granted.get(3).load(Ordering::Acquire);
        assert_eq!(wanted as u32 as usize, if refused > 0 { buffers + 1 } else { 0 });
        // A buffer that the host grants is taken over by a call that finds no frame, and used by the next.
        if refused == 0 || buffers == 2 {
            continue;
        }
        heap.granted.get(0).store(2, Ordering::Release);
        let [taken, ..] = heap.take(&device, 96, 2, 0);
        assert_eq!(taken as usize, frames.min(3 * 96 * 2), "{frames} frames more");
    }
}

#[test]
fn double_release_of_frames_is_counted() {
    let device = device(7);
    let heap = Heap::new(&device, 33, 1, 1);
    // One thread of each block, and more frames than threads: no frame is taken between its two releases.
    let [taken, _, shared] = heap.take(&device, 1, 1, 2);
    assert_eq!((taken, shared), (3, 0));
    assert_eq!((heap.free(), heap.given_twice()), (33, 3));
}
