//! Every way across the link gives kernels the host's bytes and the host the kernels'.

use galatea_device::{Device, DeviceOptions, EmulatorOptions};
use galatea_kernels::{LinkAccess, Pieces};
use galatea_memory::transfer::{
    Access, Capabilities, EXPERIMENTS, InPlace, Join, Measured, Method, Scale, Source, TUPLE_BYTES,
    TransferError, TransferOptions, both_directions, by_selectivity, by_selectivity_on_cpu, cpu_reads,
    findings, latency, open, rates, run, two_way_methods,
};

fn emulated(seed: u64) -> Device {
    let options = EmulatorOptions {
        seed,
        ..EmulatorOptions::default()
    };
    Device::emulated(options, DeviceOptions::default()).expect("the emulated device is always there")
}

const PRESENT: [Method; 8] = [
    Method::Pageable,
    Method::Staged,
    Method::DynamicPinning,
    Method::Pinned,
    Method::PinnedPieces,
    Method::UnifiedPrefetch,
    Method::UnifiedMigration,
    Method::ZeroCopy,
];

fn options() -> TransferOptions {
    TransferOptions {
        chunk_bytes: 192 << 10,
        threads: 3,
        piece_bytes: 64 << 10,
    }
}

/// Pieces that cover all bytes at an address.
fn all(address: u64, bytes: usize, writes: bool, seed: u64) -> Pieces {
    Pieces {
        address,
        bytes: bytes as u64,
        piece: bytes as u64,
        count: 1,
        random: false,
        writes,
        seed,
    }
}

#[test]
fn kernels_read_what_the_host_wrote() {
    let device = emulated(1);
    let stream = device.stream().unwrap();
    let kernel = LinkAccess::new(&device).unwrap();
    let mut sum = device.zeroed::<u64>(&stream, 1).unwrap();
    for method in PRESENT {
        let bytes = 400 << 10;
        let mut transfer = open(&device, method, bytes, &options()).unwrap();
        assert_eq!(transfer.method(), method);
        assert!(
            transfer.host().unwrap().iter().all(|byte| *byte == 0),
            "{method} begins with zeros"
        );
        // Lengths around the pieces, starts within; each twice, with other bytes.
        for (round, len) in [4_usize, 128, 4092, 4096, 4100, 65536, 65540, 192 << 10]
            .into_iter()
            .enumerate()
        {
            for start in [0, 4, 4096, 200 << 10] {
                let range = start..start + len;
                let words: &mut [u32] = bytemuck::cast_slice_mut(transfer.host().unwrap());
                for (at, word) in words.iter_mut().enumerate() {
                    *word = (at as u32).wrapping_mul(2_654_435_761).wrapping_add(round as u32);
                }
                let own = &words[start / 4..(start + len) / 4];
                let expected = own.iter().map(|word| u64::from(*word)).sum::<u64>();
                stream.fill(&mut sum, 0).unwrap();
                let address = transfer.bring(&stream, range).unwrap();
                kernel
                    .launch(&stream, all(address, len, false, 0), &mut sum)
                    .unwrap();
                let found = stream.read(&sum, ..).unwrap();
                assert_eq!(found, [expected], "{method}, {len} bytes from {start}");
            }
        }
    }
}

#[test]
fn the_host_reads_what_kernels_wrote() {
    let device = emulated(2);
    let stream = device.stream().unwrap();
    let kernel = LinkAccess::new(&device).unwrap();
    let mut sum = device.zeroed::<u64>(&stream, 1).unwrap();
    for method in PRESENT {
        let bytes = 300 << 10;
        let mut transfer = open(&device, method, bytes, &options()).unwrap();
        for (round, (start, len)) in [
            (0, 4),
            (8, 4096),
            (4096, 65540),
            (0, 192 << 10),
            (100 << 10, 192 << 10),
        ]
        .into_iter()
        .enumerate()
        {
            let seed = round as u64 + 5;
            transfer.host().unwrap().fill(0xa5);
            let address = transfer.room(&stream, start..start + len).unwrap();
            kernel
                .launch(&stream, all(address, len, true, seed), &mut sum)
                .unwrap();
            transfer.collect(&stream, start..start + len).unwrap();
            let words: &[u32] = bytemuck::cast_slice(transfer.host().unwrap());
            for (at, word) in words.iter().enumerate() {
                let inside = (start / 4..(start + len) / 4).contains(&at);
                let expected = if inside {
                    LinkAccess::written(seed, (at - start / 4) as u64)
                } else {
                    0xa5a5_a5a5
                };
                assert_eq!(*word, expected, "word {at}, {method}, {len} bytes from {start}");
            }
        }
    }
}

