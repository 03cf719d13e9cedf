//! A slow operator is not reported as hung as long as frames move, or no frame has to move.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use galatea_flow::{Cpu, CpuWork, FlowOptions, GpuOperator, Map, Step, Topic, Topology};

use crate::{Collected, check, emulated, item, sink, small, source};

const LIMIT: Duration = Duration::from_secs(1);

/// Heaps of four initial frames, for topics of sixteen.
fn few_frames(blocks: u32) -> FlowOptions {
    FlowOptions {
        heap_buffers: 4,
        initial_buffers: Some(1),
        timeout: LIMIT,
        ..small(blocks, 64)
    }
}

/// A sink that takes the given time for each frame in a range.
fn slow_sink(time: Duration, frames: std::ops::Range<u64>, collected: &Collected) -> Cpu {
    let collected = std::sync::Arc::clone(collected);
    Cpu::new("slow sink", 1, move |_| {
        let (collected, frames) = (std::sync::Arc::clone(&collected), frames.clone());
        move |work: &mut CpuWork<'_>| {
            let source = work.source().unwrap();
            if frames.contains(&source) {
                std::thread::sleep(time);
            }
            collected
                .lock()
                .unwrap()
                .push((source, work.input::<u32>().to_vec()));
            Ok(Step::Next)
        }
    })
}

/// The source always waits for a frame, and gets one again and again.
#[test]
fn slow_sink_is_not_reported_as_shortage() {
    let device = emulated(1);
    for on_device in [false, true] {
        let collected = Collected::default();
        let mut topology = Topology::new();
        let there = topology.topic(Topic::new("there").frame_bytes(4096).depth(16));
        topology.link(None, source(1, 50, 9), Some(there));
        let slow = slow_sink(LIMIT / 20, 0..50, &collected);
        if on_device {
            let back = topology.topic(Topic::new("back").frame_bytes(4096).depth(16));
            topology
                .link(Some(there), Map::new("same", "u32", "u32", "value"), Some(back))
                .link(Some(back), slow, None);
        } else {
            topology.link(Some(there), slow, None);
        }
        let outcome = topology
            .run(&device, &few_frames(2))
            .unwrap_or_else(|error| panic!("on the device {on_device}: {error}"));
        check(&collected, 50, 1024, 9, "a slow sink", |value| value);
        assert_eq!((outcome.granted, outcome.leaked), ((0, 0), 0));
    }
}

/// All frames of the device's heap are published and read when the stream pauses, and a burst follows.
#[test]
fn paused_stream_requests_no_buffers() {
    const FRAMES: u64 = 60;
    let device = emulated(2);
    let collected = Collected::default();
    let pauses = Cpu::new("pauses", 1, |_| {
        let begun = Instant::now();
        let mut frame = 0;
        move |work: &mut CpuWork<'_>| {
            if frame == 12 && begun.elapsed() < 3 * LIMIT {
                std::thread::sleep(Duration::from_millis(1));
                return Ok(Step::Skip);
            }
            for (place, value) in work.output::<u32>().iter_mut().enumerate() {
                *value = item(frame, place);
            }
            work.set_source(frame);
            frame += 1;
            Ok(if frame < FRAMES { Step::Next } else { Step::Last })
        }
    });
    let mut topology = Topology::new();
    let there = topology.topic(Topic::new("there").frame_bytes(4096).depth(16));
    let back = topology.topic(Topic::new("back").frame_bytes(4096).depth(16));
    topology
        .link(None, pauses, Some(there))
        .link(Some(there), Map::new("same", "u32", "u32", "value"), Some(back))
        .link(Some(back), slow_sink(LIMIT / 3, 13..14, &collected), None);
    let outcome = topology.run(&device, &few_frames(2)).unwrap();
    check(&collected, FRAMES, 1024, 1024, "a pause", |value| value);
    assert_eq!((outcome.granted, outcome.leaked), ((0, 0), 0));
}

/// A block beats after sixty-four frames, which together take longer than the limit.
#[test]
fn slow_device_operator_is_not_reported_as_hung() {
    struct Slow;
    impl GpuOperator for Slow {
        fn name(&self) -> Cow<'_, str> {
            Cow::Borrowed("slow")
        }
        fn source(&self) -> Cow<'_, str> {
            Cow::Borrowed(
                "struct Operator {\n\
                     GALATEA_INLINE static void begin() {}\n\
                     GALATEA_INLINE static void compute(Work& work) {\n\
                         const u64 begun = nanoseconds();\n\
                         while (work.thread() == 0 && nanoseconds() - begun < 40000000) {}\n\
                         map<u32, u32>(work, [](u32 value, u32) { return value; });\n\
                     }\n\
                 };\n",
            )
        }
    }
    let device = emulated(3);
    let collected = Collected::default();
    let mut topology = Topology::new();
    let there = topology.topic(Topic::new("there").frame_bytes(4096).depth(8));
    let back = topology.topic(Topic::new("back").frame_bytes(4096).depth(8));
    topology
        .link(None, source(1, 70, 3), Some(there))
        .link(Some(there), Slow, Some(back))
        .link(Some(back), sink(1, &collected), None);
    let options = FlowOptions {
        timeout: LIMIT,
        ..small(1, 32)
    };
    topology.run(&device, &options).unwrap();
    check(&collected, 70, 1024, 3, "a slow operator", |value| value);
}
