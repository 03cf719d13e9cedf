//! Launches: limits, resources, shared memory.

use super::{devices, emulated, function, program};
use crate::{ArgumentBytes, Device, DeviceError, Dim, Geometry, Stream};

/// Launches `add` over no values with a geometry.
fn launch(device: &Device, stream: &Stream, geometry: Geometry) -> Result<(), DeviceError> {
    let mut arguments = ArgumentBytes::new();
    for number in [0u64, 0, 0] {
        arguments.push(number);
    }
    function(device, "add").launch(stream, geometry, &arguments)
}

#[test]
fn launch_limits_are_checked_before_driver_calls() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let info = device.info();
        let cases = [
            (
                Geometry::new(0u32, 32u32),
                "grid blocks in x",
                0,
                u64::from(info.max_grid[0]),
            ),
            (
                Geometry::new(1u32, 0u32),
                "block threads in x",
                0,
                u64::from(info.max_block[0]),
            ),
            (
                Geometry::new(1u64 << 40, 32u32),
                "grid blocks in x",
                1 << 40,
                u64::from(info.max_grid[0]),
            ),
            (
                Geometry::new((1u64, 1 << 20), 32u32),
                "grid blocks in y",
                1 << 20,
                u64::from(info.max_grid[1]),
            ),
            (
                Geometry::new((1u64, 1, 1 << 20), 32u32),
                "grid blocks in z",
                1 << 20,
                u64::from(info.max_grid[2]),
            ),
            (
                Geometry::new(1u32, 2048u32),
                "block threads in x",
                2048,
                u64::from(info.max_block[0]),
            ),
            (
                Geometry::new(1u32, (1u64, 2048)),
                "block threads in y",
                2048,
                u64::from(info.max_block[1]),
            ),
            (
                Geometry::new(1u32, (1u64, 1, 65)),
                "block threads in z",
                65,
                u64::from(info.max_block[2]),
            ),
            (
                Geometry::new(1u32, (64u64, 32)),
                "threads per block",
                2048,
                u64::from(info.max_threads_per_block),
            ),
            (
                Geometry::new(1u32, 32u32).with_shared(1 << 30),
                "bytes of dynamic shared memory",
                1 << 30,
                u64::from(info.shared_memory_per_block),
            ),
        ];
        for (geometry, name, number, most) in cases {
            match launch(&device, &stream, geometry) {
                Err(DeviceError::Geometry {
                    kernel,
                    what,
                    asked,
                    limit,
                }) => {
                    assert_eq!(
                        (kernel.as_str(), what, asked, limit),
                        ("add", name, number, most),
                        "{geometry:?}"
                    );
                }
                other => panic!("{geometry:?}: {other:?}"),
            }
        }
        launch(&device, &stream, Geometry::new(2u32, (8u64, 4, 2))).unwrap();
        stream.synchronize().unwrap();
    }
}

#[test]
fn launch_error_has_kernel_size_and_limit() {
    let device = emulated();
    let stream = device.stream().unwrap();
    let error = launch(&device, &stream, Geometry::new(1u32, (64u64, 32))).unwrap_err();
    assert_eq!(
        error.to_string(),
        "kernel add asks for 2048 threads per block: the limit is 1024"
    );
}

#[test]
fn geometry_is_computed_in_64_bits() {
    let covering = Geometry::covering(10_000_000_000, 256, 256u32);
    assert_eq!(
        covering.grid,
        Dim {
            x: 39_062_500,
            y: 1,
            z: 1
        }
    );
    assert_eq!(Geometry::covering(0, 256, 256u32).grid.x, 1);
    assert_eq!(Geometry::covering(257, 256, 256u32).grid.x, 2);
    assert_eq!(
        Geometry::grid_stride(10_000_000_000, 256, 256u32, 528).grid.x,
        528
    );
    assert_eq!(Geometry::grid_stride(100, 256, 256u32, 528).grid.x, 1);
    assert_eq!(Geometry::new(1u32, (2u64, 3, 4)).threads_per_block(), 24);
}

