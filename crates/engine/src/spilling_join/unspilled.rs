//! Nested loop joins that do not spill.
//!
//! DataFusion's `NestedLoopJoinExec` writes its build side to disk when the memory pool is exhausted. Joins
//! other than inner ones then lose rows without a match, or return them several times. A join whose
//! environment has no temporary files fails instead:
//!
//! ```text
//! UnspilledJoinExec            removes temporary files from the environment
//!   NestedLoopJoinExec
//!     RestoredInputExec ...    the input has them again, since its sorts spill correctly
//! ```

use std::fmt;
use std::sync::Arc;

use datafusion::common::{JoinType, Result};
use datafusion::execution::disk_manager::{DiskManager, DiskManagerMode};
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode;
use datafusion::physical_plan::joins::NestedLoopJoinExec;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, ReplaceChildrenOptions};

/// The environment of a query, for the inputs of a join in another one.
#[derive(Debug)]
struct Environment(Arc<RuntimeEnv>);

/// Executes a join without temporary files.
#[derive(Debug)]
pub struct UnspilledJoinExec {
    join: Arc<dyn ExecutionPlan>,
}

impl UnspilledJoinExec {
    /// The node above a plan, if it is a nested loop join that would spill wrongly.
    pub(super) fn above(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Self>> {
        let join = plan.downcast_ref::<NestedLoopJoinExec>();
        if join.is_none_or(|join| *join.join_type() == JoinType::Inner) {
            return Ok(None);
        }
        let inputs = plan.children().into_iter().map(|input| {
            let input = Arc::clone(input);
            Arc::new(RestoredInputExec { input }) as Arc<dyn ExecutionPlan>
        });
        let changed = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        let join = Arc::clone(plan).replace_children(inputs.collect(), changed)?;
        Ok(Some(Self { join }))
    }
}

impl DisplayAs for UnspilledJoinExec {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("UnspilledJoinExec")
    }
}

impl ExecutionPlan for UnspilledJoinExec {
    fn name(&self) -> &'static str {
        "UnspilledJoinExec"
    }

    galatea_store::keeps_rows!(self.join);
    galatea_store::one_child!(self.join, |join| Arc::new(Self { join }));
    galatea_store::no_expressions!();

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let environment = context.runtime_env();
        let disk = DiskManager::builder()
            .with_mode(DiskManagerMode::Disabled)
            .build()?;
        let without = RuntimeEnv {
            disk_manager: Arc::new(disk),
            ..environment.as_ref().clone()
        };
        let mut context = copy(&context);
        let config = context.session_config().clone();
        context = context.with_session_config(config.with_extension(Arc::new(Environment(environment))));
        self.join
            .execute(partition, Arc::new(context.with_runtime(Arc::new(without))))
    }
}

/// Executes an input of the join in the environment of the query.
#[derive(Debug)]
struct RestoredInputExec {
    input: Arc<dyn ExecutionPlan>,
}

impl DisplayAs for RestoredInputExec {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("RestoredInputExec")
    }
}

impl ExecutionPlan for RestoredInputExec {
    fn name(&self) -> &'static str {
        "RestoredInputExec"
    }

    galatea_store::keeps_rows!(self.input);
    galatea_store::one_child!(self.input, |input| Arc::new(Self { input }));
    galatea_store::no_expressions!();

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let environment = context.session_config().get_extension::<Environment>();
        let context = match environment {
            Some(environment) => Arc::new(copy(&context).with_runtime(Arc::clone(&environment.0))),
            None => context,
        };
        self.input.execute(partition, context)
    }
}

/// A copy of a query's context.
fn copy(context: &TaskContext) -> TaskContext {
    TaskContext::new(
        context.task_id(),
        context.session_id(),
        context.session_config().clone(),
        context.scalar_functions().clone(),
        context.higher_order_functions().clone(),
        context.aggregate_functions().clone(),
        context.window_functions().clone(),
        context.runtime_env(),
    )
}
