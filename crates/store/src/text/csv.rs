//! The source of CSV files.

use std::fmt;
use std::sync::Arc;

use arrow::csv::ReaderBuilder;
use arrow::datatypes::SchemaRef;
use datafusion::common::config::CsvOptions;
use datafusion::common::plan_datafusion_err;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::file_format::csv::CsvDecoder;
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::physical_plan::{FileOpenFuture, FileOpener, FileScanConfig, FileSource};
use datafusion::error::Result;
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::{LexOrdering, PhysicalExpr};
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::{DisplayFormatType, apply_expression_roots};
use datafusion_datasource::decoder::{DecoderDeserializer, deserialize_stream};
use datafusion_datasource::projection::{ProjectionOpener, SplitProjection};
use datafusion_datasource::{PartitionedFile, TableSchema};
use futures::stream::StreamExt;
use object_store::{ObjectStore, ObjectStoreExt};

use super::bytes::{peek, pieces};
use super::cut::{self, Rows};
use super::errors::Part;
use super::layout::{CsvHeader, Layout, first_record};

/// Initial number of bytes of a file that are searched for its first row.
const FIRST_BYTES: u64 = 64 << 10;
/// Rows of a batch, unless DataFusion sets another number.
pub(super) const BATCH_ROWS: usize = 8192;

/// Reads CSV files; see the parent module.
#[derive(Debug, Clone)]
pub struct CsvFiles {
    options: CsvOptions,
    header: CsvHeader,
    table: TableSchema,
    projection: SplitProjection,
    batch_rows: usize,
    metrics: ExecutionPlanMetricsSet,
}

impl CsvFiles {
    /// Reads the columns of `table`. `options` describe the format of rows and values.
    pub fn new(table: TableSchema, options: CsvOptions, header: CsvHeader) -> Self {
        Self {
            options,
            header,
            projection: SplitProjection::unprojected(&table),
            table,
            batch_rows: BATCH_ROWS,
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    /// The same source with other options.
    #[must_use]
    pub fn with_options(&self, options: CsvOptions, header: CsvHeader) -> Self {
        Self {
            options,
            header,
            ..self.clone()
        }
    }

    /// The same files, with all columns of the table.
    pub(crate) fn whole(&self) -> Self {
        Self {
            projection: SplitProjection::unprojected(&self.table),
            metrics: ExecutionPlanMetricsSet::new(),
            ..self.clone()
        }
    }

    /// The reading options as one string. Sources that read differently return different strings.
    pub(crate) fn describe(&self) -> String {
        format!("{:?} {:?}", self.header, self.options)
    }

    fn rows(&self) -> Rows {
        Rows::Csv {
            delimiter: self.options.delimiter,
            quote: self.options.quote,
            escape: self.options.escape,
            comment: self.options.comment,
            terminator: self.options.terminator,
        }
    }
}

impl FileSource for CsvFiles {
    fn create_file_opener(
        &self,
        object_store: Arc<dyn ObjectStore>,
        base_config: &FileScanConfig,
        _partition: usize,
    ) -> Result<Arc<dyn FileOpener>> {
        let opener = CsvOpener {
            files: Arc::new(self.clone()),
            compression: base_config.file_compression_type,
            local: base_config.object_store_url.as_str().starts_with("file://"),
            store: object_store,
        };
        ProjectionOpener::try_new(
            self.projection.clone(),
            Arc::new(opener),
            self.table.file_schema(),
        )
    }

    fn table_schema(&self) -> &TableSchema {
        &self.table
    }

    fn with_batch_size(&self, batch_size: usize) -> Arc<dyn FileSource> {
        Arc::new(Self {
            batch_rows: batch_size,
            ..self.clone()
        })
    }

    fn try_pushdown_projection(&self, projection: &ProjectionExprs) -> Result<Option<Arc<dyn FileSource>>> {
        let merged = self.projection.source.try_merge(projection)?;
        Ok(Some(Arc::new(Self {
            projection: SplitProjection::new(self.table.file_schema(), &merged),
            ..self.clone()
        })))
    }

    fn projection(&self) -> Option<&ProjectionExprs> {
        Some(&self.projection.source)
    }

    fn metrics(&self) -> &ExecutionPlanMetricsSet {
        &self.metrics
    }

    fn file_type(&self) -> &str {
        "csv"
    }

    fn repartitioned(
        &self,
        target_partitions: usize,
        repartition_file_min_size: usize,
        output_ordering: Option<LexOrdering>,
        config: &FileScanConfig,
    ) -> Result<Option<FileScanConfig>> {
        if self.options.newlines_in_values == Some(true) {
            return Ok(None);
        }
        let trusted = self.options.newlines_in_values == Some(false);
        cut::cut(
            config,
            self.rows(),
            trusted,
            target_partitions,
            repartition_file_min_size,
            output_ordering.as_ref(),
        )
    }

    fn fmt_extra(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has_header = !matches!(self.header, CsvHeader::Found(false) | CsvHeader::Declared(false));
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, ", has_header={has_header}")
            }
            DisplayFormatType::TreeRender => Ok(()),
        }
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        apply_expression_roots(self.projection.source.iter(), f)
    }
}

