//! Keys that grouping sets replace by NULL.
//!
//! DataFusion takes the constants, equalities and orders of an aggregate's input for those of its keys, also
//! if grouping sets replace keys by NULL: after `WHERE a = 1`, the key `a` of `CUBE (a, b)` was constant, and
//! windows and sorts by it did not sort. In the plan, rows of such an aggregate pass through a node without
//! these properties (apache/datafusion#16965).

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Result, Statistics};
use datafusion::config::ConfigOptions;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties,
};
use std::fmt;
use std::sync::Arc;

/// The rule that adds the nodes. It runs before rows are repartitioned and sorted.
#[derive(Debug, Default)]
pub(super) struct ForgetOrder;

impl PhysicalOptimizerRule for ForgetOrder {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let changed = plan.transform_up(|node| {
            Ok(match replaces_keys(&node) {
                true => Transformed::yes(Arc::new(UnorderedExec::new(node)) as Arc<dyn ExecutionPlan>),
                false => Transformed::no(node),
            })
        })?;
        Ok(changed.data)
    }

    fn name(&self) -> &'static str {
        "galatea_forget_order"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Whether an operator groups rows by grouping sets. Aggregates of partial states group by all keys.
fn replaces_keys(node: &Arc<dyn ExecutionPlan>) -> bool {
    node.downcast_ref::<AggregateExec>().is_some_and(|aggregate| {
        let reads_states = matches!(
            aggregate.mode(),
            AggregateMode::Final | AggregateMode::FinalPartitioned | AggregateMode::PartialReduce
        );
        aggregate.group_expr().has_grouping_set() && !reads_states
    })
}

/// Passes rows through, without an order, constants or partitioning by keys.
#[derive(Debug)]
struct UnorderedExec {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl UnorderedExec {
    fn new(input: Arc<dyn ExecutionPlan>) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(input.schema()),
            Partitioning::UnknownPartitioning(input.output_partitioning().partition_count()),
            input.pipeline_behavior(),
            input.boundedness(),
        );
        Self {
            input,
            properties: Arc::new(properties),
        }
    }
}

impl DisplayAs for UnorderedExec {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("UnorderedExec: keys of grouping sets")
    }
}

impl ExecutionPlan for UnorderedExec {
    fn name(&self) -> &'static str {
        "UnorderedExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![false]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    galatea_store::one_child!(self.input, |input| Arc::new(Self::new(input)));
    galatea_store::no_expressions!();

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        _args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        Ok(Arc::clone(&inputs[0]))
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, context)
    }
}
