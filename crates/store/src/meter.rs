//! Counts rows and bytes of a load for its progress callback.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::load_report::LoadCounts;
use crate::source::{LoadProgress, ProgressCallback};

/// Counts rows and bytes, and calls the callback.
#[derive(Clone)]
pub(crate) struct Meter {
    callback: Option<ProgressCallback>,
    rows_total: Option<u64>,
    columns: u64,
    cells: Arc<AtomicU64>,
    counts: Arc<LoadCounts>,
    bytes_encoded: Arc<AtomicU64>,
}

impl Meter {
    pub(crate) fn new(callback: Option<ProgressCallback>, rows_total: Option<u64>, columns: usize) -> Self {
        Self {
            callback,
            rows_total,
            columns: columns.max(1) as u64,
            cells: Arc::default(),
            counts: Arc::default(),
            bytes_encoded: Arc::default(),
        }
    }

    /// The same, counting in `counts`.
    pub(crate) fn with_counts(self, counts: &Arc<LoadCounts>) -> Self {
        Self {
            counts: Arc::clone(counts),
            ..self
        }
    }

    /// The counts of the load.
    pub(crate) fn counts(&self) -> &LoadCounts {
        &self.counts
    }

    /// Number of encoded cells (rows times columns) so far, and their bytes.
    pub(crate) fn totals(&self) -> (u64, u64) {
        (
            self.cells.load(Ordering::Relaxed),
            self.bytes_encoded.load(Ordering::Relaxed),
        )
    }

    /// Adds a column of a chunk.
    pub(crate) fn add(&self, rows: u64, bytes_read: u64, bytes_encoded: u64) {
        let cells = self.cells.fetch_add(rows, Ordering::Relaxed) + rows;
        let bytes_read = self.counts.add_read(bytes_read);
        let bytes_encoded = self.bytes_encoded.fetch_add(bytes_encoded, Ordering::Relaxed) + bytes_encoded;
        if let Some(callback) = &self.callback {
            let rows_done = cells / self.columns;
            callback(LoadProgress {
                rows_done,
                rows_total: self.rows_total,
                bytes_read,
                bytes_encoded,
            });
        }
    }
}
