//! Versions of file tables: which contents a kept column is of.
//!
//! A file's size, times and inode tell its versions apart, but for two writes within one tick of the file
//! system's clock. So a file that was changed within the last seconds is compared by a hash of its contents
//! too, until one comparison has been made after that time: no write that came before it can have gone
//! unseen, and those that come later change the times. Objects in stores have the version that DataFusion's
//! listing saw: size, time, and etag where there is one.

use std::collections::HashMap;
use std::fs::File;
use std::hash::{DefaultHasher, Hasher};
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

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

/// Time that has to pass since the last change of a local file before its times are trusted to show the next
/// one: several ticks of any file system's clock.
const SETTLES_AFTER: i128 = 2_000_000_000;

/// What changes when a file's contents do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stamp {
    size: u64,
    /// Nanoseconds since 1970.
    modified: i128,
    /// When contents or attributes were last changed, in nanoseconds since 1970; for local files.
    changed: i128,
    /// The etag, or for local files device and inode.
    tag: String,
    /// A hash of the contents, where the times do not tell all: a file can be written twice within one tick
    /// of the clock.
    content: Option<u64>,
}

impl Stamp {
    /// Of the file now, where it is local; of the file as listed, elsewhere. `known` is the stamp it had
    /// before.
    fn of(file: &SourceFile, known: Option<&Self>) -> Result<Self> {
        let Some(path) = &file.path else {
            let modified = i128::from(file.meta.last_modified.timestamp_micros()) * 1000;
            return Ok(Self {
                size: file.meta.size,
                modified,
                changed: modified,
                tag: format!("{:?} {:?}", file.meta.e_tag, file.meta.version),
                content: None,
            });
        };
        let error = |error: std::io::Error| StoreError::Io {
            file: file.name(),
            source: error.into(),
        };
        let mut stamp = Self::of_times(path).map_err(error)?;
        let recent = stamp.is_recent();
        let unsure = known.is_some_and(|known| known.content.is_some() && known.agrees(&stamp));
        if recent || unsure {
            stamp.content = Some(hash(path).map_err(error)?);
        }
        // Nothing can have changed since unseen: the times are enough from now on.
        if unsure && !recent && known.is_some_and(|known| known.content == stamp.content) {
            stamp.content = None;
        }
        Ok(stamp)
    }

    /// Of a local file, without its contents.
    fn of_times(path: &Path) -> std::io::Result<Self> {
        let metadata = std::fs::metadata(path)?;
        let modified = nanoseconds(metadata.modified()?);
        Ok(Self {
            size: metadata.len(),
            modified,
            changed: changed(&metadata).unwrap_or(modified),
            tag: inode(&metadata),
            content: None,
        })
    }

    /// Whether the file was changed so recently that its times may not show the next change.
    fn is_recent(&self) -> bool {
        nanoseconds(SystemTime::now()) - self.changed < SETTLES_AFTER
    }

    /// Whether all but the contents are the same.
    fn agrees(&self, other: &Self) -> bool {
        (self.size, self.modified, self.changed, &self.tag)
            == (other.size, other.modified, other.changed, &other.tag)
    }

    /// Whether this is a later stamp of the contents that `known` was taken of.
    fn is_of(&self, known: &Self) -> bool {
        self.agrees(known)
            && (self.content.is_none() || known.content.is_none() || self.content == known.content)
    }
}

/// The version of a local file whose times tell that it has not changed: equal stamps are of equal contents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileStamp(Stamp);

impl FileStamp {
    /// The stamp of a file; none where it is not there, or was changed so recently that its times may not
    /// show the next change.
    #[must_use]
    pub fn of(path: &Path) -> Option<Self> {
        let stamp = Stamp::of_times(path).ok()?;
        (!stamp.is_recent()).then_some(Self(stamp))
    }
}

fn nanoseconds(time: SystemTime) -> i128 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => after.as_nanos() as i128,
        Err(before) => -(before.duration().as_nanos() as i128),
    }
}

