//! OS threads that execute blocks, and the runners they use.
//!
//! A launch is executed by the thread of its stream, helped by the threads of this pool: as many as the
//! device has workers, and more when blocks wait for blocks that are not resident yet (a grid-wide barrier, a
//! look-back). Extra threads end when they have been idle for a while.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::block::Runner;
use crate::launch::Launch;

/// How long a thread waits for work before it ends.
const IDLE: Duration = Duration::from_secs(2);
/// Stacks of the runners that all devices of the process keep for their next launch: each is two mappings, of
/// which a process may have 65530.
const KEPT_STACKS: usize = 8192;
/// How many there are.
static KEPT: AtomicUsize = AtomicUsize::new(0);

/// The threads and runners of one device.
#[derive(Debug)]
pub(crate) struct Pool {
    queue: Arc<Queue>,
    workers: usize,
    stack_bytes: usize,
    #[expect(
        clippy::vec_box,
        reason = "a runner holds pointers to itself and must not move"
    )]
    runners: Mutex<Vec<Box<Runner>>>,
}

#[derive(Debug, Default)]
struct Queue {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct State {
    requests: VecDeque<Arc<Launch>>,
    idle: usize,
}

impl Pool {
    pub(crate) fn new(workers: usize, stack_bytes: usize) -> Pool {
        Pool {
            queue: Arc::default(),
            workers,
            stack_bytes,
            runners: Mutex::default(),
        }
    }

    /// OS threads that a launch uses from the start, the stream's own included.
    pub(crate) fn workers(&self) -> usize {
        self.workers
    }

    /// Asks for `count` threads to work on a launch. If no thread can be had, the launch does without.
    pub(crate) fn submit(&self, launch: &Arc<Launch>, count: usize) {
        let mut state = self.queue.state.lock();
        for _ in 0..count {
            state.requests.push_back(Arc::clone(launch));
        }
        let missing = state.requests.len().saturating_sub(state.idle);
        drop(state);
        for _ in 0..missing {
            let queue = Arc::clone(&self.queue);
            let spawned = std::thread::Builder::new()
                .name("galatea-emulator".to_owned())
                .spawn(move || queue.serve());
            if let Err(error) = spawned {
                tracing::warn!("no further thread for emulated blocks: {error}");
                break;
            }
        }
        self.queue.wake.notify_all();
    }

    /// A runner, kept from an earlier launch or new.
    pub(crate) fn runner(&self) -> io::Result<Box<Runner>> {
        if let Some(runner) = self.runners.lock().pop() {
            KEPT.fetch_sub(runner.stacks.count(), Ordering::Relaxed);
            return Ok(runner);
        }
        Runner::new(self.stack_bytes)
    }

    /// Keeps a runner for the next launch.
    pub(crate) fn keep(&self, runner: Box<Runner>) {
        let stacks = runner.stacks.count();
        if KEPT.fetch_add(stacks, Ordering::Relaxed) + stacks <= KEPT_STACKS {
            self.runners.lock().push(runner);
        } else {
            KEPT.fetch_sub(stacks, Ordering::Relaxed);
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let kept: usize = self
            .runners
            .lock()
            .iter()
            .map(|runner| runner.stacks.count())
            .sum();
        KEPT.fetch_sub(kept, Ordering::Relaxed);
    }
}

impl Queue {
    fn serve(&self) {
        loop {
            let mut state = self.state.lock();
            let request = loop {
                if let Some(request) = state.requests.pop_front() {
                    break request;
                }
                state.idle += 1;
                let waited = self.wake.wait_for(&mut state, IDLE);
                state.idle -= 1;
                if waited.timed_out() && state.requests.is_empty() {
                    return;
                }
            };
            drop(state);
            request.work();
        }
    }
}
