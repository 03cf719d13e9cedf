//! Lowering of arithmetic with dates, timestamps and constant intervals.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::BinaryExpr;

use super::Lowering;
use crate::expression::function::Function;
use crate::expression::ir::{Expr, ExprKind};
use crate::expression::operator::Arithmetic;
use crate::reason::Reason;

impl Lowering<'_> {
    /// Arithmetic with dates, times and intervals; `None` if there is no device version.
    pub(super) fn temporal(
        &self,
        binary: &BinaryExpr,
        operator: Arithmetic,
        data_type: &DataType,
        nullable: bool,
    ) -> Option<Result<Expr, Reason>> {
        let (left, right) = (binary.left(), binary.right());
        let (left_type, right_type) = (self.data_type(left).ok()?, self.data_type(right).ok()?);
        match operator {
            Arithmetic::Subtract
                if left_type == right_type
                    && *data_type == DataType::Int64
                    && left_type == DataType::Date32 =>
            {
                // Days between dates.
                Some(self.lower(left).and_then(|left| {
                    let right = self.lower(right)?;
                    Ok(Expr::new(
                        ExprKind::Arithmetic {
                            operator,
                            left,
                            right,
                            checked: false,
                        },
                        DataType::Int64,
                        nullable,
                    ))
                }))
            }
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
            // Days and months have the same length everywhere only without a time zone.
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
}

pub(super) fn is_interval(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Interval(_))
}
