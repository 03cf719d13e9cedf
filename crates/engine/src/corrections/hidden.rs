//! Hides operators from a rule of DataFusion while it runs.
//!
//! A hidden operator is wrapped in a node through which the rule moves nothing; the node is removed after the
//! rule.

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};
use std::fmt;
use std::sync::Arc;

/// A rule of DataFusion that does not see some operators.
#[derive(Debug)]
pub(super) struct Hiding {
    inner: Arc<dyn PhysicalOptimizerRule + Send + Sync>,
    hides: fn(&Arc<dyn ExecutionPlan>) -> bool,
}

impl Hiding {
    /// The rule `inner` without the operators that `hides` selects.
    pub(super) fn around(
        inner: &Arc<dyn PhysicalOptimizerRule + Send + Sync>,
        hides: fn(&Arc<dyn ExecutionPlan>) -> bool,
    ) -> Arc<dyn PhysicalOptimizerRule + Send + Sync> {
        let inner = Arc::clone(inner);
        Arc::new(Self { inner, hides })
    }
}

impl PhysicalOptimizerRule for Hiding {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let hidden = plan.transform_up(|node| {
            Ok(match (self.hides)(&node) {
                true => Transformed::yes(Arc::new(HiddenExec { input: node }) as Arc<dyn ExecutionPlan>),
                false => Transformed::no(node),
            })
        })?;
        let optimized = self.inner.optimize(hidden.data, config)?;
        if !hidden.transformed {
            return Ok(optimized);
        }
        let shown = optimized.transform_up(|node| {
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

/// Passes the rows of an operator through, and prevents rules from moving anything through it.
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

    galatea_store::keeps_rows!(self.input);
    galatea_store::one_child!(self.input, |input| Arc::new(Self { input }));
    galatea_store::no_expressions!();

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, context)
    }
}
