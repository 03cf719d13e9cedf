//! `format('{} is {:.2f}', a, b)` and `printf('%s is %.2f', a, b)`: strings with values in them.
//!
//! The specifications are those of DuckDB, which has them from the C++ library fmt. Integers, floats,
//! booleans and strings have their own; a decimal is a float, and a value of another type is its string. The
//! result is NULL if an argument is.

mod spec;
mod template;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringArray};
use arrow::datatypes::{DataType, Decimal128Type, Float64Type};
use datafusion::common::{exec_datafusion_err, exec_err};
use datafusion::error::Result;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};

use super::wrong_arguments;
use spec::{Style, Value};
use template::Piece;

/// One of the functions.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Format {
    signature: Signature,
    style: Style,
}

impl Format {
    /// The function `format`.
    pub(super) fn of_braces() -> Self {
        Self {
            signature: Signature::user_defined(Volatility::Immutable),
            style: Style::Braces,
        }
    }

    /// The function `printf`.
    pub(super) fn of_percents() -> Self {
        Self {
            style: Style::Percents,
            ..Self::of_braces()
        }
    }
}

/// The type that an argument is converted to.
fn converted(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Boolean => DataType::Boolean,
        own if own.is_integer() => DataType::Decimal128(38, 0),
        own if own.is_floating() || own.is_decimal() => DataType::Float64,
        _ => DataType::Utf8,
    }
}

impl ScalarUDFImpl for Format {
    fn name(&self) -> &'static str {
        match self.style {
            Style::Braces => "format",
            Style::Percents => "printf",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [template, values @ ..] if template.is_string() || template.is_null() => {
                let mut all = vec![DataType::Utf8];
                all.extend(values.iter().cloned());
                Ok(all)
            }
            types => {
                let example = match self.style {
                    Style::Braces => "format('{} is {:.2f}', name, price)",
                    Style::Percents => "printf('%s is %.2f', name, price)",
                };
                wrong_arguments(self.name(), "a string and values", types, example)
            }
        }
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let [template, values @ ..] = args.args.as_slice() else {
            return exec_err!("{} needs a string", self.name());
        };
        let templates = super::strings::strings(template, rows)?;
        let values = values.iter().map(|value| column(value, rows));
        let values: Vec<ArrayRef> = values.collect::<Result<_>>()?;
        let mut known: Option<(String, Vec<Piece>)> = None;
        let mut results: Vec<Option<String>> = Vec::with_capacity(rows);
        for row in 0..rows {
            if templates.is_null(row) || values.iter().any(|value| value.is_null(row)) {
                results.push(None);
                continue;
            }
            let text = templates.value(row);
            let failed = |problem: String| {
                exec_datafusion_err!("{} cannot use the string {text}: {problem}", self.name())
            };
            let pieces = match &known {
                Some((same, pieces)) if same == text => pieces,
                _ => {
                    let pieces = template::pieces(text, self.style).map_err(failed)?;
                    &known.insert((text.to_owned(), pieces)).1
                }
            };
            results.push(Some(written(pieces, &values, row, self.style).map_err(failed)?));
        }
        Ok(ColumnarValue::Array(
            Arc::new(StringArray::from(results)) as ArrayRef
        ))
    }
}

/// The values of an argument.
fn column(value: &ColumnarValue, rows: usize) -> Result<ArrayRef> {
    let own = value.data_type();
    let array = value.cast_to(&converted(&own), None)?.to_array(rows)?;
    // A time has a space between its date and the time of its day.
    match own {
        DataType::Timestamp(_, None) => {
            let spaced = array.as_string::<i32>().iter();
            let spaced = spaced.map(|text| text.map(|text| text.replacen('T', " ", 1)));
            Ok(Arc::new(spaced.collect::<StringArray>()))
        }
        _ => Ok(array),
    }
}

/// The value of a row.
fn value(values: &ArrayRef, row: usize) -> Value {
    match values.data_type() {
        DataType::Boolean => Value::Bool(values.as_boolean().value(row)),
        DataType::Decimal128(..) => Value::Int(values.as_primitive::<Decimal128Type>().value(row)),
        DataType::Float64 => Value::Float(values.as_primitive::<Float64Type>().value(row)),
        _ => Value::Text(values.as_string::<i32>().value(row).to_owned()),
    }
}

fn written(pieces: &[Piece], values: &[ArrayRef], row: usize, style: Style) -> Result<String, String> {
    let mut text = String::new();
    for piece in pieces {
        match piece {
            Piece::Text(part) => text.push_str(part),
            Piece::Argument(index, spec) => {
                let values = values.get(*index).ok_or_else(|| {
                    format!("it has no argument {}, as there are {}", index + 1, values.len())
                })?;
                text.push_str(&spec.written(&value(values, row), style)?);
            }
        }
    }
    Ok(text)
}
