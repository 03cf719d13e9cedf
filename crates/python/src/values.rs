//! Arrow values as Python values.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{
    DataType, Date32Type, Date64Type, DurationMicrosecondType, DurationMillisecondType,
    DurationNanosecondType, DurationSecondType, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type,
    Int32Type, Int64Type, IntervalDayTimeType, IntervalMonthDayNanoType, IntervalUnit, IntervalYearMonthType,
    Time32MillisecondType, Time32SecondType, Time64MicrosecondType, Time64NanosecondType, TimeUnit,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow::util::display::array_value_to_string;
use chrono::{DateTime, NaiveDate, NaiveTime, TimeDelta};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};

use crate::errors::{DataError, InterfaceError, NotSupportedError};

/// The rows of a batch, each a tuple.
///
/// # Errors
/// Those of [`Converter::value`].
pub(crate) fn rows<'py>(py: Python<'py>, batch: &RecordBatch) -> PyResult<Vec<Bound<'py, PyTuple>>> {
    let converter = Converter::new(py)?;
    let row = |row| {
        let cells = batch.columns().iter().map(|column| converter.value(column, row));
        PyTuple::new(py, cells.collect::<PyResult<Vec<_>>>()?)
    };
    (0..batch.num_rows()).map(row).collect()
}

/// Converts values with the classes of Python's standard library.
struct Converter<'py> {
    py: Python<'py>,
    decimal: Bound<'py, PyAny>,
    datetime: Bound<'py, PyModule>,
    zone_info: Bound<'py, PyAny>,
}

macro_rules! primitive {
    ($self:ident, $array:ident, $row:ident, $type:ty) => {
        $array
            .as_primitive::<$type>()
            .value($row)
            .into_bound_py_any($self.py)
    };
}

impl<'py> Converter<'py> {
    fn new(py: Python<'py>) -> PyResult<Self> {
        Ok(Self {
            py,
            decimal: py.import("decimal")?.getattr("Decimal")?,
            datetime: py.import("datetime")?,
            zone_info: py.import("zoneinfo")?.getattr("ZoneInfo")?,
        })
    }

