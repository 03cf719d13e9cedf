//! Integers beyond 64 bits in a statement.
//!
//! DataFusion's planner converts them to doubles, which keep 16 digits: `99999999999999999999` is another
//! number then. They become decimals with all of their digits, up to the 38 of a 128-bit decimal. Needed
//! while DataFusion converts them to doubles (`datafusion_parses_long_integers_as_doubles` fails once it does
//! not).

use crate::syntax::visit_expressions_mut;
use datafusion::sql::parser::{CopyToSource, Statement};
use datafusion::sql::sqlparser::ast::{CastKind, DataType, ExactNumberInfo, Expr, Value, VisitMut};
use std::ops::ControlFlow;

/// Digits of the longest decimal of 128 bits.
const MOST_DIGITS: usize = 38;

/// Converts integers beyond 64 bits to decimals.
pub(super) fn exact_numbers(statement: &mut Statement) {
    match statement {
        Statement::Statement(statement) => exact(statement.as_mut()),
        Statement::Explain(explain) => exact_numbers(&mut explain.statement),
        Statement::CopyTo(copy) => {
            if let CopyToSource::Query(query) = &mut copy.source {
                exact(query.as_mut());
            }
        }
        Statement::CreateExternalTable(_) | Statement::Reset(_) => {}
    }
}

fn exact(tree: &mut impl VisitMut) {
    let _ = visit_expressions_mut(tree, |expression| {
        if let Expr::Value(value) = &*expression
            && let Value::Number(digits, _) = &value.value
            && let Some(digits) = long_number(digits)
        {
            let precision = digits.len() as u64;
            let text = Value::SingleQuotedString(digits.to_owned()).with_span(value.span);
            *expression = Expr::Cast {
                kind: CastKind::Cast,
                expr: Box::new(Expr::Value(text)),
                data_type: DataType::Decimal(ExactNumberInfo::PrecisionAndScale(precision, 0)),
                array: false,
                format: None,
            };
        }
        ControlFlow::<()>::Continue(())
    });
}

/// The digits of an integer beyond 64 bits, if a decimal can hold them.
fn long_number(text: &str) -> Option<&str> {
    let digits = text.trim_start_matches('0');
    let is_whole = digits.bytes().all(|letter| letter.is_ascii_digit());
    (is_whole && digits.len() <= MOST_DIGITS && digits.len() > 19 && digits.parse::<u64>().is_err())
        .then_some(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_beyond_64_bits() {
        assert_eq!(long_number("18446744073709551616"), Some("18446744073709551616"));
        assert_eq!(
            long_number("0018446744073709551616"),
            Some("18446744073709551616")
        );
        let most = "9".repeat(MOST_DIGITS);
        assert_eq!(long_number(&most), Some(most.as_str()));
        let longer = "9".repeat(MOST_DIGITS + 1);
        for text in [
            "18446744073709551615",
            "0",
            "1.5",
            "123456789012345678901e3",
            &longer,
        ] {
            assert_eq!(long_number(text), None, "{text}");
        }
    }
}
