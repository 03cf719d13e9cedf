//! Parquet files as tables: DataFusion's format, with a schema that represents the rows of all files, and
//! errors that name the file.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::{GetExt, Statistics};
use datafusion::config::TableParquetOptions;
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::file_format::parquet::{ParquetFormat, ParquetFormatFactory};
use datafusion::datasource::file_format::{FileFormat, FileFormatFactory};
use datafusion::datasource::physical_plan::parquet::metadata::DFParquetMetadata;
use datafusion::datasource::physical_plan::{
    FileScanConfig, FileScanConfigBuilder, FileSinkConfig, FileSource, ParquetSource,
};
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::{DataFusionError, Result};
use datafusion::physical_expr::expressions::{CastExpr, Column};
use datafusion::physical_expr::{LexOrdering, LexRequirement, PhysicalExprRef};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion_datasource::TableSchema;
use datafusion_datasource::file_format::FileMeta;
use futures::stream::{self, StreamExt, TryStreamExt};
use galatea_store::damage::{contained_async, damaged, panicked, parquet_error};
use galatea_store::{GuardedParquet, parquet_source};
use object_store::{ObjectMeta, ObjectStore};

use super::folders;
use super::look::name_of;
use super::merge::{Seen, merged};

/// Creates [`ParquetTables`] with the options of a statement.
#[derive(Debug)]
pub(crate) struct ParquetTablesFactory;

impl FileFormatFactory for ParquetTablesFactory {
    fn create(&self, state: &dyn Session, options: &HashMap<String, String>) -> Result<Arc<dyn FileFormat>> {
        let format = ParquetFormatFactory::new().create(state, options)?;
        match format.downcast_ref::<ParquetFormat>() {
            Some(parquet) => Ok(Arc::new(ParquetTables::new(parquet.options().clone()))),
            None => Ok(format),
        }
    }

    fn default(&self) -> Arc<dyn FileFormat> {
        Arc::new(ParquetTables::new(TableParquetOptions::default()))
    }
}

impl GetExt for ParquetTablesFactory {
    fn get_ext(&self) -> String {
        ParquetFormatFactory::new().get_ext()
    }
}

/// The format of Parquet files.
#[derive(Debug)]
pub(crate) struct ParquetTables {
    plain: ParquetFormat,
}

impl ParquetTables {
    pub(crate) fn new(options: TableParquetOptions) -> Self {
        Self {
            plain: ParquetFormat::default().with_options(options),
        }
    }

    pub(super) fn options(&self) -> &TableParquetOptions {
        self.plain.options()
    }

    /// Refuses a file if the row counts of its row groups and of its footer differ: some readers use one,
    /// some the other.
    async fn check_rows(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        object: &ObjectMeta,
        file: &str,
    ) -> Result<()> {
        let crypto = &self.options().crypto;
        if crypto.file_decryption.is_some() || crypto.factory_id.is_some() {
            return Ok(());
        }
        // The footer was read for the schema and is still cached.
        let known = state.runtime_env().cache_manager.get_file_metadata_cache();
        let footer = DFParquetMetadata::new(store.as_ref(), object)
            .with_metadata_size_hint(self.plain.metadata_size_hint())
            .with_file_metadata_cache(Some(known))
            .fetch_metadata()
            .await?;
        let said = footer.file_metadata().num_rows();
        let in_groups: i64 = footer
            .row_groups()
            .iter()
            .map(datafusion::parquet::file::metadata::RowGroupMetaData::num_rows)
            .sum();
        match said == in_groups {
            true => Ok(()),
            false => {
                let reason = format!("the footer says {said} rows, the row groups have {in_groups}");
                Err(damaged(file, reason).into())
            }
        }
    }
}

#[async_trait]
impl FileFormat for ParquetTables {
    fn get_ext(&self) -> String {
        self.plain.get_ext()
    }

    fn get_ext_with_compression(&self, compression: &FileCompressionType) -> Result<String> {
        self.plain.get_ext_with_compression(compression)
    }

    fn compression_type(&self) -> Option<FileCompressionType> {
        self.plain.compression_type()
    }

    async fn infer_schema(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        objects: &[ObjectMeta],
    ) -> Result<SchemaRef> {
        let at_once = state.config_options().execution.meta_fetch_concurrency.get();
        let store_name = store.to_string();
        let looks: Vec<_> = objects
            .iter()
            .map(|object| {
                let file = name_of(object, &store_name);
                async move {
                    let schema = self
                        .plain
                        .infer_schema(state, store, std::slice::from_ref(object));
                    let schema = reading(&file, schema).await?.as_ref().clone();
                    reading(&file, self.check_rows(state, store, object, &file)).await?;
                    Ok::<_, DataFusionError>(Seen { file, schema })
                }
            })
            .collect();
        let mut seen: Vec<Seen> = stream::iter(looks)
            .buffer_unordered(at_once)
            .try_collect()
            .await?;
        // Columns follow the order of the first file; listings have no fixed order.
        seen.sort_unstable_by(|one, other| one.file.cmp(&other.file));
        merged(seen).map(Arc::new)
    }

