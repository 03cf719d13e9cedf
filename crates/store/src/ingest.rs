//! Encoding of streams of record batches as columns.
//!
//! Batches are gathered into chunks ([`Chunker`]). A full chunk is encoded on the thread pool while the next
//! one arrives ([`ChunkEncoder`]). When the stream ends, each column is planned and written ([`finish`]).
//! Memory in flight is two chunks of Arrow data per partition plus the chunks already narrowed.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::Schema;
use datafusion::error::DataFusionError;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::StreamExt;
use rayon::prelude::*;
use tokio::task::JoinSet;

use crate::column::Column;
use crate::decode::Decoder;
use crate::dense::DenseColumn;
use crate::encode::{ColumnEncoder, LocalChunk, Plan};
use crate::error::{Result, StoreError};
use crate::layout::ConflictLayout;
use crate::ledger::Reservation;
use crate::meter::Meter;
use crate::pool::{Cancellation, on_pool};
use crate::store::Store;

/// Cuts a sequence of batches into chunks.
#[derive(Debug)]
pub(crate) struct Chunker {
    chunk_rows: usize,
    pending: Vec<RecordBatch>,
    rows: usize,
    full: VecDeque<Vec<RecordBatch>>,
}

impl Chunker {
    pub(crate) fn new(chunk_rows: usize) -> Self {
        Self {
            chunk_rows,
            pending: Vec::new(),
            rows: 0,
            full: VecDeque::new(),
        }
    }

    pub(crate) fn push(&mut self, mut batch: RecordBatch) {
        while batch.num_rows() > 0 {
            let take = batch.num_rows().min(self.chunk_rows - self.rows);
            self.pending.push(batch.slice(0, take));
            self.rows += take;
            batch = batch.slice(take, batch.num_rows() - take);
            if self.rows == self.chunk_rows {
                self.rows = 0;
                self.full.push_back(std::mem::take(&mut self.pending));
            }
        }
    }

    /// A full chunk, if one is available.
    pub(crate) fn pop(&mut self) -> Option<Vec<RecordBatch>> {
        self.full.pop_front()
    }

    /// The rows that do not fill a chunk, if any remain. All full chunks must have been taken.
    pub(crate) fn rest(self) -> Option<Vec<RecordBatch>> {
        (!self.pending.is_empty()).then_some(self.pending)
    }
}

/// The columns of one chunk, encoded.
#[derive(Debug)]
pub(crate) struct EncodedChunk {
    pub(crate) rows: u32,
    pub(crate) columns: Vec<LocalChunk>,
}

/// Encodes chunks of record batches.
pub(crate) struct ChunkEncoder {
    pub(crate) table: String,
    /// Target number of rows of a chunk.
    pub(crate) chunk_rows: usize,
    pub(crate) encoders: Vec<ColumnEncoder>,
    pub(crate) store: Arc<Store>,
    pub(crate) reservation: Reservation,
    pub(crate) cancellation: Cancellation,
    pub(crate) meter: Meter,
}

impl ChunkEncoder {
    pub(crate) fn new(
        store: &Arc<Store>,
        table: &str,
        schema: &Schema,
        dictionary: impl Fn(usize) -> bool,
        meter: Meter,
    ) -> Result<Arc<Self>> {
        Self::with_chunk_rows(store, table, schema, dictionary, meter, store.chunk_rows())
    }

    /// Like [`Self::new`], for chunks of a given target size.
    pub(crate) fn with_chunk_rows(
        store: &Arc<Store>,
        table: &str,
        schema: &Schema,
        dictionary: impl Fn(usize) -> bool,
        meter: Meter,
        chunk_rows: usize,
    ) -> Result<Arc<Self>> {
        let packing = store.packing();
        let fields = schema.fields().iter().enumerate();
        let encoders = fields.map(|(index, field)| ColumnEncoder::new(field, dictionary(index), packing));
        Ok(Arc::new(Self {
            table: table.to_owned(),
            chunk_rows,
            encoders: encoders.collect::<Result<Vec<_>>>()?,
            store: Arc::clone(store),
            reservation: Reservation::new(&store.ledger),
            cancellation: Cancellation::default(),
            meter,
        }))
    }

    /// Encodes one chunk, columns in parallel.
    pub(crate) fn encode(&self, batches: &[RecordBatch]) -> Result<EncodedChunk> {
        let columns = self.encoders.par_iter().enumerate().map(|(index, encoder)| {
            self.cancellation.check()?;
            let arrays: Vec<ArrayRef> = batches
                .iter()
                .map(|batch| Arc::clone(batch.column(index)))
                .collect();
            self.account(encoder.encode(&arrays)?, 0)
        });
        let rows = batches.iter().map(RecordBatch::num_rows).sum::<usize>() as u32;
        Ok(EncodedChunk {
            rows,
            columns: columns.collect::<Result<Vec<_>>>()?,
        })
    }

