//! Operators on CPU threads.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use galatea_kernels::flow::{HostPublisher, HostSubscriber, InputFrame, Look, OutputFrame};
use parking_lot::Mutex;

use crate::error::{FlowError, Result};
use crate::operator::{CpuOperator, CpuWork, Step};
use crate::topology::Cpu;

/// State that all threads of a run share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) stop: AtomicBool,
    pub(super) failure: Mutex<Option<FlowError>>,
    pub(super) started: Instant,
    /// Looks without a result before a thread lets others run.
    pub(super) spins: u32,
}

impl Shared {
    /// Ends the run with an error, unless it has one.
    pub(super) fn fail(&self, error: FlowError) {
        self.failure.lock().get_or_insert(error);
        self.stop.store(true, Ordering::Release);
    }

    fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// The state of a thread of an operator that the watching thread sees.
#[derive(Debug, Default)]
pub(super) struct Pulse {
    /// Changes while the thread is not in the operator's code.
    pub(super) beat: AtomicU64,
    /// It waits for a frame of an exhausted heap.
    pub(super) starved: AtomicBool,
    pub(super) ended: AtomicBool,
}

/// One thread of an operator.
pub(super) struct Worker {
    pub(super) shared: Arc<Shared>,
    pub(super) pulse: Arc<Pulse>,
    pub(super) operator: Cpu,
    pub(super) thread: usize,
    pub(super) publisher: Option<Arc<HostPublisher>>,
    pub(super) subscriber: Option<Arc<HostSubscriber>>,
    pub(super) topic: String,
}

impl Worker {
    /// Runs the operator until its stream ends, it fails, or the run stops.
    pub(super) fn run(self) {
        let outcome = catch_unwind(AssertUnwindSafe(|| self.operate()));
        let operator = || self.operator.name.clone();
        match outcome {
            Ok(Ok(())) => {}
            Ok(Err(error)) => self.shared.fail(error),
            Err(panic) => {
                let message = panic
                    .downcast_ref::<&str>()
                    .map(|text| (*text).to_owned())
                    .or_else(|| panic.downcast_ref::<String>().cloned())
                    .unwrap_or_else(|| "without a message".to_owned());
                self.shared.fail(FlowError::Panicked {
                    operator: operator(),
                    message,
                });
            }
        }
        if let Some(publisher) = &self.publisher {
            publisher.leave();
        }
        self.pulse.ended.store(true, Ordering::Release);
    }

    fn operate(&self) -> Result<()> {
        let mut operator = (self.operator.factory)(self.thread);
        let mut reader = self.subscriber.as_ref().map(|subscriber| subscriber.reader());
        let publisher = self.publisher.as_deref();
        let mut output = None;
        let mut waits = Waits::new(self.shared.spins);
        let mut seed = (self.thread as u64) << 32;
        loop {
            while let (Some(publisher), None) = (publisher, &output) {
                seed += 1;
                output = publisher.take(seed);
                if output.is_none() {
                    let starved = !publisher.is_behind();
                    self.pulse.starved.store(starved, Ordering::Relaxed);
                    if self.pause(&mut waits) {
                        return Ok(());
                    }
                }
            }
            self.pulse.starved.store(false, Ordering::Relaxed);
            let input = match &mut reader {
                None => None,
                Some(reader) => loop {
                    match reader.look() {
                        Look::Frame(frame) => break Some(frame),
                        Look::Ended => return Ok(()),
                        Look::Empty => {}
                        Look::Corrupt(word) => {
                            return Err(FlowError::Corrupt {
                                topic: self.topic.clone(),
                                word,
                            });
                        }
                    }
                    if self.pause(&mut waits) {
                        return Ok(());
                    }
                },
            };
            waits.reset();
            if self.pulse_and_stop() {
                return Ok(());
            }
            let source = input.as_ref().map(InputFrame::source);
            let stamp = input.as_ref().map_or(0, InputFrame::stamp);
            let bytes = output.as_mut().map(OutputFrame::bytes);
            let room = bytes.as_ref().map_or(0, |bytes| bytes.len());
            let now = self.shared.now();
            let mut work = CpuWork {
                written: input.as_ref().map_or(room, |frame| frame.bytes().len().min(room)),
                input: input.as_ref().map(InputFrame::bytes),
                output: bytes,
                source,
                stamp: if source.is_some() { stamp } else { now },
                now,
            };
            let step = self.compute(&mut *operator, &mut work)?;
            let (written, source) = (work.written, work.source);
            let stamp = if input.is_some() { stamp } else { self.shared.now() };
            drop(input);
            if matches!(step, Step::Next | Step::Last)
                && let Some(frame) = output.take()
            {
                match source {
                    Some(source) => frame.publish(written.min(room), source, stamp),
                    None => frame.publish_source(written.min(room), stamp),
                };
            }
            if matches!(step, Step::Last | Step::End) {
                return Ok(());
            }
        }
    }

    fn compute(&self, operator: &mut dyn CpuOperator, work: &mut CpuWork<'_>) -> Result<Step> {
        operator.compute(work).map_err(|cause| FlowError::Operator {
            operator: self.operator.name.clone(),
            cause,
        })
    }

    /// Says that the thread is alive; whether the run stops.
    fn pulse_and_stop(&self) -> bool {
        let beat = &self.pulse.beat;
        // One writer: no atomic addition needed.
        beat.store(beat.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        self.shared.stop.load(Ordering::Relaxed)
    }

    /// Waits a little; whether the run stops.
    fn pause(&self, waits: &mut Waits) -> bool {
        waits.wait();
        self.pulse_and_stop()
    }
}

/// Looks without a result, with others given their turn in between, before a thread sleeps.
const YIELDS: u32 = 1 << 10;
/// Sleep of a thread that has found nothing for long.
const SLEEP: Duration = Duration::from_micros(20);

/// Spins, then lets other threads run, then sleeps: a stream without rows takes little of a core.
#[derive(Debug)]
struct Waits {
    spins: u32,
    done: u32,
}

impl Waits {
    fn new(spins: u32) -> Self {
        Self { spins, done: 0 }
    }

    fn reset(&mut self) {
        self.done = 0;
    }

    fn wait(&mut self) {
        if self.done < self.spins {
            self.done += 1;
            std::hint::spin_loop();
        } else if self.done < self.spins + YIELDS {
            self.done += 1;
            std::thread::yield_now();
        } else {
            std::thread::sleep(SLEEP);
        }
    }
}
