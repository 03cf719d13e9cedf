//! Passes of the radix sort, compared with the standard library's stable sort.

use galatea_device::{Device, DeviceError, DeviceSlice, In, InOut, Out, Stream};
use galatea_kernels::{
    DIGIT_VALUES, KeyWidth, ORDER_WORDS, RowsInOrder, RunParts, SortGather, SortHistogram, SortInput,
    SortOutput, SortPass, SortRuns, SortStep, pattern,
};

use crate::{emulated, stressed_devices as devices};

/// Key `index` of a test, by the distribution of the keys.
type Keys = fn(u64, u64) -> u64;

const SHAPES: [(&str, Keys); 7] = [
    ("random", pattern),
    ("all equal", |seed, _| pattern(seed, 0)),
    ("sorted", |_, index| index),
    ("descending", |_, index| u64::MAX - index),
    ("two values", |seed, index| pattern(seed, index) & 1),
    ("few values of all digits", |seed, index| {
        pattern(7, pattern(seed, index) % 5)
    }),
    ("mostly one value", |seed, index| {
        if pattern(seed, index).is_multiple_of(50) {
            index
        } else {
            1 << 20
        }
    }),
];

fn bytes_of(width: KeyWidth, keys: &[u64]) -> Vec<u8> {
    match width {
        KeyWidth::Four => keys.iter().flat_map(|key| (*key as u32).to_ne_bytes()).collect(),
        KeyWidth::Eight => keys.iter().flat_map(|key| key.to_ne_bytes()).collect(),
    }
}

/// The ids of the keys by one digit, and the keys in that order.
fn by_digit(keys: &[u64], digit: usize) -> (Vec<u32>, Vec<u64>) {
    let mut ids: Vec<u32> = (0..keys.len() as u32).collect();
    ids.sort_by_key(|id| keys[*id as usize] >> (8 * digit) & 255);
    let sorted = ids.iter().map(|id| keys[*id as usize]).collect();
    (ids, sorted)
}

fn counts_of(keys: &[u64], digits: usize) -> Vec<u32> {
    let mut counts = vec![0; digits * DIGIT_VALUES];
    for key in keys {
        for digit in 0..digits {
            counts[digit * DIGIT_VALUES + (key >> (8 * digit) & 255) as usize] += 1;
        }
    }
    counts
}

fn offsets_of(counts: &[u32]) -> Vec<u32> {
    let mut before = 0;
    let each = counts.iter().map(|count| {
        before += count;
        before - count
    });
    each.collect()
}

