//! The cubin cache: a kernel is compiled once per machine, not once per process.
//!
//! # Key
//! A cubin is named by the BLAKE3 digest of this record, version [`KEY_VERSION`]. Every field is written as
//! its length (64 bits, little endian) and its bytes; a list is written as its length, followed by each item
//! in the same form. Any change of the record must change the version.
//!
//! | # | field | why |
//! | --- | --- | --- |
//! | 1 | `galatea cubin`, [`KEY_VERSION`] | keys of other records never collide |
//! | 2 | source | |
//! | 3 | entries, in order | a cubin is stored with its kernels |
//! | 4 | all options, in order, as compiled with | defaults, tier, own ones, and the emulated device's, which
//! include its revision and instrumentation |
//! | 5 | digest of all headers (names and texts, in order) | |
//! | 6 | NVRTC version | its code differs |
//! | 7 | driver version | minor-version compatibility is not guaranteed for every cubin |
//! | 8 | architecture | |
//! | 9 | target: `gpu` or `emulated` | their images have nothing in common |
//!
//! The program's name is not part of it: it only appears in messages.
//!
//! # Files
//! `<cache directory>/cubin/v1/<key>`: a header (magic, key, length and BLAKE3 digest of the image), then the
//! image. A file is written under another name and renamed into place, so any number of reading and writing
//! processes see a whole file or none. A file is ignored and overwritten if its header does not match its
//! contents. The cache never fails a query: if the folder cannot be read or written, programs are compiled in
//! every process, and a warning is logged once.
//!
//! Files are touched when they are read. If their total size exceeds [`DISK_LIMIT`], the least recently used
//! ones are removed.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::SystemTime;

use crate::cache_folder::{CacheFolder, CacheRefusal};

/// Version of the key's record.
pub const KEY_VERSION: u32 = 1;
/// The most bytes of cubins kept on disk.
pub const DISK_LIMIT: u64 = 512 << 20;

const MAGIC: &[u8; 16] = b"galatea cubin 1\n";
const HEADER: usize = MAGIC.len() + 32 + 8 + 32;

/// The inputs that determine a cubin.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeyRecord<'a> {
    pub(crate) source: &'a str,
    pub(crate) entries: &'a [String],
    pub(crate) options: &'a [String],
    pub(crate) headers: [u8; 32],
    pub(crate) nvrtc_version: (u32, u32),
    pub(crate) driver_version: (u32, u32),
    pub(crate) architecture: &'a str,
    pub(crate) target: &'a str,
}

/// The name of a cubin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key([u8; 32]);

