//! The table behind a file scan.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::execution::runtime_env::RuntimeEnv;
use galatea_device::has_low_priority;
use parking_lot::RwLock;

use super::disk::{DiskColumn, DiskKeys};
use super::files::TableFiles;
use super::format::Format;
use super::load::Load;
use crate::column::{Column, Encoding};
use crate::error::{Result, StoreError};
use crate::layout::ConflictLayout;
use crate::load_report::{LoadCounts, LoadReport};
use crate::pool::on_pool;
use crate::reencode::Reencoder;
use crate::source::{
    ColumnOnDisk, ColumnSource, LoadHints, ProgressCallback, TableId, TableView, check_columns,
};
use crate::store::Store;
use crate::version::{FileKey, Version};

/// A table in Parquet, CSV, JSON, Arrow or Avro files.
#[derive(Debug)]
pub struct FileTable {
    pub(super) files: TableFiles,
    pub(super) format: Format,
    pub(super) key: FileKey,
    version: RwLock<Arc<Version>>,
}

/// The outcome of a load.
struct Loaded {
    view: TableView,
    /// Whole columns that were encoded by this load, by their indices.
    encoded: Vec<(usize, Arc<Column>)>,
}

impl Store {
    /// The table behind a DataFusion file scan: its files, whole, each once, in order, with all columns of
    /// its table schema. The scan's own projection, filters and limit are not part of it. The caller must
    /// apply filters that were pushed into a Parquet source (`pushdown_filters`).
    ///
    /// # Errors
    /// [`StoreError::UnsupportedSource`] for scans that are not equivalent to the whole files: with virtual
    /// columns, a row selection within files, encryption, or a user-defined schema adapter.
    pub fn file_table(
        self: &Arc<Self>,
        scan: &FileScanConfig,
        runtime: &Arc<RuntimeEnv>,
    ) -> Result<Arc<FileTable>> {
        FileTable::new(self, scan, runtime).map(Arc::new)
    }
}

/// Number of columns that a background thread loads at once: a query that needs one of them waits for all.
const COLUMNS_AT_ONCE: usize = 4;

impl FileTable {
    fn new(store: &Arc<Store>, scan: &FileScanConfig, runtime: &Arc<RuntimeEnv>) -> Result<Self> {
        let files = TableFiles::of(store, scan, runtime)?;
        let format = Format::of(scan, &files.name)?;
        let locations = files.listed.iter().map(|file| file.meta.location.to_string());
        let key = FileKey::new(
            scan.object_store_url.as_str().to_owned(),
            locations.collect(),
            Arc::clone(&files.schema),
            format.describe(scan.file_source.file_type()),
        );
        let version = current_version(&files, &key)?;
        Ok(Self {
            files,
            format,
            key,
            version: RwLock::new(version),
        })
    }

    /// The store that caches the columns.
    pub fn store(&self) -> &Arc<Store> {
        &self.files.store
    }

    /// The name in messages: the file, or the first of several.
    pub fn name(&self) -> &str {
        &self.files.name
    }

    /// Whether all these columns are cached, so that loading them reads no file.
    pub fn is_loaded(&self, columns: &[usize], hints: &LoadHints) -> bool {
        self.kept(columns, hints).is_some()
    }

    /// A cached column that satisfies the hints.
    pub(super) fn kept_column(&self, id: TableId, column: usize, hints: &LoadHints) -> Option<Arc<Column>> {
        self.files.store.cached(id, column).filter(|kept| {
            !matches!(kept.encoding, Encoding::Text { .. }) || !hints.dictionary.contains(&column)
        })
    }

    /// The current version of the files.
    fn refresh(&self) -> Result<Arc<Version>> {
        let version = current_version(&self.files, &self.key)?;
        *self.version.write() = Arc::clone(&version);
        Ok(version)
    }

