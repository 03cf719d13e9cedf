//! Argument structs, and the references that `In`, `Out` and `InOut` return.

use super::{devices, emulated};
use crate::{
    Access, ArgumentBytes, ArgumentStruct as _, DevicePointer, Geometry, In, InOut, KernelArguments as _,
    Out, Program,
};

crate::kernel_arguments! {
    /// Every width a field can have.
    struct MixedArguments in "test/mixed.h" {
        wide: [u64; 2],
        pointer: DevicePointer<u32>,
        word: u32,
        half: u16,
        byte: u8,
        flag: u8,
    }
}

#[test]
fn layout_matches_the_struct() {
    let layout = MixedArguments::LAYOUT;
    assert_eq!(
        (layout.name, layout.header, layout.size, layout.alignment),
        ("MixedArguments", "test/mixed.h", 32, 8)
    );
    let fields: Vec<_> = layout
        .fields
        .iter()
        .map(|field| (field.name, field.offset, field.size))
        .collect();
    let expected = [
        ("wide", 0, 16),
        ("pointer", 16, 8),
        ("word", 24, 4),
        ("half", 28, 2),
        ("byte", 30, 1),
        ("flag", 31, 1),
    ];
    assert_eq!(fields, expected);
    let probe = layout.probe();
    assert!(
        probe.contains("static_assert(sizeof(galatea::MixedArguments) == 32"),
        "{probe}"
    );
    assert!(
        probe.contains("static_assert(GALATEA_OFFSET(galatea::MixedArguments, half) == 28"),
        "{probe}"
    );
}

#[test]
fn run_time_arguments_have_c_layout() {
    let mut arguments = ArgumentBytes::new();
    let offsets = [
        arguments.push(1u8),
        arguments.push(2u32),
        arguments.push(3u16),
        arguments.push(4u64),
        arguments.push(5i128),
        arguments.push(6u8),
    ];
    assert_eq!(offsets, [0, 4, 8, 16, 32, 48]);
    assert_eq!((arguments.size(), arguments.as_bytes().len()), (64, 64));
    assert_eq!(arguments.as_bytes().as_ptr() as usize % 16, 0);
    assert!(ArgumentBytes::new().as_bytes().is_empty());
}

/// The device reads each field where the host wrote it.
#[test]
fn device_reads_run_time_arguments_at_their_offsets() {
    let source = r#"
struct A { unsigned char a; unsigned b; unsigned short c; unsigned long long d; __int128 e; unsigned char f; long long* out; };
extern "C" __global__ void k(A x) {
    x.out[0] = x.a; x.out[1] = x.b; x.out[2] = x.c; x.out[3] = x.d;
    x.out[4] = (long long)(x.e >> 64); x.out[5] = (long long)x.e; x.out[6] = x.f;
}"#;
    for device in devices() {
        let function = device
            .compile(&Program::new("fields", source).entry("k"))
            .unwrap()
            .module
            .function("k")
            .unwrap();
        let stream = device.stream().unwrap();
        let out = device.zeroed::<i64>(&stream, 7).unwrap();
        let mut arguments = ArgumentBytes::new();
        arguments.push(1u8);
        arguments.push(2u32);
        arguments.push(3u16);
        arguments.push(4u64);
        arguments.push((5i128 << 64) | 6);
        arguments.push(7u8);
        arguments.push(out.address());
        function
            .launch(&stream, Geometry::new(1u32, 1u32), &arguments)
            .unwrap();
        assert_eq!(stream.read(&out, ..).unwrap(), [1, 2, 3, 4, 5, 6, 7]);
    }
}

#[test]
fn references_contain_range_and_access() {
    let device = emulated();
    let stream = device.stream().unwrap();
    let read = device.zeroed::<u32>(&stream, 100).unwrap();
    let mut written = device.alloc::<u64>(&stream, 10).unwrap();
    let mut both = device.zeroed::<u8>(&stream, 10).unwrap();
    let input = In(read.slice(10..20).unwrap());
    assert_eq!((input.len(), input.is_empty()), (10, false));
    assert_eq!(input.pointer().address(), read.address() + 40);
    let reference = input.reference();
    let expected = (read.address() + 40, 40, Access::Read);
    assert_eq!(
        (reference.address(), reference.bytes(), reference.access()),
        expected
    );
    let output = Out(&mut written);
    assert_eq!(
        (output.reference().bytes(), output.reference().access()),
        (80, Access::Write)
    );
    let in_out = InOut(both.slice_mut(..4).unwrap());
    assert_eq!(
        (in_out.reference().bytes(), in_out.reference().access()),
        (4, Access::ReadWrite)
    );
}
