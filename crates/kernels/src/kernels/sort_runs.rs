//! Completing a sort by upper bits.

use galatea_device::{DeviceError, DevicePointer, Geometry, In, InOut, Result, Stream, kernel_arguments};

use super::{BLOCK, same_length};
use crate::kernel::resident_kernel;
use crate::sort::KeyWidth;

kernel_arguments! {
    /// Arguments of `sort_runs`.
    pub struct SortRunsArguments in "galatea/args/sort_runs.h" {
        /// Keys in the order of their upper bits.
        pub keys: DevicePointer<u64>,
        /// Their ids, or null.
        pub ids: DevicePointer<u32>,
        /// A copy of the keys, or null.
        pub sorted: DevicePointer<u64>,
        /// Set to 1 if a run is too long.
        pub unsorted: DevicePointer<u32>,
        /// Number of keys.
        pub rows: u64,
        /// Lowest bit that the keys are already sorted by.
        pub shift: u64,
    }
}

resident_kernel! {
    /// Sorts runs of keys that are in order by their upper bits by the lower bits, too.
    SortRuns, "sort_runs", SortRunsArguments
}

/// The output that is sorted within runs.
#[derive(Debug)]
pub enum RunParts<'a> {
    /// Their ids.
    Ids(InOut<'a, u32>),
    /// A copy of the keys.
    Keys(InOut<'a, u8>),
}

impl SortRuns {
    /// Length of the longest run that is sorted.
    pub const LONGEST: u64 = 32;

    /// Sorts ids or a copy of keys by whole keys: `keys`, of 64 bits, are in order by their bits from `shift`
    /// on, and are not moved. The order of equal keys is kept. If more than [`Self::LONGEST`] keys with the
    /// same upper bits are not in order, they are unchanged, and `unsorted` becomes 1.
    ///
    /// # Errors
    /// [`DeviceError::Range`] for inconsistent lengths and for a `shift` that is not below 64; the device's.
    pub fn launch(
        &self,
        stream: &Stream,
        keys: In<'_, u8>,
        shift: u32,
        parts: RunParts<'_>,
        unsorted: InOut<'_, u32>,
    ) -> Result<()> {
        let rows = KeyWidth::Eight.rows(keys.len())?;
        same_length("a flag of unsorted runs", 1, unsorted.len())?;
        if shift >= u64::BITS {
            return Err(DeviceError::Range {
                what: "bits of a key",
                start: 0,
                end: shift.into(),
                len: u64::BITS.into(),
            });
        }
        let mut arguments = SortRunsArguments {
            keys: DevicePointer::new(keys.pointer().address()),
            ids: DevicePointer::NULL,
            sorted: DevicePointer::NULL,
            unsorted: unsorted.pointer(),
            rows,
            shift: shift.into(),
        };
        let mut references = vec![keys.reference(), unsorted.reference()];
        match &parts {
            RunParts::Ids(ids) => {
                same_length("ids of runs", rows as usize, ids.len())?;
                arguments.ids = ids.pointer();
                references.push(ids.reference());
            }
            RunParts::Keys(sorted) => {
                same_length("keys of runs", keys.len(), sorted.len())?;
                arguments.sorted = DevicePointer::new(sorted.pointer().address());
                references.push(sorted.reference());
            }
        }
        if rows == 0 {
            return Ok(());
        }
        let geometry = Geometry::grid_stride(rows.div_ceil(2), BLOCK.into(), BLOCK, self.blocks);
        self.function.launch(stream, geometry, &arguments, &references)
    }
}
