//! The end of the process.

use std::io::Write;

/// Ends the process with this exit code, without the exit handlers of libraries.
///
/// The driver and the compiler free their state in exit handlers while threads may still use it: a thread
/// that initialises the driver, compiles a kernel or waits for a launch. That ends in a crash ("double
/// free"). So a program that has used a device and may have such threads ends here, after its own values are
/// dropped and its files are closed.
pub fn exit_at_once(code: u8) -> ! {
    // The buffer of standard output is the only thing that an exit handler of ours would write.
    let _ = std::io::stdout().flush();
    // SAFETY: the call takes no memory and does not return.
    unsafe { libc::_exit(code.into()) }
}
