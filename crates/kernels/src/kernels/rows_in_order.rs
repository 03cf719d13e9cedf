//! Checking whether rows are in the order of their keys.

use galatea_device::{
    DeviceError, DevicePointer, DeviceSlice, Geometry, In, InOut, Reference, Result, Stream, kernel_arguments,
};

use super::{BLOCK, same_length};
use crate::kernel::resident_kernel;
use crate::sort::KeyWidth;

/// Maximum number of key words.
pub const ORDER_WORDS: usize = 16;

kernel_arguments! {
    /// Arguments of `rows_in_order`.
    pub struct RowsInOrderArguments in "galatea/args/rows_in_order.h" {
        /// By row, key words, the most significant first.
        pub words: [u64; ORDER_WORDS],
        /// Bytes of each.
        pub widths: [u32; ORDER_WORDS],
        /// Rows.
        pub rows: u64,
        /// Set to 1 if a row follows one with a greater key.
        pub out_of_order: DevicePointer<u32>,
        /// Number of key words.
        pub key_words: u32,
        /// Unused.
        pub padding: u32,
    }
}

resident_kernel! {
    /// Checks whether rows are in the order of their keys.
    RowsInOrder, "rows_in_order", RowsInOrderArguments
}

impl RowsInOrder {
    /// Writes 1 to the one value of `out_of_order` if one of the first `rows` rows has a smaller key than the
    /// row before it; `words` are the keys, the most significant first.
    ///
    /// # Errors
    /// [`DeviceError::Range`] for more than [`ORDER_WORDS`] words, words of fewer keys than rows, or when
    /// `out_of_order` is not one value; the device's.
    pub fn launch(
        &self,
        stream: &Stream,
        words: &[(KeyWidth, DeviceSlice<'_, u8>)],
        rows: usize,
        out_of_order: InOut<'_, u32>,
    ) -> Result<()> {
        same_length("a flag", 1, out_of_order.len())?;
        let range = |what, needed: usize, len: usize| DeviceError::Range {
            what,
            start: 0,
            end: needed as u64,
            len: len as u64,
        };
        if words.len() > ORDER_WORDS {
            return Err(range("words of an order", words.len(), ORDER_WORDS));
        }
        let mut arguments = RowsInOrderArguments {
            words: [0; ORDER_WORDS],
            widths: [0; ORDER_WORDS],
            rows: rows as u64,
            out_of_order: out_of_order.pointer(),
            key_words: words.len() as u32,
            padding: 0,
        };
        let mut references: Vec<Reference> = vec![out_of_order.reference()];
        for (at, (width, keys)) in words.iter().enumerate() {
            let needed = width.bytes() * rows;
            if keys.len() < needed {
                return Err(range("keys of rows", needed, keys.len()));
            }
            arguments.words[at] = keys.address();
            arguments.widths[at] = width.bytes() as u32;
            references.push(In(*keys).reference());
        }
        let geometry = Geometry::grid_stride(rows as u64, BLOCK.into(), BLOCK, self.blocks);
        self.function.launch(stream, geometry, &arguments, &references)
    }
}
