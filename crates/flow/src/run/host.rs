//! Operators on CPU threads.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use galatea_kernels::flow::{HostPublisher, HostSubscriber, InputFrame, Look, OutputFrame, Reader};
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
    /// Number of unsuccessful looks before a thread yields to others.
    pub(super) spins: u32,
}

impl Shared {
    /// Ends the run with an error. The first error is kept.
    pub(super) fn fail(&self, error: FlowError) {
        self.failure.lock().get_or_insert(error);
        self.stop.store(true, Ordering::Release);
    }

    fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// The state of an operator's thread that the watching thread reads.
#[derive(Debug, Default)]
pub(super) struct Pulse {
    /// Changes while the thread is not in the operator's code.
    pub(super) beat: AtomicU64,
    /// The number of the current wait for a frame of an exhausted heap, from 1; 0 while the thread does not
    /// wait.
    pub(super) starved: AtomicU64,
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
    /// Set when a thread has ended the operator, which reads a topic.
    pub(super) over: Arc<AtomicBool>,
}

impl Worker {
    /// Runs the operator until its stream ends, it fails, or the run stops.
    pub(super) fn run(self) {
        let mut reader = self.subscriber.as_ref().map(|subscriber| subscriber.reader());
        let outcome = catch_unwind(AssertUnwindSafe(|| self.operate(&mut reader)));
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
        self.pulse.starved.store(0, Ordering::Relaxed);
        if let Some(publisher) = &self.publisher {
            publisher.leave();
        }
        if let Some(reader) = &mut reader
            && let Err(error) = self.pass_over(reader)
        {
            self.shared.fail(error);
        }
        self.pulse.ended.store(true, Ordering::Release);
    }

    /// Releases the frames that the operator has not read, if it ends before its topic does. Publishers would
    /// wait for them forever.
    fn pass_over(&self, reader: &mut Reader<'_>) -> Result<()> {
        let mut waits = Waits::new(self.shared.spins);
        while !self.is_told_to_stop() {
            match self.look(reader)? {
                Look::Frame(_) => waits.reset(),
                Look::Ended => break,
                _ => waits.wait(),
            }
        }
        Ok(())
    }

    /// Looks at the topic. A word that does not identify a frame of it is an error.
    fn look<'f, 's>(&self, reader: &'f mut Reader<'s>) -> Result<Look<'f, 's>> {
        self.beat();
        match reader.look() {
            Look::Corrupt(word) => Err(FlowError::Corrupt {
                topic: self.topic.clone(),
                word,
            }),
            look => Ok(look),
        }
    }

    fn operate(&self, reader: &mut Option<Reader<'_>>) -> Result<()> {
        let mut operator = (self.operator.factory)(self.thread);
        let publisher = self.publisher.as_deref();
        let mut output = None;
        let mut waits = Waits::new(self.shared.spins);
        let mut seed = (self.thread as u64) << 32;
        let mut wait = 0_u64;
        loop {
            wait += 1;
            while let (Some(publisher), None) = (publisher, &output) {
                seed += 1;
                output = publisher.take(seed);
                if output.is_none() {
                    let starved = !publisher.is_behind();
                    let wait = if starved { wait } else { 0 };
                    self.pulse.starved.store(wait, Ordering::Relaxed);
                    if self.pause(&mut waits) {
                        return Ok(());
                    }
                }
            }
            self.pulse.starved.store(0, Ordering::Relaxed);
            let input = match &mut *reader {
                None => None,
                Some(reader) => loop {
                    match self.look(reader)? {
                        Look::Frame(frame) => break Some(frame),
                        Look::Ended => return Ok(()),
                        Look::Empty | Look::Corrupt(_) => {}
                    }
                    if self.pause(&mut waits) {
                        return Ok(());
                    }
                },
            };
            waits.reset();
            self.beat();
            if self.is_over() {
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
            if let Some(publisher) = publisher
                && written > room
            {
                return Err(FlowError::OutputLength {
                    operator: self.operator.name.clone(),
                    limit: room as u64,
                    source_offset: source.unwrap_or_else(|| publisher.published()),
                });
            }
            let stamp = if input.is_some() { stamp } else { self.shared.now() };
            drop(input);
            if matches!(step, Step::Next | Step::Last)
                && let Some(frame) = output.take()
            {
                match source {
                    Some(source) => frame.publish(written, source, stamp),
                    None => frame.publish_source(written, stamp),
                };
            }
            if matches!(step, Step::Last | Step::End) {
                self.over.store(reader.is_some(), Ordering::Relaxed);
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

    /// Signals that the thread is alive.
    fn beat(&self) {
        let beat = &self.pulse.beat;
        // The beat has only one writer, so it needs no atomic addition.
        beat.store(beat.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    fn is_told_to_stop(&self) -> bool {
        self.shared.stop.load(Ordering::Relaxed)
    }

    /// Whether the operator must not be called any more.
    fn is_over(&self) -> bool {
        self.is_told_to_stop() || self.over.load(Ordering::Relaxed)
    }

    /// Waits briefly. Returns whether the operator is over.
    fn pause(&self, waits: &mut Waits) -> bool {
        waits.wait();
        self.beat();
        self.is_over()
    }
}

/// Number of unsuccessful looks, with yields in between, before a thread sleeps.
const YIELDS: u32 = 1 << 10;
/// Sleep of a thread that has found no frame for a long time.
const SLEEP: Duration = Duration::from_micros(20);

/// Spins, then yields to other threads, then sleeps, so that a stream without rows needs little CPU time.
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
