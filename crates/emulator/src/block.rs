//! One block at a time: its threads, and which of them runs next.
//!
//! A [`Runner`] executes blocks one after the other on the OS thread that holds it. Each thread of the block is
//! in exactly one state:
//!
//! * *runnable* (its bit in [`Warp::runnable`]): not started, or suspended and free to go on;
//! * *running*: the current one;
//! * *waiting*: its bit in [`Warp::waiting`] (a collective) or in a barrier's `waiting`;
//! * *exited* (its bit in [`Warp::exited`], as for the lanes beyond the end of the block).
//!
//! A thread runs until it waits or exits; then the next runnable lane of the same warp goes on, in cyclic order
//! from a random lane and in a random direction, and when the warp has none, a random other warp. If no thread is
//! runnable and some are waiting, the block is deadlocked, and the launch fails with a report.
//!
//! Threads that spin call [`pause`], which goes on with *any* runnable thread of the block. Pauses and collectives
//! are counted; now and then, if no thread has exited since, the launch is asked for help (another resident block
//! may be what this one waits for), and it fails when nothing in it has exited for longer than allowed.
//!
//! # Safety
//! Everything here is reached through raw pointers from fibers of one OS thread. The rules:
//! 1. A runner, its threads and warps are boxed and do not move while a block runs.
//! 2. Only the OS thread that called [`Runner::run`] touches them until it returns.
//! 3. No reference into the runner is held across a [`fiber::switch`]; raw pointers are dereferenced anew.

use std::ffi::{CStr, c_char, c_void};
use std::io;
use std::ptr;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use crate::abi::{self, BlockView, Dimensions, ThreadView};
use crate::barrier::Barrier;
use crate::counters::Recorder;
use crate::fault::Fault;
use crate::fiber::{self, Stacks};
use crate::launch::Launch;
use crate::random::Random;
use crate::report::{Failure, FailureKind, Site};
use crate::shared::SharedMemory;
use crate::warp::Warp;
use crate::watchdog::Heartbeat;

/// Lanes of a warp.
pub(crate) const LANES: usize = 32;
/// Threads of the largest block.
pub(crate) const MAX_THREADS: usize = 1024;
/// Barriers of a block, `__syncthreads` being number 0.
const BARRIERS: usize = 16;
/// Atomics a thread may do before others get a turn.
const FUEL: i32 = 1024;
/// Under stress, basic blocks and memory accesses between two switches are 1 to this.
const STRESS_STEPS: u32 = 24;
/// Ticks between two looks at the clock. A pause is this many ticks, a collective or barrier is one: that a block
/// pauses is a sign that it waits for another, that it uses collectives is not.
const TICKS_PER_CHECK: u32 = 1 << 20;
const TICKS_PER_PAUSE: u32 = 1 << 8;

/// A device thread.
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct Thread {
    pub(crate) view: ThreadView,
    /// Where to go on; meaningless while running or not started.
    stack_pointer: *mut u8,
    pub(crate) warp: *mut Warp,
    pub(crate) runner: *mut Runner,
}

/// Executes blocks, one at a time.
#[derive(Debug)]
pub(crate) struct Runner {
    view: BlockView,
    pub(crate) threads: Box<[Thread]>,
    pub(crate) warps: Box<[Warp]>,
    pub(crate) barriers: [Barrier; BARRIERS],
    pub(crate) stacks: Stacks,
    pub(crate) shared: SharedMemory,
    /// Warps that may have a runnable lane.
    pub(crate) runnable_warps: u32,
    /// Threads that have not exited.
    pub(crate) live: u32,
    warp_count: usize,
    shape: Dimensions,
    random: Random,
    rotation: u32,
    descending: bool,
    ordered: bool,
    stress: bool,
    run: unsafe extern "C" fn(*mut *mut c_void),
    parameters: *mut *mut c_void,
    launch: *const Launch,
    /// The context of [`Runner::run`], and a place for contexts that are abandoned.
    pub(crate) main: *mut u8,
    abandoned: *mut u8,
    pub(crate) failure: Option<Failure>,
    /// Pauses and collectives since a thread exited, weighted; and when the clock was started, with the launch's
    /// progress at that time.
    ticks: u32,
    checks: u32,
    stalled: Option<(Instant, u64)>,
    pub(crate) recorder: Option<Box<Recorder>>,
    /// Set by the fault handler.
    pub(crate) fault: Option<Fault>,
    pub(crate) heartbeat: Arc<Heartbeat>,
    code: Range<usize>,
}

// SAFETY: rule 2 above; between blocks a runner holds no pointer into any OS thread.
unsafe impl Send for Runner {}

unsafe extern "C" fn no_kernel(_: *mut *mut c_void) {}

