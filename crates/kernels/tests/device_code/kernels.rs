//! Tests the results of each kernel, on the emulated device and on a GPU if available.

use galatea_device::{
    Calibration, Device, DeviceBuffer, DeviceError, DeviceOptions, EmulatorOptions, HostMemory, In, InOut,
    Out, testing,
};
use galatea_kernels::{
    Accesses, Checksum, CollectBits, CollectGroups, ConflictingLanes, CopyBandwidth, CountBits, CountWritten,
    DenseFold, FillPattern, GlobalAtomics, GroupEntries, GroupingProbes, KeyWidth, ListRows, MatchLanes,
    MergeWord, Nothing, PrefixSum, RandomAccess, ReadBandwidth, ReadChunks, Repetition, SharedUpdates,
    Update, calibrate, calibration, checksum_of, measure, pattern,
};

use crate::emulated;

/// Lengths around the boundaries of warps, blocks and grids.
const LENGTHS: [usize; 12] = [0, 1, 2, 31, 32, 33, 255, 256, 257, 511, 512, 40_000];

fn devices() -> Vec<Device> {
    let mut devices: Vec<Device> = [0, 1, 7].map(emulated).into();
    devices.extend(testing::gpu());
    devices
}

#[test]
fn fill_and_checksum_agree_with_the_host() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let (fill, checksum) = (
            FillPattern::new(&device).unwrap(),
            Checksum::new(&device).unwrap(),
        );
        for len in LENGTHS {
            let seed = 0x1234_5678_9abc_def0 + len as u64;
            let mut values = device.zeroed::<u64>(&stream, len).unwrap();
            fill.launch(&stream, Out(&mut values), seed).unwrap();
            let mut sum = device.upload(&stream, &[5u64]).unwrap();
            checksum.launch(&stream, In(&values), InOut(&mut sum)).unwrap();
            let expected: Vec<u64> = (0..len as u64).map(|index| pattern(seed, index)).collect();
            assert_eq!(
                stream.read(&values, ..).unwrap(),
                expected,
                "{len} values on {}",
                device.info().name
            );
            let sum = stream.read(&sum, ..).unwrap()[0];
            assert_eq!(
                sum,
                checksum_of(&expected).wrapping_add(5),
                "{len} values on {}",
                device.info().name
            );
        }
    }
}

#[test]
fn read_kernel_sums_every_value_once() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let (fill, read) = (
            FillPattern::new(&device).unwrap(),
            ReadBandwidth::new(&device).unwrap(),
        );
        for len in LENGTHS.into_iter().filter(|len| len % 2 == 0) {
            let mut values = device.zeroed::<u64>(&stream, len).unwrap();
            fill.launch(&stream, Out(&mut values), 3).unwrap();
            let mut sums = device.zeroed::<u64>(&stream, read.blocks()).unwrap();
            read.launch(&stream, In(&values), Out(&mut sums)).unwrap();
            let sum = stream
                .read(&sums, ..)
                .unwrap()
                .into_iter()
                .fold(0u64, u64::wrapping_add);
            let expected = (0..len as u64)
                .map(|index| pattern(3, index))
                .fold(0u64, u64::wrapping_add);
            assert_eq!(sum, expected, "{len} values on {}", device.info().name);
        }
    }
}

#[test]
fn copy_kernel_copies_every_value() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let (fill, copy) = (
            FillPattern::new(&device).unwrap(),
            CopyBandwidth::new(&device).unwrap(),
        );
        for len in LENGTHS.into_iter().filter(|len| len % 2 == 0) {
            let mut source = device.zeroed::<u64>(&stream, len).unwrap();
            fill.launch(&stream, Out(&mut source), 9).unwrap();
            let mut target = device.zeroed::<u64>(&stream, len).unwrap();
            copy.launch(&stream, In(&source), Out(&mut target)).unwrap();
            assert_eq!(
                stream.read(&target, ..).unwrap(),
                stream.read(&source, ..).unwrap(),
                "{len} values"
            );
        }
    }
}

