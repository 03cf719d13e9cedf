//! The store: one memory limit over all encoded columns of an engine.
//!
//! Stored tables are the only copy of their data and are never evicted. Columns of files are copies that can
//! be read again: they are cached while memory allows. If a load needs memory, they are evicted column by
//! column, the least recently used first. A column that a query still reads is not evicted, since that would
//! free nothing. A load that does not get the memory it needs fails with [`StoreError::StoreLimit`], which
//! contains the sizes. The caller then streams the data instead.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use galatea_device::{HostMemory, MachineMemory};
use parking_lot::Mutex;

use crate::column::Column;
use crate::disk_cache::DiskCache;
use crate::error::{MEMORY_LIMIT_KNOB, Result, StoreError};
use crate::ledger::{Ledger, Reservation};
use crate::packed::Packing;
use crate::page_decoder::PageDecoder;
use crate::source::TableId;
use crate::version::FileVersions;

/// Target number of rows of a chunk.
pub(crate) const DEFAULT_CHUNK_ROWS: usize = 1 << 20;

/// Settings of a [`Store`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreOptions {
    /// Host memory for encoded columns, in bytes; `None` is half of the machine's memory.
    pub memory_limit: Option<u64>,
    /// Target number of rows of a chunk. Batches are gathered up to it; a Parquet chunk holds the whole row
    /// groups that fit.
    pub chunk_rows: usize,
    /// The codes that are packed.
    pub packing: Packing,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            memory_limit: None,
            chunk_rows: DEFAULT_CHUNK_ROWS,
            packing: Packing::default(),
        }
    }
}

/// Encoded columns under a memory limit.
#[derive(Debug)]
pub struct Store {
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) file_versions: FileVersions,
    chunk_rows: AtomicUsize,
    packing: Mutex<Packing>,
    page_decoder: Mutex<Option<Arc<PageDecoder>>>,
    disk_cache: Mutex<Option<Arc<DiskCache>>>,
    cache: Mutex<Cache>,
    /// Held during admission, so that two loads do not both count on the same free bytes.
    admission: Mutex<()>,
}

/// Columns of files, by table version and index in the table's schema.
#[derive(Debug, Default)]
struct Cache {
    columns: HashMap<(TableId, usize), CachedColumn>,
    clock: u64,
    /// Number of times so far that columns were evicted or dropped.
    eviction_epoch: u64,
}

#[derive(Debug)]
struct CachedColumn {
    column: Arc<Column>,
    last_used: u64,
}

impl Store {
    /// An empty store.
    pub fn new(options: StoreOptions) -> Arc<Self> {
        let limit = options.memory_limit.unwrap_or_else(default_memory_limit);
        Arc::new(Self {
            ledger: Arc::new(Ledger::new(limit)),
            file_versions: FileVersions::default(),
            chunk_rows: AtomicUsize::new(chunk_target(options.chunk_rows)),
            packing: Mutex::new(options.packing),
            page_decoder: Mutex::default(),
            disk_cache: Mutex::default(),
            cache: Mutex::default(),
            admission: Mutex::default(),
        })
    }

    /// Target number of rows of a chunk.
    pub fn chunk_rows(&self) -> usize {
        self.chunk_rows.load(Ordering::Relaxed)
    }

    /// Changes the target number of rows of a chunk. Stored tables keep their chunks; files are read again.
    pub fn set_chunk_rows(&self, rows: usize) {
        self.chunk_rows.store(chunk_target(rows), Ordering::Relaxed);
    }

    /// The codes that are packed.
    pub fn packing(&self) -> Packing {
        *self.packing.lock()
    }

    /// Changes which codes are packed. Columns that are encoded already keep theirs.
    pub fn set_packing(&self, packing: Packing) {
        *self.packing.lock() = packing;
    }

    /// The device that decodes pages of Parquet files; none if the host does.
    pub fn page_decoder(&self) -> Option<Arc<PageDecoder>> {
        self.page_decoder.lock().clone()
    }

