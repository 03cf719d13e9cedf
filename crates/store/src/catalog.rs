//! Catalogs of stored tables: `CREATE TABLE` and `CREATE TABLE AS SELECT` create tables in the store.
//!
//! For such a statement, DataFusion creates an in-memory table and registers it. [`StoreSchemaProvider`]
//! encodes it at that moment and registers a [`StoredTable`] in its place. Other tables (views, files, other
//! sources) pass through unchanged, and so does an in-memory table with a type that has no encoding.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::RecordBatch;
use async_trait::async_trait;
use datafusion::catalog::{CatalogProvider, MemoryCatalogProvider, MemorySchemaProvider, SchemaProvider};
use datafusion::common::{Result, exec_err};
use datafusion::datasource::{MemTable, TableProvider, TableType};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::Expr;
use datafusion::prelude::SessionContext;

use crate::guard::KeepConditions;
use crate::store::Store;
use crate::table::StoredTable;

/// The rows of each partition of a table in memory, and the defaults of its columns. The table is about to be
/// registered under a name.
///
/// # Errors
/// The table is being written.
#[expect(clippy::type_complexity, reason = "two parts that callers take apart at once")]
pub fn rows_in_memory(
    name: &str,
    table: &MemTable,
) -> Result<(Vec<Vec<RecordBatch>>, HashMap<String, Expr>)> {
    let mut partitions = Vec::new();
    for partition in &table.batches {
        // A table that is not registered yet has no writer.
        let Ok(partition) = partition.try_read() else {
            return exec_err!("table {name} is being written while it is registered");
        };
        partitions.push(partition.clone());
    }
    let schema = table.schema();
    let columns = schema.fields().iter();
    let defaults = columns.filter_map(|field| {
        let default = table.get_column_default(field.name())?;
        Some((field.name().clone(), default.clone()))
    });
    Ok((partitions, defaults.collect()))
}

/// A schema that encodes the in-memory tables registered with it.
#[derive(Debug)]
pub struct StoreSchemaProvider {
    store: Arc<Store>,
    inner: Arc<dyn SchemaProvider>,
}

impl StoreSchemaProvider {
    /// Wraps a schema. Its existing tables remain as they are.
    pub fn new(store: Arc<Store>, inner: Arc<dyn SchemaProvider>) -> Self {
        Self { store, inner }
    }

    /// The table to register in place of `table`.
    fn stored(&self, name: &str, table: &Arc<dyn TableProvider>) -> Result<Option<Arc<dyn TableProvider>>> {
        let Some(memory) = table.downcast_ref::<MemTable>() else {
            return Ok(None);
        };
        let schema = memory.schema();
        let (partitions, defaults) = rows_in_memory(name, memory)?;
        let batches: Vec<RecordBatch> = partitions.into_iter().flatten().collect();
        match StoredTable::from_batches(&self.store, name, schema, batches) {
            Ok(stored) => Ok(Some(Arc::new(stored.with_defaults(defaults)))),
            Err(reason) if reason.is_refusal() && !reason.is_shortage() => {
                tracing::warn!(table = name, %reason, "the table stays a plain in-memory table");
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }
}

#[async_trait]
impl SchemaProvider for StoreSchemaProvider {
    fn owner_name(&self) -> Option<&str> {
        self.inner.owner_name()
    }

    fn table_names(&self) -> Vec<String> {
        self.inner.table_names()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>, DataFusionError> {
        self.inner.table(name).await
    }

    async fn table_type(&self, name: &str) -> Result<Option<TableType>> {
        self.inner.table_type(name).await
    }

    fn register_table(
        &self,
        name: String,
        table: Arc<dyn TableProvider>,
    ) -> Result<Option<Arc<dyn TableProvider>>> {
        if self.inner.table_exist(&name) {
            return exec_err!("The table {name} already exists");
        }
        let stored = self.stored(&name, &table)?;
        self.inner.register_table(name, stored.unwrap_or(table))
    }

    fn deregister_table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        self.inner.deregister_table(name)
    }

    fn table_exist(&self, name: &str) -> bool {
        self.inner.table_exist(name)
    }
}

/// A catalog of [`StoreSchemaProvider`]s, those of `CREATE SCHEMA` included.
#[derive(Debug)]
pub struct StoreCatalogProvider {
    store: Arc<Store>,
    inner: Arc<dyn CatalogProvider>,
}

impl StoreCatalogProvider {
    /// Wraps a catalog. Its schemas are wrapped on access.
    pub fn new(store: Arc<Store>, inner: Arc<dyn CatalogProvider>) -> Self {
        Self { store, inner }
    }
}

impl CatalogProvider for StoreCatalogProvider {
    fn schema_names(&self) -> Vec<String> {
        self.inner.schema_names()
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        let schema = self.inner.schema(name)?;
        if schema.is::<StoreSchemaProvider>() {
            return Some(schema);
        }
        Some(Arc::new(StoreSchemaProvider::new(
            Arc::clone(&self.store),
            schema,
        )))
    }

    fn register_schema(
        &self,
        name: &str,
        schema: Arc<dyn SchemaProvider>,
    ) -> Result<Option<Arc<dyn SchemaProvider>>> {
        self.inner.register_schema(name, schema)
    }

    fn deregister_schema(&self, name: &str, cascade: bool) -> Result<Option<Arc<dyn SchemaProvider>>> {
        self.inner.deregister_schema(name, cascade)
    }
}

/// Stores the tables that a session creates: wraps its default catalog, or creates one if none exists.
///
/// # Errors
/// The catalog cannot be registered.
pub fn install(context: &SessionContext, store: Arc<Store>) -> Result<()> {
    let options = context.copied_config().options().catalog.clone();
    let (catalog, schema) = (&options.default_catalog, &options.default_schema);
    let inner = match context.catalog(catalog) {
        Some(present) if present.is::<StoreCatalogProvider>() => return Ok(()),
        Some(present) => present,
        None => Arc::new(MemoryCatalogProvider::new()),
    };
    if inner.schema(schema).is_none() {
        inner.register_schema(schema, Arc::new(MemorySchemaProvider::new()))?;
    }
    context.register_catalog(catalog, Arc::new(StoreCatalogProvider::new(store, inner)));
    context.add_optimizer_rule(Arc::new(KeepConditions));
    Ok(())
}
