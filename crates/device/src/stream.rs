//! Streams: queues of work that the device processes in order, each independent of the others.
//!
//! No function here blocks unless its documentation states it. The stream holds host memory that copies read,
//! with an event that marks the end of the copy. The memory is released at the next copy, at a
//! synchronisation, or when the stream itself is dropped. Copies, fills and reads are in `copies`, launches
//! in `module`.
//!
//! Dropping the last handle of a stream waits for its work. The context keeps and reuses the driver's stream,
//! so creating one per query is cheap.

use std::collections::VecDeque;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use cudarc::driver::sys::{CUresult, CUstream};
use parking_lot::Mutex;

use crate::context::Context;
use crate::errors::{DeviceError, Result};
use crate::event::Event;
use crate::host::HostMemory;
use crate::sys::Code;

/// `CU_STREAM_NON_BLOCKING`: no implicit order with the default stream, which others in the process may use.
const NON_BLOCKING: u32 = 1;
/// `CU_EVENT_BLOCKING_SYNC`: threads that wait for the event sleep.
const BLOCKING: u32 = 1;
/// `CU_EVENT_DISABLE_TIMING`.
const DISABLE_TIMING: u32 = 2;

/// A queue of work on a device. Clones are the same queue.
#[derive(Clone)]
pub struct Stream(Arc<Inner>);

struct Inner {
    context: Arc<Context>,
    handle: CUstream,
    priority: i32,
    /// Set when the last handle was dropped and all of its work is done.
    retired: Arc<AtomicBool>,
    last_kernel: Mutex<Option<Arc<str>>>,
    in_flight: Mutex<VecDeque<InFlight>>,
}

// SAFETY: the driver's stream handles may be used from any thread; the rest is Send and Sync.
unsafe impl Send for Inner {}
// SAFETY: as above; the driver synchronises concurrent calls on one stream.
unsafe impl Sync for Inner {}

impl Stream {
    pub(crate) fn new(context: &Arc<Context>, priority: i32) -> Result<Self> {
        context.bind()?;
        let handle = match context.idle_stream(priority) {
            Some(handle) => handle,
            None => {
                let mut handle = ptr::null_mut();
                // SAFETY: the pointer is valid for a write and the context is current.
                context.check("cuStreamCreate", unsafe {
                    (context.driver.cuStreamCreateWithPriority)(&raw mut handle, NON_BLOCKING, priority)
                })?;
                handle
            }
        };
        Ok(Self(Arc::new(Inner {
            context: Arc::clone(context),
            handle,
            priority,
            retired: Arc::default(),
            last_kernel: Mutex::default(),
            in_flight: Mutex::default(),
        })))
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.0.context
    }

    pub(crate) fn handle(&self) -> CUstream {
        self.0.handle
    }

