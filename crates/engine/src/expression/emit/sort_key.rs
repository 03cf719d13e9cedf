//! Orders as integers: what top rows are chosen by.
//!
//! ```text
//! 63 bits:  │ NULL? │ value − least of the first key │ NULL? │ as much as fits of the second │
//! ```
//!
//! Intervals tell how many bits a key takes. Complemented where the greatest comes first.

use arrow::datatypes::DataType;

use super::{Emitter, boolean, integer_of, integer_value};
use crate::expression::function::{BUCKETS, SortOrder};
use crate::expression::interval::Interval;
use crate::expression::ir::Expr;
use crate::expression::kind::Kind;
use crate::expression::value::Value;
use crate::reason::Reason;

/// Bits of a sort key: a positive integer of 64 bits.
const BITS: u32 = 63;

/// Bits in the order of values.
struct Ordered {
    code: String,
    bits: u32,
}

impl Emitter<'_> {
    pub(super) fn sort_key(&mut self, orders: &[SortOrder], arguments: &[Expr]) -> Result<Value, Reason> {
        let mut key = String::from("0ull");
        let mut free = BITS;
        for (order, argument) in orders.iter().zip(arguments) {
            if free == 0 {
                break;
            }
            let value = self.expression(argument)?;
            let ordered = self.ordered(&value)?;
            if let Some(null) = &value.null {
                let flag = if order.nulls_first {
                    format!("!{null}")
                } else {
                    null.clone()
                };
                key = self.define_as("u64", &format!("{key} << 1 | u64({flag})"));
                free -= 1;
            }
            let taken = ordered.bits.min(free);
            if taken == 0 {
                continue;
            }
            let mask = self.parameter(u64::MAX.checked_shr(64 - ordered.bits.min(64)).unwrap_or(0));
            let mut code = match order.descending {
                true => format!("(args.literals[{mask}] - {})", ordered.code),
                false => ordered.code,
            };
            if let Some(null) = &value.null {
                code = format!("({null} ? 0ull : {code})");
            }
            let (left, right) = (
                self.parameter(taken.into()),
                self.parameter((ordered.bits - taken).into()),
            );
            let rhs = format!("{key} << args.literals[{left}] | {code} >> args.literals[{right}]");
            key = self.define_as("u64", &rhs);
            free -= taken;
        }
        let range = Interval {
            low: 0,
            high: (1_i128 << (BITS - free)) - 1,
        };
        let code = self.define_as("i64", &format!("i64({key})"));
        Ok(integer_value(code, None, Kind::I64, DataType::Int64, range))
    }

    /// A value as at most 64 bits, of which those of NULL are of no meaning.
    fn ordered(&mut self, value: &Value) -> Result<Ordered, Reason> {
        let (code, bits) = match &value.kind {
            Kind::Bool => (format!("u64({})", value.code), 1),
            Kind::Code { values } => {
                let codes = values.len().max(1) as u64;
                (
                    format!("u64({})", value.code),
                    u64::BITS - (codes - 1).leading_zeros(),
                )
            }
            Kind::F32 | Kind::F64 => (format!("rank_f64(double({}))", value.code), u64::BITS),
            Kind::I32 | Kind::I64 | Kind::I128 => {
                let Interval { low, high } = value.interval();
                let span = high.wrapping_sub(low) as u128;
                let bits = u128::BITS - span.leading_zeros();
                let least = self.wide_parameter(low);
                let code = match value.kind {
                    Kind::I128 => {
                        let cut = self.parameter(u64::from(bits.saturating_sub(u64::BITS)));
                        format!(
                            "u64((u128({}) - u128(make_i128(args.literals[{least}], args.literals[{}]))) >> args.literals[{cut}])",
                            value.code,
                            least + 1
                        )
                    }
                    _ => format!("(u64(i64({})) - args.literals[{least}])", value.code),
                };
                (code, bits.min(u64::BITS))
            }
            Kind::Text => {
                return Err(Reason::Type {
                    data_type: value.data_type.clone(),
                    place: "an order of strings without a dictionary".into(),
                });
            }
        };
        let code = self.define_as("u64", &code);
        Ok(Ordered { code, bits })
    }

    /// Whether a sort key is between two constants.
    pub(super) fn within(&mut self, key: &Expr, bounds: [&Expr; 2]) -> Result<Value, Reason> {
        let key = self.expression(key)?.code;
        let [least, greatest] = self.words(bounds)?;
        let test = format!("u64({key}) >= {least} && u64({key}) <= {greatest}");
        Ok(boolean(self.define_as("bool", &test), None))
    }

    pub(super) fn bucket(&mut self, key: &Expr, constants: [&Expr; 2]) -> Result<Value, Reason> {
        let key = self.expression(key)?.code;
        let [least, shift] = self.words(constants)?;
        let bucket = self.define_as("u64", &format!("(u64({key}) - {least}) >> {shift}"));
        let last = BUCKETS - 1;
        let code = self.define_as("i32", &format!("{bucket} < {last}u ? i32({bucket}) : {last}"));
        let range = Interval {
            low: 0,
            high: last.into(),
        };
        Ok(integer_value(code, None, Kind::I32, DataType::Int32, range))
    }

    /// Constants as words of 64 bits, whatever their size: the passes of one search share their kernels.
    fn words(&mut self, constants: [&Expr; 2]) -> Result<[String; 2], Reason> {
        let mut word = |constant: &Expr| {
            let value = constant
                .as_literal()
                .and_then(integer_of)
                .ok_or(Reason::Expression {
                    expression: constant.to_string(),
                    detail: "a constant is needed".into(),
                })?;
            Ok(format!("args.literals[{}]", self.parameter(value as u64)))
        };
        Ok([word(constants[0])?, word(constants[1])?])
    }
}
