//! Copies, fills, events, and order among streams.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::{Gate, devices, emulated, launch_add, other_handles};
use crate::{DeviceBuffer, DeviceError, HostMemory, HostView, SharedMemory};

fn counting(bytes: usize) -> HostView {
    let mut memory = HostMemory::new(bytes).unwrap();
    memory
        .as_mut_slice()
        .iter_mut()
        .enumerate()
        .for_each(|(index, byte)| *byte = (index % 251) as u8);
    memory.into_view()
}

#[test]
fn slices_round_trip_through_device_memory() {
    for device in devices() {
        let stream = device.stream().unwrap();
        for len in [0usize, 1, 31, 1000, 300_000] {
            let values: Vec<u64> = (0..len as u64)
                .map(|value| value.wrapping_mul(0x9e37_79b9_7f4a_7c15))
                .collect();
            let buffer = device.upload(&stream, &values).unwrap();
            assert_eq!((buffer.len(), buffer.bytes()), (len, 8 * len as u64));
            assert_eq!(stream.read(&buffer, ..).unwrap(), values);
            if len > 10 {
                assert_eq!(stream.read(&buffer, 3..10).unwrap(), values[3..10]);
                assert_eq!(stream.read(&buffer, len - 1..).unwrap(), values[len - 1..]);
                assert_eq!(stream.read(&buffer, ..=2).unwrap(), values[..=2]);
            }
        }
    }
}

#[test]
fn host_memory_is_copied_pinned_or_not() {
    for device in devices() {
        for pinned in [false, true] {
            let stream = device.stream().unwrap();
            let view = counting(3 << 20);
            if pinned {
                device.pin(view.memory()).unwrap();
            }
            let mut buffer = device.zeroed::<u8>(&stream, 3 << 20).unwrap();
            stream
                .copy_to_device(
                    buffer.slice_mut(..1 << 20).unwrap(),
                    &view.slice(0..1 << 20).unwrap(),
                )
                .unwrap();
            stream
                .copy_to_device(
                    buffer.slice_mut(1 << 20..).unwrap(),
                    &view.slice(1 << 20..3 << 20).unwrap(),
                )
                .unwrap();
            assert_eq!(
                stream.read(&buffer, ..).unwrap(),
                view.as_slice(),
                "pinned: {pinned}"
            );

            let target = Arc::new(HostMemory::new(1 << 20).unwrap());
            if pinned {
                device.pin(&target).unwrap();
            }
            let download = stream
                .copy_to_host(buffer.slice(5..1005).unwrap(), target, 24)
                .unwrap();
            let target = download.wait().unwrap();
            assert_eq!(target.as_slice()[24..1024], view.as_slice()[5..1005]);
            assert_eq!((target.as_slice()[23], target.as_slice()[1024]), (0, 0));
        }
    }
}

/// More threads wait at the same time than may poll.
#[test]
fn many_threads_wait_for_their_streams() {
    for device in devices() {
        let work = |add: u32| {
            let stream = device.stream().unwrap();
            let values = device.zeroed::<u32>(&stream, 1000).unwrap();
            for round in 1..=20 {
                launch_add(&device, &stream, &values, u64::from(add));
                stream.synchronize().unwrap();
                assert!(stream.is_idle().unwrap());
                assert_eq!(stream.read(&values, ..).unwrap(), [round * add; 1000]);
            }
        };
        std::thread::scope(|scope| {
            for add in 0..24 {
                let work = &work;
                scope.spawn(move || work(add));
            }
        });
    }
}

