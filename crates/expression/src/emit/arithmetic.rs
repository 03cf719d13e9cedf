//! Arithmetic: exact integers within intervals; checks and wrapping only if an interval exceeds its type.

use arrow::datatypes::DataType;

use super::{Emitter, as_kind, integer_value};
use crate::error::Fault;
use crate::interval::{Interval, domain, is_capped, result_range};
use crate::ir::Expr;
use crate::kernel_error::Place;
use crate::kind::Kind;
use crate::operator::{Arithmetic, Bitwise};
use crate::value::Value;
use galatea_base::reason::Reason;

/// The scale and the maximum scale of a decimal type.
pub(super) fn decimal_scale(data_type: &DataType) -> Option<(i8, i8)> {
    match data_type {
        DataType::Decimal32(_, scale) => Some((*scale, 9)),
        DataType::Decimal64(_, scale) => Some((*scale, 18)),
        DataType::Decimal128(_, scale) => Some((*scale, 38)),
        _ => None,
    }
}

/// 10 to the power of `exponent`, if it is in `domain`.
pub(super) fn power_of_ten(exponent: u32, domain: Interval) -> Option<i128> {
    10i128
        .checked_pow(exponent)
        .filter(|power| domain.contains(*power))
}

/// Width in bits and signedness of a machine integer.
fn machine(domain: Interval) -> (u32, bool) {
    let signed = domain.low < 0;
    let bits = 128 - domain.high.leading_zeros() + u32::from(signed);
    (bits, signed)
}

fn c_integer(bits: u32, signed: bool) -> String {
    format!("{}{bits}", if signed { "i" } else { "u" })
}