#[test]
fn wrong_lengths_are_refused() {
    let device = emulated(1);
    let stream = device.stream().unwrap();
    let mut odd = device.zeroed::<u64>(&stream, 7).unwrap();
    let mut even = device.zeroed::<u64>(&stream, 8).unwrap();
    let read = ReadBandwidth::new(&device).unwrap();
    let copy = CopyBandwidth::new(&device).unwrap();
    let checksum = Checksum::new(&device).unwrap();
    let mut sums = device.zeroed::<u64>(&stream, read.blocks() + 1).unwrap();
    let refused = |result: Result<(), DeviceError>| {
        assert!(matches!(result, Err(DeviceError::Range { .. })), "{result:?}");
    };
    refused(read.launch(&stream, In(&odd), Out(sums.slice_mut(1..).unwrap())));
    refused(read.launch(&stream, In(&even), Out(&mut sums)));
    refused(copy.launch(&stream, In(&even), Out(&mut odd)));
    refused(checksum.launch(&stream, In(&odd), InOut(&mut even)));
}

#[test]
fn empty_kernel_can_be_launched() {
    for device in devices() {
        let stream = device.stream().unwrap();
        Nothing::new(&device).unwrap().launch(&stream).unwrap();
        stream.synchronize().unwrap();
    }
}

/// Chunks that arrive while the kernel runs, in an order determined by two copying streams; the kernel is
/// launched before or after the copies.
#[test]
fn kernel_reads_chunks_as_they_arrive() {
    const VALUES: usize = 100;
    for device in devices() {
        let (compute, copies) = (
            device.stream().unwrap(),
            [device.stream().unwrap(), device.stream().unwrap()],
        );
        let read = ReadChunks::new(&device).unwrap();
        for chunks in [1, 2, 31, 70] {
            let mut values = device
                .alloc::<u64>(&compute, chunks * VALUES)
                .unwrap()
                .assume_written();
            let mut sums = device.zeroed::<u64>(&compute, chunks).unwrap();
            let mut arrivals = device.words(&compute, chunks).unwrap();
            compute.fill(&mut values, 0xa5).unwrap();
            compute.synchronize().unwrap();
            let come = |chunk: usize, values: &mut DeviceBuffer<u64>, arrivals: &mut DeviceBuffer<u32>| {
                let stream = &copies[chunk % 2];
                let mut memory = HostMemory::new(VALUES * 8).unwrap();
                for (i, bytes) in memory.as_mut_slice().chunks_exact_mut(8).enumerate() {
                    bytes.copy_from_slice(&((chunk * 1000 + i) as u64).to_le_bytes());
                }
                let place = values.slice_mut(chunk * VALUES..(chunk + 1) * VALUES).unwrap();
                stream.copy_to_device(place, &memory.into_view()).unwrap();
                stream
                    .write_word(arrivals.slice_mut(chunk..=chunk).unwrap(), 1)
                    .unwrap();
            };
            for chunk in (0..chunks).rev() {
                come(chunk, &mut values, &mut arrivals);
            }
            let source = (In(&values), VALUES);
            (read.launch(&compute, source, Some(In(&arrivals)), 0..chunks, Out(&mut sums))).unwrap();
            let found = compute.read(&sums, ..).unwrap();
            let expected = |chunk: usize| (0..VALUES).map(|i| (chunk * 1000 + i) as u64).sum::<u64>();
            assert_eq!(
                found,
                (0..chunks).map(expected).collect::<Vec<_>>(),
                "{chunks} chunks"
            );
            let source = (In(&values), VALUES);
            let beyond = read.launch(&compute, source, None, 0..chunks + 1, Out(&mut sums));
            assert!(matches!(beyond, Err(DeviceError::Range { .. })), "{beyond:?}");
        }
    }
}

