//! Lowering of string functions, LIKE and regular expressions.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, LikeExpr};

use super::Lowering;
use crate::automaton::Automaton;
use crate::function::Function;
use crate::ir::{Expr, ExprKind};
use crate::operator::{Arithmetic, Comparison};
use crate::string::is_utf8;
use galatea_base::reason::Reason;

impl Lowering<'_> {
    /// Whether the expression is a UTF-8 string.
    pub(super) fn is_utf8(&self, expression: &Arc<dyn PhysicalExpr>) -> bool {
        self.data_type(expression)
            .is_ok_and(|data_type| is_utf8(&data_type))
    }

    /// A function with a string as its first argument.
    pub(super) fn string_function(
        &self,
        name: &str,
        arguments: &[Arc<dyn PhysicalExpr>],
        data_type: &DataType,
        nullable: bool,
    ) -> Result<Expr, Reason> {
        let refuse = |detail: &str| Reason::Function {
            name: name.to_owned(),
            detail: detail.to_owned(),
        };
        let call = |function: Function, arguments: &[&Arc<dyn PhysicalExpr>]| {
            self.call(function, arguments, data_type, nullable)
        };
        match (name, arguments) {
            ("left", [value, count]) => match self.integer_constant(count) {
                Some(length @ 0..) => {
                    let length = Some(length);
                    call(Function::Substring { start: 1, length }, &[value])
                }
                _ => call(Function::Left, &[value, count]),
            },
            ("right", [value, count]) => call(Function::Right, &[value, count]),
            ("substr", [value, start]) => match self.integer_constant(start) {
                Some(start) => call(Function::Substring { start, length: None }, &[value]),
                None => call(Function::From, &[value, start]),
            },
            ("substr", [value, start, length]) => {
                let constants = self.integer_constant(start).zip(self.integer_constant(length));
                match constants.ok_or_else(|| refuse("start and length are not constant"))? {
                    (_, ..0) => Err(refuse("negative length")),
                    (start, length) => {
                        let length = Some(length);
                        call(Function::Substring { start, length }, &[value])
                    }
                }
            }
            ("split_part", [value, delimiter, number]) => {
                let constant = self.string_constant(delimiter);
                if constant.is_none_or(|delimiter| delimiter.is_empty()) {
                    return Err(refuse("the delimiter is not a constant, or is empty"));
                }
                let number = self.integer_constant(number).filter(|number| *number != 0);
                let number = number.ok_or_else(|| refuse("the number is not a constant, or is 0"))?;
                call(Function::Piece(number), &[value, delimiter])
            }
            ("bit_length", [value]) => {
                let kind = ExprKind::Arithmetic {
                    operator: Arithmetic::Multiply,
                    left: call(Function::OctetLength, &[value])?,
                    right: Expr::literal(ScalarValue::Int32(Some(8))),
                    checked: false,
                };
                match data_type {
                    DataType::Int32 => Ok(Expr::new(kind, data_type.clone(), nullable)),
                    _ => Err(refuse("no device version for this type")),
                }
            }
            ("regexp_like", [value, pattern, flags @ ..]) => {
                let automaton = self
                    .automaton(pattern, flags)
                    .ok_or_else(|| refuse("the pattern is not a constant"))??;
                Ok(matches(automaton, self.lower(value)?, nullable))
            }
            ("regexp_count", [value, pattern]) => {
                let automaton = self
                    .automaton(pattern, &[])
                    .ok_or_else(|| refuse("the pattern is not a constant"))??;
                match automaton.takes_bytes() {
                    true => call(Function::CountMatches(automaton), &[value]),
                    false => Err(refuse("a pattern that matches an empty string")),
                }
            }
            ("concat", parts) if is_utf8(data_type) => {
                let parts: Vec<_> = parts.iter().collect();
                call(Function::Join { skips_nulls: true }, &parts)
            }
            ("concat_ws", [_, _, ..]) if is_utf8(data_type) => {
                let arguments: Vec<_> = arguments.iter().collect();
                call(Function::JoinBy, &arguments)
            }
            ("lpad" | "rpad", [value, count, fill @ ..]) if fill.len() < 2 => {
                let fill = match fill {
                    [fill] => self.lower(fill)?,
                    _ => Expr::literal(ScalarValue::Utf8(Some(" ".to_owned()))),
                };
                let kind = ExprKind::Call {
                    function: Function::Pad { left: name == "lpad" },
                    arguments: vec![self.lower(value)?, self.lower(count)?, fill],
                };
                Ok(Expr::new(kind, data_type.clone(), nullable))
            }
            ("replace", [value, from, to]) => call(Function::Replace, &[value, from, to]),
            ("repeat", [value, times]) => call(Function::Repeat, &[value, times]),
            (name, [left, right]) if self.is_utf8(right) => {
                let function = match name {
                    "starts_with" => Function::StartsWith,
                    "ends_with" => Function::EndsWith,
                    "contains" => Function::Contains,
                    "strpos" => Function::Position,
                    _ => return Err(refuse("no device version")),
                };
                call(function, &[left, right])
            }
            (name, [value]) => {
                let function = match name {
                    "ascii" => Function::FirstCharacter,
                    "btrim" | "ltrim" | "rtrim" => Function::Trim {
                        start: name != "rtrim",
                        end: name != "ltrim",
                    },
                    "reverse" => Function::Reverse,
                    "upper" => Function::Upper,
                    "lower" => Function::Lower,
                    "octet_length" => Function::OctetLength,
                    "character_length" => Function::CharacterLength,
                    _ => return Err(refuse("no device version for this type")),
                };
                call(function, &[value])
            }
            _ => Err(refuse("no device version")),
        }
    }

    /// The automaton of a constant pattern with its flags; `None` if it is not constant.
    fn automaton(
        &self,
        pattern: &Arc<dyn PhysicalExpr>,
        flags: &[Arc<dyn PhysicalExpr>],
    ) -> Option<Result<Automaton, Reason>> {
        let pattern = self.string_constant(pattern)?;
        Some(match flags {
            [] => Automaton::new(&pattern),
            [flags] => Automaton::new(&format!("(?{}){pattern}", self.string_constant(flags)?)),
            _ => return None,
        })
    }

    /// `~`, `~*`, `!~` and `!~*` with a constant pattern; `None` for other operators.
    pub(super) fn regex_match(&self, binary: &BinaryExpr, nullable: bool) -> Option<Result<Expr, Reason>> {
        let (negated, flags) = match binary.op() {
            Operator::RegexMatch => (false, ""),
            Operator::RegexIMatch => (false, "(?i)"),
            Operator::RegexNotMatch => (true, ""),
            Operator::RegexNotIMatch => (true, "(?i)"),
            _ => return None,
        };
        if !self.is_utf8(binary.left()) {
            return None;
        }
        let pattern = self.string_constant(binary.right())?;
        let matched = Automaton::new(&format!("{flags}{pattern}"))
            .and_then(|automaton| Ok(matches(automaton, self.lower(binary.left())?, nullable)));
        Some(matched.map(|matched| match negated {
            true => matched.negated(),
            false => matched,
        }))
    }

    /// LIKE and ILIKE with a constant pattern.
    pub(super) fn like(&self, like: &LikeExpr, nullable: bool) -> Result<Expr, Reason> {
        let refuse = |detail: &str| Reason::Function {
            name: "LIKE".to_owned(),
            detail: detail.to_owned(),
        };
        let value_type = self.data_type(like.expr())?;
        if !is_utf8(&value_type) {
            return Err(Reason::Type {
                data_type: value_type,
                place: "LIKE".to_owned(),
            });
        }
        let value = self.lower(like.expr())?;
        let negated_if = |matches: Expr| match like.negated() {
            true => matches.negated(),
            false => matches,
        };
        let Some(pattern) = self.constant(like.pattern()) else {
            if like.case_insensitive() {
                return Err(refuse("the pattern of ILIKE is not a constant"));
            }
            let pattern = self.lower(like.pattern())?;
            if !is_utf8(pattern.data_type()) {
                return Err(refuse("the pattern is not a string"));
            }
            let kind = ExprKind::Call {
                function: Function::Like,
                arguments: vec![value, pattern],
            };
            return Ok(negated_if(Expr::new(kind, DataType::Boolean, nullable)));
        };
        let Some(pattern) = pattern.try_as_str().flatten().map(str::to_owned) else {
            return super::typed_null(&ScalarValue::Null, &DataType::Boolean);
        };
        if like.case_insensitive() {
            let automaton = Automaton::of_like(&pattern)?;
            return Ok(negated_if(matches(automaton, value, nullable)));
        }
        let (function, needle) = classify(&pattern);
        let needle = Expr::literal(ScalarValue::Utf8(Some(needle)));
        let kind = match function {
            None => ExprKind::Compare {
                operator: Comparison::Equal,
                left: value,
                right: needle,
                equal_zeros: false,
            },
            Some(function) => ExprKind::Call {
                function,
                arguments: vec![value, needle],
            },
        };
        Ok(negated_if(Expr::new(kind, DataType::Boolean, nullable)))
    }
}

/// Whether the automaton matches in the value.
fn matches(automaton: Automaton, value: Expr, nullable: bool) -> Expr {
    let kind = ExprKind::Call {
        function: Function::Matches(automaton),
        arguments: vec![value],
    };
    Expr::new(kind, DataType::Boolean, nullable)
}

/// The simplest function that implements a LIKE pattern, and its operand; `None` for equality.
fn classify(pattern: &str) -> (Option<Function>, String) {
    let general = || (Some(Function::Like), pattern.to_owned());
    if pattern.contains(['_', '\\']) {
        return general();
    }
    let inner = pattern.trim_matches('%');
    if inner.contains('%') {
        return general();
    }
    let function = match (pattern.starts_with('%'), pattern.ends_with('%')) {
        (false, false) => None,
        (false, true) => Some(Function::StartsWith),
        (true, false) => Some(Function::EndsWith),
        (true, true) => Some(Function::Contains),
    };
    (function, inner.to_owned())
}