    /// Whether both are handles of one stream.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(crate) fn same_device(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0.context, &other.0.context)
    }

    /// A handle that does not keep the stream alive.
    pub(crate) fn downgrade(&self) -> Guest {
        Guest {
            stream: Arc::downgrade(&self.0),
            retired: Arc::clone(&self.0.retired),
        }
    }

    pub(crate) fn launched(&self, kernel: &Arc<str>) {
        *self.0.last_kernel.lock() = Some(Arc::clone(kernel));
    }

    pub(crate) fn check(&self, call: &'static str, code: Code) -> Result<()> {
        self.0.context.check_after(call, code, &self.0.last_kernel)
    }

    /// Waits for an event of this stream. A failure is reported with the stream's last kernel.
    pub(crate) fn synchronize_event(&self, event: &Event) -> Result<()> {
        let context = &self.0.context;
        context.bind()?;
        // SAFETY: the event is alive and its context current.
        self.check("cuEventSynchronize", unsafe {
            (context.driver.cuEventSynchronize)(event.handle)
        })
    }

    /// Waits until all work queued so far is done.
    ///
    /// # Errors
    /// The failure of any queued work: [`DeviceError::LaunchFailed`] for a kernel.
    pub fn synchronize(&self) -> Result<()> {
        let context = &self.0.context;
        context.bind()?;
        let waiter = context.waiter();
        if waiter.sleeps() && !self.is_idle()? {
            let done = Event::new(context, BLOCKING | DISABLE_TIMING)?;
            self.record_into(&done)?;
            self.synchronize_event(&done)?;
        } else {
            // SAFETY: the stream is alive and its context current.
            self.check("cuStreamSynchronize", unsafe {
                (context.driver.cuStreamSynchronize)(self.0.handle)
            })?;
        }
        drop(waiter);
        let done = self.finished();
        drop(done);
        Ok(())
    }

    /// Like [`Stream::synchronize`], for a caller that then frees or reuses memory of copies. On a lost
    /// device, it also waits until copies that have begun are over.
    pub(crate) fn settle(&self) -> Result<()> {
        let outcome = self.synchronize();
        if outcome.is_err() {
            self.0.context.wait_for_lost(self.0.handle);
        }
        outcome
    }

    /// Whether all work queued so far is done. Does not wait.
    ///
    /// # Errors
    /// Those of [`Stream::synchronize`].
    pub fn is_idle(&self) -> Result<bool> {
        let context = &self.0.context;
        context.bind()?;
        // SAFETY: the stream is alive and its context current.
        let code = unsafe { (context.driver.cuStreamQuery)(self.0.handle) };
        if code.is(CUresult::CUDA_ERROR_NOT_READY) {
            return Ok(false);
        }
        self.check("cuStreamQuery", code).map(|()| true)
    }

    /// Marks this position of the queue.
    ///
    /// # Errors
    /// The errors of the device.
    pub fn record(&self) -> Result<Event> {
        let event = Event::new(&self.0.context, 0)?;
        self.record_into(&event)?;
        Ok(event)
    }

    /// Like [`Stream::record`], but the event has no time. It only orders work, and the driver records it
    /// faster.
    pub(crate) fn mark(&self) -> Result<Event> {
        let event = Event::new(&self.0.context, DISABLE_TIMING)?;
        self.record_into(&event)?;
        Ok(event)
    }

    fn record_into(&self, event: &Event) -> Result<()> {
        let context = &self.0.context;
        context.bind()?;
        // SAFETY: event and stream are alive and of the current context.
        self.check("cuEventRecord", unsafe {
            (context.driver.cuEventRecord)(event.handle, self.0.handle)
        })
    }

    /// Makes all work queued from now on wait for an event of any stream of the device. The host does not
    /// wait.
    ///
    /// # Errors
    /// The errors of the device; [`DeviceError::WrongDevice`] for an event of another device.
    pub fn wait(&self, event: &Event) -> Result<()> {
        let context = &self.0.context;
        if !Arc::ptr_eq(context, &event.context) {
            return Err(DeviceError::WrongDevice { what: "event" });
        }
        context.bind()?;
        // SAFETY: event and stream are alive and of the current context.
        self.check("cuStreamWaitEvent", unsafe {
            (context.driver.cuStreamWaitEvent)(self.0.handle, event.handle, 0)
        })
    }

    /// Keeps host memory alive until all work queued so far is done.
    pub(crate) fn hold(&self, memories: Vec<Arc<HostMemory>>) -> Result<()> {
        let done = self.finished_at_front();
        drop(done);
        let same = |last: &[Arc<HostMemory>]| {
            let mut pairs = last.iter().zip(&memories);
            last.len() == memories.len() && pairs.all(|(last, memory)| Arc::ptr_eq(last, memory))
        };
        let mut in_flight = self.0.in_flight.lock();
        // Consecutive copies from the same memory share an event: it is recorded again, later in the queue.
        let recorded = match in_flight.back() {
            Some((event, last)) if same(last) => self.record_into(event),
            _ => self
                .mark()
                .map(|event| in_flight.push_back((event, memories.clone()))),
        };
        drop(in_flight);
        if let Err(error) = recorded {
            // Without an event, wait while the memory is still held here.
            let _ = self.settle();
            return Err(error);
        }
        Ok(())
    }

    /// Host memory that is no longer needed according to the events. The caller drops it outside of the lock.
    fn finished_at_front(&self) -> Vec<InFlight> {
        let mut in_flight = self.0.in_flight.lock();
        let done = in_flight
            .iter()
            .take_while(|(event, _)| event.is_complete().unwrap_or(false))
            .count();
        in_flight.drain(..done).collect()
    }

    /// Like [`Self::finished_at_front`], after a synchronisation: usually all of it, but another thread may
    /// have queued more.
    fn finished(&self) -> Vec<InFlight> {
        if self.0.in_flight.lock().is_empty() {
            Vec::new()
        } else {
            self.finished_at_front()
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.context.bind_for_drop() {
            // SAFETY: the stream is alive and its context current.
            let code = unsafe { (self.context.driver.cuStreamSynchronize)(self.handle) };
            if self
                .context
                .check_after("cuStreamSynchronize", code, &self.last_kernel)
                .is_ok()
            {
                self.context.keep_stream(self.handle, self.priority);
            }
        }
        if self.context.alive().is_err() {
            // Copies that have begun use the memory that is held here.
            self.context.wait_for_lost(self.handle);
        }
        self.retired.store(true, Ordering::Release);
    }
}

/// A weak handle of a stream that uses memory of another stream, the *home* of the memory.
pub(crate) struct Guest {
    stream: Weak<Inner>,
    retired: Arc<AtomicBool>,
}

/// Host memory that copies use, and an event after the last of them.
type InFlight = (Event, Vec<Arc<HostMemory>>);

impl Guest {
    pub(crate) fn is(&self, stream: &Stream) -> bool {
        ptr::eq(self.stream.as_ptr(), Arc::as_ptr(&stream.0))
    }

    /// Whether the stream was dropped, and all of its work is done.
    pub(crate) fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Acquire)
    }

    /// Lets later work of `home` wait for the work that this stream has queued.
    pub(crate) fn precede(&self, home: &Stream) -> Result<()> {
        if self.is_retired() {
            return Ok(());
        }
        match self.stream.upgrade() {
            Some(stream) => home.wait(&Stream(stream).mark()?),
            // Another thread drops the last handle and waits for its work. This thread waits for all work of
            // the context.
            None => home.0.context.synchronize(),
        }
    }
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stream")
            .field("device", &self.0.context.info.name)
            .finish_non_exhaustive()
    }
}
