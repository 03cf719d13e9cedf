//! The end of the process waits for work that it would break: compilers and drivers have exit handlers, which
//! free their state while threads may still use it.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::RwLock;

/// Threads that do such work hold a read lock.
static AT_WORK: RwLock<()> = RwLock::new(());

/// Does work that must finish before the process ends. If the end has begun, the calling thread stops here.
/// Calls must not be nested, since the process would wait forever.
pub fn before_the_end<T>(work: impl FnOnce() -> T) -> T {
    static BEFORE: Once = Once::new();
    static AFTER: Once = Once::new();
    BEFORE.call_once(wait_at_the_end);
    let at_work = AT_WORK.read();
    let done = work();
    drop(at_work);
    // Exit handlers run in reverse order. The first work loads libraries, which add their own handlers: the
    // process must wait before these.
    AFTER.call_once(wait_at_the_end);
    done
}

/// Registers an exit handler that waits. It runs before those that libraries have added until now.
pub(crate) fn wait_at_the_end() {
    // SAFETY: the function has the required type, lives as long as the program, and does not unwind: it takes
    // a lock that is never poisoned.
    if unsafe { libc::atexit(wait) } != 0 {
        tracing::debug!("the end of the process will not wait for compilers");
    }
}

/// Waits until no such work is in progress, and lets none begin. A program calls it before it ends. Without
/// the call, an exit handler waits, but not for a library that is being loaded.
pub fn wait_before_exit() {
    static WAITED: AtomicBool = AtomicBool::new(false);
    if !WAITED.swap(true, Ordering::SeqCst) {
        std::mem::forget(AT_WORK.write());
    }
}

extern "C" fn wait() {
    wait_before_exit();
}