    async fn load_version(
        &self,
        version: &Arc<Version>,
        columns: &[usize],
        hints: &LoadHints,
        progress: Option<&ProgressCallback>,
    ) -> Result<Loaded> {
        let wanted: BTreeSet<usize> = columns.iter().copied().collect();
        let part = {
            let wanted: Vec<usize> = wanted.iter().copied().collect();
            self.part(version, &wanted, hints).await?
        };
        let mut encoded: Vec<(usize, Arc<Column>)> = Vec::new();
        if part.slice.is_none() && has_low_priority() && wanted.len() > COLUMNS_AT_ONCE {
            let all: Vec<usize> = wanted.iter().copied().collect();
            for columns in all.chunks(COLUMNS_AT_ONCE) {
                let hints = LoadHints {
                    predicates: Vec::new(),
                    ..hints.clone()
                };
                let loaded = Box::pin(self.load_version(version, columns, &hints, None)).await?;
                encoded.extend(loaded.encoded);
            }
        }
        let id = part.id(version);
        let mut loaded: Vec<(usize, Arc<Column>)> = Vec::new();
        let mut missing = Vec::new();
        let (mut loaders, mut locks) = (Vec::new(), Vec::new());
        // Loaders are locked in the order of columns, so that two loads never wait for each other.
        for column in &wanted {
            // Another load may be encoding a dictionary of the cached column.
            if let Some(kept) = self.kept_column(id, *column, hints) {
                loaded.push((*column, kept));
                continue;
            }
            let loader = version.loader(*column);
            let lock = loader.lock().await;
            if let Some(kept) = self.kept_column(id, *column, hints) {
                loaded.push((*column, kept));
            } else if let Some(text) = self.files.store.cached(id, *column) {
                let kept = self.as_dictionary(id, *column, text).await?;
                encoded.push((*column, Arc::clone(&kept)));
                loaded.push((*column, kept));
            } else {
                missing.push(*column);
                loaders.push(loader);
                locks.push(lock);
            }
        }
        let (started, counts) = (Instant::now(), Arc::<LoadCounts>::default());
        let load = |columns| Load {
            files: &self.files,
            version,
            part: &part,
            columns,
            hints,
            progress,
            counts: &counts,
            loaders: &loaders,
        };
        let keys = self.disk_keys(version).filter(|_| part.slice.is_none());
        let on_disk = match (missing.is_empty(), keys) {
            (false, Some(keys)) => Arc::new(keys).read(load(&missing)).await?,
            _ => Vec::new(),
        };
        let is_read = |column: &usize| on_disk.iter().any(|read| read.index == *column);
        let of_files: Vec<usize> = missing
            .iter()
            .copied()
            .filter(|column| !is_read(column))
            .collect();
        if let (true, Some(read)) = (of_files.is_empty(), on_disk.first()) {
            version.chunk_rows.get_or_init(|| read.stored.chunk_rows());
        }
        let mut read = Vec::new();
        let has_chunks = part.slice.is_some() || version.chunk_rows.get().is_some();
        if !of_files.is_empty() || !has_chunks {
            let columns = self.format.load(load(&of_files)).await?;
            read.extend(of_files.iter().copied().zip(columns));
        }
        let (on_disk, rejected) = self.with_chunks_of(version, on_disk);
        if !rejected.is_empty() {
            let columns = self.format.load(load(&rejected)).await?;
            read.extend(rejected.iter().copied().zip(columns));
        }
        for (index, column) in read {
            let column = match part.slice {
                Some(_) => column,
                None => self.with_requested_layout(index, column).await?,
            };
            self.files.store.keep(id, index, &column);
            part.read(version, index);
            encoded.push((index, Arc::clone(&column)));
            loaded.push((index, column));
        }
        for DiskColumn { index, column, .. } in on_disk {
            let column = self.with_requested_layout(index, column).await?;
            self.files.store.keep(version.id, index, &column);
            loaded.push((index, column));
        }
        let report = (!missing.is_empty()).then(|| {
            let report = LoadReport {
                pruning: part.pruning,
                ..counts.report(started.elapsed())
            };
            tracing::debug!(table = self.files.name, columns = ?missing, ?report, "columns were loaded");
            Arc::new(report)
        });
        match part.slice {
            Some(_) => encoded.clear(),
            None => self.drop_slices(version, &missing),
        }
        drop(locks);
        let find = |index: &usize| {
            let found = loaded.iter().find(|(column, _)| column == index);
            found
                .map(|(_, column)| Arc::clone(column))
                .ok_or_else(|| StoreError::Internal(format!("column {index} was not loaded")))
        };
        let found = columns.iter().map(find).collect::<Result<Vec<_>>>()?;
        let view = TableView {
            loaded: report,
            ..self.view(id, part.chunk_rows(version), columns, found)?
        };
        Ok(Loaded { view, encoded })
    }

    /// Drops the columns from the slices: they were loaded whole.
    fn drop_slices(&self, version: &Version, columns: &[usize]) {
        for id in version.slices.ids() {
            columns
                .iter()
                .for_each(|column| self.files.store.drop_cached(id, *column));
        }
    }

    /// The keys of the columns in the cache on disk; `None` without a cache, or if the files may have
    /// changed.
    pub(super) fn disk_keys(&self, version: &Version) -> Option<DiskKeys> {
        DiskKeys::of(&self.files, &self.key, version)
    }

