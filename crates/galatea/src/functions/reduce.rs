//! `list_reduce(list, (sum, value) -> sum + value, initial)`: the elements of each list combined from the
//! left.
//!
//! Without an initial value, the first element is the first combined value. One evaluation of the lambda
//! combines the elements with the same position of all lists.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, LargeListArray, UInt64Array};
use arrow::compute::{cast, interleave, take, take_arrays};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{exec_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, HigherOrderFunctionArgs, HigherOrderReturnFieldArgs, HigherOrderSignature,
    HigherOrderUDFImpl, LambdaArgument, LambdaParametersProgress, ValueOrLambda, Volatility,
};

use super::wrong_arguments;

/// The name of the function.
pub(super) const NAME: &str = "list_reduce";

/// Digits of the decimals that lists of decimals are reduced to.
const DECIMAL_DIGITS: u8 = 38;

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Reduce {
    signature: HigherOrderSignature,
    aliases: Vec<String>,
}

impl Reduce {
    pub(super) fn new() -> Self {
        Self {
            signature: HigherOrderSignature::user_defined(Volatility::Immutable),
            aliases: vec!["array_reduce".to_owned()],
        }
    }
}

/// The list, the lambda and the initial value of a call.
fn parts<V, L>(arguments: &[ValueOrLambda<V, L>]) -> Result<(&V, &L, Option<&V>)> {
    match arguments {
        [ValueOrLambda::Value(list), ValueOrLambda::Lambda(lambda)] => Ok((list, lambda, None)),
        [
            ValueOrLambda::Value(list),
            ValueOrLambda::Lambda(lambda),
            ValueOrLambda::Value(initial),
        ] => Ok((list, lambda, Some(initial))),
        _ => plan_err!(
            "{NAME} takes a list, a lambda and perhaps an initial value\nhint: {NAME}(l, (sum, value) -> sum + value, 0)"
        ),
    }
}

/// The type of the elements of a list.
fn elements(list: &DataType) -> Result<&FieldRef> {
    match list {
        DataType::LargeList(elements) => Ok(elements),
        other => plan_err!("{NAME} reduces lists, not {other}"),
    }
}

/// The type of combined values: a type that remains the same when the lambda is applied again. Products and
/// sums of decimals have more digits each time, so they have the scale of the list.
fn combined(result: &DataType, list: &DataType, initial: Option<&DataType>) -> Result<DataType> {
    let scale = |data_type: &DataType| match data_type {
        DataType::Decimal32(_, scale)
        | DataType::Decimal64(_, scale)
        | DataType::Decimal128(_, scale)
        | DataType::Decimal256(_, scale) => Some(*scale),
        _ => None,
    };
    let scales = scale(elements(list)?.data_type()).max(initial.and_then(scale));
    Ok(match (result, scales) {
        (DataType::UInt64, _) => DataType::UInt64,
        (integer, _) if integer.is_integer() => DataType::Int64,
        (decimal, Some(scale)) if decimal.is_decimal() => DataType::Decimal128(DECIMAL_DIGITS, scale),
        (number, _) if number.is_numeric() => DataType::Float64,
        (other, _) => other.clone(),
    })
}

/// The type of combined values of a call whose lambda has a result of this type.
fn combined_type(fields: &[ValueOrLambda<FieldRef, FieldRef>]) -> Result<DataType> {
    let (list, lambda, initial) = parts(fields)?;
    let initial = initial.map(|initial| initial.data_type());
    combined(lambda.data_type(), list.data_type(), initial)
}

impl HigherOrderUDFImpl for Reduce {
    fn name(&self) -> &'static str {
        NAME
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &HigherOrderSignature {
        &self.signature
    }

