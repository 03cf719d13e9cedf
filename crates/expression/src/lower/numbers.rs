//! Lowering of functions that round integers and decimals, and of functions of several integers.

use super::Lowering;
use crate::function::{Function, Rounding};
use crate::interval::domain;
use crate::ir::Expr;
use arrow::datatypes::DataType;
use datafusion::physical_expr::PhysicalExpr;
use galatea_base::reason::Reason;
use std::sync::Arc;

/// A decimal type: its precision, its scale, and the maximum precision of its machine type.
struct Exact {
    precision: u8,
    scale: i32,
    most: u8,
}

impl Exact {
    fn of(data_type: &DataType) -> Option<Self> {
        let (precision, scale, most) = match data_type {
            DataType::Decimal32(precision, scale) => (*precision, *scale, 9),
            DataType::Decimal64(precision, scale) => (*precision, *scale, 18),
            DataType::Decimal128(precision, scale) => (*precision, *scale, 38),
            _ => return None,
        };
        Some(Self {
            precision,
            scale: scale.into(),
            most,
        })
    }
}

impl Lowering<'_> {
    /// Functions of integers and decimals, and rounding of floats to a number of digits; `None` for others.
    pub(super) fn number_function(
        &self,
        name: &str,
        arguments: &[Arc<dyn PhysicalExpr>],
        data_type: &DataType,
        nullable: bool,
    ) -> Result<Option<Expr>, Reason> {
        let types = arguments.iter().map(|argument| self.data_type(argument));
        let types = types.collect::<Result<Vec<_>, _>>()?;
        let all_are = |wanted: DataType| types.iter().all(|own| *own == wanted);
        let Some((of, rest)) = types.split_first() else {
            return Ok(None);
        };
        let places = match (name, &arguments[1..]) {
            ("round" | "trunc", [places]) => self.integer_constant(places),
            _ => Some(0),
        };
        let function = match (name, rest) {
            ("ceil", []) => whole(Rounding::Up, of),
            ("floor", []) => whole(Rounding::Down, of),
            ("trunc", [_]) if of.is_floating() && of == data_type => {
                places.map(|places| Function::TruncateTo {
                    // Truncated as by DataFusion.
                    places: places as i32,
                })
            }
            ("trunc", [] | [_]) => places.and_then(|places| truncated(of, places)),
            ("round", [] | [_]) => {
                let places = places.and_then(|places| i32::try_from(places).ok());
                places.and_then(|places| rounded(of, data_type, places))
            }
            ("gcd", [_]) if all_are(DataType::Int64) => Some(Function::GreatestCommonDivisor),
            ("lcm", [_]) if all_are(DataType::Int64) => Some(Function::LeastCommonMultiple),
            ("factorial", []) if all_are(DataType::Int64) => Some(Function::Factorial),
            ("make_date", [_, _]) if all_are(DataType::Int32) => Some(Function::MakeDate),
            ("make_time", [_, _]) if all_are(DataType::Int32) => Some(Function::MakeTime),
            ("to_local_time", []) if matches!(of, DataType::Timestamp(_, None)) => {
                return self.lower(&arguments[0]).map(Some);
            }
            _ => None,
        };
        let of_rounding = matches!(
            function,
            Some(Function::Multiple { .. } | Function::TruncateTo { .. })
        );
        let arguments: Vec<_> = match of_rounding {
            true => arguments[..1].iter().collect(),
            false => arguments.iter().collect(),
        };
        let lowered = function.map(|function| self.call(function, &arguments, data_type, nullable));
        lowered.transpose()
    }
}

/// Rounds a decimal to a whole number; `None` for other types.
fn whole(rounding: Rounding, of: &DataType) -> Option<Function> {
    let Exact { precision, scale, .. } = Exact::of(of)?;
    let unit = 10i128.checked_pow(u32::try_from(scale.max(0)).ok()?)?;
    Some(Function::Multiple {
        rounding,
        divisor: unit,
        factor: unit,
        digits: (scale > 0).then_some(precision),
    })
}

/// The constant 0.
const ZERO: Function = Function::Multiple {
    rounding: Rounding::ToZero,
    divisor: 1,
    factor: 0,
    digits: None,
};

/// Truncates a decimal to a number of decimal places; `None` for other types.
fn truncated(of: &DataType, places: i64) -> Option<Function> {
    let Exact { scale, most, .. } = Exact::of(of)?;
    let cut = i64::from(scale).saturating_sub(places).max(0);
    if cut >= i64::from(most) {
        return Some(ZERO);
    }
    let unit = 10i128.checked_pow(u32::try_from(cut).ok()?)?;
    Some(Function::Multiple {
        rounding: Rounding::ToZero,
        divisor: unit,
        factor: unit,
        digits: None,
    })
}

/// Rounds an integer or decimal to a number of decimal places; `None` for other types.
fn rounded(of: &DataType, to: &DataType, places: i32) -> Option<Function> {
    let power = |exponent: i32| {
        let power = 10i128.checked_pow(u32::try_from(exponent).ok()?)?;
        domain(of)?.contains(power).then_some(power)
    };
    let multiple = |divisor, factor, digits| Function::Multiple {
        rounding: Rounding::HalfAway,
        divisor,
        factor,
        digits,
    };
    if of.is_integer() && of == to {
        return Some(match places {
            0.. => multiple(1, 1, None),
            _ => power(places.checked_neg()?).map_or(ZERO, |unit| multiple(unit, unit, None)),
        });
    }
    let (from, to) = (Exact::of(of)?, Exact::of(to)?);
    if from.scale < 0 || from.most != to.most {
        return None;
    }
    let whole_digits = i32::from(from.precision) - from.scale;
    if places < 0 && (whole_digits <= 0 || places.checked_neg()? > whole_digits) {
        return Some(ZERO);
    }
    if places >= from.scale {
        return (to.scale == from.scale).then(|| multiple(1, 1, None));
    }
    let widened = from.scale == 0 && to.precision == to.most;
    Some(multiple(
        power(from.scale - places)?,
        power(to.scale - places)?,
        widened.then_some(to.precision),
    ))
}
