//! A cache of statements by their SQL string, which avoids parsing and name resolution.
//!
//! These steps take half of the time of a query with a cached plan. A string has the same meaning as before
//! if parsing and resolution would return the same: the session and its
//! [`SessionFingerprint`](super::session_fingerprint::SessionFingerprint) are the same, and each name in the
//! string still refers to the same table, or still to none. Changes of a table's rows do not matter here:
//! plans are compared by the versions of their tables.

use super::query::Query;
use datafusion::catalog::{CatalogProviderList, TableProvider};
use datafusion::common::{DFSchemaRef, ResolvedTableReference, Result, TableReference};
use datafusion::datasource::{DefaultTableSource, provider_as_source};
use datafusion::execution::SessionState;
use datafusion::logical_expr::TableSource;
use std::sync::{Arc, Weak};

/// The session's name, the number of its fingerprint, and a statement's SQL string.
pub(super) type TextKey = (String, u64, String);

/// The meaning of an SQL string. It holds no table.
#[derive(Debug)]
pub(super) struct Statement {
    pub(super) query: Arc<Query>,
    /// The columns of the query, with their final types.
    pub(super) schema: DFSchemaRef,
    /// Levels of the nodes and expressions of the query.
    pub(super) levels: usize,
    /// The names in the string, and the tables that they referred to. The address of a dropped table stays
    /// reserved.
    names: Vec<(ResolvedTableReference, Option<Weak<dyn TableProvider>>)>,
    /// For each scan of the query, the number of its name.
    scans: Vec<usize>,
}

impl Statement {
    /// The statement of a string with those names, planned as a query over those tables; `None` if a table of
    /// the query is not one of the named tables (one below a view, or of a function).
    pub(super) async fn new(
        query: Arc<Query>,
        tables: &[Arc<dyn TableSource>],
        (schema, levels): (DFSchemaRef, usize),
        names: Vec<TableReference>,
        state: &SessionState,
    ) -> Result<Option<Self>> {
        let catalog = &state.config_options().catalog;
        let mut found = Vec::with_capacity(names.len());
        for name in names {
            let name = name.resolve(&catalog.default_catalog, &catalog.default_schema);
            let table = table(&name, state.catalog_list().as_ref()).await?;
            found.push((name, table));
        }
        let scan = |source: &Arc<dyn TableSource>| {
            let table = &source.downcast_ref::<DefaultTableSource>()?.table_provider;
            let same = |found: &Option<Arc<_>>| found.as_ref().is_some_and(|found| Arc::ptr_eq(found, table));
            found.iter().position(|(_, found)| same(found))
        };
        let Some(scans) = tables.iter().map(scan).collect::<Option<Vec<usize>>>() else {
            return Ok(None);
        };
        let names = found.into_iter();
        let names = names.map(|(name, table)| (name, table.as_ref().map(Arc::downgrade)));
        Ok(Some(Self {
            query,
            schema,
            levels,
            names: names.collect(),
            scans,
        }))
    }

    /// The tables of the query's scans, if every name still refers to the same table.
    pub(super) async fn tables(
        &self,
        catalogs: &dyn CatalogProviderList,
    ) -> Result<Option<Vec<Arc<dyn TableSource>>>> {
        let mut sources = Vec::with_capacity(self.names.len());
        for (name, before) in &self.names {
            let now = table(name, catalogs).await?;
            let same = match (before, &now) {
                (None, None) => true,
                (Some(before), Some(now)) => Weak::ptr_eq(before, &Arc::downgrade(now)),
                _ => false,
            };
            if !same {
                return Ok(None);
            }
            sources.push(now.map(provider_as_source));
        }
        let scans = self.scans.iter();
        Ok(scans.map(|&name| sources[name].clone()).collect())
    }
}

/// The table under a name, with the lookup of planning. (Tables of `information_schema`, which are in no
/// catalog, are other objects each time, so queries over them are not cached.)
async fn table(
    name: &ResolvedTableReference,
    catalogs: &dyn CatalogProviderList,
) -> Result<Option<Arc<dyn TableProvider>>> {
    let catalog = catalogs.catalog(&name.catalog);
    match catalog.and_then(|catalog| catalog.schema(&name.schema)) {
        Some(schema) => schema.table(&name.table).await,
        None => Ok(None),
    }
}
