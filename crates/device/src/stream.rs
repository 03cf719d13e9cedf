//! Streams: queues of copies, fills and launches that the device works off in order, each independent of the
//! others.
//!
//! Nothing here blocks except what says so. Copies from [`HostView`]s keep the host memory alive until the
//! device has read it: the stream holds it, with an event that says when, and lets go of finished ones at the
//! next copy, at a synchronisation, or when the stream itself goes. Copies from and to Rust slices return
//! when the copy is done, since nothing else would keep the slice from changing or going away.
//!
//! Dropping the last handle of a stream waits for its work. The driver's stream is kept by the context and
//! reused, so making one per query is cheap.

use std::collections::VecDeque;
use std::ops::RangeBounds;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use bytemuck::Pod;
use cudarc::driver::sys::{CUresult, CUstream};
use parking_lot::Mutex;

use crate::buffer::{DeviceBuffer, DeviceSlice, DeviceSliceMut, resolve};
use crate::context::Context;
use crate::errors::{DeviceError, Result};
use crate::event::Event;
use crate::host::{HostMemory, HostView, checked_end};
use crate::sys::Code;

/// `CU_STREAM_NON_BLOCKING`: no implicit order with the default stream, which others in the process may use.
const NON_BLOCKING: u32 = 1;
/// `CU_EVENT_DISABLE_TIMING`.
const DISABLE_TIMING: u32 = 2;

/// A queue of work on a device. Clones are the same queue.
#[derive(Clone)]
pub struct Stream(Arc<Inner>);

