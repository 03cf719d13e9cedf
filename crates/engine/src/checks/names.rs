//! Rewriting the expressions of logical nodes.

use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchemaRef, Result};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, GroupingSet, LogicalPlan};
use std::sync::Arc;

/// The columns that expressions of a node refer to: of its inputs, or of the table that it scans.
pub(crate) fn input_schema(plan: &LogicalPlan) -> DFSchemaRef {
    match (plan, plan.inputs().as_slice()) {
        (LogicalPlan::TableScan(scan), _) => Arc::clone(&scan.projected_schema),
        (_, [input]) => Arc::clone(input.schema()),
        (_, inputs) => Arc::new(merge_schema(inputs)),
    }
}

/// The node with rewritten expressions and the original column names.
pub(crate) fn names_kept(
    plan: LogicalPlan,
    mut change: impl FnMut(Expr) -> Result<Transformed<Expr>>,
) -> Result<Transformed<LogicalPlan>> {
    let names = NamePreserver::new(&plan);
    plan.map_expressions(|expr| {
        if let Expr::GroupingSet(sets) = &expr {
            let names = names_of(sets);
            let changed = change(expr.clone())?;
            // The columns of grouping sets have the names of their expressions.
            let has_names = matches!(&changed.data, Expr::GroupingSet(sets) if names_of(sets) == names);
            return Ok(if has_names { changed } else { Transformed::no(expr) });
        }
        let name = names.save(&expr);
        let changed = change(expr)?;
        Ok(match changed.transformed {
            true => changed.update_data(|expr| name.restore(expr)),
            false => changed,
        })
    })
}

fn names_of(sets: &GroupingSet) -> Vec<String> {
    let parts = sets.distinct_expr().into_iter();
    parts.map(|part| part.schema_name().to_string()).collect()
}
