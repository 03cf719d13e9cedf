//! Sums that share accumulators: SUM(x + c) is SUM(x) plus c times the number of values, so any number of
//! sums that differ only in c need one sum and one count. If 64-bit integers wrap, they wrap in the sum as in
//! the addition, so both are bit-identical; otherwise sums are shared only if they provably fit.

use super::aggregate::{AggregateCall, AggregateFunction};
use arrow::datatypes::DataType;
use galatea_expression::{Arithmetic, Expr, ExprKind, integer_literal};

/// For each call, the argument to sum instead and the constant to add per value. `None` for calls that are no
/// such sum or have nothing to share.
pub(super) fn shared_sums(calls: &[AggregateCall]) -> Vec<Option<(Expr, i64)>> {
    let sums: Vec<_> = calls.iter().map(sum_of).collect();
    let others = |at: usize, of: &Expr| {
        let same = |(other, sum): (usize, &Option<(Expr, i64)>)| {
            let same = sum.as_ref().is_some_and(|(argument, _)| argument == of);
            other != at && same && calls[other].filter == calls[at].filter
        };
        sums.iter().enumerate().any(same)
    };
    let shared = |(at, sum): (usize, &Option<(Expr, i64)>)| {
        sum.clone()
            .filter(|(argument, each)| *each != 0 && others(at, argument))
    };
    sums.iter().enumerate().map(shared).collect()
}

/// Splits the argument of a sum of 64-bit integers into the argument without an added constant, and the
/// constant.
fn sum_of(call: &AggregateCall) -> Option<(Expr, i64)> {
    let argument = call.argument.as_ref()?;
    let is_sum = matches!(
        call.function,
        AggregateFunction::Sum | AggregateFunction::SumWrapping
    );
    if !is_sum || *argument.data_type() != DataType::Int64 {
        return None;
    }
    let wraps = call.function == AggregateFunction::SumWrapping;
    let constant = |e: &Expr| i64::try_from(e.as_literal().and_then(integer_literal)?).ok();
    let ExprKind::Arithmetic {
        operator,
        left,
        right,
        checked,
    } = argument.kind()
    else {
        return Some((argument.clone(), 0));
    };
    if *checked == wraps {
        return Some((argument.clone(), 0));
    }
    Some(match (operator, constant(left), constant(right)) {
        (Arithmetic::Add, None, Some(each)) => (left.clone(), each),
        (Arithmetic::Add, Some(each), None) => (right.clone(), each),
        (Arithmetic::Subtract, None, Some(each)) if each != i64::MIN => (left.clone(), -each),
        _ => (argument.clone(), 0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::Field;
    use datafusion::common::ScalarValue;
    use std::sync::Arc;

    fn sum(argument: Expr, filter: Option<Expr>) -> AggregateCall {
        AggregateCall {
            function: AggregateFunction::Sum,
            argument: Some(argument),
            filter,
            field: Arc::new(Field::new("sum", DataType::Int64, true)),
        }
    }

    fn arithmetic(operator: Arithmetic, left: &Expr, right: &Expr) -> Expr {
        let kind = ExprKind::Arithmetic {
            operator,
            left: left.clone(),
            right: right.clone(),
            checked: true,
        };
        Expr::new(kind, DataType::Int64, true)
    }

    #[test]
    fn sums_that_differ_by_a_constant_share_accumulators() {
        let x = Expr::column(0, DataType::Int64, true);
        let y = Expr::column(1, DataType::Int64, true);
        let seven = Expr::literal(ScalarValue::Int64(Some(7)));
        let flag = Expr::column(2, DataType::Boolean, false);
        let calls = [
            sum(x.clone(), None),
            sum(arithmetic(Arithmetic::Add, &x, &seven), None),
            sum(arithmetic(Arithmetic::Add, &seven, &x), None),
            sum(arithmetic(Arithmetic::Subtract, &x, &seven), None),
            // Calls that share nothing: not of that form, the only call with its argument, the only call with
            // its filter.
            sum(arithmetic(Arithmetic::Subtract, &seven, &x), None),
            sum(arithmetic(Arithmetic::Add, &y, &seven), None),
            sum(arithmetic(Arithmetic::Add, &x, &seven), Some(flag)),
        ];
        let each: Vec<_> = shared_sums(&calls)
            .into_iter()
            .map(|sum| sum.map(|(argument, each)| (argument == x, each)))
            .collect();
        let seven = |each| Some((true, each));
        assert_eq!(each, [None, seven(7), seven(7), seven(-7), None, None, None]);
    }
}
