//! Radix partitioning and joins of partitions.

use std::collections::BTreeMap;

use galatea_device::{Device, DeviceBuffer, DeviceOptions, EmulatorOptions, testing};
use galatea_kernels::flow::mix64;
use galatea_kernels::{
    KernelEntry, RadixAlgorithm, RadixBits, RadixCheck, RadixGather, RadixGrid, RadixHistogram, RadixJoin,
    RadixMaterialise, RadixOffsets, RadixOrder, RadixPair, RadixRows, RadixScatter, RadixSlice, RadixTable,
    RadixTuples, RadixValues,
};

use crate::compiles::{ARCHITECTURES, assert_compiles};

type Tuple = (u64, u64);

/// Devices with little and much shared memory, one that switches threads at every basic block, one that
/// reports races, and a GPU if available.
fn devices() -> Vec<Device> {
    let options = |seed, shared: u32| EmulatorOptions {
        seed,
        shared_memory_per_block: shared << 10,
        ..EmulatorOptions::default()
    };
    let mut all = vec![options(3, 99), options(9, 227)];
    all.push(EmulatorOptions {
        stress: true,
        ..options(1, 99)
    });
    let all = all.into_iter();
    let mut devices: Vec<Device> = all
        .map(|options| Device::emulated(options, DeviceOptions::default()).unwrap())
        .collect();
    devices.extend(testing::gpu());
    devices
}

/// Tuples with repeated keys.
fn tuples(count: usize, seed: u64) -> Vec<Tuple> {
    let of = |row: u64| (mix64(seed ^ row) % (count as u64 / 2 + 1), mix64(!row ^ seed));
    (0..count as u64).map(of).collect()
}

/// A partitioning of `tuples`: by list the tuples, in order.
fn partition(
    device: &Device,
    tuples: &[Tuple],
    (algorithm, bits, order): (RadixAlgorithm, RadixBits, RadixOrder),
    (columns, page_bits): (bool, Option<u32>),
) -> Vec<Vec<Tuple>> {
    let stream = device.stream().unwrap();
    let count = tuples.len() as u64;
    let grid = RadixGrid::new(count, 3);
    let keys: Vec<u64> = tuples.iter().map(|tuple| tuple.0).collect();
    let values: Vec<u64> = tuples.iter().map(|tuple| tuple.1).collect();
    let rows: Vec<u64> = tuples.iter().flat_map(|tuple| [tuple.0, tuple.1]).collect();
    let upload = |words: &[u64]| match words.is_empty() {
        true => device.zeroed(&stream, 2).unwrap(),
        false => device.upload(&stream, words).unwrap(),
    };
    let (keys, values, rows) = (upload(&keys), upload(&values), upload(&rows));
    let input = RadixTuples {
        keys: if columns { keys.address() } else { rows.address() },
        values: match columns {
            true => RadixValues::Column(values.address()),
            false => RadixValues::Rows,
        },
        count,
    };
    let parts = bits.parts();
    let counts = device
        .zeroed::<u32>(&stream, grid.blocks as usize * parts)
        .unwrap();
    let lists = order.lists(grid, bits);
    let starts = device.zeroed::<u32>(&stream, lists + 1).unwrap();
    // Words behind the output must not change.
    let room = 2 * tuples.len() + 64;
    let poison = vec![0x5a5a_5a5a_5a5a_5a5a_u64; room];
    let output = device.upload(&stream, &poison).unwrap();
    let pages = page_bits.map(|bits| {
        // Pages in descending order.
        let pages = tuples.len().div_ceil(1 << bits).max(1);
        let memory = device.zeroed::<u64>(&stream, (pages * 2) << bits).unwrap();
        let page = |page: usize| memory.address() + (((pages - 1 - page) * 16) << bits) as u64;
        let addresses: Vec<u64> = (0..pages).map(page).collect();
        let addresses = device.upload(&stream, &addresses).unwrap();
        (memory, addresses, pages, bits)
    });
    let target = match &pages {
        None => RadixRows::Array(output.address()),
        Some((_, addresses, _, bits)) => RadixRows::Pages {
            addresses: addresses.address(),
            bits: *bits,
        },
    };
    let histogram = RadixHistogram::new(device).unwrap();
    histogram
        .launch(&stream, input, bits, grid, counts.address())
        .unwrap();
    let offsets = RadixOffsets::new(device).unwrap();
    offsets
        .launch(&stream, (grid, bits, order), counts.address(), starts.address())
        .unwrap();
    let scatter = RadixScatter::new(device, algorithm).unwrap();
    let second = scatter.second_words(bits, grid.blocks).max(1);
    let second = device.zeroed::<u64>(&stream, second).unwrap();
    scatter
        .launch(
            &stream,
            input,
            (grid, bits),
            counts.address(),
            target,
            second.address(),
        )
        .unwrap();
    let sums = device.zeroed::<u64>(&stream, 2).unwrap();
    let check = RadixCheck::new(device).unwrap();
    check
        .launch(
            &stream,
            (target, count),
            (starts.address(), lists),
            bits,
            sums.address(),
        )
        .unwrap();
    let hashes = tuples.iter().map(|(key, value)| RadixCheck::hash(*key, *value));
    let sum = hashes.fold(0, u64::wrapping_add);
    assert_eq!(stream.read(&sums, ..).unwrap(), [sum, 0], "the check");

    let starts = stream.read(&starts, ..).unwrap();
    assert_eq!((starts[0], starts[lists]), (0, count as u32));
    let written = stream.read(&output, ..).unwrap();
    let end = if pages.is_some() { 0 } else { 2 * tuples.len() };
    assert_eq!(written[end..], poison[end..], "words behind the output");
    let written = match &pages {
        None => written,
        Some((memory, _, pages, bits)) => {
            let words = stream.read(memory, ..).unwrap();
            words.rchunks(2 << bits).take(*pages).flatten().copied().collect()
        }
    };
    let list = |list: usize| {
        let range = 2 * starts[list] as usize..2 * starts[list + 1] as usize;
        written[range].chunks(2).map(|row| (row[0], row[1])).collect()
    };
    (0..lists).map(list).collect()
}

