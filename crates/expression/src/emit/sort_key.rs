//! Sort keys as integers: for top-k selection, and for sorting all rows.
//!
//! ```text
//! 63 bits:        │ NULL? │ value − least of the first key │ NULL? │ leading bits of the second that fit │
//! words of 64:    │ ... NULL? │ value − least of the first ke│y │ NULL? │ value − least of the second key │
//! ```
//!
//! For a string without a dictionary, a 63-bit sort key contains the first bytes. Words contain the place of
//! the interned string, which is replaced by its rank before rows are sorted ([`OrderedString`]).
//!
//! Intervals determine the number of bits of a key. Values are complemented for descending order. The last
//! word ends with the last bit of the last key, so the unused upper digits are the same in all rows.

use arrow::datatypes::DataType;

use super::{Emitter, boolean, integer_of, integer_value};
use crate::function::{BUCKETS, SortOrder};
use crate::interval::Interval;
use crate::ir::Expr;
use crate::key_space::PLACE_BITS;
use crate::kind::Kind;
use crate::value::Value;
use galatea_base::reason::Reason;
use std::cmp::Ordering;

/// Bits of a sort key: a positive 64-bit integer.
const BITS: u32 = 63;

/// A field of a sort key, in the order of values.
struct Ordered {
    code: String,
    bits: u32,
    /// Whether the bits are the place of an interned string.
    placed: bool,
}

/// The place of an interned string in a word of a sort key. It is replaced by the string's rank before rows
/// are sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OrderedString {
    /// Position of its last bit in the word; its first bits may be in the previous word.
    pub bit: u32,
    /// Whether the order is descending.
    pub descending: bool,
}

/// Representation of strings in a sort key.
#[derive(Clone, Copy, PartialEq)]
enum Texts {
    /// Codes of sorted dictionaries; places of interned strings if there is no dictionary.
    Placed,
    /// Codes of sorted dictionaries; the first bytes if there is no dictionary, which do not distinguish all
    /// strings.
    First,
}

