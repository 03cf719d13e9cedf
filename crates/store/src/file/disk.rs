//! Columns of a file table in the cache on disk.

use std::sync::Arc;
use std::time::Instant;

use galatea_device::HostMemory;
use rayon::prelude::*;

use super::files::TableFiles;
use super::load::Load;
use crate::column::Column;
use crate::digest::{Digest, Record};
use crate::disk_cache::{ColumnKey, ColumnMemory, DiskCache, StoredColumn, Unusable};
use crate::error::{Result, StoreError};
use crate::ledger::Reservation;
use crate::meter::Meter;
use crate::pool::{Cancellation, on_pool};
use crate::store::Store;
use crate::version::{FileKey, Version};

/// The keys of a table's columns in the cache.
#[derive(Debug)]
pub(super) struct DiskKeys {
    pub(super) cache: Arc<DiskCache>,
    table: Record,
    contents: Digest,
}

/// A column that was read from the cache.
#[derive(Debug)]
pub(super) struct DiskColumn {
    pub(super) index: usize,
    pub(super) column: Arc<Column>,
    /// Its file.
    pub(super) stored: Arc<StoredColumn>,
}

impl DiskKeys {
    /// The keys of a version of a table. `None` if columns are not cached on disk, or if the stamps do not
    /// prove that the files are unchanged.
    pub(super) fn of(files: &TableFiles, key: &FileKey, version: &Version) -> Option<Self> {
        let store = &files.store;
        let cache = store.disk_cache()?;
        let contents = version.digest()?;
        let mut table = key.record();
        table.number(version.chunk_target as u64);
        table.field(format!("{:?}", store.packing()));
        table.field(files.partitions());
        Some(Self {
            cache,
            table,
            contents,
        })
    }

    /// The key of a column.
    pub(super) fn column(&self, index: usize) -> ColumnKey {
        let mut record = self.table.clone();
        record.number(index as u64);
        ColumnKey::new(&record, self.contents)
    }

    /// Reads those of the columns that are in the cache, in an encoding that satisfies the hints.
    ///
    /// # Errors
    /// The columns do not fit the store. A file that cannot be used is no error.
    pub(super) async fn read(self: &Arc<Self>, load: Load<'_>) -> Result<Vec<DiskColumn>> {
        let started = Instant::now();
        let (keys, columns) = (Arc::clone(self), load.columns.to_vec());
        let dictionary = load.hints.dictionary.clone();
        let found = on_pool(move || Ok(keys.find(&columns, &dictionary))).await?;
        if found.is_empty() {
            return Ok(Vec::new());
        }
        load.check_known()?;
        let needed: u64 = found.iter().map(|(_, stored)| stored.bytes()).sum();
        let rows = found.first().map_or(0, |(_, stored)| {
            stored.chunk_rows().iter().map(|rows| u64::from(*rows)).sum()
        });
        // Another load with its own progress follows for the other columns.
        let progress = load.progress.filter(|_| found.len() == load.columns.len());
        let reading = Reading {
            keys: Arc::clone(self),
            store: Arc::clone(&load.files.store),
            table: load.files.name.clone(),
            reservation: Reservation::new(&load.files.store.ledger),
            cancellation: Cancellation::default(),
            meter: Meter::new(progress.cloned(), Some(rows), found.len()),
        };
        let _cancel = reading.cancellation.on_drop();
        let schema = Arc::clone(&load.files.schema);
        let read = on_pool(move || {
            let columns = found.into_par_iter().map(|(index, stored)| {
                let field = schema.field(index);
                let column = reading.read(field.name(), field.data_type(), &stored)?;
                Ok(column.map(|column| DiskColumn {
                    index,
                    column,
                    stored: Arc::new(stored),
                }))
            });
            columns.filter_map(Result::transpose).collect::<Result<Vec<_>>>()
        });
        let read = match read.await {
            Err(StoreError::StoreLimit {
                needed: more, used, ..
            }) => return Err(load.refuse(needed.max(more), used)),
            read => read?,
        };
        let bytes = read.iter().map(|column| column.stored.length()).sum();
        load.counts
            .add_from_disk(read.len() as u64, bytes, started.elapsed());
        for column in load.columns {
            if read.iter().all(|read| read.index != *column) {
                load.version.forget_on_disk(*column);
            }
        }
        Ok(read)
    }

    /// The files of columns.
    fn find(&self, columns: &[usize], dictionary: &[usize]) -> Vec<(usize, StoredColumn)> {
        let found = columns.iter().filter_map(|index| {
            let stored = self.cache.find(&self.column(*index))?;
            let satisfies = !stored.is_text() || !dictionary.contains(index);
            satisfies.then_some((*index, stored))
        });
        found.collect()
    }
}

/// The state of a load from the cache.
struct Reading {
    keys: Arc<DiskKeys>,
    store: Arc<Store>,
    table: String,
    reservation: Reservation,
    cancellation: Cancellation,
    meter: Meter,
}

impl Reading {
    /// Reads one column. `None` if its file cannot be used.
    fn read(
        &self,
        name: &str,
        data_type: &arrow::datatypes::DataType,
        stored: &StoredColumn,
    ) -> Result<Option<Arc<Column>>> {
        self.cancellation.check()?;
        let bytes = stored.bytes();
        self.store.admit(&self.table, &self.reservation, bytes)?;
        let slabs = stored
            .slabs()
            .iter()
            .map(|bytes| self.store.allocate(*bytes as usize));
        let memory = ColumnMemory {
            slabs: slabs.collect::<Result<Vec<HostMemory>>>()?,
        };
        let read = stored.read((name, data_type), memory, &self.cancellation);
        let column = match read {
            Ok((column, slabs)) => {
                let ledger = &self.store.ledger;
                for slab in &slabs {
                    ledger.track_slab(slab, slab.len() as u64);
                }
                if let Some(values) = column.dictionary() {
                    ledger.track_dictionary(values);
                }
                self.meter.add(column.rows(), stored.length(), bytes);
                self.keys.cache.was_read(stored);
                Some(Arc::new(column))
            }
            Err(Unusable::Load(error)) => return Err(error),
            Err(reason) => {
                self.keys.cache.could_not_read(stored, &reason);
                None
            }
        };
        self.reservation.shrink(bytes);
        Ok(column)
    }
}
