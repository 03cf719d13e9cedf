//! Rewriting the expressions of logical nodes.

use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, GroupingSet, LogicalPlan};

/// The columns that expressions of a node refer to: of its inputs, or of the table that it scans.
pub(crate) fn input_schema(plan: &LogicalPlan) -> DFSchema {
    let mut schema = merge_schema(&plan.inputs());
    if let LogicalPlan::TableScan(scan) = plan {
        schema.merge(&scan.projected_schema);
    }
    schema
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
