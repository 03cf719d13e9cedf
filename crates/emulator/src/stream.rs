//! Streams and events.
//!
//! A stream is an OS thread that executes its operations in order. An event is the completion of a position
//! in a stream. Recording creates a new completion, so that an earlier wait refers to the earlier record, as
//! in CUDA. After a failed launch, the context is lost and executes nothing more: operations are dropped
//! (memory is still freed and events still complete, and the error is reported to the caller that waits), and
//! running kernels are given up at the next block, or the next time that they wait. So no kernel reads data
//! that a dropped copy should have written.

use std::collections::VecDeque;
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

use crate::device::Device;
use crate::launch::Launch;
use crate::pool::Pool;
use crate::report::{Failure, FailureKind};

/// An operation in stream order. Addresses were checked when the operation was enqueued.
#[derive(Debug)]
pub(crate) enum Operation {
    Launch(Arc<Launch>),
    /// `device` marks which of the two are device addresses, to check them again.
    Copy {
        to: u64,
        from: u64,
        bytes: usize,
        device: (bool, bool),
    },
    /// Repeats a little-endian value of `width` bytes.
    Fill {
        to: u64,
        value: u32,
        width: usize,
        count: usize,
    },
    /// Stores a word that a running kernel may wait for.
    Write {
        to: u64,
        value: u32,
    },
    Record(Arc<Completion>),
    Wait(Arc<Completion>),
    Host(unsafe extern "C" fn(*mut c_void), usize),
    Free(u64),
}

/// An ordered queue of operations with its OS thread.
#[derive(Debug)]
pub(crate) struct Stream {
    queue: Arc<Queue>,
}

#[derive(Debug)]
struct Queue {
    device: Arc<Device>,
    pool: Arc<Pool>,
    state: Mutex<State>,
    wake: Condvar,
    done: Condvar,
}

#[derive(Debug, Default)]
struct State {
    operations: VecDeque<Operation>,
    submitted: u64,
    completed: u64,
    started: bool,
    closed: bool,
}

impl Stream {
    /// Creates a stream of a device. A pool executes its launches, and its thread starts with the first
    /// operation.
    pub(crate) fn new(device: &Arc<Device>, pool: &Arc<Pool>) -> Arc<Stream> {
        Arc::new(Stream {
            queue: Arc::new(Queue {
                device: Arc::clone(device),
                pool: Arc::clone(pool),
                state: Mutex::default(),
                wake: Condvar::new(),
                done: Condvar::new(),
            }),
        })
    }

    pub(crate) fn device(&self) -> &Arc<Device> {
        &self.queue.device
    }

    pub(crate) fn pool(&self) -> &Arc<Pool> {
        &self.queue.pool
    }

    /// Appends an operation. Returns false if the stream's thread could not be started.
    pub(crate) fn push(&self, operation: Operation) -> bool {
        let mut state = self.queue.state.lock();
        if !state.started {
            let queue = Arc::clone(&self.queue);
            let spawned = std::thread::Builder::new()
                .name("galatea-emulator-stream".to_owned())
                .spawn(move || queue.serve());
            if let Err(error) = spawned {
                tracing::error!("no thread for an emulated stream: {error}");
                return false;
            }
            state.started = true;
        }
        state.submitted += 1;
        state.operations.push_back(operation);
        drop(state);
        self.queue.wake.notify_one();
        true
    }

    /// Waits until all operations appended so far are done.
    pub(crate) fn synchronize(&self) {
        let mut state = self.queue.state.lock();
        let target = state.submitted;
        while state.completed < target {
            self.queue.done.wait(&mut state);
        }
    }

    /// Whether the stream has no operations left.
    pub(crate) fn idle(&self) -> bool {
        let state = self.queue.state.lock();
        state.completed == state.submitted
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.queue.state.lock().closed = true;
        self.queue.wake.notify_one();
    }
}

impl Queue {
    fn serve(&self) {
        loop {
            let mut state = self.state.lock();
            let operation = loop {
                if let Some(operation) = state.operations.pop_front() {
                    break operation;
                }
                if state.closed {
                    return;
                }
                self.wake.wait(&mut state);
            };
            // For every observer, an event and its position in the stream are reached at the same time.
            if let Operation::Record(completion) = &operation {
                completion.complete();
            } else {
                drop(state);
                self.perform(operation);
                state = self.state.lock();
            }
            state.completed += 1;
            drop(state);
            self.done.notify_all();
        }
    }

