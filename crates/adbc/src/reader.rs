//! A running statement, and the reader of its batches.
//!
//! A task pulls batches from the plan and sends them through a bounded channel. So the query computes at most
//! a few batches ahead of its reader. It ends when the reader is dropped.

use std::borrow::Cow;
use std::sync::Arc;

use adbc_core::error::{Error, Result};
use arrow::array::{RecordBatch, RecordBatchOptions, RecordBatchReader, UInt64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use datafusion::common::exec_err;
use datafusion::dataframe::DataFrame;
use datafusion::error::Result as PlanResult;
use datafusion::prelude::SessionContext;
use futures::StreamExt;
use futures::future::BoxFuture;
use galatea::{BoundStatement, Placeholders, changed_rows, is_update, schema_without_views, without_views};
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::task::JoinHandle;

use crate::failure::of_statement;
use crate::ingest;
use crate::operation::Operation;
use crate::parameters::{self, Bound};
use crate::planning;

/// Batches between the plan and its reader.
const AHEAD: usize = 2;

/// A statement to run.
pub(crate) struct Query {
    pub(crate) ctx: SessionContext,
    pub(crate) text: Arc<str>,
    /// The values of the parameters. The statement runs once for each row.
    pub(crate) bound: Option<Bound>,
    /// Whether the result has string and binary views.
    pub(crate) views: bool,
}

/// A message of the task to the reader. The first is the schema.
enum Message {
    Schema(SchemaRef),
    Batch(RecordBatch),
    Failed(Error),
}

/// The receiver of a statement's batches.
struct Output {
    reader: Option<Sender<Message>>,
    views: bool,
    /// Whether the result is that of several executions, for rows of values.
    has_parts: bool,
    /// The schema of the result, after its first part has been planned.
    schema: Option<SchemaRef>,
}

impl Output {
    /// Whether the reader takes the message. It is gone if it does not.
    async fn send(&self, message: Message) -> bool {
        match &self.reader {
            Some(reader) => reader.send(message).await.is_ok(),
            None => true,
        }
    }

    /// Fixes the schema of the result to that of its first part. Returns whether the reader exists.
    async fn begin(&mut self, schema: &SchemaRef) -> bool {
        if self.schema.is_some() {
            return true;
        }
        let mut schema = match self.views {
            true => Arc::clone(schema),
            false => schema_without_views(schema),
        };
        if self.has_parts {
            // Other parts may have NULLs.
            let fields = schema.fields().iter();
            let fields: Vec<Field> = fields
                .map(|field| Field::clone(field).with_nullable(true))
                .collect();
            schema = Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
        }
        self.schema = Some(Arc::clone(&schema));
        self.send(Message::Schema(schema)).await
    }

    /// Sends a batch in the schema of the result. Returns whether the reader exists.
    async fn batch(&self, batch: RecordBatch) -> PlanResult<bool> {
        let (Some(schema), Some(_)) = (&self.schema, &self.reader) else {
            return Ok(true);
        };
        let batches = match self.views {
            true => vec![batch],
            false => {
                let plain = schema_without_views(batch.schema_ref());
                without_views(batch, &plain)?
            }
        };
        for batch in batches {
            let batch = in_schema(batch, schema)?;
            if !self.send(Message::Batch(batch)).await {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// A batch in the schema of the result. Results of other values of parameters may have other types.
fn in_schema(batch: RecordBatch, schema: &SchemaRef) -> PlanResult<RecordBatch> {
    if batch.schema_ref() == schema {
        return Ok(batch);
    }
    if batch.num_columns() != schema.fields().len() {
        return exec_err!(
            "the statement returns {} columns for these values of its parameters, and {} for the first ones",
            batch.num_columns(),
            schema.fields().len()
        );
    }
    let columns = batch.columns().iter().zip(schema.fields());
    let columns = columns.map(|(column, field)| match column.data_type() == field.data_type() {
        true => Ok(Arc::clone(column)),
        false => cast(column, field.data_type()),
    });
    let columns = columns.collect::<std::result::Result<Vec<_>, ArrowError>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(
        Arc::clone(schema),
        columns,
        &options,
    )?)
}

/// The result of an update: the number of rows, as DataFusion returns it.
pub(crate) fn count_batch(rows: u64) -> Result<RecordBatch> {
    let schema = Schema::new(vec![Field::new("count", DataType::UInt64, false)]);
    let counts = UInt64Array::from(vec![rows]);
    Ok(RecordBatch::try_new(Arc::new(schema), vec![Arc::new(counts)])?)
}

impl Query {
    /// Runs the statement to its end. Returns the number of changed rows; `None` if the statement is no
    /// update.
    ///
    /// # Errors
    /// Those of the statement.
    pub(crate) fn run(self) -> BoxFuture<'static, Result<Option<u64>>> {
        self.into_output(None)
    }

    fn into_output(self, reader: Option<Sender<Message>>) -> BoxFuture<'static, Result<Option<u64>>> {
        Box::pin(async move {
            let Self {
                ctx,
                text,
                bound,
                views,
            } = self;
            let mut output = Output {
                reader,
                views,
                has_parts: bound.is_some(),
                schema: None,
            };
            let placeholders = planning::placeholders(&ctx, &text);
            let done = match bound {
                Some(bound) => {
                    let names = parameters::names(&placeholders, &bound.schema())?;
                    each(&ctx, &text, &placeholders, &names, bound, &mut output).await
                }
                None => {
                    parameters::check_unbound(&placeholders, &text)?;
                    let statement = BoundStatement {
                        text: Cow::Borrowed(&text),
                        values: Vec::new(),
                    };
                    one(&ctx, &statement, &mut output).await
                }
            };
            let changed = match done {
                Ok(changed) => changed,
                Err(error) => return Err(of_statement(&ctx, &text, error).await),
            };
            if let Some(rows) = changed {
                let batch = count_batch(rows)?;
                let _ = output.send(Message::Schema(batch.schema())).await
                    && output.send(Message::Batch(batch)).await;
            }
            Ok(changed)
        })
    }

    /// Starts the statement. Returns with its first batch, so that an error before it has a status.
    ///
    /// # Errors
    /// Those of the statement until its first batch.
    pub(crate) fn start(self, operation: Arc<Operation>) -> Result<Reader> {
        let (send, messages) = mpsc::channel(AHEAD);
        let task = operation.spawn(async move {
            if let Err(failed) = self.into_output(Some(send.clone())).await {
                // The reader may be gone.
                let _ = send.send(Message::Failed(failed)).await;
            }
        })?;
        let mut reader = Reader {
            schema: Arc::new(Schema::empty()),
            first: None,
            messages,
            task: Some(task),
            operation,
        };
        loop {
            match reader.message()? {
                Some(Message::Schema(schema)) => reader.schema = schema,
                Some(Message::Batch(batch)) => {
                    reader.first = Some(batch);
                    return Ok(reader);
                }
                Some(Message::Failed(failed)) => return Err(failed),
                None => return Ok(reader),
            }
        }
    }
}

/// Runs the statement once for each row of the bound batches. Returns the sum of changed rows. An INSERT of
/// placeholders alone runs once for all rows.
async fn each(
    ctx: &SessionContext,
    text: &str,
    placeholders: &Placeholders,
    names: &[String],
    mut bound: Bound,
    output: &mut Output,
) -> PlanResult<Option<u64>> {
    if let Some(insertion) = planning::insertion(ctx, text, placeholders, names).await? {
        let plan = insertion.of_rows(&ingest::table(bound)?)?;
        return planning::update(ctx, plan).await.map(Some);
    }
    let mut total = None;
    let mut rows = 0;
    while let Some(batch) = parameters::next(&mut bound)? {
        for row in 0..batch.num_rows() {
            let statement = parameters::bind(text, placeholders, names, &batch, row)?;
            if let Some(changed) = one(ctx, &statement, output).await? {
                *total.get_or_insert(0) += changed;
            }
            rows += 1;
        }
    }
    if rows == 0 {
        let statement = parameters::bind_nulls(text, placeholders, names, &bound.schema())?;
        let plan = statement.plan(&ctx.state()).await?;
        match is_update(&plan) {
            true => total = Some(0),
            false => drop(output.begin(plan.schema().inner()).await),
        }
    }
    Ok(total)
}

/// Runs the statement. Returns the number of changed rows; `None` if it is no update.
async fn one(
    ctx: &SessionContext,
    statement: &BoundStatement<'_>,
    output: &mut Output,
) -> PlanResult<Option<u64>> {
    let planned = planning::plan(ctx, statement).await?;
    match planned.is_update {
        true => updated(planned.frame).await.map(Some),
        false => returned(planned.frame, output).await.map(|()| None),
    }
}

fn updated(frame: DataFrame) -> BoxFuture<'static, PlanResult<u64>> {
    Box::pin(async move { Ok(changed_rows(&frame.collect().await?)) })
}

/// Sends the batches of a query while it runs.
fn returned(frame: DataFrame, output: &mut Output) -> BoxFuture<'_, PlanResult<()>> {
    Box::pin(async move {
        let mut batches = frame.execute_stream().await?;
        if !output.begin(&batches.schema()).await {
            return Ok(());
        }
        while let Some(batch) = batches.next().await {
            if !output.batch(batch?).await? {
                return Ok(());
            }
        }
        Ok(())
    })
}

