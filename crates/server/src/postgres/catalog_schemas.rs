//! The schemas `pg_catalog` and `information_schema` of a connection.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{SchemaProvider, TableProvider};
use datafusion::error::Result;

use super::catalog_columns;
use super::catalog_tables::{self, Sources};

/// `pg_catalog`.
#[derive(Debug)]
pub(super) struct PgCatalog {
    pub(super) sources: Sources,
}

#[async_trait]
impl SchemaProvider for PgCatalog {
    fn table_names(&self) -> Vec<String> {
        let mut names = self.sources.tables.table_names();
        names.extend(catalog_columns::pg_names().map(str::to_string));
        names.sort();
        names.dedup();
        names
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if let Some(table) = catalog_tables::pg_table(name, &self.sources)? {
            return Ok(Some(table));
        }
        let table = self.sources.tables.table(name).await?;
        table
            .map(|table| catalog_tables::with_more_columns(name, table))
            .transpose()
    }

    fn table_exist(&self, name: &str) -> bool {
        self.sources.tables.table_exist(name)
            || catalog_columns::pg_names().any(|table| name.eq_ignore_ascii_case(table))
    }
}

/// `information_schema`.
#[derive(Debug)]
pub(super) struct InformationSchema {
    /// The schema of DataFusion.
    pub(super) tables: Arc<dyn SchemaProvider>,
    pub(super) sources: Sources,
}

#[async_trait]
impl SchemaProvider for InformationSchema {
    fn table_names(&self) -> Vec<String> {
        let mut names = self.tables.table_names();
        names.extend(catalog_tables::information_names().map(str::to_string));
        names
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        match catalog_tables::information_table(name, &self.sources)? {
            Some(table) => Ok(Some(table)),
            None => self.tables.table(name).await,
        }
    }

    fn table_exist(&self, name: &str) -> bool {
        self.tables.table_exist(name)
            || catalog_tables::information_names().any(|table| name.eq_ignore_ascii_case(table))
    }
}
