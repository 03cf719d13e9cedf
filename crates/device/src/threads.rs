//! Threads with work that can wait, and threads that are timed together.

use std::cell::Cell;
use std::sync::OnceLock;
use std::thread::{ScopedJoinHandle, scope};
use std::time::Instant;

thread_local! {
    static HAS_LOW_PRIORITY: Cell<bool> = const { Cell::new(false) };
}

/// Gives the calling thread the lowest priority that the system permits: it runs on idle cores only, and a
/// query's thread that wakes up takes its core at once (`SCHED_IDLE`). A niceness of 19 is not enough for
/// that: a query's thread that wakes up then looks for another core, or waits for the end of the slice.
/// Threads that it starts inherit the priority. On systems that only have priorities of processes, nothing
/// changes except [`has_low_priority`].
pub fn lower_thread_priority() {
    HAS_LOW_PRIORITY.set(true);
    #[cfg(target_os = "linux")]
    {
        /// The lowest priority of `setpriority(2)`, for the case that the policy is refused.
        const LEAST: libc::c_int = 19;
        let idle = libc::sched_param { sched_priority: 0 };
        // SAFETY: thread 0 is the calling thread, and the parameters are read during the call.
        let is_idle = unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const idle) } == 0;
        // SAFETY: no memory is passed. Who 0 is the calling thread on Linux.
        if !is_idle && unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, LEAST) } != 0 {
            tracing::debug!("a thread keeps its priority: {}", std::io::Error::last_os_error());
        }
    }
}

/// Whether the calling thread has lowered its priority.
#[must_use]
pub fn has_low_priority() -> bool {
    HAS_LOW_PRIORITY.get()
}

/// Threads of the lowest priority, one for each core; `None` if the system cannot start them.
pub fn low_priority_pool() -> Option<&'static rayon::ThreadPool> {
    static POOL: OnceLock<Option<rayon::ThreadPool>> = OnceLock::new();
    let pool = || {
        let builder = rayon::ThreadPoolBuilder::new();
        let builder = builder.thread_name(|index| format!("galatea-background-{index}"));
        builder.start_handler(|_| lower_thread_priority()).build().ok()
    };
    POOL.get_or_init(pool).as_ref()
}

/// Runs work with rayon iterators on threads of the calling thread's priority.
pub fn in_parallel<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    match has_low_priority().then(low_priority_pool).flatten() {
        Some(pool) => pool.install(work),
        None => work(),
    }
}

/// Runs each work item on a thread of its own. An item returns its begin, its end and its result. Returns the
/// seconds from the first begin to the last end, and all results.
///
/// # Panics
/// If a work item panics.
pub fn timed_together<T, W>(works: impl IntoIterator<Item = W>) -> (f64, Vec<T>)
where
    T: Send,
    W: FnOnce() -> (Instant, Instant, T) + Send,
{
    let parts: Vec<_> = scope(|scope| {
        let workers: Vec<_> = works.into_iter().map(|work| scope.spawn(work)).collect();
        let join = |worker: ScopedJoinHandle<'_, _>| {
            worker
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        workers.into_iter().map(join).collect()
    });
    let begun = parts.iter().map(|(begun, _, _)| *begun).min();
    let ended = parts.iter().map(|(_, ended, _)| *ended).max();
    let seconds = begun
        .zip(ended)
        .map_or(f64::NAN, |(begun, ended)| (ended - begun).as_secs_f64());
    (seconds, parts.into_iter().map(|(_, _, found)| found).collect())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// The scheduling policy of the calling thread.
    fn policy() -> libc::c_int {
        // SAFETY: no memory is passed.
        unsafe { libc::sched_getscheduler(0) }
    }

    #[test]
    fn lowered_thread_priority_is_inherited() {
        let before = policy();
        let lowered = std::thread::spawn(|| {
            lower_thread_priority();
            let started = std::thread::spawn(policy).join().expect("a policy");
            (policy(), started)
        });
        let lowered = lowered.join().expect("two policies");
        assert_eq!(lowered, (libc::SCHED_IDLE, libc::SCHED_IDLE));
        assert_eq!(policy(), before);
    }

    #[test]
    fn parallel_work_has_the_priority_of_its_caller() {
        use rayon::prelude::*;
        let all = || -> Vec<_> {
            let each = (0..64).into_par_iter().map(|_| (policy(), has_low_priority()));
            each.collect()
        };
        let before = (policy(), false);
        let lowered = std::thread::spawn(move || {
            lower_thread_priority();
            in_parallel(all)
        });
        let lowered = lowered.join().expect("policies");
        assert!(
            lowered.iter().all(|found| *found == (libc::SCHED_IDLE, true)),
            "{lowered:?}"
        );
        let normal = in_parallel(all);
        assert!(normal.iter().all(|found| *found == before), "{normal:?}");
    }
}
