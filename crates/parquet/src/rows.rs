//! Distributing decoded values from the slots of pages to rows.

use std::ops::Range;

use galatea_device::DeviceBuffer;
use galatea_kernels::{
    ParquetBounds, ParquetForm, ParquetOrder, ParquetPages, ParquetRowKind, ParquetRowsOutput,
};

use crate::batch::Part;
use crate::decode::{DecodedPages, Decoder};
use crate::error::{Problem, Result};
use crate::input::Input;
use crate::lane::Lane;
use crate::shape::ValueKind;
use crate::strings::DecodedStrings;

/// Bounds of the values of a column that are neither NULL nor NaN.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bounds {
    /// The least and the greatest integer; 0 and 1 for booleans.
    Integers(i128, i128),
    /// The least and the greatest float in total order.
    Floats(f64, f64),
}

/// The values of a column by row.
#[derive(Debug)]
pub enum DecodedValues {
    /// Values of a fixed size; 0 for NULL rows.
    Fixed {
        /// Type of the values.
        form: ParquetForm,
        /// The values, [`ParquetForm::width`] bytes each.
        values: DeviceBuffer<u8>,
        /// Their bounds; none if there are none.
        bounds: Option<Bounds>,
        /// Number of NaN.
        nans: u64,
    },
    /// Indices of a dictionary; 0 for NULL rows.
    Indices {
        /// The indices, 4 bytes each.
        indices: DeviceBuffer<u8>,
        /// The dictionaries of all column chunks, one after the other. A string may be in several of them.
        dictionary: DecodedStrings,
        /// Number of strings in the dictionary.
        dictionary_values: usize,
    },
    /// Strings.
    Strings(DecodedStrings),
}

/// A column of the rows of some row groups, on the device.
#[derive(Debug)]
pub struct DecodedColumn {
    /// Number of rows.
    pub rows: usize,
    /// Number of NULL rows.
    pub null_count: u64,
    /// One bit per row in words of 32, 1: not NULL; none if no row is NULL.
    pub validity: Option<DeviceBuffer<u32>>,
    /// The values.
    pub values: DecodedValues,
}

impl Decoder {
    /// Decodes the column chunks of one column, in the order of their rows. The lane may still be working
    /// when the function returns. Does not wait for the thread pool of the caller.
    ///
    /// # Errors
    /// Those of [`Self::decode_pages`] and [`Self::rows`].
    pub fn decode(&self, lane: &mut Lane, input: Input<'_>) -> Result<DecodedColumn> {
        let chunks = input.chunks.len();
        let pages = self.decode_pages(lane, input)?;
        self.rows(lane, &pages, 0..chunks)
    }