#[cfg(unix)]
fn inode(metadata: &std::fs::Metadata) -> String {
    use std::os::unix::fs::MetadataExt;
    format!("{}:{}", metadata.dev(), metadata.ino())
}

#[cfg(not(unix))]
fn inode(_metadata: &std::fs::Metadata) -> String {
    String::new()
}

#[cfg(unix)]
fn changed(metadata: &std::fs::Metadata) -> Option<i128> {
    use std::os::unix::fs::MetadataExt;
    Some(i128::from(metadata.ctime()) * 1_000_000_000 + i128::from(metadata.ctime_nsec()))
}

#[cfg(not(unix))]
fn changed(_metadata: &std::fs::Metadata) -> Option<i128> {
    None
}

/// A hash of a file's contents.
fn hash(path: &Path) -> std::io::Result<u64> {
    let mut file = File::open(path)?;
    let mut hasher = DefaultHasher::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hasher.finish()),
            length => hasher.write(&buffer[..length]),
        }
    }
}

/// One version of the contents of a table.
#[derive(Debug)]
pub(super) struct Version {
    pub(super) id: TableId,
    stamps: Mutex<Vec<Stamp>>,
    /// Rows a chunk aims at.
    pub(super) chunk_target: usize,
    /// Rows of each chunk, known from the first load on.
    pub(super) chunk_rows: OnceLock<Vec<u32>>,
    /// Parquet footers and the chunks made of their row groups.
    pub(super) layout: tokio::sync::OnceCell<Arc<Layout>>,
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
            layout: tokio::sync::OnceCell::new(),
            loaders: Mutex::default(),
            refused: Mutex::default(),
        }
    }

    /// Whether the files are as they were. Then these stamps are the ones to compare with from now on.
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

    pub(super) fn loader(&self, column: usize) -> Arc<tokio::sync::Mutex<()>> {
        Arc::clone(self.loaders.lock().entry(column).or_default())
    }

    /// Remembers that these columns need this many bytes, which was too much.
    pub(super) fn refuse(&self, columns: &[usize], needed: u64) {
        let mut refused = self.refused.lock();
        refused.retain(|(known, _)| known != columns);
        if refused.len() == KEPT_REFUSALS {
            refused.remove(0);
        }
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

/// Refusals remembered of a version at most.
const KEPT_REFUSALS: usize = 64;

/// Versions remembered at most.
const KEPT_VERSIONS: usize = 1024;

/// The current versions of the file tables that were asked for last, and what is remembered of tables
/// whatever their version.
#[derive(Debug, Default)]
pub(crate) struct FileVersions {
    /// By table, with when they were last asked for.
    current: Mutex<HashMap<FileKey, (u64, Arc<Version>)>>,
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

    /// The version of the files as they are now; one that was of other contents is forgotten, with its
    /// columns.
    ///
    /// # Errors
    /// A file that is not there any more.
    pub(super) fn current(&self, store: &Store, key: &FileKey, files: &[SourceFile]) -> Result<Arc<Version>> {
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

        let chunk_target = store.chunk_rows();
        let mut current = self.current.lock();
        let now = current.values().map(|(used, _)| *used).max().unwrap_or(0) + 1;
        if let Some((used, version)) = current.get_mut(key) {
            if version.still(&stamps, chunk_target) {
                *used = now;
                return Ok(Arc::clone(version));
            }
            store.forget(version.id);
        }
        let version = Arc::new(Version::new(stamps, chunk_target));
        current.insert(key.clone(), (now, Arc::clone(&version)));
        if current.len() > KEPT_VERSIONS
            && let Some(oldest) = current.iter().min_by_key(|(_, (used, _))| *used)
        {
            let oldest = oldest.0.clone();
            if let Some((_, version)) = current.remove(&oldest) {
                store.forget(version.id);
            }
        }
        Ok(version)
    }
}
