//! Sort-merge joins keep their filters when a projection moves below them.
//!
//! DataFusion's push-down of projections gives a sort-merge join other inputs and leaves its filter with the
//! numbers of the columns it had. While that rule runs, each such join with a filter stands below a node that
//! no projection passes.

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::config::ConfigOptions;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode;
use datafusion::physical_plan::joins::SortMergeJoinExec;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
};
use std::fmt;
use std::sync::Arc;

/// A rule that pushes projections down, kept from sort-merge joins with filters.
#[derive(Debug)]
pub(super) struct KeepFilters {
    inner: Arc<dyn PhysicalOptimizerRule + Send + Sync>,
}

impl KeepFilters {
    /// The same rule, kept from these joins.
    pub(super) fn around(inner: Arc<dyn PhysicalOptimizerRule + Send + Sync>) -> Self {
        Self { inner }
    }
}

impl PhysicalOptimizerRule for KeepFilters {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let guarded = plan.transform_up(|node| {
            let join = node.downcast_ref::<SortMergeJoinExec>();
            Ok(match join.is_some_and(|join| join.filter().is_some()) {
                true => Transformed::yes(Arc::new(Guard { input: node }) as Arc<dyn ExecutionPlan>),
                false => Transformed::no(node),
            })
        })?;
        let pushed = self.inner.optimize(guarded.data, config)?;
        let plan = pushed.transform_up(|node| {
            Ok(match node.downcast_ref::<Guard>() {
                Some(guard) => Transformed::yes(Arc::clone(&guard.input)),
                None => Transformed::no(node),
            })
        })?;
        Ok(plan.data)
    }

    fn name(&self) -> &str {
        self.inner.name()
    }

    fn schema_check(&self) -> bool {
        self.inner.schema_check()
    }
}

/// Passes its input through, and lets no projection pass.
#[derive(Debug)]
struct Guard {
    input: Arc<dyn ExecutionPlan>,
}

impl DisplayAs for Guard {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("Guard")
    }
}

impl ExecutionPlan for Guard {
    fn name(&self) -> &'static str {
        "Guard"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let input = children.pop().unwrap_or_else(|| Arc::clone(&self.input));
        Ok(Arc::new(Self { input }))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(
            children,
            ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute),
        )
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, context)
    }
}
