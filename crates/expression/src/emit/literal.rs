//! Constants: read from the parameters, or part of the code if the value affects the instructions.

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;

use super::{Emitter, boolean, integer_value};
use crate::interval::{Interval, domain};
use crate::ir::Expr;
use crate::kind::Kind;
use crate::string::is_string;
use crate::value::Value;
use galatea_base::reason::Reason;

impl Emitter<'_> {
    /// A literal that is read from the parameters; NULL needs none.
    pub(super) fn literal(&mut self, value: &ScalarValue, data_type: &DataType) -> Result<Value, Reason> {
        if value.is_null() {
            return self.null_value(data_type);
        }
        if let Some(integer) = integer_of(value) {
            // The value determines the types of the operations on it. Literals at the same place seldom
            // differ in this.
            let interval = Interval::point(integer);
            let kind = interval.kind();
            let rhs = match kind {
                Kind::I128 => {
                    let index = self.parameters.wide_literal(integer);
                    format!("make_i128(args.literals[{index}], args.literals[{}])", index + 1)
                }
                _ => format!(
                    "({})args.literals[{}]",
                    kind.c_type(),
                    self.parameters.literal(integer as u64)
                ),
            };
            let code = self.define(&kind, &rhs);
            return Ok(integer_value(code, None, kind, data_type.clone(), interval));
        }
        Ok(match value {
            ScalarValue::Boolean(Some(value)) => {
                let index = self.parameters.literal(u64::from(*value));
                let code = self.define(&Kind::Bool, &format!("args.literals[{index}] != 0"));
                boolean(code, None)
            }
            ScalarValue::Float32(Some(value)) => {
                let index = self.parameters.literal(u64::from(value.to_bits()));
                let code = self.define(&Kind::F32, &format!("float_of_bits(args.literals[{index}])"));
                Value {
                    code,
                    null: None,
                    kind: Kind::F32,
                    data_type: data_type.clone(),
                    range: None,
                }
            }
            ScalarValue::Float64(Some(value)) => {
                let index = self.parameters.literal(value.to_bits());
                let code = self.define(&Kind::F64, &format!("double_of_bits(args.literals[{index}])"));
                Value {
                    code,
                    null: None,
                    kind: Kind::F64,
                    data_type: data_type.clone(),
                    range: None,
                }
            }
            value => match string_of(value) {
                Some(bytes) => self.string_literal(bytes, data_type),
                None => {
                    return Err(Reason::Type {
                        data_type: data_type.clone(),
                        place: "literal".to_owned(),
                    });
                }
            },
        })
    }

    /// NULL of a type.
    pub(super) fn null_value(&mut self, data_type: &DataType) -> Result<Value, Reason> {
        let null = Some("true".to_owned());
        let (code, kind) = match data_type {
            DataType::Boolean => ("false", Kind::Bool),
            DataType::Float32 => ("0.0f", Kind::F32),
            DataType::Float64 => ("0.0", Kind::F64),
            data_type if is_string(data_type) => {
                let values = arrow::array::new_empty_array(&DataType::Utf8);
                ("0u", Kind::Code { values })
            }
            data_type => {
                if domain(data_type).is_none() && *data_type != DataType::Null {
                    return Err(Reason::Type {
                        data_type: data_type.clone(),
                        place: "NULL".to_owned(),
                    });
                }
                ("0", Kind::I32)
            }
        };
        let range = kind.is_integer().then_some((0, 0));
        Ok(Value {
            code: code.to_owned(),
            null,
            kind,
            data_type: data_type.clone(),
            range,
        })
    }

    /// An integer that is part of the code, not a parameter.
    pub(super) fn constant(&self, value: i128, data_type: &DataType) -> Value {
        let interval = Interval::point(value);
        integer_value(
            constant_string(value),
            None,
            interval.kind(),
            data_type.clone(),
            interval,
        )
    }

    /// The operand, as a constant in the code if it is a literal. For operations that are much cheaper with a
    /// constant operand.
    pub(super) fn operand_or_constant(&mut self, expression: &Expr) -> Result<Value, Reason> {
        match expression.as_literal().and_then(integer_of) {
            Some(value) => Ok(self.constant(value, expression.data_type())),
            None => self.expression(expression),
        }
    }
}

/// An integer constant in C++.
pub(super) fn constant_string(value: i128) -> String {
    if let Ok(small) = i32::try_from(value) {
        // -2147483648 is not an `i32` literal in C++, but the negation of a `long`.
        return if small == i32::MIN {
            "(-2147483647 - 1)".to_owned()
        } else {
            small.to_string()
        };
    }
    match i64::try_from(value) {
        Ok(i64::MIN) => "(-9223372036854775807ll - 1)".to_owned(),
        Ok(middle) => format!("{middle}ll"),
        Err(_) => format!("make_i128({}ull, {}ull)", value as u64, (value >> 64) as u64),
    }
}

/// The integer that Arrow stores for a scalar of an integer-like type.
pub(super) fn integer_of(value: &ScalarValue) -> Option<i128> {
    Some(match value {
        ScalarValue::Int8(Some(value)) => i128::from(*value),
        ScalarValue::Int16(Some(value)) => i128::from(*value),
        ScalarValue::Int32(Some(value))
        | ScalarValue::Date32(Some(value))
        | ScalarValue::Time32Second(Some(value))
        | ScalarValue::Time32Millisecond(Some(value))
        | ScalarValue::Decimal32(Some(value), _, _) => i128::from(*value),
        ScalarValue::Int64(Some(value))
        | ScalarValue::Date64(Some(value))
        | ScalarValue::Time64Microsecond(Some(value))
        | ScalarValue::Time64Nanosecond(Some(value))
        | ScalarValue::TimestampSecond(Some(value), _)
        | ScalarValue::TimestampMillisecond(Some(value), _)
        | ScalarValue::TimestampMicrosecond(Some(value), _)
        | ScalarValue::TimestampNanosecond(Some(value), _)
        | ScalarValue::DurationSecond(Some(value))
        | ScalarValue::DurationMillisecond(Some(value))
        | ScalarValue::DurationMicrosecond(Some(value))
        | ScalarValue::DurationNanosecond(Some(value))
        | ScalarValue::Decimal64(Some(value), _, _) => i128::from(*value),
        ScalarValue::UInt8(Some(value)) => i128::from(*value),
        ScalarValue::UInt16(Some(value)) => i128::from(*value),
        ScalarValue::UInt32(Some(value)) => i128::from(*value),
        ScalarValue::UInt64(Some(value)) => i128::from(*value),
        ScalarValue::Decimal128(Some(value), _, _) => *value,
        _ => return None,
    })
}

/// The bytes of a string or binary scalar.
pub(super) fn string_of(value: &ScalarValue) -> Option<&[u8]> {
    match value {
        ScalarValue::Utf8(Some(value))
        | ScalarValue::LargeUtf8(Some(value))
        | ScalarValue::Utf8View(Some(value)) => Some(value.as_bytes()),
        ScalarValue::Binary(Some(value))
        | ScalarValue::LargeBinary(Some(value))
        | ScalarValue::BinaryView(Some(value)) => Some(value),
        ScalarValue::Dictionary(_, value) => string_of(value),
        _ => None,
    }
}
