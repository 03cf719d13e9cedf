//! Keys of columns in the cache.

use crate::digest::{Digest, Record};

/// Version of the files and of the records behind their keys. A change of either, or of an encoding within
/// one version of the crate, must change it.
pub(super) const FORMAT_VERSION: u32 = 1;

/// Identifies a column and its contents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ColumnKey {
    /// Digest of everything but the contents of the source files: their locations, the schema, the options of
    /// reading and encoding. It is the name of the file, so the column of a changed table replaces the old
    /// one.
    pub(super) column: Digest,
    /// Digest of the stamps of the source files.
    pub(super) contents: Digest,
}

impl ColumnKey {
    /// The key of a column: `column` is the record of the column, `contents` the digest of the stamps.
    pub(crate) fn new(column: &Record, contents: Digest) -> Self {
        let mut record = column.clone();
        record.number(FORMAT_VERSION.into());
        record.field(env!("CARGO_PKG_VERSION"));
        record.field(if cfg!(target_endian = "little") {
            "little"
        } else {
            "big"
        });
        Self {
            column: record.finish(),
            contents,
        }
    }

    /// Name of the file.
    pub(super) fn file_name(&self) -> String {
        let hex = self.column.iter().map(|byte| format!("{byte:02x}"));
        hex.collect::<String>() + SUFFIX
    }
}

/// Ending of the names of files in the cache.
pub(super) const SUFFIX: &str = ".column";
