//! Finding the beginnings of partitions and peer groups of a window.

use galatea_device::{
    DeviceError, DevicePointer, DeviceSlice, Geometry, In, Out, Reference, Result, Stream, kernel_arguments,
};

use super::{BLOCK, same_length};
use crate::kernel::resident_kernel;
use crate::sort::KeyWidth;

/// Maximum number of key words.
pub const WINDOW_KEYS: usize = 16;

kernel_arguments! {
    /// Arguments of `window_bounds`.
    pub struct WindowBoundsArguments in "galatea/args/window_bounds.h" {
        /// By position: the row, or null.
        pub ids: DevicePointer<u32>,
        /// By position: 1 if a partition begins.
        pub partitions: DevicePointer<u32>,
        /// By position: 1 if a peer group begins.
        pub peers: DevicePointer<u32>,
        /// Number of positions.
        pub rows: u64,
        /// By row, key words: those of PARTITION BY, then those of ORDER BY.
        pub words: [u64; WINDOW_KEYS],
        /// Bytes of each.
        pub widths: [u32; WINDOW_KEYS],
        /// Number of key words of PARTITION BY.
        pub partition_words: u32,
        /// Number of key words.
        pub key_words: u32,
    }
}

resident_kernel! {
    /// Marks the positions of an order at which partitions and peer groups begin.
    WindowBounds, "window_bounds", WindowBoundsArguments
}

/// The key words of rows; the first ones are those of PARTITION BY.
#[derive(Debug)]
pub struct WindowKeys<'a> {
    /// The words, and their widths.
    pub words: Vec<(KeyWidth, DeviceSlice<'a, u8>)>,
    /// Number of key words of PARTITION BY.
    pub partition_words: usize,
}

impl WindowBounds {
    /// Writes 1 to the positions of `partitions` and `peers` at which one begins and 0 to the others; `ids`
    /// are the rows in order, or `None` if they are in order already. Every id must be the number of a row.
    ///
    /// # Errors
    /// [`DeviceError::Range`] for more than [`WINDOW_KEYS`] words, words of fewer keys than positions, and
    /// when partitions, peers and ids differ in length; the device's.
    pub fn launch(
        &self,
        stream: &Stream,
        keys: &WindowKeys<'_>,
        ids: Option<In<'_, u32>>,
        partitions: Out<'_, u32>,
        peers: Out<'_, u32>,
    ) -> Result<()> {
        let rows = partitions.len();
        same_length("places where peers begin", rows, peers.len())?;
        if let Some(ids) = &ids {
            same_length("rows in order", rows, ids.len())?;
        }
        if keys.words.len() > WINDOW_KEYS {
            return Err(DeviceError::Range {
                what: "key words of a window",
                start: 0,
                end: keys.words.len() as u64,
                len: WINDOW_KEYS as u64,
            });
        }
        let (mut words, mut widths) = ([0; WINDOW_KEYS], [0; WINDOW_KEYS]);
        let mut references: Vec<Reference<'_>> = vec![partitions.reference(), peers.reference()];
        for (number, (width, word)) in keys.words.iter().enumerate() {
            same_length("keys of a window", rows * width.bytes(), word.len())?;
            (words[number], widths[number]) = (word.address(), width.bytes() as u32);
            references.push(In(*word).reference());
        }
        references.extend(ids.as_ref().map(In::reference));
        let arguments = WindowBoundsArguments {
            ids: ids.as_ref().map_or(DevicePointer::NULL, In::pointer),
            partitions: partitions.pointer(),
            peers: peers.pointer(),
            rows: rows as u64,
            words,
            widths,
            partition_words: keys.partition_words as u32,
            key_words: keys.words.len() as u32,
        };
        let geometry = Geometry::grid_stride(rows as u64, BLOCK.into(), BLOCK, self.blocks);
        self.function.launch(stream, geometry, &arguments, &references)
    }
}
