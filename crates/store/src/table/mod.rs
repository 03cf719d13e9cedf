//! Tables that live in the store: an immutable snapshot of encoded columns, replaced as a whole by inserts.
//!
//! Readers hold the [`Snapshot`] they planned with, so an insert never changes what a running query sees. An
//! insert appends chunks: last chunks of no more rows than come are taken up again together with those, and
//! where the new rows fit a column's encoding (width, factor, dictionary) the earlier chunks are shared with
//! the snapshot before, with their identities. Where they do not, the column is encoded anew.

mod layouts;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::common::Constraints;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::ExecutionPlan;
use galatea_memory::Identity;
use parking_lot::RwLock;
use rayon::prelude::*;

use crate::column::{Column, Encoding};
use crate::decode::Decoder;
use crate::encode::{ColumnEncoder, LocalChunk};
use crate::error::{Result, StoreError};
use crate::ingest::{
    ChunkEncoder, Chunker, EncodedChunk, Meter, encode_rest, ingest_plan, ingest_stream, on_pool,
};
use crate::placed::ConflictLayout;
use crate::source::{ColumnSource, LoadHints, ProgressCallback, TableId, TableView};
use crate::store::Store;

pub(crate) use self::layouts::{relaid, relaid_if_possible};

/// One version of a stored table.
#[derive(Debug)]
pub struct Snapshot {
    store: Arc<Store>,
    name: String,
    schema: SchemaRef,
    /// Names this version.
    pub id: TableId,
    /// Rows of each chunk.
    pub chunk_rows: Vec<u32>,
    /// All columns, in schema order.
    pub columns: Vec<Arc<Column>>,
    /// Columns that shall be placed, and are where that is possible.
    pub layouts: BTreeMap<usize, ConflictLayout>,
    /// Dictionary versions of text columns, made when first asked for.
    dictionaries: tokio::sync::Mutex<HashMap<usize, Arc<Column>>>,
}

impl Snapshot {
    /// Rows in all chunks.
    pub fn rows(&self) -> u64 {
        self.chunk_rows.iter().map(|rows| u64::from(*rows)).sum()
    }

    /// Name of the table.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// All columns.
    pub fn view(&self) -> TableView {
        TableView {
            id: self.id,
            schema: Arc::clone(&self.schema),
            rows: self.rows(),
            chunk_rows: self.chunk_rows.clone(),
            columns: self.columns.clone(),
        }
    }

    /// Decodes the whole table.
    pub(crate) fn decode(&self) -> Result<Vec<RecordBatch>> {
        self.decode_chunks(0..self.chunk_rows.len())
    }

    fn decode_chunks(&self, chunks: std::ops::Range<usize>) -> Result<Vec<RecordBatch>> {
        let decoders = self
            .columns
            .iter()
            .map(Decoder::new)
            .collect::<Result<Vec<_>>>()?;
        let mut batches = Vec::new();
        for chunk in chunks {
            let rows = self.chunk_rows[chunk] as usize;
            let mut start = 0;
            while start < rows {
                let fitting = decoders
                    .iter()
                    .map(|decoder| decoder.batch_rows(chunk, start, rows - start))
                    .min();
                let end = start + fitting.unwrap_or(rows - start);
                let arrays = decoders.iter().map(|decoder| decoder.decode(chunk, start..end));
                let arrays = arrays.collect::<Result<Vec<_>>>()?;
                let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(end - start));
                batches.push(RecordBatch::try_new_with_options(
                    Arc::clone(&self.schema),
                    arrays,
                    &options,
                )?);
                start = end;
            }
        }
        Ok(batches)
    }

    /// The column as a dictionary, encoding it anew where it is not.
    async fn dictionary(&self, index: usize) -> Result<Arc<Column>> {
        let column = &self.columns[index];
        if !matches!(column.encoding, Encoding::Text { .. }) {
            return Ok(Arc::clone(column));
        }
        let mut dictionaries = self.dictionaries.lock().await;
        if let Some(column) = dictionaries.get(&index) {
            return Ok(Arc::clone(column));
        }
        let (store, name, schema) = (
            Arc::clone(&self.store),
            self.name.clone(),
            Arc::clone(&self.schema),
        );
        let text = Arc::clone(column);
        let made = on_pool(move || text_to_dictionary(&store, &name, &schema, index, &text)).await?;
        dictionaries.insert(index, Arc::clone(&made));
        Ok(made)
    }
}

