//! Precompiled headers of NVRTC: a library parses the headers of kernels once per process.
//!
//! A generated kernel includes a dozen headers, which take most of the compiler's front end: 26 of 65 ms for
//! a small kernel, 9 with precompiled headers. The front end holds the library's lock. Automatic mode
//! (`--pch`, since CUDA 12.8) writes the parsed headers to a folder and maps them at the same address of the
//! same process.
//!
//! NVRTC does not compare the texts of headers, and numbers its files per library. So each library has a
//! folder for each set of headers: `<cache folder>/pch/<process>/<library>/<digest of the headers>`. A process
//! holds a lock on its folder, and removes it when it ends; the folders of processes that ended without
//! doing so are removed by the next one.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::cache_folder::CacheFolder;
use crate::program::Headers;

/// The first version of NVRTC with precompiled headers.
const SINCE: (u32, u32) = (12, 8);

/// File in the folder of a process that it locks.
const LOCK: &str = "lock";

/// Age of a folder that is not being created any more.
const CREATED: Duration = Duration::from_secs(3600);

/// The folder of this process; `None` before it is created and after it is removed.
static OURS: Mutex<Option<ProcessFolder>> = Mutex::new(None);

/// A folder that is locked while the process uses it.
struct ProcessFolder {
    path: PathBuf,
    _lock: File,
}

impl ProcessFolder {
    /// Creates a folder in `parent`, and removes those of processes that ended.
    fn create(parent: &Path) -> io::Result<Self> {
        remove_unlocked(parent)?;
        let path = tempfile::Builder::new()
            .prefix(&format!("{}-", std::process::id()))
            .tempdir_in(parent)?;
        let lock = File::create(path.path().join(LOCK))?;
        lock.try_lock().map_err(io::Error::from)?;
        Ok(Self {
            path: path.keep(),
            _lock: lock,
        })
    }
}

/// Removes folders whose lock no process holds.
fn remove_unlocked(parent: &Path) -> io::Result<()> {
    for entry in fs::read_dir(parent)?.flatten() {
        let is_unused = match File::open(entry.path().join(LOCK)) {
            Ok(lock) => match lock.try_lock() {
                Ok(()) => true,
                Err(TryLockError::WouldBlock) => false,
                Err(TryLockError::Error(error)) => return Err(error),
            },
            // It is being created, or its removal failed.
            Err(_) => entry
                .metadata()
                .and_then(|folder| folder.modified())
                .is_ok_and(|modified| modified.elapsed().is_ok_and(|age| age > CREATED)),
        };
        if is_unused {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    Ok(())
}

/// The precompiled headers of one library.
pub(crate) struct PrecompiledHeaders {
    folder: PathBuf,
    /// Whether a compilation failed that succeeds without them.
    failed: AtomicBool,
}

impl PrecompiledHeaders {
    /// The headers of library `number` of this process. `None` if its version has none, or if no folder can
    /// be created.
    pub(crate) fn new(version: (u32, u32), number: usize) -> Option<Self> {
        if version < SINCE {
            return None;
        }
        let mut ours = OURS.lock();
        if ours.is_none() {
            let created = CacheFolder::open(None)
                .and_then(|cache| cache.subfolder("pch"))
                .map_err(io::Error::other)
                .and_then(|parent| ProcessFolder::create(&parent));
            *ours = created
                .inspect_err(|error| tracing::debug!("headers are not precompiled: {error}"))
                .ok();
        }
        Some(Self {
            folder: ours.as_ref()?.path.join(number.to_string()),
            failed: AtomicBool::new(false),
        })
    }

    /// Options with which the library uses and creates precompiled headers. `None` if they are not used.
    pub(crate) fn options(&self, headers: &Headers) -> Option<[String; 2]> {
        if headers.files().is_empty() || self.failed.load(Ordering::Relaxed) {
            return None;
        }
        // Nothing is created after the folder of the process has been removed.
        let ours = OURS.lock();
        if !ours
            .as_ref()
            .is_some_and(|ours| self.folder.starts_with(&ours.path))
        {
            return None;
        }
        let digest = blake3::Hash::from_bytes(headers.digest()).to_hex();
        let folder = self.folder.join(&digest[..16]);
        fs::create_dir_all(&folder).ok()?;
        Some(["--pch".to_owned(), format!("--pch-dir={}", folder.display())])
    }

    /// Stops their use after a compilation that succeeds without them has failed.
    pub(crate) fn fail(&self, log: &str) {
        if !self.failed.swap(true, Ordering::Relaxed) {
            tracing::debug!("headers are no longer precompiled: {log}");
        }
    }
}

/// Removes the folder of this process. Nothing may compile any more.
pub(crate) fn remove() {
    if let Some(ours) = OURS.lock().take() {
        let _ = fs::remove_dir_all(&ours.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_ended_processes_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let (ended, running) = (
            ProcessFolder::create(parent.path()).unwrap(),
            ProcessFolder::create(parent.path()).unwrap(),
        );
        fs::write(ended.path.join("0.pch"), "parsed").unwrap();
        let begun = parent.path().join("begun");
        fs::create_dir(&begun).unwrap();
        let path = ended.path.clone();
        drop(ended);
        let next = ProcessFolder::create(parent.path()).unwrap();
        assert!(!path.exists());
        assert!(
            [&running.path, &next.path, &begun]
                .iter()
                .all(|path| path.exists())
        );
    }

    #[test]
    fn old_versions_and_programs_without_headers_have_none() {
        assert!(PrecompiledHeaders::new((12, 7), 0).is_none());
        let Some(some) = PrecompiledHeaders::new(SINCE, 0) else {
            panic!("a cache folder");
        };
        assert!(some.options(&Headers::default()).is_none());
        let (one, other) = (Headers::new([("a", "1")]), Headers::new([("a", "2")]));
        assert_eq!(some.options(&one), some.options(&one));
        assert_ne!(some.options(&one), some.options(&other));
        some.fail("a reason");
        assert!(some.options(&one).is_none());
    }
}
