//! Versions of the tables of a query, for tables with detectable changes.

use crate::hive_table::listing;
use datafusion::catalog::TableProvider;
use datafusion::datasource::DefaultTableSource;
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::logical_expr::TableSource;
use galatea_store::{FileStamp, Identity, StoredTable, TableId};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

/// A version of a table.
#[derive(Debug, Clone)]
pub(super) enum TableVersion {
    /// A table of the store, which has a name for each version.
    Stored(TableId),
    /// Local files: the table object, and the current files.
    Files {
        provider: Weak<dyn TableProvider>,
        files: Vec<(PathBuf, FileStamp)>,
    },
}

/// The current versions of tables, in their order, and the identities of those of the store, which notify
/// when they are no longer current. `None` if one of the tables has no versions.
pub(super) fn versions(sources: &[Arc<dyn TableSource>]) -> Option<(Vec<TableVersion>, Vec<Arc<Identity>>)> {
    let (mut versions, mut identities) = (Vec::new(), Vec::new());
    for source in sources {
        let (version, identity) = version(source)?;
        versions.push(version);
        identities.extend(identity);
    }
    Some((versions, identities))
}

/// Whether these are the same versions of the same tables.
pub(super) fn same(one: &[TableVersion], other: &[TableVersion]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| one.same(other))
}

/// The current version of a table, and for a table of the store its identity, which notifies when it is no
/// longer current. `None` if the table has no versions.
fn version(source: &Arc<dyn TableSource>) -> Option<(TableVersion, Option<Arc<Identity>>)> {
    let provider = &source.downcast_ref::<DefaultTableSource>()?.table_provider;
    if let Some(table) = provider.downcast_ref::<StoredTable>() {
        let (id, identity) = table.version();
        return Some((TableVersion::Stored(id), Some(identity)));
    }
    let table = listing(provider.as_ref())?;
    let mut files = Vec::new();
    for url in table.table_paths() {
        files.extend(local_files(url, &table.options().file_extension)?);
    }
    let provider = Arc::downgrade(provider);
    Some((TableVersion::Files { provider, files }, None))
}

/// The files at a table's location, with the stamps of their versions. `None` for object stores: a request
/// there takes longer than planning.
///
/// Listed without DataFusion's object store, which takes a task and a third of a millisecond for each table.
/// The files include those that the table's pattern excludes: a change of these causes a new plan needlessly.
fn local_files(url: &ListingTableUrl, extension: &str) -> Option<Vec<(PathBuf, FileStamp)>> {
    if url.scheme() != "file" {
        return None;
    }
    let place = url.get_url().to_file_path().ok()?;
    let mut files = Vec::new();
    let metadata = std::fs::metadata(&place).ok()?;
    if metadata.is_dir() {
        list(&place, extension, &mut files)?;
        files.sort_by(|(one, _), (other, _)| one.cmp(other));
    } else {
        let stamp = FileStamp::of_metadata(&metadata)?;
        files.push((place, stamp));
    }
    Some(files)
}

/// Adds the files below a folder with names that end with `extension`.
fn list(folder: &Path, extension: &str, files: &mut Vec<(PathBuf, FileStamp)>) -> Option<()> {
    for entry in std::fs::read_dir(folder).ok()? {
        let entry = entry.ok()?;
        let path = entry.path();
        let named = path.to_str()?.ends_with(extension);
        // The directory entry contains the file type, so files that are not read need no further access.
        if !named && entry.file_type().ok()?.is_file() {
            continue;
        }
        let metadata = std::fs::metadata(&path).ok()?;
        if metadata.is_dir() {
            list(&path, extension, files)?;
        } else if named {
            let stamp = FileStamp::of_metadata(&metadata)?;
            files.push((path, stamp));
        }
    }
    Some(())
}

impl TableVersion {
    /// Whether this is the same version of the same table.
    fn same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Stored(one), Self::Stored(other)) => one == other,
            (
                Self::Files { provider, files },
                Self::Files {
                    provider: other,
                    files: others,
                },
            ) => Weak::ptr_eq(provider, other) && files == others,
            _ => false,
        }
    }
}
