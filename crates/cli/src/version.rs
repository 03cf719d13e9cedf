//! Versions of the program and its parts, for `--version` and bug reports.

/// The commit of the build, or `unknown`.
pub(crate) const COMMIT: &str = env!("GALATEA_COMMIT");

/// One line each: galatea with its commit, DataFusion, and the NVRTC of this machine.
pub(crate) fn text() -> String {
    let nvrtc = match &galatea_device::probe().nvrtc {
        Ok(nvrtc) => format!("{}.{}", nvrtc.version.0, nvrtc.version.1),
        Err(_) => "not found".to_string(),
    };
    format!(
        "galatea {} ({COMMIT})\nDataFusion {}\nNVRTC {nvrtc}\n",
        env!("CARGO_PKG_VERSION"),
        datafusion::DATAFUSION_VERSION
    )
}
