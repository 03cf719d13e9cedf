//! Chooses the thread that runs next.
//!
//! A thread runs until it waits or exits. Then the next runnable lane of the same warp continues, in cyclic
//! order from a random lane and in a random direction. If the warp has no runnable lane, a random other warp
//! continues. If no thread is runnable and some are waiting, the block is deadlocked, and the launch fails
//! with a report.
//!
//! Threads that spin call [`pause`], which continues with *any* runnable thread of the block. Pauses and
//! collectives are counted. At intervals, if no thread has exited since, the launch is asked for help (this
//! block may wait for another resident one). The launch fails if none of its threads has exited for longer
//! than allowed.

use std::ffi::{CStr, c_char};
use std::ptr;
use std::time::Instant;

use super::{Runner, STRESS_STEPS, Thread, stuck};
use crate::abi::{self, LANES};
use crate::fiber;
use crate::report::{FailureKind, Site};

/// Ticks between two checks of the clock. A pause counts as [`TICKS_PER_PAUSE`] ticks, a collective or
/// barrier as one: a block that pauses probably waits for another block, a block that uses collectives does
/// not.
const TICKS_PER_CHECK: u32 = 1 << 20;
const TICKS_PER_PAUSE: u32 = 1 << 8;

impl Runner {
    /// Draws a new random order of lanes.
    #[inline]
    pub(super) fn turn(&mut self) {
        if !self.ordered {
            let random = self.random.next();
            self.rotation = random & 31;
            self.descending = random & 32 != 0;
        }
    }

    /// Draws a random start of a choice, also if lanes are taken in order.
    #[inline]
    fn draw(&mut self) {
        self.turn();
        if self.ordered {
            self.rotation = self.random.next() & 31;
        }
    }

    /// Takes a runnable thread, of warp `warp` if it has one. Returns null if the block has none.
    pub(super) fn next(&mut self, warp: usize) -> *mut Thread {
        let mut warp = warp;
        self.heartbeat.beat();
        while self.warps[warp].runnable == 0 {
            self.runnable_warps &= !(1 << warp);
            if self.runnable_warps == 0 {
                return ptr::null_mut();
            }
            self.turn();
            warp = self.choose(self.runnable_warps);
        }
        if self.stress {
            self.turn();
        }
        let lane = self.choose(self.warps[warp].runnable);
        self.warps[warp].runnable &= !(1 << lane);
        // SAFETY: there are 32 warps of 32 lanes. The pointer is not derived from a reference to the one
        // thread, since its neighbours are reached from it.
        unsafe { self.threads.as_mut_ptr().add(warp * LANES + lane) }
    }

    #[inline(always)]
    fn choose(&self, mask: u32) -> usize {
        let turned = mask.rotate_right(self.rotation);
        let bit = if self.descending {
            31 - turned.leading_zeros()
        } else {
            turned.trailing_zeros()
        };
        ((bit + self.rotation) & 31) as usize
    }

    /// Counts an operation that waiting loops execute, too.
    #[inline(always)]
    pub(crate) fn tick(&mut self, weight: u32) {
        self.ticks += weight;
        if self.ticks >= TICKS_PER_CHECK {
            self.check_stall();
        }
    }

    /// Ends the block, as no thread can continue.
    pub(crate) fn deadlock(&mut self) -> ! {
        let what = stuck::deadlock(self);
        self.fail(None, FailureKind::Deadlock, &what)
    }

    #[cold]
    fn check_stall(&mut self) {
        self.ticks = 0;
        self.checks += 1;
        let launch = self.launch();
        if launch.failed() {
            self.leave();
        }
        launch.ask_for_help();
        let progress = launch.progress();
        let limit = launch.device.options().spin_limit;
        match self.stalled {
            Some((since, seen)) if seen == progress && self.checks > 1 => {
                if since.elapsed() > limit {
                    let what = stuck::stall(self, limit);
                    self.fail(None, FailureKind::Stall, &what);
                }
            }
            _ => self.stalled = Some((Instant::now(), progress)),
        }
        std::thread::yield_now();
    }

