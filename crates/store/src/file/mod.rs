//! Tables in files: columns are encoded when first used and kept while memory allows.
//!
//! DataFusion plans a scan of files as a list of byte ranges of files spread over partitions, with the
//! columns and filters of one query. A [`FileTable`] is what is behind it: the whole files, each once, in
//! order, and all their columns. A column that a query loads is read once, encoded, and kept in the [`Store`]
//! for the queries after it.
//!
//! ```text
//!  load([quantity, flag])
//!    ├─ version of the files now (size, times, inode or etag)      changed: the old version's columns are dropped
//!    ├─ columns kept of this version                               most loads end here
//!    └─ the others, one loader per column, later ones wait
//!         Parquet: footers → chunks of whole row groups → (chunk, column) pieces on all cores
//!         CSV, JSON, Arrow, Avro: DataFusion's reader, partition by partition in order
//! ```
//!
//! Files on the local file system are looked at on every load; what was written so recently that times cannot
//! tell is compared by content ([`version`]). For object stores that would cost a round trip per file and
//! query; there the version is the one DataFusion's listing saw.

mod column_bytes;
mod layout;
mod native;
mod parquet;
mod version;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use ::parquet::arrow::arrow_reader::ArrowReaderOptions;
use arrow::datatypes::{Schema, SchemaRef, TimeUnit};
use async_trait::async_trait;
use datafusion::common::ScalarValue;
use datafusion::datasource::physical_plan::parquet::ParquetAccessPlan;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfig, ParquetSource};
use datafusion::execution::runtime_env::RuntimeEnv;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use parking_lot::RwLock;

use self::native::NativeScan;
pub use self::version::FileStamp;
pub(crate) use self::version::FileVersions;
use self::version::{FileKey, Version};
use crate::column::{Column, Encoding};
use crate::error::{Result, StoreError};
use crate::ingest::on_pool;
use crate::placed::ConflictLayout;
use crate::source::{ColumnSource, LoadHints, ProgressCallback, TableId, TableView};
use crate::store::Store;
use crate::table::{check_columns, relaid, relaid_if_possible, text_to_dictionary};

/// One file of a table.
#[derive(Debug, Clone)]
struct SourceFile {
    meta: ObjectMeta,
    /// Where it is on the local file system, if it is there.
    path: Option<PathBuf>,
    /// Values of the partition columns for all its rows.
    partition_values: Vec<ScalarValue>,
}

impl SourceFile {
    fn name(&self) -> String {
        self.path.as_ref().map_or_else(
            || self.meta.location.to_string(),
            |path| path.display().to_string(),
        )
    }
}

/// How the files are read.
#[derive(Debug)]
enum Format {
    Parquet(ParquetFormat),
    /// By DataFusion.
    Native(Box<NativeScan>),
}

/// What of the Parquet options changes the columns' types.
#[derive(Debug, Clone, Default)]
struct ParquetFormat {
    int96: Option<(TimeUnit, Option<Arc<str>>)>,
}

/// A table in Parquet, CSV, JSON, Arrow or Avro files.
#[derive(Debug)]
pub struct FileTable {
    store: Arc<Store>,
    runtime: Arc<RuntimeEnv>,
    objects: Arc<dyn ObjectStore>,
    name: String,
    files: Vec<SourceFile>,
    /// Columns in the files.
    file_schema: SchemaRef,
    /// Those, then the partition columns.
    schema: SchemaRef,
    format: Format,
    key: FileKey,
    version: RwLock<Arc<Version>>,
}

impl Store {
    /// The table behind a DataFusion file scan: its files whole, each once, in order, with all columns of its
    /// table schema. The scan's own projection, filters and limit are not part of it. Filters that a Parquet
    /// source was given to apply itself (`pushdown_filters`) are the caller's to apply.
    ///
    /// # Errors
    /// [`StoreError::UnsupportedSource`] for scans that the whole files do not stand for: with virtual
    /// columns, a row selection within files, encryption, or a schema adapter of the user's.
    pub fn file_table(
        self: &Arc<Self>,
        scan: &FileScanConfig,
        runtime: &Arc<RuntimeEnv>,
    ) -> Result<Arc<FileTable>> {
        FileTable::new(self, scan, runtime).map(Arc::new)
    }
}

