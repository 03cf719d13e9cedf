//! Block barriers: `__syncthreads` and its reducing variants, and named barriers.
//!
//! `__syncthreads` waits for every thread that has not exited. All threads must be at the same call: another
//! kind, or the same kind at another place in the source, is reported (CUDA leaves it undefined; the place is
//! that in the source text, so a call duplicated by the compiler is still one call). A barrier that some
//! threads never reach ends as a deadlock, reported with what the others wait for.

use std::ffi::c_char;

use crate::abi::barrier as kinds;
use crate::block::{self, LANES, Runner, Thread};
use crate::fiber;
use crate::report::{FailureKind, Site};

/// One barrier of a block.
#[derive(Debug)]
pub(crate) struct Barrier {
    /// Threads that have come.
    pub(crate) arrived: u32,
    /// Of a named barrier: threads to wait for.
    pub(crate) expected: u32,
    pub(crate) kind: u32,
    pub(crate) site: Site,
    /// Per warp, the lanes that wait.
    pub(crate) waiting: [u32; LANES],
    holding: u32,
    result: u32,
}

impl Default for Barrier {
    fn default() -> Barrier {
        Barrier {
            arrived: 0,
            expected: 0,
            kind: 0,
            site: Site::NONE,
            waiting: [0; LANES],
            holding: 0,
            result: 0,
        }
    }
}

impl Barrier {
    /// No thread has arrived.
    pub(crate) fn reset(&mut self) {
        if self.arrived != 0 {
            self.waiting = [0; LANES];
        }
        self.arrived = 0;
        self.holding = 0;
    }
}

impl Runner {
    /// Everybody has come: lets all go.
    pub(crate) fn release_barrier(&mut self, id: usize) {
        self.tick(1);
        let barrier = &mut self.barriers[id];
        barrier.result = match barrier.kind {
            kinds::AND => u32::from(barrier.holding == barrier.arrived),
            kinds::OR => u32::from(barrier.holding != 0),
            kinds::COUNT => barrier.holding,
            _ => 0,
        };
        for (index, (waiting, warp)) in barrier.waiting.iter_mut().zip(&mut self.warps).enumerate() {
            if *waiting != 0 {
                warp.runnable |= *waiting;
                self.runnable_warps |= 1 << index;
                *waiting = 0;
            }
        }
        barrier.arrived = 0;
        barrier.holding = 0;
        if let Some(recorder) = &mut self.recorder {
            recorder.barrier();
        }
    }
}

/// `__galatea_runtime::barrier`.
pub(crate) unsafe extern "C" fn barrier(
    kind: u32,
    id: u32,
    count: u32,
    predicate: u32,
    file: *const c_char,
    line: u32,
) -> u32 {
    let thread = fiber::current();
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
        {
            let barrier = &mut (&mut (*runner).barriers)[id];
            if barrier.arrived == 0 {
                barrier.kind = kind;
                barrier.site = site;
                barrier.expected = count;
            } else if named {
                let other_named = barrier.kind == kinds::NAMED || barrier.kind == kinds::ARRIVE;
                if !other_named || barrier.expected != count {
                    mismatch(thread, kind, site, id, count);
                }
            } else if barrier.kind != kind || !barrier.site.same(&site) {
                mismatch(thread, kind, site, id, count);
            }
            barrier.arrived += 1;
            barrier.holding += predicate;
        }
        let expected = if named { count } else { (*runner).live };
        let warp = (*(*thread).warp).index;
        let last = (&(*runner).barriers)[id].arrived == expected;
        if last {
            (*runner).release_barrier(id);
        } else if kind != kinds::ARRIVE {
            (&mut (*runner).barriers)[id].waiting[warp] |= 1 << (*thread).view.lane;
            block::suspend(thread);
        }
        (&(*runner).barriers)[id].result
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
