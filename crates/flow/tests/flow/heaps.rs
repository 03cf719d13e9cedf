//! Heaps that are exhausted: spare buffers, buffers of the other side, and neither.

use std::sync::Arc;
use std::time::Duration;

use galatea_flow::{Cpu, CpuWork, FlowError, FlowOptions, Map, Step, Topic, Topology};

use crate::{Collected, check, emulated, sink, small, source};

/// A sink that keeps all it gets and takes its time.
fn slow_sink(collected: &Collected) -> Cpu {
    let collected = Arc::clone(collected);
    Cpu::new("slow sink", 1, move |_| {
        let collected = Arc::clone(&collected);
        move |work: &mut CpuWork<'_>| {
            std::thread::sleep(Duration::from_millis(2));
            let frame = (work.source().unwrap(), work.input::<u32>().to_vec());
            collected.lock().unwrap().push(frame);
            Ok(Step::Next)
        }
    })
}

#[test]
fn exhausted_heaps_get_spare_buffers() {
    let device = emulated(71);
    let collected = Collected::default();
    let options = FlowOptions {
        heap_buffers: 4,
        initial_buffers: Some(1),
        spare_buffers: 6,
        ..small(2, 64)
    };
    let mut topology = Topology::new();
    let there = topology.topic(Topic::new("there").frame_bytes(4096).depth(16));
    let back = topology.topic(Topic::new("back").frame_bytes(4096).depth(16));
    topology
        .link(None, source(1, 80, 9), Some(there))
        .link(Some(there), Map::new("not", "u32", "u32", "~value"), Some(back))
        .link(Some(back), slow_sink(&collected), None);
    let outcome = topology.run(&device, &options).unwrap();
    check(&collected, 80, 1024, 9, "spare buffers", |value| !value);
    assert!(outcome.granted.0 > 0, "{:?}", outcome.granted);
    assert_eq!((outcome.granted.1, outcome.leaked), (0, 0));
}

/// The host's heap has more buffers than its source uses; the device's takes one.
#[test]
fn a_buffer_without_frames_in_use_is_lent() {
    let device = emulated(72);
    for initial in [None, Some(2)] {
        let collected = Collected::default();
        let mut topology = Topology::new();
        let there = topology.topic(Topic::new("there").frame_bytes(4096).depth(2));
        let unused = topology.topic(Topic::new("unused").frame_bytes(4096).depth(64));
        let back = topology.topic(Topic::new("back").frame_bytes(4096).depth(64));
        topology
            .link(None, source(1, 120, 1024), Some(there))
            .link(None, source(1, 0, 0), Some(unused))
            .link(Some(unused), sink(1, &Collected::default()), None)
            .link(Some(there), Map::new("not", "u32", "u32", "~value"), Some(back))
            .link(Some(back), slow_sink(&collected), None);
        // Both heaps have 6 buffers of 11 frames, or 2 of these at first: then the host's may lend one.
        let options = FlowOptions {
            heap_buffers: 6,
            initial_buffers: initial,
            ..small(2, 64)
        };
        let outcome = topology.run(&device, &options).unwrap();
        check(
            &collected,
            120,
            1024,
            1024,
            &format!("{initial:?} buffers"),
            |value| !value,
        );
        let lent = if initial.is_some() { (1, 1) } else { (0, 0) };
        assert_eq!((outcome.granted, outcome.leaked), (lent, 0));
    }
}

/// A sink that never reads the frames of a heap without more buffers: an error with the numbers, not a hang.
#[test]
fn a_heap_that_stays_exhausted_is_an_error() {
    let device = emulated(73);
    let mut topology = Topology::new();
    let there = topology.topic(Topic::new("there").frame_bytes(4096).depth(4));
    let hoard = topology.topic(Topic::new("hoard").frame_bytes(4096).depth(64));
    let blocked = Cpu::new("blocked", 1, |_| {
        let mut first = true;
        move |_: &mut CpuWork<'_>| {
            if std::mem::take(&mut first) {
                std::thread::sleep(Duration::from_millis(1500));
            }
            Ok(Step::Next)
        }
    });
    topology
        .link(None, source(1, 64, 1), Some(there))
        .link(Some(there), Map::new("not", "u32", "u32", "~value"), Some(hoard))
        .link(Some(hoard), blocked, None);
    let options = FlowOptions {
        heap_buffers: 64,
        initial_buffers: Some(1),
        timeout: Duration::from_millis(700),
        ..small(1, 32)
    };
    let error = topology.run(&device, &options).unwrap_err();
    // The sink that sleeps is the cause; whichever is noticed first, both messages name the limit.
    assert!(
        matches!(error, FlowError::Hung { .. } | FlowError::Exhausted { .. }),
        "{error}"
    );
}
