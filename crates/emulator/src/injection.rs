//! Fault injection: driver calls that fail on request of a test.
//!
//! A test keeps a [`Faults`] handle of the device
//! ([`EmulatorOptions::faults`](crate::EmulatorOptions::faults)) and counts the [`DriverCall`]s of the code
//! under test in a run without faults. Then it runs the code once per call, with that call failing. A call
//! that fails has no effect: nothing is allocated and nothing is queued.
//!
//! Copies can be slowed down, so that a test can act while a copy is in progress.

use std::array;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use cudarc::driver::sys::CUresult;
use parking_lot::Mutex;

/// A kind of driver call that can fail on request. Calls that free, wait or query cannot: the driver refuses
/// those only if the context is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriverCall {
    /// `cuMemAllocAsync`, `cuMemAlloc`.
    Allocate,
    /// `cuMemcpyHtoDAsync`.
    CopyToDevice,
    /// `cuMemcpyDtoHAsync`.
    CopyToHost,
    /// `cuMemcpyDtoDAsync`.
    CopyWithin,
    /// `cuMemsetD8Async`, `cuMemsetD32Async`.
    Fill,
    /// `cuLaunchKernel`, `cuLaunchCooperativeKernel`.
    Launch,
    /// `cuEventCreate`.
    CreateEvent,
    /// `cuEventRecord`.
    RecordEvent,
    /// `cuStreamWaitEvent`.
    WaitEvent,
    /// `cuStreamWriteValue32`.
    WriteValue,
    /// `cuStreamCreateWithPriority`.
    CreateStream,
    /// `cuMemHostRegister`.
    RegisterHost,
    /// `cuModuleLoadData`.
    LoadModule,
}

impl DriverCall {
    /// All kinds.
    pub const ALL: [DriverCall; 13] = [
        DriverCall::Allocate,
        DriverCall::CopyToDevice,
        DriverCall::CopyToHost,
        DriverCall::CopyWithin,
        DriverCall::Fill,
        DriverCall::Launch,
        DriverCall::CreateEvent,
        DriverCall::RecordEvent,
        DriverCall::WaitEvent,
        DriverCall::WriteValue,
        DriverCall::CreateStream,
        DriverCall::RegisterHost,
        DriverCall::LoadModule,
    ];
}

/// The error that a failing call returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultCode {
    /// `CUDA_ERROR_OUT_OF_MEMORY`, of device or host memory; the context stays usable.
    OutOfMemory,
    /// `CUDA_ERROR_OPERATING_SYSTEM`: some other refusal; the context stays usable.
    Refused,
    /// `CUDA_ERROR_ILLEGAL_ADDRESS`, as if an earlier kernel had failed: the context is lost.
    Lost,
}

/// The calls of a device that fail, and the number of calls. Clones are the same handle; the default handle
/// injects no failures.
#[derive(Clone, Debug, Default)]
pub struct Faults(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    calls: [u64; DriverCall::ALL.len()],
    launches_done: u64,
    fault: Option<Fault>,
    injected: u64,
    copy_time: Duration,
    copies_under_way: u64,
}

#[derive(Debug)]
struct Fault {
    call: DriverCall,
    /// Number of calls of the kind before the first that fails.
    before: u64,
    /// Number of calls that still fail.
    times: u64,
    code: FaultCode,
}

impl Default for State {
    fn default() -> State {
        State {
            calls: array::from_fn(|_| 0),
            launches_done: 0,
            fault: None,
            injected: 0,
            copy_time: Duration::ZERO,
            copies_under_way: 0,
        }
    }
}

impl Faults {
    /// From now on, after `before` more calls of a kind, the next `times` calls of it fail. Replaces any
    /// earlier setting, and sets [`Faults::injected`] to 0.
    pub fn fail(&self, call: DriverCall, before: u64, times: u64, code: FaultCode) {
        let mut state = self.0.lock();
        state.injected = 0;
        state.fault = Some(Fault {
            call,
            before,
            times,
            code,
        });
    }

    /// Stops all failures and sets the numbers of calls to 0.
    pub fn clear(&self) {
        let mut state = self.0.lock();
        state.fault = None;
        state.calls = array::from_fn(|_| 0);
        state.launches_done = 0;
    }

    /// Number of calls of a kind since the handle was created or [cleared](Faults::clear), including failed
    /// calls.
    #[must_use]
    pub fn calls(&self, call: DriverCall) -> u64 {
        self.0.lock().calls[call as usize]
    }

    /// Number of launches that have been executed, counted like [calls](Faults::calls). The others wait in
    /// streams.
    #[must_use]
    pub fn launches_done(&self) -> u64 {
        self.0.lock().launches_done
    }

    pub(crate) fn launch_done(&self) {
        self.0.lock().launches_done += 1;
    }

    /// Sets a delay between the begin of a copy and the moment when it moves its bytes. A copy that has begun
    /// completes even if the device is lost meanwhile, like one that a copy engine has begun.
    pub fn slow_copies(&self, time: Duration) {
        self.0.lock().copy_time = time;
    }

    /// Number of copies that have begun and are not done.
    #[must_use]
    pub fn copies_under_way(&self) -> u64 {
        self.0.lock().copies_under_way
    }

    /// Performs a copy with the delay that a test has set.
    pub(crate) fn copy(&self, copy: impl FnOnce()) {
        let time = {
            let mut state = self.0.lock();
            state.copies_under_way += 1;
            state.copy_time
        };
        if !time.is_zero() {
            thread::sleep(time);
        }
        copy();
        self.0.lock().copies_under_way -= 1;
    }

    /// Number of calls that failed on request since [`Faults::fail`].
    #[must_use]
    pub fn injected(&self) -> u64 {
        self.0.lock().injected
    }

    /// Counts a call. Returns the error to fail with, if any.
    pub(crate) fn count(&self, call: DriverCall) -> Option<FaultCode> {
        let mut state = self.0.lock();
        state.calls[call as usize] += 1;
        let fault = state.fault.as_mut().filter(|fault| fault.call == call)?;
        if fault.before > 0 {
            fault.before -= 1;
            return None;
        }
        fault.times = fault.times.checked_sub(1)?;
        let code = fault.code;
        state.injected += 1;
        Some(code)
    }
}

impl FaultCode {
    pub(crate) fn result(self) -> CUresult {
        match self {
            FaultCode::OutOfMemory => CUresult::CUDA_ERROR_OUT_OF_MEMORY,
            FaultCode::Refused => CUresult::CUDA_ERROR_OPERATING_SYSTEM,
            FaultCode::Lost => CUresult::CUDA_ERROR_ILLEGAL_ADDRESS,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{DriverCall, FaultCode, Faults};

    #[test]
    fn selected_driver_calls_fail() {
        let faults = Faults::default();
        let handle = faults.clone();
        handle.fail(DriverCall::Launch, 2, 3, FaultCode::Refused);
        let failed: Vec<bool> = (0..8)
            .map(|_| faults.count(DriverCall::Launch).is_some())
            .collect();
        assert_eq!(failed, [false, false, true, true, true, false, false, false]);
        assert_eq!(faults.count(DriverCall::Allocate), None);
        assert_eq!((handle.calls(DriverCall::Launch), handle.injected()), (8, 3));
        handle.fail(DriverCall::Allocate, 0, 1, FaultCode::OutOfMemory);
        handle.clear();
        assert_eq!(faults.count(DriverCall::Allocate), None);
        assert_eq!(handle.calls(DriverCall::Launch), 0);
    }
}
