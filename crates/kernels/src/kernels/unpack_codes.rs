//! Unpacking the codes of a chunk.

use galatea_device::{DeviceError, Geometry, In, Out, Reference, Result, Stream, kernel_arguments};

use super::BLOCK;
use crate::kernel::resident_kernel;

/// Maximum number of columns of a launch.
pub const UNPACK_COLUMNS: usize = 16;

/// Codes of a block.
pub const PACKED_BLOCK_CODES: usize = 512;

kernel_arguments! {
    /// Arguments of `unpack_codes`; the header describes each field.
    pub struct UnpackCodesArguments in "galatea/args/unpack_codes.h" {
        /// Packed codes of each column.
        pub packed: [u64; UNPACK_COLUMNS],
        /// Destination of the codes of each column.
        pub codes: [u64; UNPACK_COLUMNS],
        /// Number of codes of each column.
        pub rows: u64,
        /// Bytes of a code.
        pub widths: [u32; UNPACK_COLUMNS],
        /// Number of columns.
        pub columns: u32,
        /// Unused.
        pub padding: u32,
    }
}

resident_kernel! {
    /// Unpacks codes of columns, one warp per block of codes.
    UnpackCodes, "unpack_codes", UnpackCodesArguments
}

/// A column to unpack, as parts of two buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PackedColumn {
    /// Start of its packed codes in their buffer, a multiple of 16 bytes.
    pub packed: u64,
    /// Number of bytes of packed codes.
    pub packed_bytes: u64,
    /// Start of its codes in their buffer, a multiple of 16 bytes.
    pub codes: u64,
    /// Bytes of a code: 1, 2, 4 or 8.
    pub width: u32,
}

impl UnpackCodes {
    /// Queues unpacking `rows` codes of each column from `packed` to `codes`. `packed` must be in the store's
    /// packed format; all of the last 16 bytes that hold codes of a column are written.
    ///
    /// # Errors
    /// [`DeviceError::Range`] for a column that is not within the buffers, or not at a multiple of 16 bytes;
    /// the device's.
    pub fn launch(
        &self,
        stream: &Stream,
        packed: In<'_, u8>,
        codes: Out<'_, u8>,
        rows: u64,
        columns: &[PackedColumn],
    ) -> Result<()> {
        let references: [Reference<'_>; 2] = [packed.reference(), codes.reference()];
        let (from, to) = (packed.pointer().address(), codes.pointer().address());
        for column in columns {
            let unpacked = rows.saturating_mul(column.width.into()).next_multiple_of(16);
            within(
                "packed codes of a column",
                column.packed,
                column.packed_bytes,
                packed.len(),
            )?;
            within("codes of a column", column.codes, unpacked, codes.len())?;
        }
        for columns in columns.chunks(UNPACK_COLUMNS) {
            let mut arguments = UnpackCodesArguments {
                packed: [0; UNPACK_COLUMNS],
                codes: [0; UNPACK_COLUMNS],
                rows,
                widths: [0; UNPACK_COLUMNS],
                columns: columns.len() as u32,
                padding: 0,
            };
            for (at, column) in columns.iter().enumerate() {
                arguments.packed[at] = from + column.packed;
                arguments.codes[at] = to + column.codes;
                arguments.widths[at] = column.width;
            }
            let blocks = rows.div_ceil(PACKED_BLOCK_CODES as u64) * columns.len() as u64;
            let geometry = Geometry::grid_stride(blocks, u64::from(BLOCK / 32), BLOCK, self.blocks);
            self.function.launch(stream, geometry, &arguments, &references)?;
        }
        Ok(())
    }
}

/// Rejects a part that is not within a buffer of `len` bytes, or does not begin at a multiple of 16 bytes.
fn within(what: &'static str, start: u64, bytes: u64, len: usize) -> Result<()> {
    let end = start.saturating_add(bytes);
    if end <= len as u64 && start.is_multiple_of(16) {
        return Ok(());
    }
    Err(DeviceError::Range {
        what,
        start,
        end,
        len: len as u64,
    })
}
