//! ANY and ALL with a subquery, as values, keep the names of their columns.
//!
//! DataFusion's `rewrite_set_comparison` replaces `a = ANY (Q)` by CASE over EXISTS without the name of the
//! column, so that later rules find another schema, or two columns of one name. The column of Q gets a name
//! of its own first: Q may be a subquery over the table of `a`.

use super::one_row;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use std::sync::Arc;

/// The rule, with the names of columns restored.
#[derive(Debug)]
pub(super) struct KeepNames {
    inner: Arc<dyn OptimizerRule + Send + Sync>,
}

impl KeepNames {
    pub(super) fn around(
        inner: &Arc<dyn OptimizerRule + Send + Sync>,
    ) -> Arc<dyn OptimizerRule + Send + Sync> {
        let inner = Arc::clone(inner);
        Arc::new(Self { inner })
    }
}

impl OptimizerRule for KeepNames {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.inner.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let plan = plan.transform_up_with_subqueries(|node| {
            node.map_expressions(|expr| expr.transform_up(with_own_name))
        })?;
        let changed = self.inner.rewrite(plan.data, config)?;
        if !changed.transformed {
            return Ok(changed);
        }
        changed.map_data(|plan| Ok(plan.transform_up_with_subqueries(named)?.data))
    }
}

fn with_own_name(expr: Expr) -> Result<Transformed<Expr>> {
    Ok(match expr {
        Expr::SetComparison(mut comparison) => {
            comparison.subquery = one_row::with_own_name(&comparison.subquery)?;
            Transformed::yes(Expr::SetComparison(comparison))
        }
        expr => Transformed::no(expr),
    })
}

/// Aliases the expressions of a node that have an EXISTS to the names that the node's schema has.
fn named(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let names_columns = matches!(
        plan,
        LogicalPlan::Projection(_) | LogicalPlan::Aggregate(_) | LogicalPlan::Window(_)
    );
    if !names_columns {
        return Ok(Transformed::no(plan));
    }
    // The expressions are the last columns. A grouping set is several columns, before those of aggregates.
    let fields = plan.schema().fields();
    let names: Vec<String> = fields.iter().map(|field| field.name().clone()).collect();
    let count = plan.expressions().len();
    let mut names = names.into_iter().rev().take(count).rev();
    plan.map_expressions(|expr| {
        let name = names.next();
        Ok(match name {
            Some(name) if expr.schema_name().to_string() != name && has_exists(&expr)? => {
                Transformed::yes(expr.alias(name))
            }
            _ => Transformed::no(expr),
        })
    })
}

fn has_exists(expr: &Expr) -> Result<bool> {
    let is_set = matches!(expr, Expr::GroupingSet(_));
    Ok(!is_set && expr.exists(|part| Ok(matches!(part, Expr::Exists(_))))?)
}
