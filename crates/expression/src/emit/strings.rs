//! Strings: codes if they have a dictionary, otherwise bytes in memory.
//!
//! A dictionary-encoded string is compared by rank. Two dictionaries that are combined (in a comparison, or
//! in the branches of a CASE) are merged on the host, and a table translates the codes of each. If one side
//! is bytes, both are converted to bytes.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;

use super::{Emitter, string_of};
use crate::dictionary::{Bytes, ranked};
use crate::function::Function;
use crate::interval::Interval;
use crate::ir::Expr;
use crate::is_string;
use crate::kind::Kind;
use crate::made::takes_made;
use crate::operator::Comparison;
use crate::value::Value;
use galatea_base::reason::Reason;

/// Pads bytes to a multiple of a word, since kernels read strings by words.
pub(super) fn padded(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes
}

impl Emitter<'_> {
    /// A string literal as bytes.
    pub(super) fn string_literal(&mut self, bytes: &[u8], data_type: &DataType) -> Value {
        let table = self.parameters.table(padded(bytes.to_vec()));
        let length = self.parameters.literal(bytes.len() as u64);
        let code = self.define(
            &Kind::Text,
            &format!("compute_string(args.tables[{table}], args.literals[{length}])"),
        );
        Value {
            code,
            null: None,
            kind: Kind::Text,
            data_type: data_type.clone(),
            range: None,
        }
    }

    /// A string literal as a dictionary with a single value.
    pub(super) fn code_literal(expression: &Expr) -> Option<Result<Value, Reason>> {
        let is_string = is_string(expression.data_type());
        let value = expression
            .as_literal()
            .filter(|value| is_string && !value.is_null())?;
        let values = value
            .to_array()
            .map_err(|error| Reason::Expression {
                expression: expression.to_string(),
                detail: error.to_string(),
            })
            .and_then(|array| Bytes::of(&array))
            .and_then(|bytes| ranked(&[&bytes], expression.data_type()));
        Some(values.map(|(values, _)| Value {
            code: "0u".to_owned(),
            null: None,
            kind: Kind::Code { values },
            data_type: expression.data_type().clone(),
            range: None,
        }))
    }

    /// A string operand; literals become dictionaries if possible.
    pub(super) fn string_operand(&mut self, expression: &Expr) -> Result<Value, Reason> {
        match Self::code_literal(expression) {
            Some(value) => value,
            None => self.expression(expression),
        }
    }

    pub(super) fn string_comparison(
        &mut self,
        operator: Comparison,
        left: &Expr,
        right: &Expr,
    ) -> Result<Value, Reason> {
        if let Some(bytes) = right.as_literal().and_then(string_of) {
            let value = self.expression(left)?;
            if let Kind::Code { values } = &value.kind {
                let values = Arc::clone(values);
                return self.rank_comparison(operator, &value, &values, bytes);
            }
        } else if left.as_literal().is_some_and(|value| string_of(value).is_some()) {
            return self.string_comparison(operator.reversed(), right, left);
        }
        let (left, right) = (self.string_operand(left)?, self.string_operand(right)?);
        let sides = self.unify(vec![left, right])?;
        let (left, right) = (&sides[0], &sides[1]);
        let sign = operator.c_operator();
        let condition = match &left.kind {
            _ if !left.kind.is_bytes() => format!("{} {sign} {}", left.code, right.code),
            _ if sign == "==" => format!("string_equal({}, {})", left.code, right.code),
            _ if sign == "!=" => format!("!string_equal({}, {})", left.code, right.code),
            _ => format!("string_compare({}, {}) {sign} 0", left.code, right.code),
        };
        Ok(self.compared(operator, &condition, left, right))
    }

    /// Compares the code of a string with a literal's rank among the values.
    fn rank_comparison(
        &mut self,
        operator: Comparison,
        value: &Value,
        values: &ArrayRef,
        bytes: &[u8],
    ) -> Result<Value, Reason> {
        let rank = Bytes::of(values)?.rank(bytes);
        let (first, after) = match rank {
            Ok(rank) => (rank, rank + 1),
            Err(rank) => (rank, rank),
        };
        let (sign, bound) = match operator {
            Comparison::Less => ("<", first),
            Comparison::LessOrEqual => ("<", after),
            Comparison::Greater => (">=", after),
            Comparison::GreaterOrEqual => (">=", first),
            // No code is the maximum u32, since there are fewer values.
            other => (other.c_operator(), rank.unwrap_or(u32::MAX as usize)),
        };
        let index = self.parameters.literal(bound as u64);
        let literal = Value {
            code: String::new(),
            null: None,
            ..value.clone()
        };
        let condition = format!("{} {sign} (u32)args.literals[{index}]", value.code);
        Ok(self.compared(operator, &condition, value, &literal))
    }

    /// A condition: whether a string is one of `items`.
    pub(super) fn string_in(&mut self, needle: &Value, items: &[&[u8]]) -> Result<String, Reason> {
        if let Kind::Code { values } = &needle.kind {
            let bytes = Bytes::of(values)?;
            let mut members = vec![false; bytes.len()];
            for item in items {
                if let Ok(rank) = bytes.rank(item) {
                    members[rank] = true;
                }
            }
            return Ok(self.member_test(&members, &needle.code));
        }
        let mut items = items.to_vec();
        items.sort_unstable();
        items.dedup();
        let (rank, absent) = self.string_rank(needle, &items);
        Ok(format!("{rank} != {absent}"))
    }

    /// The rank of a string among sorted strings, compared by bytes, and the number that the rank equals if
    /// the string is not among them.
    pub(super) fn string_rank(&mut self, text: &Value, items: &[&[u8]]) -> (String, String) {
        let (offsets, bytes) = self.string_table(items);
        let count = self.parameters.literal(items.len() as u64);
        let absent = format!("(u32)args.literals[{count}]");
        let rank = format!(
            "sorted_string_rank((const u32*)args.tables[{offsets}], args.tables[{bytes}], {absent}, {})",
            text.code
        );
        (rank, absent)
    }

    /// The indices of two tables: the offsets and the bytes of strings.
    fn string_table(&mut self, items: &[&[u8]]) -> (usize, usize) {
        let mut offsets = Vec::with_capacity((items.len() + 1) * 4);
        let mut bytes = Vec::new();
        offsets.extend(0u32.to_le_bytes());
        for item in items {
            bytes.extend_from_slice(item);
            offsets.extend((bytes.len() as u32).to_le_bytes());
        }
        (
            self.parameters.table(offsets),
            self.parameters.table(padded(bytes)),
        )
    }

    /// Converts strings to one representation: codes of one dictionary, or bytes if any of them is bytes.
    pub(super) fn unify(&mut self, values: Vec<Value>) -> Result<Vec<Value>, Reason> {
        let dictionaries: Option<Vec<&ArrayRef>> = values
            .iter()
            .map(|value| match &value.kind {
                Kind::Code { values } => Some(values),
                _ => None,
            })
            .collect();
        let Some(dictionaries) = dictionaries else {
            return values.into_iter().map(|value| self.as_string(value)).collect();
        };
        if dictionaries
            .iter()
            .all(|values| Arc::ptr_eq(values, dictionaries[0]) || *values == dictionaries[0])
        {
            return Ok(values);
        }
        let bytes = dictionaries
            .iter()
            .map(|values| Bytes::of(values))
            .collect::<Result<Vec<_>, _>>()?;
        let (merged, ranks) = ranked(&bytes.iter().collect::<Vec<_>>(), &values[0].data_type)?;
        Ok(values
            .into_iter()
            .zip(ranks)
            .map(|(value, ranks)| {
                let code = self.translated(&value.code, &ranks);
                Value {
                    code,
                    kind: Kind::Code {
                        values: Arc::clone(&merged),
                    },
                    ..value
                }
            })
            .collect())
    }

    /// Translates a code by a table of codes.
    pub(super) fn translated(&mut self, code: &str, ranks: &[u32]) -> String {
        match ranks {
            [] => "0u".to_owned(),
            [rank] if code == "0u" => {
                let index = self.parameters.literal(u64::from(*rank));
                self.define_as("u32", &format!("(u32)args.literals[{index}]"))
            }
            ranks
                if ranks
                    .iter()
                    .enumerate()
                    .all(|(index, rank)| index == *rank as usize) =>
            {
                code.to_owned()
            }
            ranks => {
                let read = self.number_table(ranks, code);
                self.define_as("u32", &format!("(u32){read}"))
            }
        }
    }

    /// The string as bytes.
    pub(super) fn as_string(&mut self, value: Value) -> Result<Value, Reason> {
        let Kind::Code { values } = &value.kind else {
            return Ok(value);
        };
        let bytes = Bytes::of(values)?;
        let mut items: Vec<&[u8]> = (0..bytes.len()).filter_map(|index| bytes.get(index)).collect();
        if items.is_empty() {
            // Rows of an empty dictionary are all NULL and hold code 0.
            items.push(b"");
        }
        if value.code == "0u" {
            return Ok(Value {
                null: value.null,
                ..self.string_literal(items[0], &value.data_type)
            });
        }
        let (offsets, bytes) = self.string_table(&items);
        let rhs = format!(
            "table_text((const u32*)args.tables[{offsets}], args.tables[{bytes}], {})",
            value.code
        );
        let code = self.define(&Kind::Text, &rhs);
        Ok(Value {
            code,
            kind: Kind::Text,
            ..value
        })
    }

    pub(super) fn string_function(
        &mut self,
        expression: &Expr,
        function: &Function,
        arguments: &[Expr],
    ) -> Result<Value, Reason> {
        let refuse = || Reason::Function {
            name: function.to_string(),
            detail: "wrong number of arguments".to_owned(),
        };
        let mut texts = Vec::with_capacity(arguments.len());
        for argument in arguments {
            let value = self.expression(argument)?;
            texts.push(self.as_string(value)?);
        }
        let made = texts
            .iter()
            .enumerate()
            .filter(|(_, text)| matches!(text.kind, Kind::ComputedString));
        if made.into_iter().any(|(number, _)| !takes_made(function, number)) {
            return Err(Reason::Function {
                name: function.to_string(),
                detail: "no device version for a computed string without a dictionary".to_owned(),
            });
        }
        let data_type = expression.data_type().clone();
        let null = self.any_null(&texts.iter().collect::<Vec<_>>());
        let subject = texts.first().ok_or_else(refuse)?.kind.clone();
        let predicate = |name: &str| match texts.as_slice() {
            [text, operand] => Ok(format!("{name}({}, {})", text.code, operand.code)),
            _ => Err(refuse()),
        };
        let scanned = self.scanned(function, arguments);
        let condition = match function {
            Function::Contains if let Some(found) = scanned => found,
            Function::Like if let Some(found) = scanned => {
                format!("({found} && {})", predicate("string_like")?)
            }
            Function::Like => predicate("string_like")?,
            Function::StartsWith => predicate("string_starts_with")?,
            Function::EndsWith => predicate("string_ends_with")?,
            Function::Contains => predicate("string_contains")?,
            Function::Matches(automaton) => {
                let text = texts.first().ok_or_else(refuse)?;
                let table = self.parameters.automaton(automaton);
                format!("string_matches({}, args.tables[{table}])", text.code)
            }
            other => {
                let text = texts.first().ok_or_else(refuse)?;
                let interval = Interval {
                    low: 0,
                    high: i128::from(i32::MAX),
                };
                let (kind, rhs, range) = match other {
                    Function::OctetLength => (
                        Kind::I32,
                        format!("(i32)string_length({})", text.code),
                        Some((interval.low, interval.high)),
                    ),
                    Function::CharacterLength => (
                        Kind::I32,
                        format!("string_characters({})", text.code),
                        Some((interval.low, interval.high)),
                    ),
                    Function::Position => (
                        Kind::I32,
                        predicate("string_position")?,
                        Some((interval.low, interval.high)),
                    ),
                    Function::FirstCharacter => (
                        Kind::I32,
                        format!("string_first_character({})", text.code),
                        Some((0, 0x10_ffff)),
                    ),
                    Function::CountMatches(automaton) => {
                        let table = self.parameters.automaton(automaton);
                        let count = format!("string_count_matches({}, args.tables[{table}])", text.code);
                        (Kind::I64, count, Some((interval.low, interval.high)))
                    }
                    Function::Left => (subject, predicate("string_left")?, None),
                    Function::Right => (subject, predicate("string_right")?, None),
                    Function::From => (subject, predicate("string_from")?, None),
                    Function::Piece(number) => {
                        let delimiter = texts.get(1).ok_or_else(refuse)?;
                        let number = self.parameters.literal(*number as u64);
                        let piece = format!(
                            "string_piece({}, {}, (i64)args.literals[{number}])",
                            text.code, delimiter.code
                        );
                        (Kind::Text, piece, None)
                    }
                    Function::Trim { start, end } => (
                        subject,
                        format!("string_trim({}, {start}, {end})", text.code),
                        None,
                    ),
                    Function::Substring { start, length } => {
                        let from = start.saturating_sub(1);
                        let to = length
                            .map_or(i64::MAX, |length| from.saturating_add(length))
                            .max(0);
                        let from = self.parameters.literal(from.max(0) as u64);
                        let to = self.parameters.literal(to as u64);
                        let rhs = format!(
                            "string_substring({}, args.literals[{from}], args.literals[{to}])",
                            text.code
                        );
                        (subject, rhs, None)
                    }
                    _ => return Err(refuse()),
                };
                let code = self.define(&kind, &rhs);
                return Ok(Value {
                    code,
                    null,
                    kind,
                    data_type,
                    range,
                });
            }
        };
        let condition = self.define(&Kind::Bool, &condition);
        let code = self.unless_null(&condition, null.as_ref());
        Ok(super::boolean(code, null))
    }
}
