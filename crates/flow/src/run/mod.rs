//! A run: one kernel, a thread for each instance of an operator on the CPU, and the caller's thread, which
//! watches the others.
//!
//! All memory is allocated and the kernel is compiled before anything starts. Neither is allowed while a
//! kernel runs that does not end by itself. The caller then watches until all threads and the kernel have
//! ended. It grants buffers to heaps, detects threads and blocks without progress, and stops all when one has
//! failed. Those that do not stop within the timeout are abandoned, and their memory is leaked.

mod blocks;
mod host;
mod memory;
mod partition;
mod shortage;
mod supply;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use galatea_device::{Device, Geometry, Stream};
use galatea_kernels::Flow;
use galatea_kernels::flow::{
    BEAT_OVER, BLOCK_BEAT, BLOCK_FAILURE, BLOCK_OPERATOR, BLOCK_SOURCE, CONTROL_BEAT, CONTROL_LINE,
    CONTROL_STOP, FAILURE_HOST_SILENT, FAILURE_OUTPUT_LENGTH, TIMES_OF_BLOCK,
};
use parking_lot::Mutex;

use crate::error::{FlowError, Result};
use crate::generate::generate;
use crate::options::FlowOptions;
use crate::outcome::{Outcome, Steps};
use crate::topology::{Operator, Topology};
use host::{Pulse, Shared, Worker};
use memory::{DeviceMemory, HostMemory, Parts, times_at};
use partition::Retuner;
use shortage::Shortage;
use supply::Loan;

/// Default number of blocks. 64 blocks of 512 threads move frames of 16 KiB and more both ways over the link
/// of an H200 as fast as a kernel that only moves frames. 32 blocks are slower, and 128 wait longer for the
/// link. The other multiprocessors are left to other work.
const DEFAULT_BLOCKS: u32 = 64;
/// Time between two rounds of the watching thread.
const WATCH: Duration = Duration::from_micros(200);

impl Topology {
    /// Runs the topology. Returns when all operators have finished, or one has failed and the others have
    /// stopped.
    ///
    /// # Errors
    /// The first [`FlowError`] that occurred.
    pub fn run(&self, device: &Device, options: &FlowOptions) -> Result<Outcome> {
        self.check()?;
        if options.block_threads == 0
            || options.block_threads > 1024
            || !options.block_threads.is_multiple_of(32)
        {
            return Err(FlowError::topology(format!(
                "blocks of {} threads, not a multiple of 32 up to 1024\n\
                 hint: set FlowOptions::block_threads",
                options.block_threads
            )));
        }
        Run::new(self, device, options)?.run()
    }
}

/// The device's part of a run.
struct Kernel {
    flow: Flow,
    memory: DeviceMemory,
    blocks: u32,
    block_threads: u32,
    operators: Vec<(String, u64)>,
}

/// A run with its memory allocated.
struct Run<'a> {
    topology: &'a Topology,
    device: &'a Device,
    options: &'a FlowOptions,
    stream: Stream,
    host: HostMemory,
    kernel: Option<Kernel>,
    /// The shortage of buffers, if blocks wait for one.
    shortage: Option<Shortage>,
    /// The buffer that blocks were requested to lend.
    loan: Option<Loan>,
}

/// The beat of a watched thread or block, and the time of its last change.
struct Watched {
    beat: u64,
    changed: Instant,
}

impl Watched {
    fn new(now: Instant) -> Self {
        Self {
            beat: 0,
            changed: now,
        }
    }

    /// Time since the beat changed.
    fn still(&mut self, beat: u64, now: Instant) -> Duration {
        if beat != self.beat {
            (self.beat, self.changed) = (beat, now);
        }
        now - self.changed
    }
}

struct Thread {
    operator: usize,
    pulse: Arc<Pulse>,
    watched: Watched,
    starved: Watched,
}

impl<'a> Run<'a> {
    fn new(topology: &'a Topology, device: &'a Device, options: &'a FlowOptions) -> Result<Self> {
        let stream = device.stream()?;
        let on_device = topology.device_links().next().is_some();
        let compiled = match on_device {
            true => {
                let generated = generate(topology.device_links(), options.block_threads);
                let flow = Flow::compile(device, &generated.source)?;
                let resident = flow.resident_blocks(options.block_threads)?;
                let blocks = options.blocks.unwrap_or(DEFAULT_BLOCKS);
                let blocks = u64::from(blocks).min(resident).max(1);
                Some((flow, generated.bodies, u32::try_from(blocks).unwrap_or(u32::MAX)))
            }
            false => None,
        };
        let blocks = compiled.as_ref().map_or(0, |(_, _, blocks)| *blocks);
        let parts = Parts {
            topology,
            device,
            options,
            blocks,
        };
        let (host, block_frames) = HostMemory::new(parts)?;
        let kernel = match compiled {
            None => None,
            Some((flow, bodies, blocks)) => {
                let memory = DeviceMemory::new(parts, &stream, &host, block_frames, &bodies)?;
                let operators = topology.device_links().map(|link| {
                    let limit = link
                        .next
                        .map_or(0, |topic| topology.topics[topic].frame_bytes as u64);
                    (link.operator.name(), limit)
                });
                Some(Kernel {
                    flow,
                    memory,
                    blocks,
                    block_threads: options.block_threads,
                    operators: operators.collect(),
                })
            }
        };
        stream.synchronize()?;
        Ok(Self {
            topology,
            device,
            options,
            stream,
            host,
            kernel,
            shortage: None,
            loan: None,
        })
    }