    fn perform(&self, operation: Operation) {
        let device = &self.device;
        let lost = device.check().is_err();
        match operation {
            Operation::Free(address) => {
                if let Err(what) = device.memory.free(address) {
                    self.fail(what);
                }
            }
            Operation::Record(_) => {}
            Operation::Wait(completion) => completion.wait(),
            _ if lost => {}
            Operation::Write { to, value } => {
                if !device.memory.holds(to, 4) {
                    return self.fail(format!("store of a word at {to:#x}: memory was freed"));
                }
                // SAFETY: the range was just checked, and its alignment when the store was enqueued. Kernels
                // that wait for the word load it atomically.
                unsafe { AtomicU32::from_ptr(to as *mut u32) }.store(value, Ordering::Release);
            }
            Operation::Launch(launch) => {
                if let Err(failure) = self.pool.execute(&launch) {
                    device.fail(&launch.function.name, launch.seed, &failure);
                }
                device.options().faults.launch_done();
            }
            Operation::Copy {
                to,
                from,
                bytes,
                device: (to_device, from_device),
            } => {
                if to_device && !device.memory.holds(to, bytes)
                    || from_device && !device.memory.holds(from, bytes)
                {
                    return self.fail(format!(
                        "copy of {bytes} bytes from {from:#x} to {to:#x}: memory was freed"
                    ));
                }
                device.options().faults.copy(|| {
                    // SAFETY: device ranges were just checked; host ranges are the caller's promise. The two
                    // may overlap, which the driver leaves undefined.
                    unsafe { std::ptr::copy(from as *const u8, to as *mut u8, bytes) }
                });
            }
            Operation::Fill {
                to,
                value,
                width,
                count,
            } => {
                if !device.memory.holds(to, width * count) {
                    return self.fail(format!(
                        "fill of {} bytes at {to:#x}: memory was freed",
                        width * count
                    ));
                }
                // SAFETY: the range was just checked; 4-byte fills were checked for alignment.
                unsafe {
                    if width == 1 {
                        std::ptr::write_bytes(to as *mut u8, value as u8, count);
                    } else {
                        std::slice::from_raw_parts_mut(to as *mut u32, count).fill(value);
                    }
                }
            }
            // SAFETY: the function and its argument are the caller's promise.
            Operation::Host(function, argument) => unsafe { function(argument as *mut c_void) },
        }
    }

    fn fail(&self, what: String) {
        let failure = Failure {
            kind: FailureKind::Fault,
            what,
            place: String::new(),
        };
        self.device
            .fail("(memory operation)", self.device.seed(), &failure);
    }
}

/// A position in a stream that is reached once.
#[derive(Debug, Default)]
pub(crate) struct Completion {
    reached: Mutex<Option<Instant>>,
    wake: Condvar,
}

impl Completion {
    fn complete(&self) {
        *self.reached.lock() = Some(Instant::now());
        self.wake.notify_all();
    }

    /// Waits until the position is reached.
    pub(crate) fn wait(&self) {
        let mut reached = self.reached.lock();
        while reached.is_none() {
            self.wake.wait(&mut reached);
        }
    }

    /// The time at which the position was reached.
    pub(crate) fn time(&self) -> Option<Instant> {
        *self.reached.lock()
    }
}

/// A CUDA event: the completion of its last record.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) device: Arc<Device>,
    pub(crate) timed: bool,
    recorded: Mutex<Option<Arc<Completion>>>,
}

impl Event {
    pub(crate) fn new(device: &Arc<Device>, timed: bool) -> Event {
        Event {
            device: Arc::clone(device),
            timed,
            recorded: Mutex::new(None),
        }
    }

    /// The completion of the last record, if any.
    pub(crate) fn last(&self) -> Option<Arc<Completion>> {
        self.recorded.lock().clone()
    }

    /// Records the event at the end of a stream.
    pub(crate) fn record(&self, stream: &Stream) -> bool {
        let completion = Arc::new(Completion::default());
        let pushed = stream.push(Operation::Record(Arc::clone(&completion)));
        *self.recorded.lock() = Some(completion);
        pushed
    }
}