/// One histogram, and passes by a low and a high digit, with and without ids, from keys and from pairs, into
/// the input of the next pass and into ids.
fn check(device: &Device, stream: &Stream, width: KeyWidth, wide: bool, what: &str, keys: &[u64]) {
    let rows = keys.len();
    let uploaded = device.upload(stream, &bytes_of(width, keys)).unwrap();
    let expected = counts_of(keys, width.digits());
    let mut counts = device.upload(stream, &vec![3u32; expected.len()]).unwrap();
    let histogram = SortHistogram::new(device, width).unwrap();
    histogram
        .launch(stream, In(&uploaded), InOut(&mut counts))
        .unwrap();
    let added: Vec<u32> = stream
        .read(&counts, ..)
        .unwrap()
        .iter()
        .map(|count| count - 3)
        .collect();
    assert_eq!(added, expected, "counts of {rows} {what} keys of {width:?}");

    let pass = match wide {
        true => SortPass::wide(device, width).unwrap(),
        false => SortPass::new(device, width, rows as u64).unwrap(),
    };
    let words = pass.scratch_words_for(rows as u64);
    let mut scratch = device.upload(stream, &vec![u32::MAX; words]).unwrap();
    let given: Vec<u32> = (0..rows as u32).map(|id| id.wrapping_mul(0x9e37_79b9)).collect();
    let given_ids = device.upload(stream, &given).unwrap();
    let paired = |keys: &[u64], ids: &[u32]| -> Vec<u64> {
        let pairs = keys.iter().zip(ids);
        pairs.map(|(key, id)| key << 32 | u64::from(*id)).collect()
    };
    let given_pairs = device
        .upload(
            stream,
            &paired(if width == KeyWidth::Four { keys } else { &[] }, &given),
        )
        .unwrap();
    let high = width.digits() - 1;
    for (digit, ids, pairs) in [(0, false, false), (high, true, false), (high, true, true)] {
        if pairs && width == KeyWidth::Eight {
            continue;
        }
        let what = format!(
            "digit {digit} of {rows} {what} keys of {width:?}, in pairs: {pairs}, on {}",
            device.info().name
        );
        let offsets = offsets_of(&expected[digit * DIGIT_VALUES..][..DIGIT_VALUES]);
        let offsets = device.upload(stream, &offsets).unwrap();
        let (order, sorted) = by_digit(keys, digit);
        let order: Vec<u32> = match ids {
            true => order.iter().map(|id| given[*id as usize]).collect(),
            false => order,
        };
        let mut sorted_ids = device.upload(stream, &vec![u32::MAX; rows]).unwrap();
        let mut sorted_items = device.upload(stream, &vec![0xaau8; 8 * rows]).unwrap();
        let mut sorted_pairs = device.upload(stream, &vec![u64::MAX; rows]).unwrap();
        for alone in [false, true] {
            let output = match (alone, width) {
                (true, _) => SortOutput::Ids(Out(&mut sorted_ids)),
                (false, KeyWidth::Four) => SortOutput::Pairs(Out(&mut sorted_pairs)),
                (false, KeyWidth::Eight) => SortOutput::Keys(Out(&mut sorted_items), Out(&mut sorted_ids)),
            };
            let step = SortStep {
                digit,
                input: match pairs {
                    true => SortInput::Pairs(In(&given_pairs)),
                    false => SortInput::Keys(In(&uploaded), ids.then_some(In(&given_ids))),
                },
                offsets: In(&offsets),
                output,
                scratch: &mut scratch,
            };
            pass.launch(stream, step).unwrap();
            if alone || width == KeyWidth::Eight {
                assert_eq!(stream.read(&sorted_ids, ..).unwrap(), order, "{what}");
                stream.fill(&mut sorted_ids, 0xff).unwrap();
            }
            if !alone && width == KeyWidth::Eight {
                let got = stream.read(&sorted_items, ..).unwrap();
                assert_eq!(got, bytes_of(width, &sorted), "{what}");
            }
            if !alone && width == KeyWidth::Four {
                let got = stream.read(&sorted_pairs, ..).unwrap();
                assert_eq!(got, paired(&sorted, &order), "{what}");
            }
        }
    }
}

fn shaped(width: KeyWidth, keys: Keys, seed: u64, rows: usize) -> Vec<u64> {
    let all = (0..rows as u64).map(|index| keys(seed, index));
    match width {
        KeyWidth::Four => all.map(|key| key & u64::from(u32::MAX)).collect(),
        KeyWidth::Eight => all.collect(),
    }
}

#[test]
fn sort_pass_matches_stable_sort_by_one_digit() {
    for device in devices() {
        let stream = device.stream().unwrap();
        for width in KeyWidth::ALL {
            let tile = SortPass::tile_rows(width) as usize;
            for rows in [0, 1, 31, 32, 33, 255, 256, 257, tile - 1, tile, tile + 1] {
                let keys = shaped(width, pattern, rows as u64, rows);
                check(&device, &stream, width, false, "random", &keys);
            }
            for (what, keys) in SHAPES {
                let keys = shaped(width, keys, 11, 2 * tile + 77);
                check(&device, &stream, width, false, what, &keys);
            }
        }
    }
}

#[test]
fn sort_pass_looks_back_over_many_tiles() {
    for device in devices() {
        let stream = device.stream().unwrap();
        for (width, wide) in [
            (KeyWidth::Four, false),
            (KeyWidth::Four, true),
            (KeyWidth::Eight, true),
        ] {
            let rows = 12 * SortPass::tile_rows(width) as usize + 5;
            let keys = shaped(width, pattern, 23, rows);
            check(&device, &stream, width, wide, "random", &keys);
        }
    }
}