    /// The rows of some column chunks among decoded pages. The lane may still be working when the function
    /// returns.
    ///
    /// # Errors
    /// [`crate::ParquetError::Damaged`] for values that violate their type; the device's, among them too
    /// little memory.
    pub fn rows(&self, lane: &Lane, pages: &DecodedPages<'_>, chunks: Range<usize>) -> Result<DecodedColumn> {
        let DecodedPages {
            shape,
            batch,
            slots,
            nulls,
        } = pages;
        let part = batch.part(chunks);
        let null_count = nulls[part.pages.clone()]
            .iter()
            .map(|nulls| u64::from(*nulls))
            .sum();
        let (stream, rows) = (lane.stream(), part.rows.len());
        let alloc = |bytes: usize| self.device.alloc::<u8>(stream, bytes);
        let (kind, order, width) = match shape.kind {
            ValueKind::Fixed { form, order } => {
                (ParquetRowKind::Values(form.width() as u32), order, form.width())
            }
            ValueKind::Strings { .. } if batch.only_indices(&part.pages) && rows > 0 => {
                (ParquetRowKind::Indices, ParquetOrder::Unordered, size_of::<u32>())
            }
            ValueKind::Strings { .. } => (ParquetRowKind::Strings, ParquetOrder::Unordered, 0),
        };
        let located = if kind == ParquetRowKind::Strings { rows } else { 0 };
        let mut values = alloc(rows * width)?.assume_written();
        let mut starts = self.device.alloc::<u64>(stream, located)?.assume_written();
        let mut lengths = self.device.alloc::<u32>(stream, located)?.assume_written();
        let mut validity = match null_count {
            0 => None,
            _ => Some(
                self.device
                    .alloc::<u32>(stream, rows.div_ceil(32))?
                    .assume_written(),
            ),
        };
        let mut found = Vec::new();
        if rows > 0 {
            let mut bounds = self
                .device
                .alloc::<ParquetBounds>(stream, self.rows.bounds(rows))?
                .assume_written();
            let output = ParquetRowsOutput {
                values: &mut values,
                starts: &mut starts,
                lengths: &mut lengths,
                validity: validity.as_mut(),
                bounds: &mut bounds,
            };
            let from = ParquetPages {
                pages: part.pages.clone(),
                first_row: part.rows.start,
                rows,
                dictionary: part.dictionary.start,
            };
            self.rows.launch(stream, slots, from, (kind, order), output)?;
            if order != ParquetOrder::Unordered {
                found = stream.read(&bounds, ..)?;
            }
        }
        let copied = |starts, lengths| {
            let utf8 = shape.kind == ValueKind::Strings { utf8: true };
            let (strings, invalid) =
                self.copier
                    .copy(&self.device, stream, slots, (starts, lengths), utf8)?;
            match invalid {
                None => Ok(strings),
                Some(string) => {
                    Err(batch.chunks[part.chunks.start].damaged(None, 0, Problem::NotUtf8 { string }))
                }
            }
        };
        let values = match (kind, shape.kind) {
            (ParquetRowKind::Indices, _) => DecodedValues::Indices {
                indices: values,
                dictionary: copied(
                    slots.starts.slice(part.dictionary.clone())?,
                    slots.lengths.slice(part.dictionary.clone())?,
                )?,
                dictionary_values: part.dictionary.len(),
            },
            (_, ValueKind::Fixed { form, order }) => DecodedValues::Fixed {
                form,
                values,
                bounds: merged(&found, order),
                nans: found.iter().map(|bounds| bounds.nans).sum(),
            },
            _ => DecodedValues::Strings(copied(starts.as_slice(), lengths.as_slice())?),
        };
        let column = DecodedColumn {
            rows,
            null_count,
            validity,
            values,
        };
        check_limits(pages, &part, &column)?;
        Ok(column)
    }
}

/// The bounds of all blocks.
fn merged(found: &[ParquetBounds], order: ParquetOrder) -> Option<Bounds> {
    let key = |words: [u64; 2]| u128::from(words[0]) | u128::from(words[1]) << 64;
    let number = |key: u128| (key ^ 1 << 127) as i128;
    let least = found.iter().map(|bounds| key(bounds.least)).min()?;
    let greatest = found.iter().map(|bounds| key(bounds.greatest)).max()?;
    if least > greatest {
        return None;
    }
    let (least, greatest) = (number(least), number(greatest));
    let float = |number: i128| {
        let number = number as i32;
        f64::from(f32::from_bits(
            (if number < 0 { number ^ i32::MAX } else { number }) as u32,
        ))
    };
    let double = |number: i128| {
        let number = number as i64;
        f64::from_bits((if number < 0 { number ^ i64::MAX } else { number }) as u64)
    };
    Some(match order {
        ParquetOrder::Float32 => Bounds::Floats(float(least), float(greatest)),
        ParquetOrder::Float64 => Bounds::Floats(double(least), double(greatest)),
        _ => Bounds::Integers(least, greatest),
    })
}

/// Checks that integers of a narrow type are within its limits.
fn check_limits(pages: &DecodedPages<'_>, part: &Part, column: &DecodedColumn) -> Result<()> {
    let (Some((least, greatest)), DecodedValues::Fixed { bounds, .. }) = (pages.shape.limits, &column.values)
    else {
        return Ok(());
    };
    let Some(Bounds::Integers(low, high)) = *bounds else {
        return Ok(());
    };
    let out = [low, high]
        .into_iter()
        .find(|number| *number < least.into() || *number > greatest.into());
    out.map_or(Ok(()), |number| {
        let problem = Problem::OutOfRange {
            name: "integer",
            number: number as i64,
            least,
            greatest,
        };
        Err(pages.batch.chunks[part.chunks.start].damaged(None, 0, problem))
    })
}
