//! No frame is lost, duplicated, torn, or read before it is published. Chains of operators; several
//! subscribers.

use galatea_flow::{
    Assignment, CataloguePolicy, Cpu, CpuWork, FlowOptions, IndexPolicy, Map, Retune, Step, Topic, Topology,
};
use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};

use crate::{Collected, check, emulated, sink, small, source};

fn ping_pong(
    frame_bytes: usize,
    depth: u32,
    threads: (usize, usize),
    frames: u64,
    last: usize,
) -> (Topology, Collected) {
    let mut topology = Topology::new();
    let collected = Collected::default();
    let there = topology.topic(Topic::new("C2G").frame_bytes(frame_bytes).depth(depth));
    let back = topology.topic(Topic::new("G2C").frame_bytes(frame_bytes).depth(depth));
    topology
        .link(None, source(threads.0, frames, last), Some(there))
        .link(
            Some(there),
            Map::new("double", "u32", "u32", "value * 2u"),
            Some(back),
        )
        .link(Some(back), sink(threads.1, &collected), None);
    (topology, collected)
}

#[test]
fn frame_counts_and_lengths_at_every_boundary() {
    let device = emulated(3);
    // No frame, one frame, and about the depth; last frames of all relevant lengths.
    let items = 1024;
    for frames in [0, 1, 2, 7, 8, 9, 40] {
        for last in [0, 1, 3, 4, 31, 32, 33, 127, 128, 129, items] {
            let (topology, collected) = ping_pong(4096, 8, (1, 1), frames, last);
            let outcome = topology.run(&device, &small(2, 128)).unwrap();
            let case = format!("{frames} frames, {last} in the last");
            check(&collected, frames, items, last, &case, |value| {
                value.wrapping_mul(2)
            });
            assert_eq!(outcome.published, [frames, frames], "{case}");
            assert_eq!(
                (outcome.launches, outcome.copied, outcome.leaked),
                (1, 0, 0),
                "{case}"
            );
        }
    }
}

#[test]
fn random_settings_deliver_frames_exactly_once() {
    for seed in 0..24 {
        let mut random = SmallRng::seed_from_u64(seed);
        let device = emulated(seed + 1);
        let pages = random.random_range(1..=3);
        let depth = 1 << random.random_range(0..=7);
        let threads = (random.random_range(1..=3), random.random_range(1..=3));
        let frames = random.random_range(0..=120);
        let last = random.random_range(0..=pages * 1024);
        let (topology, collected) = ping_pong(pages * 4096, depth, threads, frames, last);
        let options = FlowOptions {
            assignment: if random.random() {
                Assignment::Ready
            } else {
                Assignment::Unfinished
            },
            catalogue: if random.random() {
                CataloguePolicy::ReadMostly
            } else {
                CataloguePolicy::Remote
            },
            index: if random.random() {
                IndexPolicy::Direct
            } else {
                IndexPolicy::CopyOnRead
            },
            notes_in_flight: random.random_range(1..=8),
            count_steps: random.random(),
            ..small(random.random_range(1..=4), 32 * random.random_range(1..=4))
        };
        let case = format!(
            "seed {seed}: {pages} pages, depth {depth}, {threads:?} threads, {frames} frames, {options:?}"
        );
        let outcome = topology
            .run(&device, &options)
            .unwrap_or_else(|error| panic!("{error}: {case}"));
        check(&collected, frames, pages * 1024, last, &case, |value| {
            value.wrapping_mul(2)
        });
        assert_eq!(
            (outcome.launches, outcome.copied, outcome.leaked),
            (1, 0, 0),
            "{case}"
        );
    }
}

