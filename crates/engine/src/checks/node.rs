//! Replaces the expressions of a plan node.
//!
//! DataFusion exposes the expressions of its nodes but has no way to replace them in any node, so each kind
//! of node that computes with expressions of a query has a case here. Other nodes compute only with columns,
//! or do not expose their arguments (window functions that are not aggregates).

use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::common::Result;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::window::WindowExpr;
use datafusion::physical_expr::{LexOrdering, PhysicalExprRef, PhysicalSortExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, PhysicalGroupBy};
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion::physical_plan::joins::utils::{JoinFilter, JoinOn};
use datafusion::physical_plan::joins::{
    HashJoinExec, NestedLoopJoinExec, NestedLoopJoinExecBuilder, SortMergeJoinExec,
};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};

/// Replaces expressions by their position in a node; `None` keeps an expression.
pub(crate) trait Rewrite {
    /// An expression over rows of that schema.
    fn expression(&self, expression: &PhysicalExprRef, schema: &Schema) -> Result<Option<PhysicalExprRef>>;

    /// An argument of an aggregate.
    fn argument(
        &self,
        expression: &PhysicalExprRef,
        _filter: Option<&PhysicalExprRef>,
        schema: &Schema,
    ) -> Result<Option<PhysicalExprRef>> {
        self.expression(expression, schema)
    }

    /// A sort key.
    fn order(&self, key: &PhysicalExprRef, schema: &Schema) -> Result<Option<PhysicalExprRef>> {
        self.expression(key, schema)
    }

    /// A partition or order key of a window.
    fn partition(&self, key: &PhysicalExprRef, schema: &Schema) -> Result<Option<PhysicalExprRef>> {
        self.expression(key, schema)
    }

    /// A key of a join.
    fn join_key(&self, key: &PhysicalExprRef, schema: &Schema) -> Result<Option<PhysicalExprRef>> {
        self.expression(key, schema)
    }

    /// The condition of a filter.
    fn predicate(&self, predicate: &PhysicalExprRef, schema: &Schema) -> Result<Option<PhysicalExprRef>> {
        self.expression(predicate, schema)
    }
}

type Node = Arc<dyn ExecutionPlan>;

/// The node with its expressions replaced; `None` if all stay.
pub(crate) fn rewritten(node: &Node, rewrite: &dyn Rewrite) -> Result<Option<Node>> {
    if let Some(filter) = node.downcast_ref::<FilterExec>() {
        let predicate = rewrite.predicate(filter.predicate(), &filter.input().schema())?;
        let Some(predicate) = predicate else {
            return Ok(None);
        };
        let filter = FilterExecBuilder::from(filter)
            .with_predicate(predicate)
            .build()?;
        Ok(Some(Arc::new(filter)))
    } else if let Some(projection) = node.downcast_ref::<ProjectionExec>() {
        projected(projection, rewrite)
    } else if let Some(aggregate) = node.downcast_ref::<AggregateExec>() {
        aggregated(aggregate, rewrite)
    } else if let Some(join) = node.downcast_ref::<HashJoinExec>() {
        let schemas = (join.left().schema(), join.right().schema());
        let on = joined(join.on(), (&schemas.0, &schemas.1), rewrite)?;
        let filter = join_filter(join.filter(), rewrite)?;
        if on.is_none() && filter.is_none() {
            return Ok(None);
        }
        let mut builder = join.builder();
        if let Some(on) = on {
            builder = builder.with_on(on);
        }
        if filter.is_some() {
            builder = builder.with_filter(filter);
        }
        builder.recompute_properties().build_exec().map(Some)
    } else if let Some(join) = node.downcast_ref::<NestedLoopJoinExec>() {
        let Some(filter) = join_filter(join.filter(), rewrite)? else {
            return Ok(None);
        };
        let join = NestedLoopJoinExecBuilder::from(join)
            .with_filter(Some(filter))
            .build()?;
        Ok(Some(Arc::new(join)))
    } else if let Some(join) = node.downcast_ref::<SortMergeJoinExec>() {
        merged(join, rewrite)
    } else if let Some(sort) = node.downcast_ref::<SortExec>() {
        sorted(sort, rewrite)
    } else if let Some(merge) = node.downcast_ref::<SortPreservingMergeExec>() {
        let Some(order) = ordered(merge.expr(), &merge.input().schema(), rewrite)? else {
            return Ok(None);
        };
        let input = Arc::clone(merge.input());
        let merge = SortPreservingMergeExec::new(order, input).with_fetch(merge.fetch());
        Ok(Some(Arc::new(merge)))
    } else if let Some(window) = node.downcast_ref::<WindowAggExec>() {
        let Some(calls) = windows(window.window_expr(), &window.input().schema(), rewrite)? else {
            return Ok(None);
        };
        let repartitions = !window.partition_keys().is_empty();
        let window = WindowAggExec::try_new(calls, Arc::clone(window.input()), repartitions)?;
        Ok(Some(Arc::new(window)))
    } else if let Some(window) = node.downcast_ref::<BoundedWindowAggExec>() {
        let Some(calls) = windows(window.window_expr(), &window.input().schema(), rewrite)? else {
            return Ok(None);
        };
        let repartitions = !window.partition_keys().is_empty();
        let (input, mode) = (Arc::clone(window.input()), window.input_order_mode.clone());
        let window = BoundedWindowAggExec::try_new(calls, input, mode, repartitions)?;
        Ok(Some(Arc::new(window)))
    } else {
        Ok(None)
    }
}

