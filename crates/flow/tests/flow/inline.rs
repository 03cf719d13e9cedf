//! Topics with frames in their slots: alone, and beside topics of pages.

use galatea_flow::{FlowError, FlowOptions, MOST_INLINE_BYTES, Map, Topic, Topology};
use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};

use crate::{Collected, check, emulated, sink, small, source};

/// A topic of frames of `items` items, in slots or in pages.
fn topic(name: &str, inline: bool, items: usize, depth: u32) -> Topic {
    let topic = Topic::new(name).depth(depth);
    if inline {
        topic.inline(4 * items)
    } else {
        topic.frame_bytes((4 * items).next_multiple_of(4096))
    }
}

/// The source fills its whole frame, so a frame in pages would not fit a slot of the next topic.
fn is_possible(kinds: &[bool]) -> bool {
    kinds[0] || kinds.iter().all(|inline| !inline)
}

#[test]
fn random_topologies_deliver_inline_frames_exactly_once() {
    for seed in 0..32 {
        let mut random = SmallRng::seed_from_u64(seed);
        let device = emulated(seed + 1);
        let items = random.random_range(1..=MOST_INLINE_BYTES / 4);
        let operators = random.random_range(1..=3_usize);
        let kinds: Vec<bool> = match seed % 2 {
            0 => vec![true; operators + 1],
            _ => (0..=operators).map(|at| at == 0 || random.random()).collect(),
        };
        assert!(is_possible(&kinds));
        let depth = 1 << random.random_range(0..=5);
        let threads = (random.random_range(1..=3), random.random_range(1..=3));
        let frames = random.random_range(0..=200);
        let last = random.random_range(0..=items);
        let collected = Collected::default();
        let mut topology = Topology::new();
        let topics: Vec<_> = kinds
            .iter()
            .map(|inline| topology.topic(topic("topic", *inline, items, depth)))
            .collect();
        topology.link(None, source(threads.0, frames, last), Some(topics[0]));
        for number in 0..operators {
            let step = Map::new("step", "u32", "u32", format!("value * 3u + {number}u"));
            topology.link(Some(topics[number]), step, Some(topics[number + 1]));
        }
        topology.link(Some(topics[operators]), sink(threads.1, &collected), None);
        let options = FlowOptions {
            notes_in_flight: random.random_range(1..=8),
            ..small(
                random.random_range(1..=4),
                32 * random.random_range(operators as u32..=4),
            )
        };
        let case = format!(
            "seed {seed}: {items} items, inline {kinds:?}, depth {depth}, {threads:?} threads, {frames} frames, {options:?}"
        );
        let outcome = topology
            .run(&device, &options)
            .unwrap_or_else(|error| panic!("{error}: {case}"));
        check(&collected, frames, items, last, &case, |value| {
            (0..operators as u32).fold(value, |value, number| value.wrapping_mul(3).wrapping_add(number))
        });
        assert_eq!(outcome.published, vec![frames; operators + 1], "{case}");
        assert_eq!((outcome.launches, outcome.leaked), (1, 0), "{case}");
    }
}

/// Several subscribers of a topic of inline frames: one on the CPU and another on the device.
#[test]
fn subscribers_of_inline_frames_are_independent() {
    let device = emulated(91);
    let (direct, tripled) = (Collected::default(), Collected::default());
    let mut topology = Topology::new();
    let numbers = topology.topic(Topic::new("numbers").inline(64).depth(4));
    let triple = topology.topic(Topic::new("tripled").inline(64).depth(8));
    topology
        .link(None, source(2, 90, 5), Some(numbers))
        .link(
            Some(numbers),
            Map::new("triple", "u32", "u32", "value * 3u"),
            Some(triple),
        )
        .link(Some(numbers), sink(1, &direct), None)
        .link(Some(triple), sink(2, &tripled), None);
    let outcome = topology.run(&device, &small(3, 32)).unwrap();
    check(&direct, 90, 16, 5, "read by the CPU", |value| value);
    check(&tripled, 90, 16, 5, "tripled", |value| value.wrapping_mul(3));
    assert_eq!(outcome.published, [90, 90]);
}

/// Several blocks publish inline frames under the offsets of their inputs, so one reader reads them in order.
#[test]
fn inline_frames_keep_the_order_of_the_source() {
    let device = emulated(92);
    let collected = Collected::default();
    let mut topology = Topology::new();
    let there = topology.topic(Topic::new("there").inline(8).depth(16));
    let back = topology.topic(Topic::new("back").inline(8).depth(16));
    topology
        .link(None, source(1, 150, 2), Some(there))
        .link(Some(there), Map::new("same", "u32", "u32", "value"), Some(back))
        .link(Some(back), sink(1, &collected), None);
    topology.run(&device, &small(4, 32)).unwrap();
    let places: Vec<u64> = collected
        .lock()
        .unwrap()
        .iter()
        .map(|(place, _)| *place)
        .collect();
    assert_eq!(places, (0..150).collect::<Vec<_>>());
}

#[test]
fn frames_too_long_for_a_slot_are_refused() {
    let device = emulated(93);
    let mut topology = Topology::new();
    let long = topology.topic(Topic::new("long").inline(MOST_INLINE_BYTES + 1));
    topology
        .link(None, source(1, 1, 1), Some(long))
        .link(Some(long), sink(1, &Collected::default()), None);
    let error = topology.run(&device, &FlowOptions::default()).unwrap_err();
    let text = error.to_string();
    assert!(
        matches!(
            error,
            FlowError::TooMany {
                asked: 105,
                limit: 104,
                ..
            }
        ),
        "{text}"
    );
    assert!(text.contains("Topic::frame_bytes"), "{text}");
}

/// An output that is too long for a slot of the next topic.
#[test]
fn an_output_longer_than_a_slot_is_an_error() {
    let device = emulated(94);
    let mut topology = Topology::new();
    let there = topology.topic(Topic::new("there").inline(64).depth(8));
    let back = topology.topic(Topic::new("back").inline(64).depth(8));
    topology
        .link(None, source(1, 4, 9), Some(there))
        .link(
            Some(there),
            Map::new("long", "u32", "u64", "u64(value)"),
            Some(back),
        )
        .link(Some(back), sink(1, &Collected::default()), None);
    let error = topology.run(&device, &small(1, 32)).unwrap_err();
    assert!(
        matches!(error, FlowError::OutputLength { limit: 64, .. }),
        "{error}"
    );
}