/// Threads, conflicting lanes, and methods of adding, in orders determined by the seeds.
#[test]
fn repeated_operations_have_the_expected_totals() {
    let repetition = |blocks, threads, updates| Repetition {
        blocks,
        threads,
        updates,
    };
    for device in devices() {
        let stream = device.stream().unwrap();
        let shared = SharedUpdates::new(&device).unwrap();
        let matching = MatchLanes::new(&device).unwrap();
        let global = GlobalAtomics::new(&device).unwrap();
        for (repetition, lanes) in [
            (repetition(1, 32, 1), 1),
            (repetition(3, 64, 5), 2),
            (repetition(2, 96, 3), 8),
            (repetition(1, 1024, 2), 32),
        ] {
            let what = format!("{repetition:?}, {lanes} on {}", device.info().name);
            for update in [Update::Count, Update::Sum, Update::ReturningSum] {
                for same_word in [false, true] {
                    let mut total = device.upload(&stream, &[7u64]).unwrap();
                    let conflicting = ConflictingLanes { lanes, same_word };
                    (shared.launch(&stream, repetition, update, conflicting, InOut(&mut total))).unwrap();
                    let added = stream.read(&total, ..).unwrap()[0] - 7;
                    assert_eq!(
                        added,
                        SharedUpdates::added(repetition, update),
                        "{update:?}, {conflicting:?}: {what}"
                    );
                }
            }
            let mut total = device.upload(&stream, &[7u64]).unwrap();
            (matching.launch(&stream, repetition, lanes, InOut(&mut total))).unwrap();
            let added = stream.read(&total, ..).unwrap()[0] - 7;
            assert_eq!(added, MatchLanes::added(repetition, lanes), "{what}");
            for words in [1, 64] {
                let mut added_to = device.zeroed::<u64>(&stream, words).unwrap();
                (global.launch(&stream, repetition, 11, InOut(&mut added_to))).unwrap();
                let found = stream.read(&added_to, ..).unwrap();
                assert_eq!(
                    found.iter().sum::<u64>(),
                    GlobalAtomics::added(repetition),
                    "{what}"
                );
                // Words are random: those of many threads are not all the same.
                assert!(
                    words == 1 || found.iter().filter(|word| **word > 0).count() > 1,
                    "{what}"
                );
            }
        }
    }
}

#[test]
fn invalid_repetitions_are_rejected() {
    let device = emulated(1);
    let stream = device.stream().unwrap();
    let shared = SharedUpdates::new(&device).unwrap();
    let mut total = device.zeroed::<u64>(&stream, 1).unwrap();
    let refused = |(threads, updates), lanes, total: &mut DeviceBuffer<u64>| {
        let repetition = Repetition {
            blocks: 1,
            threads,
            updates,
        };
        let conflicting = ConflictingLanes {
            lanes,
            same_word: false,
        };
        let result = shared.launch(&stream, repetition, Update::Sum, conflicting, InOut(total));
        assert!(
            matches!(result, Err(DeviceError::Range { .. })),
            "{repetition:?} {lanes}: {result:?}"
        );
    };
    for lanes in [0, 3, 33, 64] {
        refused((32, 1), lanes, &mut total);
    }
    for shape in [(0, 1), (31, 1), (33, 1), (1024, 1 << 20), (64, u64::MAX)] {
        refused(shape, 1, &mut total);
    }
    let global = GlobalAtomics::new(&device).unwrap();
    let once = Repetition {
        blocks: 1,
        threads: 32,
        updates: 1,
    };
    let mut words = device.zeroed::<u64>(&stream, 3).unwrap();
    let result = global.launch(&stream, once, 0, InOut(&mut words));
    assert!(matches!(result, Err(DeviceError::Range { .. })), "{result:?}");
}

