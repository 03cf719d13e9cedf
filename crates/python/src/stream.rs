//! A running query whose rows are read while it runs.
//!
//! A task of the pool pulls batches and sends them through a bounded channel. So the query computes at most a
//! few batches ahead of its reader. It ends when the reader is dropped.

use std::sync::Arc;
use std::thread::{self, ThreadId};

use arrow::array::{ArrayRef, RecordBatch, StructArray};
use arrow::datatypes::{Field, FieldRef, SchemaRef};
use arrow::error::ArrowError;
use datafusion::error::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::prelude::SessionContext;
use futures::{StreamExt, TryStreamExt, stream};
use galatea::{schema_without_views, without_views};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};
use pyo3_arrow::ffi::{ArrayReader, to_schema_pycapsule, to_stream_pycapsule};
use tokio::sync::mpsc::{self, Receiver};
use tokio::task::JoinHandle;

use crate::batches::Batches;
use crate::errors::{Failure, ProgrammingError};
use crate::threads::{POLL, Threads, failed_task, threads};
use crate::values;

/// The number of batches that the query computes ahead.
const AHEAD: usize = 2;

/// The rows of a running query.
pub(crate) struct Rows {
    threads: Arc<Threads>,
    schema: SchemaRef,
    batches: Receiver<Result<RecordBatch, Failure>>,
    /// The task that sends the batches; `None` after its end.
    task: Option<JoinHandle<()>>,
}

/// The outcome of waiting for a batch.
enum Polled {
    Batch(RecordBatch),
    End,
    Failed(Failure),
    Panicked(PyErr),
    /// No batch arrived in time.
    Pending,
}

impl Rows {
    /// Starts to read `stream`, the rows of `statement`; without `views`, as strings and binaries.
    pub(crate) fn start(
        stream: SendableRecordBatchStream,
        ctx: SessionContext,
        statement: String,
        views: bool,
    ) -> PyResult<Self> {
        let threads = threads()?;
        let schema = match views {
            true => stream.schema(),
            false => schema_without_views(&stream.schema()),
        };
        let plain = Arc::clone(&schema);
        let converted = stream.map(move |batch| match views {
            true => Ok(vec![batch?]),
            false => Ok::<_, DataFusionError>(without_views(batch?, &plain)?),
        });
        let mut stream = converted
            .map_ok(|batches| stream::iter(batches).map(Ok))
            .try_flatten();
        let (send, batches) = mpsc::channel(AHEAD);
        let task = threads.handle().spawn(async move {
            while let Some(batch) = stream.next().await {
                let batch = match batch {
                    Ok(batch) => Ok(batch),
                    Err(error) => Err(Failure::of_statement(&ctx, &statement, error).await),
                };
                let failed = batch.is_err();
                // The reader is gone if it does not take the batch.
                if send.send(batch).await.is_err() || failed {
                    return;
                }
            }
        });
        Ok(Self {
            threads,
            schema,
            batches,
            task: Some(task),
        })
    }

    fn poll(&mut self) -> Polled {
        let Self {
            threads,
            batches,
            task,
            ..
        } = self;
        threads.handle().block_on(async {
            match tokio::time::timeout(POLL, batches.recv()).await {
                Err(_) => Polled::Pending,
                Ok(Some(Ok(batch))) => Polled::Batch(batch),
                Ok(Some(Err(failure))) => Polled::Failed(failure),
                Ok(None) => match task.take() {
                    Some(ended) => match ended.await {
                        Ok(()) => Polled::End,
                        Err(error) => Polled::Panicked(failed_task(error)),
                    },
                    None => Polled::End,
                },
            }
        })
    }
}

impl Drop for Rows {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

/// The rows of a running query, for cursors.
#[pyclass(frozen, module = "galatea._galatea")]
pub(crate) struct Stream {
    schema: SchemaRef,
    /// `None` after the last row, and after the stream was exported or closed.
    rows: Mutex<Option<Rows>>,
}

impl Stream {
    pub(crate) fn new(rows: Rows) -> Self {
        Self {
            schema: Arc::clone(&rows.schema),
            rows: Mutex::new(Some(rows)),
        }
    }

