//! A soak test: random streams, one after another, for a given time. Failures are injected into some.
//!
//! Each stream has random frames of random lengths, and a random chain of operators with random settings.
//! Every frame that arrives is counted and its content checked: none may be lost, duplicated or torn. A
//! stream with an injected failure must end with that failure.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use galatea_device::Device;
use galatea_flow::{
    Assignment, CataloguePolicy, Cpu, CpuWork, FlowError, FlowOptions, GpuOperator, IndexPolicy,
    MOST_INLINE_BYTES, Step, Topic, Topology,
};
use galatea_kernels::flow::mix64;

use crate::flow::random::Random;

/// The duration of a soak test, and the sizes of its streams.
#[derive(Debug, Clone, Copy)]
pub struct Soak {
    /// Time to run.
    pub time: Duration,
    /// The seed of the first stream. Each later stream has the next seed.
    pub seed: u64,
    /// Maximum number of frames of a stream.
    pub frames: u64,
    /// Maximum bytes of a frame.
    pub frame_bytes: usize,
    /// Maximum numbers of blocks, and of threads per block.
    pub blocks: (u32, u32),
}

/// The counts of a soak test.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Soaked {
    /// Number of streams that ended as expected.
    pub streams: u64,
    /// Number of these streams with an injected failure.
    pub failed: u64,
    /// Number of frames that arrived.
    pub frames: u64,
    /// Bytes of these frames.
    pub bytes: u64,
}

/// An injected failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Error,
    Panic,
    Device,
    Length,
}

const CODE: u32 = 4711;

/// Computes `value * 3 + 1`. At one frame, it fails, or reports too long an output.
struct Triples {
    fails_at: u64,
    too_long_at: u64,
}

impl GpuOperator for Triples {
    fn name(&self) -> Cow<'_, str> {
        Cow::Borrowed("triple")
    }

    fn source(&self) -> Cow<'_, str> {
        Cow::Owned(format!(
            "struct Operator {{
    GALATEA_INLINE static void begin() {{}}
    GALATEA_INLINE static void compute(Work& work) {{
        const u64 source = work.source();
        if (source == work.parameters<u64>()[0]) {{ work.fail({CODE}u); return; }}
        if (source == work.parameters<u64>()[1]) {{ work.set_output_bytes(work.capacity + 1); return; }}
        map<u32, u32>(work, [](u32 value, u32) {{ return value * 3u + 1u; }});
    }}
}};
"
        ))
    }

    fn parameters(&self) -> Vec<u64> {
        vec![self.fails_at, self.too_long_at]
    }
}

/// Number of items of a frame, and its first item. The others count up from it.
fn frame(seed: u64, number: u64, most: usize) -> (usize, u32) {
    let hash = mix64(seed.wrapping_mul(0x5851_f42d_4c95_7f2d) ^ number);
    // One frame in eight is full; the others have any length.
    let items = if hash & 7 == 0 {
        most
    } else {
        (hash >> 8) as usize % (most + 1)
    };
    (items, (hash >> 32) as u32)
}

/// One random stream.
struct Stream {
    seed: u64,
    frames: u64,
    items: usize,
    inline: bool,
    depth: u32,
    threads: (usize, usize),
    operators: u32,
    fault: Option<(Fault, u64)>,
    options: FlowOptions,
}

/// The frames that the sinks of a stream have read.
#[derive(Debug)]
struct Seen {
    /// A bit for each frame.
    frames: Vec<AtomicU64>,
    count: AtomicU64,
    bytes: AtomicU64,
}