    /// Reserves the memory of an encoded column of a chunk, evicting other columns if necessary.
    pub(crate) fn account(&self, chunk: LocalChunk, bytes_read: u64) -> Result<LocalChunk> {
        let bytes = chunk.size();
        self.store.admit(&self.table, &self.reservation, bytes)?;
        self.meter.add(u64::from(chunk.rows), bytes_read, bytes);
        Ok(chunk)
    }

    /// Plans and writes all columns of these chunks.
    pub(crate) fn finish(&self, chunks: Vec<EncodedChunk>) -> Result<Vec<Arc<Column>>> {
        let mut columns: Vec<Vec<LocalChunk>> = self.encoders.iter().map(|_| Vec::new()).collect();
        for chunk in chunks {
            for (column, local) in columns.iter_mut().zip(chunk.columns) {
                column.push(local);
            }
        }
        let finish =
            |(encoder, chunks): (&ColumnEncoder, Vec<LocalChunk>)| self.finish_column(encoder, chunks);
        // Processing one column at a time keeps only one column twice in memory, but few chunks would leave
        // threads idle.
        let few = columns
            .first()
            .is_none_or(|chunks| chunks.len() < rayon::current_num_threads());
        if few {
            self.encoders.par_iter().zip(columns).map(finish).collect()
        } else {
            self.encoders.iter().zip(columns).map(finish).collect()
        }
    }

    /// The first `kept` chunks of a column as they are, followed by more in the same encoding. If the
    /// encoding cannot hold them, the new chunks are returned.
    pub(crate) fn extend_column(
        &self,
        encoder: &ColumnEncoder,
        column: &Arc<Column>,
        kept: usize,
        added: Vec<LocalChunk>,
    ) -> Result<Result<Arc<Column>, Vec<LocalChunk>>> {
        let narrowed: u64 = added.iter().map(LocalChunk::size).sum();
        Ok(match encoder.plan_like(column, kept, added) {
            Ok(plan) => Ok(Arc::new(column.extended(kept, self.write(narrowed, plan)?))),
            Err(added) => Err(added),
        })
    }

    /// Encodes the first `kept` chunks of a column again.
    pub(crate) fn reencode(
        &self,
        encoder: &ColumnEncoder,
        column: &Arc<Column>,
        kept: usize,
    ) -> Result<Vec<LocalChunk>> {
        let decoder = Decoder::new(column)?;
        let chunks = (0..kept).into_par_iter().map(|chunk| {
            let rows = column.chunks[chunk].rows as usize;
            let mut arrays = Vec::new();
            let mut start = 0;
            while start < rows {
                let end = start + decoder.batch_rows(chunk, start, rows - start);
                arrays.push(decoder.decode(chunk, start..end)?);
                start = end;
            }
            self.account(encoder.encode(&arrays)?, 0)
        });
        chunks.collect()
    }

    /// Lays a column out for the banks of shared memory. Memory for the codes of its rows is reserved until
    /// it is written.
    pub(crate) fn lay_out_column(
        &self,
        encoder: &ColumnEncoder,
        column: &Column,
        layout: ConflictLayout,
    ) -> Result<Arc<Column>> {
        let refused = |reason| StoreError::NoLayout {
            column: encoder.name.clone(),
            reason,
        };
        let dense = DenseColumn::of(column).map_err(refused)?;
        let codes = size_of::<u32>() as u64 * column.rows();
        self.store.admit(&self.table, &self.reservation, codes)?;
        let (layout, slots) = dense.laid_out(layout).map_err(refused)?;
        Ok(Arc::new(
            self.write(codes, encoder.plan_slots(column, layout, slots))?,
        ))
    }

    /// Plans and writes one column.
    pub(crate) fn finish_column(
        &self,
        encoder: &ColumnEncoder,
        chunks: Vec<LocalChunk>,
    ) -> Result<Arc<Column>> {
        self.cancellation.check()?;
        let narrowed: u64 = chunks.iter().map(LocalChunk::size).sum();
        Ok(Arc::new(self.write(narrowed, encoder.plan(chunks)?)?))
    }

    /// Writes a planned column. Its chunks have so far been counted with `narrowed` bytes.
    fn write(&self, narrowed: u64, plan: Plan) -> Result<Column> {
        let bytes = plan.bytes();
        // The narrowed chunks become the column, so its memory is counted instead of theirs.
        self.reservation.shrink(narrowed);
        self.store.admit(&self.table, &self.reservation, bytes)?;
        let column = plan.write(&self.store.ledger, &self.cancellation, |bytes| {
            self.store.allocate(bytes)
        });
        self.reservation.shrink(bytes);
        column
    }
}

