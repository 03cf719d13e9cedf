//! Lowering of arithmetic with dates, timestamps and constant intervals, and of the unit names in their
//! functions.

use std::str::FromStr;
use std::sync::Arc;

use arrow::compute::kernels::cast_utils::IntervalUnit;
use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::ScalarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::BinaryExpr;

use super::Lowering;
use crate::function::{DatePart, Function, TruncateUnit};
use crate::ir::{Expr, ExprKind};
use crate::operator::Arithmetic;
use crate::timestamp_units::{bin_length, per_second};
use galatea_base::reason::Reason;

impl Lowering<'_> {
    /// Arithmetic with dates, times and intervals; `None` if it has no device version.
    pub(super) fn temporal(
        &self,
        binary: &BinaryExpr,
        operator: Arithmetic,
        data_type: &DataType,
        nullable: bool,
    ) -> Option<Result<Expr, Reason>> {
        let (left, right) = (binary.left(), binary.right());
        let (left_type, right_type) = (self.data_type(left).ok()?, self.data_type(right).ok()?);
        // The difference is in days for dates, and in units for timestamps.
        let difference = match (&left_type, data_type) {
            (DataType::Date32, DataType::Int64) => Some(false),
            (DataType::Timestamp(unit, None), DataType::Duration(of)) if unit == of => Some(true),
            _ => None,
        };
        match (operator, difference) {
            (Arithmetic::Subtract, Some(checked)) if left_type == right_type => {
                return Some(self.lower(left).and_then(|left| {
                    let kind = ExprKind::Arithmetic {
                        operator,
                        left,
                        right: self.lower(right)?,
                        checked,
                    };
                    Ok(Expr::new(kind, data_type.clone(), nullable))
                }));
            }
            _ => {}
        }
        match operator {
            Arithmetic::Add if is_interval(&left_type) => {
                self.shift(right, &right_type, left, false, data_type, nullable)
            }
            Arithmetic::Add if is_interval(&right_type) => {
                self.shift(left, &left_type, right, false, data_type, nullable)
            }
            Arithmetic::Subtract if is_interval(&right_type) => {
                self.shift(left, &left_type, right, true, data_type, nullable)
            }
            _ => None,
        }
    }

    /// `point ± interval` for a constant interval.
    fn shift(
        &self,
        point: &Arc<dyn PhysicalExpr>,
        point_type: &DataType,
        interval: &Arc<dyn PhysicalExpr>,
        negative: bool,
        data_type: &DataType,
        nullable: bool,
    ) -> Option<Result<Expr, Reason>> {
        if point_type != data_type {
            return None;
        }
        let supported = match data_type {
            DataType::Date32 => true,
            // The length of a given day or month is the same everywhere only without a time zone.
            DataType::Timestamp(_, zone) => zone.is_none(),
            _ => false,
        };
        if !supported {
            return None;
        }
        let (months, days, nanoseconds) = match self.constant(interval)? {
            ScalarValue::IntervalYearMonth(Some(months)) => (months, 0, 0),
            ScalarValue::IntervalDayTime(Some(value)) => {
                (0, value.days, i64::from(value.milliseconds) * 1_000_000)
            }
            ScalarValue::IntervalMonthDayNano(Some(value)) => (value.months, value.days, value.nanoseconds),
            _ => return None,
        };
        let (months, days, nanoseconds) = if negative {
            (
                months.checked_neg()?,
                days.checked_neg()?,
                nanoseconds.checked_neg()?,
            )
        } else {
            (months, days, nanoseconds)
        };
        let function = Function::AddInterval {
            months,
            days,
            nanoseconds,
        };
        Some(self.lower(point).map(|point| {
            Expr::new(
                ExprKind::Call {
                    function,
                    arguments: vec![point],
                },
                data_type.clone(),
                nullable,
            )
        }))
    }

    /// `date_bin` with its stride and origin in the unit of its timestamps, if both are whole numbers of this
    /// unit.
    pub(super) fn bins(
        &self,
        stride: &Arc<dyn PhysicalExpr>,
        origin: &[Arc<dyn PhysicalExpr>],
        data_type: &DataType,
    ) -> Option<Function> {
        let DataType::Timestamp(unit, None) = data_type else {
            return None;
        };
        let (months, stride) = bin_length(&self.constant(stride)?)?;
        let origin = match origin {
            [] => 0,
            [origin] => match self.constant(origin)? {
                ScalarValue::TimestampNanosecond(Some(origin), None) => origin,
                _ => return None,
            },
            _ => return None,
        };
        let scale = per_second(TimeUnit::Nanosecond) / per_second(*unit);
        if stride % scale != 0 || origin % scale != 0 {
            return None;
        }
        let (stride, origin) = (stride / scale, origin / scale);
        match (months, stride) {
            (0, 1..) => Some(Function::DateBin { stride, origin }),
            (1.., 0) => Some(Function::DateBinMonths { months, origin }),
            _ => None,
        }
    }
}

