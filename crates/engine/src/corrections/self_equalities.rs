//! Conditions such as `lower(c) = c`.
//!
//! DataFusion replaces the column by the expression in orders and partitionings above the filter, and then
//! does not find them again: windows partitioned by `c` failed. The condition becomes `NOT (lower(c) <> c)`,
//! which selects the same rows.

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, NotExpr};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExprRef, conjunction, split_conjunction};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use std::sync::Arc;

/// The rule that rewrites such conditions.
#[derive(Debug, Default)]
pub(super) struct KeepColumns;

impl PhysicalOptimizerRule for KeepColumns {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let changed = plan.transform_up(|node| {
            let rewritten = node.downcast_ref::<FilterExec>().map(without_equalities);
            Ok(match rewritten.transpose()?.flatten() {
                Some(filter) => Transformed::yes(Arc::new(filter) as Arc<dyn ExecutionPlan>),
                None => Transformed::no(node),
            })
        })?;
        Ok(changed.data)
    }

    fn name(&self) -> &'static str {
        "galatea_keep_columns"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The filter without such equalities; `None` if it has none.
fn without_equalities(filter: &FilterExec) -> Result<Option<FilterExec>> {
    let mut changed = false;
    let conditions = split_conjunction(filter.predicate())
        .into_iter()
        .map(|condition| {
            let equality = condition.downcast_ref::<BinaryExpr>();
            match equality.filter(|equality| compares_a_column_with_itself(equality)) {
                Some(equality) => {
                    changed = true;
                    let (left, right) = (Arc::clone(equality.left()), Arc::clone(equality.right()));
                    let differs = BinaryExpr::new(left, Operator::NotEq, right);
                    Arc::new(NotExpr::new(Arc::new(differs))) as PhysicalExprRef
                }
                None => Arc::clone(condition),
            }
        });
    let predicate = conjunction(conditions.collect::<Vec<_>>());
    match changed {
        true => FilterExecBuilder::from(filter)
            .with_predicate(predicate)
            .build()
            .map(Some),
        false => Ok(None),
    }
}

/// Whether both sides of an equality read the same column.
fn compares_a_column_with_itself(equality: &BinaryExpr) -> bool {
    let columns = collect_columns(equality.left());
    *equality.op() == Operator::Eq && !columns.is_disjoint(&collect_columns(equality.right()))
}
