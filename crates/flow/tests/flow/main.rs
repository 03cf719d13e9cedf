//! Topologies on the emulated device: their results, the order of frames, and their ends.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod early;
mod ends;
mod heaps;
mod inline;
mod patience;
mod protocol;
mod races;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use galatea_device::{Device, DeviceOptions, EmulatorOptions};
use galatea_flow::{Cpu, CpuWork, FlowOptions, Step};

/// An emulated device with a seed.
fn emulated(seed: u64) -> Device {
    let options = EmulatorOptions {
        seed,
        ..EmulatorOptions::default()
    };
    Device::emulated(options, DeviceOptions::default()).expect("the emulated device is always there")
}

/// A limit for topologies that must exceed it, long enough for progress on a busy machine.
const SHORT: Duration = Duration::from_secs(2);

/// Options with few blocks of few threads, because the emulated device runs them on the machine's cores, and
/// with long limits, because those may be busy.
fn small(blocks: u32, block_threads: u32) -> FlowOptions {
    FlowOptions {
        blocks: Some(blocks),
        block_threads,
        timeout: Duration::from_secs(120),
        ..FlowOptions::default()
    }
}

/// The value of an item of the source. It depends on the frame and the position.
fn item(frame: u64, place: usize) -> u32 {
    (frame as u32).wrapping_mul(0x9e37_79b9) ^ (place as u32).wrapping_mul(0x85eb_ca6b)
}

/// A source of `frames` frames in all, by `threads` threads; the last frame has `last` items.
fn source(threads: usize, frames: u64, last: usize) -> Cpu {
    let next = Arc::new(Mutex::new(0_u64));
    Cpu::new("source", threads, move |_| {
        let next = Arc::clone(&next);
        move |work: &mut CpuWork<'_>| {
            let frame = {
                let mut next = next.lock().unwrap();
                *next += 1;
                *next - 1
            };
            if frame >= frames {
                return Ok(Step::End);
            }
            let output = work.output::<u32>();
            let items = if frame + 1 == frames {
                last.min(output.len())
            } else {
                output.len()
            };
            for (place, value) in output[..items].iter_mut().enumerate() {
                *value = item(frame, place);
            }
            // The rest must not be read. A reused frame contains other values.
            output[items..].fill(0xdead_beef);
            work.set_output_bytes(items * 4);
            work.set_source(frame);
            Ok(Step::Next)
        }
    })
}

/// Blocks operators on the CPU in their first frame until it is dropped.
#[derive(Default)]
struct Held {
    entered: Arc<AtomicBool>,
    released: Arc<AtomicBool>,
}

impl Held {
    /// An operator of one thread that does not return from its first frame.
    fn operator(&self, name: &str) -> Cpu {
        let (entered, released) = (Arc::clone(&self.entered), Arc::clone(&self.released));
        Cpu::new(name, 1, move |_| {
            let (entered, released) = (Arc::clone(&entered), Arc::clone(&released));
            move |_: &mut CpuWork<'_>| {
                entered.store(true, Ordering::Release);
                // Ends in any case, so that a run that waits for it fails instead of hanging.
                let begun = Instant::now();
                while !released.load(Ordering::Acquire) && begun.elapsed() < Duration::from_secs(300) {
                    std::thread::sleep(Duration::from_millis(1));
                }
                released.store(true, Ordering::Release);
                Ok(Step::Next)
            }
        })
    }

    /// Whether the operator is still in its first frame.
    fn is_held(&self) -> bool {
        self.entered.load(Ordering::Acquire) && !self.released.load(Ordering::Acquire)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.released.store(true, Ordering::Release);
    }
}

/// Frames that a sink collected, with their position at the source.
type Collected = Arc<Mutex<Vec<(u64, Vec<u32>)>>>;

/// A sink that keeps all its frames.
fn sink(threads: usize, collected: &Collected) -> Cpu {
    let collected = Arc::clone(collected);
    Cpu::new("sink", threads, move |_| {
        let collected = Arc::clone(&collected);
        move |work: &mut CpuWork<'_>| {
            let frame = (work.source().unwrap(), work.input::<u32>().to_vec());
            collected.lock().unwrap().push(frame);
            Ok(Step::Next)
        }
    })
}

/// Checks that every frame arrived once, and is `f` of the source's items.
fn check(
    collected: &Collected,
    frames: u64,
    frame_items: usize,
    last: usize,
    case: &str,
    f: impl Fn(u32) -> u32,
) {
    let mut collected = collected.lock().unwrap();
    collected.sort();
    let places: Vec<u64> = collected.iter().map(|(place, _)| *place).collect();
    assert_eq!(
        places,
        (0..frames).collect::<Vec<_>>(),
        "frames lost or doubled: {case}"
    );
    for (place, values) in collected.iter() {
        let items = if place + 1 == frames { last } else { frame_items };
        assert_eq!(values.len(), items, "length of frame {place}: {case}");
        for (at, value) in values.iter().enumerate() {
            assert_eq!(*value, f(item(*place, at)), "item {at} of frame {place}: {case}");
        }
    }
}
