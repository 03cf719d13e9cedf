//! Rows of an append sink.

use super::pieces::Part;
use super::{Integers, Outlet, batch, dictionary_array};
use crate::execution::error::RunError;
use crate::pipeline::PipelinePlan;
use crate::pipeline::output::OutputColumn;
use crate::pipeline::output::OutputForm;
use crate::pipeline::sink::chains::RowLayout;
use arrow::array::{ArrayRef, BooleanArray, Float32Array, Float64Array, LargeBinaryArray, StringViewBuilder};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use galatea_device::Stream;
use galatea_memory::GatheredRows;
use galatea_memory::regions::WorkingRegion;
use galatea_store::{Chunk, Encoding, TableView};
use std::sync::Arc;

/// Rows of an append sink, given on in pieces.
#[derive(Debug)]
pub(in crate::execution) struct Rows<'a> {
    plan: &'a PipelinePlan,
    view: &'a TableView,
    /// By position in the table of chunks.
    chunks: Vec<usize>,
    outlet: Outlet<'a>,
}

impl<'a> Rows<'a> {
    /// Nothing given to `outlet` yet.
    pub(in crate::execution) fn new(
        plan: &'a PipelinePlan,
        view: &'a TableView,
        chunks: Vec<usize>,
        outlet: Outlet<'a>,
    ) -> Self {
        Self {
            plan,
            view,
            chunks,
            outlet,
        }
    }

    /// Rows given on so far.
    pub(in crate::execution) fn count(&self) -> u64 {
        self.outlet.rows()
    }

    /// Reads `count` rows from the output columns; returns the bytes read.
    pub(in crate::execution) fn take(
        &self,
        stream: &Stream,
        columns: &[OutputColumn],
        outputs: &[WorkingRegion<u8>],
        validity: &[Option<WorkingRegion<u8>>],
        count: u64,
    ) -> Result<u64, RunError> {
        let mut parts = Vec::new();
        let mut places = Vec::new();
        for ((column, output), valid) in columns.iter().zip(outputs).zip(validity) {
            let value = parts.len();
            parts.push(Part::Bytes(output, column.row_bytes()));
            parts.extend(valid.as_ref().map(|valid| Part::Bytes(valid, 1)));
            places.push((value, valid.is_some()));
        }
        let bytes = self.outlet.pieces(stream, count as usize, &parts, |piece| {
            let arrays = columns.iter().zip(&places).map(|(column, (value, nullable))| {
                let nulls = nullable.then(|| {
                    let flags = piece.bytes(value + 1);
                    NullBuffer::new(BooleanBuffer::collect_bool(piece.rows, |i| flags[i] != 0))
                });
                self.array(column, &Values::Bytes(piece.bytes(*value)), nulls)
            });
            batch(&self.plan.output, arrays.collect::<Result<_, _>>()?, piece.rows)
        })?;
        Ok(bytes)
    }

    /// Reads rows of words gathered from page chains; returns the bytes read.
    pub(in crate::execution) fn take_gathered(
        &self,
        stream: &Stream,
        columns: &[OutputColumn],
        layout: &RowLayout,
        gathered: &GatheredRows,
    ) -> Result<u64, RunError> {
        let rows = gathered.rows;
        let parts: Vec<Part> = (0..layout.words)
            .map(|word| Part::Words(&gathered.columns, word * rows))
            .collect();
        let bytes = self.outlet.pieces(stream, rows, &parts, |piece| {
            let arrays = columns
                .iter()
                .zip(&layout.fields)
                .map(|(column, (field, valid))| {
                    let nulls = valid.map(|valid| {
                        let bits = piece.words(valid.word);
                        NullBuffer::new(BooleanBuffer::collect_bool(piece.rows, |i| {
                            bits[i] >> valid.bit & 1 != 0
                        }))
                    });
                    let high = if column.row_bytes() == 16 {
                        field.word + 1
                    } else {
                        field.word
                    };
                    let values = Values::Words {
                        low: piece.words(field.word),
                        high: piece.words(high),
                        bit: field.bit,
                    };
                    self.array(column, &values, nulls)
                });
            batch(&self.plan.output, arrays.collect::<Result<_, _>>()?, piece.rows)
        })?;
        Ok(bytes)
    }

