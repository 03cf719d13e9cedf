//! `age(to, from)`: the interval between two times in years, months, days and a time, as PostgreSQL and
//! DuckDB subtract them. `age(from)` is the age today.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, IntervalMonthDayNanoArray, TimestampMicrosecondArray};
use arrow::datatypes::{
    DataType, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit, TimeUnit,
    TimestampMicrosecondType,
};
use chrono::{DateTime, Datelike, NaiveDateTime, Timelike};
use datafusion::common::{exec_datafusion_err, exec_err};
use datafusion::error::Result;
use datafusion::functions::datetime::expr_fn::current_date;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, cast,
};

use super::wrong_arguments;

/// Times in microseconds, without a time zone.
pub(super) const MICROS: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

/// Whether a type is a date, a time of a day in some time zone, or may be one.
pub(super) fn is_time(data_type: &DataType) -> bool {
    let is_time = matches!(
        data_type,
        DataType::Date32 | DataType::Date64 | DataType::Timestamp(..)
    );
    is_time || data_type.is_null() || data_type.is_string()
}

/// The times of an argument.
pub(super) fn micros(argument: &ColumnarValue, rows: usize) -> Result<TimestampMicrosecondArray> {
    let array = argument.cast_to(&MICROS, None)?.to_array(rows)?;
    Ok(array.as_primitive::<TimestampMicrosecondType>().clone())
}

/// The date and time of a number of microseconds.
pub(super) fn date_time(micros: i64) -> Result<NaiveDateTime> {
    let time = DateTime::from_timestamp_micros(micros);
    time.map(|time| time.naive_utc())
        .ok_or_else(|| exec_datafusion_err!("the time of {micros} microseconds is out of range"))
}

/// The number of days of a month.
pub(super) fn days_of(time: &NaiveDateTime) -> i64 {
    time.date().num_days_in_month().into()
}

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Age(Signature);

impl Age {
    pub(super) fn new() -> Self {
        // The age today depends on the time of the query.
        Self(Signature::user_defined(Volatility::Stable))
    }
}

/// The difference in months, days and microseconds.
pub(super) fn age(to: i64, from: i64) -> Result<(i64, i64, i64)> {
    let (later, earlier) = (date_time(to.max(from))?, date_time(to.min(from))?);
    let sign = if to < from { -1 } else { 1 };
    let micros = |time: &NaiveDateTime| {
        i64::from(time.num_seconds_from_midnight()) * 1_000_000 + i64::from(time.nanosecond() / 1000)
    };
    let months = |time: &NaiveDateTime| i64::from(time.year()) * 12 + i64::from(time.month());
    let mut time = micros(&later) - micros(&earlier);
    let mut days = i64::from(later.day()) - i64::from(earlier.day());
    let mut month = months(&later) - months(&earlier);
    if time < 0 {
        time += 86_400_000_000;
        days -= 1;
    }
    if days < 0 {
        // The days of the month of the earlier time.
        days += days_of(&earlier);
        month -= 1;
    }
    Ok((sign * month, sign * days, sign * time))
}

impl ScalarUDFImpl for Age {
    fn name(&self) -> &'static str {
        "age"
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types.len() {
            1 | 2 if types.iter().all(is_time) => Ok(vec![MICROS; types.len()]),
            _ => {
                let takes = "one or two times";
                wrong_arguments(self.name(), takes, types, "age(TIMESTAMP '2001-04-10', birthday)")
            }
        }
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Interval(IntervalUnit::MonthDayNano))
    }

    fn simplify(&self, mut args: Vec<Expr>, _info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        if args.len() != 1 {
            return Ok(ExprSimplifyResult::Original(args));
        }
        args.insert(0, cast(current_date(), MICROS));
        let function = Arc::new(ScalarUDF::from(Self::new()));
        let call = ScalarFunction::new_udf(function, args);
        Ok(ExprSimplifyResult::Simplified(Expr::ScalarFunction(call)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [to, from] = args.args.as_slice() else {
            return exec_err!("{} takes two times, got {}", self.name(), args.args.len());
        };
        let (to, from) = (micros(to, args.number_rows)?, micros(from, args.number_rows)?);
        let rows = to.iter().zip(&from).map(|(to, from)| match (to, from) {
            (Some(to), Some(from)) => interval(age(to, from)?).map(Some),
            _ => Ok(None),
        });
        let intervals: Vec<Option<IntervalMonthDayNano>> = rows.collect::<Result<_>>()?;
        let intervals = IntervalMonthDayNanoArray::from(intervals);
        Ok(ColumnarValue::Array(Arc::new(intervals) as ArrayRef))
    }
}

fn interval((months, days, micros): (i64, i64, i64)) -> Result<IntervalMonthDayNano> {
    let out_of_range = |_| exec_datafusion_err!("age: an interval of {months} months is out of range");
    let months = i32::try_from(months).map_err(out_of_range)?;
    let days = i32::try_from(days).map_err(out_of_range)?;
    Ok(IntervalMonthDayNanoType::make_value(months, days, micros * 1000))
}