    async fn infer_stats(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        table_schema: SchemaRef,
        object: &ObjectMeta,
    ) -> Result<Statistics> {
        let found = self.plain.infer_stats(state, store, table_schema, object);
        reading(&name_of(object, &store.to_string()), found).await
    }

    async fn infer_ordering(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        table_schema: SchemaRef,
        object: &ObjectMeta,
    ) -> Result<Option<LexOrdering>> {
        let found = self.plain.infer_ordering(state, store, table_schema, object);
        reading(&name_of(object, &store.to_string()), found).await
    }

    async fn infer_stats_and_ordering(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        table_schema: SchemaRef,
        object: &ObjectMeta,
    ) -> Result<FileMeta> {
        let found = self
            .plain
            .infer_stats_and_ordering(state, store, table_schema, object);
        reading(&name_of(object, &store.to_string()), found).await
    }

    async fn create_physical_plan(
        &self,
        state: &dyn Session,
        conf: FileScanConfig,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        // DataFusion's format requires its own source.
        let source = parquet_source(conf.file_source().as_ref()).cloned();
        let conf = match source {
            Some(plain) => FileScanConfigBuilder::from(conf)
                .with_source(Arc::new(plain))
                .build(),
            None => conf,
        };
        let plan = self.plain.create_physical_plan(state, conf).await?;
        let scan = plan.downcast_ref::<DataSourceExec>().and_then(|scan| {
            let config = scan.data_source().downcast_ref::<FileScanConfig>()?;
            let source = config.file_source().downcast_ref::<ParquetSource>()?;
            let guarded = Arc::new(GuardedParquet::new(source.clone()));
            Some(
                FileScanConfigBuilder::from(config.clone())
                    .with_source(guarded)
                    .build(),
            )
        });
        Ok(match scan {
            Some(scan) => DataSourceExec::from_data_source(scan),
            None => plan,
        })
    }

    async fn create_writer_physical_plan(
        &self,
        input: Arc<dyn ExecutionPlan>,
        state: &dyn Session,
        mut conf: FileSinkConfig,
        order: Option<LexRequirement>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let input = in_milliseconds(folders::named(input, &conf)?)?;
        conf.output_schema = Arc::new(with_milliseconds(&conf.output_schema));
        self.plain
            .create_writer_physical_plan(input, state, conf, order)
            .await
    }

    fn file_source(&self, table_schema: TableSchema) -> Arc<dyn FileSource> {
        self.plain.file_source(table_schema)
    }
}

/// The type of a column of a file: Parquet has no timestamps of seconds, and other readers would find
/// integers.
fn file_type(data_type: &DataType) -> Option<DataType> {
    match data_type {
        DataType::Timestamp(TimeUnit::Second, zone) => {
            Some(DataType::Timestamp(TimeUnit::Millisecond, zone.clone()))
        }
        _ => None,
    }
}

/// The columns of a file with timestamps of milliseconds instead of seconds.
fn with_milliseconds(schema: &Schema) -> Schema {
    let fields = schema
        .fields()
        .iter()
        .map(|field| match file_type(field.data_type()) {
            Some(data_type) => Arc::new(Field::clone(field).with_data_type(data_type)),
            None => Arc::clone(field),
        });
    Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone())
}

/// The rows with timestamps of milliseconds instead of seconds.
fn in_milliseconds(input: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let schema = input.schema();
    let changes = |field: &Arc<Field>| file_type(field.data_type()).is_some();
    if !schema.fields().iter().any(changes) {
        return Ok(input);
    }
    let columns = schema.fields().iter().enumerate().map(|(at, field)| {
        let column: PhysicalExprRef = Arc::new(Column::new(field.name(), at));
        ProjectionExpr {
            expr: match file_type(field.data_type()) {
                Some(data_type) => Arc::new(CastExpr::new(column, data_type, None)),
                None => column,
            },
            alias: field.name().clone(),
        }
    });
    let columns: Vec<ProjectionExpr> = columns.collect();
    Ok(Arc::new(ProjectionExec::try_new(columns, input)?))
}

/// Runs work on one file, and adds the file's name to errors and panics.
async fn reading<T>(file: &str, work: impl Future<Output = Result<T>> + Send) -> Result<T> {
    match contained_async(work).await {
        Ok(done) => done.map_err(|error| parquet_error(file, error)),
        Err(panic) => Err(panicked(file, &panic).into()),
    }
}
