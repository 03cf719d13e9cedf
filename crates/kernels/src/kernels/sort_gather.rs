//! Copying values in the order of a sort.

use galatea_device::{DeviceError, DevicePointer, Geometry, In, Out, Result, Stream, kernel_arguments};

use super::{BLOCK, same_length};
use crate::kernel::resident_kernel;

kernel_arguments! {
    /// Arguments of `sort_gather`.
    pub struct SortGatherArguments in "galatea/args/sort_gather.h" {
        /// Values.
        pub values: DevicePointer<u8>,
        /// Indices of the wanted values.
        pub ids: DevicePointer<u32>,
        /// Receives the values.
        pub gathered: DevicePointer<u8>,
        /// Number of ids.
        pub rows: u64,
        /// Bytes of a value.
        pub width: u64,
    }
}

resident_kernel! {
    /// Copies values by their ids.
    SortGather, "sort_gather", SortGatherArguments
}

impl SortGather {
    /// Widths of values, in bytes.
    pub const WIDTHS: [usize; 4] = [1, 4, 8, 16];

    /// Writes value `ids[i]` to `gathered[i]`; values are `width` bytes. Every id must be the index of a
    /// value.
    ///
    /// # Errors
    /// [`DeviceError::Range`] for another width than [`Self::WIDTHS`], and when the number of values of
    /// `gathered` is not that of the ids; the device's.
    pub fn launch(
        &self,
        stream: &Stream,
        values: In<'_, u8>,
        ids: In<'_, u32>,
        width: usize,
        gathered: Out<'_, u8>,
    ) -> Result<()> {
        if !Self::WIDTHS.contains(&width) {
            return Err(DeviceError::Range {
                what: "bytes of a gathered value",
                start: 0,
                end: width as u64,
                len: 16,
            });
        }
        same_length("gathered values", ids.len() * width, gathered.len())?;
        if ids.is_empty() {
            return Ok(());
        }
        let arguments = SortGatherArguments {
            values: values.pointer(),
            ids: ids.pointer(),
            gathered: gathered.pointer(),
            rows: ids.len() as u64,
            width: width as u64,
        };
        let geometry = Geometry::grid_stride(arguments.rows, BLOCK.into(), BLOCK, self.blocks);
        let references = [values.reference(), ids.reference(), gathered.reference()];
        self.function.launch(stream, geometry, &arguments, &references)
    }
}
