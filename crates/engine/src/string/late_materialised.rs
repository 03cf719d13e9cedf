//! Returned strings without a dictionary: kernels write their row numbers, and the host, which has the
//! columns, gathers the bytes of those that are returned, unless the device has gathered them
//! ([`string_gather`](crate::results::string_gather)).

use crate::device::RunError;
use arrow::array::{ArrayRef, LargeBinaryArray, StringViewBuilder};
use arrow::buffer::NullBuffer;
use arrow::compute::cast;
use arrow::datatypes::DataType;
use galatea_codegen::{PipelinePlan, SinkPlan};
use galatea_expression::ExprKind;
use galatea_store::{Chunk, Column, Encoding, TableView};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;

/// Number of strings that are located and touched before the first of them is copied: if they are scattered
/// in memory, the cache misses overlap.
const AHEAD: usize = 64;

/// The strings of a column, by the row numbers that the kernels of a run use.
#[derive(Debug, Clone)]
pub(crate) struct StringRows {
    pub(crate) column: Arc<Column>,
    /// Chunks of the column, by their position in the chunk table of the run.
    pub(crate) chunks: Arc<[usize]>,
}

/// Strings of a build side's columns that are returned by row number, by column number.
pub(crate) type StringsOfSide = BTreeMap<usize, StringRows>;

impl StringRows {
    /// The strings of column `column` of a view, for a run that reads its chunks in this order.
    pub(crate) fn of(view: &TableView, column: usize, chunks: &Arc<[usize]>) -> Self {
        Self {
            column: Arc::clone(&view.columns[column]),
            chunks: Arc::clone(chunks),
        }
    }

    /// The strings of rows `position << 32 | row`; NULL if the row is NULL.
    pub(crate) fn gather(
        &self,
        rows: &[u64],
        nulls: Option<&NullBuffer>,
        data_type: &DataType,
    ) -> Result<ArrayRef, RunError> {
        let Encoding::Text { offset_width } = &self.column.encoding else {
            return Err(RunError::Defect(format!(
                "column {} is not a string",
                self.column.name
            )));
        };
        let text = |i: usize| {
            if nulls.is_some_and(|nulls| nulls.is_null(i)) {
                return None;
            }
            let chunk = &self.column.chunks[self.chunks[(rows[i] >> 32) as usize]];
            string_at(chunk, offset_width.bytes(), rows[i] as u32 as usize)
        };
        let texts = (0..rows.len()).step_by(AHEAD).flat_map(|first| {
            let found: Vec<_> = (first..rows.len().min(first + AHEAD)).map(text).collect();
            let firsts = found.iter().flatten().filter_map(|text| text.first());
            black_box(firsts.fold(0, |all, byte| all ^ byte));
            found
        });
        string_array(texts, data_type)
    }
}

/// The strings of the rows that a run leaves on the device for others: strings of its own rows, and those
/// from build sides.
pub(crate) fn left_by(
    plan: &PipelinePlan,
    view: &TableView,
    chunks: &Arc<[usize]>,
    sides: &BTreeMap<usize, StringsOfSide>,
) -> StringsOfSide {
    let columns = match (&plan.sink, plan.sink.keyed()) {
        (SinkPlan::Windows(input), _) => input.columns.as_slice(),
        (_, Some((_, columns))) => columns,
        _ => &[],
    };
    let sources = plan.columns();
    let texts = columns.iter().filter_map(|(number, column)| {
        let rows = match column.kind() {
            ExprKind::LateMaterialised(text) => {
                let source = text.as_column()?;
                let column = sources.iter().position(|other| *other == source)?;
                let is_string = matches!(view.columns[column].encoding, Encoding::Text { .. });
                is_string.then(|| StringRows::of(view, column, chunks))?
            }
            ExprKind::Lookup {
                build_side, column, ..
            } => sides.get(build_side)?.get(column)?.clone(),
            _ => return None,
        };
        Some((*number, rows))
    });
    texts.collect()
}

/// The bytes of a row of a string chunk; `None` for NULL.
fn string_at(chunk: &Chunk, offset_width: usize, row: usize) -> Option<&[u8]> {
    if chunk
        .validity
        .as_ref()
        .is_some_and(|bits| bits.as_slice()[row / 8] >> (row % 8) & 1 == 0)
    {
        return None;
    }
    let offsets = chunk.offsets.as_ref()?.as_slice();
    let offset = |i: usize| {
        let mut word = [0; 8];
        word[..offset_width].copy_from_slice(&offsets[i * offset_width..(i + 1) * offset_width]);
        u64::from_le_bytes(word) as usize
    };
    Some(&chunk.data.stored().as_slice()[offset(row)..offset(row + 1)])
}

/// Strings as an array of that type.
pub(crate) fn string_array<'t>(
    texts: impl Iterator<Item = Option<&'t [u8]>>,
    data_type: &DataType,
) -> Result<ArrayRef, RunError> {
    if *data_type == DataType::Utf8View {
        let mut strings = StringViewBuilder::new();
        for text in texts {
            let text = text.map(std::str::from_utf8).transpose();
            strings.append_option(text.map_err(|error| RunError::Defect(error.to_string()))?);
        }
        return Ok(Arc::new(strings.finish()));
    }
    let bytes: LargeBinaryArray = texts.collect();
    Ok(match data_type {
        DataType::Utf8 | DataType::LargeUtf8 => cast(&cast(&bytes, &DataType::LargeUtf8)?, data_type)?,
        _ => cast(&bytes, data_type)?,
    })
}
