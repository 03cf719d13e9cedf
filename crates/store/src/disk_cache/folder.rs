//! The files of the cache, and the limit on their bytes.

use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tempfile::NamedTempFile;

use super::key::{ColumnKey, SUFFIX};

/// Beginning of the names of files that are being written.
const WRITING: &str = ".writing-";

/// Minimum age of an unfinished file before it is removed: its process has ended.
const LEFT_BEHIND: Duration = Duration::from_secs(3600);

/// A folder with files of columns.
#[derive(Debug)]
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new(path: PathBuf) -> Self {
        Self(path)
    }

    /// The file of a column.
    pub(super) fn path(&self, key: &ColumnKey) -> PathBuf {
        self.0.join(key.file_name())
    }

    /// A new file that only this user can read, to be renamed when it is complete.
    pub(super) fn temporary(&self) -> io::Result<NamedTempFile> {
        tempfile::Builder::new().prefix(WRITING).tempfile_in(&self.0)
    }

    /// Removes the least recently used files until at most `limit` bytes are left. The file that is about to
    /// be replaced does not count. Returns the number of removed files.
    pub(super) fn make_room(&self, limit: u64, replaced: &Path) -> u64 {
        let entries = std::fs::read_dir(&self.0).into_iter().flatten().flatten();
        let mut files: Vec<(SystemTime, u64, PathBuf)> = entries
            .filter_map(|entry| {
                let found = entry.metadata().ok().filter(Metadata::is_file)?;
                let name = entry.file_name();
                let name = name.to_str()?;
                let modified = found.modified().ok()?;
                let is_writing = name.starts_with(WRITING);
                if is_writing && modified.elapsed().is_ok_and(|age| age > LEFT_BEHIND) {
                    remove(&entry.path());
                    return None;
                }
                let path = entry.path();
                (!is_writing && name.ends_with(SUFFIX) && path != replaced).then_some((
                    modified,
                    found.len(),
                    path,
                ))
            })
            .collect();
        files.sort_unstable();
        let mut bytes: u64 = files.iter().map(|(_, bytes, _)| bytes).sum();
        let mut removed = 0;
        for (_, size, path) in files {
            if bytes <= limit {
                break;
            }
            bytes -= size;
            removed += u64::from(remove(&path));
        }
        removed
    }
}

fn remove(path: &Path) -> bool {
    let removed = std::fs::remove_file(path);
    if let Err(error) = &removed {
        // Removed by another process, for example.
        tracing::debug!(path = %path.display(), "a file of the column cache stays: {error}");
    }
    removed.is_ok()
}
