//! The file tables that queries name. Each is one object as long as its definition stays the same.
//!
//! A name is resolved anew for each query. Cached plans identify a file table by its object, so a name that
//! resolves to the same locations, reader and schema gets the same object. The files may have changed in
//! between; the plan cache checks that.

use std::num::NonZeroUsize;
use std::sync::Arc;

use datafusion::catalog::{Session, TableProvider};
use datafusion::datasource::listing::{ListingOptions, ListingTable};
use datafusion::error::Result;
use galatea_engine::hive_table;
use lru::LruCache;
use parking_lot::Mutex;

use crate::formats;

/// The maximum number of names in the cache.
const NAMES: NonZeroUsize = NonZeroUsize::new(256).expect("above zero");

/// Tables by the names that queries use for them.
#[derive(Debug)]
pub(crate) struct FileTables(Mutex<LruCache<String, Arc<dyn TableProvider>>>);

impl Default for FileTables {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(NAMES)))
    }
}

impl FileTables {
    /// The table of a name: the previous object, if its definition is the same.
    ///
    /// # Errors
    /// Those of [`hive_table::provider`].
    pub(crate) fn known(
        &self,
        name: &str,
        table: ListingTable,
        state: &dyn Session,
    ) -> Result<Arc<dyn TableProvider>> {
        let mut tables = self.0.lock();
        if let Some(known) = tables.get(name)
            && let Some(listed) = hive_table::listing(known.as_ref())
            && alike(listed, &table)
        {
            return Ok(Arc::clone(known));
        }
        let table = hive_table::provider(table, state)?;
        tables.put(name.to_owned(), Arc::clone(&table));
        Ok(table)
    }
}

/// Whether two tables read the same locations in the same way.
fn alike(one: &ListingTable, other: &ListingTable) -> bool {
    one.table_paths() == other.table_paths()
        && one.schema() == other.schema()
        && same_options(one.options(), other.options())
}

fn same_options(one: &ListingOptions, other: &ListingOptions) -> bool {
    one.file_extension == other.file_extension
        && one.table_partition_cols == other.table_partition_cols
        && one.file_sort_order == other.file_sort_order
        && one.output_partitioning == other.output_partitioning
        && formats::same(one.format.as_ref(), other.format.as_ref())
}