struct CsvOpener {
    files: Arc<CsvFiles>,
    compression: FileCompressionType,
    /// Whether the object store is the file system.
    local: bool,
    store: Arc<dyn ObjectStore>,
}

impl FileOpener for CsvOpener {
    fn open(&self, file: PartitionedFile) -> Result<FileOpenFuture> {
        let files = Arc::clone(&self.files);
        let store = Arc::clone(&self.store);
        let compression = self.compression;
        let part = part(&file, self.local && !compression.is_compressed());
        Ok(Box::pin(async move {
            let options = &files.options;
            let terminator = options.terminator.unwrap_or(b'\n');
            let rows = pieces(&store, &file, compression, terminator).await?;
            let (first, rows) = match part.start {
                0 => peek(rows, |bytes, whole| first_record(bytes, whole, options)).await?,
                _ => (first_row(&store, &file, options).await?, rows),
            };
            let table = files.table.file_schema();
            let wanted = &files.projection.file_indices;
            let layout = Layout::new(&part.name, first.as_deref(), files.header, table, wanted)?;
            let has_header = layout.has_header && part.start == 0;
            let builder = reader(options, &layout.in_file, files.batch_rows, has_header)?;
            let decoder = builder.with_projection(layout.read.clone()).build_decoder();
            let deserializer = DecoderDeserializer::new(CsvDecoder::new(decoder));
            let batches = deserialize_stream(rows.fuse(), deserializer);
            let options = options.clone();
            let arranged = move |batch| match batch {
                Ok(batch) => Ok(layout.arrange(&batch)?),
                Err(error) => Err(part.csv_error(error, &layout.in_file, &options)),
            };
            Ok(batches.map(arranged).boxed())
        }))
    }
}

/// The part of a file being opened, for errors.
pub(super) fn part(file: &PartitionedFile, on_this_machine: bool) -> Part {
    let location = &file.object_meta.location;
    let start = file.range.as_ref().map_or(0, |range| range.start);
    let path = format!("/{location}");
    Part {
        name: if on_this_machine {
            path.clone()
        } else {
            location.to_string()
        },
        path: on_this_machine.then(|| path.into()),
        start: u64::try_from(start).unwrap_or(0),
    }
}

/// The first row of an uncompressed file.
async fn first_row(
    store: &Arc<dyn ObjectStore>,
    file: &PartitionedFile,
    options: &CsvOptions,
) -> Result<Option<Vec<String>>> {
    let size = file.object_meta.size;
    let mut length = FIRST_BYTES.min(size);
    loop {
        let bytes = store.get_range(&file.object_meta.location, 0..length).await?;
        let found = first_record(&bytes, length == size, options);
        if found.is_some() || length == size {
            return Ok(found);
        }
        length = length.saturating_mul(4).min(size);
    }
}

fn reader(
    options: &CsvOptions,
    columns: &SchemaRef,
    batch_rows: usize,
    has_header: bool,
) -> Result<ReaderBuilder> {
    let mut builder = ReaderBuilder::new(Arc::clone(columns))
        .with_delimiter(options.delimiter)
        .with_quote(options.quote)
        .with_batch_size(batch_rows)
        .with_header(has_header)
        .with_truncated_rows(options.truncated_rows.unwrap_or(false));
    if let Some(terminator) = options.terminator {
        builder = builder.with_terminator(terminator);
    }
    if let Some(escape) = options.escape {
        builder = builder.with_escape(escape);
    }
    if let Some(comment) = options.comment {
        builder = builder.with_comment(comment);
    }
    if let Some(pattern) = &options.null_regex {
        let pattern = regex::Regex::new(pattern)
            .map_err(|cause| plan_datafusion_err!("the option null_regex is no pattern: {cause}"))?;
        builder = builder.with_null_regex(pattern);
    }
    Ok(builder)
}
