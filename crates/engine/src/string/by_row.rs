//! Texts without a dictionary that are returned: kernels write the numbers of their rows, and the host, which
//! has the columns, gathers the bytes of those that are wanted, unless the device has done that
//! ([`text_gather`](crate::results::text_gather)).

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

/// Rows whose texts are found, and then touched, before the first of them is copied: in no order of memory
/// each is far from the others, and the core waits for many at once.
const AHEAD: usize = 64;

/// The texts of a column, by the numbers that kernels of a run give its rows.
#[derive(Debug, Clone)]
pub(crate) struct TextRows {
    pub(crate) column: Arc<Column>,
    /// Chunks of the column, by their position in the table of chunks of the run.
    pub(crate) chunks: Arc<[usize]>,
}

/// The texts of the columns of build sides that are returned by the numbers of rows, by number of the column.
pub(crate) type TextsOfSide = BTreeMap<usize, TextRows>;

impl TextRows {
    /// Of column `column` of a view whose chunks a run reads in this order.
    pub(crate) fn of(view: &TableView, column: usize, chunks: &Arc<[usize]>) -> Self {
        Self {
            column: Arc::clone(&view.columns[column]),
            chunks: Arc::clone(chunks),
        }
    }

    /// The texts of rows `position << 32 | row`; none where that is NULL.
    pub(crate) fn gather(
        &self,
        rows: &[u64],
        nulls: Option<&NullBuffer>,
        data_type: &DataType,
    ) -> Result<ArrayRef, RunError> {
        let Encoding::Text { offset_width } = &self.column.encoding else {
            return Err(RunError::Defect(format!(
                "column {} is not text",
                self.column.name
            )));
        };
        let text = |i: usize| {
            if nulls.is_some_and(|nulls| nulls.is_null(i)) {
                return None;
            }
            let chunk = &self.column.chunks[self.chunks[(rows[i] >> 32) as usize]];
            text_at(chunk, offset_width.bytes(), rows[i] as u32 as usize)
        };
        let texts = (0..rows.len()).step_by(AHEAD).flat_map(|first| {
            let found: Vec<_> = (first..rows.len().min(first + AHEAD)).map(text).collect();
            let firsts = found.iter().flatten().filter_map(|text| text.first());
            black_box(firsts.fold(0, |all, byte| all ^ byte));
            found
        });
        text_array(texts, data_type)
    }
}

/// The texts of what a run leaves on the device for others: those of its own rows, and those that it has of
/// build sides.
pub(crate) fn left_by(
    plan: &PipelinePlan,
    view: &TableView,
    chunks: &Arc<[usize]>,
    sides: &BTreeMap<usize, TextsOfSide>,
) -> TextsOfSide {
    let columns = match (&plan.sink, plan.sink.keyed()) {
        (SinkPlan::Windows(input), _) => input.columns.as_slice(),
        (_, Some((_, columns))) => columns,
        _ => &[],
    };
    let sources = plan.columns();
    let texts = columns.iter().filter_map(|(number, column)| {
        let rows = match column.kind() {
            ExprKind::ByRow(text) => {
                let source = text.as_column()?;
                let column = sources.iter().position(|other| *other == source)?;
                let is_text = matches!(view.columns[column].encoding, Encoding::Text { .. });
                is_text.then(|| TextRows::of(view, column, chunks))?
            }
            ExprKind::Lookup {
                dimension, column, ..
            } => sides.get(dimension)?.get(column)?.clone(),
            _ => return None,
        };
        Some((*number, rows))
    });
    texts.collect()
}

/// The bytes of a row of a text chunk; `None` for NULL.
fn text_at(chunk: &Chunk, offset_width: usize, row: usize) -> Option<&[u8]> {
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

/// Texts as an array of that type.
pub(crate) fn text_array<'t>(
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
