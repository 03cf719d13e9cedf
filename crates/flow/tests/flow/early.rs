//! Operators on the CPU that end before their topic does, and operators that write more than a frame.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use galatea_flow::{Cpu, CpuWork, FlowError, Map, Step, Topic, Topology};

use crate::{Collected, check, emulated, sink, small, source};

/// An operator that copies its frames. It ends with its `frames`-th frame, or after it without publishing.
fn ends_after(frames: u64, threads: usize, step: Step, seen: &Arc<AtomicU64>) -> Cpu {
    let seen = Arc::clone(seen);
    Cpu::new("ends early", threads, move |_| {
        let seen = Arc::clone(&seen);
        move |work: &mut CpuWork<'_>| {
            let (input, output) = work.both::<u8, u8>();
            let bytes = input.len().min(output.len());
            output[..bytes].copy_from_slice(&input[..bytes]);
            let last = seen.fetch_add(1, Ordering::Relaxed) + 1 >= frames;
            Ok(if last { step } else { Step::Next })
        }
    })
}

/// A sink that ends early blocks neither its publisher nor other sinks.
#[test]
fn sink_can_end_before_its_stream() {
    for (threads, step, depth) in [(1, Step::End, 4), (1, Step::Last, 1), (3, Step::End, 4)] {
        let device = emulated(threads as u64 + 20);
        let (collected, seen) = (Collected::default(), Arc::new(AtomicU64::new(0)));
        let mut topology = Topology::new();
        let there = topology.topic(Topic::new("there").frame_bytes(4096).depth(depth));
        let back = topology.topic(Topic::new("back").frame_bytes(4096).depth(depth));
        topology
            .link(None, source(2, 90, 5), Some(there))
            .link(Some(there), Map::new("not", "u32", "u32", "~value"), Some(back))
            .link(Some(back), ends_after(7, threads, step, &seen), None)
            .link(Some(back), sink(1, &collected), None);
        let outcome = topology.run(&device, &small(2, 64)).unwrap();
        let case = format!("{threads} threads, {step:?}");
        check(&collected, 90, 1024, 5, &case, |value| !value);
        assert_eq!((outcome.published, outcome.leaked), (vec![90, 90], 0), "{case}");
        // Threads that are in the operator when another one ends it finish their frames.
        let seen = seen.load(Ordering::Relaxed) as usize;
        assert!((7..7 + threads).contains(&seen), "{seen} frames: {case}");
    }
}

/// The topic of an operator that ends early contains the frames that it has published.
#[test]
fn operator_can_end_in_mid_stream() {
    for (step, published) in [(Step::Last, 6), (Step::End, 5)] {
        for inline in [false, true] {
            let device = emulated(31);
            let (collected, seen) = (Collected::default(), Arc::new(AtomicU64::new(0)));
            let topic = |name: &str| match inline {
                true => Topic::new(name).inline(64).depth(4),
                false => Topic::new(name).frame_bytes(4096).depth(4),
            };
            let items = if inline { 16 } else { 1024 };
            let mut topology = Topology::new();
            let topics = ["there", "back", "copied"].map(|name| topology.topic(topic(name)));
            topology
                .link(None, source(1, 60, items), Some(topics[0]))
                .link(
                    Some(topics[0]),
                    Map::new("not", "u32", "u32", "~value"),
                    Some(topics[1]),
                )
                .link(Some(topics[1]), ends_after(6, 1, step, &seen), Some(topics[2]))
                .link(Some(topics[2]), sink(1, &collected), None);
            let outcome = topology.run(&device, &small(1, 64)).unwrap();
            let case = format!("{step:?}, inline {inline}");
            check(&collected, published, items, items, &case, |value| !value);
            assert_eq!(outcome.published, [60, 60, published], "{case}");
            assert_eq!(outcome.leaked, 0, "{case}");
        }
    }
}

#[test]
fn cpu_output_longer_than_a_frame_is_an_error() {
    let device = emulated(32);
    let long = |bytes: usize| {
        Cpu::new("long", 1, move |_| {
            let mut frames = 0;
            move |work: &mut CpuWork<'_>| {
                work.set_output_bytes(if frames == 3 { bytes } else { 4096 });
                frames += 1;
                Ok(if frames < 5 { Step::Next } else { Step::Last })
            }
        })
    };
    let run = |bytes| {
        let mut topology = Topology::new();
        let numbers = topology.topic(Topic::new("numbers").frame_bytes(4096).depth(4));
        topology.link(None, long(bytes), Some(numbers)).link(
            Some(numbers),
            sink(1, &Collected::default()),
            None,
        );
        topology.run(&device, &small(1, 32))
    };
    assert!(run(4096).is_ok());
    match run(4097).unwrap_err() {
        FlowError::OutputLength {
            operator,
            limit,
            source_offset,
        } => assert_eq!((operator.as_str(), limit, source_offset), ("long", 4096, 3)),
        other => panic!("{other}"),
    }
}
