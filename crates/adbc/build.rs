//! Marks the library so that it stays loaded: its threads may still run when a driver manager closes it.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    #[expect(
        clippy::disallowed_methods,
        reason = "cargo tells build scripts by the environment"
    )]
    let target = std::env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    if target == "linux" {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    }
}
