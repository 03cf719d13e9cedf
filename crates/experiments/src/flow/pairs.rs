//! Two streams through one kernel, each with its own operator.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use galatea_device::Device;
use galatea_flow::{Cpu, CpuWork, Outcome, Result, Step, Topology};

use super::load::Load;
use super::stream::Shape;

/// Input bytes per second of both streams together, and the outcome of the run.
pub(super) fn throughput(device: &Device, loads: &[Load; 2], shape: &Shape) -> Result<(f64, Outcome)> {
    let mut topology = Topology::new();
    let (_, frames) = shape.frames;
    for load in loads {
        let there = topology.topic(shape.topic("to device", load));
        let back = topology.topic(shape.topic("back", load));
        let next = Arc::new(AtomicU64::new(0));
        let source = {
            let (load, touch) = (load.clone(), shape.touch);
            Cpu::new("source", 1, move |_| {
                let (load, next) = (load.clone(), Arc::clone(&next));
                move |work: &mut CpuWork<'_>| {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    load.fill(number, touch, work.output());
                    Ok(if number + 1 < frames {
                        Step::Next
                    } else {
                        Step::Last
                    })
                }
            })
        };
        let sink = {
            let (load, touch) = (load.clone(), shape.touch);
            Cpu::new("sink", 1, move |_| {
                let load = load.clone();
                move |work: &mut CpuWork<'_>| {
                    let number = work.source().unwrap_or(u64::MAX);
                    let right = !number.is_multiple_of(256)
                        || load.is_right(number, touch, load.frame_bytes, work.input());
                    match right {
                        true => Ok(Step::Next),
                        false => Err(format!("frame {number} has a wrong result").into()),
                    }
                }
            })
        };
        topology
            .link(None, source, Some(there))
            .link(Some(there), load.shared(), Some(back))
            .link(Some(back), sink, None);
    }
    let outcome = topology.run(device, &shape.options)?;
    let bytes: usize = loads.iter().map(|load| load.frame_bytes).sum();
    Ok((
        frames as f64 * bytes as f64 / outcome.elapsed.as_secs_f64(),
        outcome,
    ))
}
