//! Executes one block at a time: its threads and their scheduling.
//!
//! A [`Runner`] executes blocks one after the other on the OS thread that holds it. Each thread of the block
//! is in exactly one state:
//!
//! * *runnable* (its bit in [`Warp::runnable`]): not started, or suspended and ready to continue;
//! * *running*: the current one;
//! * *waiting*: its bit in [`Warp::waiting`] (a collective) or in a barrier's `waiting`;
//! * *exited* (its bit in [`Warp::exited`], as for the lanes beyond the end of the block).
//!
//! [`schedule`] chooses the thread that runs next.
//!
//! # Safety
//! All of this is accessed through raw pointers from fibers of one OS thread. The rules:
//! 1. A runner, its threads and warps are boxed and do not move while a block runs.
//! 2. Only the OS thread that called [`Runner::run`] touches them until it returns.
//! 3. No reference into the runner is held across a [`fiber::switch`]; raw pointers are dereferenced anew.

mod barriers;
mod collectives;
mod runtime;
mod schedule;
mod stuck;

use std::ffi::{c_int, c_void};
use std::io;
use std::ops::Range;
use std::ptr;
use std::sync::Arc;
use std::time::Instant;

use crate::abi::{BlockView, Dimensions, LANES, MAX_THREADS, ThreadView};
use crate::barrier::Barrier;
use crate::counters::Recorder;
use crate::fiber::{self, Stacks};
use crate::heartbeat::Heartbeat;
use crate::launch::Launch;
use crate::races::{Race, Races};
use crate::random::Random;
use crate::report::{Failure, FailureKind};
use crate::shared::SharedMemory;
use crate::warp::Warp;

pub(crate) use runtime::RUNTIME;
pub(crate) use schedule::pause;

/// Barriers of a block. `__syncthreads` is number 0.
const BARRIERS: usize = 16;
/// Number of atomics that a thread may execute before others run.
const FUEL: i32 = 1024;
/// Under stress, the number of basic blocks and memory accesses between two switches is 1 to this number.
const STRESS_STEPS: u32 = 24;

/// A device thread.
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct Thread {
    pub(crate) view: ThreadView,
    /// The stack pointer at which the thread resumes: null before the first suspension, stale while it runs.
    stack_pointer: *mut u8,
    warp: *mut Warp,
}

/// Data that the threads of a block share. Device code sees the view at its start.
#[repr(C)]
#[derive(Debug)]
struct Block {
    view: BlockView,
    /// The runner that executes the block; set when it starts.
    runner: *mut Runner,
}

impl Thread {
    /// The thread that runs on this OS thread; null outside of device code.
    #[inline(always)]
    pub(crate) fn current() -> *mut Thread {
        // The fiber layer identifies a thread by its view, which is its first field.
        fiber::current().cast()
    }

    #[inline(always)]
    fn set_current(thread: *mut Thread) {
        fiber::set_current(thread.cast());
    }

    /// The runner that executes a thread.
    ///
    /// # Safety
    /// The thread's block is running.
    #[inline(always)]
    pub(crate) unsafe fn runner(thread: *const Thread) -> *mut Runner {
        // SAFETY: rule 1.
        unsafe { (*(*thread).view.block.cast::<Block>()).runner }
    }
}

/// The signal that stopped a fiber, as recorded by the fault handler ([`crate::fault`]).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    pub(crate) signal: c_int,
    pub(crate) address: usize,
    pub(crate) instruction: usize,
}

/// Executes blocks, one at a time.
#[derive(Debug)]
pub(crate) struct Runner {
    block: Block,
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
    /// The context of [`Runner::run`], also used to save contexts that are abandoned.
    pub(crate) main: *mut u8,
    abandoned: *mut u8,
    pub(crate) failure: Option<Failure>,
    /// Weighted number of pauses and collectives since a thread last exited, and the time at which the clock
    /// was started, with the launch's progress at that time.
    ticks: u32,
    checks: u32,
    stalled: Option<(Instant, u64)>,
    pub(crate) recorder: Option<Box<Recorder>>,
    races: Option<Box<Races>>,
    /// The race that ended the block.
    race: Option<Box<Race>>,
    /// Set by the fault handler.
    pub(crate) fault: Option<Fault>,
    pub(crate) heartbeat: Arc<Heartbeat>,
    code: Range<usize>,
}

// SAFETY: rule 2 above; between blocks a runner holds no pointer into any OS thread.
unsafe impl Send for Runner {}

unsafe extern "C" fn no_kernel(_: *mut *mut c_void) {}

impl Runner {
    /// Creates a runner with stacks of `stack_bytes` per thread.
    pub(crate) fn new(stack_bytes: usize) -> io::Result<Box<Runner>> {
        let none = Dimensions::default();
        let mut runner = Box::new(Runner {
            block: Block {
                view: BlockView {
                    dynamic_shared: ptr::null_mut(),
                    dynamic_bytes: 0,
                    block_index: none,
                    block_dim: none,
                    grid_dim: none,
                },
                runner: ptr::null_mut(),
            },
            threads: Box::default(),
            warps: (0..LANES).map(Warp::new).collect(),
            barriers: std::array::from_fn(|_| Barrier::default()),
            stacks: Stacks::new(stack_bytes, carrier_main),
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
            races: None,
            race: None,
            fault: None,
            heartbeat: Arc::default(),
            code: 0..0,
        });
        let block: *mut Block = &mut runner.block;
        let warps = runner.warps.as_mut_ptr();
        runner.threads = (0..MAX_THREADS)
            .map(|index| Thread {
                view: ThreadView {
                    block: block.cast(),
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
            })
            .collect();
        Ok(runner)
    }

    /// Prepares the runner for the blocks of a launch.
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
        self.block.view.block_dim = shape;
        self.block.view.grid_dim = launch.grid;
        self.block.view.dynamic_bytes = launch.dynamic_shared;
        self.block.view.dynamic_shared = self.shared.place(launch.dynamic_shared as usize)?;
        self.run = launch.function.run;
        self.parameters = launch.parameters.pointers();
        self.launch = launch;
        self.code = launch.function.code();
        let options = launch.device.options();
        self.stress = options.stress;
        self.ordered = launch.seed == 0 && !options.stress;
        (self.rotation, self.descending) = (0, false);
        self.recorder = options
            .count
            .then(|| Box::new(Recorder::new(launch.device.memory.ranges())));
        self.races = options.races.then(Box::default);
        Ok(())
    }