    /// Called when the thread's kernel function returned. Returns the thread to run next, or null if the
    /// block is finished.
    pub(super) unsafe fn exit(&mut self, thread: *mut Thread) -> *mut Thread {
        // SAFETY: rule 1.
        let (warp, lane) = unsafe { (&mut *(*thread).warp, (*thread).view.lane) };
        let warp_index = warp.index;
        self.live -= 1;
        self.ticks = 0;
        self.checks = 0;
        warp.exited |= 1 << lane;
        if warp.waiting != 0 && warp.release_without_exited() {
            self.runnable_warps |= 1 << (warp_index);
        }
        if self.live > 0 && self.barriers[0].arrived == self.live {
            self.release_barrier(0);
        }
        let next = self.next(warp_index);
        if next.is_null() && self.live > 0 {
            self.deadlock();
        }
        next
    }
}

/// Suspends the running thread until another thread makes it runnable.
///
/// # Safety
/// Called on a fiber, by the thread itself, after it recorded its wait.
#[inline(always)]
pub(super) unsafe fn suspend(thread: *mut Thread) {
    // SAFETY: rules 1 to 3.
    unsafe {
        let warp = (*thread).warp;
        let runner = Thread::runner(thread);
        let next = if (*warp).runnable != 0 && !(*runner).stress {
            (*runner).heartbeat.beat();
            let lane = (*runner).choose((*warp).runnable);
            (*warp).runnable &= !(1 << lane);
            thread.sub((*thread).view.lane as usize).add(lane)
        } else {
            let next = (*runner).next((*warp).index);
            if next.is_null() {
                (*runner).deadlock();
            }
            next
        };
        go(runner, thread, next);
    }
}

/// Switches from `thread` to `next`.
#[inline]
unsafe fn go(runner: *mut Runner, thread: *mut Thread, next: *mut Thread) {
    // SAFETY: rules 1 to 3; `next` was runnable, so it has a saved context or none yet.
    unsafe {
        Thread::set_current(next);
        let mut load = (*next).stack_pointer;
        if load.is_null() {
            load = (*runner).stacks.take();
        }
        fiber::switch(&raw mut (*thread).stack_pointer, load);
    }
}

/// `__galatea_runtime::pause`: the running thread can only wait for others.
pub(crate) unsafe extern "C" fn pause(kind: u32) {
    let thread = Thread::current();
    // SAFETY: called by device code, so `thread` is the running one; rules 1 to 3.
    unsafe {
        let runner = Thread::runner(thread);
        if kind == abi::pause::STRESS {
            (*thread).view.fuel = 1 + ((*runner).random.next() % STRESS_STEPS) as i32;
        }
        (*runner).tick(match kind {
            abi::pause::STRESS => 1,
            abi::pause::SPIN | abi::pause::SLEEP => TICKS_PER_PAUSE,
            _ => TICKS_PER_CHECK,
        });
        if kind == abi::pause::INTERRUPT {
            (*runner).heartbeat.interrupted();
        }
        // Any runnable thread, including this one.
        let own = (*(*thread).warp).index;
        (*(*thread).warp).runnable |= 1 << (*thread).view.lane;
        (*runner).runnable_warps |= 1 << own;
        // Warp and lane are drawn independently. Otherwise a thread that all others wait for might never be
        // chosen.
        (*runner).draw();
        let warp = (*runner).choose((*runner).runnable_warps);
        (*runner).draw();
        let next = (*runner).next(warp);
        if next != thread {
            go(runner, thread, next);
        }
    }
}

/// `__galatea_runtime::stop`: `__trap` or a failed assertion.
pub(super) unsafe extern "C" fn stop(kind: u32, text: *const c_char, file: *const c_char, line: u32) {
    let thread = Thread::current();
    // SAFETY: called by device code with string literals.
    unsafe {
        let text = CStr::from_ptr(text).to_string_lossy();
        let site = Site { file, line };
        let runner = Thread::runner(thread);
        if kind == abi::stop::ASSERT {
            (*runner).fail(
                Some(thread),
                FailureKind::Assert,
                &format!("assertion failed: {text} at {site}"),
            );
        }
        (*runner).fail(Some(thread), FailureKind::Trap, &text);
    }
}
