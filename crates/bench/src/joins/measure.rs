//! One join, or one grouping, on the device.

use std::sync::Arc;
use std::time::Instant;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{Int64Type, SchemaRef};
use datafusion::error::DataFusionError;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion::prelude::SessionContext;
use galatea_device::Device;
use galatea_store::StoredTable;

use super::rates::Rates;
use super::report::{Row, Times};
use super::tables::{GroupedTable, JoinTables};
use super::{Experiment, Plan};
use crate::harness::session::DeviceSession;
use crate::measure;
use crate::result::Summary;
use crate::workload::generate::TableGenerator;
use crate::{BenchError, Result};

/// Runs before the measured ones: a kernel is optimised when it runs a second time, and those of partitioned
/// rows exist from the second run on, when all columns are in device memory.
const WARMUPS: usize = 6;

/// Tables and the query over them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Case {
    Join(JoinTables),
    Groups(GroupedTable),
}

impl Case {
    pub(super) fn tables(&self) -> Vec<Arc<dyn TableGenerator>> {
        match self {
            Self::Join(tables) => tables.tables().into(),
            Self::Groups(table) => vec![Arc::new(*table)],
        }
    }

    pub(super) fn sql(&self) -> &'static str {
        match self {
            Self::Join(_) => JoinTables::SQL,
            Self::Groups(_) => GroupedTable::SQL,
        }
    }

    pub(super) fn expected(&self) -> Vec<i64> {
        match self {
            Self::Join(tables) => tables.expected(),
            Self::Groups(table) => table.expected(),
        }
    }

    /// Bytes of the table in which rows are looked up. Its values are stored in 4 bytes.
    pub(super) fn table_bytes(&self) -> Option<u64> {
        match self {
            Self::Join(tables) => Some(4 * tables.build_rows),
            Self::Groups(_) => None,
        }
    }

    /// A row without times.
    pub(super) fn row(&self, experiment: Experiment, plan: &Plan) -> Row {
        let mut row = Row::new(experiment.name(), plan.machine.clone());
        match self {
            Self::Join(tables) => {
                (row.build_rows, row.probe_rows) = (tables.build_rows, tables.probe_rows);
            }
            Self::Groups(table) => (row.probe_rows, row.groups) = (table.rows, table.groups),
        }
        row.settings = (plan.settings.iter())
            .map(|(name, value)| format!("{name}={value}"))
            .collect::<Vec<_>>()
            .join(" ");
        row
    }

    /// Creates the tables, runs the query, and drops the tables.
    pub(super) async fn measure(
        &self,
        experiment: Experiment,
        session: &DeviceSession,
        plan: &Plan,
        rates: Option<Rates>,
    ) -> Result<Row> {
        let mut row = self.row(experiment, plan);
        let started = Instant::now();
        for table in self.tables() {
            row.stored_bytes += load(session, table).await?;
        }
        row.generate_s = started.elapsed().as_secs_f64();
        let expected = self.expected();
        let times = timed(&session.ctx, self.sql(), &expected, plan.runs, &mut row).await?;
        row.set(&times, rates);
        for table in self.tables() {
            session.ctx.deregister_table(table.name())?;
        }
        Ok(row)
    }
}

/// Runs a query with an expected result, and records its times.
///
/// # Errors
/// [`BenchError::WrongResult`].
pub(super) async fn timed(
    ctx: &SessionContext,
    sql: &str,
    expected: &[i64],
    runs: usize,
    row: &mut Row,
) -> Result<Times> {
    let (mut total, mut kernel) = (Vec::new(), Vec::new());
    for number in 0..WARMUPS + runs {
        // The second run of a kernel queues its optimised form, and a join has several kernels one after
        // another.
        Device::finish_compiling();
        let run = measure::run(ctx, sql).await?;
        check(sql, &run.batches, expected)?;
        let report = run.report.as_ref();
        if number >= WARMUPS {
            total.push(run.total.as_secs_f64());
            kernel.extend(report.map(|report| report.phases.kernel.as_secs_f64()));
        }
        if let Some(report) = report {
            row.device = report.device.to_string();
            row.reasons = report.reasons.join("; ");
            row.bytes = report.device_bytes;
        }
    }
    Ok(Times {
        total: Summary::of(total),
        kernel: Summary::of(kernel.into_iter().filter(|seconds| *seconds > 0.0)),
    })
}

/// Checks the single row of a result.
fn check(sql: &str, batches: &[RecordBatch], expected: &[i64]) -> Result<()> {
    let row = batches.iter().find(|batch| batch.num_rows() == 1);
    for (column, expected) in expected.iter().enumerate() {
        let found = row.and_then(|row| row.column(column).as_primitive_opt::<Int64Type>());
        let found = found.filter(|values| values.is_valid(0));
        let found = found.map_or(i64::MIN, |values| values.value(0));
        if found != *expected {
            return Err(BenchError::WrongResult {
                what: sql.to_string(),
                value: column,
                expected: *expected as u64,
                found: found as u64,
            });
        }
    }
    Ok(())
}

/// Creates a table, encoded in the session's store. Returns its bytes there.
async fn load(session: &DeviceSession, table: Arc<dyn TableGenerator>) -> Result<u64> {
    let name = table.name();
    let parts = std::thread::available_parallelism().map_or(1, usize::from);
    let schema = table.schema();
    let part = |number: usize| -> Arc<dyn PartitionStream> {
        Arc::new(Part {
            table: Arc::clone(&table),
            schema: table.schema(),
            number,
            of: parts,
        })
    };
    let parts = (0..parts).map(part).collect();
    let plan = StreamingTableExec::try_new(schema, parts, None, [], false, None)?;
    let plan: Arc<dyn ExecutionPlan> = Arc::new(plan);
    let context = session.ctx.task_ctx();
    let stored = StoredTable::from_plan(&session.store(), name, &plan, &context, None)
        .await
        .map_err(DataFusionError::from)?;
    let columns = stored.snapshot().view().columns;
    let bytes = columns.iter().map(|column| column.scan_bytes()).sum();
    session.ctx.register_table(name, Arc::new(stored))?;
    Ok(bytes)
}

/// Every n-th chunk of a table.
struct Part {
    table: Arc<dyn TableGenerator>,
    schema: SchemaRef,
    number: usize,
    of: usize,
}

impl std::fmt::Debug for Part {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "part {} of {} of {}", self.number, self.of, self.table.name())
    }
}

impl PartitionStream for Part {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let (table, all) = (Arc::clone(&self.table), self.table.natural_chunks());
        let chunks = (self.number..all).step_by(self.of);
        let batches = chunks.flat_map(move |chunk| table.chunk(chunk, all)).map(Ok);
        let batches = futures::stream::iter(batches);
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), batches))
    }
}
