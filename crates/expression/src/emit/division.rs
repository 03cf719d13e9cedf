//! Division of integers and decimals by constants, with each rounding mode.

use super::{Emitter, as_kind, constant_string, integer_value};
use crate::function::Rounding;
use crate::interval::Interval;
use crate::value::Value;
use arrow::datatypes::DataType;

impl Emitter<'_> {
    /// Divides by a constant, rounding towards zero.
    pub(super) fn quotient(&mut self, value: Value, divisor: i128, to: &DataType) -> Value {
        let kind = value.interval().hull(Interval::point(divisor)).kind();
        let code = self.define(
            &kind,
            &format!("{} / {}", as_kind(&value, &kind), constant_string(divisor)),
        );
        let interval = Interval {
            low: value.interval().low / divisor,
            high: value.interval().high / divisor,
        };
        integer_value(code, value.null, kind, to.clone(), interval)
    }

    /// Divides by a power of ten, rounding half away from zero.
    pub(super) fn rounded_quotient(&mut self, value: Value, divisor: i128, to: &DataType) -> Value {
        let kind = value.interval().hull(Interval::point(divisor)).kind();
        let operand = as_kind(&value, &kind);
        let divisor_string = format!("({}){}", kind.c_type(), constant_string(divisor));
        let code = self.define(&kind, &format!("divide_rounded({operand}, {divisor_string})"));
        let round = |value: i128| value / divisor + (value % divisor) / (divisor / 2);
        let interval = Interval {
            low: round(value.interval().low),
            high: round(value.interval().high),
        };
        integer_value(code, value.null, kind, to.clone(), interval)
    }

    /// Divides by a constant, rounding by `rounding`.
    pub(super) fn divided(
        &mut self,
        value: Value,
        divisor: i128,
        rounding: Rounding,
        to: &DataType,
    ) -> Value {
        match rounding {
            Rounding::Down => self.floor_division(&value, divisor),
            Rounding::ToZero => self.quotient(value, divisor, to),
            Rounding::HalfAway => self.rounded_quotient(value, divisor, to),
            Rounding::Up => {
                let interval = value.interval();
                let kind = interval.hull(Interval::point(divisor)).kind();
                let (operand, divisor_string) = (as_kind(&value, &kind), constant_string(divisor));
                let code =
                    format!("{operand} / {divisor_string} + ({operand} % {divisor_string} > 0 ? 1 : 0)");
                let code = self.define(&kind, &code);
                let up = |value: i128| value.div_euclid(divisor) + i128::from(value.rem_euclid(divisor) > 0);
                let interval = Interval {
                    low: up(interval.low),
                    high: up(interval.high),
                };
                integer_value(code, value.null, kind, to.clone(), interval)
            }
        }
    }

    /// Divides by a constant, rounding down.
    pub(super) fn floor_division(&mut self, value: &Value, divisor: i128) -> Value {
        let interval = value.interval();
        let kind = interval.hull(Interval::point(divisor)).kind();
        let (operand, divisor_string) = (as_kind(value, &kind), constant_string(divisor));
        let rhs = if interval.low >= 0 {
            format!("{operand} / {divisor_string}")
        } else {
            format!("floor_divide({operand}, ({}){divisor_string})", kind.c_type())
        };
        let code = self.define(&kind, &rhs);
        let interval = Interval {
            low: interval.low.div_euclid(divisor),
            high: interval.high.div_euclid(divisor),
        };
        let narrow = interval.kind();
        let code = self.define(&narrow, &format!("({}){code}", narrow.c_type()));
        integer_value(
            code,
            value.null.clone(),
            narrow,
            value.data_type.clone(),
            interval,
        )
    }
}
