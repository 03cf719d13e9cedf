//! The tables of a query, as far as it can be told whether they have changed.

use datafusion::catalog::{Session, TableProvider};
use datafusion::datasource::DefaultTableSource;
use datafusion::datasource::listing::{ListingTable, ListingTableUrl};
use datafusion::logical_expr::TableSource;
use futures::TryStreamExt;
use galatea_store::{FileStamp, Identity, StoredTable, TableId};
use object_store::path::Path;
use std::path::PathBuf;
use std::sync::{Arc, Weak};

/// A version of a table.
#[derive(Debug, Clone)]
pub(super) enum TableVersion {
    /// Of the store, where each version has a name of its own.
    Stored(TableId),
    /// Local files: the object that stands for the table, and the files there are.
    Files {
        provider: Weak<dyn TableProvider>,
        files: Vec<(Path, FileStamp)>,
    },
}

/// The version of a table now, and for a table of the store what tells that it is not current any more. None
/// where the versions of a table cannot be told apart.
pub(super) async fn version(
    source: &Arc<dyn TableSource>,
    session: &dyn Session,
) -> Option<(TableVersion, Option<Arc<Identity>>)> {
    let provider = &source.downcast_ref::<DefaultTableSource>()?.table_provider;
    if let Some(table) = provider.downcast_ref::<StoredTable>() {
        let (id, identity) = table.version();
        return Some((TableVersion::Stored(id), Some(identity)));
    }
    let table = provider.downcast_ref::<ListingTable>()?;
    let mut files = Vec::new();
    for url in table.table_paths() {
        files.extend(local_files(url, &table.options().file_extension, session).await?);
    }
    let provider = Arc::downgrade(provider);
    Some((TableVersion::Files { provider, files }, None))
}

/// The files of a table, as DataFusion lists them, with what tells their versions. Those of object stores
/// have none: asking there takes longer than planning.
async fn local_files(
    url: &ListingTableUrl,
    extension: &str,
    session: &dyn Session,
) -> Option<Vec<(Path, FileStamp)>> {
    if url.scheme() != "file" {
        return None;
    }
    let store = session.runtime_env().object_store(url).ok()?;
    let listed = url
        .list_all_files(session, store.as_ref(), extension)
        .await
        .ok()?;
    let listed: Vec<_> = listed.try_collect().await.ok()?;
    let stamped = listed.into_iter().map(|file| {
        let path = PathBuf::from(format!("/{}", file.location));
        let stamp = FileStamp::of(&path)?;
        Some((file.location, stamp))
    });
    stamped.collect()
}

impl TableVersion {
    /// Whether this is the same version of the same table.
    pub(super) fn same(&self, other: &Self) -> bool {
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
