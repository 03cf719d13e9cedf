//! From a sink's contents to Arrow arrays, bit for bit what DataFusion's operators would return.

use super::run::RunError;
use super::sinks::Contents;
use crate::pipeline::PipelinePlan;
use crate::pipeline::bind::{Finish, FinishForm, Strategy};
use crate::pipeline::generate::{BoundPipeline, ResultPlan};
use crate::pipeline::group_key::{GroupKey, KeyForm, KeyLayout, KeyPart, KeyValue};
use crate::pipeline::sink::OutputColumn;
use crate::pipeline::sink::append::OutputForm;
use arrow::array::{
    Array, ArrayRef, BooleanArray, Decimal128Array, Float32Array, Float64Array, Int64Array, RecordBatch,
    RecordBatchOptions, UInt32Array, UInt64Array, new_null_array,
};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::{cast, take};
use arrow::datatypes::{DataType, Decimal128Type, DecimalType, SchemaRef};
use arrow::error::ArrowError;
use galatea_device::{DeviceBuffer, Stream};
use galatea_store::{Chunk, Encoding, TableView};

/// The record batch of a grouped or scalar aggregate.
pub(super) fn groups(
    plan: &PipelinePlan,
    bound: &BoundPipeline,
    contents: &Contents,
) -> Result<RecordBatch, RunError> {
    let ResultPlan::Groups {
        key,
        accumulators,
        occupied,
    } = &bound.result
    else {
        return Err(RunError::Raised("a sink of rows has no groups".into()));
    };
    let stride = bound.slot_words();
    let prefix = stride - accumulators.words;
    let slots: Vec<&[u64]> = if stride == 0 {
        Vec::new()
    } else {
        contents.words.chunks_exact(stride).collect()
    };
    let mut arrays: Vec<ArrayRef> = Vec::with_capacity(plan.output.fields().len());
    let used: Vec<usize> = match (occupied, &bound.strategy) {
        (Some(word), Strategy::Shared { .. } | Strategy::Dense { .. }) => {
            (0..slots.len()).filter(|i| slots[*i][*word] != 0).collect()
        }
        _ => (0..slots.len()).collect(),
    };
    if let Some(key) = key {
        arrays.extend(key_arrays(
            key,
            &slots,
            &used,
            matches!(bound.strategy, Strategy::Hash),
        )?);
    }
    for finish in &accumulators.finishes {
        arrays.push(finish_array(finish, &slots, &used, prefix)?);
    }
    batch(&plan.output, arrays, used.len())
}

fn batch(schema: &SchemaRef, arrays: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch, RunError> {
    let arrays = arrays
        .into_iter()
        .zip(schema.fields())
        .map(|(array, field)| {
            if array.data_type() == field.data_type() {
                Ok(array)
            } else {
                cast(&array, field.data_type())
            }
        })
        .collect::<Result<Vec<_>, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(
        schema.clone(),
        arrays,
        &options,
    )?)
}

fn key_arrays(
    key: &GroupKey,
    slots: &[&[u64]],
    used: &[usize],
    hashed: bool,
) -> Result<Vec<ArrayRef>, RunError> {
    let skip = usize::from(hashed && matches!(key.layout, KeyLayout::Words(_)));
    let mut columns: Vec<Vec<Option<KeyValue>>> = vec![Vec::with_capacity(used.len()); key.parts.len()];
    for &slot in used {
        let values = if hashed {
            key.decode(&slots[slot][skip..])
        } else {
            key.decode(&[slot as u64])
        };
        for (column, value) in columns.iter_mut().zip(values) {
            column.push(value);
        }
    }
    key.parts
        .iter()
        .zip(columns)
        .map(|(part, values)| key_array(part, &values))
        .collect()
}

fn key_array(part: &KeyPart, values: &[Option<KeyValue>]) -> Result<ArrayRef, RunError> {
    Ok(match &part.form {
        KeyForm::Integer { .. } => integer_array(
            values.iter().map(|v| match v {
                Some(KeyValue::Integer(i)) => Some(*i),
                _ => None,
            }),
            &part.data_type,
        )?,
        KeyForm::Code { values: dictionary } => dictionary_array(
            values.iter().map(|v| match v {
                Some(KeyValue::Code(code)) => Some(*code as u32),
                _ => None,
            }),
            dictionary,
            &part.data_type,
        )?,
        KeyForm::Float64 => {
            let floats: Float64Array = values
                .iter()
                .map(|v| match v {
                    Some(KeyValue::Float(f)) => Some(*f),
                    _ => None,
                })
                .collect();
            cast(&floats, &part.data_type)?
        }
    })
}

