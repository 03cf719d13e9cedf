//! Launches of kernels that repeat one operation, to measure it.

use galatea_device::{DeviceError, Geometry, Result};

const LANES: u64 = 32;
/// Maximum number of updates of a block: each adds up to 2, possibly all of them to one 32-bit word.
const MOST: u64 = 1 << 29;

/// Number of repetitions of an operation, and of the threads that perform it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repetition {
    /// Blocks.
    pub blocks: u64,
    /// Threads of a block, whole warps.
    pub threads: u64,
    /// Repetitions per thread.
    pub updates: u64,
}

impl Repetition {
    /// Total number of operations of warps.
    #[must_use]
    pub fn accesses(self) -> u64 {
        self.lanes() / LANES
    }

    /// Total number of operations of lanes.
    #[must_use]
    pub fn lanes(self) -> u64 {
        self.blocks * self.threads * self.updates
    }

    /// The geometry of a launch with a result of `len` words, at least one.
    pub(super) fn geometry(self, len: usize) -> Result<Geometry> {
        let refused = |what, asked, most| {
            Err(DeviceError::Range {
                what,
                start: 0,
                end: asked,
                len: most,
            })
        };
        let by_block = self.threads.saturating_mul(self.updates);
        if self.threads == 0 || !self.threads.is_multiple_of(LANES) {
            refused(
                "threads in whole warps",
                self.threads,
                self.threads / LANES * LANES,
            )
        } else if by_block > MOST {
            refused("updates of a block", by_block, MOST)
        } else if len == 0 {
            refused("words of a result", 1, 0)
        } else {
            Ok(Geometry::new(self.blocks, self.threads))
        }
    }
}

/// Rejects numbers that are not a power of two up to `most`.
pub(super) fn power_of_two(what: &'static str, number: u64, most: u64) -> Result<()> {
    if number.is_power_of_two() && number <= most {
        return Ok(());
    }
    Err(DeviceError::Range {
        what,
        start: 0,
        end: number,
        len: number.checked_ilog2().map_or(1, |bits| 1 << bits).min(most),
    })
}
