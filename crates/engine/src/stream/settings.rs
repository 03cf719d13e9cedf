//! The settings of streams.

use crate::config::GalateaConfig;
use galatea_flow::PAGE;

/// Threads of a block.
pub(super) const BLOCK_THREADS: u32 = 1024;

/// How a stream runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StreamSettings {
    /// Blocks of its kernel.
    pub(crate) blocks: u32,
    /// Bytes of a frame, whole pages.
    pub(crate) frame_bytes: usize,
    /// Groups of a window at most.
    pub(crate) groups: u64,
    /// Milliseconds that a row may be late.
    pub(crate) lateness: u64,
}

impl StreamSettings {
    /// Those in force.
    pub(crate) fn of(config: &GalateaConfig) -> Self {
        Self {
            blocks: config.stream_blocks.0 as u32,
            frame_bytes: (config.stream_frame.0 as usize).next_multiple_of(PAGE),
            groups: config.stream_groups.0,
            lateness: config.stream_lateness.0,
        }
    }
}
