//! OS threads that execute launches, and their runners, which all devices of the process share.
//!
//! The thread of a stream executes the stream's launches, helped by threads of this pool: up to the device's
//! number of workers, and more if blocks wait for blocks that are not resident yet (a grid-wide barrier, a
//! look-back). Extra threads end after they have been idle for a while.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::block::Runner;
use crate::fault;
use crate::launch::{Helpers, Launch};
use crate::report::{Failure, FailureKind};
use crate::watchdog::Registration;

/// How long a thread waits for work before it ends.
const IDLE: Duration = Duration::from_secs(2);
/// The most stacks of runners that the process keeps for later launches. Each stack is two mappings, and a
/// process may have 65530.
const KEPT_STACKS: usize = 8192;
/// The runners that the process keeps for reuse. Creating the stacks of a runner takes a thousand system
/// calls and a fault per page, which is far more than a small kernel takes, so all devices share the runners.
static RUNNERS: Mutex<Kept> = Mutex::new(Kept {
    runners: Vec::new(),
    stacks: 0,
});

#[derive(Debug)]
struct Kept {
    #[expect(
        clippy::vec_box,
        reason = "a runner holds pointers to itself and must not move"
    )]
    runners: Vec<Box<Runner>>,
    /// Number of stacks of all runners.
    stacks: usize,
}

impl Kept {
    /// Takes the runner with stacks of that size that was kept last.
    fn take(&mut self, stack_bytes: usize) -> Option<Box<Runner>> {
        let mut runners = self.runners.iter();
        let position = runners.rposition(|runner| runner.stacks.fit(stack_bytes))?;
        let runner = self.runners.remove(position);
        self.stacks -= runner.stacks.count();
        Some(runner)
    }
}

/// Keeps a runner for reuse, instead of the oldest one if many are kept.
fn keep(runner: Box<Runner>) {
    let mut kept = RUNNERS.lock();
    kept.stacks += runner.stacks.count();
    kept.runners.push(runner);
    let mut unwanted = 0;
    while kept.stacks > KEPT_STACKS {
        kept.stacks -= kept.runners[unwanted].stacks.count();
        unwanted += 1;
    }
    let unwanted: Vec<_> = kept.runners.drain(..unwanted).collect();
    // Stacks are unmapped without holding the lock.
    drop(kept);
    drop(unwanted);
}

/// The threads of one device.
#[derive(Debug)]
pub(crate) struct Pool {
    queue: Mutex<Queue>,
    wake: Condvar,
    workers: usize,
    stack_bytes: usize,
}

#[derive(Debug, Default)]
struct Queue {
    requests: VecDeque<Arc<Launch>>,
    idle: usize,
}

impl Pool {
    /// Creates the pool for launches that begin with `workers` threads, including the stream's own.
    pub(crate) fn new(workers: usize, stack_bytes: usize) -> Arc<Pool> {
        Arc::new(Pool {
            queue: Mutex::default(),
            wake: Condvar::new(),
            workers,
            stack_bytes,
        })
    }

    /// Executes all blocks of a launch. Returns when the last one has finished or the launch has failed.
    pub(crate) fn execute(&self, launch: &Arc<Launch>) -> Result<(), Failure> {
        /// Under AddressSanitizer, static shared memory exists only once.
        static ONE_BLOCK: Mutex<()> = Mutex::new(());
        let _one = launch
            .device
            .options()
            .address_sanitizer
            .then(|| ONE_BLOCK.lock());
        launch.execute(|launch| self.work(launch))
    }

    /// Takes part in a launch: executes blocks until none is left.
    fn work(&self, launch: &Launch) {
        if launch.enter() {
            self.run_blocks(launch);
            launch.leave();
        }
    }

    fn run_blocks(&self, launch: &Launch) {
        if !launch.has_blocks() {
            return;
        }
        let mut runner = match self.runner() {
            Ok(runner) => runner,
            Err(error) => return launch.fail(no_host_resources(&error)),
        };
        let (fixed, bytes) = launch.function.static_memory();
        runner.shared.set_fixed(fixed, bytes);
        if let Err(error) = runner.prepare(launch) {
            return launch.fail(no_host_resources(&error));
        }
        fault::prepare_thread();
        let watched = Registration::new(&runner.heartbeat);
        while let Some((index, linear)) = launch.next_block() {
            match runner.run(index, linear) {
                Ok(_) => launch.block_done(),
                Err(failure) => {
                    launch.fail(failure);
                    break;
                }
            }
        }
        if let Some(recorder) = &mut runner.recorder {
            launch.device.add_counters(&recorder.take());
        }
        // Once the runner is kept, another thread may take it and be watched by its heartbeat.
        drop(watched);
        runner.end_launch();
        keep(runner);
    }

    /// Returns a runner of an earlier launch, or a new one.
    fn runner(&self) -> io::Result<Box<Runner>> {
        let kept = RUNNERS.lock().take(self.stack_bytes);
        kept.map_or_else(|| Runner::new(self.stack_bytes), Ok)
    }

    fn serve(&self) {
        loop {
            let mut queue = self.queue.lock();
            let request = loop {
                if let Some(request) = queue.requests.pop_front() {
                    break request;
                }
                queue.idle += 1;
                let waited = self.wake.wait_for(&mut queue, IDLE);
                queue.idle -= 1;
                if waited.timed_out() && queue.requests.is_empty() {
                    return;
                }
            };
            drop(queue);
            self.work(&request);
        }
    }
}

impl Helpers for Pool {
    fn workers(&self) -> usize {
        self.workers
    }

    fn help(self: Arc<Self>, launch: &Arc<Launch>, count: usize) {
        let mut queue = self.queue.lock();
        for _ in 0..count {
            queue.requests.push_back(Arc::clone(launch));
        }
        let missing = queue.requests.len().saturating_sub(queue.idle);
        drop(queue);
        for _ in 0..missing {
            let pool = Arc::clone(&self);
            let spawned = std::thread::Builder::new()
                .name("galatea-emulator".to_owned())
                .spawn(move || pool.serve());
            if let Err(error) = spawned {
                tracing::warn!("no further thread for emulated blocks: {error}");
                break;
            }
        }
        self.wake.notify_all();
    }
}

fn no_host_resources(error: &io::Error) -> Failure {
    Failure {
        kind: FailureKind::Host,
        what: format!("threads or memory for a block's execution: {error}"),
        place: String::new(),
    }
}
