//! `date_trunc` and `date_bin` compute in the unit of the timestamp: [`galatea_expression::timestamp_units`].

use crate::checks::names_kept;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;
use galatea_expression::timestamp_units::in_units;

/// The rule that replaces the functions.
#[derive(Debug, Default)]
pub(super) struct KeepUnits;

impl AnalyzerRule for KeepUnits {
    fn name(&self) -> &'static str {
        "galatea_keep_units"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let changed = plan.transform_up_with_subqueries(|node| {
            names_kept(node, |expr| expr.transform_up(|part| Ok(replace(part))))
        });
        Ok(changed?.data)
    }
}

fn replace(expr: Expr) -> Transformed<Expr> {
    let Expr::ScalarFunction(mut call) = expr else {
        return Transformed::no(expr);
    };
    match in_units(&call.func) {
        Some(function) => {
            call.func = function;
            Transformed::yes(Expr::ScalarFunction(call))
        }
        None => Transformed::no(Expr::ScalarFunction(call)),
    }
}