    /// Waits for the next batch without the GIL. An error or a signal ends the query.
    fn next(&self, py: Python<'_>) -> PyResult<Option<RecordBatch>> {
        loop {
            // Another thread may hold the lock while it waits for a batch.
            let polled = py.detach(|| self.rows.lock().as_mut().map(Rows::poll));
            let raised = match polled {
                Some(Polled::Batch(batch)) => return Ok(Some(batch)),
                Some(Polled::Pending) => match py.check_signals() {
                    Ok(()) => continue,
                    Err(raised) => raised,
                },
                Some(Polled::Failed(failure)) => failure.into(),
                Some(Polled::Panicked(raised)) => raised,
                Some(Polled::End) | None => {
                    self.close();
                    return Ok(None);
                }
            };
            self.close();
            return Err(raised);
        }
    }
}

#[pymethods]
impl Stream {
    /// The rows of the next batch as tuples of Python values; `None` after the last batch.
    fn next_rows<'py>(&self, py: Python<'py>) -> PyResult<Option<Vec<Bound<'py, PyTuple>>>> {
        let batch = self.next(py)?;
        batch.map(|batch| values::rows(py, &batch)).transpose()
    }

    /// The next batch; `None` after the last one.
    fn next_batch(&self, py: Python<'_>) -> PyResult<Option<Batches>> {
        let batch = self.next(py)?;
        Ok(batch.map(|batch| Batches::new(Arc::clone(&self.schema), vec![batch])))
    }

    /// Ends the query.
    fn close(&self) {
        drop(self.rows.lock().take());
    }

    /// The schema, for readers of Arrow's C data interface.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        Ok(to_schema_pycapsule(py, self.schema.as_ref())?)
    }

    /// The remaining rows, for a reader of Arrow's C data interface.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let rows = self.rows.lock().take();
        let rows = rows.ok_or_else(|| ProgrammingError::new_err("the stream has been read already"))?;
        reader_capsule(py, rows, requested_schema)
    }
}

/// The rows of a query for a reader of Arrow's C data interface.
pub(crate) fn reader_capsule<'py>(
    py: Python<'py>,
    rows: Rows,
    requested_schema: Option<Bound<'py, PyCapsule>>,
) -> PyResult<Bound<'py, PyCapsule>> {
    let reader = Reader {
        field: Arc::new(Field::new_struct("", rows.schema.fields().clone(), false)),
        rows: Some(rows),
        thread: thread::current().id(),
    };
    Ok(to_stream_pycapsule(py, Box::new(reader), requested_schema)?)
}

/// Reads the rows of a query outside of Python, possibly without the GIL and on other threads.
struct Reader {
    field: FieldRef,
    /// `None` after the last row.
    rows: Option<Rows>,
    /// The thread that started the query. Only this one may wait for the GIL: another thread may hold it
    /// until this reader returns.
    thread: ThreadId,
}

impl Reader {
    /// Handles signals, if the reader runs on the thread that started the query. Returns whether one of them
    /// raised an exception. The library that reads the stream raises one of its own instead.
    fn is_interrupted(&self) -> bool {
        let is_own = thread::current().id() == self.thread;
        is_own && Python::try_attach(|py| py.check_signals().is_err()).unwrap_or(false)
    }
}

impl Iterator for Reader {
    type Item = Result<ArrayRef, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let message = match self.rows.as_mut()?.poll() {
                Polled::Batch(batch) => return Some(Ok(Arc::new(StructArray::from(batch)))),
                Polled::Pending if self.is_interrupted() => "the query was cancelled".to_string(),
                Polled::Pending => continue,
                Polled::Failed(failure) => failure.message(),
                Polled::Panicked(raised) => raised.to_string(),
                Polled::End => {
                    self.rows = None;
                    return None;
                }
            };
            self.rows = None;
            return Some(Err(ArrowError::ExternalError(message.into())));
        }
    }
}

impl ArrayReader for Reader {
    fn field(&self) -> FieldRef {
        Arc::clone(&self.field)
    }
}