/// The batches of a running statement. Dropping it stops the statement.
pub(crate) struct Reader {
    schema: SchemaRef,
    first: Option<RecordBatch>,
    messages: Receiver<Message>,
    /// `None` after its end.
    task: Option<JoinHandle<()>>,
    operation: Arc<Operation>,
}

impl Reader {
    /// The next message; `None` at the end.
    fn message(&mut self) -> Result<Option<Message>> {
        if self.task.is_none() {
            return Ok(None);
        }
        if let Some(message) = self.operation.wait(self.messages.recv())? {
            return Ok(Some(message));
        }
        match self.task.take() {
            Some(task) => match self.operation.wait(task)? {
                Ok(()) => Ok(None),
                Err(failed) => Err(self.operation.failed(failed)),
            },
            None => Ok(None),
        }
    }
}

impl Iterator for Reader {
    type Item = std::result::Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(first) = self.first.take() {
            return Some(Ok(first));
        }
        let failed = match self.message() {
            Ok(Some(Message::Batch(batch))) => return Some(Ok(batch)),
            // There is one schema, before the first batch.
            Ok(Some(Message::Schema(_)) | None) => return None,
            Ok(Some(Message::Failed(failed))) | Err(failed) => failed,
        };
        self.task = None;
        self.operation.cancel();
        Some(Err(ArrowError::ExternalError(Box::new(failed))))
    }
}

impl RecordBatchReader for Reader {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
