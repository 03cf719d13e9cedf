//! Runs every experiment on the link on the emulated device, and its checks.

use galatea_device::{Device, DeviceOptions, EmulatorOptions};
use galatea_experiments::transfer::{
    EXPERIMENTS, InPlace, Join, Measured, PEER, PeerWay, Scale, Source, TUPLE_BYTES, WITHOUT_MEANING,
    both_directions, by_selectivity, by_selectivity_on_cpu, cpu_reads, findings, latency, peer_reads, rates,
    run, two_way_methods,
};
use galatea_memory::transfer::{Access, Method, TransferOptions};

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

#[test]
fn measurements_verify_moved_values() {
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

/// Rows selected over every transfer method, with branches and with predication. The sums are compared with
/// the host's.
#[test]
fn selections_run_over_every_transfer_method() {
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

/// A chain of dependent loads ends at the right place, in the host's memory and in the device's.
#[test]
fn latency_chains_end_at_the_expected_position() {
    let device = emulated(13);
    let pulled = [Method::ZeroCopy, Method::UnifiedMigration].map(Source::Way);
    for source in pulled.into_iter().chain([Source::DeviceMemory, Source::Cpu]) {
        let rate = latency(&device, source, 64 << 10, 700, 2).unwrap();
        assert_eq!((rate.source, rate.values.len()), (source, 2));
        assert!(rate.values.iter().all(|value| *value > 0.0), "{rate:?}");
    }
}

/// Every experiment runs on the small scale, and its checks hold.
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
        // The times are meaningless here, but no row may be missing.
        for finding in findings(&rows) {
            assert!(!finding.contains("was not measured"), "{finding}");
        }
    }
}

/// Chains grow up to the maximum memory.
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

/// The CPU reads and selects correctly for sizes that are not multiples of its threads.
#[test]
fn cpu_baselines_are_measured() {
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

/// Both directions move their own bytes at once, and the same number alone.
#[test]
fn bidirectional_transfers_are_measured() {
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

/// Tuples of every transfer method find their entries, in small and large tables.
#[test]
fn hash_probes_run_over_every_transfer_method() {
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

/// Tuples in the memory of another device find their entries in every way, and the findings name the others.
#[test]
fn tuples_of_another_device_are_probed() {
    let (device, peer) = (emulated(18), emulated(19));
    for bytes in [16 * 16 * 37, 400 << 10] {
        let scale = Scale {
            bytes,
            runs: 2,
            peer: Some(peer.clone()),
            ..Scale::small()
        };
        let mut rows = Vec::new();
        run(&device, PEER, &scale, &mut |row| rows.push(row)).unwrap();
        for way in PeerWay::ALL {
            let found = rows.iter().filter(|row| row.rate.source == Source::Peer(way));
            assert_eq!(found.count(), 2, "{way}: a row per unit");
        }
        let lines = findings(&rows);
        for line in &lines {
            assert!(!line.contains("was not measured"), "{line}");
        }
        let last = lines.last().expect("findings");
        assert!(
            WITHOUT_MEANING.iter().all(|method| last.contains(method.name())),
            "{last}"
        );
    }
    let mut rows = 0;
    run(&device, PEER, &Scale::small(), &mut |_| rows += 1).unwrap();
    assert_eq!(rows, 0, "no rows without another device");
    for (piece, random) in [(512, false), (16, true), (4, true)] {
        let rate = peer_reads((&device, &peer), 64 << 10, (piece, random), 2).unwrap();
        assert_eq!(rate.map(|rate| rate.values.len()), Some(2));
    }
}