/// C(G)nC: consecutive operators on the device. The topics between them are in device memory.
#[test]
fn operators_on_the_device_follow_each_other() {
    for operators in 1..=4_usize {
        for assignment in [Assignment::Unfinished, Assignment::Ready] {
            let device = emulated(operators as u64 + 10);
            let mut topology = Topology::new();
            let collected = Collected::default();
            let topics: Vec<_> = (0..=operators)
                .map(|number| {
                    topology.topic(Topic::new(format!("topic {number}")).frame_bytes(4096).depth(8))
                })
                .collect();
            topology.link(None, source(1, 50, 700), Some(topics[0]));
            for number in 0..operators {
                let step = Map::new(
                    format!("add {number}"),
                    "u32",
                    "u32",
                    format!("value * 3u + {number}u"),
                );
                topology.link(Some(topics[number]), step, Some(topics[number + 1]));
            }
            topology.link(Some(topics[operators]), sink(1, &collected), None);
            let options = FlowOptions {
                assignment,
                ..small(2, 32 * operators as u32 * 2)
            };
            let outcome = topology.run(&device, &options).unwrap();
            let case = format!("{operators} operators, {assignment:?}");
            check(&collected, 50, 1024, 700, &case, |value| {
                (0..operators as u32).fold(value, |value, number| value.wrapping_mul(3).wrapping_add(number))
            });
            assert_eq!((outcome.launches, outcome.leaked), (1, 0), "{case}");
        }
    }
}

/// C(GC)n: operators alternate between both sides.
#[test]
fn alternating_cpu_and_device_operators() {
    let device = emulated(21);
    for pairs in 1..=3_usize {
        let mut topology = Topology::new();
        let collected = Collected::default();
        let mut previous = topology.topic(Topic::new("first").frame_bytes(4096).depth(8));
        topology.link(None, source(2, 40, 1), Some(previous));
        for pair in 0..pairs {
            let back = topology.topic(Topic::new(format!("back {pair}")).frame_bytes(4096).depth(8));
            topology.link(
                Some(previous),
                Map::new("xor", "u32", "u32", "value ^ 0x55555555u"),
                Some(back),
            );
            if pair + 1 == pairs {
                topology.link(Some(back), sink(2, &collected), None);
                break;
            }
            let there = topology.topic(Topic::new(format!("there {pair}")).frame_bytes(4096).depth(8));
            let increment = Cpu::new("increment", 2, |_| {
                |work: &mut CpuWork<'_>| {
                    let (input, output) = work.both::<u32, u32>();
                    for (from, to) in input.iter().zip(output) {
                        *to = from.wrapping_add(1);
                    }
                    Ok(Step::Next)
                }
            });
            topology.link(Some(back), increment, Some(there));
            previous = there;
        }
        let outcome = topology.run(&device, &small(2, 128)).unwrap();
        check(&collected, 40, 1024, 1, &format!("{pairs} pairs"), |value| {
            (1..pairs).fold(value ^ 0x5555_5555, |value, _| {
                value.wrapping_add(1) ^ 0x5555_5555
            })
        });
        assert_eq!((outcome.launches, outcome.leaked), (1, 0));
    }
}

/// Subscribers of one topic read all of it, each at its own offset: two on the device, one on the CPU.
#[test]
fn subscribers_of_one_topic_are_independent() {
    let device = emulated(31);
    let mut topology = Topology::new();
    let (direct, tripled, negated) = (Collected::default(), Collected::default(), Collected::default());
    let numbers = topology.topic(Topic::new("numbers").frame_bytes(4096).depth(4));
    let triple = topology.topic(Topic::new("tripled").frame_bytes(8192).depth(4));
    let negative = topology.topic(Topic::new("negated").frame_bytes(4096).depth(16));
    topology
        .link(None, source(2, 60, 5), Some(numbers))
        .link(
            Some(numbers),
            Map::new("triple", "u32", "u32", "value * 3u"),
            Some(triple),
        )
        .link(
            Some(numbers),
            Map::new("negate", "u32", "u32", "0u - value"),
            Some(negative),
        )
        .link(Some(numbers), sink(1, &direct), None)
        .link(Some(triple), sink(1, &tripled), None)
        .link(Some(negative), sink(2, &negated), None);
    let outcome = topology.run(&device, &small(3, 64)).unwrap();
    check(&direct, 60, 1024, 5, "read by the CPU", |value| value);
    check(&tripled, 60, 1024, 5, "tripled", |value| value.wrapping_mul(3));
    check(&negated, 60, 1024, 5, "negated", |value| {
        0_u32.wrapping_sub(value)
    });
    assert_eq!(outcome.published, [60, 60, 60]);
    assert_eq!(outcome.leaked, 0);
}

