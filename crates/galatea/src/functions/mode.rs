//! `mode(value)`: the most frequent value that is not NULL. Of several, the least.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::mem::size_of;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use datafusion::common::ScalarValue;
use datafusion::common::utils::SingleRowListArrayBuilder;
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDFImpl, Signature, Volatility};

use super::wrong_arguments;

/// The name of the function.
pub(super) const NAME: &str = "mode";

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Mode(Signature);

impl Mode {
    pub(super) fn new() -> Self {
        Self(Signature::user_defined(Volatility::Immutable))
    }
}

impl AggregateUDFImpl for Mode {
    fn name(&self) -> &'static str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [_] => Ok(types.to_vec()),
            types => wrong_arguments(NAME, "one value", types, "mode(x)"),
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [value] => Ok(value.clone()),
            types => wrong_arguments(NAME, "one value", types, "mode(x)"),
        }
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let list = |name: &str, item: DataType| {
            let item = Field::new_list_field(item, true);
            Arc::new(Field::new(
                format!("{}[{name}]", args.name),
                DataType::List(Arc::new(item)),
                true,
            ))
        };
        Ok(vec![
            list("values", args.return_field.data_type().clone()),
            list("counts", DataType::Int64),
        ])
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Counts {
            data_type: args.return_field.data_type().clone(),
            is_distinct: args.is_distinct,
            counts: HashMap::new(),
            bytes: 0,
        }))
    }
}

/// The number of rows of each value.
#[derive(Debug)]
struct Counts {
    data_type: DataType,
    /// Whether copies of a value are ignored.
    is_distinct: bool,
    counts: HashMap<ScalarValue, i64>,
    /// The memory of the values.
    bytes: usize,
}

impl Counts {
    fn add(&mut self, values: &dyn Array, counts: Option<&Int64Array>) -> Result<()> {
        for row in (0..values.len()).filter(|row| values.is_valid(*row)) {
            let value = ScalarValue::try_from_array(values, row)?;
            let count = counts.map_or(1, |counts| counts.value(row));
            if let Some(known) = self.counts.get_mut(&value) {
                *known += if self.is_distinct { 0 } else { count };
                continue;
            }
            let mut value = value;
            value.compact();
            self.bytes += value.size();
            self.counts.insert(value, count);
        }
        Ok(())
    }
}

impl Accumulator for Counts {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        values
            .iter()
            .take(1)
            .try_for_each(|values| self.add(values, None))
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let [values, counts] = states else {
            return Ok(());
        };
        let (values, counts) = (values.as_list::<i32>(), counts.as_list::<i32>());
        for (values, counts) in values.iter().zip(counts.iter()) {
            if let (Some(values), Some(counts)) = (values, counts) {
                self.add(&values, Some(counts.as_primitive::<Int64Type>()))?;
            }
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let (values, counts): (Vec<ScalarValue>, Vec<i64>) = self.counts.drain().unzip();
        let values = ScalarValue::new_list(&values, &self.data_type, true);
        let counts: ArrayRef = Arc::new(Int64Array::from(counts));
        self.bytes = 0;
        Ok(vec![
            ScalarValue::List(values),
            SingleRowListArrayBuilder::new(counts).build_list_scalar(),
        ])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let mut best: Option<(&ScalarValue, i64)> = None;
        for (value, count) in &self.counts {
            let is_better = best.is_none_or(|(other, most)| {
                *count > most || (*count == most && value.partial_cmp(other).is_some_and(Ordering::is_lt))
            });
            if is_better {
                best = Some((value, *count));
            }
        }
        match best {
            Some((value, _)) => Ok(value.clone()),
            None => ScalarValue::try_from(&self.data_type),
        }
    }

    fn size(&self) -> usize {
        let entries = self.counts.capacity() * size_of::<(ScalarValue, i64)>();
        size_of::<Self>() + entries + self.bytes
    }
}
