//! The end of the process, which waits for work that it would break: compilers and drivers have ends of their
//! own, which pull their state from under threads that are still in them.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::RwLock;

/// Held by threads that do such work.
static AT_WORK: RwLock<()> = RwLock::new(());

/// Does work before the process ends, if that has not begun: then the calling thread stops here. Not part of
/// other such work, for which a process that ends would wait forever.
pub(crate) fn before_the_end<T>(work: impl FnOnce() -> T) -> T {
    static BEFORE: Once = Once::new();
    static AFTER: Once = Once::new();
    BEFORE.call_once(wait_at_the_end);
    let at_work = AT_WORK.read();
    let done = work();
    drop(at_work);
    // What is to be done at the end is done in reverse order. The first work loads libraries, which add their
    // ends to it: the process must wait before these.
    AFTER.call_once(wait_at_the_end);
    done
}

fn wait_at_the_end() {
    // SAFETY: the function has the type that is asked for, lives as long as the program, and does not unwind:
    // it takes a lock that is never poisoned.
    if unsafe { libc::atexit(wait) } != 0 {
        tracing::debug!("the end of the process will not wait for compilers");
    }
}

/// Waits until nothing is being done, and lets nothing begin.
extern "C" fn wait() {
    static WAITED: AtomicBool = AtomicBool::new(false);
    if !WAITED.swap(true, Ordering::SeqCst) {
        std::mem::forget(AT_WORK.write());
    }
}
