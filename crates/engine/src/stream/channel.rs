//! A table with rows that a program sends while a query runs.

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::catalog::TableProvider;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::col;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;
use futures::StreamExt;
use futures::stream;
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// An error of a channel.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChannelError {
    /// The channel has no reader any more.
    #[error("nobody reads the channel any more")]
    Closed,
    /// A batch has another schema.
    #[error("a batch with the columns {given} was sent to a channel of {expected}")]
    Schema {
        /// The batch's columns.
        given: String,
        /// The channel's columns.
        expected: String,
    },
    /// A second query reads the channel.
    #[error(
        "a query reads the channel already: what it has read is gone\nhint: make a channel for each query"
    )]
    Taken,
}

/// A channel, before it is opened.
#[derive(Debug, Clone)]
pub struct Channel {
    schema: SchemaRef,
    ordered_by: Vec<String>,
    capacity: usize,
}

impl Channel {
    /// A channel of rows of that schema, with a capacity of 16 waiting batches.
    #[must_use]
    pub fn new(schema: SchemaRef) -> Self {
        Self {
            schema,
            ordered_by: Vec::new(),
            capacity: 16,
        }
    }

    /// Declares that rows are sent in ascending order of these columns, as `WITH ORDER` does.
    #[must_use]
    pub fn ordered_by<N: Into<String>>(mut self, columns: impl IntoIterator<Item = N>) -> Self {
        self.ordered_by = columns.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the capacity in batches, at least one. If it is reached, senders wait.
    #[must_use]
    pub fn capacity(mut self, batches: usize) -> Self {
        self.capacity = batches.max(1);
        self
    }

    /// The sending end, and the table, which one query can read. The stream ends when all senders are
    /// dropped.
    ///
    /// # Errors
    /// Errors of DataFusion, for an order by nonexistent columns.
    pub fn open(self) -> Result<(ChannelSender, Arc<dyn TableProvider>)> {
        for name in &self.ordered_by {
            self.schema.field_with_name(name)?;
        }
        let (sender, receiver) = channel(self.capacity);
        let partition = Arc::new(Receiving {
            schema: Arc::clone(&self.schema),
            receiver: Mutex::new(Some(receiver)),
        });
        let order = self.ordered_by.iter();
        let order = order
            .map(|name| col(format!("\"{name}\"")).sort(true, false))
            .collect();
        let table = StreamingTable::try_new(Arc::clone(&self.schema), vec![partition])?
            .with_infinite_table(true)
            .with_sort_order(order);
        let sender = ChannelSender {
            schema: self.schema,
            sender,
        };
        Ok((sender, Arc::new(table)))
    }
}

/// The sending end of a channel.
#[derive(Debug, Clone)]
pub struct ChannelSender {
    schema: SchemaRef,
    sender: Sender<RecordBatch>,
}

impl ChannelSender {
    /// Sends a batch, and waits while the channel is full.
    ///
    /// # Errors
    /// [`ChannelError::Closed`], [`ChannelError::Schema`].
    pub async fn send(&self, batch: RecordBatch) -> Result<(), ChannelError> {
        self.check(&batch)?;
        self.sender.send(batch).await.map_err(|_| ChannelError::Closed)
    }

    /// As [`ChannelSender::send`], from a thread that may block.
    ///
    /// # Errors
    /// Those of `send`.
    ///
    /// # Panics
    /// In an asynchronous task.
    pub fn send_blocking(&self, batch: RecordBatch) -> Result<(), ChannelError> {
        self.check(&batch)?;
        self.sender.blocking_send(batch).map_err(|_| ChannelError::Closed)
    }

    fn check(&self, batch: &RecordBatch) -> Result<(), ChannelError> {
        let columns = |schema: &Schema| {
            let fields = schema.fields().iter();
            let fields = fields.map(|field| format!("{} {}", field.name(), field.data_type()));
            fields.collect::<Vec<_>>().join(", ")
        };
        match batch.schema_ref().fields() == self.schema.fields() {
            true => Ok(()),
            false => Err(ChannelError::Schema {
                given: columns(batch.schema_ref()),
                expected: columns(&self.schema),
            }),
        }
    }
}

/// The receiving end.
#[derive(Debug)]
struct Receiving {
    schema: SchemaRef,
    receiver: Mutex<Option<Receiver<RecordBatch>>>,
}

impl PartitionStream for Receiving {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let batches = match self.receiver.lock().take() {
            Some(receiver) => stream::unfold(receiver, |mut receiver| async {
                let batch = receiver.recv().await?;
                Some((Ok(batch), receiver))
            })
            .boxed(),
            None => {
                let error = DataFusionError::External(Box::new(ChannelError::Taken));
                stream::once(async { Err(error) }).boxed()
            }
        };
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), batches))
    }
}
