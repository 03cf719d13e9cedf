//! OFFSET without LIMIT skips the rows of its own order.
//!
//! DataFusion moves a sort that is required above an operator below it, if the operator keeps the order of
//! its rows and has no LIMIT. An OFFSET is such an operator, but it skips other rows of another order. So
//! each becomes a node that requires the order of its input, while the rule runs that moves sorts.

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{Distribution, OrderingRequirements};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode;
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, InputDistributionRequirements,
    PlanProperties, ReplaceChildrenOptions,
};
use std::fmt;
use std::sync::Arc;

/// A rule of DataFusion that moves no sort below an OFFSET.
#[derive(Debug)]
pub(super) struct KeepOffsets {
    inner: Arc<dyn PhysicalOptimizerRule + Send + Sync>,
}

impl KeepOffsets {
    pub(super) fn around(
        inner: &Arc<dyn PhysicalOptimizerRule + Send + Sync>,
    ) -> Arc<dyn PhysicalOptimizerRule + Send + Sync> {
        let inner = Arc::clone(inner);
        Arc::new(Self { inner })
    }
}

impl PhysicalOptimizerRule for KeepOffsets {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let kept = plan.transform_up(|node| {
            Ok(match node.downcast_ref::<GlobalLimitExec>() {
                Some(limit) if limit.skip() > 0 && limit.fetch().is_none() => {
                    Transformed::yes(pinned(Arc::clone(limit.input()), limit.skip())?)
                }
                _ => Transformed::no(node),
            })
        })?;
        let optimized = self.inner.optimize(kept.data, config)?;
        if !kept.transformed {
            return Ok(optimized);
        }
        let freed = optimized.transform_up(|node| {
            Ok(match node.downcast_ref::<OffsetExec>() {
                Some(offset) => Transformed::yes(offset.limit() as Arc<dyn ExecutionPlan>),
                None => Transformed::no(node),
            })
        })?;
        Ok(freed.data)
    }

    fn name(&self) -> &str {
        self.inner.name()
    }

    fn schema_check(&self) -> bool {
        self.inner.schema_check()
    }
}

/// The OFFSET of an input. It moves below projections, which may remove the columns that state the order.
fn pinned(input: Arc<dyn ExecutionPlan>, skip: usize) -> Result<Arc<dyn ExecutionPlan>> {
    match input.downcast_ref::<ProjectionExec>() {
        Some(projection) => {
            let below = pinned(Arc::clone(projection.input()), skip)?;
            let changed = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
            input.replace_children(vec![below], changed)
        }
        None => Ok(Arc::new(OffsetExec::new(input, skip))),
    }
}

/// An OFFSET that requires the order of its input.
#[derive(Debug)]
struct OffsetExec {
    input: Arc<dyn ExecutionPlan>,
    skip: usize,
    order: Option<OrderingRequirements>,
    properties: Arc<PlanProperties>,
}

impl OffsetExec {
    fn new(input: Arc<dyn ExecutionPlan>, skip: usize) -> Self {
        let order = input.output_ordering().cloned().map(OrderingRequirements::from);
        Self::ordered(input, skip, order)
    }

    fn ordered(input: Arc<dyn ExecutionPlan>, skip: usize, order: Option<OrderingRequirements>) -> Self {
        let limit = GlobalLimitExec::new(Arc::clone(&input), skip, None);
        Self {
            properties: Arc::clone(limit.properties()),
            input,
            skip,
            order,
        }
    }

    fn limit(&self) -> Arc<GlobalLimitExec> {
        Arc::new(GlobalLimitExec::new(Arc::clone(&self.input), self.skip, None))
    }
}

impl DisplayAs for OffsetExec {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "OffsetExec: skip={}", self.skip)
    }
}

impl ExecutionPlan for OffsetExec {
    fn name(&self) -> &'static str {
        "OffsetExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::SinglePartition])
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        vec![self.order.clone()]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![self.order.is_some()]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    galatea_store::one_child!(self.input, |input| Arc::new(Self::ordered(
        input,
        self.skip,
        self.order.clone()
    )));
    galatea_store::no_expressions!();

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.limit().execute(partition, context)
    }
}
