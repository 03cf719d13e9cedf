//! Partitions the rows of a side into spill files by a hash of the join keys.

use std::sync::Arc;

use arrow::array::{RecordBatch, UInt32Array};
use arrow::compute::BatchCoalescer;
use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::common::hash_utils::{RandomState, create_hashes};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::spill_file::SpillFile;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_plan::SpillManager;
use futures::StreamExt;

use super::SpillPolicy;
use super::source::held_rows;

/// First seed of the hashes of each level; it differs from those of `RepartitionExec` and the hash join.
const SEED: u64 = 0x6761_6c61_7465_6121;

/// A side of the join: its keys and its files.
pub(super) struct Side {
    pub(super) keys: Vec<PhysicalExprRef>,
    pub(super) files: SpillManager,
}

/// Rows of a side in a file, which is deleted with the last clone.
#[derive(Clone)]
pub(super) struct Bucket {
    file: Arc<dyn SpillFile>,
    pub(super) rows: usize,
}

/// The buckets of a side; those without rows have no file.
pub(super) type Buckets = Vec<Option<Bucket>>;

impl Side {
    pub(super) fn schema(&self) -> &SchemaRef {
        self.files.schema()
    }

    /// Partitions rows by a hash of their keys, a different one at each level.
    pub(super) async fn divide(&self, mut input: SendableRecordBatchStream, level: u64) -> Result<Buckets> {
        let count = SpillPolicy::DEFAULT.buckets;
        let state = RandomState::with_seed(SEED.wrapping_add(level));
        let mut writers: Vec<BucketWriter> = (0..count).map(|_| BucketWriter::new(self)).collect();
        let mut hashes = Vec::new();
        let mut places: Vec<Vec<u32>> = vec![Vec::new(); count];
        while let Some(batch) = input.next().await {
            let batch = batch?;
            hashes.clear();
            hashes.resize(batch.num_rows(), 0);
            let keys = self.keys.iter();
            let keys = keys.map(|key| key.evaluate(&batch)?.into_array(batch.num_rows()));
            let keys = keys.collect::<Result<Vec<_>>>()?;
            create_hashes(&keys, &state, &mut hashes)?;
            for (row, hash) in hashes.iter().enumerate() {
                let bucket = (hash >> 32) as usize % count;
                places[bucket].push(u32::try_from(row).unwrap_or(u32::MAX));
            }
            for (rows, writer) in places.iter_mut().zip(&mut writers) {
                if !rows.is_empty() {
                    writer.push(&batch, &UInt32Array::from(std::mem::take(rows)))?;
                }
            }
        }
        writers.into_iter().map(BucketWriter::finish).collect()
    }

    /// Writes rows to one file.
    pub(super) async fn keep(&self, mut input: SendableRecordBatchStream) -> Result<Option<Bucket>> {
        let mut writer = BucketWriter::new(self);
        while let Some(batch) = input.next().await {
            writer.push_all(batch?)?;
        }
        writer.finish()
    }

    /// The rows of a bucket.
    pub(super) fn read(&self, bucket: Option<&Bucket>) -> Result<SendableRecordBatchStream> {
        match bucket {
            Some(bucket) => self
                .files
                .read_spill_as_stream_unbuffered(Arc::clone(&bucket.file), None),
            None => Ok(held_rows(Vec::new(), Arc::clone(self.schema()))),
        }
    }
}

/// Appends a batch to a file; without one, ends the file.
type Append = dyn FnMut(Option<&RecordBatch>) -> Result<Option<Arc<dyn SpillFile>>> + Send;

/// Writes a bucket.
struct BucketWriter {
    files: SpillManager,
    buffered: BatchCoalescer,
    append: Option<Box<Append>>,
    rows: usize,
}

impl BucketWriter {
    fn new(side: &Side) -> Self {
        let schema = Arc::clone(side.schema());
        Self {
            files: side.files.clone(),
            buffered: BatchCoalescer::new(schema, SpillPolicy::DEFAULT.buffered_rows),
            append: None,
            rows: 0,
        }
    }

    fn push(&mut self, batch: &RecordBatch, rows: &UInt32Array) -> Result<()> {
        let taken = arrow::compute::take_record_batch(batch, rows)?;
        self.push_all(taken)
    }

    fn push_all(&mut self, batch: RecordBatch) -> Result<()> {
        self.rows += batch.num_rows();
        self.buffered.push_batch(batch)?;
        self.write()
    }

    /// Writes the batches that are complete.
    fn write(&mut self) -> Result<()> {
        while let Some(batch) = self.buffered.next_completed_batch() {
            let append = match &mut self.append {
                Some(append) => append,
                none => {
                    let mut file = self.files.create_in_progress_file("spilling a hash join")?;
                    none.insert(Box::new(move |batch| match batch {
                        Some(batch) => file.append_batch(batch).map(|_| None),
                        None => file.finish(),
                    }))
                }
            };
            append(Some(&batch))?;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Option<Bucket>> {
        self.buffered.finish_buffered_batch()?;
        self.write()?;
        let file = match &mut self.append {
            Some(append) => append(None)?,
            None => None,
        };
        Ok(file.map(|file| Bucket {
            file,
            rows: self.rows,
        }))
    }
}