/// Everything is measured on the emulated device, with every result checked; the figures are not stored.
#[test]
fn the_emulated_device_is_measured_and_not_calibrated() {
    let folder = tempfile_folder("calibration");
    let options = DeviceOptions {
        cache_directory: Some(folder.clone()),
        ..DeviceOptions::default()
    };
    let device = Device::emulated(EmulatorOptions::default(), options).unwrap();
    let measured = measure(&device).unwrap();
    // All stored figures are usable: every figure is finite and positive.
    measured.store(&device).unwrap();
    assert_eq!(Calibration::load(&device).unwrap(), Some(measured));
    assert_eq!(calibration(&device).unwrap(), measured);
    assert!(Calibration::forget(&device).unwrap());
    for refused in [calibrate(&device), calibration(&device)] {
        assert!(
            matches!(refused, Err(DeviceError::NotTimed { .. })),
            "{refused:?}"
        );
    }
    assert_eq!(Calibration::load(&device).unwrap(), None);
    let used = device.budget().used();
    assert_eq!(used, 0, "measuring leaves {used} bytes behind");
    std::fs::remove_dir_all(folder).unwrap();
}

/// Prints the measured rates of a GPU; run with `--nocapture`.
#[test]
fn gpu_rates_are_measured_and_printed() {
    let Some(device) = testing::exclusive_gpu() else {
        return;
    };
    for _ in 0..2 {
        let start = std::time::Instant::now();
        let measured = measure(&device).unwrap();
        let took = start.elapsed();
        eprintln!("{} in {took:?}: {measured:#?}", device.info().name);
        assert!(
            measured.hbm_read > measured.h2d,
            "device memory is faster than the link: {measured:?}"
        );
    }
    let reads = GroupingProbes::new(&device, 5, 1).unwrap().reads().unwrap();
    eprintln!("{reads:#?}");
}

fn tempfile_folder(name: &str) -> std::path::PathBuf {
    let folder = std::env::temp_dir().join(format!("galatea-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn bits_of_a_bitmap_are_counted() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let count = CountBits::new(&device).unwrap();
        for words in [0, 1, 31, 32, 33, 1000, 100_003] {
            let bitmap: Vec<u32> = (0..words).map(|word| pattern(7, word) as u32).collect();
            let expected: u64 = bitmap.iter().map(|word| u64::from(word.count_ones())).sum();
            let bitmap = device.upload(&stream, &bitmap).unwrap();
            let mut ones = device.upload(&stream, &[5u64]).unwrap();
            count.launch(&stream, In(&bitmap), InOut(&mut ones)).unwrap();
            assert_eq!(stream.read(&ones, ..).unwrap(), [5 + expected], "{words} words");
        }
    }
}

#[test]
fn written_entries_are_counted() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let count = CountWritten::new(&device).unwrap();
        for (width, byte) in [(1, 0xff), (2, 0x80), (4, 0x7f), (8, 0), (8, 0xff), (4, 0)] {
            for entries in [0, 1, 2, 3, 7, 8, 31, 32, 33, 1000, 100_003] {
                let mut array = vec![byte; entries * width];
                let mut expected = 0;
                for (number, entry) in array.chunks_mut(width).enumerate() {
                    let drawn = pattern(8, number as u64) as usize;
                    // Entries may differ in only one bit.
                    if !drawn.is_multiple_of(3) {
                        entry[(drawn / 3) % width] ^= 1 << (drawn >> 20 & 7);
                        expected += 1;
                    }
                }
                let array = device.upload(&stream, &array).unwrap();
                let mut written = device.upload(&stream, &[5u64]).unwrap();
                count
                    .launch(&stream, In(&array), width, byte, InOut(&mut written))
                    .unwrap();
                let counted = stream.read(&written, ..).unwrap();
                assert_eq!(counted, [5 + expected], "{entries} of {width} bytes, {byte:#x}");
            }
        }
        let array = device.upload(&stream, &[0u8; 9]).unwrap();
        let mut written = device.upload(&stream, &[0u64]).unwrap();
        for width in [0, 2, 3, 4, 8, 9, 16] {
            let outcome = count.launch(&stream, In(&array), width, 0, InOut(&mut written));
            assert!(matches!(outcome, Err(DeviceError::Range { .. })), "{width}");
        }
    }
}

