//! `date_sub(unit, from, to)`, the number of whole units between two times, and `time_bucket(width, time)`.
//!
//! Both become expressions of other functions where these have the same values, so that they run on the
//! device: integer arithmetic for units of a fixed length, and `date_bin` for buckets.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Int64Array};
use arrow::datatypes::{DataType, IntervalUnit, TimeUnit};
use chrono::{Datelike, NaiveDateTime};
use datafusion::common::{ScalarValue, exec_err, plan_err};
use datafusion::error::Result;
use datafusion::functions::datetime::expr_fn::date_bin;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility, cast, lit,
};

use super::strings::strings;
use super::times::{MICROS, age, date_time, days_of, is_time, micros};
use super::wrong_arguments;

/// Units of a fixed number of microseconds.
const FIXED: [(&str, i64); 8] = [
    ("week", 604_800_000_000),
    ("day", 86_400_000_000),
    ("dayofmonth", 86_400_000_000),
    ("hour", 3_600_000_000),
    ("minute", 60_000_000),
    ("second", 1_000_000),
    ("millisecond", 1000),
    ("microsecond", 1),
];

/// Units of a number of months.
const MONTHS: [(&str, i64); 6] = [
    ("millennium", 12_000),
    ("century", 1200),
    ("decade", 120),
    ("year", 12),
    ("quarter", 3),
    ("month", 1),
];

/// A unit of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Micros(i64),
    Months(i64),
}

impl Unit {
    fn of(name: &str) -> Result<Self> {
        let lower = name.to_ascii_lowercase();
        let singular = match lower.as_str() {
            "centuries" => "century",
            "millennia" => "millennium",
            other => other.strip_suffix('s').unwrap_or(other),
        };
        let find = |units: &[(&str, i64)]| {
            units
                .iter()
                .find(|(unit, _)| *unit == singular)
                .map(|unit| unit.1)
        };
        let unit = find(&FIXED).map(Self::Micros);
        match unit.or_else(|| find(&MONTHS).map(Self::Months)) {
            Some(unit) => Ok(unit),
            None => exec_err!(
                "date_sub has no unit {name}\nhint: units are microsecond, millisecond, second, minute, hour, day, \
                 week, month, quarter, year, decade, century and millennium"
            ),
        }
    }

    fn between(self, from: i64, to: i64) -> Result<i64> {
        match self {
            Self::Micros(unit) => Ok((to - from) / unit),
            Self::Months(unit) => Ok(months(from, to)? / unit),
        }
    }
}

/// The number of whole months. The last day of a month ends the month of every later day.
fn months(from: i64, to: i64) -> Result<i64> {
    if from > to {
        return Ok(-months(to, from)?);
    }
    let (earlier, later) = (date_time(from)?, date_time(to)?);
    let last = days_of(&later);
    let mut from = from;
    if i64::from(later.day()) == last {
        let day = i64::from(earlier.day());
        if day > last || (day == last && earlier.time() < later.time()) {
            // The same time on a day with the number of the other one.
            let back =
                NaiveDateTime::new(earlier.date(), earlier.time()) - chrono::Duration::days(day - last);
            from = back.and_utc().timestamp_micros();
        }
    }
    let (months, _, _) = age(to, from)?;
    Ok(months)
}

/// The function `date_sub`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct DateSub {
    signature: Signature,
    aliases: Vec<String>,
}

impl DateSub {
    pub(super) fn new() -> Self {
        Self {
            signature: Signature::user_defined(Volatility::Immutable),
            aliases: vec!["datesub".to_owned()],
        }
    }
}

/// The string of a literal.
fn literal(expression: &Expr) -> Option<&str> {
    match expression {
        Expr::Literal(value, _) => value.try_as_str().flatten(),
        _ => None,
    }
}