/// Encodes a text column again, as a dictionary.
pub(crate) fn text_to_dictionary(
    store: &Arc<Store>,
    table: &str,
    schema: &SchemaRef,
    index: usize,
    column: &Arc<Column>,
) -> Result<Arc<Column>> {
    let schema = schema.project(&[index])?;
    let encoder = ChunkEncoder::new(store, table, &schema, |_| true, Meter::new(None, None, 1))?;
    let chunks = encoder.reencode(&encoder.encoders[0], column, column.chunks.len())?;
    encoder.finish_column(&encoder.encoders[0], chunks)
}

#[async_trait]
impl ColumnSource for Snapshot {
    fn name(&self) -> &str {
        Self::name(self)
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn identity(&self) -> TableId {
        self.id
    }

    fn kept(&self, columns: &[usize], _hints: &LoadHints) -> Option<Vec<Arc<Column>>> {
        columns
            .iter()
            .map(|index| self.columns.get(*index).cloned())
            .collect()
    }

    async fn load(
        &self,
        columns: &[usize],
        hints: &LoadHints,
        _progress: Option<ProgressCallback>,
    ) -> Result<TableView> {
        check_columns(columns, self.columns.len())?;
        let mut encoded = Vec::with_capacity(columns.len());
        for index in columns {
            encoded.push(match hints.dictionary.contains(index) {
                true => self.dictionary(*index).await?,
                false => Arc::clone(&self.columns[*index]),
            });
        }
        Ok(TableView {
            id: self.id,
            schema: Arc::new(self.schema.project(columns)?),
            rows: self.rows(),
            chunk_rows: self.chunk_rows.clone(),
            columns: encoded,
        })
    }
}

/// # Errors
/// [`StoreError::UnknownColumn`] for an index that is not below `count`.
pub(crate) fn check_columns(columns: &[usize], count: usize) -> Result<()> {
    match columns.iter().find(|index| **index >= count) {
        Some(index) => Err(StoreError::UnknownColumn {
            index: *index,
            columns: count,
        }),
        None => Ok(()),
    }
}

/// A table held encoded in host memory. Cheap to clone; clones are the same table.
#[derive(Debug, Clone)]
pub struct StoredTable {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    store: Arc<Store>,
    name: String,
    schema: SchemaRef,
    constraints: Constraints,
    defaults: HashMap<String, Expr>,
    current: RwLock<Current>,
    /// Held by the one insert, delete or update that is changing the table.
    change: Arc<tokio::sync::Mutex<()>>,
}

/// The current snapshot, and what tells holders of its plans when it is not current any more.
#[derive(Debug)]
struct Current {
    snapshot: Arc<Snapshot>,
    identity: Arc<Identity>,
}

impl Current {
    fn new(snapshot: Arc<Snapshot>) -> RwLock<Self> {
        RwLock::new(Self {
            snapshot,
            identity: Arc::default(),
        })
    }
}

impl Shared {
    /// Makes a snapshot the current one.
    fn set_current(&self, snapshot: Snapshot) {
        let after = Current::new(Arc::new(snapshot)).into_inner();
        let before = std::mem::replace(&mut *self.current.write(), after);
        // Told after the lock is free: holders let go of what they made of the snapshot before.
        drop(before);
    }
}

impl StoredTable {
    /// Encodes record batches, on the calling thread and rayon's.
    ///
    /// # Errors
    /// A column's type has no encoding, or the store's memory limit is reached.
    pub fn from_batches(
        store: &Arc<Store>,
        name: &str,
        schema: SchemaRef,
        batches: impl IntoIterator<Item = RecordBatch>,
    ) -> Result<Self> {
        let encoder = ChunkEncoder::new(store, name, &schema, |_| false, Meter::new(None, None, 1))?;
        let chunks = encode_batches(&encoder, batches)?;
        Self::from_chunks(&encoder, schema, chunks)
    }

    /// Encodes a stream.
    ///
    /// # Errors
    /// The stream's, a column's type has no encoding, or the store's memory limit is reached.
    pub async fn from_stream(
        store: &Arc<Store>,
        name: &str,
        stream: SendableRecordBatchStream,
        progress: Option<ProgressCallback>,
    ) -> Result<Self> {
        let schema = stream.schema();
        let meter = Meter::new(progress, None, schema.fields().len());
        let encoder = ChunkEncoder::new(store, name, &schema, |_| false, meter)?;
        let _cancel = encoder.cancellation.on_drop();
        let ingested = ingest_stream(Arc::clone(&encoder), stream).await?;
        let mut chunks = ingested.chunks;
        let mut rest = Chunker::new(encoder.chunk_rows);
        ingested.rest.into_iter().for_each(|batch| rest.push(batch));
        chunks.extend(encode_rest(&encoder, rest).await?);
        let finisher = Arc::clone(&encoder);
        on_pool(move || Self::from_chunks(&finisher, schema, chunks)).await
    }

