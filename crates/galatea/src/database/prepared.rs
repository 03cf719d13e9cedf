//! EXECUTE in a database. A prepared plan has the files from the time of its PREPARE; EXECUTE replaces them
//! by the current files.

use std::sync::Arc;

use datafusion::common::TableReference;
use datafusion::common::tree_node::Transformed;
use datafusion::datasource::listing::ListingTable;
use datafusion::datasource::{DefaultTableSource, provider_as_source};
use datafusion::error::Result;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{LogicalPlan, TableSource};

use super::catalog_file::TableEntry;
use super::files;
use super::{Database, Name};
use crate::changes::ChangeError;
use crate::file_paths::location;

impl Database {
    /// The plan with the current files of the tables of the database.
    ///
    /// # Errors
    /// [`ChangeError::Replaced`] for a table that was dropped or has other columns now.
    pub(super) fn refreshed(
        &self,
        plan: LogicalPlan,
        state: &SessionState,
        resolve: impl Fn(&TableReference) -> Option<Name>,
    ) -> Result<LogicalPlan> {
        let data = location(&self.folder.join(files::FOLDER))?.to_string();
        let changed = plan.transform_down_with_subqueries(|node| {
            let LogicalPlan::TableScan(mut scan) = node else {
                return Ok(Transformed::no(node));
            };
            if !is_below(&scan.source, &data) {
                return Ok(Transformed::no(LogicalPlan::TableScan(scan)));
            }
            let name = resolve(&scan.table_name);
            let entry = name.and_then(|name| Some((self.entry(&name)?, name)));
            if let Some((TableEntry::Table(entry), name)) = entry {
                let table = self.stored(&name, &entry, state)?;
                if table.schema().fields() == scan.source.schema().fields() {
                    scan.source = provider_as_source(table);
                    return Ok(Transformed::yes(LogicalPlan::TableScan(scan)));
                }
            }
            let table = scan.table_name.to_string();
            Err(ChangeError::Replaced { table }.into())
        })?;
        Ok(changed.data)
    }
}

/// Whether a table has files in this folder.
fn is_below(source: &Arc<dyn TableSource>, folder: &str) -> bool {
    let source = source.downcast_ref::<DefaultTableSource>();
    let files = source.and_then(|source| source.table_provider.downcast_ref::<ListingTable>());
    files.is_some_and(|files| {
        files
            .table_paths()
            .iter()
            .any(|path| path.as_str().starts_with(folder))
    })
}
