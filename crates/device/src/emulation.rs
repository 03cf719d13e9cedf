//! The seam to the emulated device: the four things this crate asks of it.

use std::ffi::c_void;

/// How an emulated device behaves.
#[derive(Debug, Clone, Default)]
pub struct EmulatorOptions {
    /// Order of lanes and blocks.
    pub seed: u64,
}

pub(crate) fn symbol(_name: &str) -> Option<*const c_void> {
    None
}

pub(crate) fn add_device(_options: EmulatorOptions) -> usize {
    0
}

pub(crate) fn last_report(_ordinal: usize) -> Option<String> {
    None
}

pub(crate) fn compile_options(_ordinal: usize) -> Vec<String> {
    Vec::new()
}
