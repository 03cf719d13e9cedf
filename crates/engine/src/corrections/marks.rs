//! EXISTS as a value, outside WHERE: a mark join below the node that uses it; correlated scalar subqueries of
//! aggregates.
//!
//! DataFusion plans mark joins only for filters. Here a projection gets them, too; in aggregates and window
//! functions, a projection below provides the values. It also provides those of correlated scalar subqueries,
//! which DataFusion joins only below projections and filters.

use crate::checks::names_kept;
use datafusion::common::alias::AliasGenerator;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, ExprSchema, JoinType, Result, not_impl_err};
use datafusion::logical_expr::expr::Exists;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Projection, lit};
use datafusion::optimizer::decorrelate::PullUpCorrelatedExpr;
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

/// The expression with columns of a schema replaced by references to an outer query's.
pub(super) fn as_outer_reference(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    let outer = expr.transform_up(|part| {
        Ok(match part {
            Expr::Column(column) => {
                let field = Arc::clone(schema.field_from_column(&column)?);
                Transformed::yes(Expr::OuterReferenceColumn(field, column))
            }
            part => Transformed::no(part),
        })
    })?;
    Ok(outer.data)
}

/// A projection, aggregate or window with the values of EXISTS from mark joins below it.
pub(super) fn joined(plan: LogicalPlan, aliases: &Arc<AliasGenerator>) -> Result<Transformed<LogicalPlan>> {
    let found = found_in(&plan)?;
    if let LogicalPlan::Projection(projection) = plan {
        return match found.iter().any(|value| matches!(value, Expr::Exists(_))) {
            true => Ok(Transformed::yes(projected(projection, aliases)?)),
            false => Ok(Transformed::no(LogicalPlan::Projection(projection))),
        };
    }
    if found.is_empty() {
        return Ok(Transformed::no(plan));
    }
    // The values are columns of a projection below.
    let Some(input) = plan.inputs().first().map(|input| (*input).clone()) else {
        return Ok(Transformed::no(plan));
    };
    let own = input.schema().columns();
    let named: Vec<(Expr, String)> = found
        .into_iter()
        .map(|value| (value, aliases.next("__galatea_value")))
        .collect();
    let values = named.iter().map(|(value, name)| value.clone().alias(name));
    let columns = own.into_iter().map(Expr::Column).chain(values).collect();
    let below = projected(Projection::try_new(columns, Arc::new(input))?, aliases)?;
    let named: Vec<(Expr, Expr)> = named
        .into_iter()
        .map(|(value, name)| (value, Expr::Column(Column::new_unqualified(name))))
        .collect();
    with_values(plan, below, &named).map(Transformed::yes)
}

/// A node over another input, which has columns for the values of some expressions.
pub(super) fn with_values(
    plan: LogicalPlan,
    input: LogicalPlan,
    values: &[(Expr, Expr)],
) -> Result<LogicalPlan> {
    let before = plan.schema().columns();
    let plan = names_kept(plan, |expr| {
        expr.transform_down(|part| {
            let known = values.iter().find(|(found, _)| *found == part);
            Ok(match known {
                Some((_, value)) => Transformed::new(value.clone(), true, TreeNodeRecursion::Jump),
                None => Transformed::no(part),
            })
        })
    })?;
    let expressions = plan.data.expressions();
    let plan = plan.data.with_new_exprs(expressions, vec![input])?;
    match plan.schema().columns() == before {
        true => Ok(plan),
        // Filters and windows pass the columns of their input through.
        false => LogicalPlanBuilder::from(plan)
            .project(before.into_iter().map(Expr::Column))?
            .build(),
    }
}

/// The distinct EXISTS expressions and correlated scalar subqueries of a node.
fn found_in(plan: &LogicalPlan) -> Result<Vec<Expr>> {
    let mut found: Vec<Expr> = Vec::new();
    plan.apply_expressions(|expr| {
        expr.apply(|part| {
            let is_value = match part {
                Expr::Exists(_) => true,
                Expr::ScalarSubquery(subquery) => !subquery.outer_ref_columns.is_empty(),
                _ => false,
            };
            if is_value && !found.contains(part) {
                found.push(part.clone());
            }
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(found)
}

/// A projection over mark joins of its input.
fn projected(projection: Projection, aliases: &Arc<AliasGenerator>) -> Result<LogicalPlan> {
    let mut input = projection.input.as_ref().clone();
    let plan = names_kept(LogicalPlan::Projection(projection), |expr| {
        expr.transform_up(|part| match part {
            Expr::Exists(found) => {
                let (joined, mark) = marked(&input, &found, aliases)?;
                input = joined;
                Ok(Transformed::yes(mark))
            }
            part => Ok(Transformed::no(part)),
        })
    })?;
    let expressions = plan.data.expressions();
    plan.data.with_new_exprs(expressions, vec![input])
}

/// A plan with a mark for each row that shows whether a subquery has rows for it, and the expression of its
/// EXISTS.
fn marked(input: &LogicalPlan, found: &Exists, aliases: &Arc<AliasGenerator>) -> Result<(LogicalPlan, Expr)> {
    let mut pull_up = PullUpCorrelatedExpr::new().with_exists_sub_query(true);
    let subquery = found.subquery.subquery.as_ref().clone();
    let subquery = subquery.rewrite(&mut pull_up)?.data;
    if !pull_up.can_pull_up {
        return not_impl_err!(
            "EXISTS or IN as a value over a subquery whose correlation cannot become a join\nhint: write it in WHERE, \
             or join the subquery's rows"
        );
    }
    let alias = aliases.next("__galatea_exists");
    let subquery = LogicalPlanBuilder::from(subquery).alias(&alias)?.build()?;
    let columns = pull_up.correlated_subquery_cols_map.values();
    let correlated: BTreeSet<&Column> = columns.flatten().collect();
    let condition = match conjunction(pull_up.join_filters.iter().cloned()) {
        Some(condition) => requalified(condition, &correlated, &alias)?,
        None => lit(true),
    };
    let used: HashSet<&Column> = condition.column_refs();
    let mut right: Vec<Column> = subquery.schema().columns();
    if right.iter().any(|column| used.contains(column)) {
        right.retain(|column| used.contains(column));
    }
    let right = LogicalPlanBuilder::from(subquery)
        .project(right.into_iter().map(Expr::Column))?
        .build()?;
    let joined = LogicalPlanBuilder::from(input.clone())
        .join_on(right, JoinType::LeftMark, Some(condition))?
        .build()?;
    let mark = Expr::Column(Column::new(Some(alias), "mark"));
    Ok((joined, if found.negated { !mark } else { mark }))
}

/// The condition with columns of a subquery replaced by those of its alias.
fn requalified(condition: Expr, columns: &BTreeSet<&Column>, alias: &str) -> Result<Expr> {
    let condition = condition.transform_up(|part| {
        Ok(match part {
            Expr::Column(column) if columns.contains(&column) => {
                Transformed::yes(Expr::Column(Column::new(Some(alias), column.name)))
            }
            part => Transformed::no(part),
        })
    })?;
    Ok(condition.data)
}
