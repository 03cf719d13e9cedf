//! Early ends of topologies (operators that fail at any step, panics, timeouts), and rejected topologies.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use galatea_flow::{Cpu, CpuWork, FlowError, FlowOptions, GpuOperator, Map, Step, Topic, Topology};

use crate::{Collected, Held, SHORT, check, emulated, sink, small, source};

/// Fails for the frame at one source offset.
struct Fails {
    source_offset: u64,
}

impl GpuOperator for Fails {
    fn name(&self) -> Cow<'_, str> {
        Cow::Borrowed("fails")
    }

    fn source(&self) -> Cow<'_, str> {
        Cow::Borrowed(
            "struct Operator {\n\
                 GALATEA_INLINE static void begin() {}\n\
                 GALATEA_INLINE static void compute(Work& work) {\n\
                     if (work.source() == work.parameters<u64>()[0]) { work.fail(17); return; }\n\
                     map<u32, u32>(work, [](u32 value, u32) { return value; });\n\
                 }\n\
             };\n",
        )
    }

    fn parameters(&self) -> Vec<u64> {
        vec![self.source_offset]
    }
}

fn around(operator: impl Into<galatea_flow::Operator>, frames: u64, collected: &Collected) -> Topology {
    let mut topology = Topology::new();
    let there = topology.topic(Topic::new("there").frame_bytes(4096).depth(8));
    let back = topology.topic(Topic::new("back").frame_bytes(4096).depth(8));
    topology
        .link(None, source(1, frames, 1024), Some(there))
        .link(Some(there), operator, Some(back))
        .link(Some(back), sink(1, collected), None);
    topology
}

#[test]
fn failing_device_operator_ends_the_topology() {
    for source_offset in [0, 1, 7, 8, 30, 39] {
        let device = emulated(source_offset + 1);
        let error = around(Fails { source_offset }, 40, &Collected::default())
            .run(&device, &small(2, 64))
            .unwrap_err();
        match &error {
            FlowError::DeviceOperator {
                operator,
                code,
                source_offset: at,
            } => {
                assert_eq!((operator.as_str(), *code, *at), ("fails", 17, source_offset));
            }
            other => panic!("{other}"),
        }
        // The device still works: the next topology runs.
        let collected = Collected::default();
        around(Fails { source_offset: 1000 }, 20, &collected)
            .run(&device, &small(2, 64))
            .unwrap();
        check(&collected, 20, 1024, 1024, "after a failure", |value| value);
    }
}

#[test]
fn failing_cpu_operator_ends_the_topology() {
    let device = emulated(5);
    for frame in [0, 1, 9, 39] {
        for panics in [false, true] {
            let mut topology = Topology::new();
            let there = topology.topic(Topic::new("there").frame_bytes(4096).depth(8));
            let back = topology.topic(Topic::new("back").frame_bytes(4096).depth(8));
            let fails = Cpu::new("fails", 1, move |_| {
                let mut seen = 0;
                move |_: &mut CpuWork<'_>| {
                    if seen == frame {
                        assert!(!panics, "as it should");
                        return Err("as it should".into());
                    }
                    seen += 1;
                    Ok(Step::Next)
                }
            });
            topology
                .link(None, source(1, 40, 1024), Some(there))
                .link(Some(there), Map::new("same", "u32", "u32", "value"), Some(back))
                .link(Some(back), fails, None);
            let error = topology.run(&device, &small(2, 64)).unwrap_err();
            let text = error.to_string();
            assert!(text.contains("fails") && text.contains("as it should"), "{text}");
            assert_eq!(matches!(error, FlowError::Panicked { .. }), panics, "{text}");
        }
    }
}

#[test]
fn an_output_longer_than_a_frame_is_an_error() {
    let device = emulated(6);
    let mut topology = Topology::new();
    let there = topology.topic(Topic::new("there").frame_bytes(4096).depth(8));
    let back = topology.topic(Topic::new("back").frame_bytes(4096).depth(8));
    struct Long;
    impl GpuOperator for Long {
        fn name(&self) -> Cow<'_, str> {
            Cow::Borrowed("long")
        }
        fn source(&self) -> Cow<'_, str> {
            Cow::Borrowed(
                "struct Operator {\n\
                     GALATEA_INLINE static void begin() {}\n\
                     GALATEA_INLINE static void compute(Work& work) { work.set_output_bytes(work.capacity + 1); }\n\
                 };\n",
            )
        }
    }
    topology
        .link(None, source(1, 4, 1024), Some(there))
        .link(Some(there), Long, Some(back))
        .link(Some(back), sink(1, &Collected::default()), None);
    let error = topology.run(&device, &small(1, 32)).unwrap_err();
    let text = error.to_string();
    assert!(
        matches!(error, FlowError::OutputLength { limit: 4096, .. }),
        "{text}"
    );
    assert!(text.contains("Topic::frame_bytes"), "{text}");
}

