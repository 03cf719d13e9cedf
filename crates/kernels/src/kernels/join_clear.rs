//! Setting all words of a join's hash table by address.

use galatea_device::{DevicePointer, Geometry, Result, Stream, kernel_arguments};

use super::{BLOCK, JoinTable};
use crate::kernel::resident_kernel;

kernel_arguments! {
    /// Arguments of `join_clear`; the header describes each field.
    pub struct JoinClearArguments in "galatea/args/join_clear.h" {
        /// The words to set.
        pub words: DevicePointer<u64>,
        /// Number of words.
        pub count: u64,
        /// Their value.
        pub value: u64,
    }
}

resident_kernel! {
    /// Sets all words of memory.
    JoinClear, "join_clear", JoinClearArguments
}

impl JoinClear {
    /// Queues the removal of all entries of a table: all words become all ones. The size of its memory is a
    /// multiple of 16 bytes, at least that of the table.
    ///
    /// # Errors
    /// The device's.
    pub fn launch(&self, stream: &Stream, table: &JoinTable) -> Result<()> {
        let arguments = JoinClearArguments {
            words: DevicePointer::new(table.address),
            count: table.bytes().next_multiple_of(16) / 8,
            value: u64::MAX,
        };
        let geometry = Geometry::grid_stride(arguments.count / 2, u64::from(BLOCK), BLOCK, self.blocks);
        self.function.launch(stream, geometry, &arguments, &[])
    }
}
