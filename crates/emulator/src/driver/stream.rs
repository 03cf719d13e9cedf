//! Streams and events.

use std::ffi::{c_int, c_uint, c_void};
use std::sync::Arc;

use cudarc::driver::sys::CUresult;

use super::{Handle, Outcome, answer, current_context, usable_context, write};
use crate::handles::Handles;
use crate::injection::DriverCall;
use crate::stream::{Event, Operation, Stream};

static STREAMS: Handles<Stream> = Handles::new();
static EVENTS: Handles<Event> = Handles::new();

/// `CU_EVENT_DISABLE_TIMING`.
const DISABLE_TIMING: c_uint = 2;

/// Finds the stream of a handle. 0, 1 and 2 are the default stream of the current context, which is an
/// ordinary stream here (it does not wait for blocking streams).
pub(crate) fn find(handle: Handle) -> Result<Arc<Stream>, CUresult> {
    if handle <= 2 {
        return Ok(current_context()?.default_stream());
    }
    STREAMS.get(handle).ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)
}

/// Appends to a stream.
pub(crate) fn push(stream: &Stream, operation: Operation) -> Outcome {
    if stream.push(operation) {
        Ok(())
    } else {
        Err(CUresult::CUDA_ERROR_OPERATING_SYSTEM)
    }
}

pub(crate) unsafe extern "C" fn create(stream: *mut Handle, _flags: c_uint, _priority: c_int) -> CUresult {
    answer(|| {
        let context = usable_context()?;
        context.admit(DriverCall::CreateStream)?;
        // SAFETY: the caller's pointer.
        unsafe { write(stream, STREAMS.insert(context.stream())) }
    })
}

/// Enqueued operations are still executed.
pub(crate) unsafe extern "C" fn destroy(stream: Handle) -> CUresult {
    answer(|| {
        STREAMS
            .remove(stream)
            .map(drop)
            .ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)
    })
}

pub(crate) unsafe extern "C" fn synchronize(stream: Handle) -> CUresult {
    answer(|| {
        let stream = find(stream)?;
        stream.synchronize();
        stream.device().check()
    })
}

pub(crate) unsafe extern "C" fn query(stream: Handle) -> CUresult {
    answer(|| {
        let stream = find(stream)?;
        stream.device().check()?;
        if stream.idle() {
            Ok(())
        } else {
            Err(CUresult::CUDA_ERROR_NOT_READY)
        }
    })
}

pub(crate) unsafe extern "C" fn wait_event(stream: Handle, event: Handle, _flags: c_uint) -> CUresult {
    answer(|| {
        let stream = find(stream)?;
        let event = EVENTS.get(event).ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)?;
        stream.device().admit(DriverCall::WaitEvent)?;
        match event.last() {
            Some(completion) => push(&stream, Operation::Wait(completion)),
            None => Ok(()),
        }
    })
}

pub(crate) unsafe extern "C" fn write_value(stream: Handle, to: u64, value: u32, _flags: c_uint) -> CUresult {
    answer(|| {
        let stream = find(stream)?;
        stream.device().admit(DriverCall::WriteValue)?;
        if !to.is_multiple_of(4) || !stream.device().memory.takes_words(to) {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        push(&stream, Operation::Write { to, value })
    })
}

pub(crate) unsafe extern "C" fn host_function(
    stream: Handle,
    function: Option<unsafe extern "C" fn(*mut c_void)>,
    argument: *mut c_void,
) -> CUresult {
    answer(|| {
        let stream = find(stream)?;
        stream.device().check()?;
        let function = function.ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        push(&stream, Operation::Host(function, argument as usize))
    })
}

pub(crate) unsafe extern "C" fn event_create(event: *mut Handle, flags: c_uint) -> CUresult {
    answer(|| {
        let context = usable_context()?;
        context.admit(DriverCall::CreateEvent)?;
        let made = Event::new(&context.device, flags & DISABLE_TIMING == 0);
        // SAFETY: the caller's pointer.
        unsafe { write(event, EVENTS.insert(Arc::new(made))) }
    })
}

pub(crate) unsafe extern "C" fn event_destroy(event: Handle) -> CUresult {
    answer(|| {
        EVENTS
            .remove(event)
            .map(drop)
            .ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)
    })
}

pub(crate) unsafe extern "C" fn event_record(event: Handle, stream: Handle) -> CUresult {
    answer(|| {
        let stream = find(stream)?;
        let event = EVENTS.get(event).ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)?;
        stream.device().admit(DriverCall::RecordEvent)?;
        if event.device.ordinal != stream.device().ordinal {
            return Err(CUresult::CUDA_ERROR_INVALID_HANDLE);
        }
        if event.record(&stream) {
            Ok(())
        } else {
            Err(CUresult::CUDA_ERROR_OPERATING_SYSTEM)
        }
    })
}

pub(crate) unsafe extern "C" fn event_synchronize(event: Handle) -> CUresult {
    answer(|| {
        let event = EVENTS.get(event).ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)?;
        if let Some(completion) = event.last() {
            completion.wait();
        }
        event.device.check()
    })
}

pub(crate) unsafe extern "C" fn event_query(event: Handle) -> CUresult {
    answer(|| {
        let event = EVENTS.get(event).ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)?;
        event.device.check()?;
        match event.last() {
            Some(completion) if completion.time().is_none() => Err(CUresult::CUDA_ERROR_NOT_READY),
            _ => Ok(()),
        }
    })
}

pub(crate) unsafe extern "C" fn event_elapsed(
    milliseconds: *mut f32,
    start: Handle,
    end: Handle,
) -> CUresult {
    answer(|| {
        let time = |handle| -> Result<_, CUresult> {
            let event = EVENTS.get(handle).ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)?;
            event.device.check()?;
            let completion = event
                .last()
                .filter(|_| event.timed)
                .ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)?;
            completion.time().ok_or(CUresult::CUDA_ERROR_NOT_READY)
        };
        let (start, end) = (time(start)?, time(end)?);
        let elapsed = match end.checked_duration_since(start) {
            Some(after) => after.as_secs_f64(),
            None => -start.duration_since(end).as_secs_f64(),
        };
        // SAFETY: the caller's pointer.
        unsafe { write(milliseconds, (elapsed * 1e3) as f32) }
    })
}