    fn array(
        &self,
        column: &OutputColumn,
        values: &Values<'_>,
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef, RunError> {
        let data_type = &column.data_type;
        Ok(match &column.form {
            OutputForm::Integer { width: 4 } => {
                let narrow = values.u32s(|value| i64::from(value as i32));
                Integers::Narrow(narrow).array(nulls, data_type)?
            }
            OutputForm::Integer { width: 8 } => {
                Integers::Narrow(values.u64s(|value| value as i64)).array(nulls, data_type)?
            }
            OutputForm::Integer { .. } => Integers::Wide(values.i128s()).array(nulls, data_type)?,
            OutputForm::Boolean => {
                let bytes = values.u8s();
                let bits = BooleanBuffer::collect_bool(bytes.len(), |i| bytes[i] != 0);
                Arc::new(BooleanArray::new(bits, nulls))
            }
            OutputForm::Float32 => {
                let floats = values.u32s(f32::from_bits);
                cast(&Float32Array::new(floats.into(), nulls), data_type)?
            }
            OutputForm::Float64 => {
                let floats = values.u64s(f64::from_bits);
                cast(&Float64Array::new(floats.into(), nulls), data_type)?
            }
            OutputForm::Code { values: dictionary } => {
                dictionary_array(values.u32s(|code| code), nulls, dictionary, data_type)?
            }
            OutputForm::Row { column } => self.gather(*column, values.u64s(|row| row), data_type)?,
        })
    }

    /// Text of rows `position << 32 | row` of a source column, from host memory.
    fn gather(&self, column: usize, rows: Vec<u64>, data_type: &DataType) -> Result<ArrayRef, RunError> {
        let column = &self.view.columns[column];
        let Encoding::Text { offset_width } = &column.encoding else {
            return Err(RunError::Raised(format!("column {} is not text", column.name)));
        };
        let texts = rows.into_iter().map(|row| {
            let chunk = &column.chunks[self.chunks[(row >> 32) as usize]];
            text_at(chunk, offset_width.bytes(), row as u32 as usize)
        });
        if *data_type == DataType::Utf8View {
            let mut strings = StringViewBuilder::new();
            for text in texts {
                let text = text.map(std::str::from_utf8).transpose();
                strings.append_option(text.map_err(|error| RunError::Raised(error.to_string()))?);
            }
            return Ok(Arc::new(strings.finish()));
        }
        let bytes: LargeBinaryArray = texts.collect();
        Ok(match data_type {
            DataType::Utf8 | DataType::LargeUtf8 => cast(&cast(&bytes, &DataType::LargeUtf8)?, data_type)?,
            _ => cast(&bytes, data_type)?,
        })
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

/// Values of an output of some rows, as the kernel left them.
enum Values<'a> {
    /// Next to each other.
    Bytes(&'a [u8]),
    /// In words, from a bit on; of 16-byte values the halves.
    Words {
        low: &'a [u64],
        high: &'a [u64],
        bit: u32,
    },
}

impl Values<'_> {
    fn u8s(&self) -> Vec<u8> {
        match self {
            Self::Bytes(bytes) => bytes.to_vec(),
            Self::Words { low, bit, .. } => low.iter().map(|word| (word >> bit) as u8).collect(),
        }
    }

    fn u32s<T>(&self, value: impl Fn(u32) -> T) -> Vec<T> {
        match self {
            Self::Bytes(bytes) => elements(bytes).map(|b| value(u32::from_le_bytes(b))).collect(),
            Self::Words { low, bit, .. } => low.iter().map(|word| value((word >> bit) as u32)).collect(),
        }
    }

    fn u64s<T>(&self, value: impl Fn(u64) -> T) -> Vec<T> {
        match self {
            Self::Bytes(bytes) => elements(bytes).map(|b| value(u64::from_le_bytes(b))).collect(),
            Self::Words { low, .. } => low.iter().map(|word| value(*word)).collect(),
        }
    }

    fn i128s(&self) -> Vec<i128> {
        match self {
            Self::Bytes(bytes) => elements(bytes).map(i128::from_le_bytes).collect(),
            Self::Words { low, high, .. } => (low.iter().zip(*high))
                .map(|(low, high)| ((u128::from(*high) << 64) | u128::from(*low)) as i128)
                .collect(),
        }
    }
}

/// Values of `N` bytes each.
fn elements<const N: usize>(bytes: &[u8]) -> impl Iterator<Item = [u8; N]> {
    bytes.as_chunks::<N>().0.iter().copied()
}