impl Runner {
    /// A runner whose threads have stacks of `stack_bytes`.
    pub(crate) fn new(stack_bytes: usize) -> io::Result<Box<Runner>> {
        let none = Dimensions::default();
        let mut runner = Box::new(Runner {
            view: BlockView {
                dynamic_shared: ptr::null_mut(),
                dynamic_bytes: 0,
                block_index: none,
                block_dim: none,
                grid_dim: none,
            },
            threads: Box::default(),
            warps: (0..LANES).map(|_| Warp::default()).collect(),
            barriers: std::array::from_fn(|_| Barrier::default()),
            stacks: Stacks::new(stack_bytes),
            shared: SharedMemory::new()?,
            runnable_warps: 0,
            live: 0,
            warp_count: 0,
            shape: none,
            random: Random::new(0, 0, 0),
            rotation: 0,
            descending: false,
            ordered: false,
            stress: false,
            run: no_kernel,
            parameters: ptr::null_mut(),
            launch: ptr::null(),
            main: ptr::null_mut(),
            abandoned: ptr::null_mut(),
            failure: None,
            ticks: 0,
            checks: 0,
            stalled: None,
            recorder: None,
            fault: None,
            heartbeat: Arc::default(),
            code: 0..0,
        });
        let own: *mut Runner = &mut *runner;
        let view: *mut BlockView = &mut runner.view;
        let warps = runner.warps.as_mut_ptr();
        runner.threads = (0..MAX_THREADS)
            .map(|index| Thread {
                view: ThreadView {
                    block: view,
                    thread_index: none,
                    lane: (index % LANES) as u32,
                    spin_address: ptr::null(),
                    spin_value: 0,
                    spin_count: 0,
                    fuel: FUEL,
                },
                stack_pointer: ptr::null_mut(),
                // SAFETY: there are 32 warps of 32 lanes.
                warp: unsafe { warps.add(index / LANES) },
                runner: own,
            })
            .collect();
        Ok(runner)
    }

    /// Sets up for the blocks of a launch.
    pub(crate) fn prepare(&mut self, launch: &Launch) -> io::Result<()> {
        let shape = launch.block;
        let threads = shape.volume() as usize;
        self.stacks.reserve(threads)?;
        self.warp_count = threads.div_ceil(LANES);
        if self.shape != shape {
            self.shape = shape;
            for (index, thread) in self.threads[..threads].iter_mut().enumerate() {
                let index = index as u32;
                thread.view.thread_index = Dimensions {
                    x: index % shape.x,
                    y: index / shape.x % shape.y,
                    z: index / (shape.x * shape.y),
                };
            }
        }
        self.view.block_dim = shape;
        self.view.grid_dim = launch.grid;
        self.view.dynamic_bytes = launch.dynamic_shared;
        self.view.dynamic_shared = self.shared.place(launch.dynamic_shared as usize)?;
        self.run = launch.function.run;
        self.parameters = launch.parameters.pointers();
        self.launch = launch;
        self.code = launch.function.code();
        let options = launch.device.options();
        self.stress = options.stress;
        self.ordered = launch.seed == 0 && !options.stress;
        self.recorder = options.count.then(|| Box::new(Recorder::default()));
        Ok(())
    }

    /// Runs one block to its end. An error is this block's own failure; `Ok(false)` says that it was given up
    /// because the launch failed elsewhere.
    pub(crate) fn run(&mut self, index: Dimensions, linear: u64) -> Result<bool, Failure> {
        // SAFETY: `prepare` was called with a launch that outlives its blocks.
        let launch = unsafe { &*self.launch };
        self.view.block_index = index;
        self.random = Random::new(launch.seed, launch.serial, linear);
        self.reset();
        self.shared.poison(launch.poison(linear));
        if let Some(recorder) = &mut self.recorder {
            recorder.begin_block(&self.shared);
        }
        self.heartbeat.begin_block();
        let mut running: *const Thread = ptr::null();
        let first = self.next(0);
        if !first.is_null() {
            // SAFETY: `first` has not started; the carrier is prepared; the context saved in `main` is resumed
            // exactly once, by the last thread to exit, by a failure or by the fault handler.
            unsafe {
                self.mark_started(first);
                let carrier = self.stacks.take();
                let main: *mut *mut u8 = &mut self.main;
                fiber::set_current(first);
                fiber::switch(main, carrier);
                running = fiber::current();
                fiber::set_current(ptr::null_mut());
            }
        }
        self.main = ptr::null_mut();
        if let Some(fault) = self.fault.take() {
            let what = fault.describe(self);
            let place = self.place((!running.is_null()).then_some(running));
            self.failure = Some(Failure { kind: FailureKind::Fault, what, place });
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.end_block();
        }
        if self.live > 0 {
            self.abandon_stacks();
        }
        match self.failure.take() {
            Some(failure) => Err(failure),
            None => Ok(self.live == 0),
        }
    }

