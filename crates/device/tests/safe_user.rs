//! A crate without unsafe code uses a device from argument struct to result.
#![forbid(unsafe_code)]

use galatea_device::{
    Device, DeviceOptions, DevicePointer, EmulatorOptions, Geometry, In, Origin, Out, Program,
    kernel_arguments,
};

kernel_arguments! {
    /// Arguments of the kernel below.
    struct DoubleArguments in "double.h" {
        source: DevicePointer<u32>,
        target: DevicePointer<u32>,
        count: u64,
    }
}

const SOURCE: &str = r#"
struct DoubleArguments { const unsigned* source; unsigned* target; unsigned long long count; };
extern "C" __global__ void twice(DoubleArguments args) {
    const unsigned long long step = gridDim.x * (unsigned long long)blockDim.x;
    for (unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x; i < args.count; i += step) {
        args.target[i] = 2 * args.source[i];
    }
}
"#;

#[test]
fn declares_compiles_launches_and_reads() {
    let device = Device::emulated(EmulatorOptions::default(), DeviceOptions::default()).unwrap();
    let (upload, compute) = (device.stream().unwrap(), device.stream().unwrap());
    let values: Vec<u32> = (0..1000).collect();
    let source = device.upload(&upload, &values).unwrap();
    let mut target = device.alloc::<u32>(&compute, values.len()).unwrap();

    let compiled = device
        .compile(&Program::new("twice", SOURCE).entry("twice"))
        .unwrap();
    assert_ne!(compiled.origin, Origin::Memory);
    let function = compiled.module.function("twice").unwrap();
    let (input, output) = (In(&source), Out(&mut target));
    let arguments = DoubleArguments {
        source: input.pointer(),
        target: output.pointer(),
        count: input.len() as u64,
    };
    let geometry = Geometry::grid_stride(
        arguments.count,
        256,
        256u32,
        function.resident_blocks(256, 0).unwrap(),
    );
    let references = [input.reference(), output.reference()];
    function
        .launch_with(&compute, geometry, &arguments, &references)
        .unwrap();

    let target = target.assume_written();
    let doubled: Vec<u32> = values.iter().map(|value| 2 * value).collect();
    assert_eq!(compute.read(&target, ..).unwrap(), doubled);
}
