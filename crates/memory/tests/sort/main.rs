//! Sorts rows by key words, on the emulated device and on a GPU if one is present.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use galatea_device::{Device, DeviceBuffer, DeviceOptions, EmulatorOptions, Stream, testing};
use galatea_kernels::KeyWidth;
use galatea_memory::regions::MemoryManager;
use galatea_memory::{KeyWord, RadixSort, SortError, SortedRows};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// An emulated device with that much memory. Odd seeds switch threads at every basic block.
fn emulated(seed: u64, memory: Option<u64>) -> Device {
    let options = EmulatorOptions {
        seed,
        stress: seed % 2 == 1,
        ..EmulatorOptions::default()
    };
    let device = Device::emulated(options, DeviceOptions::default()).unwrap();
    device.budget().set_limit(memory);
    device
}

fn devices() -> Vec<Device> {
    let mut devices: Vec<Device> = [0, 3].map(|seed| emulated(seed, None)).into();
    devices.extend(testing::gpu());
    devices
}

fn upload(device: &Device, stream: &Stream, width: KeyWidth, keys: &[u64]) -> DeviceBuffer<u8> {
    let bytes: Vec<u8> = match width {
        KeyWidth::Four => keys.iter().flat_map(|key| (*key as u32).to_ne_bytes()).collect(),
        KeyWidth::Eight => keys.iter().flat_map(|key| key.to_ne_bytes()).collect(),
    };
    device.upload(stream, &bytes).unwrap()
}

/// Sorts rows by words of these widths, and compares with the standard library's stable sort.
fn check(device: &Device, words: &[(KeyWidth, Vec<u64>)], rows: usize, what: &str) -> SortedRows {
    check_sort(device, words, rows, what, |sort| sort)
}

/// Like [`check`], for a sort that may omit lower digits of any number of rows.
fn check_leaving_out(device: &Device, words: &[(KeyWidth, Vec<u64>)], rows: usize, what: &str) -> SortedRows {
    check_sort(device, words, rows, what, |sort| sort.leaving_out_from(0))
}