/// Runs of many lengths at every alignment, in order and not, of equal keys and of different ones.
#[test]
fn short_runs_of_equal_upper_bits_are_sorted() {
    let longest = SortRuns::LONGEST as usize;
    for device in devices() {
        let stream = device.stream().unwrap();
        let kernel = SortRuns::new(&device).unwrap();
        for (seed, lengths) in [
            (1, vec![]),
            (2, vec![1]),
            (3, vec![2]),
            (4, vec![3, 1, 2, 2, 5, 1, 31, longest, 1, longest, longest - 1]),
            (5, (1..400).map(|run| run % 7 + 1).collect()),
            (6, vec![2, longest + 1, 3]),
            (7, vec![3, 500, 2]),
        ] {
            for shift in [1u64, 20, 63] {
                let runs = (0u64..).zip(&lengths);
                let keys: Vec<u64> = runs
                    .flat_map(|(run, length)| (0..*length).map(move |at| (run, at as u64)))
                    .map(|(run, at)| match shift {
                        63 => pattern(seed, at) >> 1,
                        _ => {
                            run << shift
                                | pattern(seed, 1000 * run + at) & 1 << (shift - 1)
                                | (at % 2) & (shift - 1)
                        }
                    })
                    .collect();
                let upper = |at: usize| keys[at] >> shift;
                let mut expected: Vec<u32> = (0..keys.len() as u32).map(|id| 7 * id).collect();
                let mut sorted = keys.clone();
                let (mut start, mut unsorted) = (0, 0);
                while start < keys.len() {
                    let end = (start..keys.len()).find(|at| upper(*at) != upper(start));
                    let end = end.unwrap_or(keys.len());
                    if keys[start..end].is_sorted() {
                    } else if end - start > longest {
                        unsorted = 1;
                    } else {
                        expected[start..end].sort_by_key(|id| keys[*id as usize / 7]);
                        sorted[start..end].sort_unstable();
                    }
                    start = end;
                }
                let uploaded = device.upload(&stream, &bytes_of(KeyWidth::Eight, &keys)).unwrap();
                let given: Vec<u32> = (0..keys.len() as u32).map(|id| 7 * id).collect();
                let mut ids = device.upload(&stream, &given).unwrap();
                let mut moved = device.upload(&stream, &bytes_of(KeyWidth::Eight, &keys)).unwrap();
                let mut flag = device.upload(&stream, &[0u32]).unwrap();
                let what = format!("seed {seed}, shift {shift}, on {}", device.info().name);
                for parts in [RunParts::Ids(InOut(&mut ids)), RunParts::Keys(InOut(&mut moved))] {
                    kernel
                        .launch(&stream, In(&uploaded), shift as u32, parts, InOut(&mut flag))
                        .unwrap();
                }
                assert_eq!(stream.read(&ids, ..).unwrap(), expected, "{what}");
                assert_eq!(
                    stream.read(&moved, ..).unwrap(),
                    bytes_of(KeyWidth::Eight, &sorted),
                    "{what}"
                );
                assert_eq!(stream.read(&flag, ..).unwrap(), [unsorted], "{what}");
            }
        }
    }
}

#[test]
fn values_are_gathered_by_id() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let gather = SortGather::new(&device).unwrap();
        for width in SortGather::WIDTHS {
            for rows in [0usize, 1, 31, 33, 257, 5000] {
                let values: Vec<u8> = (0..(rows * width) as u64)
                    .map(|at| pattern(5, at) as u8)
                    .collect();
                let ids: Vec<u32> = (0..rows as u64)
                    .map(|at| (pattern(9, at) % rows as u64) as u32)
                    .collect();
                let expected: Vec<u8> = ids
                    .iter()
                    .flat_map(|id| values[*id as usize * width..][..width].to_vec())
                    .collect();
                let values = device.upload(&stream, &values).unwrap();
                let ids = device.upload(&stream, &ids).unwrap();
                let mut gathered = device.upload(&stream, &vec![0x55u8; rows * width]).unwrap();
                gather
                    .launch(&stream, In(&values), In(&ids), width, Out(&mut gathered))
                    .unwrap();
                assert_eq!(
                    stream.read(&gathered, ..).unwrap(),
                    expected,
                    "{rows} values of {width} bytes"
                );
            }
        }
    }
}