    /// Executes a plan and encodes what it gives. Rows keep the order of partitions and, with a single
    /// partition, the plan's.
    ///
    /// # Errors
    /// The plan's, a column's type has no encoding, or the store's memory limit is reached.
    pub async fn from_plan(
        store: &Arc<Store>,
        name: &str,
        plan: &Arc<dyn ExecutionPlan>,
        context: &Arc<TaskContext>,
        progress: Option<ProgressCallback>,
    ) -> Result<Self> {
        let schema = plan.schema();
        let meter = Meter::new(progress, None, schema.fields().len());
        let encoder = ChunkEncoder::new(store, name, &schema, |_| false, meter)?;
        let _cancel = encoder.cancellation.on_drop();
        let chunks = ingest_plan(&encoder, plan, context, false).await?;
        let finisher = Arc::clone(&encoder);
        on_pool(move || Self::from_chunks(&finisher, schema, chunks)).await
    }

    fn from_chunks(encoder: &ChunkEncoder, schema: SchemaRef, chunks: Vec<EncodedChunk>) -> Result<Self> {
        let snapshot = snapshot(encoder, &schema, chunks)?;
        Ok(Self {
            shared: Arc::new(Shared {
                store: Arc::clone(&encoder.store),
                name: encoder.table.clone(),
                schema,
                constraints: Constraints::default(),
                defaults: HashMap::new(),
                current: Current::new(Arc::new(snapshot)),
                change: Arc::default(),
            }),
        })
    }

    /// The same data with constraints and column defaults, as `CREATE TABLE` states them.
    #[must_use]
    pub fn with_definition(self, constraints: Constraints, defaults: HashMap<String, Expr>) -> Self {
        let shared = &self.shared;
        Self {
            shared: Arc::new(Shared {
                store: Arc::clone(&shared.store),
                name: shared.name.clone(),
                schema: Arc::clone(&shared.schema),
                constraints,
                defaults,
                current: Current::new(self.snapshot()),
                change: Arc::default(),
            }),
        }
    }

    /// The version that is current now.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.shared.current.read().snapshot)
    }

    /// The version that is current now, and an identity that goes when the table is dropped or has another
    /// version. Who keeps what holds the version's snapshot, a plan for instance, keeps a weak reference to
    /// the identity and asks to be told.
    pub fn version(&self) -> (TableId, Arc<Identity>) {
        let current = self.shared.current.read();
        (current.snapshot.id, Arc::clone(&current.identity))
    }

    /// The store the table is in.
    pub fn store(&self) -> &Arc<Store> {
        &self.shared.store
    }

    /// Name of the table.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    pub(crate) fn table_schema(&self) -> &SchemaRef {
        &self.shared.schema
    }

    pub(crate) fn table_constraints(&self) -> &Constraints {
        &self.shared.constraints
    }

    pub(crate) fn default_of(&self, column: &str) -> Option<&Expr> {
        self.shared.defaults.get(column)
    }

    /// Appends rows: a new snapshot, atomically. Rows appended.
    ///
    /// # Errors
    /// As [`Self::from_batches`]; the table is then unchanged.
    pub async fn append(&self, batches: Vec<RecordBatch>) -> Result<u64> {
        let change = self.lock_changes().await;
        let table = self.clone();
        on_pool(move || {
            // Held until the work is done, even when nobody waits for it any more.
            let _change = change;
            table.append_now(batches)
        })
        .await
    }

    fn append_now(&self, batches: Vec<RecordBatch>) -> Result<u64> {
        let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
        if rows == 0 {
            return Ok(0);
        }
        let Shared {
            store, name, schema, ..
        } = self.shared.as_ref();
        let before = self.snapshot();
        let encoder = ChunkEncoder::new(store, name, schema, |_| false, Meter::new(None, None, 1))?;
        let kept = kept_chunks(&before.chunk_rows, rows, encoder.chunk_rows);
        let tail = before.decode_chunks(kept..before.chunk_rows.len())?;
        let added = encode_batches(&encoder, tail.into_iter().chain(batches))?;
        let added_rows = chunk_rows(&added);
        let columns = transpose(encoder.encoders.len(), added);
        let append = |((encoder_of, column), added): ((&ColumnEncoder, &Arc<Column>), Vec<_>)| {
            let added = match encoder.extend_column(encoder_of, column, kept, added)? {
                Ok(extended) => return Ok(extended),
                Err(added) => added,
            };
            let mut chunks = encoder.reencode(encoder_of, column, kept)?;
            chunks.extend(added);
            encoder.finish_column(encoder_of, chunks)
        };
        let columns = encoder
            .encoders
            .par_iter()
            .zip(&before.columns)
            .zip(columns)
            .map(append);
        let after = Snapshot {
            store: Arc::clone(store),
            name: name.clone(),
            schema: Arc::clone(schema),
            id: TableId::next(),
            chunk_rows: before.chunk_rows[..kept]
                .iter()
                .copied()
                .chain(added_rows)
                .collect(),
            columns: columns.collect::<Result<Vec<_>>>()?,
            layouts: before.layouts.clone(),
            dictionaries: tokio::sync::Mutex::default(),
        };
        self.shared.set_current(after.relaid()?);
        Ok(rows as u64)
    }

    /// Replaces all rows, atomically.
    pub(crate) fn replace(&self, batches: Vec<RecordBatch>) -> Result<()> {
        let Shared {
            store, name, schema, ..
        } = self.shared.as_ref();
        let encoder = ChunkEncoder::new(store, name, schema, |_| false, Meter::new(None, None, 1))?;
        let chunks = encode_batches(&encoder, batches)?;
        let layouts = self.snapshot().layouts.clone();
        let after = Snapshot {
            layouts,
            ..snapshot(&encoder, schema, chunks)?
        };
        self.shared.set_current(after.relaid()?);
        Ok(())
    }

    /// Keeps others from changing the table.
    pub(crate) async fn lock_changes(&self) -> tokio::sync::OwnedMutexGuard<()> {
        Arc::clone(&self.shared.change).lock_owned().await
    }
}