impl Emitter<'_> {
    pub(super) fn sort_key(&mut self, orders: &[SortOrder], arguments: &[Expr]) -> Result<Value, Reason> {
        let mut key = String::from("0ull");
        let mut free = BITS;
        for (order, argument) in orders.iter().zip(arguments) {
            if free == 0 {
                self.parameters.cuts_order = true;
                break;
            }
            for Ordered { code, bits, .. } in self.fields(*order, argument, Texts::First)? {
                let taken = bits.min(free);
                self.parameters.cuts_order |= taken < bits;
                if taken == 0 {
                    continue;
                }
                let (left, right) = (
                    self.parameter(taken.into()),
                    self.parameter((bits - taken).into()),
                );
                let rhs = format!("{key} << args.literals[{left}] | {code} >> args.literals[{right}]");
                key = self.define_as("u64", &rhs);
                free -= taken;
            }
        }
        let range = Interval {
            low: 0,
            high: (1_i128 << (BITS - free)) - 1,
        };
        let code = self.define_as("i64", &format!("i64({key})"));
        Ok(integer_value(code, None, Kind::I64, DataType::Int64, range))
    }

    /// A word of the complete sort key: the fields that overlap it. A word of at most 32 bits is a 32-bit
    /// integer.
    pub(super) fn sort_word(
        &mut self,
        expression: &Expr,
        orders: &[SortOrder],
        arguments: &[Expr],
        (word, words): (u32, u32),
    ) -> Result<Value, Reason> {
        let mut fields = Vec::new();
        for (order, argument) in orders.iter().zip(arguments) {
            let of_key = self.fields(*order, argument, Texts::Placed)?;
            fields.extend(of_key.into_iter().map(|field| (order.descending, field)));
        }
        let bits: u32 = fields.iter().map(|(_, field)| field.bits).sum();
        if bits > words * u64::BITS {
            return Err(Reason::Limit {
                expression: "an order".into(),
                asked: bits.into(),
                limit: u64::from(words * u64::BITS),
                unit: "bits",
            });
        }
        let first = word * u64::BITS;
        let mut end = bits;
        let mut parts = Vec::new();
        let mut texts = Vec::new();
        for (descending, Ordered { code, bits, placed }) in fields {
            end -= bits;
            if placed && (first..first + u64::BITS).contains(&end) {
                texts.push(OrderedString {
                    bit: end - first,
                    descending,
                });
            }
            if bits == 0 || end >= first + u64::BITS || end + bits <= first {
                continue;
            }
            parts.push(match end.cmp(&first) {
                Ordering::Greater => format!(
                    "{code} << args.literals[{}]",
                    self.parameter((end - first).into())
                ),
                Ordering::Equal => code,
                Ordering::Less => format!(
                    "{code} >> args.literals[{}]",
                    self.parameter((first - end).into())
                ),
            });
        }
        if !texts.is_empty() {
            self.ordered_strings.insert(expression.clone(), texts);
        }
        let own = bits.saturating_sub(first).min(u64::BITS);
        let code = match parts.is_empty() {
            true => "0ull".to_owned(),
            false => parts.join(" | "),
        };
        // The bits of an unsigned integer in a signed one of the same width.
        let (kind, data_type, c_type, half) = match own {
            0..=32 => (Kind::I32, DataType::Int32, "i32", 1_i128 << 31),
            _ => (Kind::I64, DataType::Int64, "i64", 1_i128 << 63),
        };
        let range = match own {
            0 => Interval { low: 0, high: 0 },
            _ => Interval {
                low: -half,
                high: half - 1,
            },
        };
        let code = self.define_as(c_type, &format!("{c_type}({code})"));
        Ok(integer_value(code, None, kind, data_type, range))
    }

    /// The strings without a dictionary whose last bit is in the given word, which was emitted before.
    pub fn ordered_strings(&self, word: &Expr) -> &[OrderedString] {
        self.ordered_strings.get(word).map_or(&[], Vec::as_slice)
    }

    /// The fields of a key, the most significant first: the NULL flag, and the value, which is complemented
    /// for descending order and 0 for NULL. Each field has at most 64 bits.
    fn fields(&mut self, order: SortOrder, argument: &Expr, texts: Texts) -> Result<Vec<Ordered>, Reason> {
        let value = self.expression(argument)?;
        let mut fields = Vec::new();
        if let Some(null) = &value.null {
            let flag = match order.nulls_first {
                true => format!("u64(!{null})"),
                false => format!("u64({null})"),
            };
            fields.push(Ordered {
                code: self.define_as("u64", &flag),
                bits: 1,
                placed: false,
            });
        }
        let placed = texts == Texts::Placed && value.kind.is_bytes();
        for (mut code, bits) in self.ordered(&value, texts)? {
            if order.descending {
                let mask = self.parameter(u64::MAX.checked_shr(u64::BITS - bits).unwrap_or(0));
                code = format!("(args.literals[{mask}] - {code})");
            }
            if let Some(null) = &value.null {
                code = format!("({null} ? 0ull : {code})");
            }
            fields.push(Ordered { code, bits, placed });
        }
        Ok(fields)
    }

    /// A value as fields with their number of bits (at most 64), the most significant first; undefined for
    /// NULL.
    fn ordered(&mut self, value: &Value, texts: Texts) -> Result<Vec<(String, u32)>, Reason> {
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
                match value.kind {
                    Kind::I128 => {
                        let wide = format!(
                            "u128({}) - u128(make_i128(args.literals[{least}], args.literals[{}]))",
                            value.code,
                            least + 1
                        );
                        let wide = self.define_as("u128", &wide);
                        if bits > u64::BITS {
                            let upper = self.define_as("u64", &format!("u64({wide} >> 64)"));
                            let lower = self.define_as("u64", &format!("u64({wide})"));
                            return Ok(vec![(upper, bits - u64::BITS), (lower, u64::BITS)]);
                        }
                        (format!("u64({wide})"), bits)
                    }
                    _ => (
                        format!("(u64(i64({})) - args.literals[{least}])", value.code),
                        bits.min(u64::BITS),
                    ),
                }
            }
            Kind::Text | Kind::ComputedString if texts == Texts::First => {
                self.parameters.cuts_strings = true;
                (format!("string_prefix({})", value.code), u64::BITS)
            }
            Kind::Text | Kind::ComputedString => (self.intern_unless_null(value), PLACE_BITS),
            Kind::Place => {
                return Err(Reason::Type {
                    data_type: value.data_type.clone(),
                    place: "an order by interned strings".into(),
                });
            }
        };
        Ok(vec![(self.define_as("u64", &code), bits)])
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

    pub(super) fn drawn(&mut self, row: &Expr, shift: u32, constants: [&Expr; 2]) -> Result<Value, Reason> {
        let row = self.expression(row)?.code;
        let [state, bound] = self.words(constants)?;
        let test = format!("drawn_word({state}, u64({row}) >> {shift}) < {bound}");
        Ok(boolean(self.define_as("bool", &test), None))
    }

    /// Constants as 64-bit words, whatever their size, so that the passes of one search share their kernels.
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
