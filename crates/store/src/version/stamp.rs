//! Stamps, which detect changes of files.
//!
//! A file's size, times and inode distinguish its versions, except for two writes within one tick of the file
//! system's clock. A file that was changed within the last seconds is therefore also compared by a hash of
//! its contents. This ends with the first comparison after that time: it has detected every earlier write,
//! and later writes change the times. Objects in stores have the version of DataFusion's listing: size, time,
//! and etag if they have one.

use std::fs::{File, Metadata};
use std::hash::{DefaultHasher, Hasher};
use std::io::Read;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use super::source_file::SourceFile;
use crate::digest::Record;
use crate::error::{Result, StoreError};

/// Time since the last change of a local file from which its times are trusted to show the next change:
/// several ticks of any file system's clock.
const SETTLES_AFTER: i128 = 2_000_000_000;

/// The tag of an object with neither etag nor version, and of a file without an inode.
const NO_TAG: &str = "";

/// Size, times and identity of a file, and a hash of its contents if those do not suffice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stamp {
    size: u64,
    /// Nanoseconds since 1970.
    modified: i128,
    /// Time of the last change of contents or attributes, in nanoseconds since 1970; for local files.
    changed: i128,
    /// The etag, or for local files device and inode.
    tag: String,
    /// A hash of the contents, if the times do not suffice: a file can be written twice within one tick of
    /// the clock.
    content: Option<u64>,
}

impl Stamp {
    /// The stamp of a local file now, or of another file as listed. `known` is its previous stamp.
    pub(super) fn of(file: &SourceFile, known: Option<&Self>) -> Result<Self> {
        let Some(path) = &file.path else {
            let modified = i128::from(file.meta.last_modified.timestamp_micros()) * 1000;
            return Ok(Self {
                size: file.meta.size,
                modified,
                changed: modified,
                tag: match (&file.meta.e_tag, &file.meta.version) {
                    (None, None) => NO_TAG.to_owned(),
                    (e_tag, version) => format!("{e_tag:?} {version:?}"),
                },
                content: None,
            });
        };
        let error = |error: std::io::Error| StoreError::Io {
            file: file.name(),
            source: error.into(),
        };
        let metadata = std::fs::metadata(path).map_err(error)?;
        let mut stamp = Self::of_times(&metadata).map_err(error)?;
        let recent = stamp.is_recent();
        let unsure = known.is_some_and(|known| known.content.is_some() && known.agrees(&stamp));
        if recent || unsure {
            stamp.content = Some(hash(path).map_err(error)?);
        }
        // Any later write changes the times, so they suffice from now on.
        if unsure && !recent && known.is_some_and(|known| known.content == stamp.content) {
            stamp.content = None;
        }
        Ok(stamp)
    }

    /// The stamp of a local file, without its contents.
    fn of_times(metadata: &Metadata) -> std::io::Result<Self> {
        let modified = nanoseconds(metadata.modified()?);
        Ok(Self {
            size: metadata.len(),
            modified,
            changed: changed(metadata).unwrap_or(modified),
            tag: inode(metadata),
            content: None,
        })
    }

    /// Whether the file was changed so recently that its times may not show the next change.
    fn is_recent(&self) -> bool {
        nanoseconds(SystemTime::now()) - self.changed < SETTLES_AFTER
    }

    /// Adds the stamp to a record that outlives the process. Returns false if it does not prove that the file
    /// is unchanged: a file that was changed recently, or an object without an etag.
    pub(super) fn record(&self, record: &mut Record) -> bool {
        record.number(self.size);
        record.field(self.modified.to_le_bytes());
        record.field(self.changed.to_le_bytes());
        record.field(&self.tag);
        self.content.is_none() && !self.is_recent() && self.tag != NO_TAG
    }

    /// Whether everything but the contents is equal.
    fn agrees(&self, other: &Self) -> bool {
        (self.size, self.modified, self.changed, &self.tag)
            == (other.size, other.modified, other.changed, &other.tag)
    }

    /// Whether this is a later stamp of the same contents as `known`.
    pub(super) fn is_of(&self, known: &Self) -> bool {
        self.agrees(known)
            && (self.content.is_none() || known.content.is_none() || self.content == known.content)
    }
}

/// The version of a local file, if its times prove that it is unchanged: equal stamps mean equal contents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileStamp(Stamp);

impl FileStamp {
    /// The stamp of a file; none if it does not exist, or was changed so recently that its times may not show
    /// the next change.
    #[must_use]
    pub fn of(path: &Path) -> Option<Self> {
        Self::of_metadata(&std::fs::metadata(path).ok()?)
    }

    /// The stamp of a file with this metadata, like [`FileStamp::of`].
    #[must_use]
    pub fn of_metadata(metadata: &Metadata) -> Option<Self> {
        let stamp = Stamp::of_times(metadata).ok()?;
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
fn inode(metadata: &Metadata) -> String {
    use std::os::unix::fs::MetadataExt;
    format!("{}:{}", metadata.dev(), metadata.ino())
}

#[cfg(not(unix))]
fn inode(_metadata: &Metadata) -> String {
    NO_TAG.to_owned()
}

#[cfg(unix)]
fn changed(metadata: &Metadata) -> Option<i128> {
    use std::os::unix::fs::MetadataExt;
    Some(i128::from(metadata.ctime()) * 1_000_000_000 + i128::from(metadata.ctime_nsec()))
}

#[cfg(not(unix))]
fn changed(_metadata: &Metadata) -> Option<i128> {
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
