//! Lowering of function calls.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::ScalarUDF;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};

use super::temporal::{conversion, date_part, date_part_supported, truncate_unit};
use super::{Lowering, comparable};
use crate::function::{Elementary, Function};
use crate::ir::{Expr, ExprKind};
use crate::operator::{Arithmetic, Comparison};
use crate::timestamp_units::is_in_units;
use galatea_base::reason::Reason;

impl Lowering<'_> {
    pub(super) fn function(
        &self,
        call: &ScalarFunctionExpr,
        data_type: &DataType,
        nullable: bool,
    ) -> Result<Expr, Reason> {
        let refuse = |detail: &str| Reason::Function {
            name: call.name().to_owned(),
            detail: detail.to_owned(),
        };
        if !is_built_in(call.fun()) {
            return Err(refuse("user-defined function without a device version"));
        }
        let arguments = call.args();
        if let Some(lowered) = self.number_function(call.fun().name(), arguments, data_type, nullable)? {
            return Ok(lowered);
        }
        match (call.fun().name(), arguments) {
            ("arrow_typeof", [value]) => {
                let name = self.data_type(value)?.to_string();
                Ok(Expr::literal(ScalarValue::Utf8(Some(name))))
            }
            ("coalesce" | "nvl", arguments) => self.coalesce(arguments, data_type),
            ("nullif", [left, right]) => self.null_if(left, right, data_type),
            ("greatest", arguments) => self.extreme(arguments, Comparison::GreaterOrEqual, call, data_type),
            ("least", arguments) => self.extreme(arguments, Comparison::LessOrEqual, call, data_type),
            ("date_part", [part, value]) => {
                let part = self
                    .string_constant(part)
                    .ok_or_else(|| refuse("the field is not a constant"))?;
                let part = date_part(&part).ok_or_else(|| refuse("no device version of this field"))?;
                let value_type = self.data_type(value)?;
                if !date_part_supported(part, &value_type) {
                    return Err(refuse("no device version for this type"));
                }
                self.call(Function::DatePart(part), &[value], data_type, nullable)
            }
            ("date_trunc", [unit, value]) => {
                let unit = self
                    .string_constant(unit)
                    .ok_or_else(|| refuse("the unit is not a constant"))?;
                let unit = truncate_unit(&unit).ok_or_else(|| refuse("no device version of this unit"))?;
                let DataType::Timestamp(_, None) = self.data_type(value)? else {
                    return Err(refuse("no device version for this type"));
                };
                self.call(Function::DateTrunc(unit), &[value], data_type, nullable)
            }
            ("round", [value, rest @ ..])
                if data_type.is_floating() && self.data_type(value)? == *data_type =>
            {
                let places = match rest {
                    [] => Some(0),
                    [places] => self
                        .integer_constant(places)
                        .and_then(|places| i32::try_from(places).ok()),
                    _ => None,
                };
                let places = places.ok_or_else(|| refuse("the number of places is not a constant"))?;
                self.call(Function::Round { places }, &[value], data_type, nullable)
            }
            (
                "to_date"
                | "from_unixtime"
                | "to_unixtime"
                | "to_timestamp"
                | "to_timestamp_seconds"
                | "to_timestamp_millis"
                | "to_timestamp_micros"
                | "to_timestamp_nanos",
                [value],
            ) => {
                let steps = conversion(call.fun().name(), &self.data_type(value)?, data_type)
                    .ok_or_else(|| refuse("no device version for this type"))?;
                let value = self.lower(value)?;
                steps
                    .iter()
                    .try_fold(value, |value, step| super::cast(value, step, false))
            }
            ("date_bin", [stride, value, rest @ ..]) => {
                let function = self
                    .bins(stride, rest, data_type)
                    .ok_or_else(|| refuse("no device version of these bins"))?;
                if self.data_type(value)? != *data_type {
                    return Err(refuse("no device version for this type"));
                }
                self.call(function, &[value], data_type, true)
            }
            ("power" | "atan2", [left, right]) => {
                let double = |e| Ok::<_, Reason>(self.data_type(e)? == DataType::Float64);
                if !double(left)? || !double(right)? {
                    return Err(refuse("no device version for these types"));
                }
                let function = match call.fun().name() {
                    "power" => Elementary::Pow,
                    _ => Elementary::Atan2,
                };
                self.call(
                    Function::Elementary(function),
                    &[left, right],
                    data_type,
                    nullable,
                )
            }
            ("log", [others @ .., value]) if others.len() < 2 && *data_type == DataType::Float64 => {
                let base = match others {
                    [base] => self.lower(base)?,
                    _ => Expr::literal(ScalarValue::Float64(Some(10.0))),
                };
                let value = self.lower(value)?;
                if [&value, &base]
                    .iter()
                    .any(|e| *e.data_type() != DataType::Float64)
                {
                    return Err(refuse("no device version for these types"));
                }
                let kind = ExprKind::Call {
                    function: Function::Elementary(Elementary::LogBase),
                    arguments: vec![value, base],
                };
                Ok(Expr::new(kind, data_type.clone(), nullable))
            }
            ("nanvl", [left, right]) => self.nanvl(left, right, data_type, nullable),
            ("degrees" | "radians", [value]) if self.data_type(value)? == DataType::Float64 => {
                use std::f64::consts::PI;
                let factor = match call.fun().name() {
                    "degrees" => 180.0 / PI,
                    _ => PI / 180.0,
                };
                let kind = ExprKind::Arithmetic {
                    operator: Arithmetic::Multiply,
                    left: self.lower(value)?,
                    right: Expr::literal(ScalarValue::Float64(Some(factor))),
                    checked: false,
                };
                Ok(Expr::new(kind, data_type.clone(), nullable))
            }
            ("iszero", [value]) if self.data_type(value)?.is_floating() => {
                let value = self.lower(value)?;
                let zero = ScalarValue::new_zero(value.data_type()).map_err(|_| refuse("no zero"))?;
                let kind = ExprKind::Compare {
                    operator: Comparison::Equal,
                    left: value,
                    right: Expr::literal(zero),
                    equal_zeros: true,
                };
                Ok(Expr::new(kind, data_type.clone(), nullable))
            }
            (name, arguments) if arguments.first().is_some_and(|value| self.is_utf8(value)) => {
                self.string_function(name, arguments, data_type, nullable)
            }
            ("to_hex", [value]) if self.data_type(value)?.is_integer() => {
                self.call(Function::Hex, &[value], data_type, nullable)
            }
            (name, [value]) => {
                let value_type = self.data_type(value)?;
                let function =
                    unary(name, &value_type).ok_or_else(|| refuse("no device version for this type"))?;
                self.call(function, &[value], data_type, nullable)
            }
            _ => Err(refuse("no device version")),
        }
    }

    pub(super) fn call(
        &self,
        function: Function,
        arguments: &[&Arc<dyn PhysicalExpr>],
        data_type: &DataType,
        nullable: bool,
    ) -> Result<Expr, Reason> {
        let arguments = arguments
            .iter()
            .map(|argument| self.lower(argument))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Expr::new(
            ExprKind::Call { function, arguments },
            data_type.clone(),
            nullable,
        ))
    }

    /// `CASE WHEN a IS NOT NULL THEN a ... ELSE z END`.
    fn coalesce(&self, arguments: &[Arc<dyn PhysicalExpr>], data_type: &DataType) -> Result<Expr, Reason> {
        let mut values = arguments
            .iter()
            .map(|argument| self.branch(argument, data_type))
            .collect::<Result<Vec<_>, _>>()?;
        let Some(last) = values.pop() else {
            return super::typed_null(&ScalarValue::Null, data_type);
        };
        let nullable = last.nullable() && values.iter().all(Expr::nullable);
        let branches: Vec<_> = values
            .into_iter()
            .map(|value| (is_not_null(&value), value))
            .collect();
        if branches.is_empty() {
            return Ok(last);
        }
        Ok(Expr::new(
            ExprKind::Case {
                branches,
                otherwise: Some(last),
            },
            data_type.clone(),
            nullable,
        ))
    }

    /// `CASE WHEN a = b THEN NULL ELSE a END`.
    fn null_if(
        &self,
        left: &Arc<dyn PhysicalExpr>,
        right: &Arc<dyn PhysicalExpr>,
        data_type: &DataType,
    ) -> Result<Expr, Reason> {
        let (left, right) = (self.lower(left)?, self.lower(right)?);
        if !comparable(left.data_type(), right.data_type()) || left.data_type() != data_type {
            return Err(Reason::Operator {
                operator: "NULLIF".to_owned(),
                left: left.data_type().clone(),
                right: right.data_type().clone(),
            });
        }
        let kind = ExprKind::Compare {
            operator: Comparison::Equal,
            left: left.clone(),
            right,
            equal_zeros: false,
        };
        let equal = Expr::new(kind, DataType::Boolean, true);
        let null = super::typed_null(&ScalarValue::Null, data_type)?;
        Ok(Expr::new(
            ExprKind::Case {
                branches: vec![(equal, null)],
                otherwise: Some(left),
            },
            data_type.clone(),
            true,
        ))
    }

    /// `CASE WHEN isnan(a) THEN b ELSE a END`.
    fn nanvl(
        &self,
        left: &Arc<dyn PhysicalExpr>,
        right: &Arc<dyn PhysicalExpr>,
        data_type: &DataType,
        nullable: bool,
    ) -> Result<Expr, Reason> {
        let is_nan = self.call(Function::IsNan, &[left], &DataType::Boolean, true)?;
        let (left, right) = (self.lower(left)?, self.lower(right)?);
        if left.data_type() != data_type || right.data_type() != data_type {
            return Err(Reason::Function {
                name: "nanvl".to_owned(),
                detail: "no device version for these types".to_owned(),
            });
        }
        let kind = ExprKind::Case {
            branches: vec![(is_nan, right)],
            otherwise: Some(left),
        };
        Ok(Expr::new(kind, data_type.clone(), nullable))
    }

    /// GREATEST and LEAST: NULLs are skipped. Floats are compared by IEEE 754 totalOrder; values that are
    /// equal in it are identical.
    fn extreme(
        &self,
        arguments: &[Arc<dyn PhysicalExpr>],
        operator: Comparison,
        call: &ScalarFunctionExpr,
        data_type: &DataType,
    ) -> Result<Expr, Reason> {
        let mut values = arguments
            .iter()
            .map(|argument| self.lower(argument))
            .collect::<Result<Vec<_>, _>>()?
            .into_iter();
        let refuse = || Reason::Function {
            name: call.name().to_owned(),
            detail: "no device version for these types".to_owned(),
        };
        let mut best = values.next().ok_or_else(refuse)?;
        if best.data_type() != data_type {
            return Err(refuse());
        }
        for value in values {
            if value.data_type() != data_type {
                return Err(refuse());
            }
            let nullable = best.nullable() && value.nullable();
            let keep = ExprKind::Compare {
                operator,
                left: best.clone(),
                right: value.clone(),
                equal_zeros: false,
            };
            let keep = Expr::new(keep, DataType::Boolean, best.nullable() || value.nullable());
            let is_null = |expr: &Expr| Expr::new(ExprKind::IsNull(expr.clone()), DataType::Boolean, false);
            let branches = vec![(is_null(&value), best.clone()), (keep, best)];
            best = Expr::new(
                ExprKind::Case {
                    branches,
                    otherwise: Some(value),
                },
                data_type.clone(),
                nullable,
            );
        }
        Ok(best)
    }

    pub(super) fn string_constant(&self, expression: &Arc<dyn PhysicalExpr>) -> Option<String> {
        self.constant(expression)?
            .try_as_str()
            .flatten()
            .map(str::to_owned)
    }

    pub(super) fn integer_constant(&self, expression: &Arc<dyn PhysicalExpr>) -> Option<i64> {
        match self.constant(expression)?.cast_to(&DataType::Int64).ok()? {
            ScalarValue::Int64(value) => value,
            _ => None,
        }
    }
}

