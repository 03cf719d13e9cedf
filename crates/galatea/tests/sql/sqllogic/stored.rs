//! The tables of a pass as Parquet files: queries read files, other statements the tables in memory.
//!
//! Statements change tables in memory, which files do not allow. So before a query, each table is written to
//! a file and registered as that; before another statement, it is registered in memory again. A table that a
//! file does not preserve stays in memory: with constraints, default values, or types that Parquet does not
//! have.

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::concat_batches;
use datafusion::catalog::SchemaProvider;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::{ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl};
use datafusion::datasource::{MemTable, TableProvider};
use datafusion::error::Result;
use datafusion::prelude::SessionContext;
use galatea_store::StoredTable;
use std::collections::HashMap;
use std::sync::Arc;
use tempfile::TempDir;

use crate::compare::same;
use crate::files_of_tables::{Format, Location, TableFiles};

/// The tables of one session.
pub(super) struct StoredTables {
    folder: TempDir,
    /// The tables in memory that files replace, by name.
    stored: HashMap<String, Arc<dyn TableProvider>>,
    written: usize,
}

impl StoredTables {
    pub(super) fn new() -> Result<Self> {
        Ok(Self {
            folder: tempfile::tempdir()?,
            stored: HashMap::new(),
            written: 0,
        })
    }

    /// Prepares a statement: registers files for a query, else memory. Returns whether it is a query.
    pub(super) async fn prepare(&mut self, ctx: &SessionContext, sql: &str) -> bool {
        let word = sql.trim_start().to_lowercase();
        let query = ["select", "with", "table ", "("]
            .iter()
            .any(|begin| word.starts_with(begin));
        let Some(schema) = default_schema(ctx) else {
            return query;
        };
        if !query {
            for (name, table) in self.stored.drain() {
                let _ = schema.deregister_table(&name);
                schema.register_table(name, table).expect("its name is free");
            }
            return false;
        }
        for name in schema.table_names() {
            if self.stored.contains_key(&name) {
                continue;
            }
            let Ok(Some(table)) = schema.table(&name).await else {
                continue;
            };
            if let Ok(Some(file)) = self.file(&table).await {
                let _ = schema.deregister_table(&name);
                schema
                    .register_table(name.clone(), file)
                    .expect("its name is free");
                self.stored.insert(name, table);
            }
        }
        true
    }

    /// The rows of a table in memory as a table of a file; `None` if a file does not preserve them.
    async fn file(&mut self, table: &Arc<dyn TableProvider>) -> Result<Option<Arc<dyn TableProvider>>> {
        let schema = table.schema();
        let constrained = table
            .constraints()
            .is_some_and(|constraints| constraints.iter().next().is_some());
        let defaults = schema
            .fields()
            .iter()
            .any(|field| table.get_column_default(field.name()).is_some());
        // Galatea's sessions store the tables that are registered in memory.
        let in_memory =
            table.downcast_ref::<MemTable>().is_some() || table.downcast_ref::<StoredTable>().is_some();
        if !in_memory || constrained || defaults || schema.fields().is_empty() {
            return Ok(None);
        }
        let plain = SessionContext::new();
        let rows = plain.read_table(Arc::clone(table))?.collect().await?;
        let rows = concat_batches(&schema, &rows)?;
        let name = format!("t{}", self.written);
        self.written += 1;
        let way = (Format::Parquet, Location::File);
        let Some(file) = TableFiles::new(self.folder.path(), &name, way, Arc::clone(&schema)) else {
            return Ok(None);
        };
        file.write(&rows)?;
        let path = self.folder.path().join(name).join("a.parquet");
        let config = ListingTableConfig::new(ListingTableUrl::parse(path.to_string_lossy())?)
            .with_listing_options(ListingOptions::new(Arc::new(ParquetFormat::default())))
            .with_schema(schema);
        let file: Arc<dyn TableProvider> = Arc::new(ListingTable::try_new(config)?);
        let read: Vec<RecordBatch> = plain.read_table(Arc::clone(&file))?.collect().await?;
        Ok(same(&[rows], &read).is_ok().then_some(file))
    }
}

fn default_schema(ctx: &SessionContext) -> Option<Arc<dyn SchemaProvider>> {
    let state = ctx.state();
    let catalog = &state.config_options().catalog;
    ctx.catalog(&catalog.default_catalog)?
        .schema(&catalog.default_schema)
}