#[test]
fn every_algorithm_writes_each_tuple_to_its_partition() {
    for (number, device) in devices().into_iter().enumerate() {
        for algorithm in RadixAlgorithm::ALL {
            for (bits, shift, raw) in [(1, 0, false), (4, 3, true), (9, 5, false), (11, 0, false)] {
                let bits = RadixBits { shift, bits, raw };
                for count in [0, 1, 31, 33, 2047, 9001] {
                    if count > 2047 && bits.bits > 9 && number > 0 {
                        continue;
                    }
                    let input = tuples(count, u64::from(bits.bits) + count as u64);
                    for (columns, order, pages) in [
                        (true, RadixOrder::Partitions, None),
                        (false, RadixOrder::Blocks, Some(8)),
                    ] {
                        let lists = partition(&device, &input, (algorithm, bits, order), (columns, pages));
                        let what = format!("{algorithm}, {bits:?}, {count} tuples, {order:?}");
                        let mut found: Vec<Tuple> = Vec::new();
                        for (list, tuples) in lists.into_iter().enumerate() {
                            let part = list % bits.parts();
                            assert!(tuples.iter().all(|tuple| bits.part(tuple.0) == part), "{what}");
                            found.extend(tuples);
                        }
                        let mut expected = input.clone();
                        expected.sort_unstable();
                        found.sort_unstable();
                        assert!(found == expected, "{what}");
                    }
                }
            }
        }
    }
}

#[test]
fn one_key_and_a_few_keys_are_partitioned() {
    let keys: [(u64, u32); 3] = [(1, 9), (3, 11), (40, 11)];
    for device in devices() {
        for algorithm in RadixAlgorithm::ALL {
            for (keys, bits) in keys {
                let bits = RadixBits {
                    shift: 0,
                    bits,
                    raw: false,
                };
                // Nine of ten tuples have one of the keys.
                let key = |row: u64| {
                    if row.is_multiple_of(10) {
                        mix64(row)
                    } else {
                        row % keys
                    }
                };
                let input: Vec<Tuple> = (0..5003).map(|row| (key(row), row)).collect();
                let choice = (algorithm, bits, RadixOrder::Partitions);
                let lists = partition(&device, &input, choice, (true, None));
                let mut found: Vec<Tuple> = lists.into_iter().flatten().collect();
                let mut expected = input;
                found.sort_unstable();
                expected.sort_unstable();
                assert!(found == expected, "{algorithm}, {keys} keys, {bits:?}");
            }
        }
    }
}

/// The sum of the payloads of both sides of all matches, and their number.
fn joined(build: &[Tuple], probe: &[Tuple]) -> [u64; 2] {
    let mut table: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for (key, value) in build {
        table.entry(*key).or_default().push(*value);
    }
    let mut sums = [0u64; 2];
    for (key, value) in probe {
        for other in table.get(key).into_iter().flatten() {
            sums[0] = sums[0].wrapping_add(value.wrapping_add(*other));
            sums[1] += 1;
        }
    }
    sums
}