/// The chunks of one stream, and the rows that do not fill one.
pub(crate) struct Ingested {
    pub(crate) chunks: Vec<EncodedChunk>,
    pub(crate) rest: Vec<RecordBatch>,
}

/// Reads a stream to its end. One chunk is encoded while the next one is gathered.
pub(crate) async fn ingest_stream(
    encoder: Arc<ChunkEncoder>,
    mut stream: SendableRecordBatchStream,
) -> Result<Ingested> {
    check_schema_of(&encoder, &stream)?;
    let mut chunker = Chunker::new(encoder.chunk_rows);
    let mut chunks = Vec::new();
    let mut running: Option<tokio::task::JoinHandle<Result<EncodedChunk>>> = None;
    while let Some(batch) = stream.next().await {
        encoder.cancellation.check()?;
        chunker.push(batch?);
        while let Some(batches) = chunker.pop() {
            if let Some(previous) = running.take() {
                chunks.push(joined(previous.await)?);
            }
            let encoder = Arc::clone(&encoder);
            running = Some(tokio::spawn(on_pool(move || encoder.encode(&batches))));
        }
    }
    if let Some(previous) = running.take() {
        chunks.push(joined(previous.await)?);
    }
    Ok(Ingested {
        chunks,
        rest: chunker.rest().unwrap_or_default(),
    })
}

fn check_schema_of(encoder: &ChunkEncoder, stream: &SendableRecordBatchStream) -> Result<()> {
    let schema = stream.schema();
    let columns = schema.fields().len();
    if columns == encoder.encoders.len() {
        Ok(())
    } else {
        Err(StoreError::UnsupportedSource {
            table: encoder.table.clone(),
            reason: format!(
                "a stream has {columns} columns, its plan announced {}",
                encoder.encoders.len()
            ),
        })
    }
}

fn joined<T>(result: Result<Result<T>, tokio::task::JoinError>) -> Result<T> {
    match result {
        Ok(result) => result,
        Err(error) if error.is_cancelled() => Err(StoreError::Cancelled),
        // The stream's code panicked, not the store's.
        Err(error) => Err(StoreError::DataFusion(Box::new(DataFusionError::ExecutionJoin(
            Box::new(error),
        )))),
    }
}

/// Executes all partitions of a plan and encodes their rows, partition by partition in order. The caller
/// cancels when it is dropped. With `keep_order`, rows keep that order, and a partition ends with a chunk
/// that may be small. Otherwise the rows that fill no chunk are encoded last, together.
pub(crate) async fn ingest_plan(
    encoder: &Arc<ChunkEncoder>,
    plan: &Arc<dyn ExecutionPlan>,
    context: &Arc<TaskContext>,
    keep_order: bool,
) -> Result<Vec<EncodedChunk>> {
    let partitions = plan.output_partitioning().partition_count();
    let mut tasks = JoinSet::new();
    for partition in 0..partitions {
        let stream = plan.execute(partition, Arc::clone(context))?;
        let encoder = Arc::clone(encoder);
        tasks.spawn(async move { (partition, ingest_stream(encoder, stream).await) });
    }
    let mut ingested: Vec<Option<Ingested>> = (0..partitions).map(|_| None).collect();
    while let Some(result) = tasks.join_next().await {
        let (partition, result) = joined(result.map(Ok))?;
        ingested[partition] = Some(result?);
    }
    let mut chunks = Vec::new();
    let mut tails = Chunker::new(encoder.chunk_rows);
    for Ingested { chunks: full, rest } in ingested.into_iter().flatten() {
        chunks.extend(full);
        rest.into_iter().for_each(|batch| tails.push(batch));
        if keep_order {
            let tail = std::mem::replace(&mut tails, Chunker::new(encoder.chunk_rows));
            chunks.extend(encode_rest(encoder, tail).await?);
        }
    }
    chunks.extend(encode_rest(encoder, tails).await?);
    Ok(chunks)
}

/// Encodes all rows of a chunker.
pub(crate) async fn encode_rest(
    encoder: &Arc<ChunkEncoder>,
    mut chunker: Chunker,
) -> Result<Vec<EncodedChunk>> {
    let mut chunks: Vec<Vec<RecordBatch>> = std::iter::from_fn(|| chunker.pop()).collect();
    chunks.extend(chunker.rest());
    let encoder = Arc::clone(encoder);
    on_pool(move || chunks.par_iter().map(|batches| encoder.encode(batches)).collect()).await
}
