//! Kernels that measure transfer methods, tested on device memory.

use std::collections::HashSet;

use galatea_device::{Device, In, InOut, testing};
use galatea_kernels::{Chain, LinkAccess, LinkChase, LinkProbe, Pieces, Tuples};

use crate::emulated;

fn devices() -> Vec<Device> {
    let mut devices: Vec<Device> = [5].map(emulated).into();
    devices.extend(testing::gpu());
    devices
}

/// Every width of accesses, at the ends of pieces, with pieces that do not divide a warp and with fewer and
/// more pieces than a grid has lanes: each piece is summed once when read, and written exactly once when
/// written, and no other memory is written.
#[test]
fn link_access_accesses_each_piece_once() {
    const WORDS: usize = 12 << 10;
    for device in devices() {
        let stream = device.stream().unwrap();
        let kernel = LinkAccess::new(&device).unwrap();
        let content: Vec<u32> = (0..WORDS as u32)
            .map(|word| word.wrapping_mul(2_654_435_761))
            .collect();
        let source = device.upload(&stream, &content).unwrap();
        let mut sum = device.zeroed::<u64>(&stream, 1).unwrap();
        for piece in [4, 8, 12, 16, 32, 64, 96, 128, 256, 512, 4096] {
            for shift in [0, 4, 8, 16] {
                for (count, random) in [0, 1, 31, 32, 33, 5000]
                    .into_iter()
                    .flat_map(|n| [(n, false), (n, true)])
                {
                    let what = format!("{count} of {piece} bytes, shift {shift}, random {random}");
                    let bytes = 4 * WORDS as u64 - shift;
                    let count = count.min(bytes / piece);
                    let pieces = Pieces {
                        address: source.address() + shift,
                        bytes,
                        piece,
                        count,
                        random,
                        writes: false,
                        seed: 77 + count,
                    };
                    let words = |number: u64| {
                        let first = pieces.place(number) * piece / 4;
                        first..first + piece / 4
                    };
                    stream.fill(&mut sum, 0).unwrap();
                    kernel.launch(&stream, pieces, &mut sum).unwrap();
                    let expected = (0..count).flat_map(words);
                    let expected = expected.map(|word| u64::from(content[(word + shift / 4) as usize]));
                    assert_eq!(stream.read(&sum, ..).unwrap(), [expected.sum::<u64>()], "{what}");

                    if count > 33 && device.info().emulated && piece > 128 {
                        // Enough similar cases.
                        continue;
                    }
                    let target = device.zeroed::<u32>(&stream, WORDS).unwrap();
                    let writes = Pieces {
                        address: target.address() + shift,
                        writes: true,
                        ..pieces
                    };
                    kernel.launch(&stream, writes, &mut sum).unwrap();
                    let written: HashSet<u64> = (0..count).flat_map(words).collect();
                    let found = stream.read(&target, ..).unwrap();
                    for (at, value) in found.iter().enumerate() {
                        let word = (at as u64)
                            .checked_sub(shift / 4)
                            .filter(|word| written.contains(word));
                        let expected = word.map_or(0, |word| LinkAccess::written(pieces.seed, word));
                        assert_eq!(*value, expected, "word {at}, {what}");
                    }
                }
            }
        }
        // Keeps the memory alive until here.
        source.used_by(&stream).unwrap();
    }
}

/// Chains end at the same place as on the host, whichever part of the steps is timed.
#[test]
fn link_chase_matches_the_host() {
    const STRIDE: usize = 8;
    for device in devices() {
        let stream = device.stream().unwrap();
        let kernel = LinkChase::new(&device).unwrap();
        for places in [1_usize, 2, 33, 1000] {
            // A cycle, since 7 divides none of these numbers.
            let next = |place: usize| (place + 7) % places;
            let mut words = vec![u32::MAX; places * STRIDE];
            for place in 0..places {
                words[place * STRIDE] = next(place) as u32;
            }
            let memory = device.upload(&stream, &words).unwrap();
            for (warm_steps, steps) in [(0, 0), (0, 1), (1, 0), (5, 700), (1000, 31)] {
                let mut out = device.zeroed::<u64>(&stream, 2).unwrap();
                let chain = Chain {
                    address: memory.address(),
                    stride: STRIDE as u64,
                    warm_steps,
                    steps,
                };
                kernel.launch(&stream, chain, &mut out).unwrap();
                let expected = (0..warm_steps + steps).fold(0, |place, _| next(place));
                let found = stream.read(&out, ..).unwrap();
                assert_eq!(
                    found[0], expected as u64,
                    "{warm_steps} and {steps} steps of {places}"
                );
                assert!(steps < 700 || found[1] > 0, "{found:?}");
            }
            memory.used_by(&stream).unwrap();
            let mut one = device.zeroed::<u64>(&stream, 1).unwrap();
            let chain = Chain {
                address: memory.address(),
                stride: 8,
                warm_steps: 0,
                steps: 1,
            };
            assert!(kernel.launch(&stream, chain, &mut one).is_err());
        }
    }
}

/// Tuples find the entry of their key behind those of other keys, or none if it is absent.
#[test]
fn tuples_are_probed_by_linear_probing() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let kernel = LinkProbe::new(&device).unwrap();
        let mut sum = device.zeroed::<u64>(&stream, 1).unwrap();
        // Half full, nearly full and empty tables.
        for (entries, slots) in [(0_u64, 1_u64), (1, 2), (512, 1024), (1000, 1024), (1023, 1024)] {
            let payload = |key: u64| key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mut table = vec![0_u64; 2 * slots as usize];
            for key in (1..=entries).map(|key| 3 * key) {
                let mut slot = LinkProbe::slot(key, slots) as usize;
                while table[2 * slot] != LinkProbe::EMPTY {
                    slot = (slot + 1) % slots as usize;
                }
                table[2 * slot..][..2].copy_from_slice(&[key, payload(key)]);
            }
            let table = device.upload(&stream, &table).unwrap();
            for count in [0_u64, 1, 31, 32, 33, 257, 5000] {
                // Two of three keys have no entry, and some of the others are beyond the last.
                let keys = (0..count).map(|row| 1 + (row * 7 + count) % (3 * entries + 9));
                let tuples: Vec<u64> = keys
                    .clone()
                    .zip(100..)
                    .flat_map(|(key, row)| [key, row])
                    .collect();
                let found = |key: &u64| key.is_multiple_of(3) && *key <= 3 * entries;
                let pairs = keys.zip(100_u64..).filter(|(key, _)| found(key));
                let expected = pairs.fold(0_u64, |sum, (key, row)| {
                    sum.wrapping_add(payload(key)).wrapping_add(row)
                });
                let memory = device.upload(&stream, &tuples).unwrap();
                stream.fill(&mut sum, 0).unwrap();
                let probed = Tuples {
                    address: memory.address(),
                    count,
                };
                kernel
                    .launch(&stream, probed, In(&table), InOut(&mut sum))
                    .unwrap();
                assert_eq!(
                    stream.read(&sum, ..).unwrap(),
                    [expected],
                    "{count} tuples, {entries} of {slots} slots"
                );
                memory.used_by(&stream).unwrap();
            }
        }
        let table = device.zeroed::<u64>(&stream, 6).unwrap();
        let none = Tuples {
            address: table.address(),
            count: 0,
        };
        assert!(kernel.launch(&stream, none, In(&table), InOut(&mut sum)).is_err());
    }
}