#[test]
fn copies_to_shared_memory_write_only_their_range() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let values: Vec<u32> = (0..1000).collect();
        let buffer = device.upload(&stream, &values).unwrap();
        let shared = SharedMemory::new(&device, 8192).unwrap();
        stream
            .copy_to_shared(buffer.slice(10..20).unwrap(), &shared, 16)
            .unwrap();
        let beyond = stream.copy_to_shared(&buffer, &shared, 8192 - 3996);
        assert!(matches!(beyond, Err(DeviceError::Range { .. })), "{beyond:?}");
        stream.synchronize().unwrap();
        let words = shared.pointer().cast::<u32>();
        // SAFETY: the memory has 2048 words, and no copy is in progress.
        let found: Vec<u32> = (0..16).map(|word| unsafe { words.add(word).read() }).collect();
        let mut expected = vec![0; 16];
        expected[4..14].copy_from_slice(&values[10..20]);
        assert_eq!(found, expected);
        // The stream keeps the memory until the copy is done.
        stream.copy_to_shared(&buffer, &shared, 0).unwrap();
        drop(shared);
        stream.synchronize().unwrap();
    }
}

#[test]
fn fill_and_device_copies() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let mut buffer = device.zeroed::<u16>(&stream, 100).unwrap();
        stream.fill(buffer.slice_mut(10..20).unwrap(), 0xab).unwrap();
        let mut other = device.zeroed::<u16>(&stream, 50).unwrap();
        stream
            .copy(other.slice_mut(1..31).unwrap(), buffer.slice(..30).unwrap())
            .unwrap();
        let expected: Vec<u16> = (0..50)
            .map(|i| if (11..21).contains(&i) { 0xabab } else { 0 })
            .collect();
        assert_eq!(stream.read(&other, ..).unwrap(), expected);
    }
}

#[test]
fn several_ranges_are_read_in_one_call() {
    let device = emulated();
    let stream = device.stream().unwrap();
    let words = device.upload(&stream, &[1u32, 2, 3, 4]).unwrap();
    let bytes = device.upload(&stream, &[5u8, 6, 7]).unwrap();
    let (mut first, mut none, mut second) = ([0; 8], [], [0; 2]);
    let piece = |range| words.slice(range).unwrap().into_bytes();
    stream
        .read_each([
            (piece(1..3), &mut first[..]),
            (piece(2..2), &mut none[..]),
            (bytes.slice(1..).unwrap(), &mut second[..]),
        ])
        .unwrap();
    assert_eq!(first, bytemuck::cast::<[u32; 2], [u8; 8]>([2, 3]));
    assert_eq!(second, [6, 7]);
    let wrong = stream.read_each([(piece(0..1), &mut first[..4]), (piece(1..2), &mut second[..])]);
    match wrong {
        Err(error @ DeviceError::Range { .. }) => {
            assert_eq!(error.to_string(), "read of device memory: elements 0..4 of 2");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(first[..4], [1, 0, 0, 0], "the piece before it is there");
}

#[test]
fn wrong_lengths_are_refused() {
    let device = emulated();
    let stream = device.stream().unwrap();
    let mut buffer = device.zeroed::<u32>(&stream, 10).unwrap();
    let view = counting(39);
    let refused = |result: Result<(), DeviceError>, text: &str| match result {
        Err(error @ DeviceError::Range { .. }) => assert_eq!(error.to_string(), text),
        other => panic!("{other:?}"),
    };
    refused(
        stream.copy_to_device(&mut buffer, &view),
        "copy of host memory to the device: elements 0..39 of 40",
    );
    refused(
        stream.copy_from_slice(&mut buffer, &[1; 11]),
        "copy of a slice to the device: elements 0..11 of 10",
    );
    refused(
        stream.read_into(&buffer, &mut [0; 9]),
        "read of device memory: elements 0..10 of 9",
    );
    refused(
        stream.read(&buffer, 5..11).map(drop),
        "read of device memory: elements 5..11 of 10",
    );
    let (start, end) = (7, 6);
    refused(
        buffer.slice(start..end).map(drop),
        "device slice: elements 7..6 of 10",
    );
    refused(
        buffer.slice_mut(11..).map(drop),
        "device slice: elements 11..10 of 10",
    );
    let other = device.zeroed::<u32>(&stream, 9).unwrap();
    refused(
        stream.copy(&mut buffer, &other),
        "copy on the device: elements 0..9 of 10",
    );
    let memory = Arc::new(HostMemory::new(40).unwrap());
    let download = stream.copy_to_host(&buffer, Arc::clone(&memory), 1).map(drop);
    refused(
        download,
        "copy of device memory to the host: elements 1..41 of 40",
    );
    let shared = stream.copy_to_host(&buffer, Arc::clone(&memory), 0);
    assert!(
        matches!(shared, Err(DeviceError::HostMemoryShared { bytes: 40 })),
        "{shared:?}"
    );
}

#[test]
fn objects_of_another_device_are_refused() {
    let (one, two) = (emulated(), emulated());
    let (first, second) = (one.stream().unwrap(), two.stream().unwrap());
    let mut buffer = one.zeroed::<u32>(&first, 4).unwrap();
    let wrong = |result: Result<(), DeviceError>| {
        assert!(
            matches!(result, Err(DeviceError::WrongDevice { .. })),
            "{result:?}"
        );
    };
    wrong(second.fill(&mut buffer, 1));
    wrong(second.wait(&first.record().unwrap()));
    wrong(two.alloc::<u8>(&first, 1).map(drop));
    wrong(
        second
            .record()
            .unwrap()
            .elapsed_since(&first.record().unwrap())
            .map(drop),
    );
}

#[test]
fn host_memory_is_held_until_the_copy_ends() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let mut buffer = device.zeroed::<u8>(&stream, 1 << 16).unwrap();
        let mut gate = Gate::new(&device);
        gate.close(&device, &stream);
        let view = counting(1 << 16);
        device.pin(view.memory()).unwrap();
        let memory = Arc::downgrade(view.memory());
        let expected = view.as_slice().to_vec();
        stream
            .copy_to_device(buffer.slice_mut(..100).unwrap(), &view.slice(0..100).unwrap())
            .unwrap();
        stream
            .copy_to_device(
                buffer.slice_mut(100..).unwrap(),
                &view.slice(100..1 << 16).unwrap(),
            )
            .unwrap();
        drop(view);
        assert!(memory.upgrade().is_some(), "dropped while the copy waits");
        assert!(!stream.is_idle().unwrap());
        gate.open();
        stream.synchronize().unwrap();
        assert!(stream.is_idle().unwrap());
        assert!(memory.upgrade().is_none(), "kept after the copy");
        assert_eq!(stream.read(&buffer, ..).unwrap(), expected);
    }
}