#[test]
fn joins_of_partitions_find_all_matches() {
    for device in devices() {
        join_on(&device);
    }
}

/// Tables that hold a partition, and those that do not, with repeated keys; perfect hashing without them.
fn join_on(device: &Device) {
    let stream = device.stream().unwrap();
    let kernel = RadixJoin::new(device).unwrap();
    for (table, raw, most) in [
        (RadixTable::Chains(256), false, u32::MAX),
        (RadixTable::Chains(64), false, 104),
        (RadixTable::Perfect(3000), true, u32::MAX),
        (RadixTable::Perfect(3000), true, 64),
    ] {
        let bits = RadixBits {
            shift: 0,
            bits: 3,
            raw,
        };
        let build: Vec<Tuple> = match table {
            RadixTable::Chains(_) => tuples(3000, 1),
            RadixTable::Perfect(_) => (0..3000).map(|key| (key, mix64(key))).collect(),
        };
        let probe = tuples(5000, 2);
        let upload = |tuples: &[Tuple]| {
            let choice = (RadixAlgorithm::Linear, bits, RadixOrder::Partitions);
            let lists = partition(device, tuples, choice, (true, None));
            let mut starts = vec![0u32];
            for list in &lists {
                starts.push(starts[starts.len() - 1] + list.len() as u32);
            }
            let rows = lists.into_iter().flatten().flat_map(|tuple| [tuple.0, tuple.1]);
            let rows: Vec<u64> = rows.collect();
            let starts = device.upload(&stream, &starts).unwrap();
            (device.upload(&stream, &rows).unwrap(), starts)
        };
        let (build_rows, build_starts) = upload(&build);
        let (probe_rows, probe_starts) = upload(&probe);
        let next = device.zeroed::<u32>(&stream, 1).unwrap();
        let sums = device.zeroed::<u64>(&stream, 2).unwrap();
        let pair = RadixPair {
            build: build_rows.address(),
            build_starts: build_starts.address(),
            probe: probe_rows.address(),
            probe_starts: probe_starts.address(),
        };
        kernel
            .launch(
                &stream,
                pair,
                (bits, table, most),
                (next.address(), sums.address()),
                2,
            )
            .unwrap();
        let found = stream.read(&sums, ..).unwrap();
        assert_eq!(found, joined(&build, &probe), "{table:?}, {most}");
    }
}

#[test]
fn gather_copies_slices_in_order() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let words: Vec<u64> = (0..40_000).map(mix64).collect();
        let source = device.upload(&stream, &words).unwrap();
        let lengths = [0u32, 1, 255, 256, 257, 3, 5000, 0, 31, 1000];
        let mut slices = Vec::new();
        let (mut first, mut expected) = (100, Vec::new());
        for (number, count) in lengths.into_iter().enumerate() {
            let row = number * 700;
            slices.push(RadixSlice {
                rows: source.address() + 16 * row as u64,
                first,
                count,
            });
            first += count;
            if number >= 2 {
                expected.extend_from_slice(&words[2 * row..2 * (row + count as usize)]);
            }
        }
        let slices_device = device.upload(&stream, &slices).unwrap();
        let output = device.zeroed::<u64>(&stream, expected.len() + 2).unwrap();
        let gather = RadixGather::new(&device).unwrap();
        gather
            .launch(
                &stream,
                slices_device.address(),
                (2, lengths.len() as u32 - 2),
                (output.address(), slices[2].first),
                2,
            )
            .unwrap();
        expected.extend([0, 0]);
        assert!(stream.read(&output, ..).unwrap() == expected);
    }
}

