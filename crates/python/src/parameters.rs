//! Parameters of statements: `?` and `$1` by position, `$name` by name.

use std::borrow::Cow;
use std::collections::HashMap;

use arrow::datatypes::{DataType, i256};
use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta, Timelike, Utc};
use datafusion::config::Dialect;
use datafusion::scalar::ScalarValue as Scalar;
use galatea::{BoundStatement, PlaceholderError, Placeholders};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyByteArray, PyBytes, PyFloat, PyInt, PyList, PyMapping, PyString, PyTuple};

use crate::errors::{InterfaceError, ProgrammingError};

/// Converts `parameters`, a sequence or a mapping, for `statement`. Its placeholders become `$1`, `$2`, ...,
/// and those of NULL become `NULL`.
///
/// # Errors
/// [`ProgrammingError`] if placeholders and values do not match; [`InterfaceError`] for a value without a SQL
/// type.
pub(crate) fn bind<'s>(
    statement: &'s str,
    dialect: Dialect,
    parameters: Option<&Bound<'_, PyAny>>,
) -> PyResult<BoundStatement<'s>> {
    let Some(parameters) = parameters else {
        return Ok(BoundStatement {
            text: Cow::Borrowed(statement),
            values: Vec::new(),
        });
    };
    let placeholders = Placeholders::of(statement, dialect);
    let mut named = HashMap::new();
    if let Ok(mapping) = parameters.cast::<PyMapping>() {
        for item in mapping.items()? {
            let (name, value): (String, Bound<'_, PyAny>) = item.extract()?;
            named.insert(name, scalar(&value)?);
        }
        placeholders.check_names(&named).map_err(wrong)?;
    } else if is_sequence(parameters) {
        let values = parameters.try_iter()?.map(|value| scalar(&value?));
        let values = values.collect::<PyResult<Vec<_>>>()?;
        placeholders.check_count(values.len()).map_err(wrong)?;
        named.extend((1..).map(|number: usize| number.to_string()).zip(values));
    } else {
        return Err(InterfaceError::new_err(format!(
            "parameters are a list, a tuple or a dictionary, not {}",
            parameters.get_type().name()?
        )));
    }
    Ok(placeholders.numbered(statement, &named))
}

fn wrong(error: PlaceholderError) -> PyErr {
    ProgrammingError::new_err(error.to_string())
}

fn is_sequence(value: &Bound<'_, PyAny>) -> bool {
    value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>()
}

/// The SQL value of a Python value.
fn scalar(value: &Bound<'_, PyAny>) -> PyResult<Scalar> {
    let py = value.py();
    if value.is_none() {
        return Ok(Scalar::Null);
    }
    if let Ok(value) = value.cast::<PyBool>() {
        return Ok(Scalar::Boolean(Some(value.is_true())));
    }
    if value.is_instance_of::<PyInt>() {
        return integer(value);
    }
    if value.is_instance_of::<PyFloat>() {
        return Ok(Scalar::Float64(Some(value.extract()?)));
    }
    if value.is_instance_of::<PyString>() {
        return Ok(Scalar::Utf8(Some(value.extract()?)));
    }
    if value.is_instance_of::<PyBytes>() || value.is_instance_of::<PyByteArray>() {
        return Ok(Scalar::Binary(Some(value.extract()?)));
    }
    if is_sequence(value) {
        return list(value);
    }
    let datetime = py.import(intern!(py, "datetime"))?;
    let is_a = |name: &str| value.is_instance(&datetime.getattr(name)?);
    if is_a("datetime")? {
        return timestamp(value);
    }
    if is_a("date")? {
        return Ok(Scalar::Date32(Some(days(value.extract()?))));
    }
    if is_a("time")? {
        let time: NaiveTime = value.extract()?;
        let seconds = i64::from(time.num_seconds_from_midnight());
        let micros = seconds * 1_000_000 + i64::from(time.nanosecond() / 1_000);
        return Ok(Scalar::Time64Microsecond(Some(micros)));
    }
    if is_a("timedelta")? {
        let delta: TimeDelta = value.extract()?;
        let nanos = delta.num_nanoseconds().ok_or_else(|| {
            InterfaceError::new_err(format!("a timedelta of {} days is too long", delta.num_days()))
        })?;
        return Ok(Scalar::new_interval_mdn(0, 0, nanos));
    }
    let decimal = py
        .import(intern!(py, "decimal"))?
        .getattr(intern!(py, "Decimal"))?;
    if value.is_instance(&decimal)? {
        return decimal_scalar(value);
    }
    let uuid = py.import(intern!(py, "uuid"))?.getattr(intern!(py, "UUID"))?;
    if value.is_instance(&uuid)? {
        return Ok(Scalar::Utf8(Some(value.str()?.extract()?)));
    }
    // Scalars of NumPy and Arrow, which become Python values.
    for method in ["item", "as_py"] {
        if value.hasattr(method)? {
            let plain = value.call_method0(method)?;
            if !plain.get_type().is(value.get_type()) {
                return scalar(&plain);
            }
        }
    }
    Err(InterfaceError::new_err(format!(
        "a parameter cannot have the type {}\nhint: types are None, bool, int, float, str, bytes, Decimal, date, \
         datetime, time, timedelta, UUID, and lists of them",
        value.get_type().name()?
    )))
}

