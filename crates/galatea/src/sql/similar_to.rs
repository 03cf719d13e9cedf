//! SIMILAR TO as a match of the whole string with a regular expression.
//!
//! DataFusion searches the pattern in the string as a regular expression: `'ab' SIMILAR TO 'a'` was true, and
//! `%` and `_` had no meaning.

use datafusion::error::DataFusionError;
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Value, ValueWithSpan};

use super::SqlError;
use super::ast_parts::text;

/// SIMILAR TO as the operator `~`; `None` for other expressions.
///
/// # Errors
/// The pattern is not a string literal, or ESCAPE has several characters.
pub(super) fn matched(expression: &Expr) -> Option<Result<Expr, DataFusionError>> {
    let Expr::SimilarTo {
        negated,
        expr,
        pattern,
        escape_char,
    } = expression
    else {
        return None;
    };
    let Some(pattern) = literal(pattern) else {
        let error = SqlError::Unsupported {
            clause: "SIMILAR TO with a pattern that is not a string literal".to_owned(),
            hint: Some("a ~ pattern searches a regular expression"),
        };
        return Some(Err(error.into()));
    };
    let escape = match escape(escape_char.as_ref()) {
        Ok(escape) => escape,
        Err(error) => return Some(Err(error.into())),
    };
    let op = match negated {
        true => BinaryOperator::PGRegexNotMatch,
        false => BinaryOperator::PGRegexMatch,
    };
    Some(Ok(Expr::Nested(Box::new(Expr::BinaryOp {
        left: expr.clone(),
        op,
        right: Box::new(text(&regular_expression(pattern, escape))),
    }))))
}

fn literal(pattern: &Expr) -> Option<&str> {
    match pattern {
        Expr::Value(value) => string(value),
        _ => None,
    }
}

fn string(value: &ValueWithSpan) -> Option<&str> {
    match &value.value {
        Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text) => Some(text),
        Value::DollarQuotedString(text) => Some(&text.value),
        _ => None,
    }
}

/// The character of ESCAPE, by default the backslash; `None` if ESCAPE is an empty string.
fn escape(written: Option<&ValueWithSpan>) -> Result<Option<char>, SqlError> {
    let Some(written) = written else {
        return Ok(Some('\\'));
    };
    let mut characters = string(written).map(str::chars);
    let first = characters.as_mut().and_then(Iterator::next);
    match characters.map(|mut rest| rest.next()) {
        Some(None) => Ok(first),
        _ => Err(SqlError::unsupported(format!(
            "ESCAPE {written} of SIMILAR TO, which is not one character,"
        ))),
    }
}

/// The pattern as a regular expression of whole strings.
fn regular_expression(pattern: &str, escape: Option<char>) -> String {
    let mut regex = String::from("(?s)^(?:");
    let mut characters = pattern.chars();
    let mut in_brackets = false;
    while let Some(character) = characters.next() {
        if Some(character) == escape {
            push_literal(&mut regex, characters.next().unwrap_or(character));
            continue;
        }
        match character {
            ']' if in_brackets => {
                in_brackets = false;
                regex.push(']');
            }
            '\\' | '[' | '&' | '~' if in_brackets => push_literal(&mut regex, character),
            _ if in_brackets => regex.push(character),
            '[' => {
                in_brackets = true;
                regex.push('[');
            }
            '%' => regex.push_str(".*"),
            '_' => regex.push('.'),
            '(' => regex.push_str("(?:"),
            '.' | '^' | '$' | '\\' => push_literal(&mut regex, character),
            _ => regex.push(character),
        }
    }
    regex.push_str(")$");
    regex
}

fn push_literal(regex: &mut String, character: char) {
    if character.is_ascii_punctuation() {
        regex.push('\\');
    }
    regex.push(character);
}

#[cfg(test)]
mod tests {
    use super::regular_expression;

    #[test]
    fn patterns_are_regular_expressions() {
        for (pattern, escape, expected) in [
            ("a%_", Some('\\'), "a.*."),
            ("a.c$^", Some('\\'), r"a\.c\$\^"),
            ("(a|b)+c{2}", Some('\\'), "(?:a|b)+c{2}"),
            ("[a-z%_.]x", Some('\\'), "[a-z%_.]x"),
            (r"\%\\", Some('\\'), r"\%\\"),
            (r"!%\d", Some('!'), r"\%\\d"),
            (r"[^\]", None, r"[^\\]"),
            ("ä\\", Some('\\'), r"ä\\"),
        ] {
            let found = regular_expression(pattern, escape);
            assert_eq!(found, format!("(?s)^(?:{expected})$"), "{pattern}");
        }
    }
}
