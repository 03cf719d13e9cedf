//! All threads of the CPU at work together.

use galatea_device::timed_together;
use std::sync::Barrier;
use std::time::Instant;

/// Number of threads that the machine runs at once.
pub(crate) fn cpu_threads() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Runs work on all threads, which begin together. Returns the seconds from the first beginning to the last
/// end, and the results.
pub(crate) fn on_all_threads<T: Send>(work: impl Fn(usize) -> T + Sync) -> (f64, Vec<T>) {
    on_threads(cpu_threads(), work)
}

/// The same for this number of threads.
pub(crate) fn on_threads<T: Send>(threads: usize, work: impl Fn(usize) -> T + Sync) -> (f64, Vec<T>) {
    let (begin, work) = (&Barrier::new(threads), &work);
    let timed = move |thread| {
        begin.wait();
        let begun = Instant::now();
        let found = work(thread);
        (begun, Instant::now(), found)
    };
    timed_together((0..threads).map(|thread| move || timed(thread)))
}