    /// Changes which device decodes pages of Parquet files, for later loads.
    pub fn set_page_decoder(&self, decoder: Option<Arc<PageDecoder>>) {
        *self.page_decoder.lock() = decoder;
    }

    /// The cache of columns of files on disk; none if they are not cached there.
    pub fn disk_cache(&self) -> Option<Arc<DiskCache>> {
        self.disk_cache.lock().clone()
    }

    /// Changes the cache of columns of files on disk, for later loads.
    pub fn set_disk_cache(&self, cache: Option<Arc<DiskCache>>) {
        *self.disk_cache.lock() = cache;
    }

    /// Host memory for encoded columns, in bytes.
    pub fn memory_limit(&self) -> u64 {
        self.ledger.limit()
    }

    /// Host memory for data spilled from a device, under the store's limit.
    pub fn spill_memory(self: &Arc<Self>) -> SpillMemory {
        SpillMemory {
            store: Arc::clone(self),
            reservation: Reservation::new(&self.ledger),
        }
    }

    /// Changes the limit. A lower one takes effect with the next load.
    pub fn set_memory_limit(&self, bytes: u64) {
        self.ledger.set_limit(bytes);
    }

    /// Bytes of encoded columns alive now, wherever they are referenced, and of columns being encoded.
    pub fn memory_used(&self) -> u64 {
        self.ledger.used()
    }

    /// The number of cached columns of files.
    pub fn cached_columns(&self) -> usize {
        self.cache.lock().columns.len()
    }

    /// Drops all cached columns of files. Columns in use stay in memory until their last reader is done.
    pub fn clear_cache(&self) {
        let mut cache = self.cache.lock();
        cache.columns.clear();
        cache.eviction_epoch += 1;
    }

    /// Number of times so far that columns of files were evicted or dropped. While it is the same, every
    /// column found earlier is still cached.
    pub fn eviction_epoch(&self) -> u64 {
        self.cache.lock().eviction_epoch
    }

    pub(crate) fn cached(&self, table: TableId, column: usize) -> Option<Arc<Column>> {
        let mut cache = self.cache.lock();
        cache.clock += 1;
        let now = cache.clock;
        let cached = cache.columns.get_mut(&(table, column))?;
        cached.last_used = now;
        Some(Arc::clone(&cached.column))
    }

    pub(crate) fn keep(&self, table: TableId, index: usize, column: &Arc<Column>) {
        let mut cache = self.cache.lock();
        cache.clock += 1;
        let last_used = cache.clock;
        cache.columns.insert(
            (table, index),
            CachedColumn {
                column: Arc::clone(column),
                last_used,
            },
        );
    }

    /// Drops the columns of a table version that is no longer current.
    pub(crate) fn forget(&self, table: TableId) {
        let mut cache = self.cache.lock();
        cache.columns.retain(|(id, _), _| *id != table);
        cache.eviction_epoch += 1;
    }

    /// Drops a column, if it is cached.
    pub(crate) fn drop_cached(&self, table: TableId, column: usize) {
        let mut cache = self.cache.lock();
        if cache.columns.remove(&(table, column)).is_some() {
            cache.eviction_epoch += 1;
        }
    }

    /// Adds bytes to a load's reservation, evicting columns if necessary.
    ///
    /// # Errors
    /// [`StoreError::StoreLimit`] if the limit does not allow them. The reported `needed` and `used` always
    /// add up to more than the limit, even if other threads change the reservation meanwhile.
    pub(crate) fn admit(&self, table: &str, reservation: &Reservation, bytes: u64) -> Result<()> {
        let _admission = self.admission.lock();
        let disk_cache = self.disk_cache();
        let mut without_copies = None;
        loop {
            // Threads that shrink the reservation do not hold the lock, so its size is read once.
            let (used, reserved) = (self.ledger.used(), reservation.bytes());
            let limit = self.ledger.limit();
            if used.saturating_add(bytes) <= limit {
                reservation.grow(bytes);
                return Ok(());
            }
            if !self.evict_one() {
                // The disk cache refers to a slab while it copies a piece of it.
                if let (None, Some(cache)) = (&without_copies, &disk_cache) {
                    without_copies = cache.without_copies();
                    if without_copies.is_some() {
                        continue;
                    }
                }
                return Err(StoreError::StoreLimit {
                    table: table.to_owned(),
                    needed: reserved + bytes,
                    used: used.saturating_sub(reserved),
                    limit,
                    knob: MEMORY_LIMIT_KNOB,
                });
            }
        }
    }