    fn run(mut self) -> Result<Outcome> {
        let copied_before = self.device.link_use();
        if let Some(kernel) = &self.kernel {
            let geometry = Geometry::new(kernel.blocks, kernel.block_threads);
            kernel
                .flow
                .launch(&self.stream, geometry, &kernel.memory.arguments)?;
        }
        let shared = Arc::new(Shared {
            stop: AtomicBool::new(false),
            failure: Mutex::new(None),
            started: Instant::now(),
            spins: if self.device.info().emulated { 0 } else { 1 << 14 },
        });
        let threads = self.start(&shared);
        let mut retuner = self.retuner();
        let (granted, ended) = self.watch(&shared, threads, retuner.as_mut());
        let elapsed = shared.started.elapsed();
        let failure = shared.failure.lock().take();
        if !ended {
            // A kernel or a thread still uses the memory, and may do so forever.
            let error = failure.unwrap_or_else(|| FlowError::topology("it did not end"));
            std::mem::forget((self.stream, self.host, self.kernel, self.device.clone()));
            return Err(error);
        }
        let accounts = self.account(copied_before);
        if let Some(error) = failure {
            // Return the first failure, not its consequences.
            let leaked = accounts.map_or(0, |accounts| accounts.leaked);
            debug_assert_eq!(leaked, 0, "frames unaccounted for after: {error}");
            return Err(error);
        }
        Ok(Outcome {
            elapsed,
            granted,
            partitions: retuner.map_or_else(Vec::new, |retuner| retuner.chosen),
            ..accounts?
        })
    }

    /// Creates the retuner, if the options request one and the device has several operators.
    fn retuner(&self) -> Option<Retuner> {
        let (kernel, options) = (self.kernel.as_ref()?, self.options.retune?);
        let partition = &kernel.memory.partition;
        let at = times_at(kernel.blocks);
        (partition.len() > 1).then(|| Retuner::new(options, at, partition, Instant::now()))
    }

    /// Starts the threads of the operators on the CPU.
    fn start(&self, shared: &Arc<Shared>) -> Vec<Thread> {
        let now = Instant::now();
        let mut threads = Vec::new();
        for (number, link) in self.topology.links.iter().enumerate() {
            let Operator::Cpu(cpu) = &link.operator else {
                continue;
            };
            let over = Arc::new(AtomicBool::new(false));
            for thread in 0..cpu.threads {
                let pulse = Arc::new(Pulse::default());
                let worker = Worker {
                    shared: Arc::clone(shared),
                    pulse: Arc::clone(&pulse),
                    operator: cpu.clone(),
                    thread,
                    publisher: link
                        .next
                        .and_then(|topic| self.host.topics[topic].publisher.clone()),
                    subscriber: self.host.subscribers[number].clone(),
                    topic: link
                        .previous
                        .map_or(String::new(), |topic| self.topology.topics[topic].name.clone()),
                    over: Arc::clone(&over),
                };
                let started = std::thread::Builder::new()
                    .name(format!("flow-{}-{thread}", cpu.name))
                    .spawn(move || worker.run());
                if let Err(cause) = started {
                    shared.fail(FlowError::Thread {
                        operator: cpu.name.clone(),
                        cause,
                    });
                    return threads;
                }
                threads.push(Thread {
                    operator: number,
                    pulse,
                    watched: Watched::new(now),
                    starved: Watched::new(now),
                });
            }
        }
        threads
    }

