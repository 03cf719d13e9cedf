//! Casts by Arrow's rules, with an error (or NULL under TRY_CAST) for values that do not fit.

use arrow::datatypes::DataType;

use super::arithmetic::{decimal_scale, power_of_ten};
use super::datetime::VALID_DAYS;
use super::{Emitter, as_kind, boolean, integer_value};
use crate::error::Fault;
use crate::interval::{Interval, domain};
use crate::ir::Expr;
use crate::kind::Kind;
use crate::operator::Arithmetic;
use crate::string::{is_string, is_utf8};
use crate::timestamp_units::per_second;
use crate::value::Value;
use galatea_base::reason::Reason;

/// Milliseconds (the unit of Date64) per day (the unit of Date32).
const MILLISECONDS_OF_DAY: i128 = 86_400_000;

/// Whether a cast has device code.
pub(crate) fn supported(from: &DataType, to: &DataType) -> bool {
    use DataType::{
        Boolean, Date32, Date64, Float32, Float64, Int32, Int64, LargeUtf8, Timestamp, Utf8, Utf8View,
    };
    let number = |data_type: &DataType| data_type.is_integer() || matches!(data_type, Float32 | Float64);
    let decimal = |data_type: &DataType| decimal_scale(data_type).is_some();
    match (from, to) {
        (from, to) if from == to => {
            domain(from).is_some() || is_string(from) || matches!(from, Boolean | Float32 | Float64)
        }
        (from, to) if is_string(from) && is_string(to) => is_utf8(from) || !is_utf8(to),
        (from, Utf8 | LargeUtf8 | Utf8View) => has_string(from),
        (from, Boolean) => number(from),
        (Boolean, to) => number(to),
        (from, to) if decimal(from) && decimal(to) => scale_factor(from, to).is_some(),
        (from, to) if decimal(from) => number(to) && scale_factor(from, &Int64).is_some(),
        (from, to) if decimal(to) => {
            // Arrow converts the integer to the decimal's machine type before any checks.
            let fits = domain(from)
                .zip(domain(to))
                .is_none_or(|(from, to)| from.within(to));
            number(from) && fits && scale_factor(&Int64, to).is_some()
        }
        (from, to) if number(from) && number(to) => true,
        (Int32 | Int64 | Date64 | Timestamp(_, None), Date32)
        | (Date32, Int32 | Int64 | Date64 | Timestamp(_, None)) => true,
        (Timestamp(_, from), Timestamp(_, to)) => from.is_some() || to.is_none(),
        (Timestamp(_, _), to) => number(to),
        (from, Timestamp(_, _)) => number(from),
        _ => false,
    }
}

/// Whether the device can convert values of this type to strings.
fn has_string(data_type: &DataType) -> bool {
    match data_type {
        DataType::Boolean | DataType::Date32 | DataType::Timestamp(_, None) => true,
        data_type => data_type.is_integer() || decimal_scale(data_type).is_some_and(|(scale, _)| scale >= 0),
    }
}

/// The power of ten between the scales of two types (integers have scale 0), and whether values are
/// multiplied by it.
fn scale_factor(from: &DataType, to: &DataType) -> Option<(i128, bool)> {
    let scale = |data_type: &DataType| decimal_scale(data_type).map_or(0, |(scale, _)| scale);
    let by = i32::from(scale(to)) - i32::from(scale(from));
    let machine = if by >= 0 && decimal_scale(to).is_some() {
        domain(to)?
    } else {
        domain(from)?
    };
    Some((power_of_ten(by.unsigned_abs(), machine)?, by >= 0))
}

/// The precision of a decimal type, and its range of unscaled values.
fn digits(data_type: &DataType) -> Option<(u8, Interval)> {
    let precision = match data_type {
        DataType::Decimal32(precision, _)
        | DataType::Decimal64(precision, _)
        | DataType::Decimal128(precision, _) => *precision,
        _ => return None,
    };
    let largest = 10i128.checked_pow(u32::from(precision))? - 1;
    Some((
        precision,
        Interval {
            low: -largest,
            high: largest,
        },
    ))
}

