//! Refuses subqueries that DataFusion's rules have left in places that no operator computes, with a readable
//! message.
//!
//! Its physical planner refuses them as well, and prints their structures.

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, not_impl_err};
use datafusion::logical_expr::{Expr, LogicalPlan};

/// Refuses an optimised plan with such a subquery.
pub(super) fn refuse_subqueries(plan: &LogicalPlan) -> Result<()> {
    let mut found = None;
    plan.apply(|node| {
        node.apply_expressions(|expression| {
            expression.apply(|part| {
                found = subquery(part);
                Ok(match found {
                    Some(_) => TreeNodeRecursion::Stop,
                    None => TreeNodeRecursion::Continue,
                })
            })
        })
    })?;
    match found {
        Some(what) => not_impl_err!(
            "{what} is not supported\nhint: join the tables instead, with the condition in ON or WHERE"
        ),
        None => Ok(()),
    }
}

/// The name of an expression that no operator computes.
fn subquery(expression: &Expr) -> Option<String> {
    Some(match expression {
        Expr::OuterReferenceColumn(_, column) => {
            format!(
                "a subquery (LATERAL, or in an expression) that reads {column} of the query around it in this way"
            )
        }
        // A subquery with equalities alone, below its aggregate, has become a join.
        Expr::ScalarSubquery(query) if !query.outer_ref_columns.is_empty() => {
            let columns = query.outer_ref_columns.iter();
            let names: Vec<String> = columns
                .map(|column| match column {
                    Expr::OuterReferenceColumn(_, column) => column.to_string(),
                    other => other.to_string(),
                })
                .collect();
            format!(
                "a scalar subquery that uses {} of the query around it otherwise than in equalities of its WHERE",
                names.join(", ")
            )
        }
        Expr::Exists(_) => "EXISTS in this place".to_string(),
        Expr::InSubquery(_) => "IN with a subquery in this place".to_string(),
        Expr::SetComparison(_) => "ANY or ALL with a subquery in this place".to_string(),
        _ => return None,
    })
}
