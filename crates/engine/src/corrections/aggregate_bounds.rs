//! MIN and MAX of other values than columns keep all rows of a scan.
//!
//! An aggregate of minima and maxima without groups skips rows that cannot change them: DataFusion gives the
//! scan a filter with the bounds so far. The filter ignores arguments that are no columns, and FILTER, so
//! that rows are skipped although they have the minimum of `abs(b)`. Plans with such an aggregate get no such
//! filter.
//!
//! The filter of a hash join contains the least and the greatest key of its build side. Lists and structs are
//! not compared in this order, so plans with such keys get no filters of joins.

use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::config::ConfigOptions;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::joins::HashJoinExec;
use std::sync::Arc;

/// A rule that pushes filters, without those of such aggregates.
#[derive(Debug)]
pub(super) struct KeepBoundsExact(Arc<dyn PhysicalOptimizerRule + Send + Sync>);

impl KeepBoundsExact {
    pub(super) fn around(
        inner: Arc<dyn PhysicalOptimizerRule + Send + Sync>,
    ) -> Arc<dyn PhysicalOptimizerRule + Send + Sync> {
        Arc::new(Self(inner))
    }
}

impl PhysicalOptimizerRule for KeepBoundsExact {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (mut reads_others, mut has_nested) = (false, false);
        plan.apply(|node| {
            reads_others |= node
                .downcast_ref::<AggregateExec>()
                .is_some_and(reads_other_values);
            has_nested |= node
                .downcast_ref::<HashJoinExec>()
                .is_some_and(joins_nested_values);
            Ok(TreeNodeRecursion::Continue)
        })?;
        if !reads_others && !has_nested {
            return self.0.optimize(plan, config);
        }
        let mut config = config.clone();
        config.optimizer.enable_aggregate_dynamic_filter_pushdown &= !reads_others;
        config.optimizer.enable_join_dynamic_filter_pushdown &= !has_nested;
        self.0.optimize(plan, &config)
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}

/// Whether a key of a join is a list or a struct.
fn joins_nested_values(join: &HashJoinExec) -> bool {
    let schema = join.left().schema();
    let mut keys = join.on().iter();
    keys.any(|(key, _)| {
        key.data_type(&schema)
            .is_ok_and(|data_type| data_type.is_nested())
    })
}

/// Whether an aggregate without groups has an argument that is no column, or FILTER.
fn reads_other_values(aggregate: &AggregateExec) -> bool {
    let filtered = aggregate.filter_expr().iter().any(Option::is_some);
    let computed = aggregate.aggr_expr().iter().any(|call| {
        let arguments = call.expressions();
        !matches!(arguments.as_slice(), [argument] if argument.is::<Column>())
    });
    aggregate.group_expr().is_empty() && (filtered || computed)
}
