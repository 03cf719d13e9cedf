//! NaN as one value among group keys and among the arguments of DISTINCT aggregates.
//!
//! A NaN has many bit patterns, and operators of the CPU group floats by their bits. In the input of the
//! first step of an aggregate, the rule replaces all of them by one pattern, and negative zero by zero. It
//! runs after placement, because kernels do the same already, and before rows are repartitioned by their
//! keys. The argument of MAX is rewritten too: for a plain column, scans would skip values below the current
//! maximum by statistics, which do not count NaN.
//!
//! The aggregate of a TopK keeps the keys and extremes of the first rows in a heap, which finds no NaN again.
//! Aggregates of floats are hidden from the rule that creates it.

use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use galatea_expression::one_nan::of_one_nan;
use std::sync::Arc;

/// The rule that rewrites aggregates.
#[derive(Debug, Default)]
pub(super) struct OneNan;

impl PhysicalOptimizerRule for OneNan {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let options = Arc::new(config.clone());
        let rewritten = plan.transform_up(|node| {
            let aggregate = node.downcast_ref::<AggregateExec>();
            Ok(
                match aggregate
                    .map(|aggregate| with_one_nan(aggregate, &options))
                    .transpose()?
                {
                    Some(Some(aggregate)) => Transformed::yes(Arc::new(aggregate) as Arc<dyn ExecutionPlan>),
                    _ => Transformed::no(node),
                },
            )
        })?;
        Ok(rewritten.data)
    }

    fn name(&self) -> &'static str {
        "galatea_one_nan"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Whether an operator is an aggregate with keys or extremes of floats.
pub(super) fn compares_floats(node: &Arc<dyn ExecutionPlan>) -> bool {
    let Some(aggregate) = node.downcast_ref::<AggregateExec>() else {
        return false;
    };
    let schema = aggregate.input_schema();
    let is_float = |data_type: &DataType| data_type.is_floating();
    let keys = aggregate.group_expr().expr().iter();
    let mut key_types = keys.map(|(key, _)| key.data_type(&schema));
    let mut extremes = aggregate.aggr_expr().iter();
    key_types.any(|key| key.is_ok_and(|key| is_float(&key)))
        || extremes.any(|call| is_float(call.field().data_type()))
}

/// The aggregate over floats with one NaN; `None` if it reads no floats, or partial states.
fn with_one_nan(aggregate: &AggregateExec, options: &Arc<ConfigOptions>) -> Result<Option<AggregateExec>> {
    let is_first = matches!(
        aggregate.mode(),
        AggregateMode::Partial | AggregateMode::Single | AggregateMode::SinglePartitioned
    );
    if !is_first {
        return Ok(None);
    }
    let schema = aggregate.input().schema();
    let mut changed = false;
    let mut one_nan = |expr: &Arc<dyn PhysicalExpr>| match of_one_nan(expr, &schema, options)? {
        Some(rewritten) => {
            changed = true;
            Ok(rewritten)
        }
        None => Ok(Arc::clone(expr)),
    };
    let groups = aggregate.group_expr();
    let keys = groups.expr().iter();
    let keys = keys.map(|(key, name)| Ok((one_nan(key)?, name.clone())));
    let keys = keys.collect::<Result<Vec<_>>>()?;
    let mut calls: Vec<Arc<AggregateFunctionExpr>> = Vec::new();
    for call in aggregate.aggr_expr() {
        let compares = call.is_distinct() || matches!(call.fun().name(), "min" | "max");
        if !compares || !call.order_bys().is_empty() {
            calls.push(Arc::clone(call));
            continue;
        }
        let arguments = call.expressions();
        let arguments = arguments.iter().map(&mut one_nan).collect::<Result<Vec<_>>>()?;
        let rewritten = call.with_new_expressions(arguments, Vec::new()).map(Arc::new);
        calls.push(rewritten.unwrap_or_else(|| Arc::clone(call)));
    }
    if !changed {
        return Ok(None);
    }
    let keys = PhysicalGroupBy::new(
        keys,
        groups.null_expr().to_vec(),
        groups.groups().to_vec(),
        groups.has_grouping_set(),
    );
    let rewritten = AggregateExec::try_new(
        *aggregate.mode(),
        keys,
        calls,
        aggregate.filter_expr().to_vec(),
        Arc::clone(aggregate.input()),
        aggregate.input_schema(),
    )?;
    Ok(Some(rewritten.with_limit_options(aggregate.limit_options())))
}
