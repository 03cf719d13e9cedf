//! Counting the entries of an array that were written.

use galatea_device::{DeviceError, DevicePointer, Geometry, In, InOut, Result, Stream, kernel_arguments};

use super::BLOCK;
use crate::kernel::resident_kernel;

kernel_arguments! {
    /// Arguments of `count_written`; the header describes each field.
    pub struct CountWrittenArguments in "galatea/args/count_written.h" {
        /// The entries.
        pub entries: DevicePointer<u8>,
        /// Bytes of all entries.
        pub bytes: u64,
        /// Bytes of an entry.
        pub width: u64,
        /// The byte that an unwritten entry consists of.
        pub byte: u64,
        /// The number of written entries is added to it.
        pub written: DevicePointer<u64>,
    }
}

resident_kernel! {
    /// Counts the entries of an array that differ from the fill value.
    CountWritten, "count_written", CountWrittenArguments
}

impl CountWritten {
    /// Adds the number of entries of `width` bytes with a byte that is not `byte` to the one value of
    /// `written`.
    ///
    /// # Errors
    /// [`DeviceError::Range`] when entries are not whole, of 1, 2, 4 or 8 bytes, or `written` is not one
    /// value; the device's.
    pub fn launch(
        &self,
        stream: &Stream,
        entries: In<'_, u8>,
        width: usize,
        byte: u8,
        written: InOut<'_, u64>,
    ) -> Result<()> {
        super::same_length("a counter", 1, written.len())?;
        let bytes = entries.len() as u64;
        if !matches!(width, 1 | 2 | 4 | 8) || !bytes.is_multiple_of(width as u64) {
            return Err(DeviceError::Range {
                what: "entries of an array",
                start: 0,
                end: width as u64,
                len: bytes,
            });
        }
        let arguments = CountWrittenArguments {
            entries: entries.pointer(),
            bytes,
            width: width as u64,
            byte: byte.into(),
            written: written.pointer(),
        };
        let geometry = Geometry::grid_stride(bytes.div_ceil(8), BLOCK.into(), BLOCK, self.blocks);
        let references = [entries.reference(), written.reference()];
        self.function.launch(stream, geometry, &arguments, &references)
    }
}