#[test]
fn random_access_uses_hashed_positions() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let access = RandomAccess::new(&device).unwrap();
        for (words, count) in [(1, 0), (1, 1), (33, 1000), (70_001, 40_000)] {
            for width in KeyWidth::ALL {
                let accesses = Accesses {
                    width,
                    count,
                    seed: 11 + count,
                };
                let places: Vec<u64> = (0..count).map(|number| accesses.place(number, words)).collect();
                let mut expected = vec![0u8; words as usize * width.bytes()];
                for place in &places {
                    let at = *place as usize * width.bytes();
                    expected[at..][..width.bytes()].copy_from_slice(&place.to_le_bytes()[..width.bytes()]);
                }
                let mut table = device.zeroed::<u8>(&stream, expected.len()).unwrap();
                access.write(&stream, accesses, InOut(&mut table)).unwrap();
                assert_eq!(stream.read(&table, ..).unwrap(), expected, "{accesses:?}");
                let mut sum = device.upload(&stream, &[5u64]).unwrap();
                access
                    .read(&stream, accesses, In(&table), InOut(&mut sum))
                    .unwrap();
                let all = places.iter().sum::<u64>() + 5;
                assert_eq!(stream.read(&sum, ..).unwrap(), [all], "{accesses:?}");
            }
        }
        let mut sum = device.zeroed::<u64>(&stream, 1).unwrap();
        let nothing = device.zeroed::<u8>(&stream, 7).unwrap();
        let accesses = Accesses {
            width: KeyWidth::Eight,
            count: 1,
            seed: 0,
        };
        let refused = access.read(&stream, accesses, In(&nothing), InOut(&mut sum));
        assert!(matches!(refused, Err(DeviceError::Range { .. })), "{refused:?}");
    }
}

#[test]
fn collect_groups_skips_empty_entries() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let collect = CollectGroups::new(&device).unwrap();
        for (count, words, marker, numbered) in [
            (0, 1, 0, false),
            (1, 1, 0, true),
            (33, 3, 2, true),
            (1000, 2, 1, false),
            (4097, 5, 3, true),
        ] {
            let is_group = |entry: u64| pattern(entry, 5).is_multiple_of(3);
            let word = |entry: u64, word: u64| match (word == marker, is_group(entry)) {
                (true, held) => u64::from(held) * (entry + 1),
                (false, _) => pattern(entry, word),
            };
            let table: Vec<u64> = (0..count)
                .flat_map(|entry| (0..words).map(move |w| word(entry, w)))
                .collect();
            let mut expected: Vec<Vec<u64>> = (0..count)
                .filter(|entry| is_group(*entry))
                .map(|entry| {
                    let own = (0..words).map(|w| word(entry, w));
                    numbered.then_some(entry).into_iter().chain(own).collect()
                })
                .collect();
            let entries = GroupEntries {
                words: words as u32,
                marker: marker as u32,
                numbered,
            };
            // Also with a capacity of zero, and of one less than the number of groups.
            for room in [0, expected.len().saturating_sub(1), expected.len()] {
                let table = device.upload(&stream, &table).unwrap();
                let poison = vec![0xdead; room * entries.columns() + 1];
                let mut groups = device.upload(&stream, &poison).unwrap();
                let mut used = device.zeroed::<u64>(&stream, 1).unwrap();
                let into = Out(groups.slice_mut(..room * entries.columns()).unwrap());
                collect
                    .launch(&stream, In(&table), into, InOut(&mut used), entries)
                    .unwrap();
                assert_eq!(stream.read(&used, ..).unwrap(), [expected.len() as u64]);
                let groups = stream.read(&groups, ..).unwrap();
                assert_eq!(groups.last(), Some(&0xdead), "behind the room");
                let mut found: Vec<Vec<u64>> = (0..room)
                    .map(|place| (0..entries.columns()).map(|c| groups[c * room + place]).collect())
                    .collect();
                found.sort();
                expected.sort();
                assert!(found.iter().all(|group| expected.contains(group)), "{entries:?}");
                assert!(room < expected.len() || found == expected, "{entries:?}");
            }
        }
        let table = device.zeroed::<u64>(&stream, 7).unwrap();
        let mut used = device.zeroed::<u64>(&stream, 1).unwrap();
        let mut groups = device.zeroed::<u64>(&stream, 9).unwrap();
        for (words, marker) in [(2, 0), (7, 7)] {
            let entries = GroupEntries {
                words,
                marker,
                numbered: false,
            };
            let (into, used) = (Out(&mut groups), InOut(&mut used));
            let refused = collect.launch(&stream, In(&table), into, used, entries);
            assert!(matches!(refused, Err(DeviceError::Range { .. })), "{refused:?}");
        }
    }
}

