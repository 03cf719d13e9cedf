//! Strings computed from other strings or from numbers, as values of types of their own that generate their
//! bytes (`computed_string.cuh`). Strings of numbers are short and computed at once; they are used like
//! strings of columns.

use arrow::datatypes::DataType;

use super::arithmetic::decimal_scale;
use super::datetime::VALID_DAYS;
use super::{Emitter, as_kind};
use crate::code::Code;
use crate::error::Fault;
use crate::function::Function;
use crate::group_words::StringForm;
use crate::interval::Interval;
use crate::ir::Expr;
use crate::kernel_error::Signal;
use crate::kind::Kind;
use crate::letters::LetterCase;
use crate::parameters::LookupTable;
use crate::value::Value;
use galatea_base::reason::Reason;

impl Emitter<'_> {
    /// A computed string of its own C++ type.
    fn made(&mut self, expression: &Expr, rhs: &str, null: Option<String>) -> Value {
        self.parameters.computes_strings = true;
        Value {
            code: self.define(&Kind::ComputedString, rhs),
            null,
            kind: Kind::ComputedString,
            data_type: expression.data_type().clone(),
            range: None,
        }
    }

    /// Interns a string without a dictionary and returns its place; other values are returned unchanged.
    pub fn interned(&mut self, value: Value, code: &mut Code) -> Value {
        if !value.kind.is_bytes() {
            return value;
        }
        let rhs = self.intern_unless_null(&value);
        let place = self.define(&Kind::Place, &rhs);
        code.nest(0, &self.out.take());
        Value {
            code: place,
            kind: Kind::Place,
            ..value
        }
    }

    /// C++ expression of the place of a string without a dictionary; 0 if it is NULL.
    pub(super) fn intern_unless_null(&mut self, value: &Value) -> String {
        let null = value.null.as_ref();
        let null = null.map(|null| format!("{null} ? u64(0) : ")).unwrap_or_default();
        format!("{null}{}", self.intern(&value.code))
    }

    /// C++ expression that interns a string and yields its place.
    pub(super) fn intern(&mut self, text: &str) -> String {
        self.parameters.finds_strings = true;
        let table = self.parameters.lookup_table(LookupTable::Interned);
        let full = Signal::StringsFull.number();
        format!("intern(args.tables[{table}], {text}, args.error, {full}u)")
    }

    /// The string by which MIN and MAX compare a value if its rank does not fit a word, and the index of the
    /// table of interned strings; `None` if the rank fits.
    pub fn compared_string(&mut self, value: &Value) -> Option<((String, usize), StringForm)> {
        let words = [Interval::of::<i64>(), Interval::of::<u64>()];
        let (text, form) = match &value.kind {
            Kind::Text | Kind::ComputedString => (value.code.clone(), StringForm::Text),
            Kind::I128 if !words.iter().any(|word| value.interval().within(*word)) => {
                (format!("WideBytes({})", value.code), StringForm::Integer)
            }
            _ => return None,
        };
        self.parameters.finds_strings = true;
        let table = self.parameters.lookup_table(LookupTable::Interned);
        Some(((text, table), form))
    }

    /// A string as bytes.
    fn bytes_of(&mut self, expression: &Expr) -> Result<Value, Reason> {
        let value = self.string_operand(expression)?;
        self.as_string(value)
    }

    /// The string, or the empty string if it is NULL.
    fn or_empty(&mut self, value: &Value) -> String {
        match &value.null {
            None => value.code.clone(),
            Some(null) => {
                let rhs = format!("string_kept(!{null}, {})", value.code);
                self.define_as(value.kind.c_type(), &rhs)
            }
        }
    }

    /// Concatenates strings.
    pub(super) fn joined(
        &mut self,
        expression: &Expr,
        parts: &[Expr],
        skips_nulls: bool,
    ) -> Result<Value, Reason> {
        self.parameters.computes_strings = true;
        let values = parts.iter().map(|part| self.bytes_of(part));
        let values = values.collect::<Result<Vec<_>, _>>()?;
        let null = match skips_nulls {
            true => None,
            false => self.any_null(&values.iter().collect::<Vec<_>>()),
        };
        let codes: Vec<String> = values
            .iter()
            .map(|value| match skips_nulls {
                true => self.or_empty(value),
                false => value.code.clone(),
            })
            .collect();
        let rhs = one_behind_the_other(&codes);
        Ok(self.made(expression, &rhs, null))
    }

    /// Concatenates strings that are not NULL, with a separator between them.
    pub(super) fn joined_by(
        &mut self,
        expression: &Expr,
        separator: &Expr,
        parts: &[Expr],
    ) -> Result<Value, Reason> {
        self.parameters.computes_strings = true;
        let separator = self.bytes_of(separator)?;
        let mut codes = Vec::new();
        // Whether a previous part was not NULL.
        let mut begun = "false".to_owned();
        for part in parts {
            let value = self.bytes_of(part)?;
            let present = match &value.null {
                None => "true".to_owned(),
                Some(null) => self.define(&Kind::Bool, &format!("!{null}")),
            };
            if begun != "false" {
                let rhs = format!("string_kept({begun} && {present}, {})", separator.code);
                codes.push(self.define_as(separator.kind.c_type(), &rhs));
            }
            codes.push(self.or_empty(&value));
            begun = match (begun.as_str(), present.as_str()) {
                ("true", _) | (_, "true") => "true".to_owned(),
                ("false", _) => present,
                _ => self.define(&Kind::Bool, &format!("{begun} || {present}")),
            };
        }
        let rhs = one_behind_the_other(&codes);
        Ok(self.made(expression, &rhs, separator.null))
    }

    /// A string with its letters in upper or lower case.
    pub(super) fn mapped(
        &mut self,
        expression: &Expr,
        function: &Function,
        input: &Expr,
    ) -> Result<Value, Reason> {
        let value = self.bytes_of(input)?;
        let case = match function {
            Function::Upper => LetterCase::Upper,
            _ => LetterCase::Lower,
        };
        let table = self.parameters.table(case.table());
        let rhs = format!(
            "string_mapped({}, args.tables[{table}], {}u)",
            value.code,
            case.first_letter()
        );
        let made = self.made(expression, &rhs, value.null);
        if case == LetterCase::Lower {
            let depends = self.define(&Kind::Bool, &format!("{}.depends", made.code));
            self.raise_unless_null(&depends, made.null.as_ref(), Fault::Function);
        }
        Ok(made)
    }

    /// A string repeated `times` times.
    pub(super) fn repeated(
        &mut self,
        expression: &Expr,
        input: &Expr,
        times: &Expr,
    ) -> Result<Value, Reason> {
        let (value, times) = (self.bytes_of(input)?, self.expression(times)?);
        let null = self.any_null(&[&value, &times]);
        let rhs = format!("string_repeated({}, i64({}))", value.code, times.code);
        let made = self.made(expression, &rhs, null);
        // The CPU raises the error for strings that are too long.
        let long = self.define(
            &Kind::Bool,
            &format!("string_length({}) > 0x7fffffffull", made.code),
        );
        self.raise_unless_null(&long, made.null.as_ref(), Fault::Function);
        Ok(made)
    }

    /// A string, padded to `count` characters.
    pub(super) fn padded(
        &mut self,
        expression: &Expr,
        left: bool,
        input: &Expr,
        [count, fill]: [&Expr; 2],
    ) -> Result<Value, Reason> {
        let (value, fill) = (self.bytes_of(input)?, self.bytes_of(fill)?);
        let count = self.expression(count)?;
        let null = self.any_null(&[&value, &count, &fill]);
        // The CPU raises the error for strings that are too long.
        let long = self.define(&Kind::Bool, &format!("i64({}) > 0x7fffffffll", count.code));
        self.raise_unless_null(&long, null.as_ref(), Fault::Function);
        let name = if left {
            "string_padded_left"
        } else {
            "string_padded_right"
        };
        let rhs = format!(
            "{name}({}, {long} ? i64(0) : i64({}), {})",
            value.code, count.code, fill.code
        );
        Ok(self.made(expression, &rhs, null))
    }

    /// A string with each occurrence of `from` replaced by `to`.
    pub(super) fn replaced(
        &mut self,
        expression: &Expr,
        input: &Expr,
        [from, to]: [&Expr; 2],
    ) -> Result<Value, Reason> {
        let value = self.bytes_of(input)?;
        let (from, to) = (self.bytes_of(from)?, self.bytes_of(to)?);
        let null = self.any_null(&[&value, &from, &to]);
        let rhs = format!("string_replaced({}, {}, {})", value.code, from.code, to.code);
        Ok(self.made(expression, &rhs, null))
    }

    /// A string with its characters in reverse order.
    pub(super) fn turned(&mut self, expression: &Expr, input: &Expr) -> Result<Value, Reason> {
        let value = self.bytes_of(input)?;
        let rhs = format!("string_reversed({})", value.code);
        Ok(self.made(expression, &rhs, value.null))
    }

    /// The hexadecimal digits of an integer as a 64-bit integer.
    pub(super) fn hex(&mut self, expression: &Expr, input: &Expr) -> Result<Value, Reason> {
        let value = self.expression(input)?;
        let rhs = format!("hex_string(u64({}))", value.code);
        Ok(self.small(expression, &rhs, value.null))
    }

    /// A short string that is computed at once.
    fn small(&mut self, expression: &Expr, rhs: &str, null: Option<String>) -> Value {
        self.parameters.computes_strings = true;
        let holder = self.define_as("SmallString", rhs);
        Value {
            code: self.define(&Kind::Text, &format!("{holder}.text()")),
            null,
            kind: Kind::Text,
            data_type: expression.data_type().clone(),
            range: None,
        }
    }

    /// The result of a cast of a value to a string.
    pub(super) fn string_of_value(
        &mut self,
        expression: &Expr,
        input: &Expr,
        value: Value,
    ) -> Result<Value, Reason> {
        let refuse = || Reason::Cast {
            from: input.data_type().clone(),
            to: expression.data_type().clone(),
        };
        match input.data_type() {
            DataType::Boolean => {
                let named = Expr::words_of_boolean(input.clone(), expression.data_type());
                self.expression(&named)
            }
            DataType::Date32 => {
                let days = self.checked_range(value, VALID_DAYS, Fault::Function);
                Ok(self.small(expression, &format!("date_string({})", days.code), days.null))
            }
            DataType::Timestamp(_, None) => {
                let point = self.point(value)?;
                let (rest, unit) = point.rest.ok_or_else(refuse)?;
                let days = self.checked_range(point.days, VALID_DAYS, Fault::Function);
                let rhs = format!(
                    "timestamp_string({}, u64({}), {}u)",
                    as_kind(&days, &Kind::I32),
                    rest.code,
                    unit.ilog10()
                );
                Ok(self.small(expression, &rhs, days.null))
            }
            data_type => {
                let wide = format!("i128({})", value.code);
                let rhs = match decimal_scale(data_type) {
                    Some((scale @ 1.., _)) => format!("decimal_string({wide}, {scale}u)"),
                    Some((..=-1, _)) => return Err(refuse()),
                    _ => format!("integer_string({wide})"),
                };
                Ok(self.small(expression, &rhs, value.null))
            }
        }
    }

    /// The string of the first true condition, or the last string, if one of them is a computed string.
    pub(super) fn chosen(&mut self, expression: &Expr, conditions: &[String], results: &[Value]) -> Value {
        let mut rest = results[results.len() - 1].clone();
        for (condition, result) in conditions.iter().zip(results).rev() {
            let null = match (&result.null, &rest.null) {
                (None, None) => None,
                (own, others) => {
                    let or_false = |null: &Option<String>| null.clone().unwrap_or_else(|| "false".to_owned());
                    let rhs = format!("{condition} ? {} : {}", or_false(own), or_false(others));
                    Some(self.define(&Kind::Bool, &rhs))
                }
            };
            let rhs = format!("string_chosen({condition}, {}, {})", result.code, rest.code);
            rest = self.made(expression, &rhs, null);
        }
        rest
    }
}

fn one_behind_the_other(texts: &[String]) -> String {
    let Some((last, others)) = texts.split_last() else {
        return "Text{nullptr, 0u}".to_owned();
    };
    let opened: String = (others.iter())
        .map(|text| format!("string_joined({text}, "))
        .collect();
    format!("{opened}{last}{}", ")".repeat(others.len()))
}
