//! Streams: throughput, and the round-trip time of one frame.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use galatea_device::Device;
use galatea_flow::{Cpu, CpuWork, FlowOptions, Outcome, Result, Step, Topic, TopicId, Topology};
use parking_lot::Mutex;

use super::load::{Load, Touch, read_all};

/// Settings of a stream, except its load.
#[derive(Debug, Clone)]
pub(super) struct Shape {
    /// Frames in flight of a topic.
    pub depth: u32,
    /// Numbers of threads of the source and of the sink.
    pub threads: (usize, usize),
    /// Their work on frames.
    pub touch: Touch,
    /// Numbers of warm-up frames and of measured frames.
    pub frames: (u64, u64),
    /// Options of the run of the topology.
    pub options: FlowOptions,
    /// Number of consecutive operators on the device, each with the load's body.
    pub operators: usize,
    /// Whether frames are stored in the slots of the topics.
    pub inline: bool,
    /// Whether an operator on the CPU copies the frames between two on the device.
    pub returns: bool,
}

impl Shape {
    pub(super) fn topic(&self, name: impl Into<String>, load: &Load) -> Topic {
        let topic = Topic::new(name).depth(self.depth);
        match self.inline {
            true => topic.inline(load.frame_bytes),
            false => topic.frame_bytes(load.frame_bytes),
        }
    }
}

/// Links the load's operators from `first` on. Returns the last topic.
fn link_operators(topology: &mut Topology, load: &Load, shape: &Shape, first: TopicId) -> TopicId {
    let mut previous = first;
    for number in 0..shape.operators {
        let next = topology.topic(shape.topic(format!("after {}", number + 1), load));
        topology.link(Some(previous), load.shared(), Some(next));
        previous = next;
        if shape.returns && number + 1 < shape.operators {
            let copied = topology.topic(shape.topic(format!("copied {}", number + 1), load));
            let copy = Cpu::new("copy", shape.threads.0, |_| {
                |work: &mut CpuWork<'_>| {
                    let (input, output) = work.both::<u8, u8>();
                    output[..input.len()].copy_from_slice(input);
                    Ok(Step::Next)
                }
            });
            topology.link(Some(previous), copy, Some(copied));
            previous = copied;
        }
    }
    previous
}

/// The counts and times of a sink.
#[derive(Debug, Default)]
struct Arrivals {
    /// Times at which the first and the last measured frame arrived, in nanoseconds since the start.
    first: AtomicU64,
    last: AtomicU64,
    count: AtomicU64,
    latencies: Mutex<Vec<u64>>,
    sum: AtomicU64,
}

/// Input bytes per second of a stream from the CPU through the device and back, the latencies of its frames
/// in nanoseconds (one in 16, sorted), and the outcome of the run.
///
/// # Errors
/// An error of [`Topology::run`], or an operator's error for a wrong result.
pub(super) fn throughput(device: &Device, load: &Load, shape: &Shape) -> Result<(f64, Vec<u64>, Outcome)> {
    let mut topology = Topology::new();
    let there = topology.topic(shape.topic("to device", load));
    let (warm, measured) = shape.frames;
    let total = warm + measured;
    let touch = shape.touch;
    let next = Arc::new(AtomicU64::new(0));
    let source = {
        let load = load.clone();
        Cpu::new("source", shape.threads.0, move |_| {
            let (load, next) = (load.clone(), Arc::clone(&next));
            move |work: &mut CpuWork<'_>| {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= total {
                    return Ok(Step::End);
                }
                load.fill(number, touch, work.output());
                work.set_source(number);
                Ok(Step::Next)
            }
        })
    };
    let arrivals = Arc::new(Arrivals::default());
    let checked = shape.operators == 1;
    let sink = {
        let (load, arrivals) = (load.clone(), Arc::clone(&arrivals));
        Cpu::new("sink", shape.threads.1, move |_| {
            let (load, arrivals) = (load.clone(), Arc::clone(&arrivals));
            let mut latencies = Vec::new();
            let mut seen = 0_u64;
            move |work: &mut CpuWork<'_>| {
                let number = work.source().unwrap_or(u64::MAX);
                let bytes = work.input::<u8>();
                if touch == Touch::All {
                    arrivals.sum.fetch_add(read_all(bytes), Ordering::Relaxed);
                }
                if checked
                    && number.is_multiple_of(256)
                    && !load.is_right(number, touch, load.frame_bytes, bytes)
                {
                    return Err(format!("frame {number} has a wrong result").into());
                }
                let arrived = arrivals.count.fetch_add(1, Ordering::Relaxed) + 1;
                let now = work.now();
                if arrived == warm.max(1) {
                    arrivals.first.store(now, Ordering::Relaxed);
                }
                if arrived == total {
                    arrivals.last.store(now, Ordering::Relaxed);
                }
                seen += 1;
                if arrived > warm && seen.is_multiple_of(16) {
                    latencies.push(now.saturating_sub(work.stamp()));
                    if latencies.len() == 256 || total - arrived < 4096 {
                        arrivals.latencies.lock().append(&mut latencies);
                    }
                }
                Ok(Step::Next)
            }
        })
    };
    topology.link(None, source, Some(there));
    let back = link_operators(&mut topology, load, shape, there);
    topology.link(Some(back), sink, None);
    let outcome = topology.run(device, &shape.options)?;
    let (first, last) = (
        arrivals.first.load(Ordering::Relaxed),
        arrivals.last.load(Ordering::Relaxed),
    );
    let seconds = last.saturating_sub(first) as f64 / 1e9;
    let mut latencies = std::mem::take(&mut *arrivals.latencies.lock());
    latencies.sort_unstable();
    Ok((
        (total - warm.max(1)) as f64 * load.frame_bytes as f64 / seconds,
        latencies,
        outcome,
    ))
}

