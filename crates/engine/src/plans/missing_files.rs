//! Tables with missing files.
//!
//! The table of a file, or of a directory, lists its location when it is scanned. DataFusion treats a
//! location that does not exist as one without files, and the table as one without rows.

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, plan_err};
use datafusion::datasource::DefaultTableSource;
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::logical_expr::LogicalPlan;
use std::path::PathBuf;

use crate::hive_table::listing;

/// Refuses a plan that scans a local file or directory that does not exist.
pub(super) fn refuse_missing_files(plan: &LogicalPlan) -> Result<()> {
    let mut missing = None;
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && let Some(source) = scan.source.downcast_ref::<DefaultTableSource>()
            && let Some(table) = listing(source.table_provider.as_ref())
            && let Some(place) = table.table_paths().iter().find_map(missing_place)
        {
            missing = Some((place, scan.table_name.clone()));
            return Ok(TreeNodeRecursion::Stop);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    match missing {
        Some((place, table)) => plan_err!(
            "no such file: '{}', of the table {table}\nhint: it has been moved or deleted since the table was created; DROP \
             TABLE {table} forgets the table",
            place.display()
        ),
        None => Ok(()),
    }
}

/// The local path of a table's location that does not exist: a file, or the directory of a pattern.
fn missing_place(url: &ListingTableUrl) -> Option<PathBuf> {
    if url.scheme() != "file" {
        return None;
    }
    let place = url.get_url().to_file_path().ok()?;
    // A location without access is reported by the reader.
    matches!(place.try_exists(), Ok(false)).then_some(place)
}