impl Stream {
    fn new(soak: &Soak, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let inline = random.chance(3);
        let pages = (soak.frame_bytes / 4096).max(1) as u64;
        // Small frames are more likely: the limit is a power of two of pages, and any number up to it is
        // drawn.
        let most = 1 << random.below(u64::from(pages.ilog2()) + 1);
        let pages = 1 + random.below(most);
        let items = match inline {
            true => 1 + random.below(MOST_INLINE_BYTES as u64 / 4) as usize,
            false => pages as usize * 1024,
        };
        let operators = 1 + random.below(3) as u32;
        // The total bytes of a stream are about the same for all frame sizes.
        let frames = random
            .below(soak.frames * 4096 / (items as u64 * 4).max(1024))
            .max(1);
        let fault = random.chance(4).then(|| {
            let fault = [Fault::Error, Fault::Panic, Fault::Device, Fault::Length][random.below(4) as usize];
            (fault, random.below(frames))
        });
        let (most_blocks, most_threads) = soak.blocks;
        // Few different kernels, because each must be compiled.
        let block_threads = [128, 256, 1024][random.below(3) as usize].min(most_threads);
        let depth = 1 << (2 + random.below(7));
        let options = FlowOptions {
            blocks: Some(1 + random.below(u64::from(most_blocks)) as u32),
            block_threads,
            assignment: if random.chance(2) {
                Assignment::Ready
            } else {
                Assignment::Unfinished
            },
            catalogue: if random.chance(2) {
                CataloguePolicy::ReadMostly
            } else {
                CataloguePolicy::Remote
            },
            index: if random.chance(2) {
                IndexPolicy::Direct
            } else {
                IndexPolicy::CopyOnRead
            },
            notes_in_flight: 1 + random.below(8) as u32,
            heap_buffers: 1 + random.below(4) as usize,
            initial_buffers: random.chance(3).then_some(1),
            spare_buffers: random.below(3) as usize,
            timeout: Duration::from_secs(60),
            ..FlowOptions::default()
        };
        // No block may be a generation of slots ahead of another.
        let depth = options
            .blocks
            .map_or(depth, |blocks| depth.max((blocks / 8).next_power_of_two()));
        Self {
            seed,
            frames,
            items,
            inline,
            depth,
            threads: (1 + random.below(3) as usize, 1 + random.below(3) as usize),
            operators,
            fault,
            options,
        }
    }

    fn topic(&self, name: &str) -> Topic {
        let topic = Topic::new(name).depth(self.depth);
        match self.inline {
            true => topic.inline(self.items * 4),
            false => topic.frame_bytes(self.items * 4),
        }
    }

