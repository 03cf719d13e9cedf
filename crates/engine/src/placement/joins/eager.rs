//! Aggregating one side of a join before the join (Yan & Larson, "Eager aggregation and lazy aggregation",
//! VLDB 1995).
//!
//! ```text
//! SELECT c_custkey, count(o_orderkey) FROM customer LEFT JOIN orders ON c_custkey = o_custkey
//! GROUP BY c_custkey
//!
//! orders ── groups by o_custkey: count(o_orderkey)
//!                 │
//! customer ── lookup by c_custkey ── groups by c_custkey: sum(the count, or 0)
//! ```
//!
//! Rows with many matches are no problem then: each looks up one group. It applies to outer joins if the keys
//! are of the preserved side and the aggregates of the other. It does not apply if, according to statistics,
//! the keys of the other side may be unique: its rows are looked up one by one. Rows of an inner join look up
//! the side with the keys instead, which usually has unique ones.

use crate::graph::{BuildSide, PipelineGraph};
use crate::placement::aggregate::call::aggregate_call;
use crate::placement::chain::{Buildable, Chain, Finder};
use crate::placement::joins::build_side::buildable;
use crate::placement::nodes::{input, key_of, other, refuse, statistics};
use crate::placement::plan_node::{Join, PlanNode};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::{JoinSide, JoinType, NullEquality, ScalarValue};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::joins::HashJoinExec;
use galatea_codegen::SinkPlan;
use galatea_codegen::aggregate::{AggregateCall, AggregateFunction};
use galatea_expression::{Expr, ExprKind, integer_literal, lower, widens};
use std::sync::Arc;

/// The pipeline of an aggregate over a join, with the other side aggregated first; `None` if that does not
/// apply.
pub(in crate::placement) fn subtree(
    first: &AggregateExec,
    output: &SchemaRef,
    finder: &Finder<'_>,
) -> Option<PipelineGraph> {
    let (join, columns) = join_below(first.input())?;
    let plain = join.on().len() == 1
        && join.filter().is_none()
        && join.fetch().is_none()
        && join.null_equality() == NullEquality::NullEqualsNothing;
    if !plain {
        return None;
    }
    let schema = first.input().schema();
    let keys = first.group_expr().expr().iter();
    let keys = keys
        .map(|(key, _)| lower(key, &schema).ok())
        .collect::<Option<Vec<Expr>>>()?;
    let left = join.left().schema().fields().len();
    let side_of = |column: usize| {
        if columns[column] < left {
            JoinSide::Left
        } else {
            JoinSide::Right
        }
    };
    let of_side =
        |side: JoinSide, expression: &Expr| expression.columns().iter().all(|c| side_of(*c) == side);
    // Without keys, no row would exist that returns a count of zero.
    let fact = [JoinSide::Left, JoinSide::Right]
        .into_iter()
        .find(|side| !keys.is_empty() && keys.iter().all(|key| of_side(*side, key)))?;
    let keeps_all = matches!(
        (join.join_type(), fact),
        (JoinType::Left, JoinSide::Left) | (JoinType::Right, JoinSide::Right)
    );
    if !keeps_all {
        return None;
    }
    let mut chain = finder.below(input(join, fact)).ok()?;
    let build_side = input(join, other(fact));
    let key = key_of(&join.on()[0], other(fact));
    if may_be_unique(build_side, key) {
        return None;
    }
    let Buildable::Rows {
        chain: mut rows,
        key: built_key,
    } = buildable(build_side, &[key], finder)?
    else {
        return None;
    };
    if !chain.is_on_device() {
        return None;
    }
    let wanted = lower(key_of(&join.on()[0], fact), &input(join, fact).schema()).ok()?;
    let wanted = wanted.substitute(&chain.columns);
    if wanted.data_type() != built_key.data_type() {
        return None;
    }
    if finder.found_scattered(&BuildSide::new(build_side, key, wanted.clone(), true)) {
        return None;
    }
    // Rewrites an expression over the aggregate's input to the columns of the side that it belongs to.
    let over = |chain: &Chain, side: JoinSide, expression: &Expr| -> Option<Expr> {
        let first = if side == JoinSide::Left { 0 } else { left };
        let index = |column: usize| columns[column].checked_sub(first).unwrap_or(usize::MAX);
        of_side(side, expression).then(|| expression.remap_columns(&index).substitute(&chain.columns))
    };
    let keys = (keys.iter().map(|key| over(&chain, fact, key))).collect::<Option<Vec<_>>>()?;
    let fields = output.fields().iter().skip(keys.len());
    let filters = first.filter_expr().iter();
    let mut inner = Vec::new();
    for ((call, filter), field) in first.aggr_expr().iter().zip(filters).zip(fields) {
        let lowered = |e: &Arc<dyn PhysicalExpr>| lower(e, &schema);
        let call = aggregate_call(call, None, Arc::clone(field), &lowered).ok()?;
        let argument = match &call.argument {
            // A computed value may not be NULL in a row without a match, and may raise errors for rows that
            // match none.
            Some(argument) if !is_column(argument) => return None,
            Some(argument) => Some(over(&rows, other(fact), argument)?),
            None => None,
        };
        let finished = call.function.finishes_on_host() || call.function == AggregateFunction::Avg;
        // The sum of one row's matches may overflow its type although the sum of all rows does not.
        let may_overflow = call.function == AggregateFunction::Sum
            && matches!(call.field.data_type(), DataType::Decimal128(precision, _) if *precision == 38);
        if filter.is_some() || finished || may_overflow {
            return None;
        }
        inner.push(AggregateCall { argument, ..call });
    }
    if built_key.nullable() {
        rows.filters.push(built_key.is_null().negated());
    }
    let number = chain.build_sides.len();
    let member = Expr::member(number, wanted.clone());
    let calls = inner.iter().enumerate();
    let calls = calls
        .map(|(call, inner)| {
            outer_call(inner, &member, |field| {
                Expr::lookup(number, 1 + call, field, wanted.clone())
            })
        })
        .collect();
    let sink = SinkPlan::BuildGroups {
        key: built_key,
        aggregates: inner,
        part: None,
    };
    let groups = rows.finish(sink, Arc::new(Schema::empty())).ok()?;
    chain.build_sides.push(BuildSide {
        limit: Some(refuse("rows of one key, aggregated before the join")),
        ..BuildSide::new(build_side, key, wanted, true)
    });
    chain.buildable.push(Some(Buildable::Complete(Box::new(groups))));
    let sink = SinkPlan::Aggregate {
        keys,
        aggregates: calls,
        kept: false,
    };
    chain.finish(sink, Arc::clone(output)).ok()
}

