//! Several ordered aggregates of one GROUP BY.
//!
//! * DataFusion reverses the order of an aggregate if another one has the opposite order. It ignores that
//!   with DISTINCT: `list(DISTINCT c ORDER BY c DESC)` beside `list(DISTINCT c ORDER BY c)` returned the
//!   order of the other one. An order by the argument itself becomes ascending, and the list is reversed.
//! * It refuses two `string_agg` with different orders. They become joined lists.

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, Result};
use datafusion::config::ConfigOptions;
use datafusion::functions_aggregate::array_agg::{ArrayAgg, array_agg_udaf};
use datafusion::functions_aggregate::string_agg::StringAgg;
use datafusion::functions_nested::expr_fn::{array_reverse, array_to_string};
use datafusion::logical_expr::expr::{AggregateFunction, Sort};
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan, Projection};
use datafusion::optimizer::AnalyzerRule;
use std::sync::Arc;

/// The value of an aggregate from its list.
type OfList = Box<dyn Fn(Expr) -> Expr>;

/// The rule; see the module documentation.
#[derive(Debug)]
pub(super) struct OrderedAggregates;

impl AnalyzerRule for OrderedAggregates {
    fn name(&self) -> &'static str {
        "galatea_ordered_aggregates"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let changed = plan.transform_up_with_subqueries(|node| match node {
            LogicalPlan::Aggregate(aggregate) if orders(&aggregate, |_| true) > 1 => separated(aggregate),
            node => Ok(Transformed::no(node)),
        });
        Ok(changed?.data)
    }
}

/// The aggregate of an expression of an aggregation.
fn call(expression: &Expr) -> Option<&AggregateFunction> {
    match expression {
        Expr::Alias(alias) => call(&alias.expr),
        Expr::AggregateFunction(call) if !call.params.order_by.is_empty() => Some(call),
        _ => None,
    }
}

/// Number of different orders of these aggregates.
fn orders(aggregate: &Aggregate, is_counted: impl Fn(&AggregateFunction) -> bool) -> usize {
    let mut seen: Vec<&Vec<Sort>> = Vec::new();
    for call in aggregate
        .aggr_expr
        .iter()
        .filter_map(call)
        .filter(|call| is_counted(call))
    {
        if !seen.contains(&&call.params.order_by) {
            seen.push(&call.params.order_by);
        }
    }
    seen.len()
}

fn is_string_agg(call: &AggregateFunction) -> bool {
    call.func.inner().is::<StringAgg>()
}

/// The list that an aggregate becomes, and the value of the list. `joins`: whether each `string_agg` is one.
fn listed(aggregate: &AggregateFunction, joins: bool) -> Option<(Expr, OfList)> {
    let params = &aggregate.params;
    let is_string = is_string_agg(aggregate);
    let is_list = aggregate.func.inner().is::<ArrayAgg>();
    let [value, separators @ ..] = params.args.as_slice() else {
        return None;
    };
    let reverses = params.distinct && matches!(params.order_by.as_slice(), [order] if !order.asc);
    if !(is_string && (joins || reverses) || is_list && reverses) {
        return None;
    }
    let mut params = params.clone();
    params.args.truncate(1);
    if reverses {
        let order = &mut params.order_by[0];
        (order.asc, order.nulls_first) = (true, !order.nulls_first);
    }
    if is_string {
        let exists = Box::new(value.clone().is_not_null());
        params.filter = Some(match params.filter.take() {
            Some(filter) => Box::new(filter.and(*exists)),
            None => exists,
        });
    }
    let separator = match separators {
        [separator @ Expr::Literal(..)] => Some(separator.clone()),
        _ if is_list => None,
        _ => return None,
    };
    let list = Expr::AggregateFunction(AggregateFunction {
        func: array_agg_udaf(),
        params,
    });
    let value = move |list: Expr| {
        let list = match reverses {
            true => array_reverse(list),
            false => list,
        };
        match &separator {
            Some(separator) => array_to_string(list, separator.clone()),
            None => list,
        }
    };
    Some((list, Box::new(value)))
}

fn separated(aggregate: Aggregate) -> Result<Transformed<LogicalPlan>> {
    let groups = aggregate.schema.fields().len() - aggregate.aggr_expr.len();
    let joins = orders(&aggregate, is_string_agg) > 1;
    let mut calls = Vec::new();
    let mut values: Vec<Option<OfList>> = Vec::new();
    for (number, expression) in aggregate.aggr_expr.iter().enumerate() {
        match call(expression).and_then(|call| listed(call, joins)) {
            Some((list, value)) => {
                calls.push(list.alias(format!("__galatea_list_{number}")));
                values.push(Some(value));
            }
            None => {
                calls.push(expression.clone());
                values.push(None);
            }
        }
    }
    if values.iter().all(Option::is_none) {
        return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
    }
    let schema = Arc::clone(&aggregate.schema);
    let lists = Aggregate::try_new(aggregate.input, aggregate.group_expr, calls)?;
    let columns = lists
        .schema
        .iter()
        .enumerate()
        .map(|(number, (qualifier, field))| {
            let column = Expr::Column(Column::from((qualifier, field)));
            let value = number
                .checked_sub(groups)
                .and_then(|number| values[number].as_ref());
            match value {
                Some(value) => {
                    let (qualifier, field) = schema.qualified_field(number);
                    value(column).alias_qualified(qualifier.cloned(), field.name())
                }
                None => column,
            }
        });
    let columns = columns.collect();
    let plan = Projection::try_new(columns, Arc::new(LogicalPlan::Aggregate(lists)))?;
    Ok(Transformed::yes(LogicalPlan::Projection(plan)))
}
