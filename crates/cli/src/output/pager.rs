//! Long results through the user's pager.

use std::io::Write;
use std::process::{Command, Stdio};

use galatea_device::environment;

use crate::signals;

/// Leaves the text on the screen where it fits, does not fold lines, and shows colours.
const DEFAULT: &str = "less -FSRX";

/// Shows `text` in a pager until the user quits it; false if there is no pager.
pub(crate) fn show(text: &str) -> bool {
    let pager = environment::pager().unwrap_or_else(|| DEFAULT.to_string());
    // Ctrl-C is the pager's as long as it runs.
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
        // A pager that is quit early closes its end.
        let _ = input.write_all(text.as_bytes());
    }
    // The shell's code for an unknown command.
    child.wait().is_ok_and(|status| status.code() != Some(127))
}