    /// The value of a row: `None`, `bool`, `int`, `float`, `Decimal`, `str`, `bytes`, `date`, `time`,
    /// `datetime`, `timedelta`, `list` for lists, `dict` for structs and maps. Times lose nanoseconds.
    ///
    /// # Errors
    /// [`DataError`] for a date that Python cannot represent; [`NotSupportedError`] for intervals of months.
    fn value(&self, array: &ArrayRef, row: usize) -> PyResult<Bound<'py, PyAny>> {
        let py = self.py;
        if array.is_null(row) {
            return Ok(py.None().into_bound(py));
        }
        match array.data_type() {
            DataType::Null => Ok(py.None().into_bound(py)),
            DataType::Boolean => array.as_boolean().value(row).into_bound_py_any(py),
            DataType::Int8 => primitive!(self, array, row, Int8Type),
            DataType::Int16 => primitive!(self, array, row, Int16Type),
            DataType::Int32 => primitive!(self, array, row, Int32Type),
            DataType::Int64 => primitive!(self, array, row, Int64Type),
            DataType::UInt8 => primitive!(self, array, row, UInt8Type),
            DataType::UInt16 => primitive!(self, array, row, UInt16Type),
            DataType::UInt32 => primitive!(self, array, row, UInt32Type),
            DataType::UInt64 => primitive!(self, array, row, UInt64Type),
            DataType::Float16 => array
                .as_primitive::<Float16Type>()
                .value(row)
                .to_f64()
                .into_bound_py_any(py),
            DataType::Float32 => primitive!(self, array, row, Float32Type),
            DataType::Float64 => primitive!(self, array, row, Float64Type),
            DataType::Utf8 => array.as_string::<i32>().value(row).into_bound_py_any(py),
            DataType::LargeUtf8 => array.as_string::<i64>().value(row).into_bound_py_any(py),
            DataType::Utf8View => array.as_string_view().value(row).into_bound_py_any(py),
            DataType::Binary => self.bytes(array.as_binary::<i32>().value(row)),
            DataType::LargeBinary => self.bytes(array.as_binary::<i64>().value(row)),
            DataType::BinaryView => self.bytes(array.as_binary_view().value(row)),
            DataType::FixedSizeBinary(_) => self.bytes(array.as_fixed_size_binary().value(row)),
            DataType::Decimal32(..)
            | DataType::Decimal64(..)
            | DataType::Decimal128(..)
            | DataType::Decimal256(..) => self.decimal.call1((text(array, row)?,)),
            DataType::List(_) => self.list(&array.as_list::<i32>().value(row)),
            DataType::LargeList(_) => self.list(&array.as_list::<i64>().value(row)),
            DataType::ListView(_) => self.list(&array.as_list_view::<i32>().value(row)),
            DataType::LargeListView(_) => self.list(&array.as_list_view::<i64>().value(row)),
            DataType::FixedSizeList(..) => self.list(&array.as_fixed_size_list().value(row)),
            DataType::Struct(fields) => {
                let columns = array.as_struct().columns();
                let dict = PyDict::new(py);
                for (field, column) in fields.iter().zip(columns) {
                    dict.set_item(field.name(), self.value(column, row)?)?;
                }
                Ok(dict.into_any())
            }
            DataType::Map(..) => {
                let entries = array.as_map().value(row);
                let dict = PyDict::new(py);
                for entry in 0..entries.len() {
                    let (key, value) = (entries.column(0), entries.column(1));
                    dict.set_item(self.value(key, entry)?, self.value(value, entry)?)?;
                }
                Ok(dict.into_any())
            }
            DataType::Dictionary(..) => {
                let array = array.as_any_dictionary();
                self.value(array.values(), array.normalized_keys()[row])
            }
            _ => self.time(array, row),
        }
    }

    /// The value of a date, time, duration or interval.
    fn time(&self, array: &ArrayRef, row: usize) -> PyResult<Bound<'py, PyAny>> {
        match array.data_type() {
            DataType::Date32 => {
                let days = i64::from(array.as_primitive::<Date32Type>().value(row));
                self.date(days, array, row)
            }
            DataType::Date64 => {
                let days = array
                    .as_primitive::<Date64Type>()
                    .value(row)
                    .div_euclid(86_400_000);
                self.date(days, array, row)
            }
            DataType::Time32(TimeUnit::Second) => {
                self.time_of_day(i64::from(array.as_primitive::<Time32SecondType>().value(row)) * 1_000_000)
            }
            DataType::Time32(_) => {
                self.time_of_day(i64::from(array.as_primitive::<Time32MillisecondType>().value(row)) * 1_000)
            }
            DataType::Time64(TimeUnit::Microsecond) => {
                self.time_of_day(array.as_primitive::<Time64MicrosecondType>().value(row))
            }
            DataType::Time64(_) => {
                self.time_of_day(array.as_primitive::<Time64NanosecondType>().value(row) / 1_000)
            }
            DataType::Timestamp(unit, zone) => {
                let micros = match unit {
                    TimeUnit::Second => {
                        i128::from(array.as_primitive::<TimestampSecondType>().value(row)) * 1_000_000
                    }
                    TimeUnit::Millisecond => {
                        i128::from(array.as_primitive::<TimestampMillisecondType>().value(row)) * 1_000
                    }
                    TimeUnit::Microsecond => {
                        i128::from(array.as_primitive::<TimestampMicrosecondType>().value(row))
                    }
                    TimeUnit::Nanosecond => {
                        i128::from(array.as_primitive::<TimestampNanosecondType>().value(row))
                            .div_euclid(1_000)
                    }
                };
                self.timestamp(micros, zone.as_deref(), array, row)
            }
            DataType::Duration(unit) => {
                let nanos = match unit {
                    TimeUnit::Second => {
                        i128::from(array.as_primitive::<DurationSecondType>().value(row)) * 1_000_000_000
                    }
                    TimeUnit::Millisecond => {
                        i128::from(array.as_primitive::<DurationMillisecondType>().value(row)) * 1_000_000
                    }
                    TimeUnit::Microsecond => {
                        i128::from(array.as_primitive::<DurationMicrosecondType>().value(row)) * 1_000
                    }
                    TimeUnit::Nanosecond => {
                        i128::from(array.as_primitive::<DurationNanosecondType>().value(row))
                    }
                };
                self.delta(0, nanos, array, row)
            }
            DataType::Interval(unit) => {
                let (months, days, nanos) = match unit {
                    IntervalUnit::YearMonth => {
                        (array.as_primitive::<IntervalYearMonthType>().value(row), 0, 0)
                    }
                    IntervalUnit::DayTime => {
                        let value = array.as_primitive::<IntervalDayTimeType>().value(row);
                        (0, value.days, i64::from(value.milliseconds) * 1_000_000)
                    }
                    IntervalUnit::MonthDayNano => {
                        let value = array.as_primitive::<IntervalMonthDayNanoType>().value(row);
                        (value.months, value.days, value.nanoseconds)
                    }
                };
                if months != 0 {
                    return Err(NotSupportedError::new_err(format!(
                        "Python has no type for the interval {}, which has months\nhint: CAST(... AS VARCHAR), or arrow()",
                        text(array, row)?
                    )));
                }
                self.delta(i64::from(days), i128::from(nanos), array, row)
            }
            other => Err(NotSupportedError::new_err(format!(
                "Python has no type for {other}\nhint: CAST(... AS VARCHAR), or arrow()"
            ))),
        }
    }

    fn bytes(&self, value: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        Ok(PyBytes::new(self.py, value).into_any())
    }

    fn list(&self, items: &ArrayRef) -> PyResult<Bound<'py, PyAny>> {
        let items = (0..items.len()).map(|item| self.value(items, item));
        Ok(PyList::new(self.py, items.collect::<PyResult<Vec<_>>>()?)?.into_any())
    }

    fn date(&self, days: i64, array: &ArrayRef, row: usize) -> PyResult<Bound<'py, PyAny>> {
        let date = TimeDelta::try_days(days).and_then(|days| NaiveDate::default().checked_add_signed(days));
        let date = date.ok_or_else(|| beyond(array, row))?;
        date.into_bound_py_any(self.py).map_err(|_| beyond(array, row))
    }

    fn time_of_day(&self, micros: i64) -> PyResult<Bound<'py, PyAny>> {
        let seconds = u32::try_from(micros.div_euclid(1_000_000)).unwrap_or_default();
        let nanos = u32::try_from(micros.rem_euclid(1_000_000) * 1_000).unwrap_or_default();
        let time = NaiveTime::from_num_seconds_from_midnight_opt(seconds, nanos);
        let time = time.ok_or_else(|| DataError::new_err("a time is beyond the day"))?;
        time.into_bound_py_any(self.py)
    }

    /// A timestamp in UTC, shown in its time zone.
    fn timestamp(
        &self,
        micros: i128,
        zone: Option<&str>,
        array: &ArrayRef,
        row: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        let instant = i64::try_from(micros)
            .ok()
            .and_then(DateTime::from_timestamp_micros);
        let instant = instant.ok_or_else(|| beyond(array, row))?;
        let Some(zone) = zone else {
            let naive = instant.naive_utc();
            return naive.into_bound_py_any(self.py).map_err(|_| beyond(array, row));
        };
        let instant = instant
            .into_bound_py_any(self.py)
            .map_err(|_| beyond(array, row))?;
        instant.call_method1("astimezone", (self.zone(zone)?,))
    }

    /// A time zone by its name, or by its offset (`+02:00`).
    fn zone(&self, name: &str) -> PyResult<Bound<'py, PyAny>> {
        let timezone = self.datetime.getattr("timezone")?;
        if name == "UTC" {
            return timezone.getattr("utc");
        }
        let Some(sign) = name.chars().next().filter(|first| matches!(first, '+' | '-')) else {
            return self.zone_info.call1((name,));
        };
        let digits: String = name.chars().filter(char::is_ascii_digit).collect();
        let number = |digits: Option<&str>| digits.and_then(|digits| digits.parse::<i64>().ok());
        let (Some(hours), minutes) = (number(digits.get(..2)), number(digits.get(2..4)).unwrap_or(0)) else {
            return Err(InterfaceError::new_err(format!("unknown time zone: {name}")));
        };
        let minutes = (60 * hours + minutes) * if sign == '-' { -1 } else { 1 };
        timezone.call1((TimeDelta::minutes(minutes),))
    }

    fn delta(&self, days: i64, nanos: i128, array: &ArrayRef, row: usize) -> PyResult<Bound<'py, PyAny>> {
        let micros = nanos.div_euclid(1_000) + i128::from(days) * 86_400_000_000;
        let micros = i64::try_from(micros).map_err(|_| beyond(array, row))?;
        let delta = TimeDelta::microseconds(micros);
        delta.into_bound_py_any(self.py).map_err(|_| beyond(array, row))
    }
}

fn text(array: &ArrayRef, row: usize) -> PyResult<String> {
    array_value_to_string(array, row).map_err(|cause| DataError::new_err(cause.to_string()))
}

/// The error of a value beyond the range of Python's class.
fn beyond(array: &ArrayRef, row: usize) -> PyErr {
    let value = text(array, row).unwrap_or_else(|_| "a date".to_string());
    DataError::new_err(format!(
        "Python cannot represent {value}: its years are 1 to 9999\nhint: CAST(... AS VARCHAR), or arrow()"
    ))
}
