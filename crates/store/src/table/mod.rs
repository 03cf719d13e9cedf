//! Tables that reside in the store: an immutable snapshot of encoded columns, replaced as a whole by inserts.
//!
//! Readers hold the [`Snapshot`] that they were planned with, so an insert never changes the rows of a
//! running query. An insert appends chunks. The last chunks are encoded again together with the new rows if
//! they have at most as many rows. If the new rows fit a column's encoding (width, factor, dictionary), the
//! earlier chunks are shared with the previous snapshot, with their identities. If not, the column is encoded
//! again.

mod snapshot;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::ExecutionPlan;
use galatea_memory::Identity;
use parking_lot::RwLock;
use rayon::prelude::*;

pub use self::snapshot::Snapshot;
use crate::column::Column;
use crate::encode::{ColumnEncoder, LocalChunk};
use crate::error::Result;
use crate::ingest::{ChunkEncoder, Chunker, EncodedChunk, encode_rest, ingest_plan, ingest_stream};
use crate::layout::ConflictLayout;
use crate::meter::Meter;
use crate::pool::on_pool;
use crate::reencode::Reencoder;
use crate::source::{ColumnSource, LoadHints, ProgressCallback, TableId, TableView, check_columns};
use crate::store::Store;

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
    defaults: HashMap<String, Expr>,
    current: RwLock<Current>,
    /// Held by the insert, delete or update that is changing the table.
    change: Arc<tokio::sync::Mutex<()>>,
}

/// The current snapshot, and an identity. Holders of plans over the snapshot are notified when it is dropped.
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
    /// Sets the current snapshot.
    fn set_current(&self, snapshot: Snapshot) {
        let after = Current::new(Arc::new(snapshot)).into_inner();
        let before = std::mem::replace(&mut *self.current.write(), after);
        // Notified after the lock is released: holders drop objects derived from the previous snapshot.
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
    /// An error of the stream, a column type without an encoding, or the store's memory limit is reached.
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

    /// Executes a plan and encodes its rows. Rows keep the order of partitions and, with a single partition,
    /// the plan's.
    ///
    /// # Errors
    /// An error of the plan, a column type without an encoding, or the store's memory limit is reached.
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
        let snapshot = snapshot(encoder, &schema, chunks, BTreeMap::new())?;
        Ok(Self {
            shared: Arc::new(Shared {
                store: Arc::clone(&encoder.store),
                name: encoder.table.clone(),
                schema,
                defaults: HashMap::new(),
                current: Current::new(Arc::new(snapshot)),
                change: Arc::default(),
            }),
        })
    }

    /// The same data with the column defaults of `CREATE TABLE`. Its keys are not enforced, so planners do
    /// not see them.
    #[must_use]
    pub fn with_defaults(self, defaults: HashMap<String, Expr>) -> Self {
        let shared = &self.shared;
        Self {
            shared: Arc::new(Shared {
                store: Arc::clone(&shared.store),
                name: shared.name.clone(),
                schema: Arc::clone(&shared.schema),
                defaults,
                current: Current::new(self.snapshot()),
                change: Arc::default(),
            }),
        }
    }

    /// The current version.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.shared.current.read().snapshot)
    }

    /// The current version, and an identity that is dropped when the table is dropped or gets another
    /// version. A cache of objects that hold the snapshot, such as plans, keeps a weak reference to the
    /// identity and subscribes to its drop ([`Identity::tell`]).
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

    pub(crate) fn default_of(&self, column: &str) -> Option<&Expr> {
        self.shared.defaults.get(column)
    }

    /// Appends rows as a new snapshot, atomically. Returns the number of appended rows.
    ///
    /// # Errors
    /// As [`Self::from_batches`]; the table is then unchanged.
    pub async fn append(&self, batches: Vec<RecordBatch>) -> Result<u64> {
        let change = self.lock_changes().await;
        let table = self.clone();
        on_pool(move || {
            // Held until the work is done, even if the caller stops waiting.
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
        let chunk_rows = before.chunk_rows[..kept].iter().copied().chain(added_rows);
        let (chunk_rows, columns) = (chunk_rows.collect(), columns.collect::<Result<Vec<_>>>()?);
        let after = Snapshot::new(store, name, schema, chunk_rows, columns, before.layouts.clone());
        self.shared.set_current(after.with_layouts()?);
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
        let after = snapshot(&encoder, schema, chunks, layouts)?;
        self.shared.set_current(after.with_layouts()?);
        Ok(())
    }

    /// Lays the columns with these indices out for the banks of shared memory, or stores them without a
    /// layout (`None`), as a new snapshot, atomically. Later inserts keep the layout. Rows keep their order.
    ///
    /// # Errors
    /// [`StoreError::NoLayout`](crate::StoreError::NoLayout) for the first column that cannot have the
    /// layout, [`StoreError::UnknownColumn`](crate::StoreError::UnknownColumn), or the store's memory limit
    /// is reached; the table is then unchanged.
    pub async fn set_conflict_layout(&self, columns: &[usize], layout: Option<ConflictLayout>) -> Result<()> {
        check_columns(columns, self.shared.schema.fields().len())?;
        let change = self.lock_changes().await;
        let (table, indices) = (self.clone(), columns.to_vec());
        on_pool(move || {
            let _change = change;
            table.lay_out_now(&indices, layout)
        })
        .await
    }

    fn lay_out_now(&self, indices: &[usize], layout: Option<ConflictLayout>) -> Result<()> {
        let Shared {
            store, name, schema, ..
        } = self.shared.as_ref();
        let before = self.snapshot();
        let (mut columns, mut layouts) = (before.columns.clone(), before.layouts.clone());
        for &index in indices {
            columns[index] = Reencoder::new(store, name, schema, index)?.laid_out(&columns[index], layout)?;
            match layout {
                Some(layout) => layouts.insert(index, layout),
                None => layouts.remove(&index),
            };
        }
        let chunk_rows = before.chunk_rows.clone();
        let after = Snapshot::new(store, name, schema, chunk_rows, columns, layouts);
        self.shared.set_current(after);
        Ok(())
    }

    /// Excludes other changes of the table until the guard is dropped.
    pub(crate) async fn lock_changes(&self) -> tokio::sync::OwnedMutexGuard<()> {
        Arc::clone(&self.shared.change).lock_owned().await
    }
}

/// Number of chunks that an append of `added` rows leaves as they are. The last chunks are encoded again
/// together with the new rows, as long as they have no more rows than those and all fit one chunk. Small
/// inserts thus leave few small chunks, and each row is encoded a logarithmic number of times.
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

/// Encodes batches that are in memory, chunks in parallel.
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

fn snapshot(
    encoder: &ChunkEncoder,
    schema: &SchemaRef,
    chunks: Vec<EncodedChunk>,
    layouts: BTreeMap<usize, ConflictLayout>,
) -> Result<Snapshot> {
    let chunk_rows = chunk_rows(&chunks);
    let columns = encoder.finish(chunks)?;
    let (store, table) = (&encoder.store, &encoder.table);
    Ok(Snapshot::new(store, table, schema, chunk_rows, columns, layouts))
}

fn chunk_rows(chunks: &[EncodedChunk]) -> Vec<u32> {
    chunks.iter().map(|chunk| chunk.rows).collect()
}

/// The chunks, grouped by column.
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
