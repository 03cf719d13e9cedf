//! Constant floats that become decimals have the digits that the query spells.
//!
//! `price = 12345678.90` compares a decimal with the float 12345678.9. DataFusion converts the float to a
//! decimal of 15 digits behind the point by a floating-point multiplication, so its last digits are wrong
//! beyond 16 digits in all: no price was equal to the constant. Here the shortest decimal of the float, which
//! is the spelled one, is converted. So are sums, differences and products of constants, without rounding.

use crate::checks::names_kept;
use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Result, ScalarValue};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator};
use datafusion::optimizer::AnalyzerRule;

/// The rule that converts constants, after type coercion has cast them.
#[derive(Debug)]
pub(super) struct SpelledDecimals;

impl AnalyzerRule for SpelledDecimals {
    fn name(&self) -> &'static str {
        "galatea_spelled_decimals"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let converted = |node| names_kept(node, |expr| expr.transform_up(|part| Ok(in_part(part))));
        Ok(plan.transform_up_with_subqueries(converted)?.data)
    }
}

fn in_part(part: Expr) -> Transformed<Expr> {
    let constant = match &part {
        Expr::Cast(cast) if has_float(&cast.expr) => {
            spelled(&cast.expr).and_then(|value| value.of_type(cast.field.data_type()))
        }
        _ => None,
    };
    match constant {
        Some(constant) => Transformed::yes(Expr::Literal(constant, None)),
        None => Transformed::no(part),
    }
}

fn has_float(expr: &Expr) -> bool {
    let has = expr.exists(|part| Ok(matches!(part, Expr::Literal(ScalarValue::Float64(_), _))));
    has.unwrap_or(false)
}

/// A decimal: `unscaled / 10^scale`.
#[derive(Debug, Clone, Copy)]
struct Spelled {
    unscaled: i128,
    scale: u32,
}

/// The value of a constant of floats and integers; `None` for other expressions, and for quotients.
fn spelled(expr: &Expr) -> Option<Spelled> {
    match expr {
        Expr::Literal(ScalarValue::Float64(value), _) => Spelled::of(value.as_ref().copied()?),
        Expr::Literal(ScalarValue::Int64(value), _) => Some(Spelled {
            unscaled: value.as_ref().copied()?.into(),
            scale: 0,
        }),
        Expr::Cast(cast) if *cast.field.data_type() == DataType::Float64 => spelled(&cast.expr),
        Expr::Negative(value) => {
            let value = spelled(value)?;
            Some(Spelled {
                unscaled: -value.unscaled,
                ..value
            })
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let (left, right) = (spelled(left)?, spelled(right)?);
            let scale = left.scale.max(right.scale);
            let unscaled = match op {
                Operator::Plus => left.at(scale)?.checked_add(right.at(scale)?)?,
                Operator::Minus => left.at(scale)?.checked_sub(right.at(scale)?)?,
                Operator::Multiply => {
                    return Some(Spelled {
                        unscaled: left.unscaled.checked_mul(right.unscaled)?,
                        scale: left.scale + right.scale,
                    });
                }
                _ => return None,
            };
            Some(Spelled { unscaled, scale })
        }
        _ => None,
    }
}

impl Spelled {
    /// The decimal with the shortest digits of a float; `None` for NaN and infinity, and for many digits.
    fn of(value: f64) -> Option<Self> {
        if !value.is_finite() {
            return None;
        }
        let spelled = value.to_string();
        let (whole, fraction) = spelled.split_once('.').unwrap_or((&spelled, ""));
        Some(Self {
            unscaled: format!("{whole}{fraction}").parse().ok()?,
            scale: u32::try_from(fraction.len()).ok()?,
        })
    }

    /// The unscaled value with more digits behind the point.
    fn at(self, scale: u32) -> Option<i128> {
        let factor = 10_i128.checked_pow(scale.checked_sub(self.scale)?)?;
        self.unscaled.checked_mul(factor)
    }

    /// The decimal of this type, rounded half away from zero; `None` if it does not fit.
    fn of_type(self, data_type: &DataType) -> Option<ScalarValue> {
        let DataType::Decimal128(precision, scale) = *data_type else {
            return None;
        };
        let places = u32::try_from(scale).ok()?;
        let unscaled = match self.scale.checked_sub(places).filter(|excess| *excess > 0) {
            None => self.at(places)?,
            Some(excess) => {
                let divisor = 10_i128.checked_pow(excess)?;
                let (quotient, rest) = (self.unscaled / divisor, (self.unscaled % divisor).abs());
                match rest >= divisor - rest {
                    true => quotient + self.unscaled.signum(),
                    false => quotient,
                }
            }
        };
        (unscaled.abs() < 10_i128.checked_pow(precision.into())?).then_some(ScalarValue::Decimal128(
            Some(unscaled),
            precision,
            scale,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::logical_expr::lit;

    #[test]
    fn constants_have_their_spelled_digits() {
        let unscaled = |value: f64, precision, scale| match Spelled::of(value)?
            .of_type(&DataType::Decimal128(precision, scale))
        {
            Some(ScalarValue::Decimal128(unscaled, ..)) => unscaled,
            _ => None,
        };
        assert_eq!(unscaled(8.11, 30, 15), Some(8_110_000_000_000_000));
        assert_eq!(
            unscaled(-9_999_999.99, 30, 15),
            Some(-9_999_999_990_000_000_000_000)
        );
        assert_eq!(
            unscaled(0.069_999_999_999_999_99, 30, 15),
            Some(70_000_000_000_000)
        );
        assert_eq!(unscaled(2.5, 3, 0), Some(3));
        assert_eq!(unscaled(-2.5, 3, 0), Some(-3));
        assert_eq!(unscaled(-0.0, 5, 2), Some(0));
        assert_eq!(unscaled(1e-20, 30, 15), Some(0));
        assert_eq!(unscaled(999.99, 4, 1), None, "1000.0 has five digits");
        assert_eq!(unscaled(1e30, 30, 15), None);
        assert_eq!(unscaled(f64::NAN, 30, 15), None);
    }

    #[test]
    fn sums_of_constants_are_exact() {
        let decimal = |left: f64, op, right: f64| {
            let (left, right) = (Box::new(lit(left)), Box::new(lit(right)));
            let value = spelled(&Expr::BinaryExpr(BinaryExpr::new(left, op, right)))?;
            value.of_type(&DataType::Decimal128(30, 15))
        };
        let expected = |unscaled| Some(ScalarValue::Decimal128(Some(unscaled), 30, 15));
        assert_eq!(decimal(0.06, Operator::Plus, 0.01), expected(70_000_000_000_000));
        assert_eq!(decimal(0.3, Operator::Minus, 0.1), expected(200_000_000_000_000));
        assert_eq!(
            decimal(1.1, Operator::Multiply, -3.0),
            expected(-3_300_000_000_000_000)
        );
        assert_eq!(decimal(1.0, Operator::Divide, 3.0), None);
    }
}
