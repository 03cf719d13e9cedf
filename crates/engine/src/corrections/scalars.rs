//! Correlated scalar subqueries whose conditions are below other operators than one aggregate.
//!
//! DataFusion joins those whose conditions are below an aggregate. Others, with LIMIT 1 or GROUP BY, have at
//! most one row for each outer row, too. They become left joins of their rows below the node that uses them.

use super::lifting::{self, Lifting};
use super::marks;
use datafusion::common::alias::AliasGenerator;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, JoinType, Result};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};

/// The node with the values of such subqueries from joins below it.
pub(super) fn joined(plan: LogicalPlan, aliases: &AliasGenerator) -> Result<Transformed<LogicalPlan>> {
    let found = found_in(&plan)?;
    let [input] = plan.inputs()[..] else {
        return Ok(Transformed::no(plan));
    };
    let outer = input.clone();
    let mut input = outer.clone();
    let mut values: Vec<(Expr, Expr)> = Vec::new();
    for found in found {
        let Expr::ScalarSubquery(subquery) = &found else {
            continue;
        };
        let mut lifting = Lifting::new(aliases, Some(&outer));
        let lifted = lifting.lift(subquery.subquery.as_ref().clone(), true)?;
        if !lifting.is_needed() {
            continue;
        }
        let name = lifting.fresh_name();
        let column = Expr::Column(Column::from(subquery.subquery.schema().qualified_field(0)));
        let (rows, conditions) = lifting.outside(lifted, vec![column.alias(&name)], None)?;
        input = LogicalPlanBuilder::from(input)
            .join_on(rows, JoinType::Left, conditions)?
            .build()?;
        values.push((found, Expr::Column(Column::new_unqualified(name))));
    }
    if values.is_empty() {
        return Ok(Transformed::no(plan));
    }
    marks::with_values(plan, input, &values).map(Transformed::yes)
}

/// The distinct correlated scalar subqueries of a node that have no row for no rows.
fn found_in(plan: &LogicalPlan) -> Result<Vec<Expr>> {
    let mut found: Vec<Expr> = Vec::new();
    plan.apply_expressions(|expr| {
        expr.apply(|part| {
            if let Expr::ScalarSubquery(subquery) = part
                && !subquery.outer_ref_columns.is_empty()
                && !lifting::returns_total(&subquery.subquery)
                && !found.contains(part)
            {
                found.push(part.clone());
            }
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(found)
}
