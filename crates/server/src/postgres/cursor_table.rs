//! `pg_cursors`: the open cursors of a connection. Drivers look for a cursor before they close it.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch, StringArray};
use async_trait::async_trait;
use datafusion::catalog::{MemTable, SchemaProvider, TableProvider};
use datafusion::error::Result;

use super::cursors::Cursors;

const NAME: &str = "pg_cursors";

/// `pg_catalog` with the cursors of a connection.
#[derive(Debug)]
pub(super) struct CatalogWithCursors {
    pub(super) catalog: Arc<dyn SchemaProvider>,
    pub(super) cursors: Arc<Cursors>,
}

#[async_trait]
impl SchemaProvider for CatalogWithCursors {
    fn table_names(&self) -> Vec<String> {
        let mut names = self.catalog.table_names();
        names.push(NAME.to_string());
        names
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        match name.eq_ignore_ascii_case(NAME) {
            true => Ok(Some(Arc::new(table(&self.cursors)?))),
            false => self.catalog.table(name).await,
        }
    }

    fn table_exist(&self, name: &str) -> bool {
        name.eq_ignore_ascii_case(NAME) || self.catalog.table_exist(name)
    }
}

fn table(cursors: &Cursors) -> Result<MemTable> {
    let open = cursors.names();
    let names: ArrayRef = Arc::new(StringArray::from_iter_values(open.iter().map(|(name, _)| name)));
    let holds: ArrayRef = Arc::new(BooleanArray::from_iter(
        open.iter().map(|(_, holds)| Some(*holds)),
    ));
    let no: ArrayRef = Arc::new(BooleanArray::from(vec![false; open.len()]));
    let rows = RecordBatch::try_from_iter([
        ("name", names),
        ("is_holdable", holds),
        ("is_binary", Arc::clone(&no)),
        ("is_scrollable", no),
    ])?;
    MemTable::try_new(rows.schema(), vec![vec![rows]])
}