/// How many chunks stay as they are when `added` rows come. The last ones are encoded again together with the
/// new rows as long as they are no more than those: then inserts leave few small chunks, however many there
/// are, and a row is seldom encoded again. What is taken up fits one chunk.
fn kept_chunks(chunk_rows: &[u32], added: usize, target: usize) -> usize {
    let mut kept = chunk_rows.len();
    let mut taken = 0;
    while let Some(last) = kept.checked_sub(1).map(|last| chunk_rows[last] as usize) {
        if last > added + taken || taken + last >= target {
            break;
        }
        taken += last;
        kept -= 1;
    }
    kept
}

/// Encodes batches that are all there, chunks in parallel.
fn encode_batches(
    encoder: &ChunkEncoder,
    batches: impl IntoIterator<Item = RecordBatch>,
) -> Result<Vec<EncodedChunk>> {
    let mut chunker = Chunker::new(encoder.chunk_rows);
    batches.into_iter().for_each(|batch| chunker.push(batch));
    let mut chunks: Vec<Vec<RecordBatch>> = std::iter::from_fn(|| chunker.pop()).collect();
    chunks.extend(chunker.rest());
    chunks
        .into_par_iter()
        .map(|batches| encoder.encode(&batches))
        .collect()
}

fn snapshot(encoder: &ChunkEncoder, schema: &SchemaRef, chunks: Vec<EncodedChunk>) -> Result<Snapshot> {
    let chunk_rows = chunk_rows(&chunks);
    Ok(Snapshot {
        store: Arc::clone(&encoder.store),
        name: encoder.table.clone(),
        schema: Arc::clone(schema),
        id: TableId::next(),
        chunk_rows,
        columns: encoder.finish(chunks)?,
        layouts: BTreeMap::new(),
        dictionaries: tokio::sync::Mutex::default(),
    })
}

fn chunk_rows(chunks: &[EncodedChunk]) -> Vec<u32> {
    chunks.iter().map(|chunk| chunk.rows).collect()
}

/// Columns of chunks instead of chunks of columns.
fn transpose(columns: usize, chunks: Vec<EncodedChunk>) -> Vec<Vec<LocalChunk>> {
    let mut transposed: Vec<Vec<LocalChunk>> = (0..columns).map(|_| Vec::new()).collect();
    for chunk in chunks {
        transposed
            .iter_mut()
            .zip(chunk.columns)
            .for_each(|(column, local)| column.push(local));
    }
    transposed
}

#[async_trait]
impl ColumnSource for StoredTable {
    fn name(&self) -> &str {
        Self::name(self)
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.shared.schema)
    }

    fn identity(&self) -> TableId {
        self.shared.current.read().snapshot.id
    }

    fn kept(&self, columns: &[usize], hints: &LoadHints) -> Option<Vec<Arc<Column>>> {
        self.snapshot().kept(columns, hints)
    }

    async fn load(
        &self,
        columns: &[usize],
        hints: &LoadHints,
        progress: Option<ProgressCallback>,
    ) -> Result<TableView> {
        self.snapshot().load(columns, hints, progress).await
    }
}
