//! The rows of partitioned sides, copied next to each other for the second pass of a Triton join.

use super::error::Failure;
use super::source::entries;
use crate::device::{DeviceRuntime, QueryStreams, RunError};
use crate::joins::build_table::{BuiltTable, SideRows};
use crate::report::RunReport;
use crate::rows::columns::{Allocator, WORD_ROWS};
use crate::rows::partitions::PartitionedRows;
use galatea_codegen::build_plan::PartitionPlan;
use galatea_store::TableView;
use std::iter::Peekable;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use std::vec::IntoIter;

/// Rows of one partition that are read at once: a range of rows of each batch, by number of the batch.
pub(super) type Piece = Vec<(usize, Range<u64>)>;

/// Number of rows of these pieces.
pub(super) fn rows_of(pieces: &[Piece]) -> u64 {
    let ranges = pieces.iter().flatten();
    ranges.map(|(_, rows)| rows.end - rows.start).sum()
}

/// One side of a join, or the rows of groups, partitioned.
pub(super) struct PartitionedSide {
    /// The rows of each batch by partition.
    pub(super) batches: Arc<Vec<BuiltTable>>,
    pub(super) plan: PartitionPlan,
    /// Number of rows in all partitions.
    pub(super) rows: u64,
    pub(super) report: RunReport,
    /// Time until all batches were partitioned.
    pub(super) elapsed: Duration,
    /// The build sides that its rows looked up.
    pub(super) sides: Vec<SideRows>,
}

/// Rows that were copied next to each other.
pub(super) struct Gathered {
    pub(super) table: BuiltTable,
    /// Number of rows by range, with the gaps between two ranges.
    chunk_rows: Vec<u32>,
    /// Bytes that were read from the host.
    link_bytes: u64,
}

/// The rows of a batch by partition.
fn partitions(batch: &BuiltTable) -> &PartitionedRows {
    let Some(rows) = batch.partitions() else {
        unreachable!("a batch has rows in partitions");
    };
    rows
}

impl PartitionedSide {
    /// The rows of a partition in pieces of at most `bytes` bytes; one piece at least.
    pub(super) fn pieces(&self, partition: usize, bytes: u64) -> Vec<Piece> {
        let row_bytes = self.plan.bytes(WORD_ROWS).div_ceil(WORD_ROWS).max(1);
        self.pieces_of_rows(partition, bytes / row_bytes)
    }

    /// The rows of a partition in pieces of at most `most` rows; one piece at least.
    pub(super) fn pieces_of_rows(&self, partition: usize, most: u64) -> Vec<Piece> {
        let most = (most / WORD_ROWS).max(1) * WORD_ROWS;
        let mut pieces = vec![Piece::new()];
        let mut held = 0;
        for (number, batch) in self.batches.iter().enumerate() {
            let rows = partitions(batch);
            let mut first = rows.first(partition);
            let end = first + rows.counted()[partition];
            while first < end {
                if held >= most {
                    pieces.push(Piece::new());
                    held = 0;
                }
                let last = end.min(first + (most - held));
                if let Some(piece) = pieces.last_mut() {
                    piece.push((number, first..last));
                }
                held = (held + last - first).next_multiple_of(WORD_ROWS);
                first = last;
            }
        }
        pieces
    }

    /// Releases the memory of the partitions up to this one.
    pub(super) fn discard(&self, partition: usize) {
        for batch in &*self.batches {
            let rows = partitions(batch);
            let end = rows.first(partition) + rows.counted()[partition];
            rows.discard_before(&self.plan.columns, end);
        }
    }
}

