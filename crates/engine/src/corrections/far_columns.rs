//! Subqueries that read columns of a query two or more levels around them:
//!
//! ```text
//! SELECT ... FROM t WHERE EXISTS (SELECT 1 FROM u WHERE EXISTS (SELECT 1 FROM w WHERE w.a = u.a AND w.g = t.g))
//! ```
//!
//! DataFusion joins a subquery with the rows of the query around it, which have no column `t.g`. Here they
//! get it: the rows of `u` are joined with the values of `t.g`, and are correlated by an equality with it
//! (see [`lifting`](super::lifting)). The rule runs from the outermost query inwards.

use super::lifting::{self, Lifting};
use super::marks;
use super::subqueries::{of_subquery, subquery_of};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, ExprSchema, Result};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan, Subquery, SubqueryAlias};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// The rule that joins such columns.
#[derive(Debug, Default)]
pub(super) struct JoinFarColumns;

impl OptimizerRule for JoinFarColumns {
    fn name(&self) -> &'static str {
        "galatea_join_far_columns"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let aliases = config.alias_generator();
        let outer = match &plan {
            LogicalPlan::Join(join) => {
                let outer = Arc::clone(&join.left);
                let mut lifting = Lifting::new(aliases, Some(&outer));
                return in_lateral(plan, |subquery| near(subquery, &outer, &mut lifting));
            }
            plan => plan.inputs(),
        };
        let [outer] = outer[..] else {
            return Ok(Transformed::no(plan));
        };
        let outer = outer.clone();
        let mut lifting = Lifting::new(aliases, Some(&outer));
        crate::checks::names_kept(plan, |expr| {
            expr.transform_down(|part| of_subquery(part, |subquery| near(subquery, &outer, &mut lifting)))
        })
    }
}

/// The subquery of rows of `outer` with the columns that subqueries in it read of `outer`.
fn near(subquery: Subquery, outer: &LogicalPlan, lifting: &mut Lifting<'_>) -> Result<Transformed<Subquery>> {
    let plan = subquery.subquery.as_ref().clone();
    let near = plan.transform_up(|node| with_near_columns(node, outer, lifting))?;
    Ok(match near.transformed {
        true => Transformed::yes(lifting::replaced(&subquery, near.data)),
        false => Transformed::no(subquery),
    })
}

/// A join with the LATERAL subquery on its right side changed, if it has one.
fn in_lateral(
    join: LogicalPlan,
    change: impl FnOnce(Subquery) -> Result<Transformed<Subquery>>,
) -> Result<Transformed<LogicalPlan>> {
    let [left, right] = join.inputs()[..] else {
        return Ok(Transformed::no(join));
    };
    let (alias, lateral) = match right {
        LogicalPlan::SubqueryAlias(alias) => (Some(&alias.alias), alias.input.as_ref()),
        right => (None, right),
    };
    let LogicalPlan::Subquery(subquery) = lateral else {
        return Ok(Transformed::no(join));
    };
    let changed = change(subquery.clone())?;
    if !changed.transformed {
        return Ok(Transformed::no(join));
    }
    let mut right = LogicalPlan::Subquery(changed.data);
    if let Some(alias) = alias {
        right = LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(Arc::new(right), alias.clone())?);
    }
    let inputs = vec![left.clone(), right];
    join.with_new_exprs(join.expressions(), inputs)
        .map(Transformed::yes)
}

/// A node of a subquery over rows with the columns of `outer` that subqueries in its expressions read.
fn with_near_columns(
    node: LogicalPlan,
    outer: &LogicalPlan,
    lifting: &mut Lifting<'_>,
) -> Result<Transformed<LogicalPlan>> {
    let [input] = node.inputs()[..] else {
        return Ok(Transformed::no(node));
    };
    let own = merge_schema(&node.inputs());
    let mut found: Vec<Expr> = Vec::new();
    let mut columns = BTreeSet::new();
    node.apply_expressions(|expr| {
        expr.apply(|part| {
            if let Some(subquery) = subquery_of(part) {
                let mut read = BTreeSet::new();
                far_columns(&subquery.subquery, &[&own], outer.schema(), &mut read)?;
                if !read.is_empty() {
                    found.push(part.clone());
                    columns.extend(read);
                }
            }
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    if columns.is_empty() {
        return Ok(Transformed::no(node));
    }
    let Some((rows, inside)) = lifting.beside_domain(input.clone(), &columns)? else {
        return Ok(Transformed::no(node));
    };
    let values = found.into_iter().map(|before| {
        let after = of_subquery(before.clone(), |subquery| {
            let plan = reading(&subquery.subquery, &[&own], &inside, rows.schema())?;
            Ok(Transformed::yes(lifting::replaced(&subquery, plan)))
        })?;
        Ok((before, after.data))
    });
    let values = values.collect::<Result<Vec<_>>>()?;
    marks::with_values(node, rows.clone(), &values).map(Transformed::yes)
}

/// Whether subqueries in a subquery read columns of the query around the outer one.
pub(super) fn are_in(subquery: &LogicalPlan, outer: &DFSchema) -> Result<bool> {
    let mut columns = BTreeSet::new();
    far_columns(subquery, &[], outer, &mut columns)?;
    Ok(!columns.is_empty())
}

/// Whether an outer column of a subquery is one of the queries between it and the outer query.
fn is_between(column: &Column, between: &[&DFSchema]) -> bool {
    between.iter().any(|schema| schema.has_column(column))
}

/// Collects the columns of `outer` that a plan reads, past the schemas of the queries in `between`.
fn far_columns(
    plan: &LogicalPlan,
    between: &[&DFSchema],
    outer: &DFSchema,
    columns: &mut BTreeSet<Column>,
) -> Result<()> {
    plan.apply(|node| {
        if matches!(node, LogicalPlan::Subquery(_)) {
            return Ok(TreeNodeRecursion::Jump);
        }
        let own = merge_schema(&node.inputs());
        let with_own = [between, &[&own]].concat();
        node.apply_expressions(|expr| {
            expr.apply(|part| {
                if let Expr::OuterReferenceColumn(_, column) = part
                    && !is_between(column, between)
                    && outer.has_column(column)
                {
                    columns.insert(column.clone());
                }
                if let Some(subquery) = subquery_of(part) {
                    far_columns(&subquery.subquery, &with_own, outer, columns)?;
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(())
}

/// The plan that reads the columns `inside` of the query around it in the place of far ones.
fn reading(
    plan: &LogicalPlan,
    between: &[&DFSchema],
    inside: &HashMap<Column, Column>,
    near: &DFSchema,
) -> Result<LogicalPlan> {
    let changed = plan.clone().transform_up(|node| {
        let own = merge_schema(&node.inputs());
        let with_own = [between, &[&own]].concat();
        crate::checks::names_kept(node, |expr| {
            expr.transform_down(|part| match part {
                Expr::OuterReferenceColumn(field, column) => match inside.get(&column) {
                    Some(own) if !is_between(&column, between) => {
                        let field = Arc::clone(near.field_from_column(own)?);
                        Ok(Transformed::yes(Expr::OuterReferenceColumn(field, own.clone())))
                    }
                    _ => Ok(Transformed::no(Expr::OuterReferenceColumn(field, column))),
                },
                part => of_subquery(part, |subquery| {
                    let plan = reading(&subquery.subquery, &with_own, inside, near)?;
                    Ok(Transformed::yes(lifting::replaced(&subquery, plan)))
                }),
            })
        })
    })?;
    Ok(changed.data)
}