fn is_not_null(value: &Expr) -> Expr {
    let is_null = Expr::new(ExprKind::IsNull(value.clone()), DataType::Boolean, false);
    Expr::new(ExprKind::Not(is_null), DataType::Boolean, false)
}

/// Whether the function is DataFusion's own or our version of it, not a user-defined function of the same
/// name.
fn is_built_in(function: &ScalarUDF) -> bool {
    static BUILT_IN: OnceLock<HashMap<String, Arc<ScalarUDF>>> = OnceLock::new();
    let built_in = BUILT_IN.get_or_init(|| {
        datafusion::functions::all_default_functions()
            .into_iter()
            .map(|known| (known.name().to_owned(), known))
            .collect()
    });
    let known = built_in.get(function.name());
    known.is_some_and(|known| known.as_ref() == function) || is_in_units(function)
}

fn unary(name: &str, value_type: &DataType) -> Option<Function> {
    let float = matches!(value_type, DataType::Float32 | DataType::Float64);
    Some(match name {
        "abs" if float || value_type.is_signed_integer() => Function::Absolute,
        "abs"
            if matches!(
                value_type,
                DataType::Decimal32(..) | DataType::Decimal64(..) | DataType::Decimal128(..)
            ) =>
        {
            Function::Absolute
        }
        "ceil" if float => Function::Ceiling,
        "floor" if float => Function::Floor,
        "sqrt" if float => Function::SquareRoot,
        "signum" if float => Function::Sign,
        "isnan" if float => Function::IsNan,
        "trunc" if float => Function::Truncate,
        name if *value_type == DataType::Float64 => Function::Elementary(elementary(name)?),
        _ => return None,
    })
}

fn elementary(name: &str) -> Option<Elementary> {
    Some(match name {
        "acos" => Elementary::Acos,
        "acosh" => Elementary::Acosh,
        "asin" => Elementary::Asin,
        "asinh" => Elementary::Asinh,
        "atan" => Elementary::Atan,
        "atanh" => Elementary::Atanh,
        "cbrt" => Elementary::Cbrt,
        "cos" => Elementary::Cos,
        "cosh" => Elementary::Cosh,
        "cot" => Elementary::Cot,
        "exp" => Elementary::Exp,
        "ln" => Elementary::Log,
        "log2" => Elementary::Log2,
        "log10" => Elementary::Log10,
        "sin" => Elementary::Sin,
        "sinh" => Elementary::Sinh,
        "tan" => Elementary::Tan,
        "tanh" => Elementary::Tanh,
        _ => return None,
    })
}
