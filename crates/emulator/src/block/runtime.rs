//! The functions of the emulator that device code calls.

use std::ffi::c_void;

use super::{Thread, barriers, collectives, schedule};
use crate::abi::Runtime;
use crate::clock;

/// For [`Module::load`](crate::module::Module::load).
pub(crate) static RUNTIME: Runtime = Runtime {
    collective: collectives::collective,
    barrier: barriers::barrier,
    pause: schedule::pause,
    stop: schedule::stop,
    clock: clock::clock,
    access,
};

/// `__galatea_runtime::access`.
unsafe extern "C" fn access(address: *const c_void, bytes: u32, kind: u32, site: *const c_void) {
    let thread = Thread::current();
    // SAFETY: called by device code, so `thread` is the running one.
    unsafe {
        let (warp, lane) = ((*(*thread).warp).index, (*thread).view.lane as usize);
        let runner = &mut *Thread::runner(thread);
        if let Some(recorder) = &mut runner.recorder {
            recorder.access(warp, lane, address as u64, bytes, kind, site as usize);
        }
        if let Some(races) = &mut runner.races
            && let Err(race) = races.access((warp, lane), address as u64, bytes, kind, site as usize)
        {
            runner.race = Some(race);
            runner.leave();
        }
    }
}
