//! The source of JSON files.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::json::ReaderBuilder;
use arrow::json::reader::Decoder as JsonDecoder;
use bytes::Bytes;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::physical_plan::{FileOpenFuture, FileOpener, FileScanConfig, FileSource};
use datafusion::error::{DataFusionError, Result};
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::{LexOrdering, PhysicalExpr};
use datafusion::physical_plan::apply_expression_roots;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion_datasource::decoder::{Decoder, DecoderDeserializer, deserialize_stream};
use datafusion_datasource::projection::{ProjectionOpener, SplitProjection};
use datafusion_datasource::{PartitionedFile, TableSchema};
use futures::stream::StreamExt;
use object_store::ObjectStore;

use super::bytes::{Pieces, pieces};
use super::csv::{BATCH_ROWS, part};
use super::cut::{self, Rows};
use super::errors::{Part, own_error};
use super::objects::{NotObjects, Objects};
use crate::error::StoreError;

/// Reads JSON files; see the parent module.
#[derive(Debug, Clone)]
pub struct JsonFiles {
    table: TableSchema,
    projection: SplitProjection,
    batch_rows: usize,
    metrics: ExecutionPlanMetricsSet,
}

impl JsonFiles {
    /// Reads the columns of `table`.
    pub fn new(table: TableSchema) -> Self {
        Self {
            projection: SplitProjection::unprojected(&table),
            table,
            batch_rows: BATCH_ROWS,
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    /// The same files, with all columns of the table.
    pub(crate) fn whole(&self) -> Self {
        Self::new(self.table.clone())
    }
}

impl FileSource for JsonFiles {
    fn create_file_opener(
        &self,
        object_store: Arc<dyn ObjectStore>,
        base_config: &FileScanConfig,
        _partition: usize,
    ) -> Result<Arc<dyn FileOpener>> {
        let opener = JsonOpener {
            columns: Arc::new(self.table.file_schema().project(&self.projection.file_indices)?),
            batch_rows: self.batch_rows,
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
        "json"
    }

    fn repartitioned(
        &self,
        target_partitions: usize,
        repartition_file_min_size: usize,
        output_ordering: Option<LexOrdering>,
        config: &FileScanConfig,
    ) -> Result<Option<FileScanConfig>> {
        cut::cut(
            config,
            Rows::Json,
            false,
            target_partitions,
            repartition_file_min_size,
            output_ordering.as_ref(),
        )
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        apply_expression_roots(self.projection.source.iter(), f)
    }
}

struct JsonOpener {
    columns: SchemaRef,
    batch_rows: usize,
    compression: FileCompressionType,
    /// Whether the object store is the file system.
    local: bool,
    store: Arc<dyn ObjectStore>,
}

impl FileOpener for JsonOpener {
    fn open(&self, file: PartitionedFile) -> Result<FileOpenFuture> {
        let store = Arc::clone(&self.store);
        let compression = self.compression;
        let part = part(&file, self.local);
        let decoder = ReaderBuilder::new(Arc::clone(&self.columns))
            .with_batch_size(self.batch_rows)
            .with_coerce_primitive(true)
            .build_decoder()?;
        let decoder = ObjectDecoder {
            decoder,
            part: part.clone(),
            before: 0,
        };
        Ok(Box::pin(async move {
            let bytes = pieces(&store, &file, compression, b'\n').await?;
            let objects = objects(bytes, part);
            let batches = deserialize_stream(objects.fuse(), DecoderDeserializer::new(decoder));
            Ok(batches.map(|batch| batch.map_err(own_error)).boxed())
        }))
    }
}

/// The bytes with white space in place of the array around objects. If the array has no end, the last item is
/// an error.
fn objects(pieces: Pieces, part: Part) -> Pieces {
    let objects = match part.start {
        0 => Objects::default(),
        _ => Objects::in_lines(),
    };
    let bad = move |reason: NotObjects| {
        DataFusionError::from(StoreError::BadRow {
            file: part.name.clone(),
            place: String::new(),
            column: None,
            reason: format!("not JSON objects: {reason}"),
            hint: None,
        })
    };
    let next = async move |(mut pieces, mut objects, bad): (Pieces, Objects, _)| {
        let fail: &(dyn Fn(NotObjects) -> DataFusionError + Send + Sync) = &bad;
        match pieces.next().await.transpose()? {
            None => match objects.finish() {
                Ok(()) => Ok(None),
                Err(reason) => Err(fail(reason)),
            },
            Some(piece) => {
                let mut piece = piece
                    .try_into_mut()
                    .unwrap_or_else(|shared| shared.as_ref().into());
                objects.feed(&mut piece).map_err(fail)?;
                Ok::<_, DataFusionError>(Some((Bytes::from(piece), (pieces, objects, bad))))
            }
        }
    };
    futures::stream::try_unfold((pieces, objects, bad), next).boxed()
}

/// Arrow's decoder. Its errors contain the file and the objects.
#[derive(Debug)]
struct ObjectDecoder {
    decoder: JsonDecoder,
    part: Part,
    /// Number of objects in earlier batches.
    before: u64,
}

impl Decoder for ObjectDecoder {
    fn decode(&mut self, buf: &[u8]) -> Result<usize, ArrowError> {
        self.decoder.decode(buf).map_err(|error| {
            let object = self.before + self.decoder.len() as u64 + 1;
            let named = self.part.json_error(error, object, object);
            ArrowError::ExternalError(Box::new(named))
        })
    }

    fn flush(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        let objects = self.decoder.len() as u64;
        let flushed = self.decoder.flush().map_err(|error| {
            let named = self
                .part
                .json_error(error, self.before + 1, self.before + objects.max(1));
            ArrowError::ExternalError(Box::new(named))
        });
        self.before += objects;
        flushed
    }

    fn can_flush_early(&self) -> bool {
        false
    }
}
