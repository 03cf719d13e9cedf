//! The rows of a recursive query's last step, which the next step can read repeatedly.
//!
//! DataFusion's work table hands over its rows: a step reads them once. A GPU subtree may read them again,
//! when it is placed again or falls back to the CPU. So they are kept until the work table has new rows, and
//! the node in the subtree and the one in its CPU plan are the same, whatever steps do with the plan.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::DataFusionError;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::work_table::WorkTableExec;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::{TryStreamExt, stream};
use parking_lot::Mutex;
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// Reads a work table, and returns the same rows again until the table has new ones.
#[derive(Debug)]
pub(crate) struct WorkRowsExec {
    /// The name of the recursive query.
    name: String,
    table: Arc<dyn ExecutionPlan>,
    /// The rows that were last read, once all of them have arrived.
    rows: Arc<Mutex<Option<Vec<RecordBatch>>>>,
}

impl WorkRowsExec {
    fn new(name: String, table: Arc<dyn ExecutionPlan>) -> Self {
        Self {
            name,
            table,
            rows: Arc::default(),
        }
    }

    /// The plan with its work tables replaced by such nodes.
    pub(crate) fn in_place_of_tables(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let changed = plan.transform_up(|node| {
            let Some(table) = node.downcast_ref::<WorkTableExec>() else {
                return Ok(Transformed::no(node));
            };
            let rows = Self::new(table.name().to_owned(), Arc::clone(&node));
            Ok(Transformed::yes(Arc::new(rows) as _))
        });
        Ok(changed?.data)
    }

    /// The number of nodes that read the rows of that recursive query.
    pub(crate) fn readers(plan: &Arc<dyn ExecutionPlan>, name: &str) -> usize {
        let own = plan.downcast_ref::<Self>().filter(|rows| rows.name == name);
        let below = plan.children().into_iter();
        usize::from(own.is_some()) + below.map(|child| Self::readers(child, name)).sum::<usize>()
    }

    /// The plan with its own nodes replaced by those of `others` for the same recursive queries.
    pub(crate) fn shared(
        plan: &Arc<dyn ExecutionPlan>,
        others: &[&Arc<dyn ExecutionPlan>],
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mut known: Vec<Arc<dyn ExecutionPlan>> = Vec::new();
        for other in others {
            other.apply(|node| {
                known.extend(node.is::<Self>().then(|| Arc::clone(node)));
                Ok(TreeNodeRecursion::Continue)
            })?;
        }
        if known.is_empty() {
            return Ok(Arc::clone(plan));
        }
        let changed = Arc::clone(plan).transform_up(|node| {
            let same = |other: &&Arc<dyn ExecutionPlan>| {
                let (own, other) = (node.downcast_ref::<Self>(), other.downcast_ref::<Self>());
                own.zip(other).is_some_and(|(own, other)| own.name == other.name)
            };
            Ok(match known.iter().find(same) {
                Some(other) => Transformed::yes(Arc::clone(other)),
                None => Transformed::no(node),
            })
        });
        Ok(changed?.data)
    }
}

impl DisplayAs for WorkRowsExec {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "WorkRowsExec: name={}", self.name)
    }
}

impl ExecutionPlan for WorkRowsExec {
    fn name(&self) -> &str {
        "WorkRowsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.table.properties()
    }

    galatea_store::no_children!();
    galatea_store::no_expressions!();

    fn with_new_state(&self, state: Arc<dyn Any + Send + Sync>) -> Option<Arc<dyn ExecutionPlan>> {
        let table = self.table.with_new_state(state)?;
        Some(Arc::new(Self::new(self.name.clone(), table)))
    }

    /// The rows of the step if they have not been read yet, or else those that were read last.
    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let schema: SchemaRef = self.table.schema();
        let taken = match self.table.execute(partition, context) {
            Ok(taken) => taken,
            Err(error) => {
                let known = self.rows.lock().clone().ok_or(error)?;
                let known = stream::iter(known.into_iter().map(Ok));
                return Ok(Box::pin(RecordBatchStreamAdapter::new(schema, known)));
            }
        };
        // The rows of the step before are dropped, even if these are never read to their end.
        *self.rows.lock() = None;
        let rows = Arc::clone(&self.rows);
        let all = async move {
            let batches: Vec<RecordBatch> = taken.try_collect().await?;
            *rows.lock() = Some(batches.clone());
            Ok::<_, DataFusionError>(stream::iter(batches.into_iter().map(Ok)))
        };
        let all = stream::once(all).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, all)))
    }
}
