//! Matches of rows in the slices of the other side of a join.

use galatea_device::{
    DeviceError, DevicePointer, Geometry, In, InOut, Out, Result, Stream, kernel_arguments,
};

use super::{BLOCK, same_length};
use crate::kernel::resident_kernel;

kernel_arguments! {
    /// Arguments of `merge_marks`; the header describes each field.
    pub struct MergeMarksArguments in "galatea/args/merge_marks.h" {
        /// By position, the number of the row: 64-bit integers.
        pub rows: DevicePointer<u8>,
        /// The matches of this slice.
        pub matches: DevicePointer<u32>,
        /// By number of the row, a bit: whether an earlier slice had a match.
        pub seen: DevicePointer<u32>,
        /// By position, a bit: whether the row is chosen.
        pub chosen: DevicePointer<u32>,
        /// Positions.
        pub count: u64,
        /// Bits of `seen`.
        pub bits: u64,
        /// 1: `matches` has the starts of lists.
        pub lists: u32,
        /// 1: rows with their first match are chosen.
        pub matched: u32,
        /// 1: rows without any match so far are chosen.
        pub unmatched: u32,
        /// Padding.
        pub unused: u32,
    }
}

resident_kernel! {
    /// Merges the matches of rows in one slice with those in earlier slices.
    MergeMarks, "merge_marks", MergeMarksArguments
}

/// The matches of the rows of a slice.
#[derive(Debug)]
pub enum SliceMatches<'a> {
    /// A bit by position: whether the row has a match.
    Bits(In<'a, u32>),
    /// By position the start of the list of matches, `u32::MAX` without a match.
    Lists(In<'a, u32>),
}

/// The rows that [`MergeMarks`] chooses, among those without a match in an earlier slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChosenRows {
    /// Rows with a match in this slice.
    pub matched: bool,
    /// Rows without a match in this slice.
    pub unmatched: bool,
}

impl MergeMarks {
    /// Chooses rows of a slice, and adds its matches to `seen`, the bits by row number. `rows` has the row
    /// number of each position, in 8 bytes; a row without a bit in `seen` has no earlier match. `chosen` gets
    /// a bit for each position.
    ///
    /// # Errors
    /// [`DeviceError::Range`] if the lengths of `rows`, the matches and `chosen` differ; the device's.
    pub fn launch(
        &self,
        stream: &Stream,
        (rows, matches): (In<'_, u8>, SliceMatches<'_>),
        seen: InOut<'_, u32>,
        chosen: Out<'_, u32>,
        choice: ChosenRows,
    ) -> Result<()> {
        let bytes = rows.len() as u64;
        let count = bytes / 8;
        if !bytes.is_multiple_of(8) {
            return Err(DeviceError::Range {
                what: "numbers of rows",
                start: 0,
                end: 8,
                len: bytes,
            });
        }
        let words = count.div_ceil(32) as usize;
        let (matches, lists) = match matches {
            SliceMatches::Bits(bits) => (bits, false),
            SliceMatches::Lists(starts) => (starts, true),
        };
        let expected = if lists { count as usize } else { words };
        same_length("matches of rows", expected, matches.len())?;
        same_length("bits of chosen rows", words, chosen.len())?;
        let arguments = MergeMarksArguments {
            rows: rows.pointer(),
            matches: matches.pointer(),
            seen: seen.pointer(),
            chosen: chosen.pointer(),
            count,
            bits: 32 * seen.len() as u64,
            lists: lists.into(),
            matched: choice.matched.into(),
            unmatched: choice.unmatched.into(),
            unused: 0,
        };
        let geometry = Geometry::grid_stride(count, BLOCK.into(), BLOCK, self.blocks);
        let references = [
            rows.reference(),
            matches.reference(),
            seen.reference(),
            chosen.reference(),
        ];
        self.function.launch(stream, geometry, &arguments, &references)
    }
}
