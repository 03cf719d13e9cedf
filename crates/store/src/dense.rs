//! The rows of a column as dense codes: input of layouts and of the conflict analysis.

use arrow::array::Array;
use galatea_device::HostView;
use rayon::prelude::*;

use crate::column::{Chunk, Column, Encoding, Scalar, ScalarRange, Width};
use crate::encode::greatest_common_divisor;
use crate::layout::{CodeMeaning, ConflictLayout, DenseCodes, NoLayout, SLOT_BYTES, SlotLayout, TABLE_BYTES};

/// A column of consecutive codes from 0.
#[derive(Debug, Clone)]
pub struct DenseColumn<'a> {
    column: &'a Column,
    width: Width,
    /// Number of possible codes, that of NULL included.
    pub values: usize,
    /// The code of NULL rows, which is the last one; none without NULL rows.
    pub null: Option<u32>,
    /// The meaning of the other codes.
    pub meaning: CodeMeaning,
}

impl<'a> DenseColumn<'a> {
    /// Maximum number of codes: the number of slots of the largest table.
    pub const LIMIT: u64 = TABLE_BYTES / SLOT_BYTES as u64;

    /// The column as codes: dictionary ranks, or integers counted from the minimum in steps of their common
    /// divisor.
    ///
    /// # Errors
    /// [`NoLayout::Empty`] without rows, [`NoLayout::Encoding`] for floats, booleans, wide decimals and plain
    /// strings, [`NoLayout::TooManyValues`] beyond [`Self::LIMIT`].
    pub fn of(column: &'a Column) -> Result<Self, NoLayout> {
        if column.chunks.is_empty() {
            return Err(NoLayout::Empty);
        }
        let (width, codes, meaning) = match &column.encoding {
            Encoding::Dictionary { width, values } => {
                let values = values.clone();
                (*width, values.len() as u128, CodeMeaning::Dictionary { values })
            }
            Encoding::Integer { width, factor } => {
                let (codes, meaning) = of_integers(column, *width, *factor)?;
                (*width, codes, meaning)
            }
            Encoding::Slots { width, layout } => (*width, u128::from(layout.codes()), layout.meaning.clone()),
            Encoding::Boolean => return Err(NoLayout::Encoding("booleans have no codes")),
            Encoding::Float32 | Encoding::Float64 => {
                return Err(NoLayout::Encoding("floats have no codes"));
            }
            Encoding::Decimal128 => {
                return Err(NoLayout::Encoding("decimals beyond 64 bits have no codes"));
            }
            Encoding::Text { .. } => {
                let reason = "its strings repeat too rarely for a dictionary";
                return Err(NoLayout::Encoding(reason));
            }
        };
        let nulls = column.null_count > 0;
        let values = codes + u128::from(nulls);
        if values > u128::from(Self::LIMIT) {
            return Err(NoLayout::TooManyValues {
                values,
                limit: Self::LIMIT,
            });
        }
        Ok(Self {
            column,
            width,
            values: values as usize,
            null: nulls.then_some(codes as u32),
            meaning,
        })
    }

    /// Rows of each chunk.
    pub fn chunk_rows(&self) -> Vec<u32> {
        self.column.chunks.iter().map(|chunk| chunk.rows).collect()
    }

    /// The code of each row, of all chunks in order.
    pub fn codes(&self) -> Vec<u32> {
        match (&self.column.encoding, &self.meaning) {
            (Encoding::Slots { layout, .. }, _) => {
                let of_slot = layout.slot_codes();
                self.collect(|_, slot| of_slot[slot as usize])
            }
            (Encoding::Integer { factor, .. }, CodeMeaning::Integer { base, factor: step }) => {
                self.collect(|chunk, code| (above(chunk, code, *factor, *base) / step) as u32)
            }
            _ => self.collect(|_, code| code as u32),
        }
    }

    /// The layout of the column, and the slots of its rows.
    pub(crate) fn laid_out(self, requested: ConflictLayout) -> Result<(SlotLayout, Vec<u32>), NoLayout> {
        let dense = DenseCodes {
            codes: self.codes(),
            chunk_rows: self.chunk_rows(),
            values: self.values,
            null: self.null,
            meaning: self.meaning,
        };
        SlotLayout::new(dense, requested)
    }

    /// The codes of all rows. `code` maps a stored code of a chunk to the dense code.
    fn collect(&self, code: impl Fn(&Chunk, u64) -> u32 + Sync) -> Vec<u32> {
        let mut codes = vec![0; self.column.rows() as usize];
        let mut rest = codes.as_mut_slice();
        let mut parts = Vec::with_capacity(self.column.chunks.len());
        for chunk in &self.column.chunks {
            let (part, after) = std::mem::take(&mut rest).split_at_mut(chunk.rows as usize);
            parts.push((chunk, part));
            rest = after;
        }
        let null = self.null.unwrap_or(0);
        parts.into_par_iter().for_each(|(chunk, part)| {
            for_each_row(chunk, self.width, |row, stored| {
                part[row] = stored.map_or(null, |stored| code(chunk, stored));
            });
        });
        codes
    }
}

/// Number and meaning of the codes of an integer column, counted from its minimum.
fn of_integers(column: &Column, width: Width, factor: u64) -> Result<(u128, CodeMeaning), NoLayout> {
    let Some(ScalarRange {
        min: Scalar::Integer(min),
        max: Scalar::Integer(max),
        ..
    }) = column.range
    else {
        return Ok((0, CodeMeaning::Integer { base: 0, factor: 1 }));
    };
    let no_base = |_| NoLayout::Encoding("its integers are all beyond 63 bits");
    let base = i64::try_from(min).map_err(no_base)?;
    let step = column.chunks.par_iter().map(|chunk| {
        let mut step = 0;
        for_each_row(chunk, width, |_, stored| {
            if let Some(stored) = stored
                && step != 1
            {
                step = greatest_common_divisor(above(chunk, stored, factor, base), step);
            }
        });
        step
    });
    let step = step.reduce(|| 0, greatest_common_divisor).max(1);
    let codes = (max - min) as u128 / u128::from(step) + 1;
    Ok((codes, CodeMeaning::Integer { base, factor: step }))
}

/// Distance of the integer of a stored code from the column's minimum; less than 2^64 (see
/// [`crate::column`]).
fn above(chunk: &Chunk, code: u64, factor: u64, base: i64) -> u64 {
    (chunk.base as u64)
        .wrapping_add(code.wrapping_mul(factor))
        .wrapping_sub(base as u64)
}

/// Calls `visit` with each row of a chunk and its stored code, `None` for NULL rows.
#[inline(always)]
fn for_each_row(chunk: &Chunk, width: Width, mut visit: impl FnMut(usize, Option<u64>)) {
    let validity = chunk.validity.as_ref().map(HostView::as_slice);
    let rows = 0..chunk.rows as usize;
    chunk.data.for_each_code(width, rows, |row, code| {
        let valid = validity.is_none_or(|bits| bits[row / 8] >> (row % 8) & 1 == 1);
        visit(row, valid.then_some(code));
    });
}
