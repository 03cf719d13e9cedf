//! Calls with results that depend on the order of rows: ARRAY_AGG and STRING_AGG with ORDER BY, NTH_VALUE.
//!
//! ```text
//! SELECT k, array_agg(x ORDER BY y) FROM t GROUP BY k
//!
//! t ── numbered by y in each k ── sorted by k, y ── CPU: groups by k, whose rows are in order: array_agg(x)
//! ```
//!
//! Equal rows keep the order of the table: rows are numbered in the order of a window, which distinguishes
//! them, and sorted by these numbers. Distinct values in their own order (`array_agg(DISTINCT x ORDER BY x)`)
//! are groups by these values, which the CPU sorts.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::ScalarValue;
use datafusion::functions_window::row_number::row_number_udwf;
use datafusion::logical_expr::WindowFunctionDefinition;
use datafusion::physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::windows::WindowAggExec;

use super::{Need, Rows, Value, ascending, column, over_partitions};

/// The rows that ARRAY_AGG or STRING_AGG needs; `None` without an order, or if rows that are equal in the
/// order could not be distinguished.
pub(super) fn need(
    first: &AggregateExec,
    call: &AggregateFunctionExpr,
    filter: Option<&Value>,
    is_distinct: bool,
) -> Option<Need> {
    let order = call.order_bys();
    if is_distinct {
        let [key] = order else {
            return None;
        };
        let argument = call.expressions().into_iter().next()?;
        let data_type = argument.data_type(&first.input().schema()).ok()?;
        // A group of zeros has one sign, distinct values have both.
        let is_own_order = key.expr == argument && !data_type.is_floating();
        return (is_own_order && filter.is_none()).then(|| Need {
            rows: Rows::Different,
            by: vec![key.clone()],
        });
    }
    let is_column = |value: &Value| value.is::<Column>();
    let keys = first.group_expr().expr();
    let is_key = |value: &Value| keys.iter().any(|(key, _)| key == value);
    let told_apart =
        keys.iter().all(|(key, _)| is_column(key)) && order.iter().all(|key| is_column(&key.expr));
    // The keys are the same in all rows of a group.
    let by: Vec<_> = order.iter().filter(|key| !is_key(&key.expr)).cloned().collect();
    (told_apart && !by.is_empty()).then_some(Need {
        rows: Rows::InOrder,
        by,
    })
}

/// The rows that NTH_VALUE needs; `None` without an order or with a filter.
pub(super) fn nth(call: &AggregateFunctionExpr, filter: Option<&Value>) -> Option<Need> {
    let order = call.order_bys();
    let arguments = call.expressions();
    let number = arguments.get(1)?.downcast_ref::<Literal>()?.value();
    let ScalarValue::Int64(Some(number)) = number else {
        return None;
    };
    // If DataFusion has reversed the order, it counts from the other end.
    let is_from_start = (*number > 0) != call.is_reversed();
    let rows = u32::try_from(number.unsigned_abs()).ok()?;
    let is_plain = filter.is_none() && !call.ignore_nulls() && !order.is_empty() && rows > 0;
    is_plain.then(|| Need {
        rows: match is_from_start {
            true => Rows::Head(rows),
            false => Rows::Tail(rows),
        },
        by: order.to_vec(),
    })
}

/// The rows of the input in the order of the groups' keys, then in that of a call.
pub(super) fn rows(first: &AggregateExec, by: &[PhysicalSortExpr]) -> Option<Arc<dyn ExecutionPlan>> {
    let input = first.input();
    let schema = input.schema();
    let keys = first.group_expr().expr().iter();
    let keys: Vec<Value> = keys.map(|(key, _)| Arc::clone(key)).collect();
    let number = over_partitions(
        &WindowFunctionDefinition::WindowUDF(row_number_udwf()),
        "number".to_owned(),
        &[],
        &keys,
        by,
        &schema,
    )?;
    let numbered = WindowAggExec::try_new(vec![number], Arc::clone(input), false).ok()?;
    let order = keys.into_iter().map(ascending).chain(by.iter().cloned());
    Some(Arc::new(SortExec::new(
        LexOrdering::new(order)?,
        Arc::new(numbered),
    )))
}

/// A call over the distinct values in the column with that number.
pub(super) fn over_column(
    call: &AggregateFunctionExpr,
    number: usize,
    schema: &SchemaRef,
) -> Option<Arc<AggregateFunctionExpr>> {
    let value = column(number, schema);
    let mut arguments = call.expressions();
    *arguments.first_mut()? = Arc::clone(&value);
    let order = call.order_bys().iter().map(|key| PhysicalSortExpr {
        expr: Arc::clone(&value),
        options: key.options,
    });
    let over = AggregateExprBuilder::new(Arc::new(call.fun().clone()), arguments)
        .schema(Arc::clone(schema))
        .alias(call.name())
        .order_by(order.collect())
        .with_reversed(call.is_reversed())
        .with_ignore_nulls(call.ignore_nulls());
    over.build().ok().map(Arc::new)
}
