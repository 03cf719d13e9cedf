//! The column cache on disk: encoded columns of files, for later processes.
//!
//! Decoding a file takes many times as long as reading the column that results from it. After a load, a
//! thread of low priority therefore writes the column to a file of its own, in the form that it has in
//! memory. A load first searches the cache for its columns, which threads read in parallel into their final
//! memory ([`read`]).
//!
//! A file is found by a digest of all inputs of the encoding except for the contents of the source files
//! ([`ColumnKey`]), and is used only if it has the digest of their current stamps. A file that was changed
//! shortly before it was stamped is not cached, because its times may not show the next change. Lengths,
//! places and checksums are checked before use ([`metadata`]). A file that is stale or damaged is removed,
//! and the load reads the source.
//!
//! Files are written under another name and renamed, so that any number of processes can use one folder. A
//! file is touched when it is read. If the files exceed the limit, the least recently used ones are removed
//! ([`folder`]).
//!
//! The cache never fails or delays a query. The queue of columns to be written has weak references: a column
//! that is evicted before is not written. See [`write`].

mod fields;
mod folder;
mod key;
mod metadata;
mod read;
mod write;

use std::collections::VecDeque;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

use self::folder::Folder;
pub(crate) use self::key::ColumnKey;
pub(crate) use self::read::{ColumnMemory, StoredColumn, Unusable};
use self::write::Draft;
use crate::column::Column;

/// Maximum number of columns that wait to be written.
const MOST_WAITING: usize = 1024;

/// Maximum time that an admission of memory waits for the end of a copy.
const COPY_WAIT: Duration = Duration::from_millis(50);

/// The column cache on disk; see the module documentation.
#[derive(Debug)]
pub struct DiskCache {
    /// The folder, opened at its first use; none if it cannot be used.
    folder: OnceLock<Option<Folder>>,
    opener: Opener,
    limit: AtomicU64,
    queue: Mutex<Queue>,
    /// Notified when the queue is empty and its thread has ended.
    idle: Condvar,
    /// Held while a piece of a column is copied.
    copying: Mutex<()>,
    counts: Counts,
}

/// Opens the folder of a cache, and returns its path and the maximum bytes of all files.
struct Opener(Box<dyn Fn() -> Option<(PathBuf, u64)> + Send + Sync>);

impl fmt::Debug for Opener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Opener")
    }
}

/// Columns that wait to be written.
#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<(ColumnKey, Weak<Column>)>,
    /// Whether a thread writes them.
    running: bool,
}

#[derive(Debug, Default)]
struct Counts {
    read: AtomicU64,
    written: AtomicU64,
    bytes_read: AtomicU64,
    bytes_written: AtomicU64,
    stale: AtomicU64,
    damaged: AtomicU64,
    failed_writes: AtomicU64,
    evicted: AtomicU64,
}

/// Numbers of columns since a [`DiskCache`] was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiskCacheCounts {
    /// Columns read.
    pub read: u64,
    /// Columns written.
    pub written: u64,
    /// Bytes of the files read.
    pub bytes_read: u64,
    /// Bytes of the files written.
    pub bytes_written: u64,
    /// Files removed because their source files had changed.
    pub stale: u64,
    /// Files removed because they were damaged.
    pub damaged: u64,
    /// Columns that could not be written.
    pub failed_writes: u64,
    /// Files removed to observe the limit.
    pub evicted: u64,
}

impl DiskCache {
    /// The cache in a folder that only this user can write, with at most `limit` bytes of files.
    pub fn new(folder: PathBuf, limit: u64) -> Arc<Self> {
        let cache = Self::opened_by(move || Some((folder.clone(), limit)));
        cache.folder();
        cache
    }

