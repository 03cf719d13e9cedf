//! A growing folder as an unbounded table: each file is read once, when it has appeared.
//!
//! Files are read in the order of their names, existing ones first. A file must be complete when it gets its
//! name: writers rename it into the folder. Names that begin with a dot or an underscore are ignored; a file
//! `_END` marks the end of the stream.

use arrow::array::{RecordBatch, RecordBatchReader};
use arrow::compute::cast;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use async_trait::async_trait;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::catalog::{Session, TableProvider, TableProviderFactory};
use datafusion::common::plan_err;
use datafusion::common::runtime::SpawnedTask;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{CreateExternalTable, SortExpr};
use datafusion::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;
use futures::stream;
use std::collections::{BTreeSet, VecDeque};
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Interval at which a folder without new files is listed again.
const LOOK: Duration = Duration::from_millis(20);
/// The file that marks the end of the stream.
const END: &str = "_END";

/// A file format that streams can read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Csv { header: bool },
    Json,
    Parquet,
}

/// Creates tables of growing folders for `CREATE UNBOUNDED EXTERNAL TABLE`, and delegates all others to
/// another factory.
#[derive(Debug)]
pub struct FolderTableFactory {
    others: Arc<dyn TableProviderFactory>,
}

impl FolderTableFactory {
    /// A factory that delegates to `others`.
    #[must_use]
    pub fn new(others: Arc<dyn TableProviderFactory>) -> Self {
        Self { others }
    }
}

#[async_trait]
impl TableProviderFactory for FolderTableFactory {
    async fn create(
        &self,
        state: &dyn Session,
        command: &CreateExternalTable,
    ) -> Result<Arc<dyn TableProvider>> {
        let folder = match command.locations.as_slice() {
            [location] if command.unbounded => {
                Path::new(location.strip_prefix("file://").unwrap_or(location))
            }
            _ => return self.others.create(state, command).await,
        };
        if !folder.is_dir() {
            return self.others.create(state, command).await;
        }
        let option = |name: &str| command.options.get(name).map(String::as_str);
        let format = match command.file_type.to_ascii_lowercase().as_str() {
            "csv" => Format::Csv {
                header: option("format.has_header").is_some_and(|value| value.eq_ignore_ascii_case("true")),
            },
            "json" => Format::Json,
            "parquet" => Format::Parquet,
            other => {
                return plan_err!("a folder that grows is read as csv, json or parquet, not as {other}");
            }
        };
        let schema = Arc::clone(command.schema.inner());
        if schema.fields().is_empty() {
            return plan_err!(
                "the columns of a folder that grows are not known\nhint: CREATE UNBOUNDED EXTERNAL TABLE {} (name TYPE, ...) ...",
                command.name
            );
        }
        let order = command.order_exprs.first().cloned().unwrap_or_default();
        table(
            folder.to_path_buf(),
            format,
            schema,
            state.config().batch_size(),
            order,
        )
    }
}

fn table(
    folder: PathBuf,
    format: Format,
    schema: SchemaRef,
    batch_rows: usize,
    order: Vec<SortExpr>,
) -> Result<Arc<dyn TableProvider>> {
    let files = Files {
        folder,
        format,
        schema: Arc::clone(&schema),
        batch_rows,
    };
    let table = StreamingTable::try_new(schema, vec![Arc::new(files)])?
        .with_infinite_table(true)
        .with_sort_order(order);
    Ok(Arc::new(table))
}

/// The files of a folder.
#[derive(Debug, Clone)]
struct Files {
    folder: PathBuf,
    format: Format,
    schema: SchemaRef,
    batch_rows: usize,
}

type Batches = Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>> + Send>;

/// Progress of a query in the folder.
struct Reading {
    files: Files,
    /// Names that were read and still exist.
    read: BTreeSet<String>,
    next: VecDeque<String>,
    current: Option<Batches>,
    ended: bool,
}

/// The result of listing a folder, or of reading a file.
enum Look {
    Batch(RecordBatch),
    Nothing,
    Ended,
}

impl Reading {
    /// The next available batch. Blocks while it is read.
    fn look(&mut self) -> Result<Look> {
        loop {
            if let Some(batches) = &mut self.current {
                match batches.next() {
                    Some(batch) => return Ok(Look::Batch(self.files.typed(&batch?)?)),
                    None => self.current = None,
                }
            }
            if let Some(name) = self.next.pop_front() {
                self.current = Some(self.files.open(&name)?);
                self.read.insert(name);
                continue;
            }
            if self.ended {
                return Ok(Look::Ended);
            }
            // Checked first, so that files that precede it are listed.
            self.ended = self.files.folder.join(END).exists();
            let names = self.files.names()?;
            self.read.retain(|name| names.contains(name));
            self.next = names.difference(&self.read).cloned().collect();
            if self.next.is_empty() && !self.ended {
                return Ok(Look::Nothing);
            }
        }
    }

    async fn batch(mut self) -> Result<Option<(RecordBatch, Self)>> {
        loop {
            let looked = SpawnedTask::spawn_blocking(move || (self.look(), self)).join_unwind();
            let look;
            (look, self) = looked
                .await
                .map_err(|e| DataFusionError::ExecutionJoin(Box::new(e)))?;
            match look? {
                Look::Batch(batch) => return Ok(Some((batch, self))),
                Look::Ended => return Ok(None),
                Look::Nothing => tokio::time::sleep(LOOK).await,
            }
        }
    }
}

impl Files {
    /// The names of complete files.
    fn names(&self) -> Result<BTreeSet<String>> {
        let mut names = BTreeSet::new();
        for entry in std::fs::read_dir(&self.folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if !name.starts_with(['.', '_']) && entry.file_type()?.is_file() {
                names.insert(name);
            }
        }
        Ok(names)
    }

    fn open(&self, name: &str) -> Result<Batches> {
        let file = File::open(self.folder.join(name))?;
        let schema = Arc::clone(&self.schema);
        Ok(match self.format {
            Format::Csv { header } => {
                let builder = arrow::csv::ReaderBuilder::new(schema).with_header(header);
                Box::new(builder.with_batch_size(self.batch_rows).build(file)?)
            }
            Format::Json => {
                let builder = arrow::json::ReaderBuilder::new(schema).with_batch_size(self.batch_rows);
                Box::new(builder.build(BufReader::new(file))?)
            }
            Format::Parquet => {
                let builder = ParquetRecordBatchReaderBuilder::try_new(file)?;
                let reader = builder.with_batch_size(self.batch_rows).build()?;
                for field in schema.fields() {
                    reader.schema().field_with_name(field.name())?;
                }
                Box::new(reader)
            }
        })
    }

    /// A batch of a file with the table's columns and types.
    fn typed(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let columns = self.schema.fields().iter().map(|field| {
            let column = batch.column(batch.schema_ref().index_of(field.name())?);
            cast(column, field.data_type())
        });
        Ok(RecordBatch::try_new(
            Arc::clone(&self.schema),
            columns.collect::<Result<_, ArrowError>>()?,
        )?)
    }
}

impl PartitionStream for Files {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let reading = Reading {
            files: self.clone(),
            read: BTreeSet::new(),
            next: VecDeque::new(),
            current: None,
            ended: false,
        };
        let batches = stream::try_unfold(reading, Reading::batch);
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), batches))
    }
}