impl FileTable {
    fn new(store: &Arc<Store>, scan: &FileScanConfig, runtime: &Arc<RuntimeEnv>) -> Result<Self> {
        let source = &scan.file_source;
        let table_schema = source.table_schema();
        let objects = runtime.object_store(&scan.object_store_url)?;
        let files = whole_files(scan);
        let name = table_name(&files);
        let refuse = |reason: &str| {
            Err(StoreError::UnsupportedSource {
                table: name.clone(),
                reason: reason.to_owned(),
            })
        };
        if !table_schema.virtual_columns().is_empty() {
            return refuse("it has virtual columns");
        }
        if scan.expr_adapter_factory.is_some() {
            return refuse("it has a schema adapter of its own");
        }
        let selected = |file: &datafusion::datasource::listing::PartitionedFile| {
            file.extension::<ParquetAccessPlan>().is_some() || file.arrow_schema.is_some()
        };
        if scan.file_groups.iter().flat_map(FileGroup::iter).any(selected) {
            return refuse("row groups or a schema were chosen for its files by hand");
        }
        let format = match source.downcast_ref::<ParquetSource>() {
            Some(parquet) => {
                let options = parquet.table_parquet_options();
                if options.crypto.file_decryption.is_some() || options.crypto.factory_id.is_some() {
                    return refuse("its files are encrypted");
                }
                if parquet
                    .parquet_file_reader_factory()
                    .is_some_and(|factory| !is_datafusions(factory))
                {
                    return refuse("it has a reader of its own");
                }
                Format::Parquet(ParquetFormat {
                    int96: int96(&options.global)?,
                })
            }
            None if source.filter().is_some() => return refuse("its source filters rows"),
            None => Format::Native(Box::new(NativeScan::new(scan))),
        };
        let schema = Arc::clone(table_schema.table_schema());
        let key = FileKey {
            url: scan.object_store_url.as_str().to_owned(),
            files: files.iter().map(|file| file.meta.location.to_string()).collect(),
            schema: Arc::clone(&schema),
            format: format.describe(source.file_type()),
        };
        let version = store.files.current(store, &key, &files)?;
        Ok(Self {
            store: Arc::clone(store),
            runtime: Arc::clone(runtime),
            objects,
            name,
            files,
            file_schema: Arc::clone(table_schema.file_schema()),
            schema,
            format,
            key,
            version: RwLock::new(version),
        })
    }

    /// The store that keeps the columns.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// A name for messages: the file, or the first of several.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether all these columns are kept, so that loading them reads no file.
    pub fn is_loaded(&self, columns: &[usize], hints: &LoadHints) -> bool {
        self.kept(columns, hints).is_some()
    }

    /// A column that is kept and satisfies the hints.
    fn kept_column(&self, id: TableId, column: usize, hints: &LoadHints) -> Option<Arc<Column>> {
        self.store.cached(id, column).filter(|kept| {
            !matches!(kept.encoding, Encoding::Text { .. }) || !hints.dictionary.contains(&column)
        })
    }

    /// The version of the files as they are now.
    fn refresh(&self) -> Result<Arc<Version>> {
        let version = self.store.files.current(&self.store, &self.key, &self.files)?;
        *self.version.write() = Arc::clone(&version);
        Ok(version)
    }

    /// The files with what the object store says of them now.
    async fn fresh_files(&self) -> Result<Vec<SourceFile>> {
        let mut files = Vec::with_capacity(self.files.len());
        for file in &self.files {
            let mut file = file.clone();
            if file.path.is_some() {
                let head = self.objects.head(&file.meta.location).await;
                file.meta = head.map_err(|error| StoreError::Io {
                    file: file.name(),
                    source: error.into(),
                })?;
            }
            files.push(file);
        }
        Ok(files)
    }

