//! The table of the keys of a build side, and the matches of rows over slices of the other side of a join.

use std::collections::HashSet;

use galatea_device::{ArgumentBytes, Device, Geometry, In, InOut, Out, Program};
use galatea_kernels::{ChosenRows, MergeMarks, SliceMatches, headers};

use crate::joins::devices;

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

/// Rows in slices in various orders, compared with the matches of each row over all slices.
#[test]
fn marks_of_slices_are_merged_by_row() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let kernel = MergeMarks::new(&device).unwrap();
        for len in [1usize, 31, 32, 33, 1000] {
            const SLICES: usize = 4;
            // Every 17th row is in another partition.
            let rows: Vec<i64> = (0..(len + len / 16) as i64).filter(|row| row % 17 != 5).collect();
            let matches = |row: i64, slice: usize| (row * 31 + 7) % 5 == slice as i64 || row % 11 == 3;
            let mut seen = device
                .zeroed::<u32>(&stream, rows.len() / 16 + 2 + len / 32)
                .unwrap();
            let mut returned = vec![Vec::new(); 2];
            for slice in 0..SLICES {
                let mut order = rows.clone();
                order.rotate_left(slice * 7 % rows.len());
                let bytes: Vec<u8> = order.iter().flat_map(|row| row.to_ne_bytes()).collect();
                let numbers = device.upload(&stream, &bytes).unwrap();
                let mut words = vec![0u32; rows.len().div_ceil(32)];
                let starts: Vec<u32> = order
                    .iter()
                    .enumerate()
                    .map(|(at, row)| {
                        let found = matches(*row, slice);
                        words[at / 32] |= u32::from(found) << (at % 32);
                        if found { at as u32 } else { u32::MAX }
                    })
                    .collect();
                let (bits, lists) = (
                    device.upload(&stream, &words).unwrap(),
                    device.upload(&stream, &starts).unwrap(),
                );
                let last = slice + 1 == SLICES;
                let given = match slice % 2 {
                    0 => SliceMatches::Bits(In(&bits)),
                    _ => SliceMatches::Lists(In(&lists)),
                };
                let mut chosen = device.upload(&stream, &vec![u32::MAX; words.len()]).unwrap();
                let choice = ChosenRows {
                    matched: true,
                    unmatched: last,
                };
                kernel
                    .launch(
                        &stream,
                        (In(&numbers), given),
                        InOut(&mut seen),
                        Out(&mut chosen),
                        choice,
                    )
                    .unwrap();
                let chosen = stream.read(&chosen, ..).unwrap();
                for at in (0..32 * chosen.len()).filter(|at| chosen[at / 32] >> (at % 32) & 1 != 0) {
                    returned[usize::from(matches(order[at], slice))].push(order[at]);
                }
            }
            for (found, mut returned) in [false, true].into_iter().zip(returned) {
                returned.sort_unstable();
                let any = |row: &i64| (0..SLICES).any(|slice| matches(*row, slice)) == found;
                let expected: Vec<i64> = rows.iter().copied().filter(any).collect();
                assert_eq!(returned, expected, "rows with matches: {found}, of {len}");
            }
        }
    }
}
