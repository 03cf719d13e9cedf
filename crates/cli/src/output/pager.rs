//! Shows long results through the user's pager.

use std::io::Write;
use std::process::{Command, Stdio};

use galatea_device::environment;

use crate::signals;

/// The options leave the output on the screen if it fits, do not fold lines, and show colours.
const DEFAULT: &str = "less -FSRX";

/// Shows `text` in a pager until the user quits it. Returns false if no pager exists.
pub(crate) fn show(text: &str) -> bool {
    let pager = environment::pager().unwrap_or_else(|| DEFAULT.to_string());
    // While the pager runs, it handles Ctrl-C.
    let _held = signals::hold();
    let spawned = Command::new("sh")
        .arg("-c")
        .arg(&pager)
        .stdin(Stdio::piped())
        .spawn();
    let Ok(mut child) = spawned else {
        return false;
    };
    if let Some(mut input) = child.stdin.take() {
        // A pager that the user quits early closes the pipe.
        let _ = input.write_all(text.as_bytes());
    }
    // The exit code of the shell for an unknown command.
    child.wait().is_ok_and(|status| status.code() != Some(127))
}
