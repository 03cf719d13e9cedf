//! Arrow files as tables: DataFusion's format, with our folders of partitions.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::{GetExt, Statistics};
use datafusion::datasource::file_format::arrow::{ArrowFormat, ArrowFormatFactory};
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::file_format::{FileFormat, FileFormatFactory};
use datafusion::datasource::physical_plan::{FileScanConfig, FileSinkConfig, FileSource};
use datafusion::error::Result;
use datafusion::physical_expr::LexRequirement;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_datasource::TableSchema;
use object_store::{ObjectMeta, ObjectStore};

use super::folders;

/// Creates [`ArrowTables`].
#[derive(Debug)]
pub(crate) struct ArrowTablesFactory;

impl FileFormatFactory for ArrowTablesFactory {
    fn create(&self, _: &dyn Session, _: &HashMap<String, String>) -> Result<Arc<dyn FileFormat>> {
        Ok(self.default())
    }

    fn default(&self) -> Arc<dyn FileFormat> {
        Arc::new(ArrowTables::default())
    }
}

impl GetExt for ArrowTablesFactory {
    fn get_ext(&self) -> String {
        ArrowFormatFactory::new().get_ext()
    }
}

/// The format of Arrow files.
#[derive(Debug, Default)]
pub(crate) struct ArrowTables {
    plain: ArrowFormat,
}

#[async_trait]
impl FileFormat for ArrowTables {
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
        self.plain.infer_schema(state, store, objects).await
    }

    async fn infer_stats(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        table_schema: SchemaRef,
        object: &ObjectMeta,
    ) -> Result<Statistics> {
        self.plain.infer_stats(state, store, table_schema, object).await
    }

    async fn create_physical_plan(
        &self,
        state: &dyn Session,
        config: FileScanConfig,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.plain.create_physical_plan(state, config).await
    }

    async fn create_writer_physical_plan(
        &self,
        input: Arc<dyn ExecutionPlan>,
        state: &dyn Session,
        config: FileSinkConfig,
        order: Option<LexRequirement>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let input = folders::named(input, &config)?;
        self.plain
            .create_writer_physical_plan(input, state, config, order)
            .await
    }

    fn file_source(&self, table_schema: TableSchema) -> Arc<dyn FileSource> {
        self.plain.file_source(table_schema)
    }
}