fn integer(value: &Bound<'_, PyAny>) -> PyResult<Scalar> {
    if let Ok(value) = value.extract::<i64>() {
        return Ok(Scalar::Int64(Some(value)));
    }
    if let Ok(value) = value.extract::<u64>() {
        return Ok(Scalar::UInt64(Some(value)));
    }
    digits(&value.str()?.extract::<String>()?, 0)
}

/// The days since 1970-01-01.
fn days(date: NaiveDate) -> i32 {
    let days = date.signed_duration_since(NaiveDate::default()).num_days();
    // Dates of Python are in the years 1 to 9999.
    i32::try_from(days).unwrap_or_default()
}

/// A timestamp with microseconds; with a time zone, in UTC.
fn timestamp(value: &Bound<'_, PyAny>) -> PyResult<Scalar> {
    let py = value.py();
    if value.getattr(intern!(py, "tzinfo"))?.is_none() {
        let value: NaiveDateTime = value.extract()?;
        return Ok(Scalar::TimestampMicrosecond(
            Some(value.and_utc().timestamp_micros()),
            None,
        ));
    }
    let utc = py
        .import(intern!(py, "datetime"))?
        .getattr(intern!(py, "timezone"))?
        .getattr(intern!(py, "utc"))?;
    let value: DateTime<Utc> = value.call_method1(intern!(py, "astimezone"), (utc,))?.extract()?;
    Ok(Scalar::TimestampMicrosecond(
        Some(value.timestamp_micros()),
        Some("UTC".into()),
    ))
}

/// A `decimal.Decimal`, with its own precision and scale.
fn decimal_scalar(value: &Bound<'_, PyAny>) -> PyResult<Scalar> {
    let (sign, digits_of, exponent): (u8, Vec<u8>, Bound<'_, PyAny>) =
        value.call_method0("as_tuple")?.extract()?;
    // NaN and infinities have letters as exponents.
    let Ok(exponent) = exponent.extract::<i32>() else {
        return Ok(Scalar::Float64(Some(value.call_method0("__float__")?.extract()?)));
    };
    let mut text: String = digits_of.iter().map(|digit| char::from(b'0' + digit)).collect();
    if sign == 1 {
        text.insert(0, '-');
    }
    if exponent > 0 {
        let zeros = usize::try_from(exponent.min(100)).unwrap_or_default();
        text += &"0".repeat(zeros);
    }
    digits(&text, exponent.min(0).unsigned_abs())
}

/// A decimal of these digits; the last `scale` of them follow the point.
fn digits(text: &str, scale: u32) -> PyResult<Scalar> {
    let count = text.trim_start_matches('-').trim_start_matches('0').len();
    let precision = count.max(scale as usize).max(1);
    let too_long = || {
        InterfaceError::new_err(format!(
            "a number with {precision} digits is too long, at most 76 are possible"
        ))
    };
    let precision = u8::try_from(precision).map_err(|_| too_long())?;
    let scale = i8::try_from(scale).map_err(|_| too_long())?;
    if precision <= 38 {
        let value = text.parse::<i128>().map_err(|_| too_long())?;
        return Ok(Scalar::Decimal128(Some(value), precision, scale));
    }
    if precision > 76 {
        return Err(too_long());
    }
    let value = i256::from_string(text).ok_or_else(too_long)?;
    Ok(Scalar::Decimal256(Some(value), precision, scale))
}

/// A list. Its elements have one type; NULL elements have the type of the others.
fn list(value: &Bound<'_, PyAny>) -> PyResult<Scalar> {
    let items = value
        .try_iter()?
        .map(|item| scalar(&item?))
        .collect::<PyResult<Vec<_>>>()?;
    let types = items.iter().map(Scalar::data_type);
    let item_type = types
        .filter(|found| *found != DataType::Null)
        .fold(None, |first, found| match first {
            None => Some(found),
            // Integers and floats of one list are floats.
            Some(DataType::Int64) if found == DataType::Float64 => Some(found),
            first => first,
        });
    let item_type = item_type.unwrap_or(DataType::Null);
    let cast = items
        .iter()
        .map(|item| item.cast_to(&item_type))
        .collect::<Result<Vec<_>, _>>();
    let cast = cast.map_err(|cause| {
        InterfaceError::new_err(format!("the elements of a list have different types: {cause}"))
    })?;
    Ok(Scalar::List(Scalar::new_list(&cast, &item_type, true)))
}
