//! Ingestion: bound batches as a new table, or as further rows of a table.
//!
//! The batches are the only input of a plan, CREATE TABLE AS or INSERT, so tables in memory and tables of a
//! database are written by the same code as for statements. They are read while the plan runs.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use adbc_core::error::{Error, Result, Status};
use adbc_core::options::IngestMode;
use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::compute::can_cast_types;
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::catalog::TableProvider;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::common::{Column, ScalarValue, TableReference, internal_datafusion_err};
use datafusion::datasource::provider_as_source;
use datafusion::error::Result as PlanResult;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{
    CreateMemoryTable, DdlStatement, Expr, LogicalPlan, LogicalPlanBuilder, cast,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;
use datafusion::prelude::SessionContext;
use futures::future::BoxFuture;
use futures::stream;
use parking_lot::Mutex;

use crate::failure::{not_found, of_engine};
use crate::parameters::{self, Bound};

/// The maximum number of rows of a batch. Operators process batches in parallel, and tables of programs often
/// consist of a single one.
const ROWS: usize = 64 << 10;

/// The name of the batches in plans.
const INPUT: &str = "ingested";

/// The table that an ingestion writes.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) table: TableReference,
    pub(crate) mode: IngestMode,
}

/// Writes the batches. Returns the number of rows.
pub(crate) fn ingest(ctx: SessionContext, target: Target, bound: Bound) -> BoxFuture<'static, Result<u64>> {
    Box::pin(async move {
        let exists = ctx.table_exist(target.table.clone());
        let exists = exists.map_err(|error| of_engine(&error))?;
        let input = Arc::new(Input::new(bound));
        let plan = match (target.mode, exists) {
            (IngestMode::Append, false) => {
                return Err(not_found(format!(
                    "the table {} does not exist\nhint: the mode create_append creates it",
                    target.table
                )));
            }
            (IngestMode::Append | IngestMode::CreateAppend, true) => {
                let table = ctx.table_provider(target.table.clone()).await;
                let table = table.map_err(|error| of_engine(&error))?;
                appended(&input, &target.table, table)?
            }
            (mode, _) => created(&input, &target.table, mode == IngestMode::Replace)
                .map_err(|error| of_engine(&error))?,
        };
        let written = async { galatea::execute(&ctx, plan).await?.collect().await };
        let written: PlanResult<Vec<RecordBatch>> = written.await;
        written.map_err(|error| of_engine(&error))?;
        Ok(input.rows.load(Ordering::Acquire))
    })
}

/// Bound batches as a table that a plan reads once.
pub(crate) fn table(bound: Bound) -> PlanResult<Arc<dyn TableProvider>> {
    Arc::new(Input::new(bound)).table()
}

fn scan(input: &Arc<Input>) -> PlanResult<LogicalPlanBuilder> {
    LogicalPlanBuilder::scan(INPUT, provider_as_source(Arc::clone(input).table()?), None)
}

/// CREATE TABLE AS.
fn created(input: &Arc<Input>, name: &TableReference, or_replace: bool) -> PlanResult<LogicalPlan> {
    Ok(LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(
        CreateMemoryTable {
            name: name.clone(),
            constraints: Default::default(),
            input: Arc::new(scan(input)?.build()?),
            if_not_exists: false,
            or_replace,
            column_defaults: Vec::new(),
            temporary: false,
        },
    )))
}

/// INSERT. Columns are matched by name. Columns of the table that the batches do not have are NULL or have
/// their default.
fn appended(input: &Arc<Input>, name: &TableReference, table: Arc<dyn TableProvider>) -> Result<LogicalPlan> {
    let columns = table.schema();
    check_columns(&input.schema, &columns, name)?;
    let values = columns.fields().iter().map(|field| {
        let value = match input.schema.column_with_name(field.name()) {
            Some((_, given)) => {
                let column = Expr::Column(Column::new(Some(INPUT), field.name()));
                match given.data_type() == field.data_type() {
                    true => column,
                    false => cast(column, field.data_type().clone()),
                }
            }
            None => match table.get_column_default(field.name()) {
                Some(default) => cast(default.clone(), field.data_type().clone()),
                None => cast(Expr::Literal(ScalarValue::Null, None), field.data_type().clone()),
            },
        };
        value.alias(field.name())
    });
    let values: Vec<Expr> = values.collect();
    let target = provider_as_source(table);
    let plan = scan(input)
        .and_then(|scan| scan.project(values))
        .and_then(LogicalPlanBuilder::build)
        .and_then(|rows| {
            LogicalPlanBuilder::insert_into(rows, name.clone(), target, InsertOp::Append)?.build()
        });
    plan.map_err(|error| of_engine(&error))
}

