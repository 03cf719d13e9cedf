//! Dates and timestamps: the proleptic Gregorian calendar, as days since 1970-01-01.

use arrow::datatypes::{DataType, TimeUnit};

use super::{Emitter, as_kind, constant_string, integer_value};
use crate::error::Fault;
use crate::function::{DatePart, TruncateUnit};
use crate::interval::{Interval, domain};
use crate::ir::Expr;
use crate::kind::Kind;
use crate::timestamp_units::{DAY_SECONDS, per_second};
use crate::value::Value;
use galatea_base::reason::Reason;

/// Range of days in DataFusion's calendar: -262143-01-01 to 262142-12-31.
pub(super) const VALID_DAYS: Interval = Interval {
    low: -96_465_292,
    high: 95_026_236,
};

/// Year, month and day of a day number.
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_index = (5 * day_of_year + 2) / 153;
    let month = if month_index < 10 {
        month_index + 3
    } else {
        month_index - 9
    };
    (
        year_of_era + era * 400 + i64::from(month <= 2),
        month,
        day_of_year - (153 * month_index + 2) / 5 + 1,
    )
}

/// Day number of a date of the calendar.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let month_index = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * month_index + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// The same day of another month, limited to the last day of that month.
fn add_months(days: i64, months: i64) -> i64 {
    let (year, month, day) = civil(days);
    let total = year * 12 + month - 1 + months;
    let (year, month) = (total.div_euclid(12), total.rem_euclid(12) + 1);
    let next = if month == 12 {
        days_from_civil(year + 1, 1, 1)
    } else {
        days_from_civil(year, month + 1, 1)
    };
    let length = next - days_from_civil(year, month, 1);
    days_from_civil(year, month, day.min(length))
}

/// A date or timestamp as whole days and a remainder.
pub(super) struct Point {
    pub(super) days: Value,
    /// Units since midnight and their number per second; `None` for dates.
    pub(super) rest: Option<(Value, i64)>,
}

