//! Replaces the emulated device's functions in builds without it.

use std::ffi::c_void;

use crate::errors::Missing;

pub(crate) fn emulator_resolver() -> Result<fn(&str) -> Option<*const c_void>, Missing> {
    Err(Missing {
        what: "emulated device",
        reason: "this build does not have it".to_owned(),
        remedy: "build with the feature `emulator`, on Linux on x86-64",
    })
}

pub(crate) fn emulator_report(_ordinal: usize) -> Option<String> {
    None
}
