//! One load: columns of one version of the files, to be read and encoded.

use std::sync::Arc;

use crate::error::{MEMORY_LIMIT_KNOB, Result, StoreError};
use crate::ingest::ChunkEncoder;
use crate::load_report::LoadCounts;
use crate::meter::Meter;
use crate::source::{LoadHints, ProgressCallback};
use crate::version::{Loader, Version};

use super::files::TableFiles;
use super::part::Part;

/// The columns to read, and the requirements on them.
#[derive(Clone, Copy)]
pub(super) struct Load<'a> {
    pub(super) files: &'a TableFiles,
    pub(super) version: &'a Arc<Version>,
    /// The rows to read.
    pub(super) part: &'a Part,
    /// Indices into the table's schema.
    pub(super) columns: &'a [usize],
    pub(super) hints: &'a LoadHints,
    pub(super) progress: Option<&'a ProgressCallback>,
    pub(super) counts: &'a Arc<LoadCounts>,
    /// The locks that the load holds.
    pub(super) loaders: &'a [Arc<Loader>],
}

impl Load<'_> {
    /// The encoder of the columns, in chunks of the version's size. `rows` is the total for progress reports,
    /// if known.
    ///
    /// # Errors
    /// [`StoreError::StoreLimit`] at once, if an earlier load of some of these columns needed more than the
    /// limit; or a column's type has no encoding.
    pub(super) fn encoder(&self, rows: Option<u64>) -> Result<Arc<ChunkEncoder>> {
        let TableFiles {
            store, name, schema, ..
        } = self.files;
        self.check_known()?;
        let schema = schema.project(self.columns)?;
        let meter = Meter::new(self.progress.cloned(), rows, self.columns.len()).with_counts(self.counts);
        let dictionary = |index: usize| self.hints.dictionary.contains(&self.columns[index]);
        ChunkEncoder::with_chunk_rows(store, name, &schema, dictionary, meter, self.version.chunk_target)
    }

    /// Whether a thread of usual priority waits for columns of the load.
    pub(super) fn is_awaited(&self) -> impl Fn() -> bool + Clone + Send + 'static {
        let loaders: Arc<[_]> = self.loaders.into();
        move || loaders.iter().any(|loader| loader.is_awaited())
    }

    /// # Errors
    /// [`StoreError::StoreLimit`] if an earlier load of some of these columns needed more than the limit.
    pub(super) fn check_known(&self) -> Result<()> {
        let limit = self.files.store.memory_limit();
        match self.version.known_too_large(self.columns, limit) {
            Some(needed) if self.part.slice.is_none() => Err(self.too_large(needed, 0)),
            _ => Ok(()),
        }
    }

    /// The error that the columns need more than the store's limit; other columns use `used` bytes of it. It
    /// is recorded, so that later loads of this version need not try.
    pub(super) fn refuse(&self, needed: u64, used: u64) -> StoreError {
        // The size of a slice is not recorded: other slices may fit.
        if self.part.slice.is_none() {
            self.version.refuse(self.columns, needed);
        }
        self.too_large(needed, used)
    }

    fn too_large(&self, needed: u64, used: u64) -> StoreError {
        StoreError::StoreLimit {
            table: self.files.name.clone(),
            needed,
            used,
            limit: self.files.store.memory_limit(),
            knob: MEMORY_LIMIT_KNOB,
        }
    }
}
