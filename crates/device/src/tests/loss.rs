//! A device that fails: errors are typed, and nothing else is affected.

use std::sync::Arc;

use super::{emulated, function, launch_add, program};
use crate::sys::{Backend, Driver};
use crate::{ArgumentBytes, Device, DeviceError, DeviceOptions, Geometry, HostMemory, Stream};

/// Runs the kernel that traps and returns the error of the wait.
fn lose(device: &Device, stream: &Stream) -> DeviceError {
    let mut arguments = ArgumentBytes::new();
    arguments.push(0u64);
    let launched = function(device, "fail").launch(stream, Geometry::new(1u32, 32u32), &arguments);
    launched.and_then(|()| stream.synchronize()).unwrap_err()
}

#[test]
fn failed_kernel_loses_the_device() {
    let device = emulated();
    let stream = device.stream().unwrap();
    let buffer = device.zeroed::<u32>(&stream, 100).unwrap();
    stream.synchronize().unwrap();

    let error = lose(&device, &stream);
    let DeviceError::LaunchFailed {
        kernel, report, name, ..
    } = &error
    else {
        panic!("{error}")
    };
    assert_eq!(kernel, "fail");
    assert!(name.starts_with("CUDA_ERROR_"), "{name}");
    assert!(!report.is_empty(), "{error}");
    assert!(error.is_device_lost() && !error.is_out_of_memory());

    let lost = |result: Result<(), DeviceError>| match result {
        Err(DeviceError::DeviceLost { cause, .. }) => assert!(cause.contains("fail"), "{cause}"),
        other => panic!("{other:?}"),
    };
    lost(stream.synchronize());
    lost(device.synchronize());
    lost(device.alive());
    lost(device.stream().map(drop));
    lost(device.zeroed::<u8>(&stream, 1).map(drop));
    lost(stream.read(&buffer, ..).map(drop));
    lost(stream.record().map(drop));
    lost(device.memory_use().map(drop));
    lost(device.pin(&Arc::new(HostMemory::new(1).unwrap())));
    lost(device.compile(&program().option("-DNEW")).map(drop));
}

#[test]
fn lost_device_releases_its_budget_without_errors() {
    let device = emulated();
    let stream = device.stream().unwrap();
    let other = device.stream().unwrap();
    let mut buffer = device.zeroed::<u8>(&stream, 100).unwrap();
    let event = stream.record().unwrap();
    let memory = HostMemory::new(100).unwrap().into_view();
    device.pin(memory.memory()).unwrap();
    other.copy_to_device(&mut buffer, &memory).unwrap();
    let module = device.compile(&program()).unwrap().module;
    lose(&device, &stream);
    drop((buffer, event, memory, module, other));
    assert_eq!(device.budget().used(), 0);
    drop((stream, device));
}

#[test]
fn loss_of_a_device_does_not_affect_other_devices() {
    let (one, two) = (emulated(), emulated());
    let (first, second) = (one.stream().unwrap(), two.stream().unwrap());
    let values = two.zeroed::<u32>(&second, 100).unwrap();
    lose(&one, &first);
    launch_add(&two, &second, &values, 5);
    assert_eq!(second.read(&values, ..).unwrap(), vec![5; 100]);
    two.alive().unwrap();
    // Pinned memory of the lost device is usable by the other one.
    let memory = Arc::new(HostMemory::new(1 << 20).unwrap());
    assert!(one.pin(&memory).is_err());
    two.pin(&memory).unwrap();
    assert!(two.is_pinned(&memory));
}

#[test]
fn another_stream_of_a_lost_device_returns_device_lost() {
    let device = emulated();
    let (first, second) = (device.stream().unwrap(), device.stream().unwrap());
    let values = device.zeroed::<u32>(&second, 100).unwrap();
    second.synchronize().unwrap();
    lose(&device, &first);
    let error = second.read(&values, ..).unwrap_err();
    assert!(matches!(error, DeviceError::DeviceLost { .. }), "{error}");
}

#[test]
fn an_illegal_address_is_a_failed_launch() {
    let device = emulated();
    let stream = device.stream().unwrap();
    let mut arguments = ArgumentBytes::new();
    for number in [0x10u64, 1000, 1] {
        arguments.push(number);
    }
    let launched = function(&device, "add").launch(&stream, Geometry::new(1u32, 32u32), &arguments);
    let error = launched.and_then(|()| stream.synchronize()).unwrap_err();
    assert!(
        matches!(&error, DeviceError::LaunchFailed { kernel, .. } if kernel == "add"),
        "{error}"
    );
    assert!(matches!(device.alive(), Err(DeviceError::DeviceLost { .. })));
}

#[test]
fn lost_device_can_be_reopened_while_still_referenced() {
    let lost = emulated();
    let stream = lost.stream().unwrap();
    let held = lost.zeroed::<u32>(&stream, 100).unwrap();
    lose(&lost, &stream);

    let reopen = || {
        let (backend, ordinal) = (Backend::Emulated, lost.info().ordinal);
        let driver = Driver::get(backend).unwrap();
        Device::open(backend, driver, ordinal, DeviceOptions::default(), Vec::new()).unwrap()
    };
    let device = reopen();
    assert_eq!(device.budget().used(), 0);
    let stream = device.stream().unwrap();
    let values = device.zeroed::<u32>(&stream, 100).unwrap();
    launch_add(&device, &stream, &values, 5);
    assert_eq!(stream.read(&values, ..).unwrap(), vec![5; 100]);
    // Objects of the lost device are dropped without harm, and a device opened now shares the new context.
    assert!(lost.alive().is_err());
    drop(held);
    let third = reopen();
    assert_eq!(third.budget().used(), device.budget().used());
    launch_add(&device, &stream, &values, 1);
    assert_eq!(stream.read(&values, ..).unwrap(), vec![6; 100]);
}
