//! `date_trunc` and `date_bin` of timestamps in their own unit.
//!
//! DataFusion computes both in nanoseconds of 64 bits, which end in the year 2262. `date_bin` of a later
//! timestamp in coarser units was NULL, and `date_trunc` to a week, month, quarter or year failed. Constants
//! before 1970 were truncated towards 1970. Here timestamps keep their unit, and constants are columns of one
//! row. Timestamps in nanoseconds or with a time zone are DataFusion's. Kernels compute in the unit as well.

use arrow::array::{ArrayRef, AsArray, PrimitiveArray};
use arrow::datatypes::{
    ArrowTimestampType, DataType, FieldRef, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampSecondType,
};
use chrono::{DateTime, Datelike, Months, NaiveDate, TimeDelta, Utc};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::functions::datetime::date_bin::DateBinFunc;
use datafusion::functions::datetime::date_trunc::DateTruncFunc;
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use std::sync::Arc;

pub(crate) const DAY_SECONDS: i64 = 86_400;

const SECOND_NANOSECONDS: i64 = 1_000_000_000;

/// Number of timestamp units per second.
pub fn per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => SECOND_NANOSECONDS,
    }
}

/// The months and nanoseconds of the length of a bin; `None` if it is no interval of such parts.
pub(crate) fn bin_length(interval: &ScalarValue) -> Option<(i32, i64)> {
    let day = SECOND_NANOSECONDS * DAY_SECONDS;
    match interval {
        ScalarValue::IntervalDayTime(Some(value)) => {
            let days = i64::from(value.days).checked_mul(day)?;
            Some((0, days.checked_add(i64::from(value.milliseconds) * 1_000_000)?))
        }
        ScalarValue::IntervalMonthDayNano(Some(value)) => {
            let days = i64::from(value.days).checked_mul(day)?;
            Some((value.months, days.checked_add(value.nanoseconds)?))
        }
        _ => None,
    }
}

/// Our version of DataFusion's function, if it is one of the two.
#[must_use]
pub fn in_units(function: &Arc<ScalarUDF>) -> Option<Arc<ScalarUDF>> {
    let inner = function.inner();
    let computed = match (inner.is::<DateTruncFunc>(), inner.is::<DateBinFunc>()) {
        (true, _) => Function::Truncate,
        (_, true) => Function::Bin,
        _ => return None,
    };
    Some(Arc::new(ScalarUDF::new_from_impl(InUnits {
        inner: Arc::clone(function),
        function: computed,
    })))
}

/// Whether a function is a version of ours.
pub(crate) fn is_in_units(function: &ScalarUDF) -> bool {
    function.inner().is::<InUnits>()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Function {
    Truncate,
    Bin,
}

/// A function of timestamps in their own unit.
#[derive(Debug, PartialEq, Eq, Hash)]
struct InUnits {
    /// DataFusion's function.
    inner: Arc<ScalarUDF>,
    function: Function,
}

impl ScalarUDFImpl for InUnits {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arguments)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        self.inner.return_field_from_args(args)
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let ColumnarValue::Scalar(point) = &args.args[1] else {
            return self.of_rows(args);
        };
        if !matches!(point.data_type(), DataType::Timestamp(..)) {
            return self.inner.invoke_with_args(args);
        }
        args.args[1] = ColumnarValue::Array(point.to_array()?);
        let rows = self.of_rows(ScalarFunctionArgs {
            number_rows: 1,
            ..args
        })?;
        match rows {
            ColumnarValue::Array(rows) => ScalarValue::try_from_array(&rows, 0).map(ColumnarValue::Scalar),
            constant @ ColumnarValue::Scalar(_) => Ok(constant),
        }
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        self.inner.output_ordering(inputs)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}

impl InUnits {
    fn of_rows(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [ColumnarValue::Scalar(by), ColumnarValue::Array(points), rest @ ..] = args.args.as_slice()
        else {
            return self.inner.invoke_with_args(args);
        };
        let DataType::Timestamp(
            unit @ (TimeUnit::Second | TimeUnit::Millisecond | TimeUnit::Microsecond),
            None,
        ) = points.data_type()
        else {
            return self.inner.invoke_with_args(args);
        };
        let per_second = per_second(*unit);
        let rows = match self.function {
            Function::Truncate => match Calendar::of(by) {
                Some(to) => each(*unit, points, |point| to.start(point, per_second).map(Some))?,
                None => return self.inner.invoke_with_args(args),
            },
            Function::Bin => match Bins::of(by, rest, per_second) {
                Some(bins) => each(*unit, points, |point| Ok(bins.start(point)))?,
                None => return self.inner.invoke_with_args(args),
            },
        };
        Ok(ColumnarValue::Array(rows))
    }
}

/// The results for each row of a column without time zone.
fn each(unit: TimeUnit, points: &ArrayRef, of: impl Fn(i64) -> Result<Option<i64>>) -> Result<ArrayRef> {
    fn typed<T: ArrowTimestampType>(
        points: &ArrayRef,
        of: impl Fn(i64) -> Result<Option<i64>>,
    ) -> Result<ArrayRef> {
        let points = points.as_primitive::<T>().iter();
        let rows = points.map(|point| point.map_or(Ok(None), &of));
        Ok(Arc::new(rows.collect::<Result<PrimitiveArray<T>>>()?))
    }
    match unit {
        TimeUnit::Second => typed::<TimestampSecondType>(points, of),
        TimeUnit::Millisecond => typed::<TimestampMillisecondType>(points, of),
        _ => typed::<TimestampMicrosecondType>(points, of),
    }
}