    async fn load_version(
        &self,
        version: &Arc<Version>,
        columns: &[usize],
        hints: &LoadHints,
        progress: Option<&ProgressCallback>,
    ) -> Result<TableView> {
        let wanted: BTreeSet<usize> = columns.iter().copied().collect();
        // Loaders are taken in the order of columns, so that two loads never wait for each other.
        let mut loaders = Vec::new();
        for column in &wanted {
            loaders.push(version.loader(*column).lock_owned().await);
        }
        let mut loaded: Vec<(usize, Arc<Column>)> = Vec::new();
        let mut missing = Vec::new();
        for column in &wanted {
            match self.store.cached(version.id, *column) {
                None => missing.push(*column),
                Some(kept)
                    if matches!(kept.encoding, Encoding::Text { .. })
                        && hints.dictionary.contains(column) =>
                {
                    loaded.push((*column, self.as_dictionary(version, *column, kept).await?));
                }
                Some(kept) => loaded.push((*column, kept)),
            }
        }
        let known = version.chunk_rows.get().is_some();
        if !missing.is_empty() || !known {
            let encoded = match &self.format {
                Format::Parquet(format) => {
                    self.load_parquet(version, format, &missing, hints, progress)
                        .await?
                }
                Format::Native(scan) => self.load_native(version, scan, &missing, hints, progress).await?,
            };
            for (index, column) in missing.into_iter().zip(encoded) {
                let column = self.placed_if_wished(index, column).await?;
                self.store.keep(version.id, index, &column);
                loaded.push((index, column));
            }
        }
        drop(loaders);
        let find = |index: &usize| {
            let found = loaded.iter().find(|(column, _)| column == index);
            found
                .map(|(_, column)| Arc::clone(column))
                .ok_or_else(|| StoreError::Internal(format!("column {index} was not loaded")))
        };
        self.view(
            version,
            columns,
            columns.iter().map(find).collect::<Result<Vec<_>>>()?,
        )
    }

    /// A column that was just read, placed where that was asked for and is possible.
    async fn placed_if_wished(&self, index: usize, column: Arc<Column>) -> Result<Arc<Column>> {
        let Some(wish) = self.store.files.layout(&self.key, index) else {
            return Ok(column);
        };
        let (store, name, schema) = (
            Arc::clone(&self.store),
            self.name.clone(),
            Arc::clone(&self.schema),
        );
        on_pool(move || relaid_if_possible(&store, &name, &schema, index, column, wish)).await
    }

    /// Places columns, given by their indices, for the banks of shared memory, or has them as they are stored
    /// unplaced. Remembered for every time they are loaded, by any scan of the same files.
    ///
    /// # Errors
    /// Those of loading, and [`StoreError::NotPlaceable`] for the first that cannot be; then nothing is
    /// remembered.
    pub async fn set_conflict_layout(&self, columns: &[usize], wish: Option<ConflictLayout>) -> Result<()> {
        let view = self.load(columns, &LoadHints::default(), None).await?;
        let mut laid_out = Vec::with_capacity(columns.len());
        for (&index, column) in columns.iter().zip(view.columns) {
            let (store, name, schema) = (
                Arc::clone(&self.store),
                self.name.clone(),
                Arc::clone(&self.schema),
            );
            laid_out.push(on_pool(move || relaid(&store, &name, &schema, index, &column, wish)).await?);
        }
        for (&index, column) in columns.iter().zip(&laid_out) {
            self.store.files.set_layout(&self.key, index, wish);
            self.store.keep(view.id, index, column);
        }
        Ok(())
    }

    /// The columns, when all are kept.
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
            Some(kept) => self.view(version, columns, kept).map(Some),
            None => Ok(None),
        }
    }

    fn view(&self, version: &Version, columns: &[usize], encoded: Vec<Arc<Column>>) -> Result<TableView> {
        let chunk_rows = version.chunk_rows.get().cloned().unwrap_or_default();
        Ok(TableView {
            id: version.id,
            schema: Arc::new(self.schema.project(columns)?),
            rows: chunk_rows.iter().map(|rows| u64::from(*rows)).sum(),
            chunk_rows,
            columns: encoded,
        })
    }

    async fn as_dictionary(&self, version: &Version, index: usize, text: Arc<Column>) -> Result<Arc<Column>> {
        let (store, name, schema) = (
            Arc::clone(&self.store),
            self.name.clone(),
            Arc::clone(&self.schema),
        );
        let column = on_pool(move || text_to_dictionary(&store, &name, &schema, index, &text)).await?;
        self.store.keep(version.id, index, &column);
        Ok(column)
    }

    fn projected(&self, columns: &[usize]) -> Result<Schema> {
        Ok(self.schema.project(columns)?)
    }
}