#[test]
fn maximum_shared_memory_can_be_used() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let sum = device.zeroed::<u64>(&stream, 1).unwrap();
        let mut arguments = ArgumentBytes::new();
        arguments.push(sum.address());
        let function = function(&device, "shared");
        for bytes in [8 * 256, u64::from(device.info().shared_memory_per_block)] {
            function
                .launch(
                    &stream,
                    Geometry::new(1u32, 256u32).with_shared(bytes),
                    &arguments,
                )
                .unwrap();
            assert_eq!(stream.read(&sum, ..).unwrap(), [255 * 128]);
        }
        let all = device.info().shared_memory_per_block;
        assert!(function.occupancy(256, all).unwrap() >= 1);
        assert!(function.occupancy(256, 0).unwrap() >= function.occupancy(256, all).unwrap());
        assert!(function.resident_blocks(256, 0).unwrap() >= u64::from(device.info().multiprocessors));
    }
}

#[test]
fn blocks_of_a_cooperative_launch_wait_for_each_other() {
    for device in devices() {
        assert!(device.info().cooperative_launch);
        let stream = device.stream().unwrap();
        let function = function(&device, "meet");
        let most = function.resident_blocks(64, 0).unwrap();
        assert!(most > 2);
        for grid in [(1, 1), (2, 1), (most / 2, 2), (most, 1)] {
            let blocks = grid.0 * grid.1;
            let come = device.zeroed::<u32>(&stream, 1).unwrap();
            let seen = device.zeroed::<u32>(&stream, blocks as usize).unwrap();
            let mut arguments = ArgumentBytes::new();
            arguments.push(come.address());
            arguments.push(seen.address());
            let geometry = Geometry::new(grid, 64u32);
            function
                .launch_cooperative(&stream, geometry, &arguments, &[])
                .unwrap();
            let expected = vec![blocks as u32; blocks as usize];
            assert_eq!(stream.read(&seen, ..).unwrap(), expected);
            let more = Geometry::new((most, 2), 64u32);
            let error = function.launch_cooperative(&stream, more, &arguments, &[]);
            let error = error.unwrap_err().to_string();
            let expected = format!(
                "kernel meet asks for {} blocks that wait for each other: the limit is {most}",
                2 * most
            );
            assert_eq!(error, expected);
        }
    }
}

#[test]
fn kernel_resources_are_reported() {
    for device in devices() {
        let resources = function(&device, "add").resources();
        assert!(resources.max_threads_per_block >= 256, "{resources:?}");
        assert_eq!(resources.static_shared, 0);
    }
}

#[test]
fn unknown_kernel_error_lists_existing_kernels() {
    let device = emulated();
    let module = device.compile(&program()).unwrap().module;
    let error = module.function("subtract").unwrap_err();
    assert_eq!(
        error.to_string(),
        "device program test_kernels has no kernel subtract: it has add, wait, shared, meet, fail"
    );
    let error = device.compile(&program().entry("missing")).unwrap_err();
    assert!(
        matches!(&error, DeviceError::UnknownEntry { entry, .. } if entry == "missing"),
        "{error}"
    );
}

#[test]
fn too_many_arguments_are_refused() {
    let device = emulated();
    let stream = device.stream().unwrap();
    let mut arguments = ArgumentBytes::new();
    for number in 0..513u64 {
        arguments.push(number);
    }
    let error = function(&device, "add")
        .launch(&stream, Geometry::new(1u32, 1u32), &arguments)
        .unwrap_err();
    assert!(
        matches!(
            error,
            DeviceError::Geometry {
                asked: 4104,
                limit: 4096,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn streams_of_another_device_are_refused() {
    let (one, two) = (emulated(), emulated());
    let stream = two.stream().unwrap();
    let error = launch(&one, &stream, Geometry::new(1u32, 1u32)).unwrap_err();
    assert!(matches!(error, DeviceError::WrongDevice { .. }), "{error}");
}
