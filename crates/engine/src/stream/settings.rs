//! The settings of streams.

use crate::config::GalateaConfig;
use galatea_flow::PAGE;

/// Threads per block.
pub(super) const BLOCK_THREADS: u32 = 1024;

/// Settings of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StreamSettings {
    /// Number of blocks of its kernel.
    pub(crate) blocks: u32,
    /// Bytes of a frame, in whole pages.
    pub(crate) frame_bytes: usize,
    /// Maximum number of groups of a window.
    pub(crate) groups: u64,
    /// Allowed lateness of a row in milliseconds.
    pub(crate) lateness: u64,
}

impl StreamSettings {
    /// The settings in force.
    pub(crate) fn of(config: &GalateaConfig) -> Self {
        Self {
            blocks: config.stream_blocks.0 as u32,
            frame_bytes: (config.stream_frame_size.0 as usize).next_multiple_of(PAGE),
            groups: config.stream_groups.0,
            lateness: config.stream_lateness.0,
        }
    }
}
