//! Entry points of warp collectives for device threads. Groups of lanes and results are in [`crate::warp`].

use std::ffi::c_char;

use super::Thread;
use super::schedule::suspend;
use crate::abi::collective as operation;
use crate::report::{FailureKind, Site};
use crate::warp::Group;

/// `__galatea_runtime::collective`.
pub(crate) unsafe extern "C" fn collective(
    kind: u32,
    mask: u32,
    value: u64,
    argument: u32,
    file: *const c_char,
    line: u32,
) -> u64 {
    let thread = Thread::current();
    // SAFETY: called by device code, so `thread` is the running one; see the rules in `block`. No reference
    // into the warp lives across `suspend`.
    unsafe {
        let warp = (*thread).warp;
        let lane = (*thread).view.lane as usize;
        let site = Site { file, line };
        if mask >> lane & 1 == 0 {
            not_in_mask(thread, kind, mask, site);
        }
        (*warp).arrive(lane, kind, mask, value, argument, site);
        let needed = mask & !(*warp).exited;
        if (*warp).waiting & needed != needed {
            suspend(thread);
        } else {
            complete(thread, lane, mask, needed);
        }
        (*warp).result(lane)
    }
}

/// Called when all lanes of the mask wait, though possibly in other groups: the running thread continues if
/// its group is complete, and waits otherwise.
#[inline(never)]
unsafe fn complete(thread: *mut Thread, lane: usize, mask: u32, needed: u32) {
    // SAFETY: as in `collective`.
    unsafe {
        let warp = &mut *(*thread).warp;
        match warp.complete(lane, mask) {
            Group::Complete => {
                warp.waiting &= !needed;
                warp.runnable |= needed & !(1 << lane);
                let runner = &mut *Thread::runner(thread);
                runner.tick(1);
                runner.runnable_warps |= 1 << warp.index;
                if let Some(recorder) = &mut runner.recorder {
                    recorder.collective(warp.index, needed == !warp.exited);
                }
                if let Some(races) = &mut runner.races
                    && warp.wait_of(lane).0 == operation::SYNCWARP
                {
                    races.synchronise(warp.index, needed);
                }
            }
            Group::Incomplete => suspend(thread),
            Group::Mixed(other) => mixed(thread, lane, other),
        }
    }
}

#[cold]
unsafe fn not_in_mask(thread: *mut Thread, kind: u32, mask: u32, site: Site) -> ! {
    let name = operation::name(kind);
    // SAFETY: the running thread's runner.
    unsafe {
        let lane = (*thread).view.lane;
        let what = format!("{name} at {site}: lane {lane} is not in its own mask {mask:#010x}");
        (*Thread::runner(thread)).fail(Some(thread), FailureKind::Collective, &what)
    }
}

#[cold]
unsafe fn mixed(thread: *mut Thread, lane: usize, other: usize) -> ! {
    // SAFETY: the running thread's runner and warp.
    unsafe {
        let warp = &*(*thread).warp;
        let (kind, _, site) = warp.wait_of(lane);
        let (other_kind, mask, other_site) = warp.wait_of(other);
        let what = format!(
            "lanes of mask {mask:#010x} are in different collectives: lane {lane} in {} at {site}, lane {other} in {} at {other_site}",
            operation::name(kind),
            operation::name(other_kind),
        );
        (*Thread::runner(thread)).fail(Some(thread), FailureKind::Collective, &what)
    }
}
