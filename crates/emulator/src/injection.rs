//! Fault injection: driver calls that fail because a test says so.
//!
//! A test keeps a [`Faults`] handle of the device
//! ([`EmulatorOptions::faults`](crate::EmulatorOptions::faults)), learns how often the code under test makes
//! a [`DriverCall`] by counting them in a run without faults, and then runs it once for each of these calls
//! with that call failing. A call that fails has no effect: nothing is allocated and nothing is queued.
//!
//! Copies can be made slow, so that a test does something while one of them is under way.

use std::array;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use cudarc::driver::sys::CUresult;
use parking_lot::Mutex;

/// A kind of driver call that can be made to fail. Calls that free, wait or ask cannot: the driver only
/// refuses those where the context is lost.
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
    /// All of them.
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

/// The error that a call that fails returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultCode {
    /// `CUDA_ERROR_OUT_OF_MEMORY`, of device or host memory; the context goes on.
    OutOfMemory,
    /// `CUDA_ERROR_OPERATING_SYSTEM`: some other refusal; the context goes on.
    Refused,
    /// `CUDA_ERROR_ILLEGAL_ADDRESS`, as if an earlier kernel had failed: the context is lost.
    Lost,
}

/// Which calls of a device fail, and how many there were. Clones are the same handle; the default one makes
/// nothing fail.
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
    /// Calls of the kind to come before the first that fails.
    before: u64,
    /// Calls to come that fail.
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
    /// From now on, after `before` more calls of a kind, the next `times` calls of it fail. Replaces what was
    /// set before, and sets [`Faults::injected`] to 0.
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

    /// Nothing fails any more; sets the counts of calls to 0.
    pub fn clear(&self) {
        let mut state = self.0.lock();
        state.fault = None;
        state.calls = array::from_fn(|_| 0);
        state.launches_done = 0;
    }

    /// Calls of a kind since the handle was made or [cleared](Faults::clear), those that failed included.
    #[must_use]
    pub fn calls(&self, call: DriverCall) -> u64 {
        self.0.lock().calls[call as usize]
    }

    /// Launches that have been executed, counted like [calls](Faults::calls): the others wait in streams.
    #[must_use]
    pub fn launches_done(&self) -> u64 {
        self.0.lock().launches_done
    }

    pub(crate) fn launch_done(&self) {
        self.0.lock().launches_done += 1;
    }

    /// From now on `time` passes between the begin of a copy and the moment when it moves its bytes. A copy
    /// that has begun is done even where the device is lost meanwhile, as one that a copy engine has begun.
    pub fn slow_copies(&self, time: Duration) {
        self.0.lock().copy_time = time;
    }

    /// Copies that have begun and are not done.
    #[must_use]
    pub fn copies_under_way(&self) -> u64 {
        self.0.lock().copies_under_way
    }

    /// Performs a copy, as slowly as a test has asked for.
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

    /// Calls that were made to fail since [`Faults::fail`].
    #[must_use]
    pub fn injected(&self) -> u64 {
        self.0.lock().injected
    }

    /// Counts a call; the error that it has to fail with, if any.
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
    fn the_calls_that_were_named_fail() {
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