#[test]
fn hanging_cpu_operator_is_reported() {
    let device = emulated(7);
    let mut topology = Topology::new();
    let there = topology.topic(Topic::new("there").frame_bytes(4096).depth(8));
    let back = topology.topic(Topic::new("back").frame_bytes(4096).depth(8));
    let held = Held::default();
    let hangs = held.operator("hangs");
    topology
        .link(None, source(1, 100, 1024), Some(there))
        .link(Some(there), Map::new("same", "u32", "u32", "value"), Some(back))
        .link(Some(back), hangs, None);
    let options = FlowOptions {
        timeout: SHORT,
        ..small(1, 32)
    };
    let error = topology.run(&device, &options).unwrap_err();
    assert!(held.is_held(), "the run waited for an operator that hangs");
    let text = error.to_string();
    assert!(matches!(error, FlowError::Hung { .. }), "{text}");
    assert!(
        text.contains("hangs") && text.contains("FlowOptions::timeout"),
        "{text}"
    );
}

#[test]
fn hanging_device_operator_is_reported() {
    struct Hangs;
    impl GpuOperator for Hangs {
        fn name(&self) -> Cow<'_, str> {
            Cow::Borrowed("hangs")
        }
        fn source(&self) -> Cow<'_, str> {
            // Loops until the flag in its parameters is set, which never happens.
            Cow::Borrowed(
                "struct Operator {\n\
                     GALATEA_INLINE static void begin() {}\n\
                     GALATEA_INLINE static void compute(Work& work) {\n\
                         while (load_relaxed_system(work.parameters<u64>()) == 0) {}\n\
                     }\n\
                 };\n",
            )
        }
        fn parameters(&self) -> Vec<u64> {
            vec![0]
        }
    }
    let device = galatea_device::Device::emulated(
        galatea_device::EmulatorOptions {
            seed: 8,
            // The kernel ends by itself after the test has seen the error, so that the process can end.
            spin_limit: 5 * SHORT,
            ..galatea_device::EmulatorOptions::default()
        },
        galatea_device::DeviceOptions::default(),
    )
    .unwrap();
    let options = FlowOptions {
        timeout: SHORT,
        ..small(1, 32)
    };
    let error = around(Hangs, 3, &Collected::default())
        .run(&device, &options)
        .unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, FlowError::Hung { .. }), "{text}");
    assert!(text.contains("block 0"), "{text}");
}

/// A stream that pauses longer than the limit does not hang: no thread is in an operator.
#[test]
fn idle_source_is_not_reported_as_hung() {
    let device = emulated(9);
    let mut topology = Topology::new();
    let there = topology.topic(Topic::new("there").frame_bytes(4096).depth(8));
    let back = topology.topic(Topic::new("back").frame_bytes(4096).depth(8));
    let read = Arc::new(AtomicU64::new(0));
    let pauses = Cpu::new("pauses", 1, |_| {
        let begun = Instant::now();
        let mut frames = 0;
        move |_: &mut CpuWork<'_>| {
            if frames == 3 && begun.elapsed() < 2 * SHORT {
                std::thread::sleep(Duration::from_millis(1));
                return Ok(Step::Skip);
            }
            frames += 1;
            Ok(if frames < 6 { Step::Next } else { Step::Last })
        }
    });
    let count = Arc::clone(&read);
    let counts = Cpu::new("counts", 1, move |_| {
        let count = Arc::clone(&count);
        move |_: &mut CpuWork<'_>| {
            count.fetch_add(1, Ordering::Relaxed);
            Ok(Step::Next)
        }
    });
    topology
        .link(None, pauses, Some(there))
        .link(Some(there), Map::new("same", "u32", "u32", "value"), Some(back))
        .link(Some(back), counts, None);
    let options = FlowOptions {
        timeout: SHORT,
        ..small(2, 32)
    };
    topology.run(&device, &options).unwrap();
    assert_eq!(read.load(Ordering::Relaxed), 6);
}

