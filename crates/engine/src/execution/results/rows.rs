//! Rows of an append sink.

use super::{Integers, batch, dictionary_array};
use crate::execution::run::RunError;
use crate::pipeline::PipelinePlan;
use crate::pipeline::sink::OutputColumn;
use crate::pipeline::sink::append::OutputForm;
use crate::pipeline::sink::chains::RowLayout;
use arrow::array::{ArrayRef, BooleanArray, Float32Array, Float64Array, RecordBatch};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use galatea_device::{DeviceBuffer, Stream};
use galatea_memory::GatheredRows;
use galatea_store::{Chunk, Encoding, TableView};
use std::sync::Arc;

/// Rows of an append sink, collected in pieces.
#[derive(Debug)]
pub(in crate::execution) struct Rows<'a> {
    plan: &'a PipelinePlan,
    view: &'a TableView,
    chunks: &'a [usize],
    batches: Vec<RecordBatch>,
}

impl<'a> Rows<'a> {
    /// Nothing collected yet.
    pub(in crate::execution) fn new(
        plan: &'a PipelinePlan,
        view: &'a TableView,
        chunks: &'a [usize],
    ) -> Self {
        Self {
            plan,
            view,
            chunks,
            batches: Vec::new(),
        }
    }

    /// Reads `count` rows from the output columns; returns the bytes read.
    pub(in crate::execution) fn take(
        &mut self,
        stream: &Stream,
        columns: &[OutputColumn],
        outputs: &[DeviceBuffer<u8>],
        validity: &[Option<DeviceBuffer<u8>>],
        count: u64,
    ) -> Result<u64, RunError> {
        let count = count as usize;
        if count == 0 {
            return Ok(0);
        }
        let mut arrays = Vec::with_capacity(columns.len());
        let mut read = 0;
        for ((column, output), valid) in columns.iter().zip(outputs).zip(validity) {
            let bytes = stream.read(output, ..count * column.row_bytes())?;
            read += bytes.len() as u64;
            let nulls = match valid {
                Some(valid) => {
                    let flags = stream.read(valid, ..count)?;
                    read += flags.len() as u64;
                    Some(NullBuffer::new(BooleanBuffer::collect_bool(count, |i| {
                        flags[i] != 0
                    })))
                }
                None => None,
            };
            arrays.push(self.array(column, &bytes, nulls.as_ref())?);
        }
        self.batches.push(batch(&self.plan.output, arrays, count)?);
        Ok(read)
    }

    /// Reads rows of words gathered from page chains; returns the bytes read.
    pub(in crate::execution) fn take_gathered(
        &mut self,
        stream: &Stream,
        columns: &[OutputColumn],
        layout: &RowLayout,
        gathered: &GatheredRows,
    ) -> Result<u64, RunError> {
        let rows = gathered.rows;
        if rows == 0 {
            return Ok(0);
        }
        let words = stream.read(&gathered.columns, ..rows * layout.words)?;
        let word = |at: usize| &words[at * rows..(at + 1) * rows];
        let mut arrays = Vec::with_capacity(columns.len());
        for (column, (field, valid)) in columns.iter().zip(&layout.fields) {
            let nulls = valid.map(|valid| {
                let bits = word(valid.word);
                NullBuffer::new(BooleanBuffer::collect_bool(rows, |i| {
                    bits[i] >> valid.bit & 1 != 0
                }))
            });
            let size = column.row_bytes();
            let mut bytes = Vec::with_capacity(rows * size);
            match size {
                16 => {
                    for (low, high) in word(field.word).iter().zip(word(field.word + 1)) {
                        bytes.extend_from_slice(&low.to_le_bytes());
                        bytes.extend_from_slice(&high.to_le_bytes());
                    }
                }
                8 => bytes.extend(word(field.word).iter().flat_map(|w| w.to_le_bytes())),
                4 => bytes.extend(
                    word(field.word)
                        .iter()
                        .flat_map(|w| ((w >> field.bit) as u32).to_le_bytes()),
                ),
                _ => bytes.extend(word(field.word).iter().map(|w| (w >> field.bit) as u8)),
            }
            arrays.push(self.array(column, &bytes, nulls.as_ref())?);
        }
        self.batches.push(batch(&self.plan.output, arrays, rows)?);
        Ok(gathered.columns.bytes())
    }

    fn array(
        &self,
        column: &OutputColumn,
        bytes: &[u8],
        nulls: Option<&NullBuffer>,
    ) -> Result<ArrayRef, RunError> {
        let data_type = &column.data_type;
        Ok(match &column.form {
            OutputForm::Integer { width: 4 } => {
                let values = elements::<4>(bytes).map(|b| i64::from(i32::from_le_bytes(b)));
                Integers::Narrow(values.collect()).array(nulls.cloned(), data_type)?
            }
            OutputForm::Integer { width: 8 } => {
                let values = elements::<8>(bytes).map(i64::from_le_bytes);
                Integers::Narrow(values.collect()).array(nulls.cloned(), data_type)?
            }
            OutputForm::Integer { .. } => {
                let values = elements::<16>(bytes).map(i128::from_le_bytes);
                Integers::Wide(values.collect()).array(nulls.cloned(), data_type)?
            }
            OutputForm::Boolean => {
                let values = BooleanBuffer::collect_bool(bytes.len(), |i| bytes[i] != 0);
                Arc::new(BooleanArray::new(values, nulls.cloned()))
            }
            OutputForm::Float32 => {
                let values = elements::<4>(bytes).map(f32::from_le_bytes).collect();
                cast(&Float32Array::new(values, nulls.cloned()), data_type)?
            }
            OutputForm::Float64 => {
                let values = elements::<8>(bytes).map(f64::from_le_bytes).collect();
                cast(&Float64Array::new(values, nulls.cloned()), data_type)?
            }
            OutputForm::Code { values } => {
                let codes = elements::<4>(bytes).map(u32::from_le_bytes).collect();
                dictionary_array(codes, nulls.cloned(), values, data_type)?
            }
            OutputForm::Row { column } => {
                self.gather(*column, elements::<8>(bytes).map(u64::from_le_bytes), data_type)?
            }
        })
    }

    /// Text of rows `position << 32 | row` of a source column, from host memory.
    fn gather(
        &self,
        column: usize,
        rows: impl Iterator<Item = u64>,
        data_type: &DataType,
    ) -> Result<ArrayRef, RunError> {
        let column = &self.view.columns[column];
        let chunks = &column.chunks;
        let Encoding::Text { offset_width } = &column.encoding else {
            return Err(RunError::Raised(format!("column {} is not text", column.name)));
        };
        let mut strings = arrow::array::LargeBinaryBuilder::new();
        for row in rows {
            let chunk = &chunks[self.chunks[(row >> 32) as usize]];
            match text_at(chunk, offset_width.bytes(), row as u32 as usize) {
                Some(bytes) => strings.append_value(bytes),
                None => strings.append_null(),
            }
        }
        let bytes = strings.finish();
        Ok(match data_type {
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
                cast(&cast(&bytes, &DataType::LargeUtf8)?, data_type)?
            }
            _ => cast(&bytes, data_type)?,
        })
    }

    /// All batches.
    pub(in crate::execution) fn finish(self) -> Result<Vec<RecordBatch>, RunError> {
        Ok(self.batches)
    }
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
    Some(&chunk.data.as_slice()[offset(row)..offset(row + 1)])
}

/// Values of `N` bytes each.
fn elements<const N: usize>(bytes: &[u8]) -> impl Iterator<Item = [u8; N]> {
    bytes.as_chunks::<N>().0.iter().copied()
}