    fn reset(&mut self) {
        let threads = self.shape.volume() as usize;
        for (index, warp) in self.warps[..self.warp_count].iter_mut().enumerate() {
            let lanes = (threads - index * LANES).min(LANES);
            warp.reset(if lanes == LANES {
                u32::MAX
            } else {
                (1 << lanes) - 1
            });
        }
        self.runnable_warps = if self.warp_count == LANES {
            u32::MAX
        } else {
            (1 << self.warp_count) - 1
        };
        self.live = threads as u32;
        for barrier in &mut self.barriers {
            barrier.reset();
        }
        let stress = self.stress;
        for thread in &mut self.threads[..threads] {
            thread.view.spin_address = ptr::null();
            thread.view.fuel = if stress {
                1 + (self.random.next() % STRESS_STEPS) as i32
            } else {
                FUEL
            };
        }
        self.ticks = 0;
        self.checks = 0;
        self.stalled = None;
        self.failure = None;
        self.turn();
    }

    /// Contexts were abandoned in the middle: their stacks are free again.
    fn abandon_stacks(&mut self) {
        for (start, bytes) in self.stacks.ranges() {
            crate::sanitizer::unpoison(start, bytes);
        }
        self.stacks.reset();
    }

    /// A new random order of lanes.
    #[inline]
    fn turn(&mut self) {
        if !self.ordered {
            let random = self.random.next();
            self.rotation = random & 31;
            self.descending = random & 32 != 0;
        }
    }

    /// Takes a runnable thread, of warp `warp` if it has one; null if there is none in the block.
    #[inline]
    fn next(&mut self, warp: usize) -> *mut Thread {
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
        &mut self.threads[warp * LANES + lane]
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

    #[inline(always)]
    unsafe fn mark_started(&mut self, thread: *mut Thread) -> bool {
        // SAFETY: rule 1.
        unsafe {
            let bit = 1 << (*thread).view.lane;
            let warp = (*thread).warp;
            let started = (*warp).started & bit != 0;
            (*warp).started |= bit;
            started
        }
    }

    /// Something was done that waiting loops do as well.
    #[inline(always)]
    pub(crate) fn tick(&mut self, weight: u32) {
        self.ticks += weight;
        if self.ticks >= TICKS_PER_CHECK {
            self.check_stall();
        }
    }

    /// Whether an instruction is the running kernel's module's own.
    pub(crate) fn is_device_code(&self, address: usize) -> bool {
        self.code.contains(&address)
    }

    /// The thread's position in the block.
    pub(crate) fn index_of(&self, thread: *const Thread) -> usize {
        // SAFETY: every thread pointer points into `threads`.
        unsafe { thread.offset_from(self.threads.as_ptr()) as usize }
    }

    /// The launch being run.
    pub(crate) fn launch(&self) -> &Launch {
        // SAFETY: set by `prepare`, outlives its blocks.
        unsafe { &*self.launch }
    }

    /// "block (1, 0, 0), thread (33, 0, 0)".
    pub(crate) fn place(&self, thread: Option<*const Thread>) -> String {
        let block = self.view.block_index;
        let mut text = format!("block ({}, {}, {})", block.x, block.y, block.z);
        if let Some(thread) = thread {
            // SAFETY: rule 1.
            let index = unsafe { (*thread).view.thread_index };
            text += &format!(", thread ({}, {}, {})", index.x, index.y, index.z);
        }
        text
    }

    /// Whether `address` is the run time's own memory: threads, warps or this structure.
    pub(crate) fn owns(&self, address: usize) -> bool {
        let within = |start: usize, bytes: usize| address.wrapping_sub(start) < bytes;
        within(self.threads.as_ptr() as usize, size_of_val(&*self.threads))
            || within(self.warps.as_ptr() as usize, size_of_val(&*self.warps))
            || within(ptr::from_ref(self) as usize, size_of::<Runner>())
    }

    /// Ends the block with a failure; the running fiber is abandoned.
    pub(crate) fn fail(
        &mut self,
        thread: Option<*const Thread>,
        kind: FailureKind,
        what: &str,
    ) -> ! {
        let place = self.place(thread);
        self.failure = Some(Failure {
            kind,
            what: what.to_owned(),
            place,
        });
        self.leave()
    }

    /// Goes back to [`Runner::run`] for good.
    pub(crate) fn leave(&mut self) -> ! {
        let abandoned: *mut *mut u8 = &mut self.abandoned;
        // SAFETY: `main` was saved by `run` and is resumed once, here.
        unsafe { fiber::switch(abandoned, self.main) };
        unreachable!("an abandoned fiber is not resumed")
    }

    /// No thread can go on.
    pub(crate) fn deadlock(&mut self) -> ! {
        let what = crate::report::deadlock(self);
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
                    let what = crate::report::stall(self, limit);
                    self.fail(None, FailureKind::Stall, &what);
                }
            }
            _ => self.stalled = Some((Instant::now(), progress)),
        }
        std::thread::yield_now();
    }
}