    fn coerce_value_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let example = "list_reduce(l, (sum, value) -> sum + value, 0)";
        let Some((list, initial)) = types.split_first() else {
            return wrong_arguments(NAME, "a list and a lambda", types, example);
        };
        let elements = match list {
            DataType::List(elements)
            | DataType::LargeList(elements)
            | DataType::ListView(elements)
            | DataType::LargeListView(elements)
            | DataType::FixedSizeList(elements, _) => Arc::clone(elements),
            DataType::Null => Arc::new(Field::new_list_field(DataType::Null, true)),
            _ => return wrong_arguments(NAME, "a list and a lambda", types, example),
        };
        let mut coerced = vec![DataType::LargeList(elements)];
        coerced.extend(initial.iter().cloned());
        Ok(coerced)
    }

    fn lambda_parameters(
        &self,
        _step: usize,
        fields: &[ValueOrLambda<FieldRef, Option<FieldRef>>],
    ) -> Result<LambdaParametersProgress> {
        let (list, result, initial) = parts(fields)?;
        let element = elements(list.data_type())?;
        let initial = initial.map(|initial| initial.data_type());
        let parameters = |result: &DataType| {
            let combined = combined(result, list.data_type(), initial)?;
            let combined = Arc::new(Field::new("", combined, true));
            let element = Field::clone(element).with_nullable(true);
            Ok::<_, datafusion::error::DataFusionError>(vec![combined, Arc::new(element)])
        };
        match result {
            Some(result) => Ok(LambdaParametersProgress::Complete(vec![parameters(
                result.data_type(),
            )?])),
            None => {
                let first = initial.unwrap_or(element.data_type());
                Ok(LambdaParametersProgress::Partial(vec![Some(parameters(first)?)]))
            }
        }
    }

    fn return_field_from_args(&self, arguments: HigherOrderReturnFieldArgs) -> Result<FieldRef> {
        let combined = combined_type(arguments.arg_fields)?;
        Ok(Arc::new(Field::new("", combined, true)))
    }

    fn invoke_with_args(&self, arguments: HigherOrderFunctionArgs) -> Result<ColumnarValue> {
        let (list, lambda, initial) = parts(&arguments.args)?;
        let list = list.to_array(arguments.number_rows)?;
        let initial = initial.map(|initial| initial.to_array(arguments.number_rows));
        let initial = initial.transpose()?;
        let combined = arguments.return_field.data_type();
        reduced(list.as_list(), lambda, initial, combined).map(ColumnarValue::Array)
    }
}

/// The combined value of each list.
fn reduced(
    list: &LargeListArray,
    lambda: &LambdaArgument,
    initial: Option<ArrayRef>,
    combined: &DataType,
) -> Result<ArrayRef> {
    // Values before the first evaluation of the lambda, and the number of elements in them.
    let (first, taken) = match initial {
        Some(initial) => (initial, 0),
        None => {
            if (0..list.len()).any(|row| list.is_valid(row) && list.value_length(row) == 0) {
                return exec_err!(
                    "{NAME} of an empty list has no value\nhint: an initial value is the third argument"
                );
            }
            let firsts: UInt64Array = (0..list.len())
                .map(|row| list.is_valid(row).then(|| place(list, row, 0)))
                .collect();
            (take(list.values(), &firsts, None)?, 1)
        }
    };
    let mut steps = vec![cast(&first, combined)?];
    // The step and the place in it of the latest value of each list.
    let mut latest: Vec<(usize, usize)> = (0..list.len()).map(|row| (0, row)).collect();
    let mut rows: Vec<usize> = (0..list.len()).filter(|&row| list.is_valid(row)).collect();
    for at in taken.. {
        rows.retain(|&row| length(list, row) > at);
        if rows.is_empty() {
            break;
        }
        // The lists of this step are among those of the step before.
        let before: UInt64Array = rows.iter().map(|&row| Some(latest[row].1 as u64)).collect();
        let before = take(&steps[steps.len() - 1], &before, None)?;
        let next: UInt64Array = rows.iter().map(|&row| Some(place(list, row, at))).collect();
        let next = take(list.values(), &next, None)?;
        let indices: UInt64Array = rows.iter().map(|&row| Some(row as u64)).collect();
        let result = lambda
            .evaluate(
                &[&|| Ok(Arc::clone(&before)), &|| Ok(Arc::clone(&next))],
                |captured| Ok(take_arrays(captured, &indices, None)?),
            )?
            .into_array(rows.len())?;
        for (place, &row) in rows.iter().enumerate() {
            latest[row] = (steps.len(), place);
        }
        steps.push(cast(&result, combined)?);
    }
    // A NULL list has no value, even with an initial value.
    let nulls = arrow::array::new_null_array(combined, 1);
    steps.push(nulls);
    for (row, place) in latest.iter_mut().enumerate() {
        if list.is_null(row) {
            *place = (steps.len() - 1, 0);
        }
    }
    let values: Vec<&dyn Array> = steps.iter().map(AsRef::as_ref).collect();
    Ok(interleave(&values, &latest)?)
}

/// The number of elements of a list.
fn length(list: &LargeListArray, row: usize) -> usize {
    usize::try_from(list.value_length(row)).unwrap_or(0)
}

/// The place of an element of a list in the values of all lists.
fn place(list: &LargeListArray, row: usize, element: usize) -> u64 {
    list.value_offsets()[row].unsigned_abs() + element as u64
}