impl KeyRecord<'_> {
    pub(crate) fn key(&self) -> Key {
        let mut hasher = blake3::Hasher::new();
        let mut field = |bytes: &[u8]| {
            hasher.update(&(bytes.len() as u64).to_le_bytes());
            hasher.update(bytes);
        };
        let version = |(major, minor): (u32, u32)| [major.to_le_bytes(), minor.to_le_bytes()].concat();
        field(b"galatea cubin");
        field(&KEY_VERSION.to_le_bytes());
        field(self.source.as_bytes());
        for list in [self.entries, self.options] {
            field(&(list.len() as u64).to_le_bytes());
            for item in list {
                field(item.as_bytes());
            }
        }
        field(&self.headers);
        field(&version(self.nvrtc_version));
        field(&version(self.driver_version));
        field(self.architecture.as_bytes());
        field(self.target.as_bytes());
        Key(*hasher.finalize().as_bytes())
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The cache on disk.
#[derive(Debug)]
pub(crate) struct DiskCache {
    /// `None` if nothing is cached.
    folder: Option<PathBuf>,
    limit: u64,
    /// Bytes in the folder according to this process; the maximum until it has scanned the folder.
    bytes: AtomicU64,
    warned: AtomicBool,
}

impl DiskCache {
    /// Creates the cache in a cache folder, or a disabled cache if the folder was refused.
    pub(crate) fn new(cache: Result<&CacheFolder, &CacheRefusal>) -> Self {
        let folder = cache
            .map_err(Clone::clone)
            .and_then(|cache| cache.subfolder(format!("cubin/v{KEY_VERSION}")));
        Self {
            folder: folder.map_err(|refused| refused.warn_once()).ok(),
            limit: DISK_LIMIT,
            bytes: AtomicU64::new(u64::MAX),
            warned: AtomicBool::new(false),
        }
    }

    #[cfg(test)]
    pub(crate) fn with_limit(self, limit: u64) -> Self {
        Self { limit, ..self }
    }

    pub(crate) fn path(&self, key: Key) -> Option<PathBuf> {
        Some(self.folder.as_ref()?.join(key.to_string()))
    }

    /// Loads the image of a key, if its file exists and is whole.
    pub(crate) fn load(&self, key: Key) -> Option<Vec<u8>> {
        let path = self.path(key)?;
        let mut file = match std::fs::read(&path) {
            Ok(file) => file,
            Err(error) => {
                if error.kind() != std::io::ErrorKind::NotFound {
                    self.warn(&path, &error);
                }
                return None;
            }
        };
        let whole = file.len() > HEADER && {
            let (header, image) = file.split_at(HEADER);
            header == Self::header(key, image)
        };
        if !whole {
            tracing::warn!(path = %path.display(), "ignoring a damaged cache file");
            return None;
        }
        let used = std::fs::File::open(&path).and_then(|file| file.set_modified(SystemTime::now()));
        if let Err(error) = used {
            tracing::debug!(path = %path.display(), "the use of a cached kernel is not noted: {error}");
        }
        Some(file.split_off(HEADER))
    }

    /// Writes an image. If that fails, the next process compiles again.
    pub(crate) fn store(&self, key: Key, image: &[u8]) {
        let Some(folder) = &self.folder else {
            return;
        };
        let write = || {
            let mut file = tempfile::Builder::new().prefix(".writing-").tempfile_in(folder)?;
            file.write_all(&Self::header(key, image))?;
            file.write_all(image)?;
            file.persist(folder.join(key.to_string()))
                .map_err(|error| error.error)
        };
        if let Err(error) = write() {
            return self.warn(folder, &error);
        }
        let size = (HEADER + image.len()) as u64;
        let known = self.bytes.load(Ordering::Relaxed).saturating_add(size);
        let bytes = match known > self.limit {
            true => self.make_room(folder),
            false => known,
        };
        self.bytes.store(bytes, Ordering::Relaxed);
    }

    /// Removes the least recently used files until the rest is within the limit. Returns the bytes of the
    /// rest.
    fn make_room(&self, folder: &Path) -> u64 {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let mut files: Vec<(SystemTime, u64, PathBuf)> = entries
            .filter_map(|entry| {
                let found = entry.metadata().ok().filter(std::fs::Metadata::is_file)?;
                Some((found.modified().ok()?, found.len(), entry.path()))
            })
            .collect();
        files.sort_unstable();
        let mut bytes = files.iter().map(|(_, size, _)| size).sum();
        for (_, size, path) in files {
            if bytes <= self.limit {
                break;
            }
            match std::fs::remove_file(&path) {
                Ok(()) => bytes -= size,
                // Removed by another process, or owned by another user.
                Err(error) => tracing::debug!(path = %path.display(), "a cached kernel stays: {error}"),
            }
        }
        bytes
    }

    fn header(key: Key, image: &[u8]) -> Vec<u8> {
        let mut header = Vec::with_capacity(HEADER);
        header.extend_from_slice(MAGIC);
        header.extend_from_slice(&key.0);
        header.extend_from_slice(&(image.len() as u64).to_le_bytes());
        header.extend_from_slice(blake3::hash(image).as_bytes());
        header
    }

    fn warn(&self, path: &Path, error: &std::io::Error) {
        if !self.warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(path = %path.display(), "the kernel cache cannot be used: {error}");
        }
    }
}
