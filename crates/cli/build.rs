//! Passes the commit of the build to the program.

use std::process::Command;

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_string();
    (output.status.success() && !text.is_empty()).then_some(text)
}

fn main() {
    let commit = git(&["rev-parse", "--short=12", "HEAD"]).unwrap_or_else(|| "unknown".to_string());
    println!("cargo::rustc-env=GALATEA_COMMIT={commit}");
    println!("cargo::rerun-if-changed=build.rs");
    // Release builds contain their commit. Test builds are not rebuilt for every commit.
    #[expect(
        clippy::disallowed_methods,
        reason = "cargo tells build scripts by the environment"
    )]
    let released = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]).filter(|_| released) {
        println!("cargo::rerun-if-changed={log}");
    }
}
