//! Casts of strings in common notations.
//!
//! Arrow reads one notation of each type: two digits for month and day, seconds in every time, no space
//! around numbers. Strings that Arrow does not read are parsed here in the notations that PostgreSQL and
//! DuckDB share:
//!
//! - white space around a value;
//! - `2011-5-6`, `2011/05/06`, `2011-05-06 12:34`, `2011-05-06T9:05`, with or without a time zone suffix;
//! - `1_000` in numbers.
//!
//! `1e3` and `4.0` are not integers, as in PostgreSQL. A string in none of these notations raises Arrow's
//! error, or is NULL under TRY_CAST. The same function evaluates casts of dictionaries on the device. Needed
//! as long as Arrow reads fewer notations (`datafusion_casts_fewer_string_notations` fails when it does not).

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, StringArray};
use arrow::compute::{CastOptions, cast, cast_with_options, kernels::zip::zip};
use arrow::datatypes::{DataType, FieldRef, Schema};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::expressions::{CastExpr, TryCastExpr};
use datafusion::physical_expr::{PhysicalExpr, PhysicalExprRef};

use super::string::is_utf8;

/// A cast of a string that reads more notations than the DataFusion cast it wraps.
#[derive(Debug, Clone)]
pub struct StringCast {
    /// DataFusion's cast.
    cast: PhysicalExprRef,
    input: PhysicalExprRef,
    /// Whether strings that cannot be read become NULL.
    safe: bool,
}

impl StringCast {
    /// The cast with more notations; `None` for expressions that do not cast strings to other types.
    pub fn of(expression: &PhysicalExprRef, schema: &Schema) -> Option<Self> {
        let (input, safe) = if let Some(cast) = expression.downcast_ref::<CastExpr>() {
            (cast.expr(), cast.cast_options().safe)
        } else {
            (expression.downcast_ref::<TryCastExpr>()?.expr(), true)
        };
        let from = input.data_type(schema).ok().filter(is_utf8)?;
        let to = expression.data_type(schema).ok()?;
        (from != to && reads(&to)).then(|| Self {
            cast: Arc::clone(expression),
            input: Arc::clone(input),
            safe,
        })
    }

    /// Whether strings that cannot be read become NULL.
    pub(crate) fn is_safe(&self) -> bool {
        self.safe
    }
}

/// Whether the type has notations that Arrow does not read.
fn reads(to: &DataType) -> bool {
    to.is_numeric() || matches!(to, DataType::Boolean) || is_time(to)
}

fn is_time(to: &DataType) -> bool {
    use DataType::{Date32, Date64, Timestamp};
    matches!(to, Date32 | Date64 | Timestamp(..))
}

/// Casts strings to a type; strings that cannot be read become NULL.
pub(crate) fn read(texts: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    let safe = CastOptions {
        safe: true,
        ..CastOptions::default()
    };
    let values = cast_with_options(texts, to, &safe)?;
    if values.null_count() == texts.null_count() {
        return Ok(values);
    }
    let texts = cast(texts, &DataType::Utf8)?;
    let plain = texts.as_string::<i32>().iter().enumerate().map(|(row, text)| {
        text.filter(|_| values.is_null(row))
            .and_then(|text| plain(text, to))
    });
    let plain: ArrayRef = Arc::new(plain.collect::<StringArray>());
    let read = cast_with_options(&plain, to, &safe)?;
    let is_read: BooleanArray = (0..values.len()).map(|row| Some(values.is_valid(row))).collect();
    Ok(zip(&is_read, &values, &read)?)
}

/// The string in the notation that Arrow reads for the type; `None` if it is in no supported notation.
fn plain(text: &str, to: &DataType) -> Option<String> {
    let text = text.trim();
    if is_time(to) {
        return plain_time(text);
    }
    if !to.is_numeric() || !text.contains('_') {
        return Some(text.to_owned());
    }
    let is_digit = |at: Option<usize>| {
        let letter = at.and_then(|at| text.as_bytes().get(at));
        letter.is_some_and(u8::is_ascii_digit)
    };
    // Underscores are only allowed between digits.
    let mut places = text.match_indices('_').map(|(at, _)| at);
    places
        .all(|at| is_digit(at.checked_sub(1)) && is_digit(Some(at + 1)))
        .then(|| text.replace('_', ""))
}

