//! Filters stay above rows of which several columns have one name.
//!
//! DataFusion pushes filters, and the bounds that joins and limits find while they run, through physical
//! operators by the names of columns. Where two columns have one name, as those of a table that is joined
//! with itself, it takes the first of them. The rule hides such operators from DataFusion's.

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::config::ConfigOptions;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
};
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

/// DataFusion's rule, for operators with a name for each column.
#[derive(Debug)]
pub(super) struct KeepAbove {
    inner: Arc<dyn PhysicalOptimizerRule + Send + Sync>,
}

impl KeepAbove {
    /// Around the rule that pushes filters down.
    pub(super) fn around(inner: Arc<dyn PhysicalOptimizerRule + Send + Sync>) -> Self {
        Self { inner }
    }
}

impl PhysicalOptimizerRule for KeepAbove {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let hidden = plan.transform_up(|node| {
            Ok(match has_same_names(&node) {
                true => Transformed::yes(Arc::new(HiddenExec { input: node }) as Arc<dyn ExecutionPlan>),
                false => Transformed::no(node),
            })
        })?;
        let pushed = self.inner.optimize(hidden.data, config)?;
        if !hidden.transformed {
            return Ok(pushed);
        }
        let shown = pushed.transform_up(|node| {
            Ok(match node.downcast_ref::<HiddenExec>() {
                Some(hidden) => Transformed::yes(Arc::clone(&hidden.input)),
                None => Transformed::no(node),
            })
        })?;
        Ok(shown.data)
    }

    fn name(&self) -> &str {
        self.inner.name()
    }

    fn schema_check(&self) -> bool {
        self.inner.schema_check()
    }
}

fn has_same_names(node: &Arc<dyn ExecutionPlan>) -> bool {
    let schema = node.schema();
    let mut names = HashSet::new();
    !schema.fields().iter().all(|field| names.insert(field.name()))
}

/// An operator that no filter is pushed through, while a plan is optimised.
#[derive(Debug)]
struct HiddenExec {
    input: Arc<dyn ExecutionPlan>,
}

impl DisplayAs for HiddenExec {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("HiddenExec")
    }
}

impl ExecutionPlan for HiddenExec {
    fn name(&self) -> &'static str {
        "HiddenExec"
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