#[async_trait]
impl ColumnSource for FileTable {
    fn name(&self) -> &str {
        Self::name(self)
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn identity(&self) -> TableId {
        self.version.read().id
    }

    fn kept(&self, columns: &[usize], hints: &LoadHints) -> Option<Vec<Arc<Column>>> {
        let id = self.identity();
        columns
            .iter()
            .map(|column| self.kept_column(id, *column, hints))
            .collect()
    }

    async fn load(
        &self,
        columns: &[usize],
        hints: &LoadHints,
        progress: Option<ProgressCallback>,
    ) -> Result<TableView> {
        check_columns(columns, self.schema.fields().len())?;
        let version = self.refresh()?;
        if let Some(view) = self.kept_view(&version, columns, hints)? {
            return Ok(view);
        }
        let result = self
            .load_version(&version, columns, hints, progress.as_ref())
            .await;
        // Files that changed while they were read gave columns of neither version, or an error of no meaning.
        let after = self.refresh()?;
        if after.id == version.id {
            return result;
        }
        let result = self.load_version(&after, columns, hints, progress.as_ref()).await;
        if self.refresh()?.id == after.id {
            return result;
        }
        Err(StoreError::Io {
            file: self.name.clone(),
            source: "it keeps changing while it is read".into(),
        })
    }
}

impl Format {
    /// What tells apart two ways of reading the same files.
    fn describe(&self, file_type: &str) -> String {
        match self {
            Self::Parquet(format) => format!("{file_type} {:?}", format.int96),
            Self::Native(scan) => format!("{file_type} {}", scan.describe()),
        }
    }
}

/// The scan's files, each once, in the order of its partitions.
fn whole_files(scan: &FileScanConfig) -> Vec<SourceFile> {
    let local = scan.object_store_url.as_str().starts_with("file://");
    let mut seen = BTreeSet::new();
    let mut files = Vec::new();
    for file in scan.file_groups.iter().flat_map(FileGroup::iter) {
        if !seen.insert(file.object_meta.location.clone()) {
            continue;
        }
        let path = PathBuf::from(format!("/{}", file.object_meta.location));
        files.push(SourceFile {
            meta: file.object_meta.clone(),
            path: (local && path.is_file()).then_some(path),
            partition_values: file.partition_values.clone(),
        });
    }
    files
}

fn table_name(files: &[SourceFile]) -> String {
    match files {
        [] => "a table without files".to_owned(),
        [file] => file.name(),
        [file, rest @ ..] => format!("{} and {} more files", file.name(), rest.len()),
    }
}

/// Whether a reader factory is one of those that DataFusion sets itself.
fn is_datafusions(
    factory: &Arc<dyn datafusion::datasource::physical_plan::ParquetFileReaderFactory>,
) -> bool {
    let text = format!("{factory:?}");
    text.starts_with("CachedParquetFileReaderFactory") || text.starts_with("DefaultParquetFileReaderFactory")
}

/// The type of INT96 columns, as DataFusion's options state it.
fn int96(options: &datafusion::config::ParquetOptions) -> Result<Option<(TimeUnit, Option<Arc<str>>)>> {
    let Some(unit) = &options.coerce_int96 else {
        return Ok(None);
    };
    let unit = match unit.as_str() {
        "ns" => TimeUnit::Nanosecond,
        "us" => TimeUnit::Microsecond,
        "ms" => TimeUnit::Millisecond,
        "s" => TimeUnit::Second,
        other => {
            return Err(StoreError::UnsupportedSource {
                table: "coerce_int96".to_owned(),
                reason: format!("unknown unit: {other}"),
            });
        }
    };
    Ok(Some((unit, options.coerce_int96_tz.as_deref().map(Arc::from))))
}

/// Options for reading a file with a schema of ours.
fn reader_options(schema: SchemaRef) -> ArrowReaderOptions {
    ArrowReaderOptions::new().with_schema(schema)
}