#[test]
fn invalid_topologies_are_rejected() {
    let device = emulated(10);
    let refused = |topology: &Topology, part: &str| {
        let error = topology
            .run(&device, &FlowOptions::default())
            .unwrap_err()
            .to_string();
        assert!(error.contains(part), "{error}");
    };
    let same = || Map::new("same", "u32", "u32", "value");
    refused(&Topology::new(), "no operators");

    let mut topology = Topology::new();
    let odd = topology.topic(Topic::new("odd").frame_bytes(5000));
    topology
        .link(None, source(1, 1, 1), Some(odd))
        .link(Some(odd), sink(1, &Collected::default()), None);
    refused(&topology, "5000 bytes");

    let mut topology = Topology::new();
    let deep = topology.topic(Topic::new("deep").depth(3));
    topology
        .link(None, source(1, 1, 1), Some(deep))
        .link(Some(deep), sink(1, &Collected::default()), None);
    refused(&topology, "depth of topic deep is 3");

    let mut topology = Topology::new();
    let lonely = topology.topic(Topic::new("lonely"));
    topology.link(None, source(1, 1, 1), Some(lonely));
    refused(&topology, "lonely has no subscriber");

    let mut topology = Topology::new();
    let two = topology.topic(Topic::new("two"));
    topology
        .link(None, source(1, 1, 1), Some(two))
        .link(None, source(1, 1, 1), Some(two))
        .link(Some(two), sink(1, &Collected::default()), None);
    refused(&topology, "published by 2 operators");

    let mut topology = Topology::new();
    let made = topology.topic(Topic::new("made"));
    topology
        .link(None, same(), Some(made))
        .link(Some(made), sink(1, &Collected::default()), None);
    refused(&topology, "source on the device");

    let mut topology = Topology::new();
    let (a, b) = (topology.topic(Topic::new("a")), topology.topic(Topic::new("b")));
    topology
        .link(Some(a), same(), Some(b))
        .link(Some(b), same(), Some(a));
    refused(&topology, "cycle");

    let mut topology = Topology::new();
    let a = topology.topic(Topic::new("a"));
    topology
        .link(None, source(0, 1, 1), Some(a))
        .link(Some(a), sink(1, &Collected::default()), None);
    refused(&topology, "no threads");

    let mut many = around(same(), 1, &Collected::default());
    for block_threads in [0, 48, 2048] {
        let options = FlowOptions {
            block_threads,
            ..FlowOptions::default()
        };
        let error = many.run(&device, &options).unwrap_err().to_string();
        let said = format!("blocks of {block_threads} threads, not a multiple of 32 up to 1024");
        assert!(
            error.contains(&said) && error.contains("FlowOptions::block_threads"),
            "{error}"
        );
    }
    let options = FlowOptions {
        partition: Some(vec![31]),
        ..FlowOptions::default()
    };
    assert!(
        many.run(&device, &options)
            .unwrap_err()
            .to_string()
            .contains("[31]")
    );
    let shallow = many.topic(Topic::new("shallow").depth(1).frame_bytes(4096));
    many.link(None, source(1, 1, 1), Some(shallow))
        .link(Some(shallow), sink(1, &Collected::default()), None);
    let options = FlowOptions {
        blocks: Some(20),
        block_threads: 32,
        ..FlowOptions::default()
    };
    let error = many.run(&device, &options).unwrap_err().to_string();
    assert!(
        error.contains("20 blocks") && error.contains("Topic::depth"),
        "{error}"
    );
}

/// More threads than a shallow topic supports, on the side that reads and on the side that publishes.
#[test]
fn more_threads_than_the_topic_depth_are_refused() {
    let device = emulated(11);
    let copy = |threads| {
        Cpu::new("copy", threads, |_| {
            |work: &mut CpuWork<'_>| {
                let (input, output) = work.both::<u8, u8>();
                output[..input.len()].copy_from_slice(input);
                Ok(Step::Next)
            }
        })
    };
    let run = |(depth, sinks): (u32, usize), (next_depth, copies): (u32, usize), inline: bool| {
        let collected = Collected::default();
        let mut topology = Topology::new();
        let numbers = match inline {
            true => Topic::new("numbers").inline(64),
            false => Topic::new("numbers").frame_bytes(4096),
        };
        let numbers = topology.topic(numbers.depth(depth));
        let copied = topology.topic(Topic::new("copied").frame_bytes(4096).depth(next_depth));
        topology
            .link(None, source(1, 200, 7), Some(numbers))
            .link(Some(numbers), sink(sinks, &collected), None)
            .link(Some(numbers), copy(copies), Some(copied))
            .link(Some(copied), sink(1, &Collected::default()), None);
        let outcome = topology.run(&device, &small(1, 32))?;
        let items = if inline { 16 } else { 1024 };
        check(&collected, 200, items, 7, "many threads", |value| value);
        assert_eq!(outcome.published, [200, 200]);
        Ok::<(), FlowError>(())
    };
    run((1, 14), (8, 8), false).unwrap();
    run((1, 40), (8, 8), true).unwrap();
    for (read, published, part) in [
        ((1, 15), (8, 8), "that they read"),
        ((4, 4), (8, 9), "that they publish"),
    ] {
        let error = run(read, published, false).unwrap_err().to_string();
        assert!(error.contains(part) && error.contains("Topic::depth"), "{error}");
    }
}