#[test]
fn dense_fold_merges_copies_by_word() {
    // A wrapping sum, a 128-bit sum, one of doubles, a maximum, and bits.
    let merges = [
        MergeWord::Sum64,
        MergeWord::Sum128,
        MergeWord::High,
        MergeWord::SumF64,
        MergeWord::Max64,
        MergeWord::Or64,
        MergeWord::Xor64,
    ]
    .map(|merge| merge as u8);
    let bits = |at: u64| (at as f64).to_bits();
    for device in devices() {
        let stream = device.stream().unwrap();
        let fold = DenseFold::new(&device).unwrap();
        let merges = device.upload(&stream, &merges).unwrap();
        for (count, copies) in [(1, 1), (1, 2), (31, 4), (33, 32), (700, 3)] {
            let words = |copy: u64, group: u64| {
                [
                    (u64::MAX - 5).wrapping_add(copy + group),
                    u64::MAX - group,
                    copy,
                    bits(copy + group),
                    pattern(copy, group),
                    pattern(copy + 1, group) & pattern(copy + 2, group),
                    pattern(copy + 3, group),
                ]
            };
            let groups: Vec<u64> = (0..copies)
                .flat_map(|copy| (0..count).flat_map(move |group| words(copy, group)))
                .collect();
            let mut groups = device.upload(&stream, &groups).unwrap();
            fold.launch(&stream, InOut(&mut groups), In(&merges), count)
                .unwrap();
            let expected: Vec<u64> = (0..count)
                .flat_map(|group| {
                    let all: Vec<[u64; 7]> = (0..copies).map(|copy| words(copy, group)).collect();
                    let wide: u128 = all.iter().fold(0, |sum: u128, w| {
                        sum.wrapping_add(u128::from(w[2]) << 64 | u128::from(w[1]))
                    });
                    [
                        all.iter().fold(0, |sum: u64, w| sum.wrapping_add(w[0])),
                        wide as u64,
                        (wide >> 64) as u64,
                        bits((0..copies).map(|copy| copy + group).sum()),
                        all.iter().map(|w| w[4]).max().unwrap(),
                        all.iter().fold(0, |bits, w| bits | w[5]),
                        all.iter().fold(0, |bits, w| bits ^ w[6]),
                    ]
                })
                .collect();
            let found = stream.read(&groups, ..expected.len()).unwrap();
            assert_eq!(
                found,
                expected,
                "{copies} copies of {count} groups on {}",
                device.info().name
            );
        }
        let mut ragged = device.zeroed::<u64>(&stream, 11).unwrap();
        let refused = fold.launch(&stream, InOut(&mut ragged), In(&merges), 1);
        assert!(matches!(refused, Err(DeviceError::Range { .. })), "{refused:?}");
    }
}

/// Uneven counts: (7 n) mod 5, and occasionally a large one.
fn uneven(len: usize) -> Vec<u32> {
    let count = |n: usize| (7 * n % 5) as u32 + if n.is_multiple_of(97) { 1000 } else { 0 };
    (0..len).map(count).collect()
}

