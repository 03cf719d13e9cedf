//! The emulated device's functions, if this build has them (feature `emulator`, Linux on x86-64);
//! `no_emulator.rs` replaces them in other builds.

use std::ffi::c_void;

use crate::errors::Missing;

/// Looks up the emulated functions of the driver and the compiler.
pub(crate) fn emulator_resolver() -> Result<fn(&str) -> Option<*const c_void>, Missing> {
    Ok(galatea_emulator::symbol)
}

/// The report of the first launch that failed on a device.
pub(crate) fn emulator_report(ordinal: usize) -> Option<String> {
    galatea_emulator::last_report(i32::try_from(ordinal).ok()?)
}
