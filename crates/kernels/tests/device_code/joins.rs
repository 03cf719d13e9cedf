//! The kernels of the no-partitioning hash join, compared with a map on the host.

use std::collections::HashMap;

use galatea_device::{Device, DeviceOptions, EmulatorOptions, InOut, bytemuck, testing};
use galatea_kernels::{JoinBuild, JoinClear, JoinHashing, JoinProbe, JoinRows, JoinTable};

use crate::emulated;

/// Emulated devices, one of which reports races, and a GPU if available.
pub(crate) fn devices() -> Vec<Device> {
    let races = EmulatorOptions {
        seed: 8,
        races: true,
        ..EmulatorOptions::default()
    };
    let races =
        Device::emulated(races, DeviceOptions::default()).expect("the emulated device is always there");
    [emulated(3), races].into_iter().chain(testing::gpu()).collect()
}

/// A column of words of 8 or 4 bytes.
fn column(words: &[u64], word_bytes: u32) -> Vec<u8> {
    match word_bytes {
        8 => bytemuck::cast_slice(words).to_vec(),
        _ => words
            .iter()
            .flat_map(|word| (*word as u32).to_le_bytes())
            .collect(),
    }
}

/// Distinct keys.
fn keys(rows: u64, hashing: JoinHashing) -> Vec<u64> {
    match hashing {
        JoinHashing::Perfect => (0..rows).rev().collect(),
        // Sparse keys, which collide.
        JoinHashing::Linear => (0..rows).map(|row| row * 769 % 1_000_003).collect(),
    }
}

fn joined(device: &Device, hashing: JoinHashing, word_bytes: u32, (built, probed): (u64, u64)) {
    let stream = device.stream().unwrap();
    let build_keys = keys(built, hashing);
    let build_payloads: Vec<u64> = build_keys.iter().map(|key| key * 3 + 7).collect();
    let map: HashMap<u64, u64> = build_keys
        .iter()
        .copied()
        .zip(build_payloads.iter().copied())
        .collect();
    // About half of the keys have no match; some are beyond the last slot of a table with perfect hashing.
    let probe_keys: Vec<u64> = (0..probed)
        .map(|row| match hashing {
            JoinHashing::Perfect => row * 31 % (2 * built + 1),
            JoinHashing::Linear => row * 769 / 2 % 1_000_003,
        })
        .collect();
    let probe_payloads: Vec<u64> = (0..probed).map(|row| row * 11 + 1).collect();
    let pairs = probe_keys.iter().zip(&probe_payloads);
    let expected = pairs.filter_map(|(key, payload)| Some(map.get(key)? + payload));
    let expected = expected.fold([0, 0], |[sum, count]: [u64; 2], value| [sum + value, count + 1]);

    let upload = |words: &[u64]| device.upload(&stream, &column(words, word_bytes)).unwrap();
    let memory = [&build_keys, &build_payloads, &probe_keys, &probe_payloads].map(|words| upload(words));
    let rows = |first: usize, rows| JoinRows {
        keys: memory[first].address(),
        payloads: memory[first + 1].address(),
        rows,
    };
    let slots = hashing.slots(built);
    let bytes = (2 * slots * u64::from(word_bytes)).next_multiple_of(16);
    let entries = device.upload(&stream, &vec![0x11_u8; bytes as usize]).unwrap();
    let table = JoinTable {
        address: entries.address(),
        slots,
        hashing,
        word_bytes,
    };
    let mut sum = device.zeroed::<u64>(&stream, 2).unwrap();
    JoinClear::new(device).unwrap().launch(&stream, &table).unwrap();
    JoinBuild::new(device)
        .unwrap()
        .launch(&stream, rows(0, built), &table)
        .unwrap();
    let probe = JoinProbe::new(device).unwrap();
    // In two parts.
    for part in [0..probed / 3, probed / 3..probed] {
        let part = rows(2, probed).part(part, word_bytes);
        probe.launch(&stream, part, &table, InOut(&mut sum)).unwrap();
    }
    assert_eq!(
        stream.read(&sum, ..).unwrap(),
        expected,
        "{} hashing, {word_bytes} bytes, {built} and {probed} rows",
        hashing.name()
    );
    for memory in memory.iter().chain([&entries]) {
        memory.used_by(&stream).unwrap();
    }
}

#[test]
fn joins_match_a_map_of_the_host() {
    for device in devices() {
        for hashing in [JoinHashing::Perfect, JoinHashing::Linear] {
            for word_bytes in [8, 4] {
                for rows in [(0, 5), (1, 0), (1, 1), (31, 33), (257, 1000), (3000, 5000)] {
                    joined(&device, hashing, word_bytes, rows);
                }
            }
        }
    }
}

#[test]
fn tables_of_other_shapes_are_refused() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let build = JoinBuild::new(&device).unwrap();
        let none = JoinRows {
            keys: 0,
            payloads: 0,
            rows: 0,
        };
        let table = |slots, hashing, word_bytes| JoinTable {
            address: 0,
            slots,
            hashing,
            word_bytes,
        };
        for (slots, hashing, word_bytes) in [
            (3, JoinHashing::Linear, 8),
            (1, JoinHashing::Linear, 8),
            (1 << 33, JoinHashing::Linear, 4),
            (4, JoinHashing::Perfect, 16),
        ] {
            assert!(
                build
                    .launch(&stream, none, &table(slots, hashing, word_bytes))
                    .is_err()
            );
        }
        let mut sum = device.zeroed::<u64>(&stream, 1).unwrap();
        let right = table(4, JoinHashing::Perfect, 8);
        let probe = JoinProbe::new(&device).unwrap();
        assert!(probe.launch(&stream, none, &right, InOut(&mut sum)).is_err());
    }
}