    /// Drops the state of a launch that has ended.
    pub(crate) fn end_launch(&mut self) {
        (self.recorder, self.races) = (None, None);
        self.launch = ptr::null();
    }

    /// Runs one block to its end. An error is this block's own failure. `Ok(false)`: the block was given up
    /// because the launch failed elsewhere.
    pub(crate) fn run(&mut self, index: Dimensions, linear: u64) -> Result<bool, Failure> {
        // SAFETY: `prepare` was called with a launch that outlives its blocks.
        let launch = unsafe { &*self.launch };
        self.block.view.block_index = index;
        self.random = Random::new(launch.seed, launch.serial, linear);
        self.reset();
        self.shared.poison(launch.poison(linear));
        if let Some(recorder) = &mut self.recorder {
            recorder.begin_block(&self.shared, self.warp_count);
        }
        if let Some(races) = &mut self.races {
            races.begin_block(&self.shared, self.stacks.ranges(), self.warp_count);
        }
        self.heartbeat.begin_block();
        let running = self.run_fibers();
        if let Some(fault) = self.fault.take() {
            let what = fault.describe(self);
            let place = self.place((!running.is_null()).then_some(running));
            self.failure = Some(Failure {
                kind: FailureKind::Fault,
                what,
                place,
            });
        }
        if let Some(race) = self.race.take() {
            self.failure = Some(Failure {
                kind: FailureKind::Race,
                what: race.describe(),
                place: self.place(None),
            });
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

    /// Runs the threads until the last one exits or the block fails. Returns the thread that ran last.
    fn run_fibers(&mut self) -> *const Thread {
        let this: *mut Runner = self;
        // SAFETY: until the switch back, the runner is used only through pointers derived from `this`. The
        // first thread has not started. The context saved in `main` is resumed exactly once: by the last
        // thread to exit, by a failure or by the fault handler.
        unsafe {
            (*this).block.runner = this;
            let first = (*this).next(0);
            let carrier = (*this).stacks.take();
            Thread::set_current(first);
            fiber::switch(&raw mut (*this).main, carrier);
            let last = Thread::current();
            Thread::set_current(ptr::null_mut());
            (*this).main = ptr::null_mut();
            last
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
            thread.stack_pointer = ptr::null_mut();
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

    /// Frees the stacks of contexts that were abandoned before they finished.
    fn abandon_stacks(&mut self) {
        for (start, bytes) in self.stacks.ranges() {
            crate::sanitizer::unpoison(start, bytes);
        }
        self.stacks.reset();
    }

    /// Whether an instruction belongs to the module of the running kernel.
    pub(crate) fn is_device_code(&self, address: usize) -> bool {
        self.code.contains(&address)
    }

    /// The launch being run.
    pub(crate) fn launch(&self) -> &Launch {
        // SAFETY: set by `prepare`, outlives its blocks.
        unsafe { &*self.launch }
    }

    /// "block (1, 0, 0), thread (33, 0, 0)".
    pub(crate) fn place(&self, thread: Option<*const Thread>) -> String {
        let block = self.block.view.block_index;
        let mut text = format!("block ({}, {}, {})", block.x, block.y, block.z);
        if let Some(thread) = thread {
            // SAFETY: rule 1.
            let index = unsafe { (*thread).view.thread_index };
            text += &format!(", thread ({}, {}, {})", index.x, index.y, index.z);
        }
        text
    }

    /// Ends the block with a failure; the running fiber is abandoned.
    pub(crate) fn fail(&mut self, thread: Option<*const Thread>, kind: FailureKind, what: &str) -> ! {
        let place = self.place(thread);
        self.failure = Some(Failure {
            kind,
            what: what.to_owned(),
            place,
        });
        self.leave()
    }

    /// Returns to [`Runner::run`] and abandons the running fiber.
    pub(crate) fn leave(&mut self) -> ! {
        let abandoned: *mut *mut u8 = &mut self.abandoned;
        // SAFETY: `main` was saved by `run` and is resumed once, here.
        unsafe { fiber::switch(abandoned, self.main) };
        unreachable!("an abandoned fiber is not resumed")
    }
}

/// The loop of a carrier. It is entered with the top of the carrier's own stack.
unsafe extern "C" fn carrier_main(top: *mut u8) -> ! {
    loop {
        // SAFETY: rules 1 to 3; the kernel's thunk and parameters are those of the launch. A carrier returns
        // its stack just before it leaves it for good, and nothing else on this OS thread runs in between.
        unsafe {
            let runner = Thread::runner(Thread::current());
            ((*runner).run)((*runner).parameters);
            let thread = Thread::current();
            let next = (*runner).exit(thread);
            if next.is_null() {
                (*runner).stacks.give(top);
                (*runner).leave();
            }
            Thread::set_current(next);
            if !(*next).stack_pointer.is_null() {
                (*runner).stacks.give(top);
                fiber::switch(&raw mut (*runner).abandoned, (*next).stack_pointer);
            }
        }
    }
}
