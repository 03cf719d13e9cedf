//! Inputs of a hash join in memory that are not plans: rows in memory or read from files, and probe sides
//! that run under the query's own memory pool.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};
use futures::stream;
use parking_lot::Mutex;

/// The source of the rows of an [`InputExec`].
enum Input {
    /// A stream, which is read once.
    Once(Mutex<Option<SendableRecordBatchStream>>),
    /// A plan, which is executed with this context and not with that of the join.
    Plan(Arc<dyn ExecutionPlan>, Arc<TaskContext>),
}

/// A node without children that returns the rows of an input. Dynamic filters of the join above cannot reach
/// scans below it.
pub(super) struct InputExec {
    input: Input,
    properties: Arc<PlanProperties>,
}

impl InputExec {
    /// The rows of a stream, which has the order of `properties`.
    pub(super) fn once(rows: SendableRecordBatchStream, properties: EquivalenceProperties) -> Arc<Self> {
        let one = Partitioning::UnknownPartitioning(1);
        let properties =
            PlanProperties::new(properties, one, EmissionType::Incremental, Boundedness::Bounded);
        Arc::new(Self {
            input: Input::Once(Mutex::new(Some(rows))),
            properties: Arc::new(properties),
        })
    }

    /// The rows of a plan.
    pub(super) fn plan(plan: &Arc<dyn ExecutionPlan>, context: &Arc<TaskContext>) -> Arc<Self> {
        Arc::new(Self {
            properties: Arc::clone(plan.properties()),
            input: Input::Plan(Arc::clone(plan), Arc::clone(context)),
        })
    }

    /// Rows that are in memory.
    pub(super) fn held(batches: Vec<RecordBatch>, schema: SchemaRef) -> Arc<Self> {
        let rows = held_rows(batches, Arc::clone(&schema));
        Self::once(rows, EquivalenceProperties::new(schema))
    }
}

/// A stream of rows that are in memory.
pub(super) fn held_rows(batches: Vec<RecordBatch>, schema: SchemaRef) -> SendableRecordBatchStream {
    let rows = stream::iter(batches.into_iter().map(Ok));
    Box::pin(RecordBatchStreamAdapter::new(schema, rows))
}

impl fmt::Debug for InputExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InputExec").finish_non_exhaustive()
    }
}

impl DisplayAs for InputExec {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("InputExec")
    }
}

impl ExecutionPlan for InputExec {
    fn name(&self) -> &str {
        "InputExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    galatea_store::no_children!();
    galatea_store::no_expressions!();

    fn execute(&self, partition: usize, _context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        match &self.input {
            Input::Plan(plan, own) => plan.execute(partition, Arc::clone(own)),
            Input::Once(rows) => match rows.lock().take() {
                Some(rows) => Ok(rows),
                None => internal_err!("an input of a spilling join was read twice"),
            },
        }
    }
}

/// The number of partitions of a plan.
pub(super) fn partitions(plan: &Arc<dyn ExecutionPlan>) -> usize {
    plan.output_partitioning().partition_count()
}