/// Items of the output may be wider or narrower than those of the input.
#[test]
fn operators_can_change_item_width() {
    let device = emulated(41);
    let mut topology = Topology::new();
    let collected = Collected::default();
    let numbers = topology.topic(Topic::new("numbers").frame_bytes(4096).depth(4));
    let wide = topology.topic(Topic::new("wide").frame_bytes(8192).depth(4));
    let narrow = topology.topic(Topic::new("narrow").frame_bytes(4096).depth(4));
    topology
        .link(None, source(1, 30, 33), Some(numbers))
        .link(
            Some(numbers),
            Map::new("widen", "u32", "u64", "u64(value) << 32 | index"),
            Some(wide),
        )
        .link(
            Some(wide),
            Map::new("narrow", "u64", "u32", "u32(value >> 32) + u32(value)"),
            Some(narrow),
        )
        .link(Some(narrow), sink(1, &collected), None);
    topology.run(&device, &small(2, 64)).unwrap();
    let mut collected = collected.lock().unwrap();
    collected.sort();
    assert_eq!(collected.len(), 30);
    for (frame, values) in collected.iter() {
        assert_eq!(values.len(), if *frame == 29 { 33 } else { 1024 });
        for (place, value) in values.iter().enumerate() {
            assert_eq!(*value, crate::item(*frame, place).wrapping_add(place as u32));
        }
    }
}

/// With one block and one reader, frames of one thread keep their order.
#[test]
fn one_block_keeps_the_order_of_the_source() {
    let device = emulated(51);
    let (topology, collected) = ping_pong(4096, 16, (1, 1), 100, 1024);
    topology.run(&device, &small(1, 64)).unwrap();
    let places: Vec<u64> = collected
        .lock()
        .unwrap()
        .iter()
        .map(|(place, _)| *place)
        .collect();
    assert_eq!(places, (0..100).collect::<Vec<_>>());
}

/// Without an operator on the device, no kernel is launched.
#[test]
fn cpu_only_topology_launches_no_kernel() {
    let device = emulated(61);
    let mut topology = Topology::new();
    let collected = Collected::default();
    let numbers = topology.topic(Topic::new("numbers").frame_bytes(4096).depth(4));
    topology
        .link(None, source(2, 100, 17), Some(numbers))
        .link(Some(numbers), sink(2, &collected), None);
    let outcome = topology.run(&device, &FlowOptions::default()).unwrap();
    check(&collected, 100, 1024, 17, "CPU alone", |value| value);
    assert_eq!((outcome.launches, outcome.leaked), (0, 0));
}

/// Partitions that are adapted to the operators' times change no result.
#[test]
fn partitions_may_change_while_a_topology_runs() {
    let device = emulated(81);
    let mut topology = Topology::new();
    let collected = Collected::default();
    let topics: Vec<_> = (0..3)
        .map(|number| topology.topic(Topic::new(format!("topic {number}")).frame_bytes(4096).depth(8)))
        .collect();
    let long = "u32 sum = value; for (u32 step = 0; step < 40; ++step) sum = sum * 3u + 1u; return sum;";
    let expected = |value: u32| (0..40).fold(value, |value, _| value.wrapping_mul(3).wrapping_add(1));
    topology
        .link(None, source(1, 300, 1024), Some(topics[0]))
        .link(
            Some(topics[0]),
            Map::new("short", "u32", "u32", "value + 1u"),
            Some(topics[1]),
        )
        .link(
            Some(topics[1]),
            Map::new("long", "u32", "u32", format!("[&] {{ {long} }}()")),
            Some(topics[2]),
        )
        .link(Some(topics[2]), sink(1, &collected), None);
    let options = FlowOptions {
        assignment: Assignment::Unfinished,
        retune: Some(Retune {
            period: std::time::Duration::from_millis(1),
            threshold: 0.05,
        }),
        ..small(1, 256)
    };
    let outcome = topology.run(&device, &options).unwrap();
    check(&collected, 300, 1024, 1024, "partitions that change", |value| {
        expected(value.wrapping_add(1))
    });
    assert_eq!(outcome.leaked, 0);
    assert!(
        !outcome.partitions.is_empty(),
        "one operator computes forty times as much as the other"
    );
    for partition in &outcome.partitions {
        assert_eq!(
            (partition.len(), partition.iter().sum::<u32>()),
            (2, 8),
            "{partition:?}"
        );
        assert!(!partition.contains(&0), "{partition:?}");
    }
}