/// Round-trip times of single frames in nanoseconds, sorted: from publishing to the look with which the sink
/// finds the result. One frame is in flight at a time. Its first `bytes` bytes are new.
///
/// # Errors
/// The errors of [`throughput`].
pub(super) fn round_trip(
    device: &Device,
    load: &Load,
    shape: &Shape,
    bytes: usize,
) -> Result<(Vec<u64>, Outcome)> {
    let mut topology = Topology::new();
    let there = topology.topic(shape.topic("to device", load));
    let (warm, measured) = shape.frames;
    let total = warm + measured;
    let arrived = Arc::new(AtomicU64::new(0));
    let limit = shape.options.timeout;
    let source = {
        let (load, arrived) = (load.clone(), Arc::clone(&arrived));
        Cpu::new("source", 1, move |_| {
            let (load, arrived) = (load.clone(), Arc::clone(&arrived));
            let mut number = 0;
            let mut frame = vec![0; load.frame_bytes];
            move |work: &mut CpuWork<'_>| {
                load.fill(number, Touch::All, &mut frame);
                work.output::<u8>()[..bytes].copy_from_slice(&frame[..bytes]);
                work.set_output_bytes(bytes);
                let begun = Instant::now();
                while arrived.load(Ordering::Acquire) < number {
                    std::hint::spin_loop();
                    if begun.elapsed() > limit {
                        // Another operator has failed.
                        return Err(format!("frame {} did not come back", number - 1).into());
                    }
                }
                number += 1;
                Ok(if number < total { Step::Next } else { Step::Last })
            }
        })
    };
    let times = Arc::new(Mutex::new(Vec::new()));
    let sink = {
        let (load, times) = (load.clone(), Arc::clone(&times));
        Cpu::new("sink", 1, move |_| {
            let (load, times, arrived) = (load.clone(), Arc::clone(&times), Arc::clone(&arrived));
            move |work: &mut CpuWork<'_>| {
                let number = work.source().unwrap_or(u64::MAX);
                if number >= warm {
                    times.lock().push(work.now().saturating_sub(work.stamp()));
                }
                let output = work.input::<u8>();
                let whole = bytes == load.frame_bytes;
                if whole && number.is_multiple_of(256) && !load.is_right(number, Touch::All, bytes, output) {
                    return Err(format!("frame {number} has a wrong result").into());
                }
                if output.len() != bytes {
                    return Err(format!("frame {number} has {} bytes", output.len()).into());
                }
                arrived.store(number + 1, Ordering::Release);
                Ok(Step::Next)
            }
        })
    };
    topology.link(None, source, Some(there));
    let back = link_operators(&mut topology, load, shape, there);
    topology.link(Some(back), sink, None);
    let outcome = topology.run(device, &shape.options)?;
    let mut times = std::mem::take(&mut *times.lock());
    times.sort_unstable();
    Ok((times, outcome))
}