/// All expressions replaced; `None` if all stay.
pub(crate) fn all(
    expressions: &[PhysicalExprRef],
    change: &dyn Fn(&PhysicalExprRef) -> Result<Option<PhysicalExprRef>>,
) -> Result<Option<Vec<PhysicalExprRef>>> {
    let mut changed = false;
    let mut replaced = Vec::with_capacity(expressions.len());
    for expression in expressions {
        let replacement = change(expression)?;
        changed |= replacement.is_some();
        replaced.push(replacement.unwrap_or_else(|| Arc::clone(expression)));
    }
    Ok(changed.then_some(replaced))
}

fn projected(projection: &ProjectionExec, rewrite: &dyn Rewrite) -> Result<Option<Node>> {
    let schema = projection.input().schema();
    let expressions: Vec<_> = projection
        .expr()
        .iter()
        .map(|part| Arc::clone(&part.expr))
        .collect();
    let Some(replaced) = all(&expressions, &|part| rewrite.expression(part, &schema))? else {
        return Ok(None);
    };
    let named = projection.expr().iter().zip(replaced);
    let named = named.map(|(part, expr)| ProjectionExpr::new(expr, part.alias.clone()));
    let projection = ProjectionExec::try_new(named, Arc::clone(projection.input()))?;
    Ok(Some(Arc::new(projection)))
}

fn aggregated(aggregate: &AggregateExec, rewrite: &dyn Rewrite) -> Result<Option<Node>> {
    // The schema of the rows before any aggregation, also if partial groups are merged.
    let schema = aggregate.input_schema();
    let mut changed = false;
    let (mut calls, mut filters) = (Vec::new(), Vec::new());
    for (call, filter) in aggregate.aggr_expr().iter().zip(aggregate.filter_expr()) {
        let replaced = filter.as_ref().map(|filter| rewrite.expression(filter, &schema));
        let replaced = replaced.transpose()?.flatten();
        changed |= replaced.is_some();
        let filter = replaced.or_else(|| filter.clone());
        let replaced = aggregate_call(call, filter.as_ref(), &schema, rewrite)?;
        changed |= replaced.is_some();
        calls.push(replaced.unwrap_or_else(|| Arc::clone(call)));
        filters.push(filter);
    }
    let groups = aggregate.group_expr();
    let keys: Vec<_> = groups.expr().iter().map(|(key, _)| Arc::clone(key)).collect();
    // If partial groups are merged, keys are columns.
    let keys = all(&keys, &|key| rewrite.expression(key, &aggregate.input().schema()))?;
    changed |= keys.is_some();
    if !changed {
        return Ok(None);
    }
    let groups = match keys {
        None => groups.clone(),
        Some(keys) => PhysicalGroupBy::new(
            keys.into_iter()
                .zip(groups.expr())
                .map(|(key, (_, name))| (key, name.clone()))
                .collect(),
            groups.null_expr().to_vec(),
            groups.groups().to_vec(),
            groups.has_grouping_set(),
        ),
    };
    let (mode, limit) = (*aggregate.mode(), aggregate.limit_options());
    let input = Arc::clone(aggregate.input());
    let aggregate = AggregateExec::try_new(mode, groups, calls, filters, input, schema)?;
    Ok(Some(Arc::new(aggregate.with_limit_options(limit))))
}

fn aggregate_call(
    call: &AggregateFunctionExpr,
    filter: Option<&PhysicalExprRef>,
    schema: &Schema,
    rewrite: &dyn Rewrite,
) -> Result<Option<Arc<AggregateFunctionExpr>>> {
    let parts = call.all_expressions();
    let arguments = all(&parts.args, &|part| rewrite.argument(part, filter, schema))?;
    let orders = all(&parts.order_by_exprs, &|part| {
        rewrite.argument(part, filter, schema)
    })?;
    if arguments.is_none() && orders.is_none() {
        return Ok(None);
    }
    let (arguments, orders) = (
        arguments.unwrap_or(parts.args),
        orders.unwrap_or(parts.order_by_exprs),
    );
    Ok(call.with_new_expressions(arguments, orders).map(Arc::new))
}