impl ScalarUDFImpl for DateSub {
    fn name(&self) -> &'static str {
        "date_sub"
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [unit, from, to] if (unit.is_string() || unit.is_null()) && is_time(from) && is_time(to) => {
                Ok(vec![DataType::Utf8, MICROS, MICROS])
            }
            _ => wrong_arguments(
                self.name(),
                "a unit and two times",
                types,
                "date_sub('month', DATE '2024-01-31', DATE '2024-02-29')",
            ),
        }
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn simplify(&self, args: Vec<Expr>, _info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let unit = match args.first().and_then(literal) {
            Some(unit) => Unit::of(unit)?,
            None => return Ok(ExprSimplifyResult::Original(args)),
        };
        let (Unit::Micros(unit), [_, from, to]) = (unit, args.as_slice()) else {
            return Ok(ExprSimplifyResult::Original(args));
        };
        let micros = |time: &Expr| cast(time.clone(), DataType::Int64);
        let units = (micros(to) - micros(from)) / lit(unit);
        Ok(ExprSimplifyResult::Simplified(units))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let [unit, from, to] = args.args.as_slice() else {
            return exec_err!("{} takes three arguments, got {}", self.name(), args.args.len());
        };
        let units = strings(unit, rows)?;
        let (from, to) = (micros(from, rows)?, micros(to, rows)?);
        let spans = (0..rows).map(|row| {
            let valid = units.is_valid(row) && from.is_valid(row) && to.is_valid(row);
            valid
                .then(|| Unit::of(units.value(row))?.between(from.value(row), to.value(row)))
                .transpose()
        });
        let spans: Int64Array = spans.collect::<Result<Vec<_>>>()?.into();
        Ok(ColumnarValue::Array(Arc::new(spans) as ArrayRef))
    }
}

/// The function `time_bucket`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct TimeBucket(Signature);

impl TimeBucket {
    pub(super) fn new() -> Self {
        Self(Signature::user_defined(Volatility::Immutable))
    }

    fn wrong<T>(&self, types: &[DataType]) -> Result<T> {
        let takes = "the width of the buckets, a time, and an origin or an offset";
        wrong_arguments(
            self.name(),
            takes,
            types,
            "time_bucket(INTERVAL '15 minutes', time)",
        )
    }
}

const NANOS: DataType = DataType::Timestamp(TimeUnit::Nanosecond, None);
const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

/// Monday, 3 January 2000, in nanoseconds: the origin of buckets of days and times.
const MONDAY: i64 = 946_857_600_000_000_000;
/// 1 January 2000, in nanoseconds: the origin of buckets of months.
const JANUARY: i64 = 946_684_800_000_000_000;

impl ScalarUDFImpl for TimeBucket {
    fn name(&self) -> &'static str {
        "time_bucket"
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let is_width =
            |width: &DataType| matches!(width, DataType::Interval(_) | DataType::Null) || width.is_string();
        let time = |time: &DataType| match time {
            DataType::Date32 | DataType::Timestamp(_, None) => time.clone(),
            DataType::Date64 => DataType::Date32,
            _ => NANOS,
        };
        match types {
            [width, source] if is_width(width) && is_time(source) => Ok(vec![INTERVAL, time(source)]),
            [width, source, DataType::Interval(_)] if is_width(width) && is_time(source) => {
                Ok(vec![INTERVAL, time(source), INTERVAL])
            }
            [width, source, origin] if is_width(width) && is_time(source) && is_time(origin) => {
                Ok(vec![INTERVAL, time(source), NANOS])
            }
            types => self.wrong(types),
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [_, time, ..] => Ok(time.clone()),
            types => self.wrong(types),
        }
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let [width, time, rest @ ..] = args.as_slice() else {
            return Ok(ExprSimplifyResult::Original(args));
        };
        let own = info.get_data_type(time)?;
        let months = match width {
            Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(width)), _) => width.months,
            Expr::Literal(value, _) if value.is_null() => {
                let null = ScalarValue::try_from(&own)?;
                return Ok(ExprSimplifyResult::Simplified(lit(null)));
            }
            Expr::Literal(..) | Expr::Cast(_) => return Ok(ExprSimplifyResult::Original(args)),
            _ => {
                return plan_err!(
                    "the width of time_bucket must be a constant interval\nhint: INTERVAL '15 minutes'"
                );
            }
        };
        let start = if months == 0 { MONDAY } else { JANUARY };
        let start = lit(ScalarValue::TimestampNanosecond(Some(start), None));
        let source = cast(time.clone(), NANOS);
        let bucket = match rest {
            [] => date_bin(width.clone(), source, start),
            [third] if info.get_data_type(third)? == INTERVAL => {
                date_bin(width.clone(), source - third.clone(), start) + third.clone()
            }
            [origin, ..] => date_bin(width.clone(), source, origin.clone()),
        };
        Ok(ExprSimplifyResult::Simplified(cast(bucket, own)))
    }

    fn invoke_with_args(&self, _args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        exec_err!("the width of time_bucket must be a constant interval\nhint: INTERVAL '15 minutes'")
    }
}
