//! No accesses of a block's threads race: streams of every kind on an emulated device that detects races,
//! which fail the launch.

use galatea_device::{Device, DeviceOptions, EmulatorOptions};
use galatea_flow::{Assignment, FlowOptions, IndexPolicy, Map, Topic, Topology};
use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};

use crate::{Collected, check, sink, small, source};

/// Items of a frame.
const ITEMS: usize = 20;

/// A topic of frames in slots or in pages.
fn topic(inline: bool, depth: u32) -> Topic {
    let topic = Topic::new("topic").depth(depth);
    match inline {
        true => topic.inline(4 * ITEMS),
        false => topic.frame_bytes(4096),
    }
}

#[test]
fn threads_of_a_block_do_not_race() {
    // Frames in slots, in pages, and from one to the other and back. A whole page does not fit a slot.
    let chains: [(&[bool], u64); 4] = [
        (&[true, true, true], 24),
        (&[false, false, false], 24),
        (&[true, false], 24),
        (&[false, true, false], 1),
    ];
    for seed in 0..16 {
        let mut random = SmallRng::seed_from_u64(seed);
        let options = EmulatorOptions {
            seed: seed + 1,
            races: true,
            ..EmulatorOptions::default()
        };
        let device =
            Device::emulated(options, DeviceOptions::default()).expect("the emulated device is always there");
        let (kinds, frames) = chains[seed as usize % chains.len()];
        let (depth, last) = (1 << random.random_range(1..=4), ITEMS);
        let collected = Collected::default();
        let mut topology = Topology::new();
        let topics: Vec<_> = kinds
            .iter()
            .map(|inline| topology.topic(topic(*inline, depth)))
            .collect();
        topology.link(None, source(2, frames, last), Some(topics[0]));
        for pair in topics.windows(2) {
            topology.link(
                Some(pair[0]),
                Map::new("triple", "u32", "u32", "value * 3u + 1u"),
                Some(pair[1]),
            );
        }
        topology.link(Some(topics[kinds.len() - 1]), sink(2, &collected), None);
        let options = FlowOptions {
            assignment: [Assignment::Ready, Assignment::Unfinished][random.random_range(0..2)],
            index: [IndexPolicy::Direct, IndexPolicy::CopyOnRead][random.random_range(0..2)],
            notes_in_flight: random.random_range(1..=8),
            count_steps: random.random(),
            ..small(random.random_range(1..=3), 64)
        };
        let case = format!("seed {seed}: inline {kinds:?}, depth {depth}, {options:?}");
        topology
            .run(&device, &options)
            .unwrap_or_else(|error| panic!("{error}: {case}"));
        let items = if kinds[0] { ITEMS } else { 1024 };
        check(&collected, frames, items, last, &case, |value| {
            (1..kinds.len()).fold(value, |value, _| value.wrapping_mul(3).wrapping_add(1))
        });
    }
}
