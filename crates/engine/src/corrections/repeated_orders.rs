//! An expression that is repeated in an ORDER BY orders nothing.
//!
//! DataFusion removes it from the order of rows, but not from the order that `first_value`, `array_agg` and
//! DISTINCT ON expect, and then panics or fails. The rule removes it everywhere, and runs before other rules.

use crate::checks::names_kept;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::{Distinct, Expr, LogicalPlan, SortExpr};
use datafusion::optimizer::AnalyzerRule;

/// The rule; see the module documentation.
#[derive(Debug, Default)]
pub(super) struct OrderOnce;

impl AnalyzerRule for OrderOnce {
    fn name(&self) -> &'static str {
        "galatea_order_once"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let changed = plan.transform_up_with_subqueries(|node| match node {
            LogicalPlan::Distinct(Distinct::On(mut on)) => {
                let changed = on.sort_expr.as_mut().is_some_and(remove_repeated);
                let plan = LogicalPlan::Distinct(Distinct::On(on));
                Ok(Transformed::new_transformed(plan, changed))
            }
            node => names_kept(node, |expr| {
                expr.transform_up(|part| match part {
                    Expr::AggregateFunction(mut call) => {
                        let changed = remove_repeated(&mut call.params.order_by);
                        Ok(Transformed::new_transformed(
                            Expr::AggregateFunction(call),
                            changed,
                        ))
                    }
                    part => Ok(Transformed::no(part)),
                })
            }),
        });
        Ok(changed?.data)
    }
}

/// Removes keys with the expression of an earlier one. Returns whether there were any.
fn remove_repeated(keys: &mut Vec<SortExpr>) -> bool {
    let before = keys.len();
    let mut kept: Vec<SortExpr> = Vec::with_capacity(before);
    for key in keys.drain(..) {
        if !kept.iter().any(|other| other.expr == key.expr) {
            kept.push(key);
        }
    }
    *keys = kept;
    keys.len() < before
}