pub(super) fn is_interval(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Interval(_))
}

/// The types of the consecutive casts that DataFusion's conversion functions consist of.
pub(super) fn conversion(name: &str, from: &DataType, to: &DataType) -> Option<Vec<DataType>> {
    use DataType::{Date32, Int64, Timestamp};
    let plain = |unit| Timestamp(unit, None);
    let point = matches!(from, Timestamp(_, None));
    let steps = match name {
        "to_date" if point || *from == Date32 => vec![Date32],
        "from_unixtime" if *from == Int64 => vec![plain(TimeUnit::Second)],
        "to_unixtime" if point || *from == Date32 => vec![plain(TimeUnit::Second), Int64],
        "to_unixtime" if *from == Int64 => vec![Int64],
        "to_timestamp" if *from == Int64 => vec![plain(TimeUnit::Second), plain(TimeUnit::Nanosecond)],
        "to_timestamp" if point => vec![plain(TimeUnit::Nanosecond)],
        "to_timestamp_seconds" if point || *from == Int64 => vec![plain(TimeUnit::Second)],
        "to_timestamp_millis" if point || *from == Int64 => vec![plain(TimeUnit::Millisecond)],
        "to_timestamp_micros" if point || *from == Int64 => vec![plain(TimeUnit::Microsecond)],
        "to_timestamp_nanos" if point || *from == Int64 => vec![plain(TimeUnit::Nanosecond)],
        _ => return None,
    };
    (steps.last() == Some(to)).then_some(steps)
}

/// The field with this name, by DataFusion's rules: optional quotes, plurals and synonyms of interval units,
/// and a few more.
pub(super) fn date_part(name: &str) -> Option<DatePart> {
    let quotes = ['\'', '"'];
    let name = name
        .strip_prefix(quotes)
        .and_then(|name| name.strip_suffix(quotes))
        .unwrap_or(name);
    if let Ok(unit) = IntervalUnit::from_str(name) {
        return Some(match unit {
            IntervalUnit::Year => DatePart::Year,
            IntervalUnit::Month => DatePart::Month,
            IntervalUnit::Week => DatePart::Week,
            IntervalUnit::Day => DatePart::Day,
            IntervalUnit::Hour => DatePart::Hour,
            IntervalUnit::Minute => DatePart::Minute,
            IntervalUnit::Second => DatePart::Second,
            IntervalUnit::Millisecond => DatePart::Millisecond,
            IntervalUnit::Microsecond => DatePart::Microsecond,
            IntervalUnit::Nanosecond => DatePart::Nanosecond,
            _ => return None,
        });
    }
    Some(match name.to_lowercase().as_str() {
        "isoyear" => DatePart::IsoYear,
        "qtr" | "quarter" => DatePart::Quarter,
        "doy" => DatePart::DayOfYear,
        "dow" => DatePart::DayOfWeek,
        "isodow" => DatePart::IsoDayOfWeek,
        "epoch" => DatePart::Epoch,
        _ => return None,
    })
}

/// Whether DataFusion supports the field for this type.
pub(super) fn date_part_supported(part: DatePart, value_type: &DataType) -> bool {
    match value_type {
        DataType::Date32 => true,
        // With a time zone, the fields are in local time.
        DataType::Timestamp(
            TimeUnit::Second | TimeUnit::Millisecond | TimeUnit::Microsecond | TimeUnit::Nanosecond,
            zone,
        ) => zone.is_none() || part == DatePart::Epoch,
        _ => false,
    }
}

/// The unit with this name.
pub(super) fn truncate_unit(name: &str) -> Option<TruncateUnit> {
    Some(match name.to_lowercase().as_str() {
        "microsecond" => TruncateUnit::Microsecond,
        "millisecond" => TruncateUnit::Millisecond,
        "second" => TruncateUnit::Second,
        "minute" => TruncateUnit::Minute,
        "hour" => TruncateUnit::Hour,
        "day" => TruncateUnit::Day,
        "week" => TruncateUnit::Week,
        "month" => TruncateUnit::Month,
        "quarter" => TruncateUnit::Quarter,
        "year" => TruncateUnit::Year,
        _ => return None,
    })
}
