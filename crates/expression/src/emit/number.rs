//! Functions of integers and decimals, and dates and times constructed from integers.

use super::datetime::VALID_DAYS;
use super::{Emitter, as_kind, integer_value};
use crate::error::Fault;
use crate::function::{Function, Rounding};
use crate::interval::{Interval, domain};
use crate::ir::Expr;
use crate::kind::Kind;
use crate::operator::Arithmetic;
use crate::value::Value;
use galatea_base::reason::Reason;

impl Emitter<'_> {
    /// See [`Function::Multiple`].
    pub(super) fn multiple(
        &mut self,
        expression: &Expr,
        (rounding, divisor, factor): (Rounding, i128, i128),
        digits: Option<u8>,
        input: &Expr,
    ) -> Result<Value, Reason> {
        let value = self.expression(input)?;
        let data_type = expression.data_type();
        let domain = domain(data_type).ok_or_else(|| Reason::Type {
            data_type: data_type.clone(),
            place: expression.to_string(),
        })?;
        let quotient = match divisor {
            1 => value,
            _ => self.divided(value, divisor, rounding, data_type),
        };
        let product = match factor {
            1 => quotient,
            _ => {
                let factor = self.constant(factor, data_type);
                self.exact(Arithmetic::Multiply, &quotient, &factor, data_type, domain)
            }
        };
        let product = Value {
            data_type: data_type.clone(),
            ..product
        };
        let most = digits.and_then(|digits| 10i128.checked_pow(digits.into()));
        Ok(match most {
            None => self.checked_range(product, domain, Fault::Function),
            Some(most) => {
                let fitting = Interval {
                    low: 1 - most,
                    high: most - 1,
                };
                self.checked_range(product, fitting, Fault::Function)
            }
        })
    }

    /// Functions of several integers.
    pub(super) fn of_integers(
        &mut self,
        expression: &Expr,
        function: &Function,
        arguments: &[Expr],
    ) -> Result<Value, Reason> {
        let values = arguments.iter().map(|argument| self.expression(argument));
        let values = values.collect::<Result<Vec<_>, _>>()?;
        let null = self.any_null(&values.iter().collect::<Vec<_>>());
        let long: Vec<String> = values.iter().map(|value| as_kind(value, &Kind::I64)).collect();
        let long = long.join(", ");
        let (name, kind, interval, error) = match function {
            Function::GreatestCommonDivisor => ("common_divisor", Kind::I64, LONG, Fault::Function),
            Function::LeastCommonMultiple => ("common_multiple", Kind::I64, LONG, Fault::Function),
            Function::Factorial => ("factorial", Kind::I64, LONG, Fault::Function),
            Function::MakeDate => ("date_of", Kind::I32, VALID_DAYS, Fault::Function),
            Function::MakeTime => ("time_of", Kind::I32, DAY, Fault::Function),
            other => {
                return Err(Reason::Function {
                    name: other.to_string(),
                    detail: "not a function of integers".to_owned(),
                });
            }
        };
        let result = self.define_as("Checked64", &format!("{name}({long})"));
        self.raise_unless_null(&format!("{result}.fails"), null.as_ref(), error);
        let code = self.define(&kind, &format!("({}){result}.value", kind.c_type()));
        Ok(integer_value(
            code,
            null,
            kind,
            expression.data_type().clone(),
            interval,
        ))
    }
}

/// Non-negative 64-bit integers.
const LONG: Interval = Interval {
    low: 0,
    high: i64::MAX as i128,
};

/// Seconds of a day.
const DAY: Interval = Interval { low: 0, high: 86_399 };