impl Emitter<'_> {
    pub(super) fn arithmetic(
        &mut self,
        expression: &Expr,
        operator: Arithmetic,
        left: &Expr,
        right: &Expr,
        checked: bool,
    ) -> Result<Value, Reason> {
        let left_value = self.expression(left)?;
        let divides = matches!(operator, Arithmetic::Divide | Arithmetic::Remainder);
        let right_value = if divides {
            self.operand_or_constant(right)?
        } else {
            self.expression(right)?
        };
        let data_type = expression.data_type();
        if data_type.is_floating() {
            return Ok(self.float_arithmetic(operator, &left_value, &right_value, data_type));
        }
        let refuse = || Reason::Operator {
            operator: operator.to_string(),
            left: left.data_type().clone(),
            right: right.data_type().clone(),
        };
        let domain = domain(data_type).ok_or_else(refuse)?;
        let scales = decimal_scale(left.data_type()).zip(decimal_scale(right.data_type()));
        if let Some(((left_scale, largest), (right_scale, _))) = scales {
            let scales = (left_scale, right_scale, largest);
            let result = match result_range(data_type) {
                Some(digits) if checked && is_capped(data_type) => digits,
                _ => domain,
            };
            let value = self.decimal_arithmetic(operator, left_value, right_value, scales, data_type, domain);
            let value = value.ok_or_else(refuse)?;
            return Ok(self.checked_range(value, result, Fault::of_arithmetic(data_type)));
        }
        Ok(match operator {
            Arithmetic::Divide => self.divide(&left_value, &right_value, data_type, domain),
            Arithmetic::Remainder => self.remainder(&left_value, &right_value, data_type, domain, false),
            operator if checked => self.exact(operator, &left_value, &right_value, data_type, domain),
            operator => self.wrapping(operator, &left_value, &right_value, data_type, domain),
        })
    }

    /// Decimals by Arrow's rules: operands are rescaled in the machine type, with checks; nothing is rounded,
    /// and the precision is not checked. `None` if a power of ten exceeds the type, which Arrow reports as an
    /// error.
    fn decimal_arithmetic(
        &mut self,
        operator: Arithmetic,
        left: Value,
        right: Value,
        (left_scale, right_scale, largest): (i8, i8, i8),
        data_type: &DataType,
        domain: Interval,
    ) -> Option<Value> {
        // Arrow computes nothing if either side is NULL, so scaling must not overflow then.
        let null = self.any_null(&[&left, &right]);
        let (left, right) = (
            Value {
                null: null.clone(),
                ..left
            },
            Value { null, ..right },
        );
        let mut scaled = |value: Value, by: i8| -> Option<Value> {
            if by == 0 {
                return Some(value);
            }
            let power = self.constant(power_of_ten(u32::try_from(by).ok()?, domain)?, data_type);
            Some(self.exact(Arithmetic::Multiply, &value, &power, data_type, domain))
        };
        Some(match operator {
            Arithmetic::Multiply => self.exact(operator, &left, &right, data_type, domain),
            Arithmetic::Divide => {
                let result_scale = left_scale.saturating_add(4).min(largest);
                let by = result_scale - left_scale + right_scale;
                let left = scaled(left, by.max(0))?;
                let right = scaled(right, -by.min(0))?;
                self.divide(&left, &right, data_type, domain)
            }
            operator => {
                let scale = left_scale.max(right_scale);
                let left = scaled(left, scale - left_scale)?;
                let right = scaled(right, scale - right_scale)?;
                if operator == Arithmetic::Remainder {
                    self.remainder(&left, &right, data_type, domain, true)
                } else {
                    self.exact(operator, &left, &right, data_type, domain)
                }
            }
        })
    }

    /// +, - or *, with an error if the result is outside `domain`.
    pub(super) fn exact(
        &mut self,
        operator: Arithmetic,
        left: &Value,
        right: &Value,
        data_type: &DataType,
        domain: Interval,
    ) -> Value {
        let (left_interval, right_interval) = (left.interval(), right.interval());
        let exact = interval_of(operator, left_interval, right_interval);
        let null = self.any_null(&[left, right]);
        match exact {
            Some(exact) => {
                let kind = exact.hull(left_interval).hull(right_interval).kind();
                let rhs = format!("{} {operator} {}", as_kind(left, &kind), as_kind(right, &kind));
                let code = self.define(&kind, &rhs);
                let value = integer_value(code, null, kind, data_type.clone(), exact);
                self.checked_range(value, domain, Fault::of_arithmetic(data_type))
            }
            None => {
                let name = match operator {
                    Arithmetic::Add => "checked_add",
                    Arithmetic::Subtract => "checked_subtract",
                    _ => "checked_multiply",
                };
                let rhs = format!(
                    "{name}({}, {})",
                    as_kind(left, &Kind::I128),
                    as_kind(right, &Kind::I128)
                );
                let pair = self.define_as("Checked", &rhs);
                self.raise_unless_null(
                    &format!("{pair}.overflow"),
                    null.as_ref(),
                    Fault::of_arithmetic(data_type),
                );
                let code = self.define(&Kind::I128, &format!("{pair}.value"));
                let value = integer_value(code, null, Kind::I128, data_type.clone(), Interval::of::<i128>());
                self.checked_range(value, domain, Fault::of_arithmetic(data_type))
            }
        }
    }

    /// The value, with an error if it is outside `domain`. The returned interval is within `domain`.
    pub(super) fn checked_range(&mut self, value: Value, domain: Interval, fault: Fault) -> Value {
        let place = self.error_place();
        self.checked_range_at(value, domain, fault, place)
    }

    /// Like [`Self::checked_range`], with an explicit place of the error.
    pub(super) fn checked_range_at(
        &mut self,
        value: Value,
        domain: Interval,
        fault: Fault,
        place: Place,
    ) -> Value {
        let interval = value.interval();
        if interval.within(domain) {
            return value;
        }
        let outside = self.outside(&value, domain);
        let raises = self.unless_null(&outside, value.null.as_ref());
        self.raise(&raises, fault, place);
        let kind = domain.kind();
        let filler = super::constant_string(0i128.clamp(domain.low, domain.high));
        let inside = self.define(
            &kind,
            &format!("{outside} ? {filler} : {}", as_kind(&value, &kind)),
        );
        integer_value(inside, value.null, kind, value.data_type, interval.clamp(domain))
    }

    /// A condition that is true if the value is outside `domain`.
    pub(super) fn outside(&mut self, value: &Value, domain: Interval) -> String {
        let interval = value.interval();
        let below = (interval.low < domain.low)
            .then(|| format!("{} < {}", value.code, super::constant_string(domain.low)));
        let above = (interval.high > domain.high)
            .then(|| format!("{} > {}", value.code, super::constant_string(domain.high)));
        let both: Vec<String> = below.into_iter().chain(above).collect();
        self.define(&Kind::Bool, &both.join(" || "))
    }

    /// +, - or * modulo the width of the type.
    fn wrapping(
        &mut self,
        operator: Arithmetic,
        left: &Value,
        right: &Value,
        data_type: &DataType,
        domain: Interval,
    ) -> Value {
        let exact = interval_of(operator, left.interval(), right.interval());
        if exact.is_some_and(|exact| exact.within(domain)) {
            return self.exact(operator, left, right, data_type, domain);
        }
        let null = self.any_null(&[left, right]);
        let (bits, signed) = machine(domain);
        let wide = c_integer(bits.max(32), false);
        let kind = domain.kind();
        let narrow = c_integer(bits, signed);
        let rhs = format!(
            "({})({narrow})(({wide}){} {operator} ({wide}){})",
            kind.c_type(),
            left.code,
            right.code
        );
        let code = self.define(&kind, &rhs);
        integer_value(code, null, kind, data_type.clone(), domain)
    }

    /// A divisor that is neither zero nor (if `checked`) -1 for the least dividend of `domain`. Errors are
    /// raised in these cases.
    fn divisor(
        &mut self,
        left: &Value,
        right: &Value,
        null: Option<&String>,
        domain: Interval,
        checked: bool,
    ) -> (String, Kind) {
        // The least integer of a C++ type divided by -1 exceeds the C++ type, if not the SQL type.
        let operands = left.interval().hull(right.interval());
        let quotient = left
            .interval()
            .divide(right.interval())
            .map(|quotient| quotient.clamp(domain));
        let kind = quotient
            .map_or(operands, |quotient| operands.hull(quotient))
            .kind();
        let mut divisor = as_kind(right, &kind);
        if right.interval().contains(0) {
            let zero = self.define(&Kind::Bool, &format!("{} == 0", right.code));
            self.raise_unless_null(&zero, null, Fault::DivisionByZero);
            divisor = self.define(&kind, &format!("{zero} ? 1 : {divisor}"));
        }
        if checked && least_by_minus_one(left, right, domain) {
            let text = super::constant_string(domain.low);
            let overflow = self.define(
                &Kind::Bool,
                &format!("{} == {text} && {divisor} == -1", left.code),
            );
            self.raise_unless_null(&overflow, null, Fault::of_operation(&left.data_type));
            divisor = self.define(&kind, &format!("{overflow} ? 1 : {divisor}"));
        }
        (divisor, kind)
    }

    fn divide(&mut self, left: &Value, right: &Value, data_type: &DataType, domain: Interval) -> Value {
        let null = self.any_null(&[left, right]);
        let (divisor, kind) = self.divisor(left, right, null.as_ref(), domain, true);
        let code = self.define(&kind, &format!("{} / {divisor}", as_kind(left, &kind)));
        // Dividing by 1 instead of 0 or -1 yields the dividend, which fits the type.
        let replaced = right.interval().contains(0) || least_by_minus_one(left, right, domain);
        let interval = match left.interval().divide(right.interval()) {
            Some(interval) if replaced => interval.hull(left.interval()).clamp(domain),
            Some(interval) => interval.clamp(domain),
            None => domain,
        };
        integer_value(code, null, kind, data_type.clone(), interval)
    }

    /// The remainder. The least integer by -1 is 0 for integers and an overflow for decimals.
    fn remainder(
        &mut self,
        left: &Value,
        right: &Value,
        data_type: &DataType,
        domain: Interval,
        decimal: bool,
    ) -> Value {
        let null = self.any_null(&[left, right]);
        let (mut divisor, kind) = self.divisor(left, right, null.as_ref(), domain, decimal);
        let least = kind_minimum(&kind);
        if !(decimal && least == domain.low)
            && left.interval().contains(least)
            && right.interval().contains(-1)
        {
            // Undefined in C++ although the remainder exists; it equals that by 1.
            divisor = self.define(&kind, &format!("{divisor} == -1 ? 1 : {divisor}"));
        }
        let code = self.define(&kind, &format!("{} % {divisor}", as_kind(left, &kind)));
        integer_value(
            code,
            null,
            kind,
            data_type.clone(),
            left.interval().remainder(right.interval()),
        )
    }

    fn float_arithmetic(
        &mut self,
        operator: Arithmetic,
        left: &Value,
        right: &Value,
        data_type: &DataType,
    ) -> Value {
        let null = self.any_null(&[left, right]);
        let name = match operator {
            Arithmetic::Add => "float_add",
            Arithmetic::Subtract => "float_subtract",
            Arithmetic::Multiply => "float_multiply",
            Arithmetic::Divide => "float_divide",
            Arithmetic::Remainder => "float_remainder",
        };
        let kind = if *data_type == DataType::Float32 {
            Kind::F32
        } else {
            Kind::F64
        };
        let code = self.define(&kind, &format!("{name}({}, {})", left.code, right.code));
        Value {
            code,
            null,
            kind,
            data_type: data_type.clone(),
            range: None,
        }
    }

    pub(super) fn negate(&mut self, expression: &Expr, input: &Expr) -> Result<Value, Reason> {
        let value = self.expression(input)?;
        let data_type = expression.data_type();
        if data_type.is_floating() {
            let code = self.define(&value.kind, &format!("float_negate({})", value.code));
            return Ok(Value { code, ..value });
        }
        let refuse = || Reason::Type {
            data_type: data_type.clone(),
            place: expression.to_string(),
        };
        let domain = domain(data_type).ok_or_else(refuse)?;
        let zero = self.constant(0, data_type);
        Ok(if data_type.is_integer() {
            self.wrapping(Arithmetic::Subtract, &zero, &value, data_type, domain)
        } else {
            self.exact(Arithmetic::Subtract, &zero, &value, data_type, domain)
        })
    }

    pub(super) fn absolute(&mut self, expression: &Expr, input: &Expr) -> Result<Value, Reason> {
        let value = self.expression(input)?;
        let data_type = expression.data_type();
        if data_type.is_floating() {
            let code = self.define(&value.kind, &format!("float_absolute({})", value.code));
            return Ok(Value { code, ..value });
        }
        let refuse = || Reason::Type {
            data_type: data_type.clone(),
            place: expression.to_string(),
        };
        let domain = domain(data_type).ok_or_else(refuse)?;
        if value.interval().low >= 0 {
            return Ok(value);
        }
        let zero = self.constant(0, data_type);
        let negative = self.define(&Kind::Bool, &format!("{} < 0", value.code));
        // Only the least integer overflows. Its negation must not be computed in any row.
        let least = value.interval().contains(domain.low);
        let value = if least {
            let overflow = self.define(
                &Kind::Bool,
                &format!("{} == {}", value.code, super::constant_string(domain.low)),
            );
            self.raise_unless_null(&overflow, value.null.as_ref(), Fault::of_operation(data_type));
            let replaced = self.define(
                &value.kind,
                &format!(
                    "{} == {} ? 0 : {}",
                    value.code,
                    super::constant_string(domain.low),
                    value.code
                ),
            );
            let interval = Interval {
                low: value.interval().low.max(domain.low + 1),
                high: value.interval().high,
            };
            integer_value(
                replaced,
                value.null.clone(),
                value.kind.clone(),
                data_type.clone(),
                interval,
            )
        } else {
            value
        };
        let negated = self.exact(Arithmetic::Subtract, &zero, &value, data_type, domain);
        let interval = value.interval().absolute().unwrap_or(domain);
        let kind = interval.hull(value.interval()).kind();
        let rhs = format!(
            "{negative} ? {} : {}",
            as_kind(&negated, &kind),
            as_kind(&value, &kind)
        );
        let code = self.define(&kind, &rhs);
        Ok(integer_value(code, value.null, kind, data_type.clone(), interval))
    }

    pub(super) fn bitwise(&mut self, operator: Bitwise, left: &Expr, right: &Expr) -> Result<Value, Reason> {
        let refuse = || Reason::Operator {
            operator: operator.to_string(),
            left: left.data_type().clone(),
            right: right.data_type().clone(),
        };
        let data_type = left.data_type();
        let domain = domain(data_type).ok_or_else(refuse)?;
        let (left, right) = (self.expression(left)?, self.expression(right)?);
        let null = self.any_null(&[&left, &right]);
        let (bits, signed) = machine(domain);
        let own = c_integer(bits, signed);
        let unsigned = c_integer(bits.max(32), false);
        let kind = domain.kind();
        let result = match operator {
            Bitwise::And | Bitwise::Or | Bitwise::Xor => {
                format!("({unsigned}){} {operator} ({unsigned}){}", left.code, right.code)
            }
            Bitwise::ShiftLeft => format!(
                "({unsigned}){} << ((u32){} & {})",
                left.code,
                right.code,
                bits - 1
            ),
            Bitwise::ShiftRight => format!("({own}){} >> ((u32){} & {})", left.code, right.code, bits - 1),
        };
        let code = self.define(&kind, &format!("({})({own})({result})", kind.c_type()));
        let (a, b) = (left.interval(), right.interval());
        let interval = match operator {
            Bitwise::And if a.low >= 0 && b.low >= 0 => Interval {
                low: 0,
                high: a.high.min(b.high),
            },
            _ => domain,
        };
        Ok(integer_value(code, null, kind, data_type.clone(), interval))
    }
}

fn interval_of(operator: Arithmetic, left: Interval, right: Interval) -> Option<Interval> {
    match operator {
        Arithmetic::Add => left.add(right),
        Arithmetic::Subtract => left.subtract(right),
        Arithmetic::Multiply => left.multiply(right),
        Arithmetic::Divide => left.divide(right),
        Arithmetic::Remainder => Some(left.remainder(right)),
    }
}

/// Whether the division can exceed `domain`: its least integer divided by -1.
fn least_by_minus_one(left: &Value, right: &Value, domain: Interval) -> bool {
    domain.low < 0 && left.interval().contains(domain.low) && right.interval().contains(-1)
}

fn kind_minimum(kind: &Kind) -> i128 {
    match kind {
        Kind::I32 => i128::from(i32::MIN),
        Kind::I64 => i128::from(i64::MIN),
        _ => i128::MIN,
    }
}