/// Integers, dates, timestamps, decimals and booleans from mathematical integers.
pub(super) fn integer_array(
    values: impl Iterator<Item = Option<i128>>,
    data_type: &DataType,
) -> Result<ArrayRef, ArrowError> {
    use std::sync::Arc;
    match data_type {
        DataType::Decimal128(precision, scale) => {
            let array: Decimal128Array = values.collect();
            // Not `with_precision_and_scale` checks on values: DataFusion does not check results of arithmetic either.
            Ok(Arc::new(array.with_precision_and_scale(*precision, *scale)?))
        }
        DataType::Boolean => Ok(Arc::new(
            values.map(|v| v.map(|v| v != 0)).collect::<BooleanArray>(),
        )),
        DataType::UInt64 => Ok(Arc::new(
            values.map(|v| v.map(|v| v as u64)).collect::<UInt64Array>(),
        )),
        _ => {
            let array: Int64Array = values.map(|v| v.map(|v| v as i64)).collect();
            let physical = match data_type {
                DataType::Date32 | DataType::Time32(_) | DataType::Decimal32(..) => DataType::Int32,
                DataType::Date64
                | DataType::Time64(_)
                | DataType::Timestamp(..)
                | DataType::Duration(_)
                | DataType::Decimal64(..) => DataType::Int64,
                other => other.clone(),
            };
            let array = cast(&array, &physical)?;
            if physical == *data_type {
                return Ok(array);
            }
            // Same bits, another meaning: no conversion may happen on the way.
            let data = array
                .to_data()
                .into_builder()
                .data_type(data_type.clone())
                .build()?;
            Ok(arrow::array::make_array(data))
        }
    }
}

fn dictionary_array(
    codes: impl Iterator<Item = Option<u32>>,
    values: &ArrayRef,
    data_type: &DataType,
) -> Result<ArrayRef, ArrowError> {
    let codes: UInt32Array = codes.collect();
    if values.is_empty() {
        return Ok(new_null_array(data_type, codes.len()));
    }
    let strings = take(values, &codes, None)?;
    if strings.data_type() == data_type {
        Ok(strings)
    } else {
        cast(&strings, data_type)
    }
}

fn finish_array(
    finish: &Finish,
    slots: &[&[u64]],
    used: &[usize],
    prefix: usize,
) -> Result<ArrayRef, RunError> {
    let words = |slot: usize| &slots[slot][prefix..];
    let valid = |slot: usize| finish.valid.is_none_or(|word| words(slot)[word] != 0);
    let some = |slot: usize, value: i128| valid(slot).then_some(value);
    let used = used.iter().copied();
    let data_type = &finish.data_type;
    Ok(match &finish.form {
        FinishForm::Count(word) => integer_array(used.map(|s| Some(i128::from(words(s)[*word]))), data_type)?,
        FinishForm::Sum64(word) => integer_array(
            used.map(|s| {
                let sum = words(s)[*word];
                some(
                    s,
                    if *data_type == DataType::UInt64 {
                        i128::from(sum)
                    } else {
                        i128::from(sum as i64)
                    },
                )
            }),
            data_type,
        )?,
        FinishForm::Sum128(word) => integer_array(used.map(|s| some(s, wide(words(s), *word))), data_type)?,
        FinishForm::SumF64(word) => cast(
            &used
                .map(|s| valid(s).then(|| f64::from_bits(words(s)[*word])))
                .collect::<Float64Array>(),
            data_type,
        )?,
        FinishForm::AverageF64 { sum, count } => {
            let average = |s: usize| f64::from_bits(words(s)[*sum]) / words(s)[*count] as f64;
            cast(
                &used
                    .map(|s| valid(s).then(|| average(s)))
                    .collect::<Float64Array>(),
                data_type,
            )?
        }
        FinishForm::AverageDecimal {
            sum,
            wide: is_wide,
            count,
            scale,
        } => {
            let DataType::Decimal128(precision, target) = data_type else {
                return Err(ArrowError::SchemaError(format!("decimal average of type {data_type}")).into());
            };
            let averages = used
                .map(|s| {
                    if !valid(s) {
                        return Ok(None);
                    }
                    let total = if *is_wide {
                        wide(words(s), *sum)
                    } else {
                        i128::from(words(s)[*sum] as i64)
                    };
                    decimal_average(total, words(s)[*count], *scale, *precision, *target).map(Some)
                })
                .collect::<Result<Vec<_>, RunError>>()?;
            integer_array(averages.into_iter(), data_type)?
        }
        FinishForm::RankInteger { word, complement } => integer_array(
            used.map(|s| {
                let rank = unflip(words(s)[*word], *complement);
                some(s, i128::from((rank ^ (1 << 63)) as i64))
            }),
            data_type,
        )?,
        FinishForm::RankFloat { word, complement } => {
            let value = |s: usize| {
                let rank = unflip(words(s)[*word], *complement);
                f64::from_bits(if rank >> 63 == 1 { rank ^ (1 << 63) } else { !rank })
            };
            cast(
                &used.map(|s| valid(s).then(|| value(s))).collect::<Float64Array>(),
                data_type,
            )?
        }
        FinishForm::RankCode {
            word,
            complement,
            values,
        } => dictionary_array(
            used.map(|s| valid(s).then(|| unflip(words(s)[*word], *complement) as u32)),
            values,
            data_type,
        )?,
    })
}

