//! The root of a plan that joins the run of an equal query in progress
//! ([`shared_results`](crate::shared_results)).

use super::query::Query;
use super::tables::{self, TableVersion};
use crate::config::GalateaConfig;
use crate::metrics;
use crate::report::{PlanReport, QueryReport};
use crate::shared_results::{QueryIdentity, SharedResult, SharedRun};
use arrow::datatypes::SchemaRef;
use datafusion::common::{Result, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties};
use futures::future::{BoxFuture, FutureExt};
use futures::{StreamExt, TryStreamExt, stream};
use galatea_base::panic::message;
use parking_lot::Mutex;
use std::any::Any;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

/// Maximum bytes of a shared result. No memory pool of a session accounts for them.
const SHARED_BYTES: usize = 16 << 20;

/// A query over versions of its tables with the settings of a session.
#[derive(Debug)]
pub(super) struct SameQuery {
    pub(super) query: Arc<Query>,
    pub(super) tables: Vec<TableVersion>,
    pub(super) options: Arc<ConfigOptions>,
}

impl QueryIdentity for SameQuery {
    fn hash(&self) -> u64 {
        self.query.hash()
    }

    fn same(&self, other: &dyn QueryIdentity) -> bool {
        let other: &dyn Any = other;
        other.downcast_ref::<Self>().is_some_and(|other| {
            self.query.same(&other.query)
                && tables::same(&self.tables, &other.tables)
                && (Arc::ptr_eq(&self.options, &other.options)
                    || self.options.entries() == other.options.entries())
        })
    }
}

/// Returns the rows of its input, or those of an equal query in progress. It has one partition.
#[derive(Debug)]
pub(super) struct SharedResultExec {
    input: Arc<dyn ExecutionPlan>,
    result: Arc<SharedResult>,
    report: PlanReport,
    /// Maximum bytes of the result. A larger one is streamed.
    limit: usize,
}

impl SharedResultExec {
    /// The plan as the root of a query that shares its result, if it has one partition.
    pub(super) fn over(
        input: Arc<dyn ExecutionPlan>,
        result: &Arc<SharedResult>,
        report: &PlanReport,
        config: &GalateaConfig,
    ) -> Arc<dyn ExecutionPlan> {
        if !Self::is_shared(&input) {
            return input;
        }
        Arc::new(Self {
            input,
            result: Arc::clone(result),
            report: report.clone(),
            limit: config.result_bytes().min(SHARED_BYTES),
        })
    }

    /// Whether a plan has one partition.
    fn is_shared(input: &Arc<dyn ExecutionPlan>) -> bool {
        input.output_partitioning().partition_count() == 1
    }

    /// Collects the rows of the input, unless they are many or the input fails.
    fn run(&self, context: Arc<TaskContext>) -> BoxFuture<'static, Arc<SharedRun>> {
        let (input, report, limit) = (Arc::clone(&self.input), self.report.clone(), self.limit);
        run(input, context, report, limit).map(Arc::new).boxed()
    }
}

/// Collects the rows of a plan, unless they are many or the plan fails.
async fn run(
    plan: Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
    report: PlanReport,
    limit: usize,
) -> SharedRun {
    let collected = async move {
        let mut rows = plan.execute(0, context)?;
        let (mut batches, mut bytes) = (Vec::new(), 0);
        while let Some(batch) = rows.try_next().await? {
            bytes += batch.get_array_memory_size();
            batches.push(batch);
            if bytes > limit {
                let schema = rows.schema();
                let all = stream::iter(batches).map(Ok).chain(rows);
                let all: SendableRecordBatchStream = Box::pin(RecordBatchStreamAdapter::new(schema, all));
                return Ok(SharedRun::Own(Mutex::new(Some(Ok(all)))));
            }
        }
        Ok(SharedRun::Rows(batches, Box::new(report.get())))
    };
    match AssertUnwindSafe(collected).catch_unwind().await {
        Ok(Ok(run)) => run,
        Ok(Err(error)) => SharedRun::Own(Mutex::new(Some(Err(error)))),
        Err(panic) => {
            let message = message(&*panic).unwrap_or("no message");
            let error = internal_err!("a query panicked: {message}");
            SharedRun::Own(Mutex::new(Some(error)))
        }
    }
}

/// The report of a query with the result of an equal one, which ran with this report.
fn shared(of_run: &QueryReport) -> QueryReport {
    QueryReport {
        plan_reused: true,
        is_shared: true,
        build_sides_reused: 0,
        device_bytes: 0,
        link_bytes: 0,
        phases: Default::default(),
        ..of_run.clone()
    }
}

impl DisplayAs for SharedResultExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match format {
            DisplayFormatType::TreeRender => Ok(()),
            _ => write!(f, "SharedResultExec"),
        }
    }
}

impl ExecutionPlan for SharedResultExec {
    fn name(&self) -> &str {
        "SharedResultExec"
    }

    galatea_store::keeps_rows!(self.input);
    galatea_store::one_child!(self.input, |input| match Self::is_shared(&input) {
        true => Arc::new(Self {
            input,
            result: Arc::clone(&self.result),
            report: self.report.clone(),
            limit: self.limit,
        }),
        false => input,
    });
    galatea_store::no_expressions!();

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        galatea_store::check_partition(self, partition)?;
        let (run, began) = self.result.join(|| self.run(Arc::clone(&context)));
        let (input, report) = (Arc::clone(&self.input), self.report.clone());
        let schema: SchemaRef = self.input.schema();
        let rows = async move {
            match &*run.await {
                SharedRun::Rows(batches, of_run) => {
                    if !began {
                        metrics::shared();
                        report.update(|report| *report = shared(of_run));
                    }
                    let rows = stream::iter(batches.clone()).map(Ok);
                    let rows: SendableRecordBatchStream =
                        Box::pin(RecordBatchStreamAdapter::new(input.schema(), rows));
                    Ok(rows)
                }
                SharedRun::Own(rows) if began => match rows.lock().take() {
                    Some(rows) => rows,
                    None => internal_err!("the rows of a run were taken twice"),
                },
                SharedRun::Own(_) => input.execute(0, context),
            }
        };
        let rows = stream::once(rows).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}