impl Gathered {
    /// Queues the copies of a piece.
    fn new(
        runtime: &DeviceRuntime,
        streams: &QueryStreams,
        plan: &PartitionPlan,
        batches: &[BuiltTable],
        piece: &Piece,
    ) -> Result<Self, RunError> {
        let allocator = Allocator {
            runtime,
            stream: &streams.transfer[0],
            owner: batches.first().map_or(0, |batch| partitions(batch).owner()),
            what: "rows of a partition",
        };
        let ranges = piece
            .iter()
            .map(|(batch, rows)| (partitions(&batches[*batch]), rows.clone()));
        let ranges: Vec<_> = ranges.collect();
        let (rows, link_bytes) = PartitionedRows::gathered(&allocator, &plan.columns, &ranges)?;
        let mut table = BuiltTable::of_partitions(plan.build_side(), rows);
        let numbers = ranges.iter().map(|(_, rows)| rows.end - rows.start);
        table.rows = numbers.clone().sum();
        table.park();
        // Ranges have fewer rows than their sum, which is a valid number of rows.
        let chunk_rows = numbers.flat_map(|rows| [rows, rows.next_multiple_of(WORD_ROWS) - rows]);
        Ok(Self {
            table,
            chunk_rows: chunk_rows.map(|rows| rows as u32).collect(),
            link_bytes,
        })
    }

    /// A view of the rows. It reports `all` rows, those of the whole side, so that one kernel is bound for
    /// all pieces.
    pub(super) fn view(&self, all: u64) -> Result<(TableView, Vec<usize>), RunError> {
        let view = TableView {
            rows: all,
            chunk_rows: self.chunk_rows.clone(),
            ..entries(0)?
        };
        let with_rows = |chunk: &usize| self.chunk_rows[*chunk] > 0;
        let chunks = (0..self.chunk_rows.len()).step_by(2).filter(with_rows);
        Ok((view, chunks.collect()))
    }
}

/// The copies of the pieces of one or several sides, in the order of their use. The copies of the next piece
/// are queued while the current one is used.
pub(super) struct Pieces {
    runtime: Arc<DeviceRuntime>,
    streams: Arc<QueryStreams>,
    /// The number of the side of each piece and its ranges.
    left: Peekable<IntoIter<(usize, Piece)>>,
    sides: Vec<(Arc<Vec<BuiltTable>>, PartitionPlan)>,
    next: Option<tokio::task::JoinHandle<Result<Gathered, RunError>>>,
    link_bytes: u64,
}

impl Pieces {
    /// The pieces of these sides, as `left` lists them, each with the number of its side.
    pub(super) fn new(
        runtime: Arc<DeviceRuntime>,
        streams: QueryStreams,
        partitioned: &[PartitionedSide],
        left: Vec<(usize, Piece)>,
    ) -> Self {
        let sides = partitioned.iter();
        Self {
            runtime,
            streams: Arc::new(streams),
            left: left.into_iter().peekable(),
            sides: sides
                .map(|side| (Arc::clone(&side.batches), side.plan.clone()))
                .collect(),
            next: None,
            link_bytes: 0,
        }
    }

    /// Queues the copies of a piece on another thread.
    fn begin(&self, side: usize, piece: Piece) -> tokio::task::JoinHandle<Result<Gathered, RunError>> {
        let (batches, plan) = self.sides[side].clone();
        let (runtime, streams) = (Arc::clone(&self.runtime), Arc::clone(&self.streams));
        tokio::task::spawn_blocking(move || Gathered::new(&runtime, &streams, &plan, &batches, &piece))
    }

    /// The next piece, and the begin of the one after it.
    pub(super) async fn next(&mut self) -> Result<Gathered, Failure> {
        let Some((side, piece)) = self.left.next() else {
            unreachable!("a piece for each run");
        };
        let begun = match self.next.take() {
            Some(begun) => begun.await,
            None => self.begin(side, piece.clone()).await,
        };
        let ended = |error: tokio::task::JoinError| RunError::Ended(error.to_string());
        let gathered = match begun.map_err(ended)? {
            // The piece before it has used the memory, and has ended.
            Err(error) if error.wants_memory() => self.begin(side, piece).await.map_err(ended)?,
            outcome => outcome,
        }?;
        self.link_bytes += gathered.link_bytes;
        let following = self.left.peek().cloned();
        self.next = following.map(|(side, piece)| self.begin(side, piece));
        Ok(gathered)
    }

    /// Returns the streams after the last piece.
    pub(super) fn finish(self) -> u64 {
        if let Some(streams) = Arc::into_inner(self.streams) {
            self.runtime.give_streams(streams);
        }
        self.link_bytes
    }
}
