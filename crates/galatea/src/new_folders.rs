//! External tables of folders that do not exist yet.
//!
//! A table with declared columns may start without files; INSERT writes the first. Its folder is created with
//! the table. If the folder does not exist when the table is read, it was deleted, which is an error.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider, TableProviderFactory};
use datafusion::common::plan_datafusion_err;
use datafusion::datasource::listing::ListingTable;
use datafusion::error::Result;
use datafusion::logical_expr::CreateExternalTable;
use galatea_engine::hive_table;

/// Creates the folder of a new table, and leaves the table to another factory. A table of folders `key=value`
/// becomes a [`HiveTable`](hive_table::HiveTable).
#[derive(Debug)]
pub(crate) struct NewFolders(pub(crate) Arc<dyn TableProviderFactory>);

#[async_trait]
impl TableProviderFactory for NewFolders {
    async fn create(
        &self,
        state: &dyn Session,
        command: &CreateExternalTable,
    ) -> Result<Arc<dyn TableProvider>> {
        if !command.schema.fields().is_empty() {
            command.locations.iter().try_for_each(|location| make(location))?;
        }
        let table = self.0.create(state, command).await?;
        match table.downcast_ref::<ListingTable>() {
            Some(listing) => hive_table::provider(listing.clone(), state),
            None => Ok(table),
        }
    }
}

/// Creates the folder of a local location that ends with a slash.
fn make(location: &str) -> Result<()> {
    let path = location.strip_prefix("file://").unwrap_or(location);
    let is_folder = path.ends_with('/') && !path.contains("://") && !path.contains(['*', '?', '[']);
    if !is_folder || Path::new(path).exists() {
        return Ok(());
    }
    fs::create_dir_all(path).map_err(|cause| plan_datafusion_err!("cannot make the folder '{path}': {cause}"))
}
