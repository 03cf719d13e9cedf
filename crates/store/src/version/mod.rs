//! Versions of file tables: which contents a kept column is of.
//!
//! A table in files is known by its [`FileKey`]. A [`Version`] of it is named by a [`TableId`], as those of
//! stored tables are, and holds facts about the contents: the [`Stamp`] of each file, the row groups,
//! the rows of each chunk. [`FileVersions`] has the current versions of all tables; columns of others are
//! dropped.

mod row_groups;
mod source_file;
mod stamp;

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::OnceLock;

use arrow::datatypes::SchemaRef;
use parking_lot::Mutex;

pub(crate) use self::row_groups::{OpenFile, RowGroups, Run};
pub(crate) use self::source_file::SourceFile;
pub use self::stamp::FileStamp;
use self::stamp::Stamp;
use crate::error::Result;
use crate::layout::ConflictLayout;
use crate::source::TableId;

/// Names a table in files, whatever their contents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileKey {
    /// Of all that follows: each load looks its table up.
    hash: u64,
    url: String,
    files: Vec<String>,
    schema: SchemaRef,
    format: String,
}

impl FileKey {
    /// The name of the table in those files below a URL, as that format reads them.
    pub(crate) fn new(url: String, files: Vec<String>, schema: SchemaRef, format: String) -> Self {
        let mut state = DefaultHasher::new();
        (&url, &files, &schema, &format).hash(&mut state);
        Self {
            hash: state.finish(),
            url,
            files,
            schema,
            format,
        }
    }
}

impl Hash for FileKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.hash.hash(state);
    }
}

/// One version of the contents of a table.
#[derive(Debug)]
pub(crate) struct Version {
    pub(crate) id: TableId,
    stamps: Mutex<Vec<Stamp>>,
    /// Target number of rows of a chunk.
    pub(crate) chunk_target: usize,
    /// Rows of each chunk, known from the first load on.
    pub(crate) chunk_rows: OnceLock<Vec<u32>>,
    /// Parquet footers and the chunks made of their row groups.
    pub(crate) row_groups: tokio::sync::OnceCell<Arc<RowGroups>>,
    /// Held while a column is loaded.
    loaders: Mutex<HashMap<usize, Arc<tokio::sync::Mutex<()>>>>,
    /// Sets of columns that did not fit, and how much they would have needed.
    refused: Mutex<Vec<(Vec<usize>, u64)>>,
}

impl Version {
    fn new(stamps: Vec<Stamp>, chunk_target: usize) -> Self {
        Self {
            id: TableId::next(),
            stamps: Mutex::new(stamps),
            chunk_target,
            chunk_rows: OnceLock::new(),
            row_groups: tokio::sync::OnceCell::new(),
            loaders: Mutex::default(),
            refused: Mutex::default(),
        }
    }

    /// Whether the files are unchanged. If so, these stamps replace the known ones.
    fn still(&self, now: &[Stamp], chunk_target: usize) -> bool {
        let mut stamps = self.stamps.lock();
        let same = self.chunk_target == chunk_target
            && stamps.len() == now.len()
            && now.iter().zip(stamps.iter()).all(|(now, known)| now.is_of(known));
        if same {
            *stamps = now.to_vec();
        }
        same
    }

    pub(crate) fn loader(&self, column: usize) -> Arc<tokio::sync::Mutex<()>> {
        Arc::clone(self.loaders.lock().entry(column).or_default())
    }

    /// Remembers that these columns need this many bytes, which was too much.
    pub(crate) fn refuse(&self, columns: &[usize], needed: u64) {
        let mut refused = self.refused.lock();
        refused.retain(|(known, _)| known != columns);
        if refused.len() == KEPT_REFUSALS {
            refused.remove(0);
        }
        refused.push((columns.to_vec(), needed));
    }

    /// Bytes that columns among these are known to need, more than `limit`.
    pub(crate) fn known_too_large(&self, columns: &[usize], limit: u64) -> Option<u64> {
        let refused = self.refused.lock();
        let among = refused
            .iter()
            .filter(|(known, _)| known.iter().all(|column| columns.contains(column)));
        among
            .map(|(_, needed)| *needed)
            .filter(|needed| *needed > limit)
            .max()
    }
}

/// Most refusals remembered of a version.
const KEPT_REFUSALS: usize = 64;

/// Most versions remembered.
const KEPT_VERSIONS: usize = 1024;

/// The current versions of the most recently used file tables, and the layouts of their columns, which
/// outlive versions.
#[derive(Debug, Default)]
pub(crate) struct FileVersions {
    /// By table, with the time of the last use.
    current: Mutex<HashMap<FileKey, (u64, Arc<Version>)>>,
    /// The layouts requested for columns.
    layouts: Mutex<HashMap<(FileKey, usize), ConflictLayout>>,
}

impl FileVersions {
    /// The layout requested for a column.
    pub(crate) fn layout(&self, key: &FileKey, column: usize) -> Option<ConflictLayout> {
        let layouts = self.layouts.lock();
        if layouts.is_empty() {
            return None;
        }
        layouts.get(&(key.clone(), column)).copied()
    }

    /// Records the layout requested for a column; `None` for none.
    pub(crate) fn set_layout(&self, key: &FileKey, column: usize, layout: Option<ConflictLayout>) {
        let mut layouts = self.layouts.lock();
        match layout {
            Some(layout) => layouts.insert((key.clone(), column), layout),
            None => layouts.remove(&(key.clone(), column)),
        };
    }

    /// The version of the files as they are now, in chunks of `chunk_target` rows. One of other contents or
    /// chunks is no longer remembered: `forget` is told, to drop its columns.
    ///
    /// # Errors
    /// A file that is not there any more.
    pub(crate) fn current(
        &self,
        key: &FileKey,
        files: &[SourceFile],
        chunk_target: usize,
        forget: impl Fn(TableId),
    ) -> Result<Arc<Version>> {
        let known = self
            .current
            .lock()
            .get(key)
            .map(|(_, version)| Arc::clone(version));
        let known = known
            .map(|version| version.stamps.lock().clone())
            .unwrap_or_default();
        let stamps = files.iter().enumerate();
        let stamps = stamps.map(|(index, file)| Stamp::of(file, known.get(index)));
        let stamps = stamps.collect::<Result<Vec<_>>>()?;

        let mut current = self.current.lock();
        let now = current.values().map(|(used, _)| *used).max().unwrap_or(0) + 1;
        if let Some((used, version)) = current.get_mut(key) {
            if version.still(&stamps, chunk_target) {
                *used = now;
                return Ok(Arc::clone(version));
            }
            forget(version.id);
        }
        let version = Arc::new(Version::new(stamps, chunk_target));
        current.insert(key.clone(), (now, Arc::clone(&version)));
        if current.len() > KEPT_VERSIONS
            && let Some(oldest) = current.iter().min_by_key(|(_, (used, _))| *used)
        {
            let oldest = oldest.0.clone();
            if let Some((_, version)) = current.remove(&oldest) {
                forget(version.id);
            }
        }
        Ok(version)
    }
}