/// Converts `2011-5-6 9:05` to `2011-05-06T09:05:00`, and keeps the fraction and time zone.
fn plain_time(text: &str) -> Option<String> {
    let (year, rest) = number(text, 4..=4)?;
    let separator = rest.chars().next().filter(|letter| matches!(letter, '-' | '/'))?;
    let (month, rest) = number(rest.strip_prefix(separator)?, 1..=2)?;
    let (day, rest) = number(rest.strip_prefix(separator)?, 1..=2)?;
    let date = format!("{year}-{month:0>2}-{day:0>2}");
    if rest.is_empty() {
        return Some(date);
    }
    let (hour, rest) = number(rest.strip_prefix(['T', 't', ' '])?.trim_start(), 1..=2)?;
    let (minute, rest) = number(rest.strip_prefix(':')?, 1..=2)?;
    let (second, rest) = match rest.strip_prefix(':') {
        Some(rest) => number(rest, 1..=2)?,
        None => ("0", rest),
    };
    let digits = |rest: &str| {
        rest.len()
            - rest
                .trim_start_matches(|letter: char| letter.is_ascii_digit())
                .len()
    };
    let (fraction, zone) = match rest.strip_prefix('.') {
        Some(fraction) => rest.split_at(1 + digits(fraction)),
        None => ("", rest),
    };
    let zone = zone.trim_start();
    Some(format!(
        "{date}T{hour:0>2}:{minute:0>2}:{second:0>2}{fraction}{zone}"
    ))
}

/// Splits off the digits at the start of a string, if their number is within `length`.
fn number(text: &str, length: std::ops::RangeInclusive<usize>) -> Option<(&str, &str)> {
    let end = text
        .find(|letter: char| !letter.is_ascii_digit())
        .unwrap_or(text.len());
    length.contains(&end).then(|| text.split_at(end))
}

impl PartialEq for StringCast {
    fn eq(&self, other: &Self) -> bool {
        self.cast.eq(&other.cast)
    }
}

impl Eq for StringCast {}

impl Hash for StringCast {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.cast.hash(state);
    }
}

impl fmt::Display for StringCast {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cast.fmt(f)
    }
}

impl PhysicalExpr for StringCast {
    fn data_type(&self, schema: &Schema) -> Result<DataType> {
        self.cast.data_type(schema)
    }

    fn nullable(&self, schema: &Schema) -> Result<bool> {
        self.cast.nullable(schema)
    }

    fn return_field(&self, schema: &Schema) -> Result<FieldRef> {
        self.cast.return_field(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let input = self.input.evaluate(batch)?;
        let to = self.cast.data_type(&batch.schema())?;
        let (texts, is_scalar) = match &input {
            ColumnarValue::Array(array) => (Arc::clone(array), false),
            ColumnarValue::Scalar(scalar) => (scalar.to_array()?, true),
        };
        let values = read(&texts, &to)?;
        if !self.safe && values.null_count() > texts.null_count() {
            // DataFusion's cast reports the invalid string.
            let wrong: BooleanArray = (0..texts.len())
                .map(|row| Some(values.is_null(row) && texts.is_valid(row)))
                .collect();
            let wrong = arrow::compute::filter(&texts, &wrong)?;
            let options = CastOptions {
                safe: false,
                ..CastOptions::default()
            };
            cast_with_options(&wrong, &to, &options)?;
        }
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&values, 0)?),
            false => ColumnarValue::Array(values),
        })
    }

    fn children(&self) -> Vec<&PhysicalExprRef> {
        vec![&self.input]
    }

    fn with_new_children(self: Arc<Self>, children: Vec<PhysicalExprRef>) -> Result<PhysicalExprRef> {
        let input = Arc::clone(&children[0]);
        let cast = Arc::clone(&self.cast).with_new_children(children)?;
        Ok(Arc::new(Self {
            cast,
            input,
            safe: self.safe,
        }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cast.fmt_sql(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn date_and_time_notations_are_normalised() {
        for (text, expected) in [
            ("2011-05-06 12:34", "2011-05-06T12:34:00"),
            (" 2011-5-6 ", "2011-05-06"),
            ("2011/5/6T9:05", "2011-05-06T09:05:00"),
            ("2011-05-06 1:2:3.25 +02:00", "2011-05-06T01:02:03.25+02:00"),
            ("2011-05-06 12:34Z", "2011-05-06T12:34:00Z"),
        ] {
            assert_eq!(plain_time(text.trim()).as_deref(), Some(expected), "{text}");
        }
        for text in [
            "",
            "2011",
            "2011-05",
            "11-5-6",
            "2011-05/06",
            "2011-05-06 12",
            "2011-05-06x12:34",
        ] {
            assert_eq!(plain_time(text), None, "{text}");
        }
    }

    #[test]
    fn underscores_are_accepted_only_between_digits() {
        let plain = |text| plain(text, &DataType::Int64);
        assert_eq!(plain("1_000_000").as_deref(), Some("1000000"));
        assert_eq!(plain(" 42 ").as_deref(), Some("42"));
        for text in ["_1", "1_", "1__0", "1_e3"] {
            assert_eq!(plain(text), None, "{text}");
        }
    }
}