fn wide(words: &[u64], word: usize) -> i128 {
    ((u128::from(words[word + 1]) << 64) | u128::from(words[word])) as i128
}

fn unflip(rank: u64, complement: bool) -> u64 {
    if complement { !rank } else { rank }
}

/// DataFusion's decimal average: the sum at the result's scale, divided by the count towards zero.
fn decimal_average(sum: i128, count: u64, scale: i8, precision: u8, target: i8) -> Result<i128, RunError> {
    let factor = 10i128.checked_pow(u32::try_from(target - scale).unwrap_or(0));
    let average = factor
        .and_then(|factor| sum.checked_mul(factor))
        .map(|sum| sum / i128::from(count));
    match average {
        Some(average) if Decimal128Type::is_valid_decimal_precision(average, precision) => Ok(average),
        _ => Err(RunError::Raised("Arithmetic Overflow in AvgAccumulator".into())),
    }
}

/// Rows of an append sink, collected in pieces.
#[derive(Debug)]
pub(super) struct Rows<'a> {
    plan: &'a PipelinePlan,
    view: &'a TableView,
    chunks: &'a [usize],
    batches: Vec<RecordBatch>,
}

impl<'a> Rows<'a> {
    /// Nothing collected yet.
    pub(super) fn new(plan: &'a PipelinePlan, view: &'a TableView, chunks: &'a [usize]) -> Self {
        Self {
            plan,
            view,
            chunks,
            batches: Vec::new(),
        }
    }

    /// Reads `count` rows from the output columns; returns the bytes read.
    pub(super) fn take(
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

    fn array(
        &self,
        column: &OutputColumn,
        bytes: &[u8],
        nulls: Option<&NullBuffer>,
    ) -> Result<ArrayRef, RunError> {
        let valid = |i: usize| nulls.is_none_or(|n| n.is_valid(i));
        let data_type = &column.data_type;
        Ok(match &column.form {
            OutputForm::Integer { width: 4 } => {
                let values = bytes
                    .chunks_exact(4)
                    .map(|b| i128::from(i32::from_le_bytes([b[0], b[1], b[2], b[3]])));
                integer_array(values.enumerate().map(|(i, v)| valid(i).then_some(v)), data_type)?
            }
            OutputForm::Integer { width: 8 } => {
                let values = words(bytes).map(|w| i128::from(w as i64));
                integer_array(values.enumerate().map(|(i, v)| valid(i).then_some(v)), data_type)?
            }
            OutputForm::Integer { .. } => {
                let values = bytes.chunks_exact(16).map(|b| {
                    let mut wide = [0; 16];
                    wide.copy_from_slice(b);
                    i128::from_le_bytes(wide)
                });
                integer_array(values.enumerate().map(|(i, v)| valid(i).then_some(v)), data_type)?
            }
            OutputForm::Boolean => {
                let values = bytes.iter().enumerate().map(|(i, b)| valid(i).then_some(*b != 0));
                std::sync::Arc::new(values.collect::<BooleanArray>())
            }
            OutputForm::Float32 => {
                let values = bytes
                    .chunks_exact(4)
                    .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
                cast(
                    &values
                        .enumerate()
                        .map(|(i, v)| valid(i).then_some(v))
                        .collect::<Float32Array>(),
                    data_type,
                )?
            }
            OutputForm::Float64 => {
                let values = words(bytes).map(f64::from_bits);
                cast(
                    &values
                        .enumerate()
                        .map(|(i, v)| valid(i).then_some(v))
                        .collect::<Float64Array>(),
                    data_type,
                )?
            }
            OutputForm::Code { values } => {
                let codes = bytes
                    .chunks_exact(4)
                    .map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
                dictionary_array(
                    codes.enumerate().map(|(i, c)| valid(i).then_some(c)),
                    values,
                    data_type,
                )?
            }
            OutputForm::Row { column } => self.gather(*column, words(bytes), data_type)?,
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
    pub(super) fn finish(self) -> Result<Vec<RecordBatch>, RunError> {
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

fn words(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes
        .chunks_exact(8)
        .map(|b| u64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]))
}