    /// Those columns from the cache on disk that have the chunks of the version, and the indices of the
    /// others, which are removed from the cache.
    fn with_chunks_of(&self, version: &Version, columns: Vec<DiskColumn>) -> (Vec<DiskColumn>, Vec<usize>) {
        let rows = version.chunk_rows.get();
        let has_chunks = |read: &DiskColumn| Some(&read.stored.chunk_rows()) == rows;
        let (same, other): (Vec<_>, Vec<_>) = columns.into_iter().partition(has_chunks);
        if let Some(cache) = self.files.store.disk_cache() {
            other.iter().for_each(|read| cache.reject(&read.stored));
        }
        (same, other.iter().map(|read| read.index).collect())
    }

    /// The view of a load of the current version. Columns that it encoded are written to the cache on disk,
    /// in the background.
    fn finished(&self, version: &Version, loaded: Loaded) -> TableView {
        let keys = (!loaded.encoded.is_empty())
            .then(|| self.disk_keys(version))
            .flatten();
        if let Some(keys) = keys {
            for (index, column) in &loaded.encoded {
                version.forget_on_disk(*index);
                keys.cache.write_later(keys.column(*index), column);
            }
        }
        loaded.view
    }

    /// A column that was just read, in its requested layout if possible.
    async fn with_requested_layout(&self, index: usize, column: Arc<Column>) -> Result<Arc<Column>> {
        let Some(layout) = self.files.store.file_versions.layout(&self.key, index) else {
            return Ok(column);
        };
        let encoder = self.reencoder(index)?;
        on_pool(move || encoder.laid_out_if_possible(column, layout)).await
    }

    /// Lays the columns with these indices out for the banks of shared memory, or stores them without a
    /// layout (`None`). Every later load of the same files does the same, for any scan.
    ///
    /// # Errors
    /// An error of loading, or [`StoreError::NoLayout`] for the first column that cannot have a layout; the
    /// layouts then remain as before.
    pub async fn set_conflict_layout(&self, columns: &[usize], layout: Option<ConflictLayout>) -> Result<()> {
        let view = self.load(columns, &LoadHints::default(), None).await?;
        let mut laid_out = Vec::with_capacity(columns.len());
        for (&index, column) in columns.iter().zip(view.columns) {
            let encoder = self.reencoder(index)?;
            laid_out.push(on_pool(move || encoder.laid_out(&column, layout)).await?);
        }
        for (&index, column) in columns.iter().zip(&laid_out) {
            self.files
                .store
                .file_versions
                .set_layout(&self.key, index, layout);
            self.files.store.keep(view.id, index, column);
        }
        Ok(())
    }

    /// The columns, if all are cached.
    fn kept_view(
        &self,
        version: &Version,
        columns: &[usize],
        hints: &LoadHints,
    ) -> Result<Option<TableView>> {
        if version.chunk_rows.get().is_none() {
            return Ok(None);
        }
        let kept = columns
            .iter()
            .map(|column| self.kept_column(version.id, *column, hints));
        match kept.collect::<Option<Vec<_>>>() {
            Some(kept) => {
                let chunk_rows = version.chunk_rows.get().cloned().unwrap_or_default();
                self.view(version.id, chunk_rows, columns, kept).map(Some)
            }
            None => Ok(None),
        }
    }

    fn view(
        &self,
        id: TableId,
        chunk_rows: Vec<u32>,
        columns: &[usize],
        encoded: Vec<Arc<Column>>,
    ) -> Result<TableView> {
        Ok(TableView {
            id,
            schema: Arc::new(self.files.schema.project(columns)?),
            rows: chunk_rows.iter().map(|rows| u64::from(*rows)).sum(),
            chunk_rows,
            columns: encoded,
            loaded: None,
        })
    }

    async fn as_dictionary(&self, id: TableId, index: usize, text: Arc<Column>) -> Result<Arc<Column>> {
        let encoder = self.reencoder(index)?;
        let column = on_pool(move || encoder.as_dictionary(&text)).await?;
        self.files.store.keep(id, index, &column);
        Ok(column)
    }

    fn reencoder(&self, index: usize) -> Result<Reencoder> {
        let TableFiles {
            store, name, schema, ..
        } = &self.files;
        Reencoder::new(store, name, schema, index)
    }
}