impl Emitter<'_> {
    pub(super) fn point(&mut self, value: Value) -> Result<Point, Reason> {
        match value.data_type.clone() {
            DataType::Date32 => Ok(Point {
                days: value,
                rest: None,
            }),
            DataType::Timestamp(unit, _) => {
                let unit = per_second(unit);
                let day = i128::from(unit) * i128::from(DAY_SECONDS);
                let days = self.floor_division(&value, day);
                let midnights = days
                    .interval()
                    .multiply(Interval::point(day))
                    .unwrap_or(Interval::of::<i128>());
                let kind = value.interval().hull(midnights).hull(Interval::point(day)).kind();
                let rest = format!(
                    "{} - {} * {}",
                    as_kind(&value, &kind),
                    as_kind(&days, &kind),
                    constant_string(day)
                );
                let rest = self.define(&kind, &rest);
                let interval = Interval {
                    low: 0,
                    high: day - 1,
                };
                let rest = integer_value(rest, value.null.clone(), kind, DataType::Int64, interval);
                Ok(Point {
                    days,
                    rest: Some((rest, unit)),
                })
            }
            data_type => Err(Reason::Type {
                data_type,
                place: "a date".to_owned(),
            }),
        }
    }

    pub(super) fn date_part(
        &mut self,
        expression: &Expr,
        part: DatePart,
        input: &Expr,
    ) -> Result<Value, Reason> {
        let value = self.expression(input)?;
        let data_type = expression.data_type().clone();
        if part == DatePart::Epoch {
            let rhs = match value.data_type {
                DataType::Timestamp(TimeUnit::Second, _) => format!("(double){}", value.code),
                DataType::Timestamp(unit, _) => format!("(double){} / {}.0", value.code, per_second(unit)),
                _ => format!("(double){} * {DAY_SECONDS}.0", value.code),
            };
            let code = self.define(&Kind::F64, &rhs);
            return Ok(Value {
                code,
                null: value.null,
                kind: Kind::F64,
                data_type,
                range: None,
            });
        }
        let Point { days, rest } = self.point(value)?;
        // Arrow returns NULL for days outside its calendar.
        let (days, null) = self.inside_calendar(days);
        let read =
            |name: &str, low: i128, high: i128| (format!("{name}({})", days.code), Interval { low, high });
        let year_of = |days: i128| i128::from(civil(days as i64).0);
        let of_rest = |divisor: i64, modulus: i64, factor: i64| match &rest {
            None => ("0".to_owned(), Interval::point(0)),
            Some((rest, _)) => {
                let mut text = rest.code.clone();
                if divisor > 1 {
                    text = format!("{text} / {}", constant_string(i128::from(divisor)));
                }
                text = format!("{text} % {}", constant_string(i128::from(modulus)));
                if factor > 1 {
                    text = format!("({text}) * {}", constant_string(i128::from(factor)));
                }
                (
                    text,
                    Interval {
                        low: 0,
                        high: i128::from((modulus - 1) * factor),
                    },
                )
            }
        };
        let unit = rest.as_ref().map_or(1, |(_, unit)| *unit);
        let of_minute = |per_second: i64| {
            // The part of the minute in another unit than the timestamp's, truncated or zero-padded.
            if per_second <= unit {
                of_rest(unit / per_second, 60 * per_second, 1)
            } else {
                of_rest(1, 60 * unit, per_second / unit)
            }
        };
        let (rhs, interval) = match part {
            DatePart::Year => read(
                "date_year",
                year_of(days.interval().low),
                year_of(days.interval().high),
            ),
            DatePart::IsoYear => read(
                "date_iso_year",
                year_of(days.interval().low) - 1,
                year_of(days.interval().high) + 1,
            ),
            DatePart::Quarter => read("date_quarter", 1, 4),
            DatePart::Month => read("date_month", 1, 12),
            DatePart::Week => read("date_iso_week", 1, 53),
            DatePart::Day => read("date_day", 1, 31),
            DatePart::DayOfYear => read("date_day_of_year", 1, 366),
            DatePart::DayOfWeek => read("date_day_of_week", 0, 6),
            DatePart::IsoDayOfWeek => read("date_iso_day_of_week", 1, 7),
            DatePart::Hour => of_rest(unit * 3_600, 24, 1),
            DatePart::Minute => of_rest(unit * 60, 60, 1),
            DatePart::Second => of_rest(unit, 60, 1),
            DatePart::Millisecond => of_minute(1_000),
            DatePart::Microsecond => of_minute(1_000_000),
            DatePart::Nanosecond => of_minute(1_000_000_000),
            DatePart::Epoch => ("0".to_owned(), Interval::point(0)),
        };
        let kind = interval.kind();
        let code = self.define(&kind, &format!("({})({rhs})", kind.c_type()));
        Ok(integer_value(code, null, kind, data_type, interval))
    }

    /// Days within the calendar; other days are NULL.
    fn inside_calendar(&mut self, days: Value) -> (Value, Option<String>) {
        let interval = days.interval();
        if interval.within(VALID_DAYS) {
            let null = days.null.clone();
            return (days, null);
        }
        let outside = self.outside(&days, VALID_DAYS);
        let code = self.define(&Kind::I32, &format!("{outside} ? 0 : (i32){}", days.code));
        let null = self.either(days.null.clone(), outside);
        let interval = interval.clamp(VALID_DAYS).hull(Interval::point(0));
        (
            integer_value(code, Some(null.clone()), Kind::I32, DataType::Date32, interval),
            Some(null),
        )
    }

    pub(super) fn date_trunc(
        &mut self,
        expression: &Expr,
        unit: TruncateUnit,
        input: &Expr,
    ) -> Result<Value, Reason> {
        let value = self.expression(input)?;
        let DataType::Timestamp(own, _) = *expression.data_type() else {
            return Err(Reason::Type {
                data_type: expression.data_type().clone(),
                place: expression.to_string(),
            });
        };
        let own = per_second(own);
        let length = match unit {
            TruncateUnit::Microsecond => own / 1_000_000,
            TruncateUnit::Millisecond => own / 1_000,
            TruncateUnit::Second => own,
            TruncateUnit::Minute => own * 60,
            TruncateUnit::Hour => own * 3_600,
            TruncateUnit::Day => own * DAY_SECONDS,
            _ => return self.truncate_calendar(expression, unit, value, own),
        };
        if length <= 1 {
            return Ok(value);
        }
        let count = self.floor_division(&value, i128::from(length));
        self.days_times(expression.data_type(), count, i128::from(length), &value)
    }

    /// The start of the bin that contains a timestamp, in the timestamp's unit.
    pub(super) fn date_bin(
        &mut self,
        expression: &Expr,
        (stride, origin): (i64, i64),
        input: &Expr,
    ) -> Result<Value, Reason> {
        let value = self.expression(input)?;
        let [stride, origin] = [stride, origin].map(|number| self.parameter(number as u64));
        let arguments = format!(
            "i64({}), i64(args.literals[{stride}]), i64(args.literals[{origin}])",
            value.code
        );
        let outside = self.define(&Kind::Bool, &format!("!date_bin_fits({arguments})"));
        let null = match &value.null {
            Some(null) => self.define(&Kind::Bool, &format!("{null} | {outside}")),
            None => outside,
        };
        let code = self.define(&Kind::I64, &format!("date_bin({arguments})"));
        Ok(integer_value(
            code,
            Some(null),
            Kind::I64,
            expression.data_type().clone(),
            Interval::of::<i64>(),
        ))
    }

    /// The start of the bin that contains a timestamp, in the timestamp's unit, for bins of whole months.
    pub(super) fn date_bin_months(
        &mut self,
        expression: &Expr,
        (months, origin): (i32, i64),
        input: &Expr,
    ) -> Result<Value, Reason> {
        let value = self.expression(input)?;
        let data_type = expression.data_type().clone();
        let DataType::Timestamp(own, _) = data_type else {
            return Err(Reason::Type {
                data_type,
                place: expression.to_string(),
            });
        };
        let constants = [i64::from(months), origin, per_second(own) * DAY_SECONDS];
        let constants = constants.map(|number| self.parameter(number as u64));
        let constants = constants.map(|number| format!("i64(args.literals[{number}])"));
        let rhs = format!("date_bin_months(i64({}), {})", value.code, constants.join(", "));
        let found = self.define_as("Checked64", &rhs);
        let outside = self.define(&Kind::Bool, &format!("{found}.fails"));
        let null = self.either(value.null, outside);
        let code = self.define(&Kind::I64, &format!("{found}.value"));
        let long = Interval::of::<i64>();
        Ok(integer_value(code, Some(null), Kind::I64, data_type, long))
    }

    /// `count * length` as a timestamp, with an error if it exceeds the type.
    fn days_times(
        &mut self,
        data_type: &DataType,
        count: Value,
        length: i128,
        value: &Value,
    ) -> Result<Value, Reason> {
        let length = self.constant(length, &DataType::Int64);
        let count = Value {
            null: value.null.clone(),
            ..count
        };
        let product = self.exact(
            crate::operator::Arithmetic::Multiply,
            &count,
            &length,
            data_type,
            Interval::of::<i128>(),
        );
        Ok(self.checked_range(product, Interval::of::<i64>(), Fault::Function))
    }

    fn truncate_calendar(
        &mut self,
        expression: &Expr,
        unit: TruncateUnit,
        value: Value,
        own: i64,
    ) -> Result<Value, Reason> {
        let day = i128::from(own) * i128::from(DAY_SECONDS);
        let calendar = Interval {
            low: VALID_DAYS.low * day,
            high: (VALID_DAYS.high + 1) * day - 1,
        };
        let fitting = calendar.clamp(Interval::of::<i64>());
        let value = self.checked_range(value, fitting, Fault::Function);
        let days = self.floor_division(&value, day);
        let (name, reach) = match unit {
            TruncateUnit::Week => ("date_week_start", 6),
            TruncateUnit::Month => ("date_month_start", 30),
            TruncateUnit::Quarter => ("date_quarter_start", 91),
            _ => ("date_year_start", 365),
        };
        let code = self.define(&Kind::I32, &format!("{name}((i32){})", days.code));
        let interval = Interval {
            low: days.interval().low - reach,
            high: days.interval().high,
        };
        let start = integer_value(code, days.null.clone(), Kind::I32, DataType::Date32, interval);
        let truncated = self.days_times(expression.data_type(), start, day, &value)?;
        Ok(self.checked_range(truncated, fitting, Fault::Function))
    }

    pub(super) fn add_interval(
        &mut self,
        expression: &Expr,
        interval: (i32, i32, i64),
        input: &Expr,
    ) -> Result<Value, Reason> {
        let value = self.expression(input)?;
        self.shifted(value, expression.data_type(), interval)
    }

    /// A date or timestamp of this type plus an interval: months, then days, then nanoseconds. An error if
    /// the result is outside the calendar or its type.
    pub(super) fn shifted(
        &mut self,
        value: Value,
        data_type: &DataType,
        (months, days, nanoseconds): (i32, i32, i64),
    ) -> Result<Value, Reason> {
        let data_type = data_type.clone();
        let refuse = || Reason::Type {
            data_type: data_type.clone(),
            place: "a date and an interval".to_owned(),
        };
        let target = domain(&data_type).ok_or_else(refuse)?;
        let Point { days: date, rest } = self.point(value.clone())?;
        let mut date = self.checked_range(date, VALID_DAYS, Fault::Function);
        if months != 0 {
            let shifted = self.define(
                &Kind::I32,
                &format!("date_add_months((i32){}, {months})", date.code),
            );
            let at = |days: i128| i128::from(add_months(days as i64, i64::from(months)));
            let interval = Interval {
                low: at(date.interval().low),
                high: at(date.interval().high),
            };
            date = integer_value(shifted, date.null, Kind::I32, DataType::Date32, interval);
            date = self.checked_range(date, VALID_DAYS, Fault::Function);
        }
        let mut shift = i128::from(days);
        if rest.is_none() {
            // A date has no time: only whole days of the nanoseconds count.
            shift += i128::from(nanoseconds / (DAY_SECONDS * 1_000_000_000));
        }
        if shift != 0 {
            let by = self.constant(shift, &DataType::Date32);
            date = self.exact(
                crate::operator::Arithmetic::Add,
                &date,
                &by,
                &DataType::Date32,
                Interval::of::<i128>(),
            );
            date = self.checked_range(date, VALID_DAYS, Fault::Function);
        }
        let Some((rest, unit)) = rest else {
            return Ok(Value {
                data_type,
                null: value.null,
                ..date
            });
        };
        let day = i128::from(unit) * i128::from(DAY_SECONDS);
        let midnight = self.days_times(&data_type, date, day, &value)?;
        let rest = Value {
            null: value.null.clone(),
            ..rest
        };
        let add = crate::operator::Arithmetic::Add;
        let mut result = self.exact(add, &midnight, &rest, &data_type, Interval::of::<i128>());
        let part = i128::from(nanoseconds).div_euclid(i128::from(1_000_000_000 / unit));
        if part != 0 {
            let part = self.constant(part, &data_type);
            result = self.exact(add, &result, &part, &data_type, Interval::of::<i128>());
        }
        Ok(self.checked_range(result, target, Fault::Function))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calendar_matches_chrono() {
        use arrow::datatypes::Date32Type;
        use arrow::temporal_conversions::date32_to_datetime;
        for days in (-800_000..800_000).step_by(97).chain([0, 11_016, 11_017, -1]) {
            let expected = date32_to_datetime(days).map(|date| Date32Type::from_naive_date(date.date()));
            assert_eq!(expected, Some(days));
            let (year, month, day) = civil(i64::from(days));
            assert_eq!(
                days_from_civil(year, month, day),
                i64::from(days),
                "{year}-{month}-{day}"
            );
            for months in [-25, -1, 1, 12, 13] {
                assert_eq!(
                    Date32Type::add_year_months_opt(days, months).map(i64::from),
                    Some(add_months(i64::from(days), i64::from(months))),
                    "{days} + {months} months"
                );
            }
        }
        assert_eq!(i128::from(days_from_civil(-262_143, 1, 1)), VALID_DAYS.low);
        assert_eq!(i128::from(days_from_civil(262_142, 12, 31)), VALID_DAYS.high);
    }
}
