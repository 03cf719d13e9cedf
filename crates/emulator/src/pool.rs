//! OS threads that execute launches, and the runners they use, which all devices of the process share.
//!
//! A launch is executed by the thread of its stream, helped by the threads of this pool: as many as the
//! device has workers, and more when blocks wait for blocks that are not resident yet (a grid-wide barrier, a
//! look-back). Extra threads end when they have been idle for a while.

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
/// Stacks of the runners that the process keeps for later launches: each is two mappings, of which a process
/// may have 65530.
const KEPT_STACKS: usize = 8192;
/// The runners that the process keeps. A runner's stacks take a thousand system calls to make, and each of
/// their pages a fault, which is far more than a small kernel takes: so all devices share them.
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
    /// Of all of them.
    stacks: usize,
}

impl Kept {
    /// A runner with stacks of that size, the last one that was kept.
    fn take(&mut self, stack_bytes: usize) -> Option<Box<Runner>> {
        let mut runners = self.runners.iter();
        let position = runners.rposition(|runner| runner.stacks.fit(stack_bytes))?;
        let runner = self.runners.remove(position);
        self.stacks -= runner.stacks.count();
        Some(runner)
    }
}

/// Keeps a runner, in place of the oldest if there are many.
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
    // Stacks are unmapped without the lock.
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
    /// For launches that begin with `workers` threads, the stream's own included.
    pub(crate) fn new(workers: usize, stack_bytes: usize) -> Arc<Pool> {
        Arc::new(Pool {
            queue: Mutex::default(),
            wake: Condvar::new(),
            workers,
            stack_bytes,
        })
    }

    /// Executes all blocks of a launch; returns when the last one has finished or the launch has failed.
    pub(crate) fn execute(&self, launch: &Arc<Launch>) -> Result<(), Failure> {
        /// Under AddressSanitizer, static shared memory exists once.
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
        // Another thread may take the runner, and be watched by its heartbeat, as soon as it is kept.
        drop(watched);
        runner.end_launch();
        keep(runner);
    }

    /// A runner, kept from an earlier launch or new.
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