#[test]
fn two_ranges_are_there_at_once() {
    let device = emulated(3);
    let stream = device.stream().unwrap();
    let kernel = LinkAccess::new(&device).unwrap();
    let mut sum = device.zeroed::<u64>(&stream, 1).unwrap();
    for method in PRESENT {
        let mut transfer = open(&device, method, 128 << 10, &options()).unwrap();
        let words: &mut [u32] = bytemuck::cast_slice_mut(transfer.host().unwrap());
        words
            .iter_mut()
            .enumerate()
            .for_each(|(at, word)| *word = at as u32);
        let first = transfer.bring(&stream, 0..4096).unwrap();
        let second = transfer.bring(&stream, 64 << 10..68 << 10).unwrap();
        kernel
            .launch(&stream, all(first, 4096, false, 0), &mut sum)
            .unwrap();
        kernel
            .launch(&stream, all(second, 4096, false, 0), &mut sum)
            .unwrap();
        let expected: u64 = (0..1024).sum::<u64>() + (16384..16384 + 1024).sum::<u64>();
        assert_eq!(stream.read(&sum, ..).unwrap(), [expected], "{method}");
        stream.fill(&mut sum, 0).unwrap();
    }
}

#[test]
fn what_a_device_lacks_is_said_with_its_attributes() {
    let device = emulated(4);
    let capabilities = Capabilities::probe(&device);
    for method in PRESENT {
        assert!(capabilities.has(method).is_ok(), "{method}");
    }
    let Err(error) = open(&device, Method::Coherence, 4096, &options()) else {
        panic!("coherence without a coherent link")
    };
    assert!(matches!(error, TransferError::Absent(_)));
    let text = error.to_string();
    assert!(
        text.contains("coherence is not available") && text.contains("attribute 88, is 0"),
        "{text}"
    );
    assert_eq!(Method::ALL.len(), PRESENT.len() + 1);
}

#[test]
fn a_range_longer_than_a_chunk_is_refused() {
    let device = emulated(5);
    let stream = device.stream().unwrap();
    for method in [Method::Pageable, Method::Staged, Method::Pinned] {
        let mut transfer = open(&device, method, 1 << 20, &options()).unwrap();
        let error = transfer
            .bring(&stream, 0..(192 << 10) + 1)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("196609 bytes") && error.contains("196608") && error.contains("chunk_bytes"),
            "{error}"
        );
    }
    for method in [Method::UnifiedMigration, Method::ZeroCopy] {
        let mut transfer = open(&device, method, 1 << 20, &options()).unwrap();
        assert!(transfer.bring(&stream, 0..(1 << 20) + 4).is_err(), "{method}");
    }
}

/// Managed memory counts as the device's: more than the budget has is refused, not tried.
#[test]
fn managed_memory_stays_below_the_budget() {
    let device = emulated(6);
    let used = device.budget().used();
    let more = device.info().total_memory as usize + 1;
    assert!(open(&device, Method::UnifiedMigration, more, &options()).is_err());
    {
        let _transfer = open(&device, Method::UnifiedPrefetch, 1 << 20, &options()).unwrap();
        assert!(device.budget().used() >= used + (1 << 20));
    }
    assert_eq!(device.budget().used(), used);
}

#[test]
fn measurements_check_what_they_move() {
    let device = emulated(7);
    let found = rates(&device, 400 << 10, &options(), 1).unwrap();
    assert_eq!(found.len(), 2 * PRESENT.len());
    assert!(
        found
            .iter()
            .all(|rate| rate.values.len() == 1 && rate.values[0] > 0.0)
    );
    for method in [Method::ZeroCopy, Method::UnifiedMigration] {
        let mut memory = InPlace::new(&device, method, 256 << 10).unwrap();
        for access in [Access::Read, Access::Write] {
            for (piece, shift) in [(4, 0), (8, 0), (16, 0), (96, 4), (128, 4), (512, 16), (4096, 64)] {
                for random in [false, true] {
                    let rate = memory.rate(access, (piece, shift, random), 2).unwrap();
                    assert_eq!((rate.source, rate.access), (Source::Way(method), access));
                    assert_eq!((rate.piece, rate.random, rate.values.len()), (piece, random, 2));
                }
            }
        }
    }
}

/// Rows selected over every way, by branches and predicated: the sums are compared with the host's.
#[test]
fn rows_are_selected_over_every_way() {
    let device = emulated(12);
    let options = TransferOptions {
        chunk_bytes: 192 << 8,
        ..options()
    };
    for method in PRESENT {
        for selected in [0.0, 0.01, 0.5, 1.0] {
            for predicated in [false, true] {
                // Whole chunks and part of one.
                let bytes = 3 * (192 << 8) + 12 * 37;
                let rate =
                    by_selectivity(&device, method, bytes, &options, (selected, predicated), 1).unwrap();
                assert_eq!((rate.source, rate.values.len()), (Source::Way(method), 1));
            }
        }
    }
}

