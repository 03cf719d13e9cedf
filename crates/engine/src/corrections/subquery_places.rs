//! Subqueries in ON, ORDER BY, GROUP BY and window functions.
//!
//! DataFusion decorrelates subqueries of filters and of columns alone. A part of ON that contains one and
//! reads one side becomes a column of that side; if it reads both sides of an inner join, it is a filter
//! above it. A correlated scalar subquery in ORDER BY, GROUP BY or a window is a column below:
//!
//! ```text
//! t LEFT JOIN u ON t.k = u.k AND EXISTS (SELECT ... WHERE w.k = u.k)
//!     t LEFT JOIN (SELECT u.*, EXISTS (...) AS found FROM u) ON t.k = u.k AND found
//! ```
//!
//! The rule runs before DataFusion checks the places of subqueries.

use super::lifting;
use super::marks;
use super::subqueries::subquery_of;
use datafusion::common::alias::AliasGenerator;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, JoinType, Result, not_impl_err};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Expr, Filter, Join, LogicalPlan, LogicalPlanBuilder, Subquery};
use datafusion::optimizer::AnalyzerRule;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The rule; see the module documentation.
#[derive(Debug, Default)]
pub(super) struct PlaceSubqueries;

impl AnalyzerRule for PlaceSubqueries {
    fn name(&self) -> &'static str {
        "galatea_place_subqueries"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let names = AliasGenerator::new();
        let placed = plan.transform_up_with_subqueries(|node| match node {
            LogicalPlan::Join(join) if (join.filter.as_ref()).map_or(Ok(false), has_subquery)? => {
                outside(join, &names).map(Transformed::yes)
            }
            LogicalPlan::Sort(_) | LogicalPlan::Window(_) | LogicalPlan::Aggregate(_) => below(node, &names),
            node => Ok(Transformed::no(node)),
        });
        Ok(placed?.data)
    }
}

fn fresh_name(names: &AliasGenerator) -> String {
    names.next("__galatea_placed")
}

/// A node over an input with columns for its correlated scalar subqueries.
fn below(node: LogicalPlan, names: &AliasGenerator) -> Result<Transformed<LogicalPlan>> {
    let mut found: Vec<Expr> = Vec::new();
    let keys = match &node {
        // DataFusion has those of aggregate calls.
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.clone(),
        node => node.expressions(),
    };
    for key in &keys {
        key.apply(|part| {
            if let Expr::ScalarSubquery(subquery) = part
                && !subquery.outer_ref_columns.is_empty()
                && !found.contains(part)
            {
                found.push(part.clone());
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
    }
    let [input] = node.inputs()[..] else {
        return Ok(Transformed::no(node));
    };
    if found.is_empty() {
        return Ok(Transformed::no(node));
    }
    let named: Vec<(Expr, String)> = found
        .into_iter()
        .map(|value| (value, fresh_name(names)))
        .collect();
    let values = named.iter().map(|(value, name)| value.clone().alias(name));
    let mut read = BTreeSet::new();
    for (value, _) in &named {
        read.extend(columns(value)?);
    }
    let has_all = |plan: &LogicalPlan| read.iter().all(|column| plan.schema().has_column(column));
    let (rows, own) = match input {
        // ORDER BY reads columns that are not selected.
        LogicalPlan::Projection(projection) if !has_all(input) && has_all(&projection.input) => {
            (projection.input.as_ref(), projection.expr.clone())
        }
        input => {
            let own = input.schema().columns().into_iter().map(Expr::Column);
            (input, own.collect())
        }
    };
    let columns = own.into_iter().chain(values).collect::<Vec<_>>();
    let input = LogicalPlanBuilder::from(rows.clone()).project(columns)?;
    let named: Vec<(Expr, Expr)> = named
        .into_iter()
        .map(|(value, name)| (value, Expr::Column(Column::new_unqualified(name))))
        .collect();
    marks::with_values(node, input.build()?, &named).map(Transformed::yes)
}

/// A join without subqueries in ON.
fn outside(join: Join, names: &AliasGenerator) -> Result<LogicalPlan> {
    let schema = Arc::clone(&join.schema);
    let [mut left, mut right] = [&join.left, &join.right].map(|side| side.as_ref().clone());
    let mut parts = Vec::new();
    let mut above = Vec::new();
    for part in join.filter.iter().cloned().flat_map(split_conjunction_owned) {
        if !has_subquery(&part)? {
            parts.push(part);
            continue;
        }
        let read = columns(&part)?;
        let side = [&mut left, &mut right]
            .into_iter()
            .find(|side| read.iter().all(|column| side.schema().has_column(column)));
        match side {
            Some(side) => {
                let name = fresh_name(names);
                let own = side.schema().columns().into_iter().map(Expr::Column);
                let columns = own.chain([part.alias(&name)]).collect::<Vec<_>>();
                *side = LogicalPlanBuilder::from(side.clone()).project(columns)?.build()?;
                parts.push(Expr::Column(Column::new_unqualified(name)));
            }
            None if join.join_type == JoinType::Inner => above.push(part),
            None => {
                return not_impl_err!(
                    "a subquery in ON of a {} join that reads columns of both sides\nhint: compute it in a subquery of \
                     one side",
                    join.join_type
                );
            }
        }
    }
    let join = Join::try_new(
        Arc::new(left),
        Arc::new(right),
        join.on,
        conjunction(parts),
        join.join_type,
        join.join_constraint,
        join.null_equality,
        join.null_aware,
    )?;
    let mut plan = LogicalPlan::Join(join);
    if let Some(above) = conjunction(above) {
        plan = LogicalPlan::Filter(Filter::try_new(above, Arc::new(plan))?);
    }
    let columns = schema.columns().into_iter().map(Expr::Column);
    LogicalPlanBuilder::from(plan)
        .project(columns.collect::<Vec<_>>())?
        .build()
}

/// The subquery of an expression, if it is one that becomes a join.
fn joined_subquery(expr: &Expr) -> Option<&Subquery> {
    let is_value = matches!(expr, Expr::ScalarSubquery(_));
    subquery_of(expr).filter(|subquery| !is_value || !subquery.outer_ref_columns.is_empty())
}

/// Whether an expression contains a subquery that becomes a join.
fn has_subquery(expr: &Expr) -> Result<bool> {
    expr.exists(|part| Ok(joined_subquery(part).is_some()))
}

/// The columns that an expression and its subqueries read of the join.
fn columns(expr: &Expr) -> Result<BTreeSet<Column>> {
    let mut read: BTreeSet<Column> = expr.column_refs().into_iter().cloned().collect();
    expr.apply(|part| {
        if let Some(subquery) = joined_subquery(part) {
            read.extend(lifting::outer_columns_of(&subquery.subquery)?);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(read)
}