    /// The cache in the folder that `open` returns, with its limit. It is called once, at the first use. If
    /// it returns none, no column is cached.
    pub fn opened_by(open: impl Fn() -> Option<(PathBuf, u64)> + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self {
            folder: OnceLock::new(),
            opener: Opener(Box::new(open)),
            limit: AtomicU64::new(0),
            queue: Mutex::default(),
            idle: Condvar::new(),
            copying: Mutex::default(),
            counts: Counts::default(),
        })
    }

    /// The folder; none if it cannot be used.
    fn folder(&self) -> Option<&Folder> {
        let open = || {
            let (path, limit) = (self.opener.0)()?;
            self.set_limit(limit);
            Some(Folder::new(path))
        };
        self.folder.get_or_init(open).as_ref()
    }

    /// Maximum bytes of all files.
    pub fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    /// Changes the limit. A lower one takes effect with the next column that is written.
    pub fn set_limit(&self, bytes: u64) {
        self.limit.store(bytes, Ordering::Relaxed);
    }

    /// The counts so far.
    pub fn counts(&self) -> DiskCacheCounts {
        let counts = &self.counts;
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        DiskCacheCounts {
            read: get(&counts.read),
            written: get(&counts.written),
            bytes_read: get(&counts.bytes_read),
            bytes_written: get(&counts.bytes_written),
            stale: get(&counts.stale),
            damaged: get(&counts.damaged),
            failed_writes: get(&counts.failed_writes),
            evicted: get(&counts.evicted),
        }
    }

    /// Waits until no column waits to be written, at most for `time`. Returns whether none waits.
    pub fn wait(&self, time: Duration) -> bool {
        let deadline = Instant::now() + time;
        let mut queue = self.queue.lock();
        while queue.running {
            if self.idle.wait_until(&mut queue, deadline).timed_out() {
                return !queue.running;
            }
        }
        true
    }

    /// The file of a column, if it exists and is current. One that is stale or damaged is removed.
    pub(crate) fn find(&self, key: &ColumnKey) -> Option<StoredColumn> {
        let path = self.folder()?.path(key);
        match StoredColumn::open(&path, key) {
            Ok(found) => Some(found),
            Err(reason) => {
                self.refused(&path, &reason);
                None
            }
        }
    }

    /// Counts a column that was read from a file, and marks the file as used.
    pub(crate) fn was_read(&self, stored: &StoredColumn) {
        self.counts.read.fetch_add(1, Ordering::Relaxed);
        self.counts
            .bytes_read
            .fetch_add(stored.length(), Ordering::Relaxed);
        stored.touch();
    }

    /// Removes and counts a file that could not be read.
    pub(crate) fn could_not_read(&self, stored: &StoredColumn, reason: &Unusable) {
        self.refused(&stored.path, reason);
    }

    fn refused(&self, path: &Path, reason: &Unusable) {
        let count = match reason {
            Unusable::Missing | Unusable::Load(_) => return,
            Unusable::Stale => {
                tracing::debug!(path = %path.display(), "removing the column of a changed file");
                &self.counts.stale
            }
            Unusable::Damaged(_) | Unusable::Io(_) => {
                tracing::warn!(path = %path.display(), "ignoring a file of the column cache: {reason}");
                &self.counts.damaged
            }
        };
        count.fetch_add(1, Ordering::Relaxed);
        if let Err(error) = std::fs::remove_file(path) {
            tracing::debug!(path = %path.display(), "a file of the column cache stays: {error}");
        }
    }

    /// Removes a file with other chunks than its table.
    pub(crate) fn reject(&self, stored: &StoredColumn) {
        self.refused(
            &stored.path,
            &Unusable::Damaged("it has other chunks than its table"),
        );
    }

    /// Writes a column in the background. If too many columns wait, it is not written.
    pub(crate) fn write_later(self: &Arc<Self>, key: ColumnKey, column: &Arc<Column>) {
        let mut queue = self.queue.lock();
        if queue.waiting.len() == MOST_WAITING {
            return;
        }
        queue.waiting.push_back((key, Arc::downgrade(column)));
        if queue.running {
            return;
        }
        let cache = Arc::clone(self);
        let thread = std::thread::Builder::new().name("galatea-column-cache".to_owned());
        match thread.spawn(move || cache.write_waiting()) {
            Ok(_) => queue.running = true,
            Err(error) => {
                tracing::debug!("columns are not written to the column cache: {error}");
                queue.waiting.clear();
            }
        }
    }

    /// Writes columns until none waits.
    fn write_waiting(&self) {
        galatea_device::lower_thread_priority();
        loop {
            let next = {
                let mut queue = self.queue.lock();
                let next = queue.waiting.pop_front();
                queue.running = next.is_some();
                next
            };
            let Some((key, column)) = next else {
                self.idle.notify_all();
                return;
            };
            // A panic must not leave `running` set.
            let write = std::panic::AssertUnwindSafe(|| self.write(&key, &column));
            let outcome = std::panic::catch_unwind(write);
            match outcome.unwrap_or_else(|_| Err(std::io::Error::other("a panic"))) {
                Ok(None) => {}
                Ok(Some(bytes)) => {
                    self.counts.written.fetch_add(1, Ordering::Relaxed);
                    self.counts.bytes_written.fetch_add(bytes, Ordering::Relaxed);
                }
                Err(error) => {
                    self.counts.failed_writes.fetch_add(1, Ordering::Relaxed);
                    tracing::debug!("a column is not written to the column cache: {error}");
                }
            }
        }
    }

    /// Writes a column. Returns the bytes of the file, or none if the column is gone, too large or already
    /// on disk.
    fn write(&self, key: &ColumnKey, column: &Weak<Column>) -> std::io::Result<Option<u64>> {
        let Some(folder) = self.folder() else {
            return Ok(None);
        };
        let path = folder.path(key);
        if StoredColumn::open(&path, key).is_ok_and(|stored| !stored.is_text()) {
            return Ok(None);
        }
        let draft = {
            let _alone = self.copying.lock();
            column.upgrade().and_then(|column| Draft::of(&column, key))
        };
        let limit = self.limit();
        let Some(draft) = draft.filter(|draft| draft.length() <= limit) else {
            return Ok(None);
        };
        let length = draft.length();
        let evicted = folder.make_room(limit - length, &path);
        self.counts.evicted.fetch_add(evicted, Ordering::Relaxed);
        let file = folder.temporary()?;
        if !draft.write(file.as_file(), &self.copying)? {
            return Ok(None);
        }
        file.persist(&path).map_err(|error| error.error)?;
        Ok(Some(length))
    }

    /// Removes all files. Returns their number.
    pub fn clear(&self) -> u64 {
        self.queue.lock().waiting.clear();
        self.folder()
            .map_or(0, |folder| folder.make_room(0, Path::new("")))
    }

    /// While the guard exists, the cache refers to no column in memory. `None` if a copy takes too long.
    pub(crate) fn without_copies(&self) -> Option<MutexGuard<'_, ()>> {
        self.copying.try_lock_for(COPY_WAIT)
    }
}