struct Inner {
    context: Arc<Context>,
    handle: CUstream,
    priority: i32,
    /// Set when all work is done for good, by the last handle's drop.
    retired: Arc<AtomicBool>,
    last_kernel: Mutex<Option<Arc<str>>>,
    in_flight: Mutex<VecDeque<(Event, Arc<HostMemory>)>>,
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

    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(crate) fn same_device(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0.context, &other.0.context)
    }

    /// A handle that does not keep the stream.
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

    /// Waits until everything queued so far is done.
    ///
    /// # Errors
    /// The failure of anything queued: [`DeviceError::LaunchFailed`] for a kernel.
    pub fn synchronize(&self) -> Result<()> {
        let context = &self.0.context;
        context.bind()?;
        // SAFETY: the stream is alive and its context current.
        self.check("cuStreamSynchronize", unsafe {
            (context.driver.cuStreamSynchronize)(self.0.handle)
        })?;
        let done = self.finished();
        drop(done);
        Ok(())
    }

    /// Whether everything queued so far is done; does not wait.
    ///
    /// # Errors
    /// As [`Stream::synchronize`].
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

    /// Marks this point of the queue.
    ///
    /// # Errors
    /// The device's.
    pub fn record(&self) -> Result<Event> {
        let event = Event::new(&self.0.context, 0)?;
        self.record_into(&event)?;
        Ok(event)
    }

    /// As [`Stream::record`] without a time, which the driver records faster: for order alone.
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

    /// Makes everything queued from now on wait for an event of any stream of the device. The host does not
    /// wait.
    ///
    /// # Errors
    /// The device's; [`DeviceError::WrongDevice`] for an event of another one.
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

    /// Queues a copy of host memory to a buffer or a part of one of the same size. At link speed and
    /// asynchronous when the memory is pinned; otherwise staged by the driver. The memory is kept alive until
    /// the copy is done.
    ///
    /// # Errors
    /// [`DeviceError::Range`] when the sizes differ; the device's.
    pub fn copy_to_device<'a, T: Pod>(
        &self,
        target: impl Into<DeviceSliceMut<'a, T>>,
        source: &HostView,
    ) -> Result<()> {
        let target = target.into();
        same_size(
            "copy of host memory to the device",
            source.len() as u64,
            target.bytes(),
        )?;
        if source.is_empty() {
            return Ok(());
        }
        self.enqueue_upload(&target, source.as_slice().as_ptr())?;
        self.hold(Arc::clone(source.memory()))
    }

    /// Copies a slice to a buffer or a part of one of the same length; returns when the copy is done, and
    /// with it all that was queued before.
    ///
    /// # Errors
    /// [`DeviceError::Range`] when the lengths differ; the device's.
    pub fn copy_from_slice<'a, T: Pod>(
        &self,
        target: impl Into<DeviceSliceMut<'a, T>>,
        source: &[T],
    ) -> Result<()> {
        let target = target.into();
        same_size(
            "copy of a slice to the device",
            source.len() as u64,
            target.len() as u64,
        )?;
        if source.is_empty() {
            return Ok(());
        }
        self.enqueue_upload(&target, source.as_ptr().cast())?;
        self.synchronize()
    }

    /// Queues the copy; the source must stay valid and unchanged until it is done.
    fn enqueue_upload<T>(&self, target: &DeviceSliceMut<'_, T>, source: *const u8) -> Result<()> {
        let context = &self.0.context;
        target.allocation().used_by(self)?;
        context.bind()?;
        let bytes = usize::try_from(target.bytes()).unwrap_or(usize::MAX);
        // SAFETY: the target's memory is alive until after this copy in stream order and `bytes` long; the
        // source is as long (checked by the callers), and held or waited for by them.
        self.check("cuMemcpyHtoDAsync", unsafe {
            (context.driver.cuMemcpyHtoDAsync_v2)(target.address(), source.cast(), bytes, self.0.handle)
        })?;
        context.uploaded.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Queues a copy between buffers, or parts of them, of the same length.
    ///
    /// # Errors
    /// [`DeviceError::Range`] when the lengths differ; the device's.
    pub fn copy<'a, 'b, T: Pod>(
        &self,
        target: impl Into<DeviceSliceMut<'a, T>>,
        source: impl Into<DeviceSlice<'b, T>>,
    ) -> Result<()> {
        let (target, source) = (target.into(), source.into());
        same_size("copy on the device", source.len() as u64, target.len() as u64)?;
        if source.is_empty() {
            return Ok(());
        }
        let context = &self.0.context;
        target.allocation().used_by(self)?;
        source.allocation().used_by(self)?;
        context.bind()?;
        let bytes = usize::try_from(target.bytes()).unwrap_or(usize::MAX);
        // SAFETY: both are alive until after this copy in stream order, `bytes` long, and disjoint: the
        // target is exclusively borrowed.
        self.check("cuMemcpyDtoDAsync", unsafe {
            (context.driver.cuMemcpyDtoDAsync_v2)(target.address(), source.address(), bytes, self.0.handle)
        })
    }

    /// Queues setting every byte of a buffer or a part of one.
    ///
    /// # Errors
    /// The device's.
    pub fn fill<'a, T: Pod>(&self, target: impl Into<DeviceSliceMut<'a, T>>, byte: u8) -> Result<()> {
        let target = target.into();
        if target.is_empty() {
            return Ok(());
        }
        let context = &self.0.context;
        target.allocation().used_by(self)?;
        context.bind()?;
        let bytes = usize::try_from(target.bytes()).unwrap_or(usize::MAX);
        // SAFETY: the target is alive until after this fill in stream order and `bytes` long.
        self.check("cuMemsetD8Async", unsafe {
            (context.driver.cuMemsetD8Async)(target.address(), byte, bytes, self.0.handle)
        })
    }

    /// Reads a range of a buffer; waits for everything queued so far.
    ///
    /// # Errors
    /// [`DeviceError::Range`]; the failure of anything queued.
    pub fn read<T: Pod>(&self, buffer: &DeviceBuffer<T>, range: impl RangeBounds<usize>) -> Result<Vec<T>> {
        let (start, len) = resolve("read of device memory", range, buffer.len())?;
        let mut values = vec![T::zeroed(); len];
        self.read_into(buffer.slice(start..start + len)?, &mut values)?;
        Ok(values)
    }

    /// Reads device memory into a slice of the same length; waits for everything queued so far.
    ///
    /// # Errors
    /// [`DeviceError::Range`] when the lengths differ; the failure of anything queued.
    pub fn read_into<'a, T: Pod>(
        &self,
        source: impl Into<DeviceSlice<'a, T>>,
        target: &mut [T],
    ) -> Result<()> {
        let source = source.into();
        same_size("read of device memory", source.len() as u64, target.len() as u64)?;
        if !source.is_empty() {
            self.enqueue_download(&source, target.as_mut_ptr().cast())?;
        }
        self.synchronize()
    }

    /// Queues a copy of device memory to host memory, from byte `offset` on. Takes the only handle of the
    /// memory and gives it back when the copy is done: see [`Download`].
    ///
    /// # Errors
    /// [`DeviceError::HostMemoryShared`] when there are other handles, [`DeviceError::Range`] when it does
    /// not fit; the device's.
    pub fn copy_to_host<'a, T: Pod>(
        &self,
        source: impl Into<DeviceSlice<'a, T>>,
        mut memory: Arc<HostMemory>,
        offset: usize,
    ) -> Result<Download> {
        let source = source.into();
        let bytes = usize::try_from(source.bytes()).unwrap_or(usize::MAX);
        checked_end("copy of device memory to the host", offset, bytes, memory.len())?;
        let len = memory.len() as u64;
        let target = Arc::get_mut(&mut memory)
            .ok_or(DeviceError::HostMemoryShared { bytes: len })?
            .as_mut_slice();
        let target = target[offset..].as_mut_ptr();
        if bytes > 0 {
            self.enqueue_download(&source, target)?;
        }
        let done = match self.mark() {
            Ok(done) => done,
            Err(error) => {
                // The copy is queued, so the memory has to outlive it.
                let _ = self.synchronize();
                return Err(error);
            }
        };
        Ok(Download {
            memory: Some(memory),
            done,
            stream: self.clone(),
        })
    }

    /// Queues the copy; the target must stay valid and unread until it is done.
    fn enqueue_download<T>(&self, source: &DeviceSlice<'_, T>, target: *mut u8) -> Result<()> {
        let context = &self.0.context;
        source.allocation().used_by(self)?;
        context.bind()?;
        let bytes = usize::try_from(source.bytes()).unwrap_or(usize::MAX);
        // SAFETY: the source is alive until after this copy in stream order and `bytes` long; the target is
        // as long (checked by the callers), exclusively theirs, and held or waited for by them.
        self.check("cuMemcpyDtoHAsync", unsafe {
            (context.driver.cuMemcpyDtoHAsync_v2)(target.cast(), source.address(), bytes, self.0.handle)
        })?;
        context.downloaded.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Keeps host memory alive until everything queued so far is done.
    fn hold(&self, memory: Arc<HostMemory>) -> Result<()> {
        let done = self.finished_at_front();
        drop(done);
        let mut in_flight = self.0.in_flight.lock();
        // Copies from one memory in a row share an event: it is recorded again, later in the queue.
        let recorded = match in_flight.back() {
            Some((event, last)) if Arc::ptr_eq(last, &memory) => self.record_into(event),
            _ => self
                .mark()
                .map(|event| in_flight.push_back((event, Arc::clone(&memory)))),
        };
        drop(in_flight);
        if let Err(error) = recorded {
            // No event, so wait while `memory` is still held here.
            let _ = self.synchronize();
            return Err(error);
        }
        Ok(())
    }

    /// Host memory no longer needed, judged by the events; dropped by the caller, outside the lock.
    fn finished_at_front(&self) -> Vec<(Event, Arc<HostMemory>)> {
        let mut in_flight = self.0.in_flight.lock();
        let done = in_flight
            .iter()
            .take_while(|(event, _)| event.is_complete().unwrap_or(false))
            .count();
        in_flight.drain(..done).collect()
    }

    /// As above after a synchronisation: usually all of it, but another thread may have queued more.
    fn finished(&self) -> Vec<(Event, Arc<HostMemory>)> {
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
        self.retired.store(true, Ordering::Release);
    }
}

