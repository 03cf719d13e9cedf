//! Exhausted heaps: with spare buffers, with buffers of the other side, and with neither.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use galatea_flow::{Cpu, CpuWork, FlowError, FlowOptions, Map, Step, Topic, Topology};

use crate::{Collected, Held, SHORT, check, emulated, item, sink, small, source};

/// A source of `frames` frames, and a sink that keeps its first frame until the source has been called for
/// `begun` frames. Frames are released in order, so no later frame is released before it: the heaps hold all
/// the frames that the source has begun, or were granted buffers.
fn source_and_sink(frames: u64, begun: u64, collected: &Collected) -> (Cpu, Cpu) {
    let asked = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&asked);
    let source = Cpu::new("source", 1, move |_| {
        let asked = Arc::clone(&count);
        move |work: &mut CpuWork<'_>| {
            let frame = asked.fetch_add(1, Ordering::Relaxed);
            for (place, value) in work.output::<u32>().iter_mut().enumerate() {
                *value = item(frame, place);
            }
            work.set_source(frame);
            Ok(if frame + 1 < frames {
                Step::Next
            } else {
                Step::Last
            })
        }
    });
    let collected = Arc::clone(collected);
    let sink = Cpu::new("patient sink", 1, move |_| {
        let (collected, asked) = (Arc::clone(&collected), Arc::clone(&asked));
        move |work: &mut CpuWork<'_>| {
            while asked.load(Ordering::Relaxed) < begun {
                std::thread::sleep(Duration::from_millis(1));
            }
            let frame = (work.source().unwrap(), work.input::<u32>().to_vec());
            collected.lock().unwrap().push(frame);
            Ok(Step::Next)
        }
    });
    (source, sink)
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
    // Both heaps have 4 frames initially, so without more buffers the source could begin at most 8 frames.
    let (source, sink) = source_and_sink(80, 10, &collected);
    topology
        .link(None, source, Some(there))
        .link(Some(there), Map::new("not", "u32", "u32", "~value"), Some(back))
        .link(Some(back), sink, None);
    let outcome = topology.run(&device, &options).unwrap();
    check(&collected, 80, 1024, 1024, "spare buffers", |value| !value);
    assert!(outcome.granted.0 > 0, "{:?}", outcome.granted);
    assert_eq!((outcome.granted.1, outcome.leaked), (0, 0));
}

/// Heaps with fewer frames than half of the slots reuse them, and need no other buffer.
#[test]
fn small_heaps_reuse_released_frames() {
    let device = emulated(74);
    let collected = Collected::default();
    let options = FlowOptions {
        heap_buffers: 4,
        initial_buffers: Some(1),
        ..small(2, 64)
    };
    let mut topology = Topology::new();
    let there = topology.topic(Topic::new("there").frame_bytes(4096).depth(16));
    let back = topology.topic(Topic::new("back").frame_bytes(4096).depth(16));
    topology
        .link(None, source(1, 80, 9), Some(there))
        .link(Some(there), Map::new("not", "u32", "u32", "~value"), Some(back))
        .link(Some(back), sink(1, &collected), None);
    let outcome = topology.run(&device, &options).unwrap();
    check(&collected, 80, 1024, 9, "small heaps", |value| !value);
    assert_eq!((outcome.granted, outcome.leaked), ((0, 0), 0));
}

/// The host's heap has more buffers than its source uses, and the device's heap takes one.
#[test]
fn unused_host_buffer_is_lent_to_the_device() {
    let device = emulated(72);
    for initial in [None, Some(2)] {
        let collected = Collected::default();
        let mut topology = Topology::new();
        let there = topology.topic(Topic::new("there").frame_bytes(4096).depth(2));
        let unused = topology.topic(Topic::new("unused").frame_bytes(4096).depth(64));
        let back = topology.topic(Topic::new("back").frame_bytes(4096).depth(64));
        // Both heaps have 6 buffers of 11 frames, or initially 2 of them. Then at most 24 frames could be
        // begun: 22 of the device's heap, and 2 for which `there` has slots. The host's heap may lend a
        // buffer.
        let (own, patient) = source_and_sink(120, 28, &collected);
        topology
            .link(None, own, Some(there))
            .link(None, source(1, 0, 0), Some(unused))
            .link(Some(unused), sink(1, &Collected::default()), None)
            .link(Some(there), Map::new("not", "u32", "u32", "~value"), Some(back))
            .link(Some(back), patient, None);
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

/// A sink never reads the frames of a heap without more buffers: the result is an error with the numbers, not
/// a hang.
#[test]
fn permanently_exhausted_heap_is_an_error() {
    let device = emulated(73);
    let mut topology = Topology::new();
    let there = topology.topic(Topic::new("there").frame_bytes(4096).depth(4));
    let hoard = topology.topic(Topic::new("hoard").frame_bytes(4096).depth(64));
    let held = Held::default();
    let blocked = held.operator("blocked");
    topology
        .link(None, source(1, 64, 1), Some(there))
        .link(Some(there), Map::new("not", "u32", "u32", "~value"), Some(hoard))
        .link(Some(hoard), blocked, None);
    let options = FlowOptions {
        heap_buffers: 64,
        initial_buffers: Some(1),
        timeout: SHORT,
        ..small(1, 32)
    };
    let error = topology.run(&device, &options).unwrap_err();
    // The sink that does not return is the cause. Whichever failure is detected first, both messages contain
    // the limit.
    assert!(
        matches!(error, FlowError::Hung { .. } | FlowError::Exhausted { .. }),
        "{error}"
    );
}

/// The device's heap has more buffers than its blocks use, and the host's heap takes one. Blocks that wait
/// for input have taken frames of it ahead.
#[test]
fn unused_device_buffer_is_lent_to_the_host() {
    for (seed, initial) in [(81, None), (82, Some(2)), (83, Some(2)), (84, Some(2))] {
        let device = emulated(seed);
        let (patient, mapped) = (Collected::default(), Collected::default());
        let mut topology = Topology::new();
        let there = topology.topic(Topic::new("there").frame_bytes(4096).depth(64));
        let back = topology.topic(Topic::new("back").frame_bytes(4096).depth(64));
        // Both heaps have 6 buffers of 11 frames, or initially 2 of them. Then at most 22 frames could be
        // begun while the patient sink keeps its first frame.
        let (own, keeps) = source_and_sink(120, 28, &patient);
        topology
            .link(None, own, Some(there))
            .link(Some(there), keeps, None)
            .link(Some(there), Map::new("not", "u32", "u32", "~value"), Some(back))
            .link(Some(back), sink(1, &mapped), None);
        let options = FlowOptions {
            heap_buffers: 6,
            initial_buffers: initial,
            ..small(2, 64)
        };
        let outcome = topology.run(&device, &options).unwrap();
        let what = format!("{initial:?} buffers, seed {seed}");
        check(&patient, 120, 1024, 1024, &what, |value| value);
        check(&mapped, 120, 1024, 1024, &what, |value| !value);
        let lent = initial.is_some();
        // The device's heap may request one in return.
        assert_eq!(outcome.granted.1 > 0, lent, "{what}: {:?}", outcome.granted);
        assert_eq!(outcome.leaked, 0, "{what}");
    }
}