/// A unit of the calendar.
#[derive(Debug, Clone, Copy)]
enum Calendar {
    Week,
    Month,
    Quarter,
    Year,
}

impl Calendar {
    /// `None` for units of one length, which DataFusion truncates without nanoseconds.
    fn of(unit: &ScalarValue) -> Option<Self> {
        let unit = unit.try_as_str()??.to_lowercase();
        match unit.as_str() {
            "week" => Some(Self::Week),
            "month" => Some(Self::Month),
            "quarter" => Some(Self::Quarter),
            "year" => Some(Self::Year),
            _ => None,
        }
    }

    fn start(self, point: i64, per_second: i64) -> Result<i64> {
        let date = date_of(point.div_euclid(per_second * DAY_SECONDS));
        let start = date.and_then(|date| match self {
            Self::Week => {
                date.checked_sub_signed(TimeDelta::days(date.weekday().num_days_from_monday().into()))
            }
            Self::Month => date.with_day(1),
            Self::Quarter => NaiveDate::from_ymd_opt(date.year(), date.month0() / 3 * 3 + 1, 1),
            Self::Year => NaiveDate::from_ymd_opt(date.year(), 1, 1),
        });
        let start = start
            .map(days_of)
            .and_then(|days| days.checked_mul(per_second * DAY_SECONDS));
        match start {
            Some(start) => Ok(start),
            None => exec_err!("Timestamp {point} out of range"),
        }
    }
}

/// Bins of one length, or of whole months.
#[derive(Debug)]
enum Bins {
    /// In the unit of the timestamps.
    Units { stride: i64, origin: i64 },
    /// In nanoseconds, `scale` a unit.
    Nanoseconds { stride: i128, origin: i128, scale: i128 },
    Months {
        stride: i64,
        origin: DateTime<Utc>,
        per_second: i64,
    },
}

impl Bins {
    /// `None` for arguments that DataFusion refuses.
    fn of(stride: &ScalarValue, origin: &[ColumnarValue], per_second: i64) -> Option<Self> {
        let (months, stride) = bin_length(stride)?;
        let origin = match origin {
            [] => 0,
            [ColumnarValue::Scalar(ScalarValue::TimestampNanosecond(Some(origin), _))] => *origin,
            _ => return None,
        };
        let scale = SECOND_NANOSECONDS / per_second;
        match (months, stride) {
            (0, 1..) if stride % scale == 0 && origin % scale == 0 => Some(Self::Units {
                stride: stride / scale,
                origin: origin / scale,
            }),
            (0, 1..) => Some(Self::Nanoseconds {
                stride: stride.into(),
                origin: origin.into(),
                scale: scale.into(),
            }),
            (1.., 0) => Some(Self::Months {
                stride: months.into(),
                origin: DateTime::from_timestamp_nanos(origin),
                per_second,
            }),
            _ => None,
        }
    }

    /// The start of the bin of a timestamp; `None` if it is out of range.
    fn start(&self, point: i64) -> Option<i64> {
        match *self {
            Self::Units { stride, origin } => {
                let distance = point.checked_sub(origin)?;
                distance
                    .checked_sub(distance.rem_euclid(stride))?
                    .checked_add(origin)
            }
            Self::Nanoseconds {
                stride,
                origin,
                scale,
            } => {
                let distance = i128::from(point) * scale - origin;
                let start = distance - distance.rem_euclid(stride) + origin;
                i64::try_from(start.div_euclid(scale)).ok()
            }
            Self::Months {
                stride,
                origin,
                per_second,
            } => {
                let fraction = point.rem_euclid(per_second) * (SECOND_NANOSECONDS / per_second);
                let point = DateTime::from_timestamp(point.div_euclid(per_second), fraction as u32)?;
                let month = |time: &DateTime<Utc>| i64::from(time.year()) * 12 + i64::from(time.month0());
                let months = (month(&point) - month(&origin)).div_euclid(stride) * stride;
                let mut start = shifted(origin, months)?;
                if start > point {
                    start = shifted(origin, months - stride)?;
                }
                let fraction = i64::from(start.timestamp_subsec_nanos()) / (SECOND_NANOSECONDS / per_second);
                start.timestamp().checked_mul(per_second)?.checked_add(fraction)
            }
        }
    }
}

fn shifted(origin: DateTime<Utc>, months: i64) -> Option<DateTime<Utc>> {
    let distance = Months::new(u32::try_from(months.unsigned_abs()).ok()?);
    match months < 0 {
        true => origin.checked_sub_months(distance),
        false => origin.checked_add_months(distance),
    }
}

fn date_of(days: i64) -> Option<NaiveDate> {
    NaiveDate::from_epoch_days(i32::try_from(days).ok()?)
}

fn days_of(date: NaiveDate) -> i64 {
    date.to_epoch_days().into()
}
