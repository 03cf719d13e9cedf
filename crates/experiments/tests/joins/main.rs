//! Runs every experiment on joins on the emulated device, and each algorithm against its workload's answer.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;

use galatea_device::{Device, DeviceOptions, EmulatorOptions, PageOrder};
use galatea_experiments::joins::{
    Answer, Cooperation, EXPERIMENTS, GpuJoin, Morsels, PEER, Place, Placement, RadixJoin, Relations, Row,
    Scale, Shape, TableMemory, Workload, findings, no_partitioning, run,
};
use galatea_kernels::JoinHashing;

fn emulated(seed: u64) -> Device {
    let options = EmulatorOptions {
        seed,
        ..EmulatorOptions::default()
    };
    Device::emulated(options, DeviceOptions::default()).expect("the emulated device is always there")
}

/// Shapes with few and many rows, both widths, skew and absent keys.
fn shapes() -> Vec<Shape> {
    let mut shapes = Vec::new();
    for word_bytes in [8, 4] {
        for (domain, probe_rows) in [(1, 1), (2, 33), (33, 1), (700, 3000), (3001, 2999), (4096, 4096)] {
            shapes.push(Shape::uniform("test", word_bytes, domain, probe_rows));
        }
        let shape = Shape::uniform("test", word_bytes, 1500, 4000);
        for (zipf, selectivity) in [(0.5, 1.0), (1.0, 0.5), (1.75, 0.1), (0.0, 0.0), (0.0, 0.3)] {
            shapes.push(Shape {
                zipf,
                selectivity,
                ..shape
            });
        }
    }
    shapes
}

/// The words of the CPU's table.
fn words(shape: &Shape) -> Vec<AtomicU64> {
    let words = (shape.domain * shape.tuple_bytes()).div_ceil(8);
    (0..words).map(|_| AtomicU64::new(7)).collect()
}

/// The generated answer equals that of a map, before and after inputs change.
#[test]
fn answers_of_workloads_match_a_map() {
    let device = emulated(1);
    for shape in shapes() {
        let mut workload = Workload::new(&device, shape, 5).unwrap();
        let mut seen = Vec::new();
        for run in 0..3 {
            if run > 0 {
                workload.renew(run).unwrap();
            }
            let [(build_keys, build_payloads), (probe_keys, probe_payloads)] = workload.values();
            let mut map = HashMap::new();
            for (key, payload) in build_keys.iter().zip(&build_payloads) {
                assert!(*key < shape.domain);
                assert!(map.insert(*key, *payload).is_none(), "keys are distinct");
            }
            assert_eq!(map.len() as u64, shape.build_rows());
            let pairs = probe_keys.iter().zip(&probe_payloads);
            let found = pairs.filter_map(|(key, payload)| {
                Some(Answer {
                    sum: map.get(key)?.wrapping_add(*payload),
                    matches: 1,
                })
            });
            let answer = found.fold(Answer::default(), Answer::and);
            assert_eq!(answer, workload.answer(), "{shape:?}");
            if shape.selectivity == 1.0 {
                assert_eq!(answer.matches, shape.probe_rows);
            }
            seen.push(answer.sum);
        }
        if workload.answer().matches > 0 {
            assert!(seen[0] != seen[1] && seen[1] != seen[2], "{shape:?}: {seen:?}");
        }
    }
}

/// The rate of matches follows the selectivity.
#[test]
fn selectivity_is_the_fraction_of_matches() {
    let device = emulated(2);
    for selectivity in [0.1, 0.5, 0.9] {
        let shape = Shape {
            selectivity,
            ..Shape::uniform("test", 8, 10_000, 100_000)
        };
        let workload = Workload::new(&device, shape, 3).unwrap();
        let share = workload.answer().matches as f64 / 1e5;
        assert!((share - selectivity).abs() < 0.02, "{share} {selectivity}");
    }
}

/// Fewer rows of S, and other shapes in the same memory.
#[test]
fn workloads_are_shortened_and_reshaped() {
    let device = emulated(3);
    let shape = Shape::uniform("test", 8, 512, 4096);
    let mut workload = Workload::new(&device, shape, 1).unwrap();
    let whole = workload.answer();
    workload.use_probe_rows(1024);
    assert_eq!(workload.shape().probe_rows, 1024);
    assert_eq!(workload.answer().matches, 1024);
    assert_eq!(
        no_partitioning(&workload, &words(&shape)).answer,
        workload.answer()
    );
    workload.use_probe_rows(5000);
    assert_eq!(workload.answer(), whole);
    workload.reshape(Shape::uniform("test", 8, 100, 200)).unwrap();
    assert_eq!(
        no_partitioning(&workload, &words(&shape)).answer,
        workload.answer()
    );
    assert!(workload.reshape(Shape::uniform("test", 8, 513, 1)).is_err());
    assert!(workload.reshape(Shape::uniform("test", 8, 1, 4097)).is_err());
    assert!(workload.reshape(Shape::uniform("test", 4, 1, 1)).is_err());
}