    /// Watches until all have ended, or have not ended in time after being stopped. Returns the numbers of
    /// granted buffers, and whether all have ended.
    fn watch(
        &mut self,
        shared: &Shared,
        mut threads: Vec<Thread>,
        mut retuner: Option<&mut Retuner>,
    ) -> ((u64, u64), bool) {
        let limit = self.options.timeout;
        let now = Instant::now();
        let blocks = self.kernel.as_ref().map_or(0, |kernel| kernel.blocks as usize);
        let mut watched: Vec<Watched> = (0..blocks).map(|_| Watched::new(now)).collect();
        let mut kernel_ended = self.kernel.is_none();
        let (mut granted, mut stolen) = (0, 0);
        let mut stopped: Option<Instant> = None;
        for beat in 1_u64.. {
            let now = Instant::now();
            self.host.control.get(CONTROL_BEAT).store(beat, Ordering::Relaxed);
            if !kernel_ended {
                match self.stream.is_idle() {
                    Ok(idle) => kernel_ended = idle,
                    Err(error) => {
                        // The device is lost, so nothing runs on it any more.
                        shared.fail(error.into());
                        kernel_ended = true;
                    }
                }
            }
            self.hear_blocks(shared, &mut watched, kernel_ended, now);
            if let Some(retuner) = &mut retuner {
                retuner.look(&self.host.control, now);
            }
            threads.retain_mut(|thread| {
                if thread.pulse.ended.load(Ordering::Acquire) {
                    return false;
                }
                let still = thread
                    .watched
                    .still(thread.pulse.beat.load(Ordering::Relaxed), now);
                if still > limit {
                    shared.fail(FlowError::Hung {
                        who: format!(
                            "operator {}",
                            self.topology.links[thread.operator].operator.name()
                        ),
                        waited: still,
                        limit,
                    });
                }
                true
            });
            if threads.is_empty() && kernel_ended {
                // A block that failed may have ended before its failure was read.
                self.hear_blocks(shared, &mut watched, true, now);
                return ((granted, stolen), true);
            }
            let (new, from_heap) = self.supply(shared, &mut threads, now);
            granted += new;
            stolen += from_heap;
            if shared.stop.load(Ordering::Acquire) {
                self.host.control.get(CONTROL_STOP).store(1, Ordering::Release);
                let since = *stopped.get_or_insert(now);
                if now - since > limit {
                    return ((granted, stolen), false);
                }
            }
            std::thread::sleep(WATCH);
        }
        ((granted, stolen), false)
    }

    /// Reads the failures of blocks, and their beats while the kernel runs.
    fn hear_blocks(&self, shared: &Shared, watched: &mut [Watched], ended: bool, now: Instant) {
        let limit = self.options.timeout;
        let Some(kernel) = &self.kernel else { return };
        let mut silent = 0;
        for (block, watched) in watched.iter_mut().enumerate() {
            let word = |word: usize| {
                let place = (block + 1) * CONTROL_LINE + word;
                self.host.control.get(place).load(Ordering::Acquire)
            };
            let code = word(BLOCK_FAILURE) as u32;
            if code != 0 {
                let (operator, source_offset) = (word(BLOCK_OPERATOR) as usize, word(BLOCK_SOURCE));
                let (operator, limit_bytes) = kernel.operators.get(operator).cloned().unwrap_or_default();
                shared.fail(match code {
                    FAILURE_HOST_SILENT => FlowError::HostSilent { limit },
                    FAILURE_OUTPUT_LENGTH => FlowError::OutputLength {
                        operator,
                        limit: limit_bytes,
                        source_offset,
                    },
                    code => FlowError::DeviceOperator {
                        operator,
                        code,
                        source_offset,
                    },
                });
            }
            let beat = word(BLOCK_BEAT);
            let still = watched.still(beat, now);
            // The beat of a block that has ended does not change any more; that of a block that has not
            // started is 0.
            silent += u64::from(beat == 0);
            let over = beat == BEAT_OVER || ended || shared.stop.load(Ordering::Relaxed);
            if !over && beat != 0 && still > limit {
                shared.fail(FlowError::Hung {
                    who: format!("block {block} of the device"),
                    waited: still,
                    limit,
                });
            }
        }
        let waited = shared.started.elapsed();
        if !ended && silent > 0 && silent == u64::from(kernel.blocks) && waited > limit {
            shared.fail(FlowError::Hung {
                who: "the kernel, which has not started,".to_owned(),
                waited,
                limit,
            });
        }
    }

    /// Collects the counts of a run that has ended.
    fn account(&self, copied_before: (u64, u64)) -> Result<Outcome> {
        let copied = self.device.link_use();
        let copied = copied.0 + copied.1 - copied_before.0 - copied_before.1;
        let published = self.host.topics.iter();
        let mut published: Vec<u64> = published
            .map(|topic| {
                topic
                    .publisher
                    .as_ref()
                    .map_or(0, |publisher| publisher.published())
            })
            .collect();
        let mut leaked = self.host.leaked();
        let mut steps = None;
        if let Some(kernel) = &self.kernel
            && self.device.alive().is_ok()
        {
            let (tails, unaccounted) = kernel.memory.accounts(&self.stream)?;
            for (topic, tail) in tails {
                published[topic] = tail;
            }
            leaked += unaccounted;
            if let Some(times) = &kernel.memory.times {
                let words = self.stream.read(times, ..)?;
                steps = Some(Steps::sum(&words, TIMES_OF_BLOCK, kernel.operators.len()));
            }
        }
        Ok(Outcome {
            published,
            launches: u64::from(self.kernel.is_some()),
            copied,
            leaked,
            blocks: self.kernel.as_ref().map_or(0, |kernel| kernel.blocks),
            steps,
            ..Outcome::default()
        })
    }
}