fn check_sort(
    device: &Device,
    words: &[(KeyWidth, Vec<u64>)],
    rows: usize,
    what: &str,
    settings: impl FnOnce(RadixSort<'_>) -> RadixSort<'_>,
) -> SortedRows {
    let stream = device.stream().unwrap();
    let manager = MemoryManager::new(device).unwrap();
    let mut buffers: Vec<DeviceBuffer<u8>> = words
        .iter()
        .map(|(width, keys)| upload(device, &stream, *width, keys))
        .collect();
    let mut keys: Vec<KeyWord> = (buffers.iter_mut().zip(words))
        .map(|(values, (width, _))| KeyWord {
            width: *width,
            values,
        })
        .collect();
    let sort = settings(RadixSort::new(&manager));
    let sorted = sort.sort(&stream, &mut keys, rows).unwrap();
    let mut expected: Vec<u32> = (0..rows as u32).collect();
    expected.sort_by_key(|row| {
        words
            .iter()
            .map(|(_, keys)| keys[*row as usize])
            .collect::<Vec<_>>()
    });
    match &sorted.ids {
        Some(ids) => assert_eq!(stream.read(ids, ..).unwrap(), expected, "{rows} rows, {what}"),
        None => assert!(
            expected.is_sorted(),
            "{rows} rows, {what}: not in order as they are"
        ),
    }
    sorted
}

/// A random word: of all bits, of few values, of one value, of small values, of values in the upper bits.
fn word(random: &mut SmallRng, rows: usize) -> (KeyWidth, Vec<u64>) {
    let width = KeyWidth::ALL[random.random_range(0..2)];
    let bits = 8 * width.bytes() as u32;
    let shape = random.random_range(0..5);
    let keys = (0..rows).map(|_| {
        let key: u64 = random.random();
        let key = match shape {
            0 => key,
            1 => key % 3,
            2 => 0x1234_5678,
            3 => key % 100_000,
            _ => (key % 7) << (bits - 3),
        };
        key & u64::MAX >> (64 - bits)
    });
    (width, keys.collect())
}

#[test]
fn rows_are_sorted_by_several_words() {
    for device in devices() {
        for seed in 0..24u64 {
            let mut random = SmallRng::seed_from_u64(seed);
            let rows = [0, 1, 2, 31, 32, 33, 1000, 5000, 13_000][random.random_range(0..9)];
            let words: Vec<_> = (0..random.random_range(0..4))
                .map(|_| word(&mut random, rows))
                .collect();
            check(&device, &words, rows, &format!("seed {seed}"));
            check_leaving_out(&device, &words, rows, &format!("leaving out, seed {seed}"));
        }
    }
}

/// Keys with upper bits that distinguish most of them, all but a few, or far fewer than the digits suggest.
#[test]
fn sort_skips_lower_digits_of_random_keys() {
    let random = |at: u64| at.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let rows = 20_000;
    let of = |key: &dyn Fn(u64) -> u64| vec![(KeyWidth::Eight, (0..rows).map(key).collect())];
    for device in devices() {
        let mut draws = SmallRng::seed_from_u64(6);
        let drawn: Vec<u64> = (0..rows).map(|_| draws.random()).collect();
        let words = of(&|at| drawn[at as usize]);
        let sorted = check_leaving_out(&device, &words, rows as usize, "random");
        assert_eq!(sorted.passes, 3);
        // Equal keys, however many, are no reason to sort by more digits.
        let words = of(&|at| drawn[(random(at) % 50) as usize]);
        let sorted = check_leaving_out(&device, &words, rows as usize, "few values");
        assert!(sorted.passes < 8, "{} passes", sorted.passes);
        // Dependent digits, which the sample detects.
        let words = of(&|at| ((at % 256) * 0x0101_0101) << 32 | drawn[at as usize] >> 32);
        let sorted = check_leaving_out(&device, &words, rows as usize, "upper digits are one");
        assert_eq!(sorted.passes, 6);
        // Rows between those of the sample share their upper digits. This is detected after the passes over
        // these digits.
        let sampled: Vec<u64> = (0..1024).map(|at| at * rows / 1024).collect();
        let words = of(&|at| match at {
            9_000..9_060 if !sampled.contains(&at) => drawn[0] >> 40 << 40 | drawn[at as usize] >> 24,
            _ => drawn[at as usize],
        });
        let sorted = check_leaving_out(&device, &words, rows as usize, "a run");
        assert_eq!(sorted.passes, 3 + 8);
        // The preceding and following words keep their order.
        let mut words = of(&|at| random(at) % 3);
        words.extend(of(&|at| drawn[at as usize]));
        words.extend(of(&|at| drawn[at as usize] % 7));
        check_leaving_out(&device, &words, rows as usize, "between others");
    }
}

#[test]
fn sort_skips_digits_shared_by_all_keys() {
    let device = emulated(1, None);
    let keys: Vec<u64> = (0..300)
        .map(|at| 0x1100_0000_2200_0033 | (at % 256) << 24)
        .collect();
    let sorted = check(&device, &[(KeyWidth::Eight, keys)], 300, "one digit");
    assert_eq!(sorted.passes, 1);
    let sorted = check(&device, &[(KeyWidth::Eight, vec![5; 300])], 300, "all equal");
    assert!(sorted.ids.is_none() && sorted.passes == 0);
    let few = (KeyWidth::Four, (0..300).map(|at| at % 2).collect());
    let sorted = check(
        &device,
        &[few, (KeyWidth::Eight, (0..300).rev().collect())],
        300,
        "three digits",
    );
    assert_eq!(sorted.passes, 3);
}

/// Words may have room for more rows than are sorted.
#[test]
fn sort_leaves_rows_beyond_the_last_unchanged() {
    let device = emulated(2, None);
    let keys: Vec<u64> = (0..1000).rev().collect();
    check(&device, &[(KeyWidth::Eight, keys)], 600, "of 1000");
}

#[test]
fn sort_beyond_memory_returns_an_error() {
    let rows = 100_000;
    let device = emulated(4, Some(2 << 20));
    let stream = device.stream().unwrap();
    let manager = MemoryManager::new(&device).unwrap();
    let keys: Vec<u64> = (0..rows).rev().collect();
    let mut values = upload(&device, &stream, KeyWidth::Eight, &keys);
    let mut words = [KeyWord {
        width: KeyWidth::Eight,
        values: &mut values,
    }];
    let error = RadixSort::new(&manager)
        .sort(&stream, &mut words, rows as usize)
        .unwrap_err();
    assert!(
        matches!(error, SortError::Memory { limit, .. } if limit == 2 << 20),
        "{error}"
    );
    assert!(RadixSort::scratch_bytes(&[KeyWidth::Eight], rows) > 16 * rows);
    stream.synchronize().unwrap();
    drop(values);
    // The memory that it had allocated is free again.
    stream.synchronize().unwrap();
    assert_eq!(device.budget().available(), 2 << 20);
}
