//! Tests of the device layer on the emulated device, and on a GPU if one is present.

mod arguments;
mod budget;
mod cache;
mod calibration;
mod host;
mod hybrid;
mod launch;
mod loss;
mod machine;
mod programs;
mod stream;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::{
    ArgumentBytes, Device, DeviceBuffer, DeviceOptions, EmulatorOptions, Function, Geometry, Program, Stream,
    testing,
};

/// An emulated device with the default options of its kind.
fn emulated() -> Device {
    emulated_with(EmulatorOptions::default())
}

fn emulated_with(options: EmulatorOptions) -> Device {
    Device::emulated(options, DeviceOptions::default()).expect("the emulated device is always there")
}

/// The emulated device and, if present, the GPU, which the tests of this crate use one at a time.
fn devices() -> impl Iterator<Item = Device> {
    let gpu = testing::exclusive_gpu();
    [Some(emulated()), gpu.as_deref().cloned()]
        .into_iter()
        .chain(std::iter::once_with(move || {
            drop(gpu);
            None
        }))
        .flatten()
}

/// Test kernels: each takes addresses and 64-bit numbers.
const SOURCE: &str = r#"
typedef unsigned long long u64;
typedef unsigned int u32;

// values[i] += add
struct Add { u32* values; u64 count; u64 add; };
extern "C" __global__ void add(Add args) {
    const u64 step = u64(gridDim.x) * blockDim.x;
    for (u64 i = u64(blockIdx.x) * blockDim.x + threadIdx.x; i < args.count; i += step) {
        args.values[i] += u32(args.add);
    }
}

// Waits until another stream opens the gate.
struct Wait { u32* gate; };
extern "C" __global__ void wait(Wait args) {
    while (atomicAdd(args.gate, 0u) == 0) __nanosleep(1000);
}

// Fills shared memory and returns its sum: 8 bytes of dynamic shared memory per thread.
struct Shared { u64* sum; };
extern "C" __global__ void shared(Shared args) {
#ifdef GALATEA_EMULATED
    GALATEA_DYNAMIC_SHARED(bytes);
#else
    extern __shared__ unsigned char bytes[];
#endif
    u64* values = (u64*)bytes;
    values[threadIdx.x] = threadIdx.x;
    __syncthreads();
    if (threadIdx.x == 0) {
        u64 sum = 0;
        for (u32 i = 0; i < blockDim.x; ++i) sum += values[i];
        *args.sum = sum;
    }
}

// Every block waits until all have come, and counts those that it saw.
struct Meet { u32* come; u32* seen; };
extern "C" __global__ void meet(Meet args) {
    if (threadIdx.x == 0) {
        atomicAdd(args.come, 1u);
        while (atomicAdd(args.come, 0u) < gridDim.x * gridDim.y) __nanosleep(100);
        args.seen[blockIdx.y * gridDim.x + blockIdx.x] = atomicAdd(args.come, 0u);
    }
}

struct Fail { u64 unused; };
extern "C" __global__ void fail(Fail) { __trap(); }
"#;

const ENTRIES: [&str; 5] = ["add", "wait", "shared", "meet", "fail"];

fn program() -> Program {
    let mut program = Program::new("test_kernels", SOURCE);
    program.entries = ENTRIES.map(str::to_owned).into();
    program
}

fn function(device: &Device, name: &str) -> Function {
    device.compile(&program()).unwrap().module.function(name).unwrap()
}

/// Queues `values[i] += add`.
fn launch_add(device: &Device, stream: &Stream, values: &DeviceBuffer<u32>, add: u64) {
    let mut arguments = ArgumentBytes::new();
    arguments.push(values.address());
    arguments.push(values.len() as u64);
    arguments.push(add);
    values.used_by(stream).unwrap();
    function(device, "add")
        .launch(stream, Geometry::new(4u32, 64u32), &arguments)
        .unwrap();
}

/// Blocks a stream until the gate is opened.
struct Gate {
    flag: DeviceBuffer<u32>,
    opener: Stream,
}

impl Gate {
    fn new(device: &Device) -> Self {
        let opener = device.stream().unwrap();
        let flag = device.upload(&opener, &[0u32]).unwrap();
        Self { flag, opener }
    }

    /// Queues the wait.
    fn close(&self, device: &Device, stream: &Stream) {
        let mut arguments = ArgumentBytes::new();
        arguments.push(self.flag.address());
        self.flag.used_by(stream).unwrap();
        function(device, "wait")
            .launch(stream, Geometry::new(1u32, 1u32), &arguments)
            .unwrap();
    }

    fn open(&mut self) {
        self.opener.copy_from_slice(&mut self.flag, &[1u32]).unwrap();
    }
}

/// A folder for this test only, removed when dropped.
fn folder() -> tempfile::TempDir {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    tempfile::Builder::new()
        .prefix(&format!("galatea-device-test-{count}-"))
        .tempdir()
        .unwrap()
}

/// Number of other handles of shared memory.
fn other_handles<T>(memory: &Arc<T>) -> usize {
    Arc::strong_count(memory) - 1
}
