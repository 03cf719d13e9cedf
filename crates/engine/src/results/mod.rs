//! Converts a sink's contents to Arrow arrays, bit for bit as DataFusion's operators would return.
//!
//! Conversion is column by column, since a result can have millions of rows.

pub(crate) mod contents;
mod groups;
mod outlet;
mod pieces;
pub(crate) mod queue;
mod rows;
pub(crate) mod string_gather;
mod values;

pub(crate) use groups::groups;
pub(crate) use groups::records;
pub(crate) use outlet::Outlet;
pub(crate) use pieces::{Piece, ResultPolicy};
pub(crate) use rows::Rows;
pub(crate) use values::Values;

use arrow::array::{
    Array, ArrayRef, BooleanArray, Decimal128Array, Int64Array, RecordBatch, RecordBatchOptions, UInt32Array,
    UInt64Array, new_null_array,
};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::{cast, take};
use arrow::datatypes::{DataType, SchemaRef};
use arrow::error::ArrowError;
use std::sync::Arc;

/// The tuning policies of this module.
pub(crate) fn policies() -> Vec<galatea_base::policy::Policy> {
    vec![ResultPolicy::listed(), string_gather::GatherPolicy::listed()]
}

/// A batch of the schema's types; arrays of other types are cast.
pub(crate) fn batch(
    schema: &SchemaRef,
    arrays: Vec<ArrayRef>,
    rows: usize,
) -> Result<RecordBatch, ArrowError> {
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
        .collect::<Result<Vec<_>, ArrowError>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(schema.clone(), arrays, &options)
}

/// Values of integers, dates, timestamps, decimals (unscaled) and booleans.
#[derive(Debug)]
pub(crate) enum Integers {
    /// 64-bit values; unsigned types have the same bits.
    Narrow(Vec<i64>),
    /// 128-bit values.
    Wide(Vec<i128>),
}

impl Integers {
    /// The array of that type.
    pub(crate) fn array(
        self,
        nulls: Option<NullBuffer>,
        data_type: &DataType,
    ) -> Result<ArrayRef, ArrowError> {
        let narrow = match (self, data_type) {
            (values, DataType::Decimal128(precision, scale)) => {
                let wide = match values {
                    Self::Wide(wide) => wide,
                    Self::Narrow(narrow) => narrow.into_iter().map(i128::from).collect(),
                };
                let array = Decimal128Array::new(wide.into(), nulls);
                // Sets the type without checking values: DataFusion does not check results of arithmetic
                // either.
                return Ok(Arc::new(array.with_precision_and_scale(*precision, *scale)?));
            }
            (Self::Narrow(narrow), _) => narrow,
            (Self::Wide(wide), _) => wide.into_iter().map(|value| value as i64).collect(),
        };
        let physical = match data_type {
            DataType::Boolean => {
                let values = BooleanBuffer::collect_bool(narrow.len(), |i| narrow[i] != 0);
                return Ok(Arc::new(BooleanArray::new(values, nulls)));
            }
            DataType::Int64 => return Ok(Arc::new(Int64Array::new(narrow.into(), nulls))),
            DataType::UInt64 => {
                let values = narrow.into_iter().map(|value| value as u64).collect();
                return Ok(Arc::new(UInt64Array::new(values, nulls)));
            }
            DataType::Date32 | DataType::Time32(_) | DataType::Decimal32(..) => DataType::Int32,
            DataType::Date64
            | DataType::Time64(_)
            | DataType::Timestamp(..)
            | DataType::Duration(_)
            | DataType::Decimal64(..) => DataType::Int64,
            other => other.clone(),
        };
        let array = cast(&Int64Array::new(narrow.into(), nulls), &physical)?;
        if physical == *data_type {
            return Ok(array);
        }
        // The bits are reinterpreted, not converted.
        let data = array.to_data().into_builder().data_type(data_type.clone());
        Ok(arrow::array::make_array(data.build()?))
    }
}

/// The strings of dictionary codes; codes of NULL rows are arbitrary.
fn dictionary_array(
    mut codes: Vec<u32>,
    nulls: Option<NullBuffer>,
    values: &ArrayRef,
    data_type: &DataType,
) -> Result<ArrayRef, ArrowError> {
    if values.is_empty() {
        return Ok(new_null_array(data_type, codes.len()));
    }
    if let Some(nulls) = &nulls {
        for (i, code) in codes.iter_mut().enumerate() {
            if nulls.is_null(i) {
                *code = 0;
            }
        }
    }
    let strings = take(values, &UInt32Array::new(codes.into(), nulls), None)?;
    if strings.data_type() == data_type {
        Ok(strings)
    } else {
        cast(&strings, data_type)
    }
}
