//! Events: positions in the queues of streams, for waiting and for measuring time.

use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use cudarc::driver::sys::{CUevent, CUresult};

use crate::context::Context;
use crate::errors::{DeviceError, Result};

/// A position in a stream.
pub struct Event {
    pub(crate) context: Arc<Context>,
    pub(crate) handle: CUevent,
}

// SAFETY: the driver's event handles may be used from any thread; the rest is Send and Sync.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

impl Event {
    pub(crate) fn new(context: &Arc<Context>, flags: u32) -> Result<Self> {
        context.bind()?;
        let mut handle = ptr::null_mut();
        // SAFETY: the pointer is valid for a write and the context is current.
        context.check("cuEventCreate", unsafe {
            (context.driver.cuEventCreate)(&raw mut handle, flags)
        })?;
        Ok(Self {
            context: Arc::clone(context),
            handle,
        })
    }

    /// Waits until the position is reached.
    ///
    /// # Errors
    /// The failure of any work queued before it.
    pub fn synchronize(&self) -> Result<()> {
        self.context.bind()?;
        // SAFETY: the event is alive and its context current.
        self.context.check("cuEventSynchronize", unsafe {
            (self.context.driver.cuEventSynchronize)(self.handle)
        })
    }

    /// Whether the position is reached. Does not wait.
    ///
    /// # Errors
    /// The failure of any work queued before it.
    pub fn is_complete(&self) -> Result<bool> {
        self.context.bind()?;
        // SAFETY: the event is alive and its context current.
        let code = unsafe { (self.context.driver.cuEventQuery)(self.handle) };
        if code.is(CUresult::CUDA_ERROR_NOT_READY) {
            return Ok(false);
        }
        self.context.check("cuEventQuery", code).map(|()| true)
    }

    /// Device time from an earlier event to this one. Waits for both.
    ///
    /// # Errors
    /// The failure of any work queued before; [`DeviceError::WrongDevice`].
    pub fn elapsed_since(&self, earlier: &Self) -> Result<Duration> {
        if !Arc::ptr_eq(&self.context, &earlier.context) {
            return Err(DeviceError::WrongDevice { what: "event" });
        }
        earlier.synchronize()?;
        self.synchronize()?;
        let mut milliseconds = 0f32;
        // SAFETY: both events are alive, recorded and of the current context; the pointer is valid for a
        // write.
        self.context.check("cuEventElapsedTime", unsafe {
            (self.context.driver.cuEventElapsedTime_v2)(&raw mut milliseconds, earlier.handle, self.handle)
        })?;
        Ok(Duration::from_secs_f64(f64::from(milliseconds.max(0.0)) / 1000.0))
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if self.context.bind_for_drop() {
            // SAFETY: created once and destroyed once; the driver defers it past pending uses.
            let _ = unsafe { (self.context.driver.cuEventDestroy_v2)(self.handle) };
        }
    }
}

impl std::fmt::Debug for Event {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Event")
            .field("device", &self.context.info.name)
            .finish_non_exhaustive()
    }
}
