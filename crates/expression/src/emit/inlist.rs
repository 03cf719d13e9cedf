//! IN with constants: comparisons for short lists, a bitmap over a narrow interval, otherwise a sorted table.

use datafusion::common::ScalarValue;

use super::{Emitter, boolean, constant_string, integer_of, string_of};
use crate::interval::Interval;
use crate::ir::Expr;
use crate::kind::Kind;
use crate::value::Value;
use galatea_base::reason::Reason;

/// Maximum number of constants that are compared one by one.
const COMPARED: usize = 4;
/// Maximum bits per constant for a bitmap instead of a search, and the minimum size that is considered.
const BITS_PER_CONSTANT: u64 = 64;
const SMALL_BITMAP: u64 = 1 << 16;

impl Emitter<'_> {
    pub(super) fn in_list(
        &mut self,
        expression: &Expr,
        value: &Expr,
        list: &[ScalarValue],
        list_has_null: bool,
        negated: bool,
    ) -> Result<Value, Reason> {
        let needle = self.expression(value)?;
        let refuse = || Reason::Expression {
            expression: expression.to_string(),
            detail: "list of this type".to_owned(),
        };
        let found = match &needle.kind {
            Kind::Place => return Err(refuse()),
            Kind::Bool => {
                let [mut has_true, mut has_false] = [false, false];
                for item in list {
                    match item {
                        ScalarValue::Boolean(Some(true)) => has_true = true,
                        ScalarValue::Boolean(Some(false)) => has_false = true,
                        _ => return Err(refuse()),
                    }
                }
                match (has_true, has_false) {
                    (true, true) => "true".to_owned(),
                    (true, false) => needle.code.clone(),
                    (false, true) => format!("!{}", needle.code),
                    (false, false) => "false".to_owned(),
                }
            }
            Kind::F32 | Kind::F64 => {
                let keys: Option<Vec<i128>> = list.iter().map(float_key).collect();
                let key = self.float_key(&needle, true);
                let interval = if matches!(needle.kind, Kind::F32) {
                    Interval::of::<i32>()
                } else {
                    Interval::of::<i64>()
                };
                self.integer_in(&key, interval, keys.ok_or_else(refuse)?)
            }
            Kind::I32 | Kind::I64 | Kind::I128 => {
                let items: Option<Vec<i128>> = list.iter().map(integer_of).collect();
                self.integer_in(&needle.code, needle.interval(), items.ok_or_else(refuse)?)
            }
            Kind::Code { .. } | Kind::Text | Kind::ComputedString => {
                let items: Option<Vec<&[u8]>> = list.iter().map(string_of).collect();
                self.string_in(&needle, &items.ok_or_else(refuse)?)?
            }
        };
        let found = self.define(&Kind::Bool, &found);
        let mut null = needle.null.clone();
        if list_has_null {
            let not_found = self.define(&Kind::Bool, &format!("!{found}"));
            null = Some(match null {
                None => not_found,
                Some(null) => self.define(&Kind::Bool, &format!("{null} || {not_found}")),
            });
        }
        let answer = if negated { format!("!{found}") } else { found };
        let code = match &null {
            None => self.define(&Kind::Bool, &answer),
            Some(null) => self.define(&Kind::Bool, &format!("{answer} && !{null}")),
        };
        Ok(boolean(code, null))
    }

    /// A condition: whether an integer is one of `items`.
    fn integer_in(&mut self, code: &str, interval: Interval, mut items: Vec<i128>) -> String {
        items.retain(|item| interval.contains(*item));
        items.sort_unstable();
        items.dedup();
        let (Some(low), Some(high)) = (items.first().copied(), items.last().copied()) else {
            return "false".to_owned();
        };
        let kind = interval.kind();
        if items.len() <= COMPARED {
            let tests: Vec<String> = items
                .iter()
                .map(|item| format!("{code} == {}", self.literal_text(*item, &kind)))
                .collect();
            return tests.join(" || ");
        }
        let span = (high - low) as u128 + 1;
        if span == items.len() as u128 {
            let (low, high) = (self.literal_text(low, &kind), self.literal_text(high, &kind));
            return format!("{code} >= {low} && {code} <= {high}");
        }
        let limit = u128::from(
            (items.len() as u64)
                .saturating_mul(BITS_PER_CONSTANT)
                .max(SMALL_BITMAP),
        );
        if span <= limit {
            let mut bitmap = vec![0u8; (span as usize).div_ceil(32) * 4];
            for item in &items {
                let bit = (item - low) as usize;
                bitmap[bit / 8] |= 1 << (bit % 8);
            }
            let table = self.parameters.table(bitmap);
            let (low, high) = (self.literal_text(low, &kind), self.literal_text(high, &kind));
            return format!(
                "{code} >= {low} && {code} <= {high} && table_bit(args.tables[{table}], (u32)({code} - {low}))"
            );
        }
        let count = self.parameters.literal(items.len() as u64);
        let bytes: Vec<u8> = match kind {
            Kind::I32 => items
                .iter()
                .flat_map(|item| (*item as i32).to_le_bytes())
                .collect(),
            Kind::I64 => items
                .iter()
                .flat_map(|item| (*item as i64).to_le_bytes())
                .collect(),
            _ => items.iter().flat_map(|item| item.to_le_bytes()).collect(),
        };
        let table = self.parameters.table(bytes);
        let c_type = kind.c_type();
        format!(
            "sorted_contains((const {c_type}*)args.tables[{table}], (u32)args.literals[{count}], ({c_type}){code})"
        )
    }

    /// C++ expression that reads a literal of a C++ type.
    pub(super) fn literal_text(&mut self, value: i128, kind: &Kind) -> String {
        match kind {
            Kind::I128 if i64::try_from(value).is_err() => {
                let index = self.parameters.wide_literal(value);
                format!("make_i128(args.literals[{index}], args.literals[{}])", index + 1)
            }
            Kind::I128 => format!(
                "(i128)(i64)args.literals[{}]",
                self.parameters.literal(value as u64)
            ),
            Kind::Bool | Kind::F32 | Kind::F64 | Kind::Code { .. } | Kind::Text | Kind::ComputedString => {
                constant_string(value)
            }
            kind => format!(
                "({})args.literals[{}]",
                kind.c_type(),
                self.parameters.literal(value as u64)
            ),
        }
    }
}

/// The sort order of a float, computed like `float_key` on the device.
fn float_key(value: &ScalarValue) -> Option<i128> {
    Some(match value {
        ScalarValue::Float32(Some(value)) => {
            let value = if value.is_nan() { f32::NAN } else { value + 0.0 };
            let bits = value.to_bits() as i32;
            i128::from(bits ^ (((bits >> 31) as u32) >> 1) as i32)
        }
        ScalarValue::Float64(Some(value)) => {
            let value = if value.is_nan() { f64::NAN } else { value + 0.0 };
            let bits = value.to_bits() as i64;
            i128::from(bits ^ (((bits >> 63) as u64) >> 1) as i64)
        }
        _ => return None,
    })
}