#[test]
fn cpu_joins_return_the_answer() {
    let device = emulated(4);
    for shape in shapes() {
        let mut workload = Workload::new(&device, shape, 9).unwrap();
        let mut radix = RadixJoin::new(&shape).unwrap();
        let table = words(&shape);
        for run in 1..3 {
            workload.renew(run).unwrap();
            assert_eq!(
                no_partitioning(&workload, &table).answer,
                workload.answer(),
                "{shape:?}"
            );
            assert_eq!(radix.run(&workload).answer, workload.answer(), "radix, {shape:?}");
        }
    }
    // One partition, and more partitions than rows.
    for shape in shapes() {
        let workload = Workload::new(&device, shape, 10).unwrap();
        for bits in [0, 1, 7, 13] {
            let found = RadixJoin::with_bits(&shape, bits).unwrap().run(&workload);
            assert_eq!(found.answer, workload.answer(), "2^{bits} partitions, {shape:?}");
        }
    }
    let shape = Shape::uniform("test", 8, 400_000_000, 1);
    assert_eq!(galatea_experiments::joins::radix_bits(shape.domain), 13);
    assert_eq!(galatea_experiments::joins::radix_bits(1), 4);
}

#[test]
fn gpu_joins_return_the_answer_in_every_memory() {
    let (device, peer) = (emulated(5), emulated(11));
    let devices = (&device, Some(&peer));
    let mut join = GpuJoin::new(&device).unwrap();
    for shape in shapes() {
        let mut workload = Workload::new(&device, shape, 11).unwrap();
        let bytes = 2 * 8192 * 16;
        for placement in [
            Placement::Device,
            Placement::Host,
            Placement::Hybrid(bytes / 3, PageOrder::DeviceFirst),
            Placement::Hybrid(bytes / 3, PageOrder::Interleaved),
            Placement::Peer(0, PageOrder::DeviceFirst),
            Placement::Peer(bytes / 3, PageOrder::DeviceFirst),
            Placement::Peer(bytes / 2, PageOrder::Interleaved),
        ] {
            let memory = TableMemory::new(devices, join.stream(), bytes, placement).unwrap();
            let Some(memory) = memory else {
                continue;
            };
            for hashing in [JoinHashing::Perfect, JoinHashing::Linear] {
                workload.renew(3).unwrap();
                let slots = hashing.slots(shape.domain);
                let table = memory.table(hashing, slots, shape.word_bytes).unwrap();
                let found = join.run_in_place(&workload, &table).unwrap();
                assert_eq!(found.answer, workload.answer(), "{shape:?}, {placement}");
                for place in Place::ALL {
                    let stream = join.stream().clone();
                    let relations = Relations::new(devices, &stream, &shape, place).unwrap();
                    let mut relations = relations.expect("another device");
                    assert_eq!(relations.place(), place);
                    relations.fill(&stream, &workload).unwrap();
                    let found = relations.join(&mut join, &workload, &table).unwrap();
                    assert_eq!(
                        found.answer,
                        workload.answer(),
                        "{shape:?}, {placement}, {place:?}"
                    );
                }
            }
            assert!(memory.table(JoinHashing::Perfect, bytes, 8).is_err());
        }
    }
}

#[test]
fn cooperative_joins_return_the_answer() {
    let device = emulated(6);
    let join = GpuJoin::new(&device).unwrap();
    for morsels in [
        Morsels {
            cpu: 1 << 10,
            device: 4 << 10,
        },
        // The device takes all rows at once, and the CPU single rows.
        Morsels {
            cpu: 1,
            device: 1 << 30,
        },
    ] {
        let mut both = Cooperation::new(&device, morsels).unwrap();
        for shape in shapes() {
            let mut workload = Workload::new(&device, shape, 13).unwrap();
            let bytes = (shape.domain * shape.tuple_bytes()).next_multiple_of(16);
            let memory = |placement| {
                TableMemory::new((&device, None), join.stream(), bytes, placement)
                    .unwrap()
                    .unwrap()
            };
            let (on_device, on_host) = (memory(Placement::Device), memory(Placement::Host));
            let mut copy = both.host_table(bytes).unwrap();
            for run in 1..3 {
                workload.renew(run).unwrap();
                let TableMemory::Host(shared) = &on_host else {
                    panic!("the memory of the host")
                };
                let found = both.het(&join, &workload, shared).unwrap();
                assert_eq!(found.answer, workload.answer(), "Het, {shape:?}");
                assert!((0.0..=1.0).contains(&found.device_share));
                let TableMemory::Device(entries) = &on_device else {
                    panic!("the memory of the device")
                };
                let table = on_device
                    .table(JoinHashing::Perfect, shape.domain, shape.word_bytes)
                    .unwrap();
                let found = both
                    .gpu_het(&join, &workload, (&table, entries), &mut copy)
                    .unwrap();
                assert_eq!(found.answer, workload.answer(), "GPU+Het, {shape:?}");
                // Without a copy of the table, the CPU takes no part.
                if !Cooperation::copies(&shape) {
                    assert!((found.device_share - 1.0).abs() < 1e-9, "{found:?}");
                }
            }
        }
    }
}