/// The value of a tuple is its number, from any first number on, for all algorithms.
#[test]
fn tuples_are_numbered() {
    let bits = RadixBits {
        shift: 0,
        bits: 3,
        raw: true,
    };
    for device in devices() {
        let stream = device.stream().unwrap();
        for algorithm in RadixAlgorithm::ALL {
            for count in [1u64, 2, 33, 4099] {
                let keys: Vec<u64> = (0..count).map(|row| mix64(row) >> 20).collect();
                let input = device.upload(&stream, &keys).unwrap();
                let tuples = RadixTuples {
                    keys: input.address(),
                    values: RadixValues::Numbers(700),
                    count,
                };
                let grid = RadixGrid::new(count, 3);
                let counts = device
                    .zeroed::<u32>(&stream, grid.blocks as usize * bits.parts())
                    .unwrap();
                let starts = device.zeroed::<u32>(&stream, bits.parts() + 1).unwrap();
                let output = device.zeroed::<u64>(&stream, 2 * count as usize).unwrap();
                let scatter = RadixScatter::new(&device, algorithm).unwrap();
                let second = scatter.second_words(bits, grid.blocks).max(1);
                let second = device.zeroed::<u64>(&stream, second).unwrap();
                RadixHistogram::new(&device)
                    .unwrap()
                    .launch(&stream, tuples, bits, grid, counts.address())
                    .unwrap();
                let order = (grid, bits, RadixOrder::Partitions);
                RadixOffsets::new(&device)
                    .unwrap()
                    .launch(&stream, order, counts.address(), starts.address())
                    .unwrap();
                let rows = RadixRows::Array(output.address());
                scatter
                    .launch(
                        &stream,
                        tuples,
                        (grid, bits),
                        counts.address(),
                        rows,
                        second.address(),
                    )
                    .unwrap();
                let words = stream.read(&output, ..).unwrap();
                let mut found: Vec<Tuple> = words.chunks(2).map(|row| (row[1], row[0])).collect();
                found.sort_unstable();
                let expected: Vec<Tuple> = (700..).zip(keys).collect();
                assert!(found == expected, "{algorithm}, {count} tuples");
            }
        }
    }
}

#[test]
fn columns_are_summed_by_record_number() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let kernel = RadixMaterialise::new(&device).unwrap();
        let values: Vec<Vec<u64>> = (0..9u64)
            .map(|column| (0..500u64).map(|row| mix64(column << 32 | row)).collect())
            .collect();
        let columns: Vec<_> = values
            .iter()
            .map(|column| device.upload(&stream, column).unwrap())
            .collect();
        let addresses: Vec<u64> = columns.iter().map(DeviceBuffer::address).collect();
        let addresses = device.upload(&stream, &addresses).unwrap();
        for count in [1u64, 31, 256, 257, 20_001] {
            // One in seven elements is no record.
            let index: Vec<u64> = (0..count)
                .map(|at| if at % 7 == 3 { u64::MAX } else { mix64(at) % 500 })
                .collect();
            let records = index.iter().filter(|number| **number != u64::MAX);
            let uploaded = device.upload(&stream, &index).unwrap();
            for width in 0..=9usize {
                let of_record = |number: &u64| -> u64 {
                    let columns = values.iter().take(width);
                    columns
                        .map(|column| column[*number as usize])
                        .fold(0, u64::wrapping_add)
                };
                let sum = records.clone().map(of_record).fold(0, u64::wrapping_add);
                let sums = device.zeroed::<u64>(&stream, 2).unwrap();
                let input = (uploaded.address(), count);
                let columns = (addresses.address(), width as u32);
                kernel.launch(&stream, input, columns, sums.address(), 2).unwrap();
                let expected = [sum, records.clone().count() as u64];
                assert_eq!(stream.read(&sums, ..).unwrap(), expected, "{count}, {width}");
            }
        }
    }
}

#[test]
fn nvrtc_compiles_every_algorithm() {
    let Some(nvrtc) = testing::nvrtc() else { return };
    let entry: &KernelEntry = galatea_kernels::KERNELS
        .iter()
        .find(|kernel| kernel.name == "radix_scatter")
        .unwrap();
    for architecture in ARCHITECTURES {
        for algorithm in RadixAlgorithm::ALL {
            for pairs in [1, 2, 4] {
                let mut program = entry.program();
                program.options.extend(RadixScatter::options(algorithm, pairs));
                assert_compiles(&nvrtc, architecture, &program);
            }
        }
    }
}

/// Threads of these kernels communicate at barriers only.
#[test]
fn kernels_with_barriers_have_no_races() {
    let options = EmulatorOptions {
        seed: 5,
        races: true,
        shared_memory_per_block: 227 << 10,
        ..EmulatorOptions::default()
    };
    let device = Device::emulated(options, DeviceOptions::default()).unwrap();
    let bits = RadixBits {
        shift: 0,
        bits: 5,
        raw: false,
    };
    let input = tuples(9001, 3);
    for algorithm in RadixAlgorithm::ALL {
        for order in [RadixOrder::Partitions, RadixOrder::Blocks] {
            partition(&device, &input, (algorithm, bits, order), (true, None));
        }
    }
    join_on(&device);
}
