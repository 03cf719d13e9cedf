//! Summing the replicated accumulators of dense groups.

use galatea_device::{DevicePointer, Geometry, In, InOut, Result, Stream, kernel_arguments};

use super::{BLOCK, same_length};
use crate::kernel::resident_kernel;

kernel_arguments! {
    /// Arguments of `dense_fold`.
    pub struct DenseFoldArguments in "galatea/args/dense_fold.h" {
        /// `[copy][group][word]`.
        pub groups: DevicePointer<u64>,
        /// By word: how it is merged.
        pub merges: DevicePointer<u8>,
        /// Groups.
        pub count: u64,
        /// Words of a group.
        pub words: u32,
        /// Copies of each group.
        pub copies: u32,
    }
}

resident_kernel! {
    /// Adds the replicated accumulators of dense groups to the first copy.
    DenseFold, "dense_fold", DenseFoldArguments
}

impl DenseFold {
    /// Adds copies 1 and up of `count` groups to copy 0; `groups` is `[copy][group][word]`, and `merges` has
    /// a [`MergeWord`](crate::MergeWord) for each word of a group.
    ///
    /// # Errors
    /// [`galatea_device::DeviceError::Range`] when `groups` does not consist of whole copies; the device's.
    pub fn launch(
        &self,
        stream: &Stream,
        groups: InOut<'_, u64>,
        merges: In<'_, u8>,
        count: u64,
    ) -> Result<()> {
        let copy = count as usize * merges.len();
        let copies = groups.len() / copy.max(1);
        same_length("words of whole copies of the groups", copies * copy, groups.len())?;
        let arguments = DenseFoldArguments {
            groups: groups.pointer(),
            merges: merges.pointer(),
            count,
            words: merges.len() as u32,
            copies: copies as u32,
        };
        let rest = count * (copies as u64).saturating_sub(1);
        let geometry = Geometry::grid_stride(rest, BLOCK.into(), BLOCK, self.blocks);
        let references = [groups.reference(), merges.reference()];
        self.function.launch(stream, geometry, &arguments, &references)
    }
}