/// Every experiment runs on the small scale with another device, and its checks hold.
#[test]
fn every_experiment_has_rows_and_findings() {
    let device = emulated(7);
    let scale = Scale {
        peer: Some(emulated(12)),
        ..Scale::small()
    };
    for name in EXPERIMENTS.into_iter().chain(PEER) {
        let mut rows: Vec<Row> = Vec::new();
        let notes = run(&device, name, &scale, &mut |row| rows.push(row)).unwrap();
        assert!(notes.is_empty(), "{notes:?}");
        assert!(rows.len() > 4, "{name}: {rows:?}");
        for row in &rows {
            assert_eq!((row.experiment, row.runs.len()), (name, 1));
            assert!(row.rate() > 0.0, "{}", row.csv());
            let fields = row.csv().split(',').count();
            assert_eq!(fields, Row::HEADER.split(',').count(), "{}", row.csv());
        }
        // The times are meaningless here, but no row may be missing.
        let found = findings(&rows);
        assert!(!found.is_empty(), "{name}");
        for finding in found {
            assert!(!finding.contains("was not measured"), "{finding}");
        }
    }
}

/// Tables and relations of another device have rows in each figure. Without one there is a note, and the
/// other places are measured.
#[test]
fn another_device_has_tables_and_relations() {
    let device = emulated(9);
    let scale = Scale {
        peer: Some(emulated(10)),
        ..Scale::small()
    };
    let rows_of = |name, scale: &Scale| {
        let mut rows: Vec<Row> = Vec::new();
        let notes = run(&device, name, scale, &mut |row| rows.push(row)).unwrap();
        (rows, notes)
    };
    for name in PEER {
        let (rows, _) = rows_of(name, &scale);
        for table in ["device", "other device", "two devices interleaved"] {
            assert!(rows.iter().any(|row| row.table == table), "{name}: {table}");
        }
        let other = |row: &&Row| row.algorithm.ends_with("(columns on the other device)");
        assert!(rows.iter().any(|row| other(&row)), "{name}");
        assert!(!rows.iter().all(|row| other(&row)), "{name}");
        let (rows, notes) = rows_of(name, &Scale::small());
        assert!(rows.is_empty());
        assert!(notes[0].contains("no other device"), "{notes:?}");
    }
    // Hashings, and orders of pages.
    let (rows, _) = rows_of("peer_tuples", &scale);
    for hashing in ["GPU perfect", "GPU linear probing"] {
        for table in ["device", "other device", "two devices", "two devices interleaved"] {
            let found = rows
                .iter()
                .any(|row| row.algorithm.starts_with(hashing) && row.table == table);
            assert!(found, "{hashing}, {table}");
        }
    }
    for name in ["relation_places", "table_places"] {
        let (with, notes) = rows_of(name, &scale);
        assert!(notes.is_empty(), "{notes:?}");
        let (without, notes) = rows_of(name, &Scale::small());
        assert_eq!(notes.len(), 1, "{notes:?}");
        assert!(notes[0].contains("no other device") && without.len() >= 6 && without.len() < with.len());
        for finding in findings(&without) {
            assert!(!finding.contains("was not measured"), "{finding}");
        }
    }
}

/// A share of the table on the device is that of its row.
#[test]
fn shares_of_tables_are_measured() {
    let device = emulated(13);
    let scale = Scale {
        peer: Some(emulated(14)),
        ..Scale::small()
    };
    for (name, orders) in [("shares", 1), ("peer_shares", 2)] {
        let mut rows: Vec<Row> = Vec::new();
        run(&device, name, &scale, &mut |row| rows.push(row)).unwrap();
        assert_eq!(rows.len(), 3 * (2 + 5 * orders), "{name}");
        for row in rows {
            assert!((row.table_share - row.value).abs() < 0.02, "{}", row.csv());
            assert_eq!(row.predicted.is_some(), row.value > 0.0 && row.value < 1.0);
        }
    }
}

/// Points after the time limit are noted.
#[test]
fn experiments_stop_at_the_time_limit() {
    let device = emulated(8);
    let scale = Scale {
        seconds: 0.0,
        ..Scale::small()
    };
    let mut rows = 0;
    let notes = run(&device, "skew", &scale, &mut |_| rows += 1).unwrap();
    assert_eq!((rows, notes.len()), (0, 1), "{notes:?}");
}