/// A chain that waits for each load leads to the right place, in the host's memory and in the device's.
#[test]
fn latencies_are_of_chains_that_lead_somewhere() {
    let device = emulated(13);
    let pulled = [Method::ZeroCopy, Method::UnifiedMigration].map(Source::Way);
    for source in pulled.into_iter().chain([Source::DeviceMemory, Source::Cpu]) {
        let rate = latency(&device, source, 64 << 10, 700, 2).unwrap();
        assert_eq!((rate.source, rate.values.len()), (source, 2));
        assert!(rate.values.iter().all(|value| *value > 0.0), "{rate:?}");
    }
}

/// Every experiment runs, on its small scale, and its checks hold.
#[test]
fn every_experiment_has_rows() {
    let device = emulated(14);
    let scale = Scale {
        bytes: 384 << 10,
        runs: 1,
        ..Scale::small()
    };
    for name in EXPERIMENTS {
        let mut rows = Vec::new();
        run(&device, name, &scale, &mut |row| rows.push(row)).unwrap();
        assert!(!rows.is_empty(), "{name}");
        for row in &rows {
            assert_eq!(
                (row.experiment, row.rate.values.len()),
                (name, 1),
                "{}",
                row.csv()
            );
            assert!(row.rate.values[0] > 0.0, "{}", row.csv());
            let fields = row.csv().split(',').count();
            assert_eq!(fields, Measured::HEADER.split(',').count(), "{}", row.csv());
        }
        // The times mean nothing here, but no row is missing.
        for finding in findings(&rows) {
            assert!(!finding.contains("was not measured"), "{finding}");
        }
    }
}

/// Chains grow up to the most memory that they may have.
#[test]
fn chains_have_all_extents_and_strides() {
    let device = emulated(15);
    let mut rows = Vec::new();
    run(&device, "tlb", &Scale::small(), &mut |row| rows.push(row)).unwrap();
    let of = |source, stride| {
        let rows = rows.iter().filter(move |row| row.rate.source == source);
        let chains = rows.filter_map(|row| row.reach);
        let extents = chains
            .filter(|chain| chain.stride == stride)
            .map(|chain| chain.extent >> 10);
        extents.collect::<Vec<_>>()
    };
    for stride in Scale::small().extents.strides {
        assert_eq!(
            of(Source::DeviceMemory, stride),
            [128, 192, 256, 384, 512, 768, 1024]
        );
        assert_eq!(
            of(Source::Way(Method::ZeroCopy), stride),
            [128, 192, 256, 384, 512]
        );
    }
    assert!(rows.iter().all(|row| row.unit == "ns"));
}

/// The CPU reads and selects what is there, of sizes that its threads do not divide.
#[test]
fn the_cpu_is_measured_beside_the_device() {
    for bytes in [4, 400, 4 * 1021, 1 << 20] {
        for random in [false, true] {
            let rate = cpu_reads(bytes, random, 2).unwrap();
            assert_eq!((rate.source, rate.values.len()), (Source::Cpu, 2));
        }
    }
    let options = TransferOptions {
        chunk_bytes: 192 << 8,
        ..options()
    };
    for selected in [0.0, 0.013, 0.5, 1.0] {
        for predicated in [false, true] {
            let bytes = 3 * (192 << 8) + 12 * 37;
            let rate = by_selectivity_on_cpu(bytes, &options, (selected, predicated), 1).unwrap();
            assert_eq!((rate.source, rate.values.len()), (Source::Cpu, 1));
        }
    }
}

/// Both directions move their own bytes at once, and as many alone.
#[test]
fn both_directions_are_moved_at_once() {
    let device = emulated(16);
    let methods = two_way_methods(&device);
    assert_eq!(methods.len(), PRESENT.len() - 2);
    for method in methods {
        let options = TransferOptions {
            chunk_bytes: 64 << 10,
            ..options()
        };
        let rates = both_directions(&device, method, 200 << 10, &options, 2).unwrap();
        for (rate, access) in [
            (&rates.reads, Access::Read),
            (&rates.writes, Access::Write),
            (&rates.both, Access::Read),
        ] {
            assert_eq!((rate.source, rate.access), (Source::Way(method), access));
            assert_eq!(rate.values.len(), 2);
        }
    }
}

/// Tuples of every way find their entries, in tables of few and of many.
#[test]
fn tables_are_probed_over_every_way() {
    let device = emulated(17);
    for tuples in [1_usize, 31, 32, 33, 4097] {
        let bytes = TUPLE_BYTES * tuples;
        let mut join = Join::new(&device, bytes).unwrap();
        for method in PRESENT {
            let options = TransferOptions {
                chunk_bytes: TUPLE_BYTES * 1000,
                ..options()
            };
            let rate = join.rate(&device, method, bytes, &options, 2).unwrap();
            assert_eq!((rate.source, rate.values.len()), (Source::Way(method), 2));
        }
    }
}
