//! Kernels that measure ways across the link, over memory of the device.

use std::collections::HashSet;

use galatea_device::{Device, testing};
use galatea_kernels::{LinkAccess, Pieces};

use crate::emulated;

fn devices() -> Vec<Device> {
    let mut devices: Vec<Device> = [0, 5].map(emulated).into();
    devices.extend(testing::gpu());
    devices
}

/// Every width of accesses, at the ends of pieces, with pieces that do not divide a warp and with fewer and
/// more than a grid has lanes: what is read is summed up once for each piece, what is written is written
/// there and nowhere else.
#[test]
fn pieces_of_every_size_and_shift_are_accessed_once() {
    const WORDS: usize = 96 << 10;
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
                        // Enough of the same.
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
        // It was alive until here.
        source.used_by(&stream).unwrap();
    }
}
