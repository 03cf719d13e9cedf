//! Errors of regions.

use galatea_device::DeviceError;

/// The reason why a region was not reloaded, or could not be moved.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegionError {
    /// The device's.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// Content that was spilled to a file cannot be read again.
    #[error(
        "{name} ({bytes} bytes) cannot be read back from its spill file: {reason}\nhint: look at the file system of the spill folder, or raise galatea.memory.store_limit"
    )]
    Spill {
        /// The region's name.
        name: String,
        /// Its bytes.
        bytes: u64,
        /// The file system's error.
        reason: String,
    },
}
