//! Versions of file tables: they identify the contents of a cached column.
//!
//! A table in files is identified by its [`FileKey`]. A [`Version`] of it has a [`TableId`], like versions of
//! stored tables. It holds facts about the contents: the [`Stamp`] of each file, the row groups, the rows of
//! each chunk. [`FileVersions`] holds the current versions of all tables. Columns of other versions are
//! dropped.

mod loader;
mod row_groups;
mod selection;
mod slices;
mod source_file;
mod stamp;

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::datatypes::SchemaRef;
use parking_lot::Mutex;

pub(crate) use self::loader::Loader;
pub(crate) use self::row_groups::{FilePages, OpenFile, RowGroups, Run};
pub(crate) use self::selection::{SelectedGroup, Selection};
pub(crate) use self::slices::{Slice, Slices};
pub(crate) use self::source_file::SourceFile;
pub use self::stamp::FileStamp;
use self::stamp::Stamp;
use crate::digest::{Digest, Record};
use crate::error::{Result, StoreError};
use crate::layout::ConflictLayout;
use crate::source::{ColumnOnDisk, TableId};

/// Identifies a table in files, independently of their contents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileKey {
    /// Hash of all other fields, stored because each load looks its table up.
    hash: u64,
    url: String,
    files: Vec<String>,
    schema: SchemaRef,
    format: String,
}

impl FileKey {
    /// The key of the table in these files below a URL, read in this format.
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

    /// The key as a record that outlives the process.
    pub(crate) fn record(&self) -> Record {
        let mut record = Record::default();
        record.field(&self.url);
        record.number(self.files.len() as u64);
        self.files.iter().for_each(|file| record.field(file));
        record.number(self.schema.fields().len() as u64);
        let metadata = |metadata: &HashMap<String, String>| {
            let mut sorted: Vec<_> = metadata.iter().collect();
            sorted.sort_unstable();
            format!("{sorted:?}")
        };
        record.field(metadata(self.schema.metadata()));
        for field in self.schema.fields() {
            record.field(field.name());
            record.field(format!("{:?}", field.data_type()));
            record.number(field.is_nullable().into());
            record.field(metadata(field.metadata()));
        }
        record.field(&self.format);
        record
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
    /// Rows of each chunk, available from the first load on.
    pub(crate) chunk_rows: OnceLock<Vec<u32>>,
    /// Parquet footers, and the chunks formed from their row groups.
    pub(crate) row_groups: tokio::sync::OnceCell<Arc<RowGroups>>,
    /// The slices: parts of the rows that were loaded.
    pub(crate) slices: Slices,
    /// Locks by column.
    loaders: Mutex<HashMap<usize, Arc<Loader>>>,
    /// Columns that were found in the cache on disk.
    on_disk: Mutex<HashMap<usize, ColumnOnDisk>>,
    /// Set if the files turn out to have other rows than [`Self::chunk_rows`], which a cached column had.
    is_distrusted: AtomicBool,
    /// Sets of columns that did not fit, and the bytes that they would have needed.
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
            slices: Slices::default(),
            loaders: Mutex::default(),
            on_disk: Mutex::default(),
            is_distrusted: AtomicBool::new(false),
            refused: Mutex::default(),
        }
    }

    /// The identities of the version and of its slices.
    fn ids(&self) -> Vec<TableId> {
        let mut ids = self.slices.ids();
        ids.push(self.id);
        ids
    }

    /// Whether the files are unchanged. If so, these stamps replace the recorded ones.
    fn still(&self, now: &[Stamp], chunk_target: usize) -> bool {
        let mut stamps = self.stamps.lock();
        let same = !self.is_distrusted.load(Ordering::Relaxed)
            && self.chunk_target == chunk_target
            && stamps.len() == now.len()
            && now.iter().zip(stamps.iter()).all(|(now, known)| now.is_of(known));
        if same {
            *stamps = now.to_vec();
        }
        same
    }

    /// A digest of the stamps that outlives the process. `None` if they do not prove that the files are
    /// unchanged.
    pub(crate) fn digest(&self) -> Option<Digest> {
        let mut record = Record::default();
        let stamps = self.stamps.lock();
        stamps
            .iter()
            .all(|stamp| stamp.record(&mut record))
            .then(|| record.finish())
    }

    /// The column as found in the cache on disk earlier, or as `find` finds it now.
    pub(crate) fn on_disk(
        &self,
        column: usize,
        find: impl FnOnce() -> Option<ColumnOnDisk>,
    ) -> Option<ColumnOnDisk> {
        let known = self.on_disk.lock().get(&column).copied();
        known.or_else(|| {
            let found = find()?;
            self.on_disk.lock().insert(column, found);
            Some(found)
        })
    }

    /// Records that a column must be looked up in the cache on disk again.
    pub(crate) fn forget_on_disk(&self, column: usize) {
        self.on_disk.lock().remove(&column);
    }

    /// The error that the files have other rows than recorded. The version is not current any more, so that
    /// the load is repeated.
    pub(crate) fn other_rows(&self, file: &str) -> StoreError {
        self.is_distrusted.store(true, Ordering::Relaxed);
        StoreError::Io {
            file: file.to_owned(),
            source: "it has other rows than when it was read before".into(),
        }
    }

    pub(crate) fn loader(&self, column: usize) -> Arc<Loader> {
        Arc::clone(self.loaders.lock().entry(column).or_default())
    }

    /// Records that these columns need this number of bytes, which exceeds the limit.
    pub(crate) fn refuse(&self, columns: &[usize], needed: u64) {
        let mut refused = self.refused.lock();
        refused.retain(|(known, _)| known != columns);
        if refused.len() == KEPT_REFUSALS {
            refused.remove(0);
        }
        refused.push((columns.to_vec(), needed));
    }

    /// Recorded bytes of a subset of these columns, if they exceed `limit`.
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

/// Maximum number of recorded refusals of a version.
const KEPT_REFUSALS: usize = 64;

/// Maximum number of recorded versions.
const KEPT_VERSIONS: usize = 1024;

/// The current versions of the most recently used file tables, and the layouts of their columns, which are
/// kept across versions.
#[derive(Debug, Default)]
pub(crate) struct FileVersions {
    /// The versions by table, with the time of the last use.
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

    /// Records the layout requested for a column; `None` removes it.
    pub(crate) fn set_layout(&self, key: &FileKey, column: usize, layout: Option<ConflictLayout>) {
        let mut layouts = self.layouts.lock();
        match layout {
            Some(layout) => layouts.insert((key.clone(), column), layout),
            None => layouts.remove(&(key.clone(), column)),
        };
    }

    /// The current version of the files, in chunks of `chunk_target` rows. If the contents or the chunks have
    /// changed, the previous version is removed, and `forget` is called to drop its columns.
    ///
    /// # Errors
    /// A file does not exist any more.
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
            version.ids().into_iter().for_each(&forget);
        }
        let version = Arc::new(Version::new(stamps, chunk_target));
        current.insert(key.clone(), (now, Arc::clone(&version)));
        if current.len() > KEPT_VERSIONS
            && let Some(oldest) = current.iter().min_by_key(|(_, (used, _))| *used)
        {
            let oldest = oldest.0.clone();
            if let Some((_, version)) = current.remove(&oldest) {
                version.ids().into_iter().for_each(&forget);
            }
        }
        Ok(version)
    }
}