/// The loop of a carrier, entered with the top of its own stack.
pub(crate) unsafe extern "C" fn carrier_main(top: *mut u8) -> ! {
    loop {
        // SAFETY: rules 1 to 3; the kernel's thunk and parameters are those of the launch. A carrier gives its
        // stack back just before it leaves it for good; nothing else on this OS thread runs in between.
        unsafe {
            let runner = (*fiber::current()).runner;
            ((*runner).run)((*runner).parameters);
            let thread = fiber::current();
            let next = (*runner).exit(thread);
            if next.is_null() {
                (*runner).stacks.give(top);
                (*runner).leave();
            }
            fiber::set_current(next);
            if (*runner).mark_started(next) {
                (*runner).stacks.give(top);
                let abandoned: *mut *mut u8 = &raw mut (*runner).abandoned;
                fiber::switch(abandoned, (*next).stack_pointer);
            }
        }
    }
}

impl Runner {
    /// The thread's kernel function returned. Whom to run next; null when the block is finished.
    unsafe fn exit(&mut self, thread: *mut Thread) -> *mut Thread {
        // SAFETY: rule 1.
        let (warp, lane) = unsafe { (&mut *(*thread).warp, (*thread).view.lane) };
        self.live -= 1;
        self.ticks = 0;
        self.checks = 0;
        warp.exited |= 1 << lane;
        if warp.waiting != 0 && warp.release_without_exited() {
            self.runnable_warps |= 1 << (self.index_of(thread) / LANES);
        }
        if self.live > 0 && self.barriers[0].arrived == self.live {
            self.release_barrier(0);
        }
        let next = self.next(self.index_of(thread) / LANES);
        if next.is_null() && self.live > 0 {
            self.deadlock();
        }
        next
    }
}

/// Suspends the running thread until somebody makes it runnable.
///
/// # Safety
/// Called on a fiber, by the thread itself, after it recorded what it waits for.
#[inline]
pub(crate) unsafe fn suspend(thread: *mut Thread) {
    // SAFETY: rules 1 to 3.
    unsafe {
        let runner = (*thread).runner;
        let next = (*runner).next((*runner).index_of(thread) / LANES);
        if next.is_null() {
            (*runner).deadlock();
        }
        go(runner, thread, next);
    }
}

/// Switches from `thread` to `next`.
#[inline]
unsafe fn go(runner: *mut Runner, thread: *mut Thread, next: *mut Thread) {
    // SAFETY: rules 1 to 3; `next` was runnable, so it has a saved context or none yet.
    unsafe {
        fiber::set_current(next);
        let load = if (*runner).mark_started(next) {
            (*next).stack_pointer
        } else {
            (*runner).stacks.take()
        };
        fiber::switch(&raw mut (*thread).stack_pointer, load);
    }
}

/// `__galatea_runtime::pause`: the running thread has nothing to do but wait for others.
pub(crate) unsafe extern "C" fn pause(kind: u32) {
    let thread = fiber::current();
    // SAFETY: called by device code, so `thread` is the running one; rules 1 to 3.
    unsafe {
        let runner = (*thread).runner;
        if kind == abi::pause::STRESS {
            (*thread).view.fuel = 1 + ((*runner).random.next() % STRESS_STEPS) as i32;
        }
        (*runner).tick(if kind == abi::pause::STRESS {
            1
        } else {
            TICKS_PER_PAUSE
        });
        // Any runnable thread, this one included.
        let own = (*runner).index_of(thread);
        (*(*thread).warp).runnable |= 1 << (*thread).view.lane;
        (*runner).runnable_warps |= 1 << (own / LANES);
        if (*runner).ordered {
            (*runner).rotation = (*runner).random.next() & 31;
        } else {
            (*runner).turn();
        }
        let warp = (*runner).choose((*runner).runnable_warps);
        let next = (*runner).next(warp);
        if next != thread {
            go(runner, thread, next);
        }
    }
}

/// `__galatea_runtime::stop`: `__trap` or a failed assertion.
pub(crate) unsafe extern "C" fn stop(
    kind: u32,
    text: *const c_char,
    file: *const c_char,
    line: u32,
) {
    let thread = fiber::current();
    // SAFETY: called by device code with string literals.
    unsafe {
        let text = CStr::from_ptr(text).to_string_lossy();
        let site = Site { file, line };
        let runner = (*thread).runner;
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
