//! DELETE and UPDATE of DataFusion's planner with conditions on other tables are refused.
//!
//! The planner passes the filters of the optimised plan to the table. A subquery has become a join by then,
//! and its condition is lost, so that other rows are changed, or all of them. `galatea::sql` plans these
//! statements otherwise.

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, not_impl_err};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::{LogicalPlan, WriteOp};
use datafusion::optimizer::AnalyzerRule;
use galatea_store::is_of_row;

/// The rule that refuses the statements.
#[derive(Debug, Default)]
pub(super) struct RefuseOtherTables;

impl AnalyzerRule for RefuseOtherTables {
    fn name(&self) -> &'static str {
        "galatea_refuse_changes_by_other_tables"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        if let LogicalPlan::Dml(change) = &plan
            && matches!(change.op, WriteOp::Delete | WriteOp::Update)
            && !is_of_one_table(&change.input)?
        {
            return not_impl_err!(
                "{} of the table {} with a condition on other tables, by SessionContext::sql\nhint: galatea::sql runs \
                 it",
                change.op,
                change.table_name
            );
        }
        Ok(plan)
    }
}

/// Whether the rows of a plan depend on one table only.
fn is_of_one_table(plan: &LogicalPlan) -> Result<bool> {
    let mut tables = 0;
    let mut other = false;
    plan.apply(|node| {
        tables += usize::from(matches!(node, LogicalPlan::TableScan(_)));
        other |= node.inputs().len() > 1;
        node.apply_expressions(|expr| {
            other |= !is_of_row(expr);
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(tables <= 1 && !other)
}
