//! Versions of file tables: which contents a kept column is of.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::OnceLock;
use std::time::UNIX_EPOCH;

use arrow::datatypes::SchemaRef;
use parking_lot::Mutex;

use super::SourceFile;
use super::layout::Layout;
use crate::error::{Result, StoreError};
use crate::placed::ConflictLayout;
use crate::source::TableId;
use crate::store::Store;

/// Names a table in files, whatever is in them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct FileKey {
    pub(super) url: String,
    pub(super) files: Vec<String>,
    pub(super) schema: SchemaRef,
    pub(super) format: String,
}

/// What changes when a file's contents do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stamp {
    size: u64,
    /// Nanoseconds since 1970.
    modified: i128,
    /// The etag, or for local files the inode.
    tag: String,
}

impl Stamp {
    /// Of the file now, where it is local; of the file as listed, elsewhere.
    pub(super) fn of(file: &SourceFile) -> Result<Self> {
        let Some(path) = &file.path else {
            return Ok(Self {
                size: file.meta.size,
                modified: i128::from(file.meta.last_modified.timestamp_micros()) * 1000,
                tag: format!("{:?} {:?}", file.meta.e_tag, file.meta.version),
            });
        };
        let error = |error: std::io::Error| StoreError::Io {
            file: file.name(),
            source: error.into(),
        };
        let metadata = std::fs::metadata(path).map_err(error)?;
        let modified = metadata.modified().map_err(error)?;
        let nanoseconds = match modified.duration_since(UNIX_EPOCH) {
            Ok(after) => after.as_nanos() as i128,
            Err(before) => -(before.duration().as_nanos() as i128),
        };
        Ok(Self {
            size: metadata.len(),
            modified: nanoseconds,
            tag: inode(&metadata),
        })
    }
}

#[cfg(unix)]
fn inode(metadata: &std::fs::Metadata) -> String {
    std::os::unix::fs::MetadataExt::ino(metadata).to_string()
}

#[cfg(not(unix))]
fn inode(_metadata: &std::fs::Metadata) -> String {
    String::new()
}

/// One version of the contents of a table.
#[derive(Debug)]
pub(super) struct Version {
    pub(super) id: TableId,
    stamps: Vec<Stamp>,
    /// Rows of each chunk, known from the first load on.
    pub(super) chunk_rows: OnceLock<Vec<u32>>,
    /// Parquet footers and the chunks made of their row groups.
    pub(super) layout: tokio::sync::OnceCell<Arc<Layout>>,
    /// Held by whoever loads a column.
    loaders: Mutex<HashMap<usize, Arc<tokio::sync::Mutex<()>>>>,
    /// Sets of columns that did not fit, and how much they would have needed.
    refused: Mutex<Vec<(Vec<usize>, u64)>>,
}

impl Version {
    fn new(stamps: Vec<Stamp>) -> Self {
        Self {
            id: TableId::next(),
            stamps,
            chunk_rows: OnceLock::new(),
            layout: tokio::sync::OnceCell::new(),
            loaders: Mutex::default(),
            refused: Mutex::default(),
        }
    }

    pub(super) fn loader(&self, column: usize) -> Arc<tokio::sync::Mutex<()>> {
        Arc::clone(self.loaders.lock().entry(column).or_default())
    }

    /// Remembers that these columns need this many bytes, which was too much.
    pub(super) fn refuse(&self, columns: &[usize], needed: u64) {
        let mut refused = self.refused.lock();
        refused.retain(|(known, _)| known != columns);
        refused.push((columns.to_vec(), needed));
    }

    /// Bytes that columns among these are known to need, more than `limit`.
    pub(super) fn known_too_large(&self, columns: &[usize], limit: u64) -> Option<u64> {
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

/// The current version of every file table that was asked for, and what is remembered of it whatever its version.
#[derive(Debug, Default)]
pub(crate) struct FileVersions {
    current: Mutex<HashMap<FileKey, Arc<Version>>>,
    /// Columns that shall be placed.
    layouts: Mutex<HashMap<(FileKey, usize), ConflictLayout>>,
}

impl FileVersions {
    /// How a column shall be placed, if it shall.
    pub(super) fn layout(&self, key: &FileKey, column: usize) -> Option<ConflictLayout> {
        let layouts = self.layouts.lock();
        if layouts.is_empty() {
            return None;
        }
        layouts.get(&(key.clone(), column)).copied()
    }

    /// Remembers how a column shall be placed, or that it shall not.
    pub(super) fn set_layout(&self, key: &FileKey, column: usize, wish: Option<ConflictLayout>) {
        let mut layouts = self.layouts.lock();
        match wish {
            Some(wish) => layouts.insert((key.clone(), column), wish),
            None => layouts.remove(&(key.clone(), column)),
        };
    }

    /// The version with these stamps; one that had others is forgotten, with its columns.
    pub(super) fn current(&self, store: &Store, key: &FileKey, stamps: Vec<Stamp>) -> Arc<Version> {
        let mut current = self.current.lock();
        if let Some(version) = current.get(key) {
            if version.stamps == stamps {
                return Arc::clone(version);
            }
            store.forget(version.id);
        }
        let version = Arc::new(Version::new(stamps));
        current.insert(key.clone(), Arc::clone(&version));
        version
    }
}
