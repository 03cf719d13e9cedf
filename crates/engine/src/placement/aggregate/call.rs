//! Translates aggregates of a plan to those of a pipeline.

use crate::checks::is_checked_sum;
use crate::placement::aggregate::classes::{Value, case_when};
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, IsNotNullExpr, Literal};
use galatea_base::reason::Reason;
use galatea_codegen::aggregate::{AggregateCall, AggregateFunction, is_exact};
use galatea_expression::{Expr, ExprKind};
use std::sync::Arc;

/// Lowers an expression over an aggregate's input to the source's columns.
pub(in crate::placement) type LowerHere<'a> = dyn Fn(&Arc<dyn PhysicalExpr>) -> Result<Expr, Reason> + 'a;

/// The pipeline's equivalent of `call`; `lower_here` lowers its arguments.
pub(in crate::placement) fn aggregate_call(
    call: &AggregateFunctionExpr,
    filter: Option<Expr>,
    field: arrow::datatypes::FieldRef,
    lower_here: &LowerHere<'_>,
) -> Result<AggregateCall, Reason> {
    let aggregate = repeated_call(call, filter, field, lower_here)?;
    match call.is_distinct() && !aggregate.function.ignores_repeats() {
        true => Err(refuse(call, "DISTINCT")),
        false => Ok(aggregate),
    }
}

fn refuse(call: &AggregateFunctionExpr, detail: &str) -> Reason {
    Reason::Function {
        name: call.fun().name().to_owned(),
        detail: detail.to_owned(),
    }
}

/// The same, with DISTINCT ignored.
pub(in crate::placement) fn repeated_call(
    call: &AggregateFunctionExpr,
    filter: Option<Expr>,
    field: arrow::datatypes::FieldRef,
    lower_here: &LowerHere<'_>,
) -> Result<AggregateCall, Reason> {
    let refuse = |detail: &str| refuse(call, detail);
    let function = AggregateFunction::from_name(call.fun().name());
    let function = match function.ok_or_else(|| refuse("no aggregate of a pipeline"))? {
        AggregateFunction::Sum if !is_checked_sum(call.fun()) => AggregateFunction::SumWrapping,
        function => function,
    };
    let arguments = call.expressions();
    let argument = match (function, arguments.as_slice()) {
        (AggregateFunction::Moment(moment), arguments) if arguments.len() == moment.arguments() => {
            let parts = arguments
                .iter()
                .map(|part| Ok(without_widening(lower_here(part)?)));
            Expr::tuple(parts.collect::<Result<_, Reason>>()?)
        }
        (AggregateFunction::Count, [one])
            if one
                .downcast_ref::<Literal>()
                .is_some_and(|l| !l.value().is_null()) =>
        {
            None
        }
        (AggregateFunction::Count, []) => None,
        // COUNT of several values counts rows without a NULL among them.
        (AggregateFunction::Count, several @ [_, _, ..]) => {
            let values = several
                .iter()
                .map(|value| -> Value { Arc::new(IsNotNullExpr::new(Arc::clone(value))) });
            let counts = values
                .reduce(|before, value| Arc::new(BinaryExpr::new(before, Operator::And, value)))
                .and_then(|counts| case_when(counts, one(), None));
            Some(lower_here(&counts.ok_or_else(|| refuse("no argument"))?)?)
        }
        (_, [one]) => Some(lower_here(one)?),
        _ => return Err(refuse("more than one argument")),
    };
    let call = AggregateCall {
        function,
        argument,
        filter,
        field,
    };
    call.supports()?;
    Ok(call)
}

fn one() -> Value {
    Arc::new(Literal::new(ScalarValue::Int64(Some(1))))
}

/// The integer or decimal that DataFusion casts to a double for a function's signature, or the expression
/// itself.
fn without_widening(argument: Expr) -> Expr {
    match argument.kind() {
        ExprKind::Cast { input, .. }
            if *argument.data_type() == DataType::Float64 && is_exact(input.data_type()) =>
        {
            input.clone()
        }
        _ => argument,
    }
}