/// A stream that uses what another stream owns.
pub(crate) struct Guest {
    stream: Weak<Inner>,
    retired: Arc<AtomicBool>,
}

impl Guest {
    pub(crate) fn is(&self, stream: &Stream) -> bool {
        ptr::eq(self.stream.as_ptr(), Arc::as_ptr(&stream.0))
    }

    /// Whether all its work is done for good.
    pub(crate) fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Acquire)
    }

    /// Makes `home` wait for what the guest has queued.
    pub(crate) fn precede(&self, home: &Stream) -> Result<()> {
        if self.is_retired() {
            return Ok(());
        }
        match self.stream.upgrade() {
            Some(stream) => home.wait(&Stream(stream).mark()?),
            // Its last handle is being dropped on another thread, which waits for its work: so must we.
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

/// A copy to host memory under way. Dropping it waits, too: the memory is freed only when the device is done
/// with it.
#[derive(Debug)]
pub struct Download {
    memory: Option<Arc<HostMemory>>,
    done: Event,
    stream: Stream,
}

impl Download {
    /// Whether the copy is done, or can never be.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.done.is_complete().unwrap_or(true)
    }

    /// Waits for the copy and returns the memory.
    ///
    /// # Errors
    /// The failure of anything queued before the copy.
    pub fn wait(mut self) -> Result<Arc<HostMemory>> {
        self.done.synchronize_on(&self.stream)?;
        Ok(self.memory.take().expect("only taken here, by value"))
    }
}

impl Drop for Download {
    fn drop(&mut self) {
        if self.memory.is_some() {
            let _ = self.done.synchronize_on(&self.stream);
        }
    }
}

fn same_size(what: &'static str, source: u64, target: u64) -> Result<()> {
    if source == target {
        Ok(())
    } else {
        Err(DeviceError::Range {
            what,
            start: 0,
            end: source,
            len: target,
        })
    }
}