#[test]
fn copied_host_memory_is_released_without_synchronisation() {
    let device = emulated();
    let stream = device.stream().unwrap();
    let mut buffer = device.zeroed::<u8>(&stream, 64).unwrap();
    let views: Vec<HostView> = (0..10).map(|_| counting(64)).collect();
    for view in &views {
        stream.copy_to_device(&mut buffer, view).unwrap();
        stream.record().unwrap().synchronize().unwrap();
    }
    let held: usize = views.iter().map(|view| other_handles(view.memory())).sum();
    assert!(held <= 1, "the stream holds {held} finished sources");
}

#[test]
fn dropping_a_stream_waits_for_its_sources() {
    let device = emulated();
    let home = device.stream().unwrap();
    let mut buffer = device.zeroed::<u8>(&home, 1 << 16).unwrap();
    home.synchronize().unwrap();
    let mut gate = Gate::new(&device);
    let stream = device.stream().unwrap();
    gate.close(&device, &stream);
    let view = counting(1 << 16);
    device.pin(view.memory()).unwrap();
    let expected = view.as_slice().to_vec();
    stream.copy_to_device(&mut buffer, &view).unwrap();
    drop(view);
    let opener = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        gate.open();
    });
    drop(stream);
    assert_eq!(home.read(&buffer, ..).unwrap(), expected);
    opener.join().unwrap();
}

#[test]
fn streams_are_reused_and_dead_references_dropped() {
    let device = emulated();
    let home = device.stream().unwrap();
    let values: DeviceBuffer<u32> = device.zeroed(&home, 100).unwrap();
    let mut handles = std::collections::HashSet::new();
    for _ in 0..50 {
        let guest = device.stream().unwrap();
        handles.insert(guest.handle() as usize);
        launch_add(&device, &guest, &values, 1);
    }
    assert_eq!(
        handles.len(),
        1,
        "one after another, they are one stream of the driver"
    );
    assert!(values.guests() <= 1, "{} dead guests", values.guests());
    home.synchronize().unwrap();
    assert_eq!(home.read(&values, ..).unwrap(), vec![50; 100]);
}