#[async_trait]
impl ColumnSource for FileTable {
    fn name(&self) -> &str {
        Self::name(self)
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.files.schema)
    }

    fn identity(&self) -> TableId {
        self.version.read().id
    }

    fn kept(&self, columns: &[usize], hints: &LoadHints) -> Option<Vec<Arc<Column>>> {
        let version = Arc::clone(&self.version.read());
        let whole = columns
            .iter()
            .map(|column| self.kept_column(version.id, *column, hints));
        whole
            .collect::<Option<Vec<_>>>()
            .or_else(|| self.kept_part(&version, columns, hints))
    }

    fn on_disk(&self, column: usize, hints: &LoadHints) -> Option<ColumnOnDisk> {
        let version = Arc::clone(&self.version.read());
        let find = || {
            let keys = self.disk_keys(&version)?;
            let stored = keys.cache.find(&keys.column(column))?;
            Some(ColumnOnDisk {
                bytes: stored.bytes(),
                is_text: stored.is_text(),
            })
        };
        let found = version.on_disk(column, find)?;
        (!found.is_text || !hints.dictionary.contains(&column)).then_some(found)
    }

    async fn is_clustered(&self, column: usize) -> bool {
        let version = Arc::clone(&self.version.read());
        let clustered = match &self.format {
            Format::Parquet(parquet) => parquet.is_clustered(&self.files, &version, column).await,
            Format::Native(_) => Ok(false),
        };
        clustered.unwrap_or(false)
    }

    async fn load(
        &self,
        columns: &[usize],
        hints: &LoadHints,
        progress: Option<ProgressCallback>,
    ) -> Result<TableView> {
        check_columns(columns, self.files.schema.fields().len())?;
        let version = self.refresh()?;
        if let Some(view) = self.kept_view(&version, columns, hints)? {
            return Ok(view);
        }
        let result = self
            .load_version(&version, columns, hints, progress.as_ref())
            .await;
        // The files changed while they were read: the columns are of neither version, or the error is
        // meaningless.
        let after = self.refresh()?;
        if after.id == version.id {
            return result.map(|loaded| self.finished(&after, loaded));
        }
        let result = self.load_version(&after, columns, hints, progress.as_ref()).await;
        if self.refresh()?.id == after.id {
            return result.map(|loaded| self.finished(&after, loaded));
        }
        Err(StoreError::Io {
            file: self.files.name.clone(),
            source: "it keeps changing while it is read".into(),
        })
    }
}

/// The current version of the files. Columns of a version that is no longer current are dropped.
fn current_version(files: &TableFiles, key: &FileKey) -> Result<Arc<Version>> {
    let store = &files.store;
    let forget = |version| store.forget(version);
    store
        .file_versions
        .current(key, &files.listed, store.chunk_rows(), forget)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use datafusion::dataframe::DataFrameWriteOptions;
    use datafusion::datasource::source::DataSourceExec;
    use datafusion::prelude::{ParquetReadOptions, SessionContext};

    use super::*;
    use crate::StoreOptions;

    #[tokio::test]
    async fn load_does_not_wait_for_the_load_of_a_cached_column() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("t.parquet").display().to_string();
        let context = SessionContext::new();
        let rows = context
            .sql("SELECT 'a' AS a, 1 AS b, 2 AS c, 3 AS d, 4 AS e, 5 AS f")
            .await
            .expect("rows");
        rows.write_parquet(&path, DataFrameWriteOptions::new(), None)
            .await
            .expect("a file");
        let table = context.read_parquet(&path, ParquetReadOptions::default()).await;
        let plan = table
            .expect("a table")
            .create_physical_plan()
            .await
            .expect("a scan");
        let source = plan
            .downcast_ref::<DataSourceExec>()
            .expect("a scan")
            .data_source();
        let scan = source.downcast_ref::<FileScanConfig>().expect("files");
        let store = Store::new(StoreOptions::default());
        let table = store.file_table(scan, &context.runtime_env()).expect("a table");
        let load = async |columns: &[usize], hints: &LoadHints| {
            let load = table.load(columns, hints, None);
            tokio::time::timeout(Duration::from_secs(1), load).await
        };
        let any = LoadHints::default();
        load(&[0], &any).await.expect("in time").expect("loaded");
        let version = Arc::clone(&table.version.read());
        let lock = version.loader(0).lock().await;
        let view = load(&[0, 1], &any).await.expect("in time").expect("loaded");
        assert_eq!(view.columns.len(), 2);
        drop(lock);
        // A background thread loads columns in groups, which it keeps one by one.
        store.clear_cache();
        let columns: Vec<usize> = (0..6).collect();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                galatea_device::lower_thread_priority();
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                runtime.expect("a runtime").block_on(async {
                    let lock = version.loader(5).lock().await;
                    load(&columns, &any).await.expect_err("another load has the lock");
                    drop(lock);
                });
            });
        });
        assert!(table.is_loaded(&[0, 1, 2, 3], &any) && !table.is_loaded(&[4], &any));
        let _lock = version.loader(1).lock().await;
        store.clear_cache();
        load(&[1], &any).await.expect_err("another load has the lock");
    }
}
