//! Runs every experiment on partitioned joins on the emulated device, and its checks.

use galatea_device::{Device, DeviceOptions, EmulatorOptions};
use galatea_experiments::partitioned::{
    EXTRA, FIGURES, First, Inputs, Join, Options, Rig, Row, Scale, findings, run,
};
use galatea_kernels::RadixAlgorithm;

fn emulated(seed: u64) -> Device {
    let options = EmulatorOptions {
        seed,
        ..EmulatorOptions::default()
    };
    Device::emulated(options, DeviceOptions::default()).expect("the emulated device is always there")
}

/// Every first pass, with all, some and no pages in host memory, and partitions that need several batches and
/// several tables.
#[test]
fn joins_find_all_matches() {
    let device = emulated(3);
    let mut rig = Rig::new(&device, 1 << 16).unwrap();
    let firsts = RadixAlgorithm::ALL.map(First::Direct).into_iter();
    let firsts = firsts.chain(RadixAlgorithm::ALL.map(First::Staged));
    let firsts = firsts.chain(RadixAlgorithm::ALL.map(First::Refined));
    for (number, first) in firsts.chain([First::Cpu]).enumerate() {
        let (build, probe) = (3000 + number, 7001);
        let mut inputs = Inputs::new(&device, build, probe).unwrap();
        inputs.fill(build, probe, number as u64).unwrap();
        for (limit, batch, entries, perfect) in [
            (u64::MAX, 1 << 20, 256, false),
            (80 << 10, 300, 100, true),
            (80 << 10, 1000, 40, false),
            (0, 100_000, 512, true),
        ] {
            let options = Options {
                first,
                limit,
                batch,
                entries,
                perfect,
                bits: (entries < 256).then_some((3, 2)),
                chunk_bits: 9,
                page_bits: 6,
                heads: 64,
                ..Options::new(&rig)
            };
            let mut join = Join::new(&mut rig, &inputs, options).unwrap();
            for run in 0..2 {
                inputs.refresh(run).unwrap();
                let joined = join.run(&rig, &inputs).unwrap();
                let expected = [inputs.sum(), probe as u64];
                assert_eq!(joined.sums, expected, "{options:?}, run {run}");
            }
            let spilled = join.spilled();
            let expected = if first == First::Cpu { 0 } else { limit };
            match expected {
                u64::MAX => assert_eq!(spilled, 0.0),
                0 => assert_eq!(spilled, 1.0),
                _ => assert!((0.3..0.7).contains(&spilled), "{spilled}"),
            }
        }
    }
}

/// The CPU's prefix sum before a direct pass, and record numbers with a join index.
#[test]
fn prefix_sums_and_indexes_find_all_matches() {
    let device = emulated(7);
    let mut rig = Rig::new(&device, 1 << 16).unwrap();
    let (build, probe) = (2901, 6007);
    let mut inputs = Inputs::new(&device, build, probe).unwrap();
    inputs.fill(build, probe, 3).unwrap();
    for (limit, batch, entries, perfect) in [
        (u64::MAX, 1 << 20, 256, false),
        (40 << 10, 300, 100, true),
        (0, 1000, 40, false),
    ] {
        let options = Options {
            limit,
            batch,
            entries,
            perfect,
            chunk_bits: 9,
            page_bits: 6,
            heads: 64,
            ..Options::new(&rig)
        };
        let direct = Options {
            first: First::Direct(RadixAlgorithm::Shared),
            cpu_prefix_sum: true,
            ..options
        };
        let refined = Options {
            index: true,
            ..options
        };
        let mut join = Join::new(&mut rig, &inputs, direct).unwrap();
        let mut indexed = Join::new(&mut rig, &inputs, refined).unwrap();
        for run in 0..2 {
            inputs.refresh(run).unwrap();
            let joined = join.run(&rig, &inputs).unwrap();
            assert_eq!(joined.sums, [inputs.sum(), probe as u64], "{direct:?}, run {run}");
            let joined = indexed.run(&rig, &inputs).unwrap();
            assert_eq!(
                joined.sums,
                [inputs.numbers(), probe as u64],
                "{refined:?}, run {run}"
            );
            // Each tuple of the probe side has one match.
            let mut index = indexed.read_index(&rig).unwrap();
            index.sort_unstable();
            assert!(index.into_iter().eq(0..probe as u64), "{refined:?}, run {run}");
        }
    }
}

/// Partitions of the CPU in several tasks, copied to the device in several batches.
#[test]
fn passes_alone_have_all_tuples() {
    let device = emulated(9);
    let mut rig = Rig::new(&device, 1 << 16).unwrap();
    let mut inputs = Inputs::new(&device, 900, 5001).unwrap();
    inputs.fill(900, 5001, 1).unwrap();
    for first in [
        First::Cpu,
        First::Direct(RadixAlgorithm::Hierarchical),
        First::Staged(RadixAlgorithm::Linear),
    ] {
        for limit in [0, u64::MAX] {
            let options = Options {
                first,
                limit,
                task_bits: 7,
                chunk_bits: 9,
                page_bits: 6,
                bits: Some((5, 1)),
                ..Options::new(&rig)
            };
            let mut join = Join::new(&mut rig, &inputs, options).unwrap();
            for run in 0..2 {
                inputs.refresh(run).unwrap();
                let found = join.partition(&rig, &inputs).unwrap();
                assert!(found.partitioning > 0.0);
            }
        }
    }
}

#[test]
fn figures_have_rows() {
    let device = emulated(5);
    let scale = Scale::small();
    let mut rig = Rig::new(&device, scale.copied).unwrap();
    for figure in FIGURES.into_iter().chain(EXTRA) {
        let mut rows: Vec<Row> = Vec::new();
        run(&mut rig, figure, &scale, &mut |row| rows.push(row)).unwrap();
        assert!(!rows.is_empty(), "{figure}");
        for row in &rows {
            let fields = row.csv().split(',').count();
            assert_eq!(fields, Row::HEADER.split(',').count(), "{}", row.csv());
            assert!(row.median() > 0.0, "{}", row.csv());
        }
        assert!(!findings(&rows).is_empty(), "{figure}");
    }
}

/// Blocks of our join communicate at barriers only.
#[test]
fn our_join_has_no_races() {
    let options = EmulatorOptions {
        seed: 11,
        races: true,
        ..EmulatorOptions::default()
    };
    let device = Device::emulated(options, DeviceOptions::default()).unwrap();
    let mut rig = Rig::new(&device, 1 << 16).unwrap();
    let mut inputs = Inputs::new(&device, 2500, 4000).unwrap();
    inputs.fill(2500, 4000, 5).unwrap();
    for (first, perfect) in [
        (First::Refined(RadixAlgorithm::Linear), false),
        (First::Refined(RadixAlgorithm::Linear), true),
        (First::Staged(RadixAlgorithm::Linear), false),
        (First::Direct(RadixAlgorithm::Shared), false),
        (First::Staged(RadixAlgorithm::Hierarchical), false),
    ] {
        let options = Options {
            first,
            perfect,
            index: matches!(first, First::Refined(_)),
            limit: 40 << 10,
            bits: Some((2, 3)),
            entries: 64,
            chunk_bits: 10,
            heads: 64,
            ..Options::new(&rig)
        };
        let mut join = Join::new(&mut rig, &inputs, options).unwrap();
        let joined = join.run(&rig, &inputs).unwrap();
        let expected = if options.index {
            inputs.numbers()
        } else {
            inputs.sum()
        };
        assert_eq!(joined.sums, [expected, 4000], "{options:?}");
    }
}
