//! Replacing positions of strings in keys by their ranks.

use galatea_device::{DeviceError, DevicePointer, Geometry, In, InOut, Result, Stream, kernel_arguments};

use super::{BLOCK, same_length};
use crate::kernel::resident_kernel;
use crate::sort::KeyWidth;

/// Bits of the field of a position.
pub const PLACE_FIELD_BITS: u32 = 31;

kernel_arguments! {
    /// Arguments of `rank_keys`.
    pub struct RankKeysArguments in "galatea/args/rank_keys.h" {
        /// By row: the word of its key that contains the last bit of the position.
        pub low: DevicePointer<u8>,
        /// By row: the preceding word, which contains the first bits, or null.
        pub high: DevicePointer<u8>,
        /// By position: the rank.
        pub ranks: DevicePointer<u32>,
        /// Strings.
        pub texts: u64,
        /// Rows.
        pub rows: u64,
        /// Position of the last bit in the lower word.
        pub bit: u32,
        /// Bytes of that word.
        pub low_bytes: u32,
        /// Bytes of the word before it.
        pub high_bytes: u32,
        /// 1: positions are complemented, and ranks count from the last string.
        pub descending: u32,
    }
}

resident_kernel! {
    /// Replaces positions of strings in keys by their ranks.
    RankKeys, "rank_keys", RankKeysArguments
}

/// The position of a string in the keys of rows: a field of [`PLACE_FIELD_BITS`] bits, 0 if the string is
/// NULL.
#[derive(Debug)]
pub struct PlaceField<'a> {
    /// By row: the word that contains the last bit of the field.
    pub low: (KeyWidth, InOut<'a, u8>),
    /// The word before it, if the field begins there.
    pub high: Option<(KeyWidth, InOut<'a, u8>)>,
    /// Position of the last bit in the lower word.
    pub bit: u32,
    /// Whether the greatest string is first: the field is the complement of the position.
    pub descending: bool,
}

impl PlaceField<'_> {
    /// Whether a field with its last bit at `bit` begins in the preceding word.
    #[must_use]
    pub fn begins_before(bit: u32) -> bool {
        bit + PLACE_FIELD_BITS > u64::BITS
    }
}

impl RankKeys {
    /// Replaces the field of `rows` keys, the position of a string, by the rank of the string, from 1 on; if
    /// the greatest string is first, ranks count from the last of the `texts`. `ranks` has a rank for each
    /// position.
    ///
    /// # Errors
    /// [`DeviceError::Range`] when a word does not have `rows` keys, or the field does not fit them; the
    /// device's.
    pub fn launch(
        &self,
        stream: &Stream,
        field: PlaceField<'_>,
        ranks: In<'_, u32>,
        texts: u64,
        rows: usize,
    ) -> Result<()> {
        let mut references = vec![ranks.reference()];
        for (width, keys) in std::iter::once(&field.low).chain(&field.high) {
            same_length("keys with addresses of strings", width.bytes() * rows, keys.len())?;
            references.push(keys.reference());
        }
        let widths = field
            .high
            .iter()
            .chain([&field.low])
            .map(|(width, _)| 8 * width.bytes() as u64);
        let end = u64::from(field.bit + PLACE_FIELD_BITS);
        let bits = widths.sum();
        if end > bits {
            return Err(DeviceError::Range {
                what: "the field of a place",
                start: field.bit.into(),
                end,
                len: bits,
            });
        }
        let (width, low) = field.low;
        let arguments = RankKeysArguments {
            low: low.pointer(),
            high: (field.high.as_ref()).map_or(DevicePointer::NULL, |(_, high)| high.pointer()),
            ranks: ranks.pointer(),
            texts,
            rows: rows as u64,
            bit: field.bit,
            low_bytes: width.bytes() as u32,
            high_bytes: field.high.as_ref().map_or(0, |(width, _)| width.bytes() as u32),
            descending: field.descending.into(),
        };
        let geometry = Geometry::grid_stride(rows as u64, BLOCK.into(), BLOCK, self.blocks);
        self.function.launch(stream, geometry, &arguments, &references)
    }
}