    fn source(&self) -> Cpu {
        let (seed, frames) = (self.seed, self.frames);
        let next = Arc::new(AtomicU64::new(0));
        Cpu::new("source", self.threads.0, move |_| {
            let next = Arc::clone(&next);
            move |work: &mut CpuWork<'_>| {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= frames {
                    return Ok(Step::End);
                }
                let output = work.output::<u32>();
                let (items, first) = frame(seed, number, output.len());
                for (place, item) in output[..items].iter_mut().enumerate() {
                    *item = first.wrapping_add(place as u32);
                }
                work.set_output_bytes(items * 4);
                work.set_source(number);
                Ok(Step::Next)
            }
        })
    }

    fn sink(&self, seen: &Arc<Seen>) -> Cpu {
        let (seed, operators, most, fault) = (self.seed, self.operators, self.items, self.fault);
        let seen = Arc::clone(seen);
        Cpu::new("sink", self.threads.1, move |_| {
            let seen = Arc::clone(&seen);
            move |work: &mut CpuWork<'_>| {
                let number = work.source().unwrap_or(u64::MAX);
                match fault {
                    Some((Fault::Error, at)) if at == number => return Err("injected".into()),
                    Some((Fault::Panic, at)) if at == number => panic!("injected"),
                    _ => {}
                }
                let Some(word) = seen.frames.get((number / 64) as usize) else {
                    return Err(format!("frame {number} was never published").into());
                };
                if word.fetch_or(1 << (number % 64), Ordering::Relaxed) >> (number % 64) & 1 == 1 {
                    return Err(format!("frame {number} came twice").into());
                }
                let (items, first) = frame(seed, number, most);
                let input = work.input::<u32>();
                let (factor, addend) = (0..operators).fold((1_u32, 0_u32), |(factor, addend), _| {
                    (factor.wrapping_mul(3), addend.wrapping_mul(3).wrapping_add(1))
                });
                let right = input.len() == items
                    && input.iter().enumerate().all(|(place, item)| {
                        let value = first.wrapping_add(place as u32);
                        *item == value.wrapping_mul(factor).wrapping_add(addend)
                    });
                if !right {
                    return Err(format!("frame {number} is torn").into());
                }
                seen.count.fetch_add(1, Ordering::Relaxed);
                seen.bytes.fetch_add(items as u64 * 4, Ordering::Relaxed);
                Ok(Step::Next)
            }
        })
    }

    /// Runs the stream. Returns the numbers of frames and bytes that arrived, or the failed check.
    fn run(&self, device: &Device) -> Result<(u64, u64), String> {
        let seen = Arc::new(Seen {
            frames: (0..self.frames.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
            count: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        });
        let mut topology = Topology::new();
        let mut previous = topology.topic(self.topic("first"));
        topology.link(None, self.source(), Some(previous));
        for number in 0..self.operators {
            let next = topology.topic(self.topic("next"));
            let at = |wanted: Fault| match self.fault {
                Some((fault, at)) if fault == wanted && number == 0 => at,
                _ => u64::MAX,
            };
            let triples = Triples {
                fails_at: at(Fault::Device),
                too_long_at: at(Fault::Length),
            };
            topology.link(Some(previous), triples, Some(next));
            previous = next;
        }
        topology.link(Some(previous), self.sink(&seen), None);
        let outcome = topology.run(device, &self.options);
        let arrived = seen.count.load(Ordering::Relaxed);
        let wrong = match (&outcome, self.fault) {
            (Ok(outcome), None) if outcome.leaked != 0 => Some(format!("{} frames leaked", outcome.leaked)),
            (Ok(_), None) if arrived != self.frames => {
                Some(format!("{arrived} of {} frames arrived", self.frames))
            }
            (Ok(_), None) => None,
            (Ok(_), Some((fault, at))) => Some(format!("{fault:?} at frame {at} went unnoticed")),
            (Err(error), fault) => {
                let expected = match (error, fault) {
                    (FlowError::Operator { cause, .. }, Some((Fault::Error, _))) => {
                        cause.to_string() == "injected"
                    }
                    (FlowError::Panicked { .. }, Some((Fault::Panic, _))) => true,
                    (
                        FlowError::DeviceOperator {
                            code, source_offset, ..
                        },
                        Some((Fault::Device, at)),
                    ) => (*code, *source_offset) == (CODE, at),
                    (FlowError::OutputLength { source_offset, .. }, Some((Fault::Length, at))) => {
                        *source_offset == at
                    }
                    _ => false,
                };
                (!expected).then(|| error.to_string())
            }
        };
        match wrong {
            None => Ok((arrived, seen.bytes.load(Ordering::Relaxed))),
            Some(wrong) => Err(format!(
                "stream of seed {}: {wrong} ({} frames of up to {} items, inline {}, depth {}, threads {:?}, {} operators, \
                 fault {:?}, {:?})",
                self.seed,
                self.frames,
                self.items,
                self.inline,
                self.depth,
                self.threads,
                self.operators,
                self.fault,
                self.options
            )),
        }
    }
}

/// Runs streams until the time is over. `report` is called with the counts so far every few seconds.
///
/// # Errors
/// The loss, duplication or corruption, with the stream's seed and settings.
pub fn soak(device: &Device, soak: &Soak, report: &mut dyn FnMut(Soaked)) -> Result<Soaked, String> {
    const BETWEEN_REPORTS: Duration = Duration::from_secs(10);
    let begun = Instant::now();
    let mut reported = begun;
    let mut soaked = Soaked::default();
    for seed in soak.seed.. {
        if begun.elapsed() >= soak.time {
            break;
        }
        let stream = Stream::new(soak, seed);
        let (frames, bytes) = stream.run(device)?;
        soaked.streams += 1;
        soaked.failed += u64::from(stream.fault.is_some());
        soaked.frames += frames;
        soaked.bytes += bytes;
        if reported.elapsed() >= BETWEEN_REPORTS {
            reported = Instant::now();
            report(soaked);
        }
    }
    Ok(soaked)
}