    /// Allocates host memory. While the system refuses it, columns of files are evicted.
    pub(crate) fn allocate(&self, bytes: usize) -> Result<HostMemory> {
        loop {
            match HostMemory::new(bytes) {
                Ok(memory) => return Ok(memory),
                Err(_) if self.evict_one() => {}
                Err(error) => {
                    return Err(StoreError::HostMemory {
                        bytes: bytes as u64,
                        used: self.ledger.used(),
                        reason: error.to_string(),
                        knob: MEMORY_LIMIT_KNOB,
                    });
                }
            }
        }
    }

    /// Evicts the least recently used column without a reader.
    fn evict_one(&self) -> bool {
        let mut cache = self.cache.lock();
        let unused = cache
            .columns
            .iter()
            .filter(|(_, cached)| Arc::strong_count(&cached.column) == 1);
        let oldest = unused
            .min_by_key(|(_, cached)| cached.last_used)
            .map(|(key, _)| *key);
        let evicted = oldest.and_then(|key| cache.columns.remove(&key));
        cache.eviction_epoch += u64::from(evicted.is_some());
        // Unmapping takes a while, so the cache is unlocked first.
        drop(cache);
        if let Some(evicted) = &evicted {
            tracing::debug!(
                column = evicted.column.name,
                bytes = evicted.column.bytes(),
                "evicting a column"
            );
        }
        evicted.is_some()
    }
}

/// Host memory under the store's limit for data spilled from a device; see [`Store::spill_memory`].
#[derive(Debug)]
pub struct SpillMemory {
    store: Arc<Store>,
    reservation: Reservation,
}

impl SpillMemory {
    /// Reserves bytes, evicting columns of files if necessary. Returns false if the limit does not allow
    /// them.
    pub fn take(&self, bytes: u64) -> bool {
        let admitted = self.store.admit("memory of queries", &self.reservation, bytes);
        admitted.is_ok()
    }

    /// The store's limit in bytes.
    pub fn limit(&self) -> u64 {
        self.store.memory_limit()
    }

    /// Releases bytes.
    pub fn give(&self, bytes: u64) {
        self.reservation.shrink(bytes);
    }
}

/// The target, clamped to the limits of a chunk.
fn chunk_target(rows: usize) -> usize {
    rows.clamp(1, u32::MAX as usize)
}

/// Half of the memory of the machine, or of the container.
fn default_memory_limit() -> u64 {
    MachineMemory::total() / 2
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Int64Array, RecordBatch};

    use super::*;
    use crate::table::StoredTable;

    #[test]
    fn columns_of_files_are_evicted_when_allocation_fails() {
        let store = Store::new(StoreOptions::default());
        let values: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100));
        let batch = RecordBatch::try_from_iter([("n", values)]).expect("one column");
        let table = StoredTable::from_batches(&store, "t", batch.schema(), [batch]).expect("fits");
        let column = Arc::clone(&table.snapshot().columns[0]);
        drop(table);
        store.keep(TableId::next(), 0, &column);
        // A column with a reader is not evicted.
        assert!(store.allocate(usize::MAX / 4).is_err());
        assert_eq!(store.cached_columns(), 1);
        drop(column);
        let error = store
            .allocate(usize::MAX / 4)
            .expect_err("no machine has so much");
        assert_eq!(store.cached_columns(), 0);
        assert!(error.is_refusal(), "{error}");
        assert!(error.to_string().contains(MEMORY_LIMIT_KNOB), "{error}");
        assert!(store.allocate(4096).is_ok());
    }
}
