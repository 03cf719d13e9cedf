//! Memory with pages of both processors, and shared words.

use std::sync::atomic::Ordering;

use super::devices;
use crate::{PageOrder, SharedMemory};

/// The range is writable as a whole, at every share of the device, and its budget is released.
#[test]
fn hybrid_memory_is_allocated_at_every_share() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let used = device.budget().used();
        for order in [PageOrder::DeviceFirst, PageOrder::Interleaved] {
            for (bytes, on_device) in [(1, 0), (5 << 20, 5 << 20), (67 << 20, 20 << 20), (8 << 20, 0)] {
                let Some(memory) = device.hybrid(bytes, on_device, order).unwrap() else {
                    continue;
                };
                memory.used_by(&stream).unwrap();
                assert_eq!(memory.len(), bytes);
                assert!(memory.device_bytes() <= bytes.min(on_device));
                assert!(memory.address().is_multiple_of(256) && memory.address() != 0);
                assert_eq!(memory.is_mapped(), !device.info().emulated);
                assert!(format!("{memory:?}").contains("HybridMemory"));
            }
        }
        stream.synchronize().unwrap();
        assert_eq!(device.budget().used(), used);
    }
}

/// Another device has a part of the range, and its budget has the charge until the range is dropped.
#[test]
fn another_device_has_the_other_pages() {
    for (device, peer) in devices().zip(devices()) {
        assert!(device.can_access(&peer).unwrap());
        let stream = device.stream().unwrap();
        let used = (device.budget().used(), peer.budget().used());
        for order in [PageOrder::DeviceFirst, PageOrder::Interleaved] {
            let (bytes, on_device) = (67 << 20, 20 << 20);
            let memory = device.hybrid_on_peer(&peer, bytes, on_device, order).unwrap();
            let Some(memory) = memory else { continue };
            memory.used_by(&stream).unwrap();
            assert_eq!(memory.len(), bytes);
            assert!(memory.device_bytes() + memory.peer_bytes() >= bytes);
            assert!(peer.budget().used() >= used.1 + memory.peer_bytes());
            drop(memory);
            stream.synchronize().unwrap();
            assert_eq!((device.budget().used(), peer.budget().used()), used);
        }
    }
}

/// Copies to and from a range with pages in two memories keep the values, at any offset, and are checked.
#[test]
fn hybrid_memory_is_copied() {
    for (device, peer) in devices().zip(devices()) {
        let stream = device.stream().unwrap();
        let values: Vec<u64> = (0..100_000).map(|number| number * 0x9e37_79b9).collect();
        let source = device.upload(&stream, &values).unwrap();
        for order in [PageOrder::DeviceFirst, PageOrder::Interleaved] {
            let memory = device.hybrid_on_peer(&peer, 5 << 20, 2 << 20, order).unwrap();
            let Some(mut memory) = memory else { continue };
            for offset in [0, 8, (2 << 20) - 4096, (5 << 20) - 800_000] {
                stream.copy_to_hybrid(&mut memory, offset, &source).unwrap();
                let mut target = device.zeroed::<u64>(&stream, values.len()).unwrap();
                stream.copy_from_hybrid(&mut target, &memory, offset).unwrap();
                assert_eq!(stream.read(&target, ..).unwrap(), values);
            }
            let beyond = stream.copy_to_hybrid(&mut memory, (5 << 20) - 799_999, &source);
            assert!(beyond.is_err());
        }
    }
}

#[test]
fn shared_words_start_at_zero_and_keep_their_values() {
    for device in devices() {
        let memory = SharedMemory::new(&device, 4099).unwrap();
        let words = memory.words();
        assert_eq!(words.len(), 512);
        assert!(words.iter().all(|word| word.load(Ordering::Relaxed) == 0));
        words[511].store(7, Ordering::Relaxed);
        assert_eq!(memory.words()[511].load(Ordering::Relaxed), 7);
    }
}