/// Whether it is a column, or an integer column cast to a wider type.
fn is_column(argument: &Expr) -> bool {
    match argument.kind() {
        ExprKind::Cast { input, .. } => {
            input.as_column().is_some() && widens(input.data_type(), argument.data_type())
        }
        _ => argument.as_column().is_some(),
    }
}

/// Whether the number of rows is at most that of possible keys.
fn may_be_unique(plan: &Arc<dyn ExecutionPlan>, key: &Arc<dyn PhysicalExpr>) -> bool {
    let span = || {
        let column = key.downcast_ref::<Column>()?.index();
        let known = statistics(plan)?;
        let rows = *known.num_rows.get_value()? as i128;
        let bounds = known.column_statistics.get(column)?;
        let number = |value: Option<&ScalarValue>| value.and_then(integer_literal);
        let (low, high) = (
            number(bounds.min_value.get_value())?,
            number(bounds.max_value.get_value())?,
        );
        Some(rows <= high - low + 1)
    };
    span().unwrap_or(false)
}

/// The outer aggregate of the inner aggregates of a row's matches; a row may have none.
fn outer_call(inner: &AggregateCall, member: &Expr, lookup: impl Fn(&Field) -> Expr) -> AggregateCall {
    let value = lookup(&inner.field);
    let (function, argument) = match inner.function {
        AggregateFunction::Count => {
            // A row without a match is a row, too.
            let alone = i64::from(inner.argument.is_none());
            let alone = Expr::literal(ScalarValue::Int64(Some(alone)));
            (AggregateFunction::Sum, Expr::either(member.clone(), value, alone))
        }
        function => (function, Expr::only_where(member.clone(), value)),
    };
    AggregateCall {
        function,
        argument: Some(argument),
        filter: None,
        field: Arc::clone(&inner.field),
    }
}

/// The join under projections that only choose columns, and for each column its number in the join, left
/// before right.
fn join_below(plan: &Arc<dyn ExecutionPlan>) -> Option<(&HashJoinExec, Vec<usize>)> {
    let join = match PlanNode::of(plan) {
        PlanNode::Arrangement(below) => return join_below(below),
        PlanNode::Projection(projection) => {
            let (join, columns) = join_below(projection.input())?;
            let chosen = projection.expr().iter();
            let chosen = chosen.map(|e| Some(columns[e.expr.downcast_ref::<Column>()?.index()]));
            return Some((join, chosen.collect::<Option<_>>()?));
        }
        PlanNode::Join(Join::Hash(join)) => join,
        _ => return None,
    };
    let all = join.left().schema().fields().len() + join.right().schema().fields().len();
    let columns = match &join.projection {
        Some(projection) => projection.to_vec(),
        None => (0..all).collect(),
    };
    Some((join, columns))
}
