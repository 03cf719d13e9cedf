//! Constants of types in notations that the planner does not read.
//!
//! ```text
//! INTERVAL 2 DAYS               INTERVAL '2' DAYS
//! INTERVAL (n) DAYS             (n) * INTERVAL '1' DAYS
//! INTERVAL '2 days 03:04:05'    INTERVAL '2 days 3 hours 4 minutes 5 seconds'
//! 'a\x00b'::BLOB                decode('610062', 'hex')
//! ```

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType, Expr, Interval, Value, ValueWithSpan,
};

use super::ast_parts::{call, text};

/// The same constant in a notation that the planner reads; `None` for other expressions.
pub(super) fn rewritten(expression: &Expr) -> Option<Expr> {
    match expression {
        Expr::Interval(interval) if interval.leading_field.is_some() && string(&interval.value).is_none() => {
            let mut unit = interval.clone();
            if let Expr::Value(ValueWithSpan {
                value: Value::Number(number, _),
                ..
            }) = interval.value.as_ref()
            {
                *unit.value = text(number);
                return Some(Expr::Interval(unit));
            }
            *unit.value = text("1");
            Some(Expr::Nested(Box::new(Expr::BinaryOp {
                left: Box::new(Expr::Nested(interval.value.clone())),
                op: BinaryOperator::Multiply,
                right: Box::new(Expr::Interval(unit)),
            })))
        }
        Expr::Interval(interval) if interval.leading_field.is_none() => {
            let mut interval = interval.clone();
            *interval.value = text(&without_clock(&string(&interval.value)?)?);
            Some(Expr::Interval(interval))
        }
        Expr::Cast {
            kind: CastKind::Cast | CastKind::DoubleColon,
            expr,
            data_type:
                DataType::Interval {
                    fields: None,
                    precision: None,
                },
            ..
        } => {
            let constant = string(expr)?;
            let constant = without_clock(&constant).unwrap_or(constant);
            Some(Expr::Interval(Interval {
                value: Box::new(text(&constant)),
                leading_field: None,
                leading_precision: None,
                last_field: None,
                fractional_seconds_precision: None,
            }))
        }
        Expr::Cast { expr, data_type, .. } if is_bytes(data_type) => {
            let bytes = unescaped(&string(expr)?)?;
            Some(call("decode", vec![text(&bytes), text("hex")]))
        }
        _ => None,
    }
}

fn is_bytes(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Blob(_) | DataType::Bytea | DataType::Binary(_) | DataType::Varbinary(_)
    )
}

fn string(expression: &Expr) -> Option<String> {
    match expression {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(string) => Some(string.clone()),
            _ => None,
        },
        _ => None,
    }
}

/// An interval with the units of each time of day in it; `None` if it has none.
fn without_clock(interval: &str) -> Option<String> {
    let mut has_clock = false;
    let parts = interval.split_whitespace().map(|part| match of_clock(part) {
        Some(units) => {
            has_clock = true;
            units
        }
        None => part.to_owned(),
    });
    let parts: Vec<String> = parts.collect();
    has_clock.then(|| parts.join(" "))
}

/// `-03:04:05.5` as `-3 hours -4 minutes -5.5 seconds`.
fn of_clock(part: &str) -> Option<String> {
    let (sign, digits) = match part.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", part.strip_prefix('+').unwrap_or(part)),
    };
    let fields: Vec<&str> = digits.split(':').collect();
    let is_number = |field: &&str| {
        let (whole, fraction) = field.split_once('.').unwrap_or((field, "0"));
        let all = |digits: &str| !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
        all(whole) && all(fraction)
    };
    if !fields.iter().all(is_number) {
        return None;
    }
    match fields.as_slice() {
        [hours, minutes] => Some(format!("{sign}{hours} hours {sign}{minutes} minutes")),
        [hours, minutes, seconds] => Some(format!(
            "{sign}{hours} hours {sign}{minutes} minutes {sign}{seconds} seconds"
        )),
        _ => None,
    }
}

/// The bytes of a string with escapes such as `\xAA`, as hexadecimal digits; `None` if it has none.
fn unescaped(string: &str) -> Option<String> {
    if !string.contains("\\x") {
        return None;
    }
    let mut digits = String::with_capacity(2 * string.len());
    let mut rest = string;
    while let Some(character) = rest.chars().next() {
        let escaped = rest.strip_prefix("\\x").and_then(|rest| rest.get(..2));
        if let Some(byte) = escaped.filter(|byte| byte.bytes().all(|digit| digit.is_ascii_hexdigit())) {
            digits.push_str(byte);
            rest = &rest[4..];
            continue;
        }
        let length = character.len_utf8();
        digits.extend(rest[..length].bytes().map(|byte| format!("{byte:02x}")));
        rest = &rest[length..];
    }
    Some(digits)
}
