//! Entry points of block barriers for device threads. Their state and results are in [`crate::barrier`].

use std::ffi::c_char;

use super::schedule::suspend;
use super::{Runner, Thread};
use crate::abi::barrier as kinds;
use crate::report::{FailureKind, Site};

impl Runner {
    /// Makes the threads of a barrier runnable after all have arrived.
    pub(super) fn release_barrier(&mut self, id: usize) {
        self.tick(1);
        let barrier = &mut self.barriers[id];
        barrier.complete();
        for (index, (waiting, warp)) in barrier.waiting.iter_mut().zip(&mut self.warps).enumerate() {
            if *waiting != 0 {
                warp.runnable |= *waiting;
                self.runnable_warps |= 1 << index;
                *waiting = 0;
            }
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.barrier();
        }
        if let Some(races) = &mut self.races {
            races.barrier();
        }
    }
}

/// `__galatea_runtime::barrier`.
pub(super) unsafe extern "C" fn barrier(
    kind: u32,
    id: u32,
    count: u32,
    predicate: u32,
    file: *const c_char,
    line: u32,
) -> u32 {
    let thread = Thread::current();
    // SAFETY: called by device code, so `thread` is the running one; see the rules in `block`. No reference
    // into the runner lives across `suspend`.
    unsafe {
        let runner = Thread::runner(thread);
        let site = Site { file, line };
        let id = id as usize;
        if id >= (*runner).barriers.len() {
            let what = format!("named barrier {id} at {site}: a block has barriers 0 to 15");
            (*runner).fail(Some(thread), FailureKind::Barrier, &what);
        }
        let named = kind == kinds::NAMED || kind == kinds::ARRIVE;
        if !(&mut (*runner).barriers)[id].arrive(kind, site, count, predicate) {
            mismatch(thread, kind, site, id, count);
        }
        let expected = if named { count } else { (*runner).live };
        let warp = (*(*thread).warp).index;
        let last = (&(*runner).barriers)[id].arrived == expected;
        if last {
            (*runner).release_barrier(id);
        } else if kind != kinds::ARRIVE {
            (&mut (*runner).barriers)[id].waiting[warp] |= 1 << (*thread).view.lane;
            suspend(thread);
        }
        (&(*runner).barriers)[id].result()
    }
}

#[cold]
unsafe fn mismatch(thread: *mut Thread, kind: u32, site: Site, id: usize, count: u32) -> ! {
    // SAFETY: the running thread's runner.
    unsafe {
        let runner = Thread::runner(thread);
        let barrier = &(&(*runner).barriers)[id];
        let what = format!(
            "mismatched barriers: this thread is in {} ({count} threads) at {site} while {} thread(s) wait in {} ({} threads) at {}",
            kinds::name(kind),
            barrier.arrived,
            kinds::name(barrier.kind),
            barrier.expected,
            barrier.site,
        );
        (*runner).fail(Some(thread), FailureKind::Barrier, &what)
    }
}