#[test]
fn prefix_sums_match_the_host() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let kernel = PrefixSum::new(&device).unwrap();
        let mut totals = device.upload(&stream, &vec![u64::MAX; kernel.totals()]).unwrap();
        for len in LENGTHS.into_iter().chain([4095, 4096, 4097, 1_000_003]) {
            let counts = uneven(len);
            let mut expected = vec![0u64];
            for count in &counts {
                expected.push(expected.last().unwrap() + u64::from(*count));
            }
            let input = device.upload(&stream, &counts).unwrap();
            let mut sums = device.upload(&stream, &vec![u64::MAX; len + 1]).unwrap();
            kernel
                .sum(&stream, In(&input), Out(&mut sums), Out(&mut totals))
                .unwrap();
            assert_eq!(stream.read(&sums, ..).unwrap(), expected, "{len} counts");
            let poisoned = [counts.as_slice(), &[u32::MAX]].concat();
            let mut narrow = device.upload(&stream, &poisoned).unwrap();
            kernel
                .replace(&stream, InOut(&mut narrow), Out(&mut totals))
                .unwrap();
            let narrow: Vec<u64> = (stream.read(&narrow, ..).unwrap().into_iter())
                .map(u64::from)
                .collect();
            assert_eq!(narrow, expected, "{len} counts in place");
        }
    }
}

#[test]
fn list_rows_groups_rows_by_key() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let kernel = ListRows::new(&device).unwrap();
        for len in LENGTHS {
            // Every third row has no key; the others have one of seven.
            let slots: Vec<u32> = (0..len as u32)
                .map(|row| if row % 3 == 0 { u32::MAX } else { row * 5 % 7 })
                .collect();
            let mut counts = [0u32; 7];
            let ranks: Vec<u32> = (slots.iter())
                .map(|slot| match counts.get_mut(*slot as usize) {
                    Some(count) => {
                        *count += 1;
                        *count - 1
                    }
                    None => 0,
                })
                .collect();
            let mut starts = vec![0u32];
            for count in counts {
                starts.push(starts.last().unwrap() + count);
            }
            let upload = |values: &[u32]| device.upload(&stream, values).unwrap();
            let mut lists = upload(&vec![u32::MAX; len]);
            let (on_device, ranks, first) = (upload(&slots), upload(&ranks), upload(&starts));
            kernel
                .launch(&stream, In(&on_device), In(&ranks), In(&first), Out(&mut lists))
                .unwrap();
            let lists = stream.read(&lists, ..).unwrap();
            for (slot, range) in starts.windows(2).enumerate() {
                let rows: Vec<u32> = (0..len as u32)
                    .filter(|row| slots[*row as usize] == slot as u32)
                    .collect();
                assert_eq!(
                    lists[range[0] as usize..range[1] as usize],
                    rows,
                    "slot {slot} of {len} rows"
                );
            }
        }
    }
}

#[test]
fn bit_positions_are_collected_by_value() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let kernel = CollectBits::new(&device).unwrap();
        for len in LENGTHS {
            let set = |bit: usize| bit.is_multiple_of(3) || bit % 64 == 63;
            let word =
                |word: usize| (0..32).fold(0u32, |bits, bit| bits | u32::from(set(32 * word + bit)) << bit);
            // Bits after the last one are set and must not be found.
            let words: Vec<u32> = (0..len.div_ceil(32)).map(word).collect();
            let words = device.upload(&stream, &words).unwrap();
            for wanted in [false, true] {
                let mut numbers = device.upload(&stream, &vec![u32::MAX; len]).unwrap();
                let mut found = device.upload(&stream, &[0u64]).unwrap();
                kernel
                    .launch(&stream, In(&words), wanted, Out(&mut numbers), InOut(&mut found))
                    .unwrap();
                let count = stream.read(&found, ..).unwrap()[0] as usize;
                let mut numbers = stream.read(&numbers, ..count).unwrap();
                numbers.sort_unstable();
                let expected: Vec<u32> = (0..len as u32)
                    .filter(|bit| set(*bit as usize) == wanted)
                    .collect();
                assert_eq!(numbers, expected, "bits that are {wanted} among {len}");
            }
        }
    }
}