/// Checks the columns of the batches against those of the table. ADBC prescribes the status of the error.
fn check_columns(given: &Schema, columns: &Schema, table: &TableReference) -> Result<()> {
    let wrong = |problem: String| {
        Error::with_message_and_status(
            format!("the rows do not fit the table {table}: {problem}"),
            Status::AlreadyExists,
        )
    };
    let names = || {
        let names: Vec<&str> = columns
            .fields()
            .iter()
            .map(|field| field.name().as_str())
            .collect();
        names.join(", ")
    };
    for field in given.fields() {
        let Some((_, column)) = columns.column_with_name(field.name()) else {
            return Err(wrong(format!(
                "it has no column {}\nhint: its columns are {}",
                field.name(),
                names()
            )));
        };
        if !can_cast_types(field.data_type(), column.data_type()) {
            return Err(wrong(format!(
                "the column {} has the type {}, and the rows have {}",
                field.name(),
                column.data_type(),
                field.data_type()
            )));
        }
    }
    Ok(())
}

/// Bound batches as a table that is read once.
struct Input {
    schema: SchemaRef,
    bound: Mutex<Option<Bound>>,
    /// The rows read so far.
    rows: Arc<AtomicU64>,
}

impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Input")
            .field("schema", &self.schema)
            .finish_non_exhaustive()
    }
}

impl Input {
    fn new(bound: Bound) -> Self {
        // Metadata of the whole table, such as the index columns of pandas, does not apply to tables.
        let schema = Schema::new(bound.schema().fields().clone());
        Self {
            schema: Arc::new(schema),
            bound: Mutex::new(Some(bound)),
            rows: Arc::default(),
        }
    }

    fn table(self: Arc<Self>) -> PlanResult<Arc<dyn TableProvider>> {
        let schema = Arc::clone(&self.schema);
        Ok(Arc::new(StreamingTable::try_new(schema, vec![self])?))
    }
}

/// Reads the batches once, in parts of at most [`ROWS`] rows.
struct Reading {
    bound: Bound,
    /// The rest of a batch.
    rest: Option<RecordBatch>,
    schema: SchemaRef,
    rows: Arc<AtomicU64>,
}

impl Reading {
    fn next(&mut self) -> PlanResult<Option<RecordBatch>> {
        let batch = match self.rest.take() {
            Some(rest) => rest,
            None => {
                let Some(batch) = parameters::next(&mut self.bound)? else {
                    return Ok(None);
                };
                self.rows.fetch_add(batch.num_rows() as u64, Ordering::AcqRel);
                let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
                RecordBatch::try_new_with_options(
                    Arc::clone(&self.schema),
                    batch.columns().to_vec(),
                    &options,
                )?
            }
        };
        if batch.num_rows() <= ROWS {
            return Ok(Some(batch));
        }
        self.rest = Some(batch.slice(ROWS, batch.num_rows() - ROWS));
        Ok(Some(batch.slice(0, ROWS)))
    }
}

impl PartitionStream for Input {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let schema = Arc::clone(&self.schema);
        let reading = self.bound.lock().take().map(|bound| Reading {
            bound,
            rest: None,
            schema: Arc::clone(&schema),
            rows: Arc::clone(&self.rows),
        });
        let batches = stream::unfold(Some(reading), |reading| async move {
            let Some(mut reading) = reading? else {
                let twice = internal_datafusion_err!("bound batches are read twice");
                return Some((Err(twice), None));
            };
            match reading.next() {
                Ok(Some(batch)) => Some((Ok(batch), Some(Some(reading)))),
                Ok(None) => None,
                Err(error) => Some((Err(error), None)),
            }
        });
        Box::pin(RecordBatchStreamAdapter::new(schema, batches))
    }
}
