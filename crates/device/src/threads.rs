//! Threads whose work can wait.

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
