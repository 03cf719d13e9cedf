//! Host memory and pinning.

use std::sync::Arc;

use super::{devices, emulated};
use crate::{DeviceError, HostMemory, HostView, Side};

#[test]
fn host_memory_is_zeroed_and_aligned() {
    for bytes in [0usize, 1, 255, 4096, (2 << 20) - 1, 2 << 20, (40 << 20) + 3] {
        let mut memory = HostMemory::new(bytes).unwrap();
        assert_eq!(memory.len(), bytes);
        assert!(memory.as_slice().iter().all(|byte| *byte == 0));
        let alignment = if bytes >= 2 << 20 { 2 << 20 } else { 4096 };
        assert_eq!(
            memory.as_slice().as_ptr() as usize % alignment,
            0,
            "{bytes} bytes"
        );
        memory.as_mut_slice().fill(7);
        assert!(memory.as_slice().iter().all(|byte| *byte == 7));
    }
}

#[test]
fn excessive_host_allocation_returns_an_error() {
    let error = HostMemory::new(1 << 50).unwrap_err();
    let DeviceError::HostMemory {
        requested, available, ..
    } = &error
    else {
        panic!("{error}")
    };
    assert_eq!(*requested, 1 << 50);
    assert!(*available < 1 << 50);
    assert!(error.to_string().contains("hint: "), "{error}");
    assert!(matches!(
        HostMemory::new(usize::MAX),
        Err(DeviceError::HostMemory { .. })
    ));
}

#[test]
fn host_views_are_bounds_checked() {
    let mut memory = HostMemory::new(100).unwrap();
    memory
        .as_mut_slice()
        .iter_mut()
        .zip(0u8..)
        .for_each(|(byte, index)| *byte = index);
    let view = memory.into_view();
    let part = view.slice(10..20).unwrap();
    assert_eq!(part.as_slice(), (10..20).collect::<Vec<u8>>());
    assert_eq!(part.slice(5..10).unwrap().as_slice(), [15, 16, 17, 18, 19]);
    assert!(part.slice(10..10).unwrap().is_empty());
    for range in [0..11, 10..11, 11..11] {
        assert!(matches!(part.slice(range), Err(DeviceError::Range { .. })));
    }
    assert!(HostView::new(Arc::clone(view.memory()), 99, 2).is_err());
    assert!(HostView::new(Arc::clone(view.memory()), usize::MAX, 2).is_err());
}

#[test]
fn pinning_is_idempotent_and_undone_on_drop() {
    for device in devices() {
        let memory = Arc::new(HostMemory::new(3 << 20).unwrap());
        assert!(!device.is_pinned(&memory));
        device.pin(&memory).unwrap();
        device.pin(&memory).unwrap();
        assert!(device.is_pinned(&memory));
        // The memory is dropped first; the device stays open.
        drop(memory);
        device.synchronize().unwrap();
    }
    // The device is dropped first; the memory stays usable, and can be pinned for another device.
    let memory = Arc::new(HostMemory::new(3 << 20).unwrap());
    let first = emulated();
    first.pin(&memory).unwrap();
    drop(first);
    assert_eq!(memory.as_slice()[3], 0);
    let second = emulated();
    assert!(!second.is_pinned(&memory));
    second.pin(&memory).unwrap();
    assert!(second.is_pinned(&memory));
    device_reads(&second, &memory);
}

fn device_reads(device: &crate::Device, memory: &Arc<HostMemory>) {
    let stream = device.stream().unwrap();
    let mut buffer = device.zeroed::<u8>(&stream, 16).unwrap();
    let view = HostView::new(Arc::clone(memory), 1 << 20, 16).unwrap();
    stream.copy_to_device(&mut buffer, &view).unwrap();
    assert_eq!(stream.read(&buffer, ..).unwrap(), view.as_slice());
}

#[test]
fn only_pinned_memory_has_mapped_addresses() {
    for device in devices() {
        let view = HostMemory::new(8192).unwrap().into_view();
        assert_eq!(device.mapped_address(&view).unwrap(), None);
        device.pin(view.memory()).unwrap();
        let start = device.mapped_address(&view).unwrap().unwrap();
        let inside = device
            .mapped_address(&view.slice(100..200).unwrap())
            .unwrap()
            .unwrap();
        assert_eq!(inside, start + 100);
    }
}

#[test]
fn empty_memory_is_always_pinned() {
    let device = emulated();
    let memory = Arc::new(HostMemory::new(0).unwrap());
    device.pin(&memory).unwrap();
    assert!(device.is_pinned(&memory));
}

#[test]
fn memory_ranges_are_pinned_for_a_copy() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let mut memory = HostMemory::new(1 << 20).unwrap();
        memory.as_mut_slice().fill(9);
        let memory = Arc::new(memory);
        let part = 8192..40960;
        for _ in 0..2 {
            device.pin_part(&memory, &part).unwrap();
            assert!(!device.is_pinned(&memory), "a part is not the whole");
            let mut buffer = device.zeroed::<u8>(&stream, part.len()).unwrap();
            let view = HostView::new(Arc::clone(&memory), part.start, part.len()).unwrap();
            stream.copy_to_device(&mut buffer, &view).unwrap();
            assert_eq!(stream.read(&buffer, ..).unwrap(), vec![9; part.len()]);
            device.unpin_part(&memory, &part).unwrap();
        }
        assert!(device.pin_part(&memory, &(0..(1 << 20) + 1)).is_err());
        // Dropping memory unregisters its parts: the same addresses can be pinned again.
        device.pin_part(&memory, &part).unwrap();
        drop(memory);
        let again = Arc::new(HostMemory::new(1 << 20).unwrap());
        device.pin(&again).unwrap();
        // Pinned memory stays pinned.
        device.pin_part(&again, &part).unwrap();
        device.unpin_part(&again, &part).unwrap();
        assert!(device.is_pinned(&again));
    }
}

#[test]
fn host_and_device_share_managed_memory() {
    for device in devices() {
        let before = device.budget().used();
        let Some(mut memory) = device.managed(100_000).unwrap() else {
            assert!(
                !device.info().concurrent_managed_access,
                "it says that it has managed memory"
            );
            continue;
        };
        assert!(memory.bytes_mut().unwrap().iter().all(|byte| *byte == 0));
        assert!(device.budget().used() >= before + 100_000);
        let stream = device.stream().unwrap();
        for side in [Side::Device, Side::Host] {
            memory.prefetch(&stream, 4096..100_000, side).unwrap();
            memory.prefetch(&stream, 5..5, side).unwrap();
            assert!(memory.prefetch(&stream, 0..100_001, side).is_err());
        }
        memory.bytes_mut().unwrap()[99_999] = 7;
        drop(memory);
        assert_eq!(device.budget().used(), before);
    }
}