#[test]
fn a_dropped_download_waits() {
    let device = emulated();
    let stream = device.stream().unwrap();
    let buffer = device.zeroed::<u8>(&stream, 1 << 20).unwrap();
    let mut gate = Gate::new(&device);
    gate.close(&device, &stream);
    let memory = Arc::new(HostMemory::new(1 << 20).unwrap());
    // Only a copy to pinned memory returns before it is done.
    device.pin(&memory).unwrap();
    let download = stream.copy_to_host(&buffer, memory, 0).unwrap();
    let opened = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(20));
            opened.store(true, Ordering::Release);
            gate.open();
        });
        drop(download);
        assert!(
            opened.load(Ordering::Acquire),
            "the memory is freed while the copy waits"
        );
    });
}

#[test]
fn streams_are_independent_until_an_event_joins_them() {
    for device in devices() {
        let (first, second) = (device.stream().unwrap(), device.stream().unwrap());
        let values: DeviceBuffer<u32> = device.zeroed(&first, 1000).unwrap();
        first.synchronize().unwrap();
        let mut gate = Gate::new(&device);
        gate.close(&device, &first);
        launch_add(&device, &first, &values, 3);
        let added = first.record().unwrap();
        // The gate does not block another stream.
        let other: DeviceBuffer<u32> = device.zeroed(&second, 10).unwrap();
        launch_add(&device, &second, &other, 1);
        assert_eq!(second.read(&other, ..).unwrap(), [1; 10]);
        assert!(!added.is_complete().unwrap());
        // The event, and with it the gate, blocks the stream.
        second.wait(&added).unwrap();
        let mut copy: DeviceBuffer<u32> = device.zeroed(&second, 1000).unwrap();
        second.copy(&mut copy, &values).unwrap();
        assert!(!second.is_idle().unwrap());
        gate.open();
        assert_eq!(second.read(&copy, ..).unwrap(), vec![3; 1000]);
        assert!(added.is_complete().unwrap());
    }
}

#[test]
fn dropped_buffer_outlives_use_by_another_stream() {
    for device in devices() {
        let (home, guest) = (device.stream().unwrap(), device.stream().unwrap());
        let source = device.upload(&home, &vec![7u32; 4096]).unwrap();
        let mut copy = device.zeroed::<u32>(&guest, 4096).unwrap();
        let mut gate = Gate::new(&device);
        gate.close(&device, &guest);
        guest.copy(&mut copy, &source).unwrap();
        drop(source);
        // The home stream allocates the same size, most likely the same memory, and overwrites it.
        let mut next = device.zeroed::<u32>(&home, 4096).unwrap();
        home.fill(&mut next, 0xff).unwrap();
        gate.open();
        assert_eq!(
            guest.read(&copy, ..).unwrap(),
            vec![7; 4096],
            "on {}",
            device.info().name
        );
        home.synchronize().unwrap();
    }
}

#[test]
fn events_measure_time_in_order() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let start = stream.record().unwrap();
        let values: DeviceBuffer<u32> = device.zeroed(&stream, 10_000).unwrap();
        launch_add(&device, &stream, &values, 1);
        let middle = stream.record().unwrap();
        launch_add(&device, &stream, &values, 1);
        let end = stream.record().unwrap();
        let (whole, part) = (
            end.elapsed_since(&start).unwrap(),
            middle.elapsed_since(&start).unwrap(),
        );
        assert!(whole >= part, "{whole:?} {part:?}");
        assert!(start.is_complete().unwrap());
    }
}