/// The error of a value that does not fit the target type of a cast.
fn lost(data_type: &DataType) -> Fault {
    Fault::Cast {
        data_type: data_type.clone(),
        message: None,
    }
}

impl Emitter<'_> {
    pub(super) fn cast(&mut self, expression: &Expr, input: &Expr, safe: bool) -> Result<Value, Reason> {
        let value = self.expression(input)?;
        let (from, to) = (input.data_type().clone(), expression.data_type().clone());
        let refuse = || Reason::Cast {
            from: from.clone(),
            to: to.clone(),
        };
        if from == to || (is_string(&from) && is_string(&to)) {
            return Ok(Value {
                data_type: to,
                ..value
            });
        }
        if is_string(&to) {
            return self.string_of_value(expression, input, value);
        }
        if to == DataType::Boolean {
            let condition = self.define(&Kind::Bool, &format!("{} != 0", value.code));
            let code = self.unless_null(&condition, value.null.as_ref());
            return Ok(boolean(code, value.null));
        }
        let value = if from == DataType::Boolean {
            let code = self.define(&Kind::I32, &format!("(i32){}", value.code));
            integer_value(
                code,
                value.null,
                Kind::I32,
                DataType::Int32,
                Interval { low: 0, high: 1 },
            )
        } else {
            value
        };
        match (value.kind.is_integer(), to.is_floating()) {
            (true, true) => Ok(self.integer_to_float(value, &from, &to)),
            (false, true) => {
                let kind = if to == DataType::Float32 {
                    Kind::F32
                } else {
                    Kind::F64
                };
                let code = self.define(&kind, &as_kind(&value, &kind));
                Ok(Value {
                    code,
                    kind,
                    data_type: to,
                    ..value
                })
            }
            (true, false) => self
                .integer_to_integer(value, &from, &to, safe)
                .ok_or_else(refuse),
            (false, false) if decimal_scale(&to).is_some() => {
                self.float_to_decimal(value, &to, safe).ok_or_else(refuse)
            }
            (false, false) => self.float_to_integer(value, &to, safe).ok_or_else(refuse),
        }
    }

    fn integer_to_float(&mut self, value: Value, from: &DataType, to: &DataType) -> Value {
        let kind = if *to == DataType::Float32 {
            Kind::F32
        } else {
            Kind::F64
        };
        let code = match decimal_scale(from) {
            None => format!("({}){}", kind.c_type(), value.code),
            Some((scale, _)) => {
                // Arrow divides by exactly this power as a double, also for FLOAT.
                let power = 10f64.powi(i32::from(scale));
                let divided = format!(
                    "(double){} / double_of_bits({:#x}ull)",
                    value.code,
                    power.to_bits()
                );
                if *to == DataType::Float32 {
                    format!("(float)({divided})")
                } else {
                    divided
                }
            }
        };
        let code = self.define(&kind, &code);
        Value {
            code,
            kind,
            data_type: to.clone(),
            range: None,
            ..value
        }
    }

    /// Casts between integer-like types, by scale and by range.
    fn integer_to_integer(
        &mut self,
        value: Value,
        from: &DataType,
        to: &DataType,
        safe: bool,
    ) -> Option<Value> {
        use DataType::{Date32, Date64, Timestamp};
        let target = domain(to)?;
        match (from, to) {
            (Timestamp(from, _), Timestamp(to_unit, _)) => {
                let (from, into) = (per_second(*from), per_second(*to_unit));
                if from > into {
                    return Some(self.quotient(value, i128::from(from / into), to));
                }
                return Some(self.scaled_up(value, i128::from(into / from), to, target, lost(to), safe));
            }
            (Date64, Date32) => {
                let days = self.quotient(value, MILLISECONDS_OF_DAY, to);
                // Arrow takes the low 32 bits of values that do not fit.
                return days.interval().within(target).then_some(days);
            }
            (Date32, Date64) => {
                return Some(self.scaled_up(value, MILLISECONDS_OF_DAY, to, target, lost(to), safe));
            }
            (Timestamp(unit, _), Date32) => {
                let days = self.floor_division(&value, i128::from(per_second(*unit)) * 86_400);
                let days = Value {
                    data_type: Date32,
                    ..days
                };
                return Some(self.checked_range(days, VALID_DAYS, lost(to)));
            }
            (Date32, Timestamp(unit, _)) => {
                let factor = i128::from(per_second(*unit)) * 86_400;
                return Some(self.scaled_up(value, factor, to, target, lost(to), safe));
            }
            _ => {}
        }
        let (factor, multiplies) = scale_factor(from, to)?;
        let limit = digits(to);
        let scaled = match (multiplies, &limit) {
            (_, _) if factor == 1 => value,
            (true, Some(_)) => self.scaled_up(value, factor, to, target, lost(to), safe),
            (true, None) => self.scaled_up(value, factor, from, domain(from)?, lost(to), safe),
            (false, Some(_)) if decimal_scale(from).is_some() => self.rounded_quotient(value, factor, to),
            (false, _) => self.quotient(value, factor, to),
        };
        let scaled = Value {
            data_type: to.clone(),
            ..scaled
        };
        let fitting = self.fit(scaled, target, lost(to), safe);
        match limit {
            Some((_, digits)) if !rescale_is_infallible(from, to) => {
                Some(self.fit(fitting, digits, lost(to), safe))
            }
            _ => Some(fitting),
        }
    }

    /// Multiplies by a constant. A result outside `machine` is an error or NULL.
    fn scaled_up(
        &mut self,
        value: Value,
        factor: i128,
        to: &DataType,
        machine: Interval,
        fault: Fault,
        safe: bool,
    ) -> Value {
        let factor_value = self.constant(factor, to);
        let exact = value.interval().multiply(Interval::point(factor));
        if exact.is_none() && safe {
            let pair = format!(
                "checked_multiply({}, {})",
                as_kind(&value, &Kind::I128),
                as_kind(&factor_value, &Kind::I128)
            );
            let pair = self.define_as("Checked", &pair);
            let overflow = self.define(&Kind::Bool, &format!("{pair}.overflow"));
            let null = self.either(value.null.clone(), overflow);
            let product = self.define(&Kind::I128, &format!("{pair}.value"));
            let product = integer_value(
                product,
                Some(null),
                Kind::I128,
                to.clone(),
                Interval::of::<i128>(),
            );
            return self.fit(product, machine, fault, safe);
        }
        let product = self.exact(
            Arithmetic::Multiply,
            &value,
            &factor_value,
            to,
            Interval::of::<i128>(),
        );
        self.fit(product, machine, fault, safe)
    }

    /// The value if it is within `target`; otherwise an error or NULL.
    fn fit(&mut self, value: Value, target: Interval, fault: Fault, safe: bool) -> Value {
        if !safe {
            return self.checked_range(value, target, fault);
        }
        let interval = value.interval();
        if interval.within(target) {
            return value;
        }
        let outside = self.outside(&value, target);
        let kind = target.kind();
        let inside = self.define(&kind, &format!("{outside} ? 0 : {}", as_kind(&value, &kind)));
        let null = self.either(value.null, outside);
        integer_value(
            inside,
            Some(null),
            kind,
            value.data_type,
            interval.clamp(target).hull(Interval::point(0)),
        )
    }

    /// A condition that is true if either is.
    pub(super) fn either(&mut self, null: Option<String>, other: String) -> String {
        match null {
            None => other,
            Some(null) => self.define(&Kind::Bool, &format!("{null} || {other}")),
        }
    }

    /// Truncates towards zero. NaN and values that do not fit are an error or NULL.
    fn float_to_integer(&mut self, value: Value, to: &DataType, safe: bool) -> Option<Value> {
        if matches!(to, DataType::Timestamp(_, _)) {
            let integer = self.float_to_integer(value, &DataType::Int64, safe)?;
            return Some(Value {
                data_type: to.clone(),
                ..integer
            });
        }
        let target = domain(to)?;
        // Both bounds are powers of two (or zero), which floats represent exactly.
        let truncated = self.define(&value.kind, &format!("float_truncate({})", value.code));
        let c_type = value.kind.c_type();
        let (low, high) = (
            (target.low as f64).to_bits(),
            ((target.high + 1) as f64).to_bits(),
        );
        let rhs = format!(
            "!({truncated} >= ({c_type})double_of_bits({low:#x}ull) && {truncated} < ({c_type})double_of_bits({high:#x}ull))"
        );
        let outside = self.define(&Kind::Bool, &rhs);
        let kind = target.kind();
        let code = self.define(&kind, &format!("{outside} ? 0 : ({}){truncated}", kind.c_type()));
        let null = self.lost(value.null, outside, lost(to), safe);
        Some(integer_value(code, null, kind, to.clone(), target))
    }

    /// Multiplies by the scale as double, and rounds.
    fn float_to_decimal(&mut self, value: Value, to: &DataType, safe: bool) -> Option<Value> {
        let (scale, _) = decimal_scale(to)?;
        let (precision, digits) = digits(to)?;
        let factor = 10f64.powi(i32::from(scale)).to_bits();
        let rhs = format!(
            "float_round(float_multiply(double_of_bits({factor:#x}ull), {}))",
            float_as(&value, &Kind::F64)
        );
        let rounded = self.define(&Kind::F64, &rhs);
        // Values beyond the machine type are lost at once. For others the precision is checked exactly.
        let (kind, machine) = if precision <= 18 {
            (Kind::I64, 2f64.powi(63))
        } else {
            (Kind::I128, 2f64.powi(127))
        };
        let bits = machine.to_bits();
        let rhs = format!("!(float_absolute({rounded}) < double_of_bits({bits:#x}ull))");
        let outside = self.define(&Kind::Bool, &rhs);
        let code = self.define(&kind, &format!("{outside} ? 0 : ({}){rounded}", kind.c_type()));
        let null = self.lost(value.null, outside, lost(to), safe);
        let all = if precision <= 18 {
            Interval::of::<i64>()
        } else {
            Interval::of::<i128>()
        };
        let integer = integer_value(code, null, kind, to.clone(), all);
        Some(self.fit(integer, digits, lost(to), safe))
    }

    /// Turns lost values into NULL, or raises an error.
    fn lost(&mut self, null: Option<String>, lost: String, fault: Fault, safe: bool) -> Option<String> {
        if safe {
            return Some(self.either(null, lost));
        }
        self.raise_unless_null(&lost, null.as_ref(), fault);
        null
    }
}

/// A float converted to the other width, if necessary.
fn float_as(value: &Value, kind: &Kind) -> String {
    match (&value.kind, kind) {
        (Kind::F32, Kind::F64) => format!("float_widen({})", value.code),
        (Kind::F64, Kind::F32) => format!("float_narrow({})", value.code),
        _ => value.code.clone(),
    }
}

/// Whether Arrow omits the precision check because the precisions guarantee that all values fit.
fn rescale_is_infallible(from: &DataType, to: &DataType) -> bool {
    let (Some((from_precision, _)), Some((to_precision, _))) = (digits(from), digits(to)) else {
        return false;
    };
    let (Some((from_scale, _)), Some((to_scale, _))) = (decimal_scale(from), decimal_scale(to)) else {
        return false;
    };
    let by = i16::from(to_scale) - i16::from(from_scale);
    let (from_precision, to_precision) = (i16::from(from_precision), i16::from(to_precision));
    if by >= 0 {
        from_precision + by <= to_precision
    } else {
        from_precision + by < to_precision
    }
}