fn joined(
    on: &[(PhysicalExprRef, PhysicalExprRef)],
    (left, right): (&Schema, &Schema),
    rewrite: &dyn Rewrite,
) -> Result<Option<JoinOn>> {
    let (lefts, rights): (Vec<_>, Vec<_>) = on.iter().cloned().unzip();
    let changed_lefts = all(&lefts, &|key| rewrite.join_key(key, left))?;
    let changed_rights = all(&rights, &|key| rewrite.join_key(key, right))?;
    let changed = changed_lefts.is_some() || changed_rights.is_some();
    let (lefts, rights) = (changed_lefts.unwrap_or(lefts), changed_rights.unwrap_or(rights));
    Ok(changed.then(|| lefts.into_iter().zip(rights).collect()))
}

fn join_filter(filter: Option<&JoinFilter>, rewrite: &dyn Rewrite) -> Result<Option<JoinFilter>> {
    let Some(filter) = filter else {
        return Ok(None);
    };
    let condition = rewrite.expression(filter.expression(), filter.schema())?;
    Ok(condition.map(|condition| {
        let (columns, schema) = (filter.column_indices().to_vec(), Arc::clone(filter.schema()));
        JoinFilter::new(condition, columns, schema)
    }))
}

fn merged(join: &SortMergeJoinExec, rewrite: &dyn Rewrite) -> Result<Option<Node>> {
    let schemas = (join.left().schema(), join.right().schema());
    let on = joined(join.on(), (&schemas.0, &schemas.1), rewrite)?;
    let filter = join_filter(join.filter().as_ref(), rewrite)?;
    if on.is_none() && filter.is_none() {
        return Ok(None);
    }
    let join = SortMergeJoinExec::try_new(
        Arc::clone(join.left()),
        Arc::clone(join.right()),
        on.unwrap_or_else(|| join.on().to_vec()),
        filter.or_else(|| join.filter().clone()),
        join.join_type(),
        join.sort_options().to_vec(),
        join.null_equality(),
    )?;
    Ok(Some(Arc::new(join)))
}

fn sorted(sort: &SortExec, rewrite: &dyn Rewrite) -> Result<Option<Node>> {
    let Some(order) = ordered(sort.expr(), &sort.input().schema(), rewrite)? else {
        return Ok(None);
    };
    #[expect(
        deprecated,
        reason = "the method in its place returns a type that with_dynamic_filter_expr does not take"
    )]
    let filter = sort.dynamic_filter_expr();
    let sort = SortExec::new(order, Arc::clone(sort.input()))
        .with_preserve_partitioning(sort.preserve_partitioning())
        .with_fetch(sort.fetch());
    // Scans below a top-k sort already have the dynamic filter that this sort updates.
    let sort = match filter {
        Some(filter) => sort.with_dynamic_filter_expr(filter)?,
        None => sort,
    };
    Ok(Some(Arc::new(sort)))
}

fn ordered(order: &LexOrdering, schema: &Schema, rewrite: &dyn Rewrite) -> Result<Option<LexOrdering>> {
    let keys: Vec<_> = order.iter().map(|key| Arc::clone(&key.expr)).collect();
    let Some(replaced) = all(&keys, &|key| rewrite.order(key, schema))? else {
        return Ok(None);
    };
    let keys = order.iter().zip(replaced);
    Ok(LexOrdering::new(
        keys.map(|(key, expr)| PhysicalSortExpr::new(expr, key.options)),
    ))
}

fn windows(
    calls: &[Arc<dyn WindowExpr>],
    schema: &Schema,
    rewrite: &dyn Rewrite,
) -> Result<Option<Vec<Arc<dyn WindowExpr>>>> {
    let mut changed = false;
    let mut replaced = Vec::with_capacity(calls.len());
    for call in calls {
        let new = window_call(call, schema, rewrite)?;
        changed |= new.is_some();
        replaced.push(new.unwrap_or_else(|| Arc::clone(call)));
    }
    Ok(changed.then_some(replaced))
}

fn window_call(
    call: &Arc<dyn WindowExpr>,
    schema: &Schema,
    rewrite: &dyn Rewrite,
) -> Result<Option<Arc<dyn WindowExpr>>> {
    let parts = call.all_expressions();
    let arguments = all(&parts.args, &|part| rewrite.expression(part, schema))?;
    let partitions = all(&parts.partition_by_exprs, &|part| rewrite.partition(part, schema))?;
    let orders = all(&parts.order_by_exprs, &|part| rewrite.partition(part, schema))?;
    if arguments.is_none() && partitions.is_none() && orders.is_none() {
        return Ok(None);
    }
    Ok(call.with_new_expressions(
        arguments.unwrap_or(parts.args),
        partitions.unwrap_or(parts.partition_by_exprs),
        orders.unwrap_or(parts.order_by_exprs),
    ))
}
