//! Reads a build side into memory, up to the limit of the pool.

use arrow::record_batch::RecordBatch;
use datafusion::common::Result;
use datafusion::common::utils::memory::{RecordBatchMemoryCounter, estimate_memory_size};
use datafusion::config::ConfigOptions;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, stream};

use super::SpillPolicy;

/// Rows of a build side, with the memory of their batches and of their hash table.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) batches: Vec<RecordBatch>,
    pub(super) rows: usize,
    pub(super) reservation: MemoryReservation,
}

/// A build side after it was read.
pub(super) enum Collected {
    /// All of it is held.
    Whole(Held),
    /// The rest does not fit.
    Part(Held, Rest),
}

/// The rows of a build side that are not in memory: one batch, and those that have not been read yet.
pub(super) struct Rest {
    first: RecordBatch,
    following: SendableRecordBatchStream,
}

impl Rest {
    /// All of its rows.
    pub(super) fn rows(self) -> SendableRecordBatchStream {
        let schema = self.following.schema();
        let first = stream::iter([Ok(self.first)]);
        let rows = first.chain(self.following);
        Box::pin(RecordBatchStreamAdapter::new(schema, rows))
    }
}

/// The size of the hash table of a join.
#[derive(Debug, Clone, Copy)]
pub(super) struct TableSize {
    /// Entries beside rows, and entries for each row, of an array that is indexed by a number; `None` for a
    /// hash table.
    array: Option<(usize, f64)>,
}

impl TableSize {
    pub(super) fn of(join: &HashJoinExec, options: &ConfigOptions) -> Self {
        let execution = &options.execution;
        let indexed = match join.on() {
            [(key, _)] => {
                let data_type = key.data_type(&join.left().schema());
                data_type.is_ok_and(|data_type| data_type.is_integer())
            }
            _ => false,
        };
        let threshold = execution.perfect_hash_join_small_build_threshold;
        let density = execution.perfect_hash_join_min_key_density;
        Self {
            array: indexed.then(|| (threshold.saturating_add(1), 1.0 + 1.0 / density.max(1e-3))),
        }
    }

    /// Bytes of a table of that number of rows, including a bit for each row that has found a match.
    pub(super) fn bytes(self, rows: usize) -> usize {
        // As the hash join estimates it. The list of rows with equal hashes, which it does not count, is 4
        // bytes for each row.
        let hashed = estimate_memory_size::<(u32, u64)>(rows, SpillPolicy::DEFAULT.fixed_table_bytes);
        let hashed = hashed.unwrap_or(usize::MAX).saturating_add(4 * rows);
        let indexed = self.array.map_or(0, |(beside, each)| {
            let entries = beside.saturating_add((rows as f64 * each) as usize);
            entries.saturating_mul(4)
        });
        hashed.max(indexed).saturating_add(rows.div_ceil(8))
    }
}

/// Reads rows until they and their hash table exceed the pool; at least `least` bytes in any case.
pub(super) async fn collect(
    mut input: SendableRecordBatchStream,
    reservation: MemoryReservation,
    table: TableSize,
    least: usize,
) -> Result<Collected> {
    let mut counter = RecordBatchMemoryCounter::new();
    let mut held = Held {
        batches: Vec::new(),
        rows: 0,
        reservation,
    };
    while let Some(batch) = input.next().await {
        let batch = batch?;
        counter.count_batch(&batch);
        let rows = held.rows + batch.num_rows();
        let wanted = counter.memory_usage().saturating_add(table.bytes(rows));
        if wanted <= least {
            held.reservation.resize(wanted);
        } else if held.reservation.try_resize(wanted).is_err() {
            let rest = Rest {
                first: batch,
                following: input,
            };
            return Ok(Collected::Part(held, rest));
        }
        held.rows = rows;
        held.batches.push(batch);
    }
    Ok(Collected::Whole(held))
}

/// A piece of a build side that is joined by itself, and the rest: at least one batch, regardless of the
/// pool.
pub(super) fn piece(held: Held, rest: Rest, table: TableSize) -> (Held, SendableRecordBatchStream) {
    if !held.batches.is_empty() {
        return (held, rest.rows());
    }
    let rows = rest.first.num_rows();
    // Columns of a batch that was read from a file share a buffer.
    let bytes = RecordBatchMemoryCounter::new().count_batch(&rest.first);
    held.reservation.resize(bytes.saturating_add(table.bytes(rows)));
    let held = Held {
        batches: vec![rest.first],
        rows,
        reservation: held.reservation,
    };
    (held, rest.following)
}