#[test]
fn sort_rejects_inconsistent_lengths_and_widths() {
    let device = emulated(1);
    let stream = device.stream().unwrap();
    let refused = |result: Result<(), DeviceError>| {
        assert!(matches!(result, Err(DeviceError::Range { .. })), "{result:?}");
    };
    let odd = device.zeroed::<u8>(&stream, 13).unwrap();
    let mut counts = device.zeroed::<u32>(&stream, 8 * DIGIT_VALUES).unwrap();
    let histogram = SortHistogram::new(&device, KeyWidth::Eight).unwrap();
    refused(histogram.launch(&stream, In(&odd), InOut(&mut counts)));
    let keys = device.zeroed::<u8>(&stream, 16).unwrap();
    let offsets = device.zeroed::<u32>(&stream, DIGIT_VALUES).unwrap();
    let pass = SortPass::new(&device, KeyWidth::Eight, 2).unwrap();
    for (digit, ids, words) in [(8, 2, 400), (0, 1, 400), (0, 2, 100)] {
        let mut sorted_ids = device.zeroed::<u32>(&stream, ids).unwrap();
        let mut scratch = device.zeroed::<u32>(&stream, words).unwrap();
        let step = SortStep {
            digit,
            input: SortInput::Keys(In(&keys), None),
            offsets: In(&offsets),
            output: SortOutput::Ids(Out(&mut sorted_ids)),
            scratch: &mut scratch,
        };
        refused(pass.launch(&stream, step));
    }
    // 64-bit keys cannot be in pairs with ids.
    let pairs = device.zeroed::<u64>(&stream, 2).unwrap();
    let mut sorted_ids = device.zeroed::<u32>(&stream, 2).unwrap();
    let mut scratch = device.zeroed::<u32>(&stream, 400).unwrap();
    let step = SortStep {
        digit: 0,
        input: SortInput::Pairs(In(&pairs)),
        offsets: In(&offsets),
        output: SortOutput::Ids(Out(&mut sorted_ids)),
        scratch: &mut scratch,
    };
    refused(pass.launch(&stream, step));
    let mut gathered = device.zeroed::<u8>(&stream, 6).unwrap();
    let ids = device.zeroed::<u32>(&stream, 2).unwrap();
    let gather = SortGather::new(&device).unwrap();
    refused(gather.launch(&stream, In(&keys), In(&ids), 3, Out(&mut gathered)));
}

#[test]
fn rows_in_order_detects_unsorted_rows() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let kernel = RowsInOrder::new(&device).unwrap();
        let told = |words: &[(KeyWidth, DeviceSlice<'_, u8>)], rows: usize| {
            let mut flag = device.upload(&stream, &[0u32]).unwrap();
            kernel.launch(&stream, words, rows, InOut(&mut flag)).unwrap();
            stream.read(&flag, ..).unwrap() == [0]
        };
        for rows in [0usize, 1, 2, 31, 32, 33, 255, 256, 257, 70_001] {
            // Two words: the first of 32 bits with ties, the second of 64 bits, beyond half of their values.
            let high: Vec<u32> = (0..rows).map(|row| 0x7fff_fff0 + (row / 3) as u32).collect();
            let low: Vec<u64> = (0..rows).map(|row| (u64::MAX - 5) + (row % 3) as u64).collect();
            let check = |high: &[u32], low: &[u64]| {
                let keys: Vec<(u32, u64)> = high.iter().copied().zip(low.iter().copied()).collect();
                let high = device
                    .upload(&stream, bytemuck::cast_slice::<_, u8>(high))
                    .unwrap();
                let low = device
                    .upload(&stream, bytemuck::cast_slice::<_, u8>(low))
                    .unwrap();
                let words = [
                    (KeyWidth::Four, high.slice(..).unwrap()),
                    (KeyWidth::Eight, low.slice(..).unwrap()),
                ];
                let expected = keys.is_sorted();
                assert_eq!(told(&words, rows), expected, "{rows} rows");
                let alone = [(KeyWidth::Eight, low.slice(..).unwrap())];
                assert_eq!(
                    told(&alone, rows),
                    keys.iter().map(|key| key.1).is_sorted(),
                    "{rows} rows"
                );
                expected
            };
            assert!(check(&high, &low));
            for place in [1, 2, rows / 2, rows.saturating_sub(1)] {
                if place == 0 || place >= rows {
                    continue;
                }
                let (mut high, mut low) = (high.clone(), low.clone());
                high.swap(place - 1, place);
                low.swap(place - 1, place);
                assert!(!check(&high, &low), "{rows} rows, swapped at {place}");
            }
        }
        let keys = device.upload(&stream, &[0u8; 16]).unwrap();
        let keys = || keys.slice(..).unwrap();
        let mut flag = device.upload(&stream, &[0u32]).unwrap();
        let short = kernel.launch(&stream, &[(KeyWidth::Eight, keys())], 3, InOut(&mut flag));
        assert!(matches!(short, Err(DeviceError::Range { .. })), "{short:?}");
        let many: Vec<_> = (0..=ORDER_WORDS).map(|_| (KeyWidth::Four, keys())).collect();
        let many = kernel.launch(&stream, &many, 2, InOut(&mut flag));
        assert!(matches!(many, Err(DeviceError::Range { .. })), "{many:?}");
    }
}
