//! Conditions on outer columns in ON of joins inside subqueries.
//!
//! DataFusion decorrelates filters only. It pushes such a condition of an ON into the scan of the joined
//! table, where the outer column is lost if that table has a column of its name. Above an inner join, the
//! condition is a filter. Outer, semi and anti joins evaluate theirs before they add or omit rows: refused.

use super::lifting;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{NullEquality, Result, not_impl_err};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Expr, Filter, Join, JoinType, LogicalPlan, Operator, Subquery, binary_expr};
use std::sync::Arc;

/// Moves such conditions of a subquery's joins above the joins.
pub(super) fn above_joins(subquery: Subquery) -> Result<Transformed<Subquery>> {
    if subquery.outer_ref_columns.is_empty() {
        return Ok(Transformed::no(subquery));
    }
    let plan = subquery.subquery.as_ref().clone().transform_up(of_join)?;
    Ok(match plan.transformed {
        true => Transformed::yes(lifting::replaced(&subquery, plan.data)),
        false => Transformed::no(subquery),
    })
}

fn of_join(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Join(join) = plan else {
        return Ok(Transformed::no(plan));
    };
    let in_keys = join
        .on
        .iter()
        .any(|(left, right)| left.contains_outer() || right.contains_outer());
    let in_filter = join.filter.as_ref().is_some_and(Expr::contains_outer);
    if !in_keys && !in_filter {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    }
    if join.join_type != JoinType::Inner {
        return not_impl_err!(
            "a column of the query around the subquery in ON of a {} join\nhint: compute the column in the joined \
             table, or write the condition in WHERE",
            join.join_type
        );
    }
    let keys = join.on.iter().cloned();
    let keys = keys.map(|(left, right)| match join.null_equality {
        NullEquality::NullEqualsNothing => left.eq(right),
        NullEquality::NullEqualsNull => binary_expr(left, Operator::IsNotDistinctFrom, right),
    });
    let filter = join.filter.clone().into_iter().flat_map(split_conjunction_owned);
    let (outer, own): (Vec<Expr>, Vec<Expr>) = keys.chain(filter).partition(Expr::contains_outer);
    let join = Join::try_new(
        Arc::clone(&join.left),
        Arc::clone(&join.right),
        Vec::new(),
        conjunction(own),
        JoinType::Inner,
        join.join_constraint,
        join.null_equality,
        join.null_aware,
    )?;
    let join = Arc::new(LogicalPlan::Join(join));
    Ok(Transformed::yes(match conjunction(outer) {
        Some(outer) => LogicalPlan::Filter(Filter::try_new(outer, join)?),
        None => Arc::unwrap_or_clone(join),
    }))
}
