//! Launches of kernels that repeat one operation, to measure it.

use galatea_device::{DeviceError, Geometry, Result};

const LANES: u64 = 32;
/// Updates of a block at most: each adds up to 2, all of them perhaps to one 32-bit word.
const MOST: u64 = 1 << 29;

/// How often an operation is done, and by how many threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repetition {
    /// Blocks.
    pub blocks: u64,
    /// Threads of a block, whole warps.
    pub threads: u64,
    /// How often each thread does it.
    pub updates: u64,
}

impl Repetition {
    /// Operations of warps, all together.
    #[must_use]
    pub fn accesses(self) -> u64 {
        self.lanes() / LANES
    }

    /// Operations of lanes, all together.
    #[must_use]
    pub fn lanes(self) -> u64 {
        self.blocks * self.threads * self.updates
    }

    /// The launch, whose result has `len` words, at least one.
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

/// Refuses numbers that are no power of two up to `most`.
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
