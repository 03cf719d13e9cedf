//! The table of the keys of a build side.

use std::collections::HashSet;

use galatea_device::{
    ArgumentBytes, Device, DeviceOptions, EmulatorOptions, Geometry, Program, testing,
};
use galatea_kernels::headers;

use crate::emulated;

/// Emulated devices, one of which reports races, and a GPU if available.
fn devices() -> Vec<Device> {
    let races = EmulatorOptions {
        seed: 8,
        races: true,
        ..EmulatorOptions::default()
    };
    let races =
        Device::emulated(races, DeviceOptions::default()).expect("the emulated device is always there");
    [emulated(3), races].into_iter().chain(testing::gpu()).collect()
}

const INSERT: &str = r#"
#include "galatea/key_table.cuh"
#include "galatea/thread.cuh"
using namespace galatea;
struct Arguments { u64* table; u64 mask; const u64* keys; u64 count; u32* slots; u32* inserted; u32* error; };
extern "C" __global__ void insert(Arguments args) {
    u32 inserted = 0;
    for (u64 i = grid_thread(); i < args.count; i += grid_threads()) {
        args.slots[i] = key_table_insert(args.table, args.mask, args.keys[i], inserted, args.error, 2u);
    }
    if (inserted != 0) atomicAdd(args.inserted, inserted);
}
"#;

/// Inserts rows with `distinct` keys into a table with `slots` slots.
fn check_insertion(device: &Device, slots: u64, distinct: u64, rows: u64) {
    let program = Program::new("insert", INSERT).headers(headers()).entry("insert");
    let module = device.compile(&program).unwrap().module;
    let stream = device.stream().unwrap();
    let key = |row: u64| (row % distinct.max(1)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 1;
    let keys: Vec<u64> = (0..rows).map(key).collect();
    let table = device.zeroed::<u64>(&stream, slots as usize).unwrap();
    let input = device.upload(&stream, &keys).unwrap();
    let places = device.zeroed::<u32>(&stream, rows as usize).unwrap();
    let counts = device.zeroed::<u32>(&stream, 2).unwrap();
    let mut arguments = ArgumentBytes::new();
    arguments.push(table.address());
    arguments.push(slots - 1);
    arguments.push(input.address());
    arguments.push(rows);
    arguments.push(places.address());
    arguments.push(counts.address());
    arguments.push(counts.address() + 4);
    let function = module.function("insert").unwrap();
    function
        .launch(&stream, Geometry::new(3u32, 64u32), &arguments)
        .unwrap();
    let (table, places) = (
        stream.read(&table, ..).unwrap(),
        stream.read(&places, ..).unwrap(),
    );
    let counts = stream.read(&counts, ..).unwrap();
    let case = format!("{distinct} keys of {rows} rows in {slots} slots");
    let held: HashSet<u64> = table
        .iter()
        .filter(|slot| **slot != 0)
        .map(|slot| slot - 1)
        .collect();
    let all: HashSet<u64> = keys.iter().copied().collect();
    assert_eq!(held.len() as u64, slots.min(all.len() as u64), "{case}");
    assert_eq!(u64::from(counts[0]), held.len() as u64, "{case}");
    assert_eq!(counts[1], if all.len() as u64 > slots { 2 } else { 0 }, "{case}");
    for (key, place) in keys.iter().zip(places) {
        match held.contains(key) {
            true => assert_eq!(table[place as usize], key + 1, "{case}"),
            false => assert_eq!(place, u32::MAX, "{case}"),
        }
    }
}

/// An insertion into a full table ends, with an error, and stored keys are still found.
#[test]
fn full_key_table_refuses_new_keys() {
    for device in devices() {
        for (slots, distinct) in [(1, 0), (1, 1), (1, 2), (64, 63), (64, 64), (64, 65), (64, 1000)] {
            check_insertion(&device, slots, distinct, if distinct == 0 { 0 } else { 1500 });
        }
    }
}
