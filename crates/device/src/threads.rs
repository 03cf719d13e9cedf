//! Threads whose work can wait, and threads that are timed together.

use std::thread::{ScopedJoinHandle, scope};
use std::time::Instant;

/// Gives the calling thread the lowest priority, as far as the system lets it: other threads take the cores
/// when they want them. Threads that it starts inherit that. On systems that know priorities of processes
/// alone, nothing changes.
pub fn lower_thread_priority() {
    #[cfg(target_os = "linux")]
    {
        /// The least that `setpriority(2)` knows.
        const LEAST: libc::c_int = 19;
        // SAFETY: no memory is passed. Who 0 is the calling thread on Linux.
        let done = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, LEAST) };
        if done != 0 {
            tracing::debug!("a thread keeps its priority: {}", std::io::Error::last_os_error());
        }
    }
}

/// Runs each work on a thread of its own. A work says when it has begun and ended, and what it has found:
/// the seconds from the first beginning to the last end, and what all have found.
///
/// # Panics
/// As a work does.
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

    #[test]
    fn one_thread_and_those_that_it_starts_have_a_lower_priority() {
        // SAFETY: no memory is passed.
        let priority = || unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
        let before = priority();
        let lowered = std::thread::spawn(move || {
            lower_thread_priority();
            let started = std::thread::spawn(priority).join().expect("a number");
            (priority(), started)
        });
        assert_eq!(lowered.join().expect("two numbers"), (19, 19));
        assert_eq!(priority(), before);
    }
}