#[test]
fn many_threads_share_a_device() {
    let device = emulated();
    std::thread::scope(|scope| {
        for thread in 0..4u32 {
            let device = &device;
            scope.spawn(move || {
                let stream = device.stream().unwrap();
                for round in 0..10 {
                    let values: DeviceBuffer<u32> = device.upload(&stream, &vec![thread; 500]).unwrap();
                    launch_add(device, &stream, &values, round);
                    assert_eq!(
                        stream.read(&values, ..).unwrap(),
                        vec![thread + round as u32; 500]
                    );
                }
            });
        }
    });
}

#[test]
fn write_word_is_ordered_after_queued_work() {
    for device in devices() {
        let (stream, copies) = (device.stream().unwrap(), device.stream().unwrap());
        for len in [1usize, 3, 1000, 5000] {
            let mut words = device.words(&stream, len).unwrap();
            assert_eq!(
                stream.read(&words, ..).unwrap(),
                vec![0; len],
                "{len} of 0, even where they are used again"
            );
            for (place, value) in [(0, 7), (len - 1, u32::MAX), (len / 2, 9)] {
                copies
                    .write_word(words.slice_mut(place..=place).unwrap(), value)
                    .unwrap();
                copies.synchronize().unwrap();
                assert_eq!(stream.read(&words, place..=place).unwrap(), [value]);
            }
            let two = copies.write_word(words.as_slice_mut(), 1);
            assert_eq!(two.is_ok(), len == 1, "{two:?}");
        }
        let used = device.budget().used();
        let words = device.words(&stream, 100).unwrap();
        let address = words.address();
        assert!(device.budget().used() > used);
        drop(words);
        assert_eq!(device.budget().used(), used);
        assert_eq!(device.words(&stream, 70).unwrap().address(), address, "kept");
        // The driver stores no words into memory of its pool, and the emulated driver refuses, too.
        let mut pooled = device.zeroed::<u32>(&stream, 1).unwrap();
        let refused = stream.write_word(pooled.as_slice_mut(), 1);
        assert!(
            matches!(
                refused,
                Err(DeviceError::Driver {
                    call: "cuStreamWriteValue32",
                    ..
                })
            ),
            "{refused:?}"
        );
    }
}

#[test]
fn copies_are_batched_only_if_all_ranges_are_pinned() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let memories: Vec<_> = (1..=3u8)
            .map(|byte| {
                let mut memory = HostMemory::new(10_000).unwrap();
                let bytes = memory.as_mut_slice().iter_mut().enumerate();
                bytes.for_each(|(at, value)| *value = byte.wrapping_mul(at as u8).wrapping_add(byte));
                memory.into_view()
            })
            .collect();
        let pieces = [
            (0, memories[0].slice(0..1).unwrap()),
            (7, memories[1].slice(13..13).unwrap()),
            (16, memories[1].slice(5..9_005).unwrap()),
            (9_100, memories[2].slice(0..10_000).unwrap()),
            (19_500, memories[0].slice(9_000..9_500).unwrap()),
        ];
        let mut expected = vec![0xee; 20_000];
        for (at, piece) in &pieces {
            expected[*at..at + piece.len()].copy_from_slice(piece.as_slice());
        }
        // None, some and all of the memory is pinned.
        for pinned in 0..=memories.len() {
            if let Some(last) = pinned.checked_sub(1) {
                device.pin(memories[last].memory()).unwrap();
            }
            let mut buffer = device.upload(&stream, &[0xeeu8; 20_000]).unwrap();
            let (before, _) = device.link_use();
            stream.copy_pieces(&mut buffer, &pieces).unwrap();
            let moved = device.link_use().0 - before;
            let bytes: usize = pieces.iter().map(|(_, piece)| piece.len()).sum();
            assert_eq!(moved, bytes as u64, "{pinned} pinned");
            assert!(stream.read(&buffer, ..).unwrap() == expected, "{pinned} pinned");
            stream.copy_pieces(&mut buffer, &[]).unwrap();
            let beyond = [pieces[0].clone(), (19_999, memories[2].slice(0..2).unwrap())];
            assert!(matches!(
                stream.copy_pieces(&mut buffer, &beyond),
                Err(DeviceError::Range { .. })
            ));
        }
    }
}
