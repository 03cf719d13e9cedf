//! Multimap of the rows of each key.

use galatea_device::{DevicePointer, Geometry, In, Out, Result, Stream, kernel_arguments};

use super::{BLOCK, same_length};
use crate::kernel::resident_kernel;

kernel_arguments! {
    /// Arguments of `list_rows`.
    pub struct ListRowsArguments in "galatea/args/list_rows.h" {
        /// By row: the index of its key, `u32::MAX` for none.
        pub slots: DevicePointer<u32>,
        /// By row: its rank among the rows of its key.
        pub ranks: DevicePointer<u32>,
        /// By index: start of the rows of the key.
        pub starts: DevicePointer<u32>,
        /// The rows of each key, contiguous.
        pub lists: DevicePointer<u32>,
        /// Rows.
        pub count: u64,
    }
}

resident_kernel! {
    /// Groups row numbers by key.
    ListRows, "list_rows", ListRowsArguments
}

impl ListRows {
    /// Writes row `r` to `lists[starts[slots[r]] + ranks[r]]`, unless its slot is `u32::MAX`.
    ///
    /// # Errors
    /// [`galatea_device::DeviceError::Range`] when slots, ranks and lists differ in length; the device's.
    pub fn launch(
        &self,
        stream: &Stream,
        slots: In<'_, u32>,
        ranks: In<'_, u32>,
        starts: In<'_, u32>,
        lists: Out<'_, u32>,
    ) -> Result<()> {
        same_length("ranks of rows", slots.len(), ranks.len())?;
        same_length("listed rows", slots.len(), lists.len())?;
        let arguments = ListRowsArguments {
            slots: slots.pointer(),
            ranks: ranks.pointer(),
            starts: starts.pointer(),
            lists: lists.pointer(),
            count: slots.len() as u64,
        };
        let geometry = Geometry::grid_stride(slots.len() as u64, BLOCK.into(), BLOCK, self.blocks);
        let references = [
            slots.reference(),
            ranks.reference(),
            starts.reference(),
            lists.reference(),
        ];
        self.function.launch(stream, geometry, &arguments, &references)
    }
}
